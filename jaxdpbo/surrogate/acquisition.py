"""Acquisition functions: what one more batch of points is worth.

Gradient information (Sopa et al. 2025, section 3.1): ``alpha(z; D, theta) = Tr(grad k_{D u z}(theta, theta) grad^T)``,
to be minimised. With ``D`` and ``theta`` fixed and ``W = (K + noise)^-1 grad k(theta, D)^T`` known,

  ``C = grad k(theta, z) - W^T k(D, z)``                               ``(d, b)``
  ``S = k(z, z) + noise - k(z, D) (K + noise)^-1 k(D, z)``             ``(b, b)``
  ``alpha(z) = Tr(grad k_D grad^T) - Tr(C S^-1 C^T)``,

so only a ``b x b`` block is factored while ``z`` moves. The gradient is written out rather than differentiated
through the factorisation: with ``V = S^-1 C^T`` and ``P = (K + noise)^-1 k(D, z)``,

  ``d Tr(C S^-1 C^T) = 2 <V, d grad k(theta, z)^T> - <V V^T, d(k(z, z) + noise)> + <2 (P V - W) V^T, d k(D, z)>``,

and only the kernel itself is left to automatic differentiation.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from jaxdpbo.surrogate import gp, gradient


class GradientBelief(NamedTuple):
    """What is known of the gradient at ``theta (d,)`` before a batch: the posterior and its ``weights (m, d)``."""

    theta: jax.Array
    posterior: gp.Posterior
    weights: jax.Array


def gradient_belief(prior: gp.Prior, posterior: gp.Posterior, theta: jax.Array) -> GradientBelief:
    """All that does not move with the batch."""
    return GradientBelief(theta, posterior, gradient.weights(prior, posterior, theta))


def information_gain(prior: gp.Prior, belief: GradientBelief, points: jax.Array, mask: jax.Array) -> jax.Array:
    """``Tr(C S^-1 C^T)``, by how much ``points (b, d)`` where ``mask (b,)`` lower the trace. A scalar."""
    cross, block, known = _blocks(prior, belief, points, mask)
    factor, deviation, _ = _factor(belief, cross, block, known)
    return jnp.sum(jnp.square(solve_triangular(factor, deviation, lower=True)))


def information_gain_and_gradient(
    prior: gp.Prior, belief: GradientBelief, points: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """``information_gain`` and its gradient ``(b, d)`` in the points; zero rows where the mask is False."""

    def blocks(points):
        return _blocks(prior, belief, points, mask)

    (cross, block, known), pull_back = jax.vjp(blocks, points)
    factor, deviation, half = _factor(belief, cross, block, known)
    v = cho_solve((factor, True), deviation)  # (b, d)
    p = gp.matmul(belief.posterior.whitening.T, half)  # (m, b)
    on_known = 2.0 * gp.matmul(gp.matmul(p, v) - belief.weights, v.T)
    (slope,) = pull_back((2.0 * v, -gp.matmul(v, v.T), on_known))
    return jnp.sum(v * deviation), slope


def _blocks(prior, belief, points, mask):
    """The three blocks that move with the points: ``(b, d)``, ``(b, b)``, ``(m, b)``."""
    cross = gp.masked(mask, gradient.cross(prior, belief.theta, points))
    known = jnp.where(mask[None, :], gp.cross_covariance(prior, belief.posterior, points), 0.0)
    return cross, gp.covariance(prior, points, mask), known


def _factor(belief, cross, block, known):
    """Cholesky factor of ``S``, ``C^T`` and ``L^-1 k(D, z)``."""
    half = gp.whiten(belief.posterior, known)
    factor = jnp.linalg.cholesky(block - gp.matmul(half.T, half), symmetrize_input=False)
    return factor, cross - gp.matmul(known.T, belief.weights), half

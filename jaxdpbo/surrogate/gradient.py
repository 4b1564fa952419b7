"""Posterior of the gradient of a Gaussian process at one point, which is Gaussian too.

Sopa et al. (2025), section 2.4: given evaluations at ``D``,
``grad f(theta) ~ N(grad k(theta, D) K^-1 f(D), grad k_D(theta, theta) grad^T)``.
The mean is linear in the values, so one ``(m, d)`` matrix of weights serves all users.

A batch ``z`` minimises the remaining uncertainty, ``alpha(z; D, theta) = Tr(grad k_{D u z}(theta, theta) grad^T)``
(section 3.1). With ``D`` and ``theta`` fixed and ``W = (K + noise)^-1 grad k(theta, D)^T`` known,

  ``C = grad k(theta, z) - W^T k(D, z)``                               ``(d, b)``
  ``S = k(z, z) + noise - k(z, D) (K + noise)^-1 k(D, z)``             ``(b, b)``
  ``alpha(z) = Tr(grad k_D grad^T) - Tr(C S^-1 C^T)``,

so only a ``b x b`` block is factored while ``z`` moves. The gradient is written out rather than differentiated
through the factorisation: with ``V = S^-1 C^T`` and ``P = (K + noise)^-1 k(D, z)``,

  ``d Tr(C S^-1 C^T) = 2 <V, d grad k(theta, z)^T> - <V V^T, d(k(z, z) + noise)> + <2 (P V - W) V^T, d k(D, z)>``,

and only the kernel itself is left to automatic differentiation. A search computes this gradient dozens of times a step.
So a point of ``z`` is a row of every array, and no product transposes a matrix; the kernel is computed around
``theta``, where ``z`` lies.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular

from jaxdpbo.surrogate import gp, kernels
from jaxdpbo.surrogate.entry import compiled, expect_shapes


def cross(model: gp.GPModel, theta: jax.Array, points: jax.Array) -> jax.Array:
    """Covariance ``grad_theta k(theta, points)`` of the gradient with the values, shape ``(p, d)``."""
    return jax.vmap(jax.grad(model.kernel, argnums=1), in_axes=(None, None, 0))(model.params, theta, points)


def prior_covariance(model: gp.GPModel, theta: jax.Array) -> jax.Array:
    """Prior covariance ``grad k(theta, theta) grad^T`` of the gradient, shape ``(d, d)``."""
    return jax.jacfwd(jax.grad(model.kernel, argnums=1), argnums=2)(model.params, theta, theta)


def weights(model: gp.GPModel, factorization: gp.Factorization, theta: jax.Array) -> jax.Array:
    """Weights ``W = (K + noise)^-1 [grad k(theta, D)]^T``, shape ``(m, d)``; zero rows where nothing was evaluated.

    ``W.T @ values`` is the posterior mean of the gradient at ``theta (d,)``, for values ``(m,)`` or ``(m, n)``.
    """
    return gp.solve(factorization, _cross_evaluated(model, factorization, theta))


def _cross_evaluated(model, factorization, theta):
    """``cross`` with the evaluated points ``(m, d)``; zero rows where nothing was evaluated."""
    expect_shapes(evaluated=(factorization.points, "m d"), theta=(theta, "d"))
    evaluated = gp.mask_rows(factorization.mask, factorization.points)
    return gp.mask_rows(factorization.mask, cross(model, theta, evaluated))


def mean_gradients(
    model: gp.GPModel, points: jax.Array, mask: jax.Array, theta: jax.Array, values: jax.Array
) -> jax.Array:
    """Posterior-mean gradients ``(d, n)`` of ``n`` functions, from ``values (b, n)`` at ``points`` alone."""
    return gp.matmul(weights(model, gp.condition(model, points, mask), theta).T, values)


@compiled()
def gradient_covariance(model: gp.GPModel, factorization: gp.Factorization, theta: jax.Array) -> jax.Array:
    """Posterior covariance ``(d, d)`` of the gradient at ``theta (d,)``. Depends on no value.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 2), jnp.asarray(0.1))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0, 0.0], [1.0, 0.0]]))
    >>> covariance = surrogate.gradient_covariance(model, factorization, jnp.zeros(2))
    >>> covariance.shape, bool(covariance[0, 0] < covariance[1, 1])  # the points differ in the first coordinate
    ((2, 2), True)

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    half = gp.whiten(factorization, _cross_evaluated(model, factorization, theta))
    return prior_covariance(model, theta) - gp.matmul(half.T, half)


def gradient_information(model: gp.GPModel, factorization: gp.Factorization, theta: jax.Array) -> jax.Array:
    """Remaining uncertainty ``Tr(grad k_D(theta, theta) grad^T)`` of the gradient at ``theta``, a scalar.

    The bias of the gradient estimate is at most the RKHS norm of a loss times the root of this trace (Lemma A.2).

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0], [1.0]]))
    >>> surrogate.gradient_information(model, factorization, jnp.zeros(1)).shape
    ()

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    return jnp.trace(gradient_covariance(model, factorization, theta))


class GradientPosterior(NamedTuple):
    """Posterior of the gradient at ``theta (d,)`` before a batch: the factorization and the ``weights (m, d)``."""

    theta: jax.Array
    factorization: gp.Factorization
    weights: jax.Array


@compiled()
def gradient_posterior(model: gp.GPModel, factorization: gp.Factorization, theta: jax.Array) -> GradientPosterior:
    """Compute everything about the gradient at ``theta (d,)`` that does not depend on the values or on the next batch.

    ``posterior.weights.T @ values`` is the posterior mean ``(d,)``, for values ``(m,)`` with zeros in masked rows.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0], [1.0]]))
    >>> posterior = surrogate.gradient_posterior(model, factorization, jnp.zeros(1))
    >>> (posterior.weights.T @ jnp.array([0.0, 1.0])).shape
    (1,)

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    return GradientPosterior(theta, factorization, weights(model, factorization, theta))


def information_gain(model: gp.GPModel, posterior: GradientPosterior, points: jax.Array, mask: jax.Array) -> jax.Array:
    """Reduction ``Tr(C S^-1 C^T)`` of the trace by ``points (b, d)`` where ``mask (b,)``. A scalar."""
    factor, deviation, _ = _factor(posterior, *_blocks(model, posterior, points, mask))
    return jnp.sum(jnp.square(solve_triangular(factor, deviation, lower=True)))


def information_gain_and_gradient(
    model: gp.GPModel, posterior: GradientPosterior, points: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """``information_gain`` and its gradient ``(b, d)`` in the points; zero rows where the mask is False."""

    def blocks(points):
        return _blocks(model, posterior, points, mask)

    block_values, pull_back = jax.vjp(blocks, points)
    factor, deviation, half = _factor(posterior, *block_values)
    v = cho_solve((factor, True), deviation)  # (b, d)
    square = gp.matmul(v, v.T)
    solved = gp.matmul(half, posterior.factorization.whitening)  # (b, m): P^T
    on_known = 2.0 * (gp.matmul(square, solved) - gp.matmul(v, posterior.weights.T))
    (slope,) = pull_back((2.0 * v, -square, on_known))
    return jnp.sum(v * deviation), slope


def _blocks(model, posterior, points, mask):
    """The three blocks that depend on the points: ``(b, d)``, ``(b, b)``, ``(b, m)``."""
    points = gp.mask_rows(mask, points)

    def point_blocks(others, others_mask):
        others = gp.mask_rows(others_mask, others)
        gram = kernels.gram_around(model.kernel, model.params, posterior.theta, points, others)
        return jnp.where(mask[:, None] & others_mask[None, :], gram, 0.0)

    evaluated = posterior.factorization
    covariances = gp.mask_rows(mask, cross(model, posterior.theta, points))
    noise = jnp.diag(jnp.where(mask, gp.noise(model, points), 1.0))
    return covariances, point_blocks(points, mask) + noise, point_blocks(evaluated.points, evaluated.mask)


def _factor(posterior, cross, block, cross_block):
    """Cholesky factor of ``S``, ``C^T`` and the whitened ``k(z, D)``."""
    half = gp.matmul(cross_block, posterior.factorization.whitening.T)
    factor = jnp.linalg.cholesky(block - gp.matmul(half, half.T), symmetrize_input=False)
    return factor, cross - gp.matmul(cross_block, posterior.weights), half

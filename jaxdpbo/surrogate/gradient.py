"""The gradient of a Gaussian process is a Gaussian process: its posterior at one point.

Sopa et al. (2025), section 2.4: given evaluations at ``D``,
``grad f(theta) ~ N(grad k(theta, D) K^-1 f(D), grad k_D(theta, theta) grad^T)``.
The mean is linear in the values, so one ``(m, d)`` matrix of weights serves all users.
"""

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate import gp


def cross(prior: gp.Prior, theta: jax.Array, points: jax.Array) -> jax.Array:
    """``grad_theta k(theta, points)``, the covariance of the gradient with the values, shape ``(p, d)``."""
    return jax.vmap(jax.grad(prior.kernel, argnums=1), in_axes=(None, None, 0))(prior.params, theta, points)


def prior_covariance(prior: gp.Prior, theta: jax.Array) -> jax.Array:
    """``grad k(theta, theta) grad^T``, shape ``(d, d)``."""
    return jax.jacfwd(jax.grad(prior.kernel, argnums=1), argnums=2)(prior.params, theta, theta)


def weights(prior: gp.Prior, posterior: gp.Posterior, theta: jax.Array) -> jax.Array:
    """``W = (K + noise)^-1 [grad k(theta, D)]^T``, shape ``(m, d)``; zero rows where nothing was evaluated.

    ``W.T @ values`` is the posterior mean of the gradient at ``theta (d,)``, for values ``(m,)`` or ``(m, n)``.
    """
    return gp.solve(posterior, gp.masked(posterior.mask, cross(prior, theta, posterior.points)))


def covariance(prior: gp.Prior, posterior: gp.Posterior, theta: jax.Array) -> jax.Array:
    """Posterior covariance of the gradient at ``theta``, shape ``(d, d)``. Depends on no value."""
    half = gp.whiten(posterior, gp.masked(posterior.mask, cross(prior, theta, posterior.points)))
    return prior_covariance(prior, theta) - gp.matmul(half.T, half)


def gradient_information(prior: gp.Prior, posterior: gp.Posterior, theta: jax.Array) -> jax.Array:
    """``Tr(grad k_D(theta, theta) grad^T)``, a scalar: what is left to learn about the gradient at ``theta``.

    The bias of the gradient estimate is at most the RKHS norm of a loss times its square root (Lemma A.2).
    """
    return jnp.trace(covariance(prior, posterior, theta))

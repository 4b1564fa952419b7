"""Huber regression, Sopa et al. (2025), example 4.2.

``f(theta) = mean_i rho_c(y_i - x_i . theta) min(1, 2 / ||x_i||^2)`` with ``c = 1``. A gradient is at most
``c ||x|| min(1, 2 / ||x||^2)``, whose supremum is ``sqrt(2) c`` at ``||x||^2 = 2``: appendix C.2's "B = 1 (true value)"
is under it, so with B = 1 the clip does bind. Privacy does not depend on it.
"""

import jax
import jax.numpy as jnp
import optax

from jaxdpbo import checks

TRUE_COEFFICIENTS = (1.0, 1.0, 1.0, 1.0)


def sample(key: jax.Array, users: int) -> tuple[jax.Array, jax.Array]:
    """Covariates ``(n, 4)``, standard normal, and responses ``(n,)`` with standard normal noise."""
    users = checks.size("users", users)
    covariate_key, noise_key = jax.random.split(key)
    coefficients = jnp.asarray(TRUE_COEFFICIENTS)
    covariates = jax.random.normal(covariate_key, (users, coefficients.size))
    return covariates, covariates @ coefficients + jax.random.normal(noise_key, (users,))


def loss(theta: jax.Array, data: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Losses ``(n,)`` for covariates ``(n, d)`` and responses ``(n,)``."""
    covariates, responses = data
    weight = jnp.minimum(1.0, 2.0 / jnp.sum(jnp.square(covariates), axis=1))
    return optax.huber_loss(responses - covariates @ theta, delta=1.0) * weight


def loss_of_one(theta: jax.Array, record: tuple[jax.Array, jax.Array]) -> jax.Array:
    """The loss ``()`` of one record, covariates ``(d,)`` and response ``()``: for ``per_user``."""
    covariates, response = record
    weight = jnp.minimum(1.0, 2.0 / jnp.sum(jnp.square(covariates)))
    return optax.huber_loss(response - jnp.dot(covariates, theta), delta=1.0) * weight

"""Location of a normal model, Sopa et al. (2025), example 4.1: ``f(theta) = mean_i ||x_i - theta||^2 / 2``."""

import jax
import jax.numpy as jnp

from jaxdpbo import checks

TRUE_LOCATION = (1.0, 1.0, 1.0, 1.0, 1.0)


def sample(key: jax.Array, users: int) -> jax.Array:
    """Records ``(n, 5)``, independent ``N(TRUE_LOCATION, I)``."""
    users = checks.size("users", users)
    location = jnp.asarray(TRUE_LOCATION)
    return location[None] + jax.random.normal(key, (users, location.size))


def loss(theta: jax.Array, records: jax.Array) -> jax.Array:
    """``||x_i - theta||^2 / 2`` for records ``(n, d)``: losses ``(n,)``."""
    return 0.5 * jnp.sum(jnp.square(records - theta[None]), axis=1)


def loss_of_one(theta: jax.Array, record: jax.Array) -> jax.Array:
    """``||x - theta||^2 / 2 ()`` of one record ``(d,)``: for ``per_user``."""
    return 0.5 * jnp.sum(jnp.square(record - theta))


def minimiser(records: jax.Array) -> jax.Array:
    """The exact minimiser ``(d,)``, the mean of the records: not private."""
    return jnp.mean(records, axis=0)

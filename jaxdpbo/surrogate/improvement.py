"""Expected improvement."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm


def expected_improvement(mean: jax.Array, variance: jax.Array, best: jax.Array) -> jax.Array:
    """``E max(f - best, 0)`` for ``f`` normal with ``mean`` and ``variance``, elementwise, to be maximised.

    Mockus, Tiesis and Zilinskas (1978). ``max(mean - best, 0)`` where the variance is 0.
    """
    gain = mean - best
    deviation = jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
    z = gain / deviation
    return jnp.where(variance > 0, gain * norm.cdf(z) + deviation * norm.pdf(z), jnp.maximum(gain, 0.0))

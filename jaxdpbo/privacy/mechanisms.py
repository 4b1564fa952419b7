"""Mechanisms: what turns a statistic of bounded sensitivity into something that may be published."""

import jax
import jax.numpy as jnp


def gaussian(key: jax.Array, value: jax.Array, standard_deviation: jax.Array) -> jax.Array:
    """``value + standard_deviation Z``, ``Z`` standard normal (Dong et al. 2022, theorem 1).

    Formal guarantee: if neighbours move ``value`` by at most ``s`` in l2 norm, the result is
    ``s / standard_deviation``-GDP, for ideal real-number noise. Floating-point noise has gaps that identify the
    value by its last bits, so a guarantee that rests on this function says "ideal real-number noise".

    ====================  ===========================================
    standard_deviation    result
    ====================  ===========================================
    0                     ``value`` exactly: no privacy
    NaN or negative       not refused here: configs are checked on the host
    ====================  ===========================================

    Args:
      key: a typed key, used for this draw only.
      value: any shape, floating.
      standard_deviation: of each coordinate.

    Returns:
      The noised value, of the shape and dtype of ``value``.
    """
    deviation = jnp.asarray(standard_deviation, value.dtype)
    return value + deviation * jax.random.normal(key, value.shape, value.dtype)

"""Noise in floating point: fast, for research sweeps. Gaps identify the noised value: never release by this module."""

import jax
import jax.numpy as jnp

from jaxdpbo import checks
from jaxdpbo.sensitivity import between_scores

FLOOR = 500.0  # largest drop of an exponent below the best score's 0: exp(-500) is never drawn


def gaussian(key: jax.Array, value: jax.Array, standard_deviation: jax.Array | float) -> jax.Array:
    """Add ``standard_deviation Z`` to ``value``, ``Z`` standard normal (Dong et al. 2022, theorem 1).

    Formal guarantee: if neighbours move ``value`` by at most ``s`` in l2 norm, the result is
    ``s / standard_deviation``-GDP, for ideal real-number noise. Gaps of floating-point noise identify the value by
    its last bits, so a guarantee by this function says "ideal noise".

    ====================  ===========================================
    standard_deviation    result
    ====================  ===========================================
    0                     ``value`` exactly: no privacy
    NaN or negative       not refused here: configs are checked on the host
    ====================  ===========================================

    Args:
      key: a typed key, used for this draw only.
      value: any shape, float32 or float64.
      standard_deviation: of each coordinate.

    Returns:
      The noised value, of the shape and dtype of ``value``.

    Raises:
      TypeError: ``value`` is of another dtype, at trace time: bfloat16 noise has 128 values in all.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import mechanisms, secret_key
    >>> mechanisms.gaussian(secret_key(), jnp.zeros(3), 2.0).shape
    (3,)
    """
    checks.single_or_double("value", value)
    deviation = jnp.asarray(standard_deviation, value.dtype)
    return value + deviation * jax.random.normal(key, value.shape, value.dtype)


def laplace(key: jax.Array, value: jax.Array, scale: jax.Array | float) -> jax.Array:
    """Add ``scale L`` to ``value``, ``L`` of density ``exp(-|x|) / 2`` (Dwork et al. 2006; Kusner et al. 2015, def. 3).

    Formal guarantee: if neighbours move ``value`` by at most ``s`` in l1 norm, the result is ``s / scale``-DP, for
    ideal real-number noise. The standard deviation of the noise is ``sqrt(2) scale``.

    ====================  ===========================================
    scale                 result
    ====================  ===========================================
    0                     ``value`` exactly: no privacy
    NaN or negative       not refused here: configs are checked on the host
    ====================  ===========================================

    Args:
      key: a typed key, used for this draw only.
      value: any shape, float32 or float64.
      scale: of each coordinate.

    Returns:
      The noised value, of the shape and dtype of ``value``.

    Raises:
      TypeError: ``value`` is of another dtype, at trace time: bfloat16 noise has 128 values in all.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import mechanisms, secret_key
    >>> mechanisms.laplace(secret_key(), jnp.zeros(3), 2.0).shape
    (3,)
    """
    checks.single_or_double("value", value)
    return value + jnp.asarray(scale, value.dtype) * jax.random.laplace(key, value.shape, value.dtype)


def exponential(
    key: jax.Array, scores: jax.Array, epsilon: jax.Array | float, sensitivity: jax.Array | float
) -> jax.Array:
    """Draw a row with probability proportional to ``exp(epsilon score / (2 sensitivity))``.

    McSherry and Talwar (2007); Kusner et al. (2015), definition 4. The higher the score, the likelier the row.

    Formal guarantee: if neighbours move each of the ``scores`` by at most ``sensitivity``, the result is
    ``epsilon``-DP, for ideal real-number noise.

    ==============================  =======================================================================
    scores                          result
    ==============================  =======================================================================
    equal, or all not finite        every row equally likely
    a score not finite              counts as ``FLOOR`` below the best, in units of the exponent
    further below than ``FLOOR``    counts as ``FLOOR`` below, and no score moves by more than before
    ==============================  =======================================================================

    Args:
      key: a typed key, used for this draw only.
      scores: ``(c,)``, float32 or float64.
      epsilon: positive.
      sensitivity: positive.

    Returns:
      The row ``()``, an integer.

    Raises:
      TypeError: ``scores`` are of another dtype, at trace time.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import mechanisms, secret_key
    >>> int(mechanisms.exponential(secret_key(), jnp.array([0.0, 0.0, 900.0]), epsilon=1.0, sensitivity=1.0))
    2
    """
    checks.single_or_double("scores", scores)
    return jax.random.categorical(key, _exponents(scores, epsilon, sensitivity), mode="high")


def exponential_log_probabilities(
    scores: jax.Array, epsilon: jax.Array | float, sensitivity: jax.Array | float
) -> jax.Array:
    """Return the log-probabilities ``(c,)`` of ``exponential``'s rows, always finite. Raw, not private."""
    return jax.nn.log_softmax(_exponents(scores, epsilon, sensitivity))


def _exponents(scores: jax.Array, epsilon: jax.Array | float, sensitivity: jax.Array | float) -> jax.Array:
    """Up to a constant: a logarithm of probabilities would round small differences away."""
    finite = jnp.isfinite(scores)
    best = jnp.max(jnp.where(finite, scores, -jnp.inf))
    below = jnp.where(finite, scores, best) - best  # -inf where the difference is beyond the floats
    exponents = jnp.where(finite, jnp.maximum(below * (epsilon / between_scores(sensitivity)), -FLOOR), -FLOOR)
    return jnp.where(jnp.any(finite), exponents, 0.0)

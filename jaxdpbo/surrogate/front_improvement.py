"""How much a point is expected to improve a Pareto front of two objectives that are minimised.

The objectives are independent normals of ``mean (2,)`` and ``deviation (2,)``; the front is given as
``pareto.strips``. All are to be maximised, and are 0 where nothing can be gained. Exact.
"""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from jaxdpbo.surrogate.pareto import Strips


def probability_of_improvement(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """That the point is not dominated, and below the reference (Couckuyt, Deschrijver and Dhaene 2014)."""
    left, right = (_below(edge, mean[0], deviation[0]) for edge in (strips.left, strips.right))
    return jnp.sum((right - left) * _below(strips.height, mean[1], deviation[1]))


def gained_hypervolume(value: jax.Array, strips: Strips) -> jax.Array:
    """By which a point of exactly ``value (2,)`` would enlarge what the front dominates."""
    width = jnp.maximum(strips.right - jnp.maximum(strips.left, value[0]), 0.0)
    return jnp.sum(width * jnp.maximum(strips.height - value[1], 0.0))


def hvpoi(mean: jax.Array, deviation: jax.Array, strips: Strips, gain: jax.Array) -> jax.Array:
    """What the mean would gain, times the probability of improvement: Avent et al. (2020), equation 6.

    The probability is the same in all increasing transforms of the objectives, the ``gain ()`` is not: it is
    ``gained_hypervolume`` of the mean in the units that count.
    """
    return gain * probability_of_improvement(mean, deviation, strips)


def log_hvpoi(mean: jax.Array, deviation: jax.Array, strips: Strips, gain: jax.Array) -> jax.Array:
    """``log hvpoi``, and where the mean gains nothing a large negative number that grows with the probability.

    ``hvpoi`` is 0 on plateaus that a climb would not leave.
    """
    return _log(probability_of_improvement(mean, deviation, strips)) + _log(gain)


def expected_hypervolume_improvement(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """``E gained_hypervolume`` (Yang, Emmerich, Deutz and Back 2019, for minimisation)."""
    below = _shortfall(strips.right, mean[0], deviation[0]) - _shortfall(strips.left, mean[0], deviation[0])
    return jnp.sum(below * _shortfall(strips.height, mean[1], deviation[1]))


def log_ehvi(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """``log expected_hypervolume_improvement``, finite."""
    return _log(expected_hypervolume_improvement(mean, deviation, strips))


def _log(value):
    return jnp.log(jnp.maximum(value, jnp.finfo(value.dtype).tiny))


def _below(edge, mean, deviation):
    """``P(Y < edge)``, with a gradient at an edge of -inf too."""
    finite = jnp.where(jnp.isneginf(edge), mean, edge)
    return jnp.where(jnp.isneginf(edge), 0.0, norm.cdf((finite - mean) / deviation))


def _shortfall(edge, mean, deviation):
    """``E max(edge - Y, 0)``."""
    finite = jnp.where(jnp.isneginf(edge), mean, edge)
    scaled = (finite - mean) / deviation
    value = (finite - mean) * norm.cdf(scaled) + deviation * norm.pdf(scaled)
    return jnp.where(jnp.isneginf(edge), 0.0, value)

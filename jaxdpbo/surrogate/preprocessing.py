"""Repair and standardise raw values for a surrogate. Nothing here is private."""

import jax
import jax.numpy as jnp

MAX_STANDARDIZED = 1e3  # standard units: larger distances from the prior's mean are clipped; no draw goes so far
LOGISTIC = 0.6  # scale of a logistic distribution with about the quantiles of a standard normal
FAILED = -3.0  # standard units: the value of a utility that is not finite


def finite_mean_loss(losses: jax.Array, mask: jax.Array) -> jax.Array:
    """Mean of ``losses (b, n)`` over the users with a finite loss, ``(b,)``.

    inf where no user's loss was finite, or where ``mask (b,)`` is False.
    """
    finite = jnp.isfinite(losses) & mask[:, None]
    counted = jnp.sum(finite, axis=1, dtype=losses.dtype)
    total = jnp.sum(jnp.where(finite, losses, 0), axis=1)
    return jnp.where(counted > 0, total / jnp.maximum(counted, 1), jnp.inf)


def repair(utilities: jax.Array, mask: jax.Array) -> jax.Array:
    """Replace non-finite ``utilities (m,)`` by the least finite utility, and masked ones by zero.

    A failed evaluation counts as a bad one, so that a search does not repeat it. All zeros where no utility is finite.
    """
    finite = mask & jnp.isfinite(utilities)
    least = jnp.min(jnp.where(finite, utilities, jnp.inf))
    least = jnp.where(jnp.isfinite(least), least, 0.0)
    return jnp.where(mask, jnp.where(finite, utilities, least), 0.0)


def to_standard_units(
    values: jax.Array,
    mask: jax.Array,
    centre: jax.Array,
    scale: jax.Array,
    limits: tuple[float, float] | jax.Array,
) -> jax.Array:
    """Convert ``values (b,)`` to standard units, ``(value - centre) / scale``, always finite and within ``limits``.

    A value that is not finite, or masked, counts as ``FAILED``: a bad value.
    """
    standard = (values.astype(scale.dtype) - centre) / scale
    return jnp.clip(jnp.where(mask & jnp.isfinite(standard), standard, FAILED), *limits)


def standardize(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Bring finite ``values (m,)`` to mean 0 and standard deviation 1; zeros where ``mask (m,)`` is False.

    All zeros where the values are equal. Values are first divided by the largest, to keep squares from overflowing.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo.surrogate import preprocessing
    >>> values, mask = jnp.array([1.0, 2.0, 3.0, 9.0]), jnp.array([True, True, True, False])
    >>> print(np.asarray(preprocessing.standardize(values, mask)).round(2))
    [-1.22  0.    1.22  0.  ]
    """
    largest = jnp.max(jnp.where(mask, jnp.abs(values), 0.0))
    scaled = jnp.where(mask, values / jnp.where(largest > 0, largest, 1.0), 0.0)
    count = jnp.maximum(jnp.sum(mask, dtype=scaled.dtype), 1)
    centred = jnp.where(mask, scaled - jnp.sum(scaled) / count, 0.0)
    deviation = jnp.sqrt(jnp.sum(jnp.square(centred)) / count)
    spread = deviation > 10 * jnp.finfo(values.dtype).eps  # less is rounding
    return jnp.where(spread, centred / jnp.where(spread, deviation, 1.0), 0.0)


def rank_lower_half(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Standardise finite ``values (m,)``, counting those below the median by their rank alone.

    The ranks become quantiles of a logistic distribution, in units of the scale above the median, so that a few very
    bad values do not hide differences among good ones; a normal sample stays about the same. Half-rank warping, with
    normal quantiles: Song et al. (2024), "The Vizier Gaussian process bandit algorithm".

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo.surrogate import preprocessing
    >>> values, mask = jnp.array([1.0, 2.0, 3.0, -1e9, -40.0]), jnp.ones(5, bool)
    >>> print(np.asarray(preprocessing.rank_lower_half(values, mask)).round(2))
    [-0.1   0.68  1.46 -1.43 -0.61]
    """
    total = jnp.maximum(jnp.sum(mask, dtype=jnp.int32), 1)
    below = jnp.sum((values[None, :] < values[:, None]) & mask[None, :], axis=1, dtype=jnp.int32)
    equal = jnp.sum((values[None, :] == values[:, None]) & mask[None, :], axis=1, dtype=jnp.int32)
    scaled = values / _or_one(jnp.max(jnp.where(mask, jnp.abs(values), 0.0)))  # so that no difference overflows
    low, high = (
        jnp.max(jnp.where(mask & (below <= rank), scaled, -jnp.inf)) for rank in ((total - 1) // 2, total // 2)
    )
    good, count = mask & (2 * below + equal >= total), total.astype(values.dtype)
    above = jnp.where(good, jnp.maximum(scaled - 0.5 * (low + high), 0.0), 0.0)
    above = above / _or_one(jnp.max(above))
    above = above / _or_one(jnp.sqrt(jnp.sum(jnp.square(above)) / jnp.maximum(jnp.sum(good, dtype=values.dtype), 1)))
    twice = jnp.where(mask & ~good, 2 * below + equal, total).astype(values.dtype)
    ranked = above + LOGISTIC * jnp.log(twice / (2.0 * count - twice))
    centred = jnp.where(mask, ranked - jnp.sum(ranked) / count, 0.0)
    return centred / _or_one(jnp.sqrt(jnp.sum(jnp.square(centred)) / count))


def _or_one(scale):
    """Return ``scale``, or 1 where the scale is 0."""
    return jnp.where(scale > 0, scale, 1.0)

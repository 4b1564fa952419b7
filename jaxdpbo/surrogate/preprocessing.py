"""Raw values made finite and standardised, for a surrogate. Nothing here is private."""

import jax
import jax.numpy as jnp

MAX_STANDARDIZED = 1e3  # standard units: as far from the prior's mean as anything counts, and as no draw of it is
LOGISTIC = 0.6  # of a logistic distribution whose quantiles are about those of a standard normal one
FAILED = -3.0  # standard units: what a utility that is no number counts as


def mean_loss(losses: jax.Array, mask: jax.Array) -> jax.Array:
    """The mean of ``losses (b, n)`` over the users whose loss is finite, ``(b,)``.

    inf where no user's loss was finite, or where ``mask (b,)`` is False.
    """
    finite = jnp.isfinite(losses) & mask[:, None]
    counted = jnp.sum(finite, axis=1, dtype=losses.dtype)
    total = jnp.sum(jnp.where(finite, losses, 0), axis=1)
    return jnp.where(counted > 0, total / jnp.maximum(counted, 1), jnp.inf)


def repair(utilities: jax.Array, mask: jax.Array) -> jax.Array:
    """``utilities (m,)`` with the least finite one where one is not finite, and zeros where ``mask (m,)`` is False.

    A failed evaluation counts as a bad one, so that a search does not repeat it. All zeros where none is finite.
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
    """``values (b,)`` in standard units, ``(value - centre) / scale``, finite and within ``limits``, whatever they are.

    One that is no number, or masked, counts as ``FAILED``: a bad one.
    """
    standard = (values.astype(scale.dtype) - centre) / scale
    return jnp.clip(jnp.where(mask & jnp.isfinite(standard), standard, FAILED), *limits)


def standardize(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Finite ``values (m,)`` less their mean, over their standard deviation; zeros where ``mask (m,)`` is False.

    All zeros where the values are equal. Values are first divided by the largest, so that no square overflows.

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
    """As ``standardize``, where those of the finite ``values (m,)`` below the median count by their rank alone.

    They become quantiles of a logistic distribution, in units of the spread above the median, so that a few very bad
    values do not hide how the good ones differ; a normal sample stays about as it was. Half-rank warping, with normal
    quantiles: Song et al. (2024), "The Vizier Gaussian process bandit algorithm".

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
    """1 where there is nothing to divide by."""
    return jnp.where(scale > 0, scale, 1.0)

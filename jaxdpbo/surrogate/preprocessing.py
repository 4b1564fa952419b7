"""Repair and standardise raw values for a surrogate. Nothing here is private."""

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate.entry import expect_shapes

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
    values, usable = values.astype(scale.dtype), mask & jnp.isfinite(values)
    standard = (jnp.where(usable, values, 0.0) - centre) / scale
    return jnp.clip(jnp.where(usable & jnp.isfinite(standard), standard, FAILED), *limits)


def standardize(values: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Bring finite ``values (m,)`` to mean 0 and standard deviation 1; zeros where ``mask (m,)`` is False.

    All zeros where the values are equal. Values are first divided by the largest, to keep squares from overflowing.
    Bring a posterior back by ``unstandardize``.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import surrogate
    >>> values, mask = jnp.array([1.0, 2.0, 3.0, 9.0]), jnp.array([True, True, True, False])
    >>> print(np.asarray(surrogate.standardize(values, mask)).round(2))
    [-1.22  0.    1.22  0.  ]

    Args:
      values: as observed.
      mask: None if all count.

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    centred, deviation, _, _ = _centre(values, mask)
    spread = deviation > 10 * jnp.finfo(values.dtype).eps  # less is rounding
    return jnp.where(spread, centred / jnp.where(spread, deviation, 1.0), 0.0)


def unstandardize(
    mean: jax.Array, variance: jax.Array, values: jax.Array, mask: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Bring a posterior ``mean (k,)`` and ``variance`` of ``standardize(values, mask)`` to the units of ``values``.

    The variance may be a covariance ``(k, k)``. Where the values are equal, the unit stays 1.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> values = jnp.array([10.0, 20.0, 30.0])
    >>> mean, _ = surrogate.unstandardize(surrogate.standardize(values), jnp.zeros(3), values)
    >>> [round(number) for number in mean.tolist()]
    [10, 20, 30]

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    _, deviation, centre, largest = _centre(values, mask)
    unit = jnp.where(deviation > 10 * jnp.finfo(values.dtype).eps, deviation * largest, 1.0)
    return centre * largest + unit * mean, jnp.square(unit) * variance


def _centre(values, mask):
    """The values divided by the largest and centred, their deviation and mean in this unit, and the largest."""
    expect_shapes(values=(values, "m"), **({} if mask is None else {"mask": (mask, "m")}))
    mask = jnp.ones(values.shape[0], bool) if mask is None else mask
    values = jnp.where(mask, values, 0.0)
    largest = _or_one(jnp.max(jnp.abs(values)))
    scaled = values / largest
    count = jnp.maximum(jnp.sum(mask, dtype=scaled.dtype), 1)
    centre = jnp.sum(scaled) / count
    centred = jnp.where(mask, scaled - centre, 0.0)
    return centred, square_root(jnp.sum(jnp.square(centred)) / count), centre, largest


def warp_inputs(points: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """Warp ``points (k, d)``, or a point ``(d,)``, of the unit box by Kumaraswamy's distribution ``1 - (1 - x^a)^b``.

    A stationary process of the warped points varies faster where the warp is steep: ``a < 1`` resolves small
    coordinates, ``b < 1`` large ones. Snoek, Swersky, Zemel and Adams (2014), "Input warping for Bayesian optimization
    of non-stationary functions", section 3.1, with this distribution in place of the beta. Fit ``a`` and ``b`` with
    ``kernels.warp``.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import surrogate
    >>> points = jnp.array([[0.01], [0.5], [1.0]])
    >>> print(np.asarray(surrogate.warp_inputs(points, a=jnp.array([0.5]), b=jnp.ones(1))).round(2))
    [[0.1 ]
     [0.71]
     [1.  ]]

    Args:
      points: points outside the box count as their nearest point in it.
      a: ``(d,)``, positive.
      b: ``(d,)``, positive.

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    expect_shapes(points=(points, "k d" if jnp.ndim(points) == 2 else "d"), a=(a, "d"), b=(b, "d"))
    margin = float(jnp.finfo(jnp.result_type(float, points)).eps)  # a power below 1 has no derivative at 0
    inside = jnp.clip(points, margin, 1.0 - margin)
    a, b = (a[None], b[None]) if jnp.ndim(points) == 2 else (a, b)
    return -jnp.expm1(b * jnp.log1p(-(inside**a)))


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
    values = jnp.where(mask, values, 0.0)
    total = jnp.maximum(jnp.sum(mask, dtype=jnp.int32), 1)
    below = jnp.sum((values[None, :] < values[:, None]) & mask[None, :], axis=1, dtype=jnp.int32)
    equal = jnp.sum((values[None, :] == values[:, None]) & mask[None, :], axis=1, dtype=jnp.int32)
    scaled = values / _or_one(jnp.max(jnp.abs(values)))  # so that no difference overflows
    low, high = (
        jnp.max(jnp.where(mask & (below <= rank), scaled, -jnp.inf)) for rank in ((total - 1) // 2, total // 2)
    )
    good, count = mask & (2 * below + equal >= total), total.astype(values.dtype)
    above = jnp.where(good, jnp.maximum(scaled - 0.5 * (low + high), 0.0), 0.0)
    above = above / _or_one(jnp.max(above))
    above = above / _or_one(square_root(jnp.sum(jnp.square(above)) / jnp.maximum(jnp.sum(good, dtype=values.dtype), 1)))
    twice = jnp.where(mask & ~good, 2 * below + equal, total).astype(values.dtype)
    ranked = above + LOGISTIC * jnp.log(twice / (2.0 * count - twice))
    centred = jnp.where(mask, ranked - jnp.sum(ranked) / count, 0.0)
    return centred / _or_one(square_root(jnp.sum(jnp.square(centred)) / count))


def square_root(value: jax.Array) -> jax.Array:
    """Compute ``sqrt``, with derivative 0 at 0: the deviation of equal values stays 0."""
    return jnp.where(value > 0, jnp.sqrt(jnp.where(value > 0, value, 1.0)), 0.0)


def _or_one(scale):
    """Return ``scale``, or 1 where the scale is 0."""
    return jnp.where(scale > 0, scale, 1.0)

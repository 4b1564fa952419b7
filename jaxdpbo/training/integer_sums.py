"""Sums of clipped gradients in whole numbers: one example moves them by a vector of length at most ``radius``, exactly.

The gradient of one example with respect to a layer is an outer product ``a delta^T`` (``models``). Here what enters is
rounded to whole multiples of a power of two, a unit of the example's own, and what comes back to whole numbers: the
product is whole too and its length is ``|a| |delta|``. Sums of whole numbers under 2^24, or 2^53, are exact in
floats in whatever order they are added, so a matrix product adds them up, and noise on the integers is added to the
result (``mechanisms.rounded_gaussian``).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import _checks
from jaxdpbo.training import models

MAX_RADIUS = 2**15
LARGEST_SUM = 2**30  # of a batch: what int32 holds, and as much again for the noise
MAX_BITS, MAX_WIDTH = 11, 2**12  # of what enters a layer; scores of a layer: squares under them add up to enough digits
MARGIN = 1 - 2.0**-10  # of squared lengths: more than 2^12 squares lose in float32
MAX_FEATURES = 2**22


class Rows(NamedTuple):
    """What enters a layer, on a grid.

    Attributes:
      values: ``(m, i)``, whole multiples of the units.
      units: ``(m,)``, powers of two.
      squares: ``(m,)``, of the rows' lengths; not finite for a row that counts as zero.
    """

    values: jax.Array
    units: jax.Array
    squares: jax.Array


class Examples(NamedTuple):
    """``models.Examples`` on a grid; made by ``examples``."""

    rows: Rows
    labels: jax.Array


def examples(given: models.Examples, model: models.Model, radius: jax.Array) -> Examples:
    """Round the features, once before training."""
    return Examples(_on_grid(given.features, given.squares, _bits(radius, *model.sizes[:2])), given.labels)


def clipped_sum(
    model: models.Model,
    params: models.Params,
    batch: Examples,
    mask: jax.Array,
    clip_norm: jax.Array,
    radius: jax.Array,
) -> models.Params:
    """The sum over examples where ``mask (m,)`` of gradients clipped to ``B``, in units of ``B / radius``; ``int32``.

    Replacing an example moves the sum by ``sensitivity.integer_sum``, whatever floats the two hold: each adds whole
    numbers of length at most ``radius``. One whose gradient, or a square that it is measured by, is not finite counts
    as zero. A gradient of length ``B`` is shortened by what rounding can be expected to add.

    Args:
      model: static.
      params: of ``models``.
      batch: of ``examples``.
      mask: ``(m,)``.
      clip_norm: ``B ()``.
      radius: ``()``, whole, at most ``largest_radius(m)``.

    Raises:
      ValueError: a layer of 2^12 scores or more, or 2^22 features or more.
    """
    if max(model.sizes[1:]) >= MAX_WIDTH or model.sizes[0] >= MAX_FEATURES:
        raise ValueError(
            f"model must have fewer than {MAX_FEATURES} features and {MAX_WIDTH} scores a layer for exact noise, "
            f"got {model.sizes}"
        )
    entering, back = models.passes(model, params, batch.rows.values, batch.labels)
    rows = [batch.rows]
    for number, a in enumerate(entering[1:], start=1):
        bits = _bits(radius, *model.sizes[number : number + 2])
        rows.append(_on_grid(a, jnp.sum(jnp.square(a), axis=1), bits))
    squared = models.squared_norms([row.squares for row in rows], back, clip_norm)
    usable = mask & jnp.isfinite(squared) & (1 / clip_norm >= jnp.finfo(squared.dtype).tiny)
    lengths = [(row.squares + 1.0) / jnp.square(row.units) for row in rows]  # squared, in units
    limit = jnp.square(radius.astype(squared.dtype)) * MARGIN
    added = functools.reduce(  # what rounding adds to a squared length is p (1 - p) for each number, on average
        jnp.add, (length * (delta.shape[1] / 4) for length, delta in zip(lengths, back, strict=True))
    )
    reach = jnp.sqrt(jnp.maximum(limit - added, 0.0))
    scale = jnp.minimum(radius.astype(squared.dtype), reach * jax.lax.rsqrt(squared))
    scaled = [delta / clip_norm * (scale * row.units)[:, None] for delta, row in zip(back, rows, strict=True)]
    either = [_rounded(one) for one in scaled], [jnp.trunc(one) for one in scaled]
    either = jax.lax.optimization_barrier(either)  # what is measured is to the bit what is added up: computed once
    whole = _within(usable, limit, lengths, *either)
    return tuple(_product(number, row) for number, row in zip(whole, rows, strict=True))


def largest_radius(batch: int) -> int:
    """That a sum over so many examples may have."""
    return min(MAX_RADIUS, LARGEST_SUM // _checks.size("batch", batch))


def _bits(radius: jax.Array, entering: int, scores: int) -> jax.Array:
    """How long what enters a layer is made: ``2^bits``, so that it and what comes back lose alike to rounding."""
    balanced = jnp.log2(radius.astype(float)) / 2 + jnp.log2((entering + 1) / scores) / 4
    return jnp.clip(jnp.round(balanced), 1, MAX_BITS).astype(jnp.int32)


def _on_grid(values: jax.Array, squares: jax.Array, bits: jax.Array) -> Rows:
    """Rows rounded to multiples of the power of two that makes them, and the 1 of the bias, ``2^bits`` units long."""
    _, exponent = jnp.frexp(jnp.sqrt(jnp.where(jnp.isfinite(squares), squares, 0.0) + 1.0))
    units = jnp.ldexp(jnp.ones((), values.dtype), exponent - bits)  # its square is finite where the row's is
    units = jax.lax.optimization_barrier(units)  # computed once: another root would be another grid
    rounded = jnp.rint(values / units[:, None]) * units[:, None]
    usable = jnp.isfinite(squares)
    return Rows(
        jnp.where(usable[:, None], rounded, 0.0),
        units,
        jnp.where(usable, jnp.sum(jnp.square(rounded), axis=1), jnp.inf),
    )


def _rounded(numbers: jax.Array) -> jax.Array:
    """Up or down, so that a batch in random order loses nothing on average: small gradients count by how many they are.

    Where a number is rounded up from is fixed by its place in the batch (a Weyl sequence), so it is public.
    """
    rows, columns = (jnp.arange(count).astype(numbers.dtype) for count in numbers.shape)
    place = rows[:, None] * 0.6180339887 + columns[None] * 0.7548776662
    return jnp.floor(numbers + (place - jnp.floor(place)))


def _within(
    usable: jax.Array, limit: jax.Array, lengths: list[jax.Array], rounded: list[jax.Array], shorter: list[jax.Array]
) -> list[jax.Array]:
    """Of two roundings the first, if the whole example is no longer than ``limit`` allows; the second; or zero."""

    def fits(chosen):
        squares = (length * jnp.sum(jnp.square(number), axis=1) for length, number in zip(lengths, chosen, strict=True))
        return usable & (functools.reduce(jnp.add, squares) <= limit)  # False for NaN

    first, second = fits(rounded), fits(shorter)
    return [
        jnp.where(first[:, None], near, jnp.where(second[:, None], short, 0.0))
        for near, short in zip(rounded, shorter, strict=True)
    ]


def _product(whole: jax.Array, rows: Rows) -> models.Layer:
    """The sum of outer products, ``int32``: of so many rows at once as floats add up exactly."""
    kept = whole / rows.units[:, None]
    bias = jnp.where(rows.units <= 1, 1.0, 0.0)[:, None] * kept  # the 1 rounds to 0 where a unit is more
    together = 2 ** (jnp.finfo(whole.dtype).nmant + 1) // MAX_RADIUS
    groups = -(-len(whole) // together)
    if groups > 1:
        short = groups * together - len(whole)
        kept, bias, values = (
            jnp.pad(one, ((0, short), (0, 0))).reshape(groups, together, -1) for one in (kept, bias, rows.values)
        )
        products = jnp.matmul(kept.mT, values, precision="highest").mT
        return models.Layer(
            jnp.sum(products.astype(jnp.int32), axis=0, dtype=jnp.int32),
            jnp.sum(jnp.sum(bias, axis=1).astype(jnp.int32), axis=0, dtype=jnp.int32),
        )
    product = jnp.matmul(kept.T, rows.values, precision="highest").T
    return models.Layer(product.astype(jnp.int32), jnp.sum(bias, axis=0).astype(jnp.int32))

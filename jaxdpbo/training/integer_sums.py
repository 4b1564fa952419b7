"""Sums of clipped gradients in whole numbers: an example adds a vector of length at most ``radius``, exactly.

The gradient of one example with respect to a layer is an outer product ``a delta^T`` (``models``). Here the layer's
input is rounded to whole multiples of a power of two, a unit of the example's own, and the backpropagated gradient to
whole numbers: the product is whole too and its length is ``|a| |delta|``. Sums of whole numbers under 2^24, or 2^53,
are exact in floats in any order of summation. So a matrix product computes the sum, and noise on the integers is added
to the result (``mechanisms.rounded_gaussian``).

A compiler may compute one value in two places, with different rounding. To measure the same numbers that enter the sum,
both are done in the body of one loop, which reads the whole numbers from memory.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import checks
from jaxdpbo.training import models

MAX_RADIUS = 2**15
LARGEST_SUM = 2**30  # of a batch: half of the range of int32, the other half is for the noise
MAX_BITS, MAX_WIDTH = 11, 2**12  # of a layer's input; scores of a layer: below these, sums of squares keep their digits
MARGIN = 1 - 2.0**-10  # of squared lengths: above the rounding of 2^12 squares in float32
MAX_FEATURES = 2**22


class Rows(NamedTuple):
    """Inputs of a layer, on a grid.

    Attributes:
      counts: ``(m, i)``, whole.
      units: ``(m,)``, powers of two: a row is ``counts * units``, and the 1 of its bias ``1 / units``, or 0 if the
        quotient is less than 1.
      squares: ``(m,)``, of the rows' lengths; not finite for a row that counts as zero.
    """

    counts: jax.Array
    units: jax.Array
    squares: jax.Array

    @property
    def values(self) -> jax.Array:
        """Values of the rows, in the units of the data."""
        return self.counts * self.units[:, None]


class IntegerExamples(NamedTuple):
    """``training.Examples`` on a grid; made by ``examples``."""

    rows: Rows
    labels: jax.Array


def integer_examples(examples: models.Examples, model: models.Model, radius: jax.Array) -> IntegerExamples:
    """Round the features, once before training."""
    return IntegerExamples(
        _round_rows(examples.features, examples.squares, _bits(radius, *model.sizes[:2])), examples.labels
    )


def expect(model: models.Model) -> None:
    """Raise ValueError where integers of 32 bits do not suffice: 2^12 scores a layer or more, or 2^22 features."""
    if max(model.sizes[1:]) >= MAX_WIDTH or model.sizes[0] >= MAX_FEATURES:
        raise ValueError(
            f"model must have fewer than {MAX_FEATURES} features and {MAX_WIDTH} scores a layer for exact noise, "
            f"got {model.sizes}"
        )


def exact_gradient_sum(
    model: models.Model,
    params: models.Params,
    batch: IntegerExamples,
    mask: jax.Array,
    clip_norm: jax.Array,
    radius: jax.Array,
) -> models.Params:
    """Sum gradients clipped to ``B`` over examples where ``mask (m,)``, in units of ``B / radius``; ``int32``.

    Replacing an example moves the sum by at most ``sensitivity.integer_sum``, for any floats in the two: each adds
    whole numbers of length at most ``radius``. An example counts as zero if its gradient, or a square used to measure
    it, is not finite. A gradient of length ``B`` is shortened by the expected effect of rounding.

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
    expect(model)
    entering, back = models.passes(model, params, batch.rows.values, batch.labels)
    rows = [batch.rows]
    for number, a in enumerate(entering[1:], start=1):
        bits = _bits(radius, *model.sizes[number : number + 2])
        rows.append(_round_rows(a, jnp.sum(jnp.square(a), axis=1), bits))
    squared = models.squared_norms([row.squares for row in rows], back, clip_norm)
    usable = mask & jnp.isfinite(squared) & (1 / clip_norm >= jnp.finfo(squared.dtype).tiny)
    limit = jnp.square(radius.astype(squared.dtype)) * MARGIN
    added = functools.reduce(  # rounding adds p (1 - p) to a squared length for each number, on average
        jnp.add,
        (
            (row.squares + 1.0) / jnp.square(row.units) * (delta.shape[1] / 4)
            for row, delta in zip(rows, back, strict=True)
        ),
    )
    reach = jnp.sqrt(jnp.maximum(limit - added, 0.0))
    scale = jnp.minimum(radius.astype(squared.dtype), reach * jax.lax.rsqrt(squared))
    scaled = [delta / clip_norm * (scale * row.units)[:, None] for delta, row in zip(back, rows, strict=True)]
    layers = [
        _Layer(_round(numbers), jnp.trunc(numbers), row.counts, jnp.trunc(1 / row.units))
        for numbers, row in zip(scaled, rows, strict=True)
    ]
    return _sum_groups(limit, usable, layers)


def largest_sum_radius(batch: int) -> int:
    """Largest radius allowed for a sum over ``batch`` examples."""
    return min(MAX_RADIUS, LARGEST_SUM // checks.size("batch", batch))


def _bits(radius: jax.Array, entering: int, scores: int) -> jax.Array:
    """Bits of a layer's rounded inputs (length ``2^bits``), chosen to balance the rounding of inputs and gradients."""
    balanced = jnp.log2(radius.astype(float)) / 2 + jnp.log2((entering + 1) / scores) / 4
    return jnp.clip(jnp.round(balanced), 1, MAX_BITS).astype(jnp.int32)


def _round_rows(values: jax.Array, squares: jax.Array, bits: jax.Array) -> Rows:
    """Round rows, with the 1 of the bias, to multiples of a power of two: ``2^bits`` units long."""
    _, exponent = jnp.frexp(jnp.sqrt(jnp.where(jnp.isfinite(squares), squares, 0.0) + 1.0))
    units = jnp.ldexp(jnp.ones((), values.dtype), exponent - bits)  # its square is finite where the row's is
    usable = jnp.isfinite(squares)
    counts = jnp.where(usable[:, None], jnp.rint(values / units[:, None]), 0.0)
    return Rows(counts, units, jnp.where(usable, jnp.sum(jnp.square(counts * units[:, None]), axis=1), jnp.inf))


def _round(numbers: jax.Array) -> jax.Array:
    """Round up or down, so that a batch in random order loses nothing on average: small gradients count in proportion.

    The threshold of a number is fixed by its place in the batch (a Weyl sequence), so it is public.
    """
    rows, columns = (jnp.arange(count).astype(numbers.dtype) for count in numbers.shape)
    place = rows[:, None] * 0.6180339887 + columns[None] * 0.7548776662
    return jnp.floor(numbers + (place - jnp.floor(place)))


class _Layer(NamedTuple):
    """Whole numbers: gradients ``(m, p)`` in two roundings; inputs ``(m, i)`` and their bias ``(m,)``."""

    rounded: jax.Array
    shorter: jax.Array
    counts: jax.Array
    bias: jax.Array


def _sum_groups(limit: jax.Array, usable: jax.Array, layers: list[_Layer]) -> models.Params:
    """Sum the outer products of the examples, ``int32``, in groups small enough for exact sums in floats.

    There are at least two groups: a compiler does not treat a loop of one iteration as a loop.
    """
    count, dtype = len(usable), limit.dtype
    groups = max(2, -(-count * MAX_RADIUS // 2 ** (jnp.finfo(dtype).nmant + 1)))
    short = -count % groups

    def split_groups(leaf):
        padded = jnp.pad(leaf, ((0, short),) + ((0, 0),) * (leaf.ndim - 1))
        return padded.reshape(groups, -1, *leaf.shape[1:])

    def add(total, group):
        usable, layers = group
        chosen = _pick_rounding(usable, limit, layers)
        products = tuple(_product(whole, layer) for whole, layer in zip(chosen, layers, strict=True))
        return jax.tree.map(jnp.add, total, products), None

    zero = tuple(
        models.Layer(
            jnp.zeros((layer.counts.shape[1], layer.rounded.shape[1]), jnp.int32),
            jnp.zeros(layer.rounded.shape[1], jnp.int32),
        )
        for layer in layers
    )
    return jax.lax.scan(add, zero, jax.tree.map(split_groups, (usable, layers)))[0]


def _pick_rounding(usable: jax.Array, limit: jax.Array, layers: list[_Layer]) -> list[jax.Array]:
    """Return the first rounding of an example if within ``limit``; else the second; else zero."""
    lengths = [jnp.sum(jnp.square(layer.counts), axis=1) + jnp.square(layer.bias) for layer in layers]

    def fits(chosen):
        squares = (length * jnp.sum(jnp.square(number), axis=1) for length, number in zip(lengths, chosen, strict=True))
        return usable & (functools.reduce(jnp.add, squares) <= limit)  # False for NaN

    first, second = fits([layer.rounded for layer in layers]), fits([layer.shorter for layer in layers])
    return [
        jnp.where(first[:, None], layer.rounded, jnp.where(second[:, None], layer.shorter, 0.0)) for layer in layers
    ]


def _product(whole: jax.Array, layer: _Layer) -> models.Layer:
    product = jnp.matmul(whole.T, layer.counts, precision="highest").T
    bias = jnp.sum(layer.bias[:, None] * whole, axis=0)
    return models.Layer(product.astype(jnp.int32), bias.astype(jnp.int32))

"""Integers of 64 bits as two words of 32 bits, for sums over any number of users, with or without x64.

JAX has no 64-bit integers when x64 is off, and the sum of 65,536 integers of 16 bits can overflow 32 bits, so sums
carry into a second word. All arithmetic is modulo 2^64, in two's complement. A sum of ``2^40`` integers of 16 bits
needs 57 bits.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.types import DTypeLike

BITS = 16  # of a limb
MOST = 2**15  # limbs in one sum, which stays below 2^31


class Wide(NamedTuple):
    """Integers ``high 2^32 + low``: ``low`` is ``uint32`` and ``high`` is ``int32``, of the same shape."""

    low: jax.Array
    high: jax.Array


def widen(whole: jax.Array) -> Wide:
    """Convert ``int32`` of any shape to ``Wide`` of the same shape."""
    return Wide(whole.astype(jnp.uint32), whole >> 31)


def constant(number: int) -> Wide:
    """Convert a Python integer to ``Wide ()``.

    Raises:
      OverflowError: ``number`` does not fit 64 bits.
    """
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"number must fit 64 bits, got {number}")
    return Wide(jnp.asarray(number & 0xFFFFFFFF, jnp.uint32), jnp.asarray(number >> 32, jnp.int32))


def from_int64(numbers: np.ndarray) -> Wide:
    """Convert NumPy integers of 64 bits, of any shape."""
    low, high = numbers & 0xFFFFFFFF, numbers >> 32
    return Wide(jnp.asarray(low.astype(np.uint32)), jnp.asarray(high.astype(np.int32)))


def to_int64(wide: Wide) -> np.ndarray:
    """Convert to NumPy integers of 64 bits, on the host."""
    return (np.asarray(wide.high, np.int64) << 32) | np.asarray(wide.low, np.int64)


def add(first: Wide, second: Wide) -> Wide:
    """Add, element by element."""
    low = first.low + second.low
    return Wide(low, first.high + second.high + (low < first.low).astype(jnp.int32))


def negate(value: Wide) -> Wide:
    """Return ``-value``."""
    return add(Wide(~value.low, ~value.high), widen(jnp.ones((), jnp.int32)))


def multiply(value: Wide, factor: jax.Array) -> Wide:
    """Multiply ``value`` by an ``int32`` in ``[0, 2^31)``, element by element, by shifts and additions."""

    def step(bit, carry):
        shifted, product = carry
        bit_is_set = ((factor >> bit) & 1) == 1
        product = jax.tree.map(lambda plus, old: jnp.where(bit_is_set, plus, old), add(product, shifted), product)
        return add(shifted, shifted), product

    zeros = jax.tree.map(jnp.zeros_like, add(value, widen(jnp.zeros_like(factor))))
    return jax.lax.fori_loop(0, 31, step, (add(value, zeros), zeros))[1]


def divide(value: Wide, divisor: jax.Array) -> Wide:
    """Return the floor of ``value / divisor``, for ``value >= 0`` and an ``int32`` divisor ``()`` in ``[1, 2^30]``."""

    def step(number, carry):
        rest, quotient = carry
        place = 63 - jnp.asarray(number, jnp.int32)
        word = jnp.where(place >= 32, value.high.astype(jnp.uint32), value.low)
        bit = (word >> (place % 32).astype(jnp.uint32)) & 1
        rest = (rest << 1) | bit.astype(jnp.int32)
        fits = rest >= divisor
        return jnp.where(fits, rest - divisor, rest), add(add(quotient, quotient), widen(fits.astype(jnp.int32)))

    zeros = jax.tree.map(jnp.zeros_like, value)
    return jax.lax.fori_loop(0, 64, step, (zeros.high, zeros))[1]


def shift_right(value: Wide, places: jax.Array) -> Wide:
    """Return ``value >> places``, rounded down, for ``value >= 0`` and ``int32`` places in ``[0, 63]``."""
    low, high, by = value.low, value.high.astype(jnp.uint32), places.astype(jnp.uint32)
    few = by < 32
    within = jnp.where(few, by, by - 32)
    carried = jnp.where(within == 0, 0, high << (32 - jnp.maximum(within, 1)))
    shifted = jnp.where(few, (low >> within) | carried, high >> within)
    return Wide(shifted, jnp.where(few, high >> within, 0).astype(jnp.int32))


def shift_left(value: Wide, places: int) -> Wide:
    """Return ``value 2^places``, for places in ``[1, 31]``, static."""
    return Wide(value.low << places, (value.high << places) | (value.low >> (32 - places)).astype(jnp.int32))


def maximum(wide: Wide) -> Wide:
    """Return the largest element of ``Wide (m,)`` above ``-2^63``, as ``Wide ()``."""
    return negate(minimum(negate(wide)))


def minimum(wide: Wide) -> Wide:
    """Return the smallest element of ``Wide (m,)``, as ``Wide ()``."""
    high = jnp.min(wide.high)
    return Wide(jnp.min(jnp.where(wide.high == high, wide.low, jnp.uint32(0xFFFFFFFF))), high)


def narrow(wide: Wide, most: int) -> jax.Array:
    """Return ``min(wide, most)`` as ``int32``, for ``wide >= 0`` and ``most < 2^31``."""
    fits = (wide.high == 0) & (wide.low <= most)
    return jnp.where(fits, wide.low, most).astype(jnp.int32)


def is_at_least(first: Wide, second: Wide) -> jax.Array:
    """Return ``first >= second``, element by element."""
    return (first.high > second.high) | ((first.high == second.high) & (first.low >= second.low))


def total(whole: jax.Array, bits: int) -> Wide:
    """Sum ``int32`` ``(..., n)`` along the last axis, for any ``n``.

    Args:
      whole: within ``[-2^bits, 2^bits]``.
      bits: at most 30. Blocks of ``2^(31 - bits) - 1`` numbers are summed in ``int32`` first.
    """
    if not whole.shape[-1]:
        return widen(jnp.zeros(whole.shape[:-1], jnp.int32))
    block_sums = jnp.sum(_split_blocks(whole, 2 ** (31 - bits) - 1), axis=-1, dtype=jnp.int32)
    return _sum_last_axis(widen(block_sums))


def _sum_last_axis(wide: Wide) -> Wide:
    """Sum ``Wide (..., n)`` along the last axis."""
    while wide.low.shape[-1] > 1:
        blocks = Wide(*(_split_blocks(word, MOST) for word in wide))
        wide = _sum_limbs(blocks, partial(jnp.sum, axis=-1, dtype=jnp.int32))
    return Wide(*(word[..., 0] for word in wide))


def _split_blocks(whole: jax.Array, size: int) -> jax.Array:
    """Reshape ``(..., n)`` to ``(..., blocks, size)``, padded with zeros at the end."""
    count = whole.shape[-1]
    blocks = -(-count // size)
    size = -(-count // blocks)
    padding = [(0, 0)] * (whole.ndim - 1) + [(0, blocks * size - count)]
    return jnp.pad(whole, padding).reshape(*whole.shape[:-1], blocks, size)


def psum(wide: Wide, axis_name: str) -> Wide:
    """Sum over the devices of a mapped axis, at most 2^15 of them."""
    return _sum_limbs(wide, lambda limb: jax.lax.psum(limb, axis_name))


def to_float(wide: Wide, dtype: DTypeLike) -> jax.Array:
    """Convert to floats, with a relative error of about two roundings."""
    magnitude = jax.tree.map(lambda plus, minus: jnp.where(wide.high < 0, minus, plus), wide, negate(wide))
    positive = magnitude.high.astype(jnp.uint32).astype(dtype) * 2.0**32 + magnitude.low.astype(dtype)
    return jnp.where(wide.high < 0, -positive, positive)


def _sum_limbs(wide: Wide, add_up: Callable[[jax.Array], jax.Array]) -> Wide:
    """Split each number into four limbs of 16 bits along a new first axis, sum the limbs, and propagate carries."""
    words = wide.low.astype(jnp.int32), wide.high
    limbs = jnp.stack([limb for word in words for limb in (word & 0xFFFF, (word >> BITS) & 0xFFFF)])
    carry, digits = jnp.zeros((), jnp.int32), []
    for limb in add_up(limbs):
        with_carry = limb + carry
        digits.append((with_carry & 0xFFFF).astype(jnp.uint32))
        carry = with_carry >> BITS
    low, high = (digits[first] | (digits[first + 1] << BITS) for first in (0, 2))
    return Wide(low, high.astype(jnp.int32))

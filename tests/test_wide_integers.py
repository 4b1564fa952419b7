"""Integers of two words are Python's integers modulo 2^64, whatever their size and number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import integers

from jaxdpbo.noise import wide_integers

ENDS = [0, 1, -1, 2**16, -(2**16), 2**31 - 1, 2**31, -(2**31), 2**32, -(2**32), 2**57 + 3, 2**63 - 1, -(2**63)]
PAIRS = [(one, other) for one in ENDS for other in ENDS]
RNG = np.random.default_rng(0)


def wide(numbers):
    found = [wide_integers.constant(number) for number in numbers]
    return jax.tree.map(lambda *words: jnp.stack(words), *found)


ONE, OTHER = (wide(column) for column in zip(*PAIRS, strict=True))


def modulo(number):
    return (number + 2**63) % 2**64 - 2**63


def test_constants_and_sums_are_pythons():
    assert list(integers.value(*ONE)) == [one for one, _ in PAIRS]
    added = integers.value(*jax.jit(wide_integers.add)(ONE, OTHER))
    assert list(added) == [modulo(one + other) for one, other in PAIRS]
    assert list(integers.value(*wide_integers.negate(ONE))) == [modulo(-one) for one, _ in PAIRS]
    assert list(wide_integers.is_at_least(ONE, OTHER)) == [one >= other for one, other in PAIRS]
    with pytest.raises(OverflowError, match="64 bits"):
        wide_integers.constant(2**63)


@pytest.mark.parametrize("factor", [0, 1, 3, 2**20, 2**31 - 1])
def test_products_and_quotients_are_pythons(factor):
    found = jax.jit(wide_integers.multiply)(ONE, jnp.int32(factor))
    assert list(integers.value(*found)) == [modulo(one * factor) for one, _ in PAIRS]
    if 0 < factor <= 2**30:
        numbers = [number for number in ENDS if number >= 0]
        found = jax.jit(wide_integers.divide)(wide(numbers), jnp.int32(factor))
        assert list(integers.value(*found)) == [number // factor for number in numbers]


@pytest.mark.parametrize("places", [33, 0, 1, 13, 31, 32, 47, 62])
def test_shifts_are_pythons(places):
    numbers = [number for number in ENDS if number >= 0]
    found = jax.jit(wide_integers.shift_right)(wide(numbers), jnp.asarray(places, jnp.int32))
    assert integers.value(*found).tolist() == [number >> places for number in numbers]


def test_the_least_and_what_fits_are_pythons():
    for numbers in (ENDS, ENDS[3:6], [2**32 + 5, 2**32 + 3], [-(2**32), -(2**32) - 1]):
        assert int(integers.value(*wide_integers.minimum(wide(numbers)))) == min(numbers)
    above = [number for number in ENDS if number > -(2**63)]
    assert int(integers.value(*wide_integers.maximum(wide(above)))) == max(above)
    at_least_zero = [number for number in ENDS if number >= 0]
    narrow = wide_integers.narrow(wide(at_least_zero), 2**20)
    assert list(narrow) == [min(number, 2**20) for number in at_least_zero]
    assert narrow.dtype == jnp.int32


@pytest.mark.parametrize(("bits", "count"), [(16, 1), (16, 40_000), (16, 1_200_000), (20, 5_000), (30, 9), (0, 70_000)])
def test_sums_over_any_number_are_pythons(bits, count):
    total = jax.jit(wide_integers.total, static_argnums=1)
    for numbers in (np.full(count, 2**bits), np.full(count, -(2**bits)), RNG.integers(-(2**bits), 2**bits, count)):
        whole = np.stack([numbers, numbers[::-1]]).astype(np.int32)
        assert list(integers.value(*total(whole, bits))) == [int(np.sum(numbers, dtype=np.int64))] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_right_to_two_roundings(dtype):
    found = np.asarray(wide_integers.to_float(ONE, dtype), np.float64)
    expected = np.array([float(one) for one, _ in PAIRS])
    assert np.all(np.abs(found - expected) <= 2 * np.finfo(dtype).eps * np.abs(expected))
    small = [number for number in ENDS if abs(number) < 2**31] + [16_777_217, -16_777_219]
    np.testing.assert_array_equal(wide_integers.to_float(wide(small), dtype), np.asarray(small, np.int32).astype(dtype))


def test_a_sum_that_drops_carries_is_seen():
    """A planted bug: words added without a carry."""
    planted = wide_integers.Wide(ONE.low + OTHER.low, ONE.high + OTHER.high)
    assert list(integers.value(*planted)) != [modulo(one + other) for one, other in PAIRS]

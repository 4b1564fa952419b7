"""Valid values, as strategies."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import numpy as np
from hypothesis import strategies as st

from fuzz_targets.odd_values import EDGES
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.noise import keys

few, positive, wide = st.integers(1, 4), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3)
count, epsilon, probability = st.integers(1, 10**6), st.floats(0.05, 20.0), st.floats(1e-6, 0.9)
small, share = st.floats(0.1, 5.0), st.floats(0.0, 1.0)
words = st.sampled_from(["a", "the rows of X", "replace_one"])
rate = st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(3, 7), Fraction(5, 2)])
release = st.sampled_from(prior_averaged_constants.RELEASES)


def just(value: Any) -> st.SearchStrategy:
    return st.just(value)


def either(*values: Any) -> st.SearchStrategy:
    return st.sampled_from(values)


def floats_of(*shape: int, elements: st.SearchStrategy = wide) -> st.SearchStrategy:
    size = math.prod(shape)
    return st.lists(elements, min_size=size, max_size=size).map(lambda found: np.asarray(found, float).reshape(shape))


any_float = st.floats() | st.sampled_from(EDGES)


@st.composite
def boxes(draw, dimension=2):
    low = np.asarray(draw(st.lists(st.floats(-10, 10), min_size=dimension, max_size=dimension)))
    return {"low": low, "high": low + draw(st.floats(0.01, 10.0))}


@st.composite
def distinct(draw, rows=5, dimension=2):
    """Rows apart from each other."""
    return np.arange(rows)[:, None] + 0.1 * draw(floats_of(rows, dimension, elements=st.floats(-1, 1)))


@st.composite
def private_rows(draw, rows=4, dimension=2):
    """Any numbers; the first is a sentinel."""
    found = draw(floats_of(rows, dimension, elements=any_float))
    found.flat[0] = 0.8642097531864209
    return found


def secret() -> st.SearchStrategy:
    return st.sampled_from([None, keys.key_from_bytes(bytes(range(32)))])


def key() -> st.SearchStrategy:
    return st.just(jax.random.key(3))


def constant(value: Any) -> Callable[..., Any]:
    """A callable with one answer."""
    return lambda *_: value

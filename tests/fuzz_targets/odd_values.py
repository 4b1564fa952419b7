"""Odd values, which take the place of valid ones.

A value that is private wherever it stands carries the digits of ``MARK``, so that a message that quotes it is found.
"""

import functools
import math
import operator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from fuzz_targets.target import Target
from jaxdpbo.noise import keys

GIGANTIC = 4  # sizes above are not given to what allocates or compiles by them


class Unfriendly:
    """Raises nothing itself, and is nothing that anybody wants."""

    def __repr__(self):
        return "<unfriendly>"


def module_level(x):
    return x


EDGES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, math.nan, math.inf, -math.inf, 5e-324, -5e-324, 2.2250738585072014e-308, 1e-310,
    1e308, -1e308, 1.7976931348623157e308, 1e-300, 1e150, 1e-17, 1.0 - 2**-53, 1.0 + 2**-52, 3e38, 4e38, 1e-45, 1e-46,
    2.0**31, 2.0**53, 2.0**63, 2.0**64,
)  # fmt: skip
WHOLE = (
    0, 1, -1, 2, 3, 4, -4, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(10**30),
    10**400, -(10**400),
)  # fmt: skip
JUNK = (
    None, "", "1", "nan", "inf", "abc", "\x00", "\ud800", "é", "exact", b"", b"1", b"\xff" * 8, True, False, 1j, 1 + 0j,
    complex("nan"), Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400), Decimal("0.1"), Decimal("NaN"),
    Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999"), (), [], {}, set(), frozenset({1}), {"a": 1}, object(),
    Unfriendly(), Ellipsis, NotImplemented, range(3), int, float, len, print, module_level, lambda x: x, iter(()),
    np.float64(1.0), np.float32(0.5), np.float16("nan"), np.int8(-1), np.uint64(2**63), np.bool_(True), np.str_("1"),
    np.datetime64("2020-01-01"), np.longdouble(1), np.complex128(1),
    [1.0, 2.0], [1.0, "a"], [None, 1.0], [[1.0], [2.0, 3.0]], [[1.0, 2.0], [3.0]], [[[1.0]]], [[]], [[], []],
    (1.0, 2.0),
    [1, 10**400], [10**400, 1], ["1", "2"], [True, False], [1j, 2.0], (0.0, 1.0), (1.0, 0.0), (0.0, 0.0),
    [math.nan, 1.0],
    [math.inf, 1.0], (-1e308, 1e308), (0.0, 5e-324), [Fraction(1, 3), Fraction(2, 3)], [Fraction(10**400), 1],
    [[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, math.nan], [1.0, 1.0]],
    [[-math.inf, 0.0], [math.inf, 1.0]], [[-1e308, -1e308], [1e308, 1e308]], [[0.0, 0.0], [5e-324, 5e-324]],
    [[1.0, 1.0], [1.0 + 2**-52, 1.0 + 2**-52]], [[0, 0], [10**400, 1]], [["a", "b"], ["c", "d"]],
    [[None, 0.0], [1.0, 1.0]],
    [[0.0, 0.0], [1e-310, 1.0]], [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]], [[0.0, 0.0]], [[0.0], [1.0]], [[1j, 0], [1, 1]],
)  # fmt: skip
ARRAYS = (
    np.zeros(0), np.zeros((0, 2)), np.zeros((2, 0)), np.zeros((2, 0, 3)), np.zeros((1, 2, 3)), np.array(1.0),
    np.array("a"),
    np.array(None), np.array([None, 1.0]), np.array([[None, 1.0], [2.0, "x"]], object),
    np.array([[1, 10**400]], object),
    np.array(["a", "b"]), np.array([b"a"]), np.array([1j, 2]), np.array([True, False]), np.array([[True], [False]]),
    np.array([np.nan, np.inf]), np.full((2, 2), np.nan), np.full((2, 2), 1e308), np.full((4, 2), 5e-324),
    np.array([[0.0, 0.0], [1.0, 1.0]], np.float16), np.array([[0, 0], [1, 1]], np.int8), np.ones((4, 2)),
    np.ones((4, 1)),
    np.eye(2), np.eye(3), np.arange(4.0), np.zeros((10**9, 0)), np.array(["2020-01-01"], "datetime64[D]"),
    np.zeros(2, [("a", float)]), np.ma.masked_all(2), np.array([[0.0, 1.0], [1.0, 0.0]])[:, ::-1],
    np.recarray(1, [("a", int)]),
    np.array([1.0, 2.0], ">f8"), np.array([0.0, 1.0], np.longdouble),
)  # fmt: skip


@functools.cache
def odd_arrays_of_jax() -> tuple[Any, ...]:
    return (
        jnp.asarray(1.0), jnp.asarray(1), jnp.asarray(True), jnp.zeros(0), jnp.zeros((2, 2)),
        jnp.asarray([0.0, jnp.nan]),
        jnp.asarray(1.5, jnp.bfloat16), jnp.asarray(2, jnp.int8), jnp.asarray([[0.0, 0.0], [1.0, 1.0]], jnp.float32),
        jax.random.key(0), jax.random.split(jax.random.key(0), 2), jax.random.PRNGKey(0),
        jax.random.split(keys.secret_key(), 2),
    )  # fmt: skip


def is_gigantic(value: Any) -> bool:
    """Whether anything could take it for a size above ``GIGANTIC``."""
    try:
        return operator.index(value) > GIGANTIC
    except TypeError:
        pass
    try:
        return float(value) > GIGANTIC
    except (TypeError, ValueError):
        return False
    except OverflowError:
        return True


LOOKALIKES = (
    str, repr, bool, lambda x: [x], lambda x: (x, x), lambda x: {"x": x}, np.asarray, lambda x: np.asarray(x, object),
    lambda x: np.asarray([x]), lambda x: np.asarray(x)[None], lambda x: np.asarray(x, np.float32),
    lambda x: np.asarray(x, np.float16), lambda x: np.asarray(x, complex), lambda x: np.asarray(x).astype(str),
    lambda x: np.asarray(x).astype(int), jnp.asarray, Fraction, Decimal, complex, int, float, np.float32, np.float64,
    operator.neg, lambda x: x * 0, lambda x: x * math.nan, lambda x: x * math.inf, lambda x: x * 1e308,
    lambda x: x + 2**70,
    lambda x: np.asarray(x)[..., ::-1], lambda x: np.asarray(x).T, lambda x: np.asarray(x)[:1],
    lambda x: np.asarray(x)[:0],
    lambda x: np.concatenate([x, x]), lambda x: np.asarray(x).tolist(), lambda x: np.asarray(x)[..., None],
    lambda x: x[:-1], lambda x: x + x, lambda x: x.upper(), lambda x: x.encode(),
)  # fmt: skip


@st.composite
def lookalikes(draw, value):
    """Made from a valid value: another type, another sign, another shape."""
    make = draw(st.sampled_from(LOOKALIKES))
    try:
        with np.errstate(all="ignore"):
            return make(value)
    except Exception:  # this value has no such counterpart
        return draw(st.sampled_from(EDGES))


@functools.cache
def anything() -> st.SearchStrategy:
    numbers = st.floats() | st.integers(-5, 9) | st.integers() | st.fractions() | st.complex_numbers()
    nested = st.recursive(
        st.floats() | st.none() | st.text(max_size=2) | st.integers(), lambda s: st.lists(s, max_size=3), max_leaves=6
    )
    words = st.text(max_size=6) | st.binary(max_size=6)
    constant = st.sampled_from(EDGES + WHOLE) | st.sampled_from(JUNK) | st.sampled_from(ARRAYS + odd_arrays_of_jax())
    return st.one_of(constant, constant, numbers, nested, words)


@st.composite
def odd_private(draw):
    """Private values of any kind, every one with ``MARK`` in it."""
    number = st.sampled_from([0.8642097531864209, -8642097531.8642, 8.642097531864e300, 8.6420975318e-310])
    leaf = number | st.sampled_from(["x8642097531", b"8642097531", 86420975318642097531, 8.642097531j, 86420 * 10**400])
    leaf |= st.sampled_from([Fraction(8642097531, 7), Decimal("8.642097531"), np.float32(8.642097), np.str_("86420x")])
    shaped = draw(st.sampled_from(["leaf", "row", "rows", "ragged", "object", "mixed"]))
    if shaped == "leaf":
        return draw(leaf)
    if shaped == "row":
        return draw(st.lists(leaf, min_size=1, max_size=5))
    if shaped == "rows":
        return np.asarray(draw(st.lists(number, min_size=8, max_size=8))).reshape(
            draw(st.sampled_from([(4, 2), (2, 4), (8,)]))
        )
    if shaped == "object":
        return np.array(draw(st.lists(leaf, min_size=4, max_size=4)) + [None], object)
    return [draw(st.lists(leaf, min_size=1, max_size=3)) for _ in range(draw(st.integers(1, 4)))]


@st.composite
def arguments(draw, target: Target) -> dict[str, Any]:
    """Of one call: mostly one argument is odd."""
    found = {name: draw(valid) for name, valid in target.arguments.items()}
    changeable = [name for name in target.arguments if name not in target.fixed]
    if not changeable:
        return found
    for _ in range(draw(st.sampled_from((1, 1, 0, 2, 3)))):
        name = draw(st.sampled_from(changeable))
        odd = target.odd[name] if name in target.odd else anything() | lookalikes(found[name])
        found[name] = draw(odd.filter(lambda value: not is_gigantic(value)) if name in target.tame else odd)
    return found


def of_any_pattern(rng, *shape):
    """Numbers, among them, in any pattern, those that no user should have."""
    odd = rng.choice(EDGES, size=shape)
    share = rng.choice([0.0, 0.05, 0.5, 1.0], size=shape[:1]).reshape(-1, *(1,) * (len(shape) - 1))
    scale = 10.0 ** rng.uniform(-320, 300, size=(shape[0], *(1,) * (len(shape) - 1)))
    found = np.where(rng.uniform(size=shape) < share, odd, scale * rng.normal(size=shape))
    return np.where(rng.uniform(size=share.shape) < 0.1, odd.flat[0], found)  # all the same, too


def holds_nan(leaf) -> bool:
    if isinstance(leaf, (float, complex, np.generic, np.ndarray, jax.Array)):
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return False
        array = np.asarray(leaf)
        return array.dtype.kind in "fcV" and bool(np.any(np.isnan(array.astype(complex))))
    return False

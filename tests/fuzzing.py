"""What is fuzzed: a row for each public function, its valid arguments, and the odd ones that take their place.

A value that is private wherever it stands carries the digits of ``MARK``, so that a message that quotes it is seen.
"""

import functools
import io
import itertools
import json
import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from protocol_cases import BOUNDS, CANDIDATES, CASES

import jaxdpbo
from jaxdpbo import drivers, input_noise, outsourcing
from jaxdpbo._checks import low_high
from jaxdpbo.algorithms import dp_gd, dp_gibo, dp_gp_ucb, dpareto, gp_ucb, po_gp_ucb, private_evaluations, random_search
from jaxdpbo.outsourcing import lines as spoken
from jaxdpbo.privacy import (
    accounting,
    auditing,
    calibration,
    charges,
    clipping,
    guarantee,
    keys,
    ledger,
    mechanisms,
    prior_averaged,
    sensitivity,
    transforms,
)
from jaxdpbo.privacy.mechanisms import tables
from jaxdpbo.problems import (
    classification,
    datasets,
    gp_regression,
    huber_regression,
    kernel_svm,
    kernel_svr,
    location,
    logistic_regression,
    outsourced,
    splits,
)
from jaxdpbo.surrogate import acquisition, gp, kernels, maximize, noisy_inputs, pareto, preprocessing
from jaxdpbo.theory import dp_gibo as gibo_theory
from jaxdpbo.theory import dp_gp_ucb as ucb_theory
from jaxdpbo.theory import po_gp_ucb as po_theory
from jaxdpbo.training import dp_optim, models, oracles, permutation_sgd, sampling, spaces

MARK = "86420"  # the digits of every private value
OF_PATHS = ("PathLike", "null byte", "empty name")  # what Python says of a path that is none
GIGANTIC = 4  # sizes above are not given to what allocates or compiles by them


class Target(NamedTuple):
    """One public function.

    Attributes:
      call: with keyword arguments.
      arguments: a strategy of valid values for each.
      tame: arguments that are sizes of what is allocated, compiled or looped over: no gigantic ones.
      fixed: arguments that are never made odd.
      private: arguments whose values no message may quote.
      odd: strategies of odd values of its own, by argument, in place of the general one.
      raises: documented exceptions besides ValueError and TypeError.
      words: what a message may name besides an argument.
      named: whether a refusal must name an argument.
      nan: whether NaN may come out.
      check: of a result, given the arguments.
      weight: its share of the calls.
    """

    call: Callable[..., Any]
    arguments: Mapping[str, Any]
    tame: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    odd: Mapping[str, Any] = {}
    raises: tuple[type[BaseException], ...] = ()
    words: tuple[str, ...] = ()
    named: bool = True
    nan: bool = False
    check: Callable[[Any, Mapping[str, Any]], bool] | None = None
    weight: float = 1.0


# Odd values


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


# Valid values

few, positive, wide = st.integers(1, 4), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3)
count, epsilon, probability = st.integers(1, 10**6), st.floats(0.05, 20.0), st.floats(1e-6, 0.9)
small, share = st.floats(0.1, 5.0), st.floats(0.0, 1.0)
words = st.sampled_from(["a", "the rows of X", "replace_one"])
rate = st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(3, 7), Fraction(5, 2)])
release = st.sampled_from(prior_averaged.RELEASES)


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


# What results must be


def at_least_zero(value, _):
    return isinstance(value, float) and value >= 0


def whole(value, _):
    return isinstance(value, int) and value >= 0


def unit(value, _):
    return isinstance(value, float) and 0 <= value <= 1


def is_guarantee(value, _):
    return isinstance(value, guarantee.Guarantee) and value.notion in guarantee.NOTIONS


def finite(value, _):
    return bool(np.all(np.isfinite(ravel_pytree(value)[0])))


def promises(algorithm):
    """A config whose guarantee is one."""
    return lambda found, _: is_guarantee(algorithm.privacy(found), None)


# The tables, one for each floor of the house


def accountants() -> dict[str, Target]:
    a = accounting
    sampled = {"rate": st.floats(1e-4, 1.0), "noise_multiplier": st.floats(0.3, 10), "steps": st.integers(0, 500)}
    training = st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.5, 5.0), st.integers(0, 50)), max_size=2)
    return {
        "compose_gdp": Target(a.compose_gdp, {"mus": st.lists(positive, max_size=4)}, words=("mu",),
            check=at_least_zero),
        "composed_epsilon": Target(
            a.composed_epsilon, {"trainings": training, "delta": probability},
            words=("rate", "noise_multiplier", "steps"),
            check=at_least_zero, weight=0.3,
        ),
        "discrete_gaussian_mu": Target(
            a.discrete_gaussian_mu, {"distance": positive, "sigma": st.integers(4, 10**5), "releases": count},
            check=at_least_zero,
        ),
        "discrete_gaussian_rho": Target(
            a.discrete_gaussian_rho, {"distance": positive, "sigma": st.integers(4, 10**5), "releases": count},
            check=at_least_zero,
        ),
        "dp_event": Target(a.dp_event, {"mu": positive, "steps": count}),
        "gaussian_mu": Target(
            a.gaussian_mu, {"sensitivity": positive, "standard_deviation": positive}, check=at_least_zero
        ),
        "gaussian_standard_deviation": Target(
            a.gaussian_standard_deviation, {"sensitivity": positive, "mu": positive}, check=at_least_zero
        ),
        "gdp_delta": Target(a.gdp_delta, {"mu": positive, "epsilon": epsilon}, check=unit),
        "gdp_epsilon": Target(a.gdp_epsilon, {"mu": positive, "delta": probability}, check=at_least_zero),
        "gdp_mu": Target(a.gdp_mu, {"epsilon": epsilon, "delta": probability}, check=at_least_zero),
        "largest_distance": Target(
            a.largest_distance, {"mu": positive, "sigma": st.integers(4, 10**5), "releases": count}, check=whole
        ),
        "learner_epsilon": Target(
            a.learner_epsilon, {"sensitivity": positive, "standard_deviation": positive, "delta": probability},
            check=at_least_zero,
        ),
        "permutation_sgd": Target(
            sensitivity.permutation_sgd,
            {"regularisation": positive, "records": st.integers(10, 10**5), "batch": few,
                "bound": either("tight", "paper")},
            check=at_least_zero,
        ),
        "sampled_gaussian_epsilon": Target(
            a.sampled_gaussian_epsilon, sampled | {"delta": probability},
            check=lambda found, _: at_least_zero(found.epsilon, None), weight=0.5,
        ),
        "sparse_vector_epsilon": Target(
            a.sparse_vector_epsilon, {"noise": positive, "answers": count}, check=at_least_zero
        ),
        "split_gdp": Target(a.split_gdp, {"mu": positive, "steps": count}, check=at_least_zero),
        "split_noise": Target(a.split_noise, {"noise": positive, "answers": count}),
        "zcdp_epsilon": Target(a.zcdp_epsilon, {"rho": positive, "delta": probability}, check=at_least_zero),
    }  # fmt: skip


def statements() -> dict[str, Target]:
    told = {
        "assumptions": st.lists(words, max_size=2).map(tuple),
        "delta": st.floats(0, 0.5),
        "total_variation": st.floats(0, 1e-20),
    }
    full = {
        "notion": either(*guarantee.NOTIONS[:-1]),
        "level": positive,
        "relation": just("replace_one"),
        "unit": st.none(),
    }
    distant = full | {"relation": just("unit_distance"), "unit": positive}
    made = st.one_of(st.builds(guarantee.guarantee, **each, protects=words, **told) for each in (full, full, distant))
    ideal = st.builds(
        lambda level: guarantee.guarantee("gdp", level, "replace_one", "them", total_variation=1e-25), positive
    )
    fields = made.map(lambda one: one.to_dict())

    @st.composite
    def wrong_fields(draw):
        some = dict(draw(fields))
        name = draw(st.sampled_from([*some, "more"]))
        if draw(st.booleans()):
            some.pop(name, None)
        else:
            some[name] = draw(anything())
        return some

    names = tuple(guarantee.Guarantee.__dataclass_fields__) + ("guarantee", "of the JSON")
    return {
        "guarantee": Target(guarantee.guarantee, full | {"protects": words} | told, check=is_guarantee),
        "guarantee of a unit": Target(guarantee.guarantee, distant | {"protects": words} | told, check=is_guarantee),
        "no_guarantee": Target(
            guarantee.no_guarantee, {"protects": words, "no_guarantee_reason": words}, check=is_guarantee),
        "from_dict": Target(
            guarantee.from_dict, {"fields": fields}, odd={"fields": wrong_fields() | anything()}, words=names,
            check=is_guarantee,
        ),
        "Guarantee.epsilon": Target(
            lambda one, delta: one.epsilon(delta), {"one": ideal, "delta": probability}, fixed=("one",),
            check=at_least_zero,
        ),
        "Guarantee of anything, printed": Target(
            lambda **fields: str(guarantee.guarantee(**fields)), distant | {"protects": words} | told,
            check=lambda found, _: found.isprintable(),
        ),
        "row_distance": Target(sensitivity.row_distance, {"radius": st.none() | positive}, check=at_least_zero),
        "budget": Target(
            calibration.budget,
            {"mu": small, "noise": either(*calibration.NOISES), "dimension": few, "steps": few, "releases": few,
             "users": count, "dtype": either(np.float64, np.float32)},
            fixed=("dimension", "releases", "dtype"),
        ),
        "secret_key": Target(
            keys.secret_key, {"shape": either((), (2,), (1, 2))}, tame=("shape",),
            odd={"shape": st.sampled_from([None, -1, 3, (-1,), ("a",), (1.5,), (True,), 2.5, "ab", [2], (0,), (None,),
                b"a"])},
        ),
        "key_from_bytes": Target(
            keys.key_from_bytes, {"data": st.binary(min_size=32, max_size=32)}, private=("data",),
            odd={"data": st.sampled_from([b"8642097531", "8642097531", 8642097531, bytearray(b"86420" * 7), None,
                [86420]])},
        ),
        "derive": Target(
            keys.derive, {"key": secret().filter(lambda one: one is not None), "label": st.binary(max_size=9)},
        ),
        "for_release": Target(
            keys.for_release, {"key": secret(), "statement": ideal, "insecure_key": st.booleans()},
            fixed=("statement",), check=lambda found, _: is_guarantee(found[1], None),
        ),
    }  # fmt: skip


def noises() -> dict[str, Target]:
    m, shape = mechanisms, either((), (3,))
    scores = floats_of(5, elements=any_float).map(jnp.asarray)
    whole_scores = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=5, max_size=5).map(
        lambda x: jnp.asarray(x, jnp.int32)
    )
    row = {"check": lambda found, _: 0 <= int(found) < 5}
    probabilities = either((Fraction(1, 2), Fraction(1, 2)), (Fraction(1),), (Fraction(1, 3), Fraction(2, 3)))
    wrong = anything() | either((Fraction(-1), Fraction(2)), (Fraction(0),), (0.5, 0.5), ("a",), (Fraction(1, 2),))
    wrong_shapes = st.sampled_from([None, -1, (-1,), "ab", ("a",), (1.5,), 2.5, (None,), b"a"])
    plain = {"key": key(), "shape": shape}
    odd = {"shape": wrong_shapes}
    logs = jax.jit(m.exponential_log_probabilities)
    return {
        "discrete_gaussian": Target(
            m.discrete_gaussian, plain | {"sigma": either(4, 40)}, tame=("sigma",), odd=odd, words=("shape",),
            weight=0.2,
        ),
        "discrete_laplace": Target(m.discrete_laplace, plain | {"rate": rate}, odd=odd, weight=0.2),
        "geometric": Target(m.geometric, plain | {"rate": rate}, odd=odd, weight=0.2),
        "outcome": Target(
            m.outcome, plain | {"probabilities": probabilities}, odd=odd | {"probabilities": wrong}, weight=0.2),
        "planar_laplace": Target(
            m.planar_laplace, {"key": key(), "count": few, "rate": either(Fraction(1), Fraction(2))}, tame=("count",),
            weight=0.2,
        ),
        "noisy_argmax": Target(m.noisy_argmax, {"key": key(), "scores": whole_scores, "rate": rate}, fixed=("scores",),
            **row),
        "exact_exponential": Target(
            m.exact_exponential, {"key": key(), "scores": whole_scores, "rate": rate}, fixed=("scores",), weight=0.2,
            **row
        ),
        "largest_score": Target(m.largest_score, {"rate": rate}, check=whole),
        "top": Target(m.top, {"rate": rate}, check=whole),
        "exponential_log_probabilities": Target(
            logs, {"scores": scores, "epsilon": positive, "sensitivity": positive},
            fixed=("scores", "epsilon", "sensitivity"),
            check=finite,
        ),
        "exponential": Target(
            m.exponential, {"key": key(), "scores": scores, "epsilon": positive, "sensitivity": positive},
            fixed=("scores", "epsilon", "sensitivity"), named=False, **row,
        ),
        "gaussian, in floats": Target(
            jax.jit(m.gaussian), {"key": key(), "value": scores, "standard_deviation": positive},
            fixed=("key", "value", "standard_deviation"), nan=True,
        ),
        "laplace, in floats": Target(
            jax.jit(m.laplace), {"key": key(), "value": scores, "scale": positive}, fixed=("key", "value", "scale"),
            nan=True
        ),
        "tables.digits": Target(tables.digits, {"rate": rate}, check=whole),
        "tables.geometric": Target(tables.geometric, {"rate": rate}),
        "tables.padded": Target(tables.padded, {"rate": rate}),
        "tables.geometric_variation": Target(tables.geometric_total_variation, {"rate": rate}, check=unit),
        "tables.gaussian_variation": Target(
            tables.gaussian_total_variation, {"sigma": either(1, 4, 31, 32, 4096)}, tame=("sigma",), check=unit
        ),
        "tables.ladder": Target(tables.ladder, {"rate": rate}),
        "tables.planar_variation": Target(tables.planar_total_variation, {"rate": either(Fraction(1), Fraction(2))},
            check=unit),
        "tables.choice": Target(tables.choice, {"probabilities": probabilities}, odd={"probabilities": wrong}),
    }  # fmt: skip


def curators() -> dict[str, Target]:
    place = {"centre": floats_of(2), "scale": positive, "epsilon": st.floats(0.6, 20.0)}
    options = {"radius": st.none() | positive, "noise": either(*transforms.NOISES)}
    made = st.sampled_from([
        transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0),
        transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, radius=2.0, noise="float"),
        transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, delta=0.1, radius=2.0),
        transforms.randomised_response(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, cells=[[0.0, 0.0], [1.0, 1.0]]),
    ])  # fmt: skip
    noised = {"check": lambda found, _: is_guarantee(found.guarantee, None)}
    distribution = st.builds(input_noise.distribution, either(*input_noise.KINDS), positive, few)
    response = {"cells": distinct(), "truth": probability}
    fields = distribution.map(lambda one: one._asdict()) | st.fixed_dictionaries(response)
    made_response = st.builds(lambda one: input_noise.response(one, 0.5), distinct())
    statement = st.builds(guarantee.guarantee, either(*guarantee.NOTIONS[:-1]), positive, just("replace_one"), words)
    audit = st.builds(
        lambda hits, delta: auditing.epsilon_lower_bound(hits, 1, 20, delta=delta),
        st.integers(1, 20),
        share.filter(lambda x: x < 1),
    )
    wrong_fields = st.dictionaries(
        either("kind", "scale", "dimension", "cells", "truth", "more"), anything(), max_size=4
    )
    return {
        "random_projection": Target(
            transforms.random_projection,
            {"dimension": few, "projected": few, "epsilon": epsilon, "delta": probability, "scale": positive},
            tame=("dimension",), **noised,
        ),
        "threshold": Target(
            transforms.threshold, {"projected": few, "epsilon": epsilon, "delta": probability}, check=at_least_zero
        ),
        "largest_projected": Target(
            transforms.largest_projected, {"smallest_singular": positive, "epsilon": epsilon, "delta": probability},
            check=whole,
        ),
        "product_laplace": Target(transforms.product_laplace, place | options, **noised),
        "planar_laplace": Target(transforms.planar_laplace, place | options, **noised),
        "gaussian": Target(transforms.gaussian, place | options | {"delta": probability}, **noised),
        "private_projection": Target(
            transforms.private_projection, place | options | {"delta": probability, "projected": just(1)}, **noised
        ),
        "randomised_response": Target(
            transforms.randomised_response, place | {"cells": distinct(), "noise": either(*transforms.NOISES)}, **noised
        ),
        "curate": Target(
            transforms.curate,
            {"key": secret(), "config": made, "inputs": private_rows(), "insecure_key": st.booleans()},
            fixed=("config",), private=("inputs",), odd={"inputs": odd_private()},
            check=lambda found, _: finite(found.z, None) and is_guarantee(found.guarantee, None),
        ),
        "input_noise.distribution": Target(
            input_noise.distribution, {"kind": either(*input_noise.KINDS), "scale": positive, "dimension": few}),
        "input_noise.response": Target(input_noise.response, response),
        "input_noise.from_dict": Target(
            input_noise.from_dict, {"fields": fields}, odd={"fields": wrong_fields | anything()},
            words=("kind", "scale", "dimension", "cells", "truth"),
        ),
        "input_noise.variance": Target(
            input_noise.variance, {"distribution": distribution}, fixed=("distribution",), check=at_least_zero),
        "input_noise.difference_variances": Target(
            input_noise.difference_variances, {"distribution": distribution}, fixed=("distribution",)),
        "threshold_audit": Target(
            auditing.threshold_audit,
            {"first": floats_of(8), "second": floats_of(8), "delta": st.floats(0, 0.5), "confidence": probability,
             "sought": either("epsilon", "mu")},
            words=("scores",), weight=0.3,
        ),
        "trade_off": Target(auditing.trade_off, {"first": floats_of(8), "second": floats_of(8)}, words=("scores",),
            weight=0.3),
        "interval_scores": Target(
            auditing.interval_scores, {"first": floats_of(8), "second": floats_of(8), "bins": st.integers(2, 9)},
            tame=("bins",),
            words=("scores",), weight=0.3,
        ),
        "epsilon_lower_bound": Target(
            auditing.epsilon_lower_bound,
            {"correct": st.integers(0, 9), "wrong": st.integers(0, 9), "trials": st.integers(9, 50),
             "delta": st.floats(0, 0.5), "confidence": probability},
            check=lambda found, _: at_least_zero(found.epsilon, None),
        ),
        "outcome_scores": Target(
            auditing.outcome_scores, {"first": floats_of(8), "second": floats_of(8)}, words=("scores",), weight=0.3
        ),
        "declared_trade_off": Target(
            auditing.declared_trade_off, {"statement": statement, "type_one": floats_of(4, elements=share)},
            fixed=("statement",), words=("notion",), weight=0.3,
        ),
        "refuted": Target(
            auditing.refuted, {"audit": audit, "statement": statement, "distance": positive},
            fixed=("audit", "statement"),
            words=("delta", "metric_dp", "prior_averaged_dp"), weight=0.3,
        ),
        "input_noise.draw": Target(
            input_noise.draw, {"key": key(), "distribution": distribution, "count": just(2)},
            fixed=("key", "distribution", "count"),
            weight=0.2),
        "input_noise.probabilities": Target(
            input_noise.probabilities, {"response": made_response}, fixed=("response",), check=finite,
            weight=0.2),
        "input_noise.cell_variances": Target(
            input_noise.cell_variances, {"response": made_response}, fixed=("response",), check=finite,
            weight=0.2),
        "affine_misfit": Target(
            auditing.affine_misfit,
            {"known": floats_of(4, 2), "released": floats_of(4, 2), "candidate": floats_of(2),
                "its_release": floats_of(2)},
            nan=True,
        ),
        "reconstruct": Target(
            auditing.reconstruct, {"known": floats_of(4, 2), "its_release": floats_of(4, 2),
                "released": floats_of(5, 2)},
            nan=True,
        ),
    }  # fmt: skip


def ledgers(folder: Path) -> dict[str, Target]:
    number = itertools.count()
    template = folder / "template"
    ledger.create(template, notion="gdp", level=2, delta="1e-6", relation="replace_one", protects="them", by="me")
    spend = ledger.Spend((ledger.Event("gdp", 1),), "replace_one", "them")
    ledger.charge(template, "first", "a run", spend)
    whole_file = template.read_bytes()
    (folder / "directory").mkdir()

    def fresh() -> Path:
        return folder / f"l{next(number)}"

    def copied(content: bytes = whole_file) -> Path:
        path = fresh()
        path.write_bytes(content)
        return path

    def adopted() -> Path:
        path = copied()
        ledger.adopt(path, by="me")
        return path

    def on(function, make):
        """Its path made anew for every call, unless the path itself is odd."""

        def call(path, **others):
            place = make() if path is None else path
            try:
                return function(place, **others)
            finally:
                if path is None:
                    place.unlink(missing_ok=True)

        return call

    paths = {"path": st.none()}
    wrong = st.sampled_from(
        [5, 2.5, b"x", "", "\x00", folder / "directory", folder / "no" / "such", [], object(), "x" * 5000]
    )
    exact = st.fractions(Fraction(1, 9), 1) | st.floats(0.1, 1.0) | either("0.1", "1/3", "1e-3")
    zero_up = either(0, "1e-9", Fraction(1, 10**9), 1e-12)
    events = st.builds(lambda *fields: ledger.Event(*fields), just("gdp"), exact, either(0, "1e-9"), either(0, 2**-80))
    spends = st.builds(
        lambda *fields: ledger.Spend(*fields), st.lists(events, min_size=1, max_size=2).map(tuple),
        just("replace_one"), just("them"), st.none(), st.lists(words, max_size=2).map(tuple),
    )  # fmt: skip

    def odd_field(some, fields):
        return st.builds(lambda one, name, value: one._replace(**{name: value}), some, either(*fields), anything())

    odd_spend = odd_field(spends, spend._fields) | st.builds(
        lambda event: spend._replace(events=(event,)), odd_field(events, ledger.Event._fields)
    )
    payload = st.dictionaries(
        st.text(max_size=3), st.none() | st.booleans() | st.floats(-1, 1) | st.text(max_size=3), max_size=3
    )
    content = {"content": payload}
    common = {"odd": {"path": wrong}, "raises": (OSError, ledger.LedgerError)}
    fields = (*spend._fields, *ledger.Event._fields, "notion", "Spend", "Event", *OF_PATHS)

    @st.composite
    def corrupted(draw):
        found = bytearray(whole_file)
        for _ in range(draw(st.integers(1, 3))):
            way, at = draw(st.sampled_from(["set", "cut", "put", "drop"])), draw(st.integers(0, len(found)))
            if way == "cut":
                del found[at:]
            elif way == "put":
                found[at:at] = draw(st.binary(max_size=6) | either(b"\n", b'{"previous": "', whole_file[:200]))
            elif way == "drop":
                del found[at : at + draw(st.integers(1, 200))]
            elif at < len(found):
                found[at] = draw(st.integers(0, 255))
        return bytes(found)

    def reading(function):
        def call(content):
            path = copied(content)
            try:
                return function(path)
            finally:
                path.unlink()

        return Target(
            call, {"content": either(whole_file, whole_file[:-9])},
            odd={"content": corrupted() | st.binary(max_size=90)},
            named=False, raises=(ledger.LedgerError,),
        )  # fmt: skip

    budget = {"notion": either(*ledger.LEVELS), "level": exact, "delta": zero_up, "total_variation": zero_up,
              "relation": words, "protects": words, "by": st.none() | words}  # fmt: skip
    like = {"a": jax.ShapeDtypeStruct((2,), np.float32), "b": jax.ShapeDtypeStruct((), np.int32)}
    told = charges.as_text({"a": np.ones(2, np.float32), "b": np.int32(3)})
    odd_told = st.builds(
        lambda at, name, value: [one | ({name: value} if place == at else {}) for place, one in enumerate(told)],
        st.integers(0, 1), either("dtype", "shape", "data", "more"), anything(),
    )  # fmt: skip
    return {
        "charges.from_text": Target(
            lambda told: charges.from_text(like, told), {"told": just(told)}, odd={"told": odd_told | anything()},
            named=False, raises=(ledger.LedgerError,),
        ),
        "ledger.create": Target(on(ledger.create, fresh), paths | budget, words=fields, **common),
        "ledger.charge": Target(
            on(lambda path, **told: ledger.charge(path, **told), adopted),
            paths | {"run": words, "what": words, "spend": spends, "fingerprint": words,
                "timeout": either(0.0, 0.001, 1)},
            words=fields, fixed=("timeout",), **common | {"odd": {"path": wrong, "spend": odd_spend}},
        ),
        "ledger.store_release": Target(
            on(ledger.store_release, adopted), paths | {"run": either("first", "second"), "payload": payload},
            words=OF_PATHS, **common,
        ),
        "ledger.note": Target(
            on(ledger.note, adopted), paths | {"run": either("first", "second"), "number": either(1, 2)} | content,
            words=OF_PATHS, **common,
        ),
        "ledger.adopt": Target(
            on(lambda path, by: ledger.adopt(path, by=by), copied), paths | {"by": st.none() | words}, words=OF_PATHS,
            **common,
        ),
        "ledger.head": Target(on(ledger.head, copied), paths, **common | {"named": False}),
        "ledger.account": Target(on(ledger.account, copied), paths | {"expected_head": st.none()},
            **common | {"named": False}),
        "ledger.account of bytes": reading(ledger.account),
        "ledger.describe of bytes": reading(ledger.describe),
        "ledger.read of bytes": reading(ledger.read),
        "charges.charge": Target(
            on(lambda path, run, statement: charges.charge(path, run, "fuzz", statement, 1), adopted),
            paths | {"run": words, "statement": st.builds(lambda mu: guarantee.guarantee("gdp", mu, "replace_one",
                "them"), exact.filter(lambda x: isinstance(x, float)))},
            fixed=("statement",), words=fields, **common,
        ),
    }  # fmt: skip


def parties(folder: Path) -> dict[str, Target]:
    number = itertools.count()
    curated = transforms.curate(
        keys.key_from_bytes(bytes(32)), transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=2.0, delta=0.1),
        CANDIDATES[:4],
    )  # fmt: skip
    path = folder / "released"
    outsourcing.publish(path, curated)
    content, published = path.read_bytes(), outsourcing.read_published(path)
    header = json.loads(content.splitlines()[0])

    @st.composite
    def corrupted(draw):
        if draw(st.booleans()):
            told, name = dict(header), draw(st.sampled_from([*header, "more"]))
            inner = told.get(name)
            value = draw(
                st.none()
                | st.floats()
                | st.integers()
                | st.text(max_size=4)
                | st.lists(st.floats(), max_size=2)
                | either("gdp", True, {}, [[1]], 10**400, -1)
            )
            if isinstance(inner, dict) and draw(st.booleans()):
                inner = dict(inner)
                inner[draw(st.sampled_from(list(inner)))] = value
                value = inner
            told[name] = value
            return b"\n".join([json.dumps(told).encode(), *content.splitlines()[1:]]) + b"\n"
        found = bytearray(content)
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(found)))
            found[at : at + draw(st.integers(0, 20))] = draw(
                st.binary(max_size=5)
                | either(b"\n", b"[1, 2]\n", b"[" * 3000, b"NaN", b"null", b"1" + b"0" * 400, b'"a"', b"{}")
            )
        return bytes(found)

    def fresh() -> Path:
        return folder / f"o{next(number)}"

    def read(content):
        place = fresh()
        place.write_bytes(content)
        try:
            return outsourcing.read_published(place).curated.z
        finally:
            place.unlink()

    def publish(path, curated):
        outsourcing.publish(fresh() if path is None else path, curated)

    def serve(said, output, begun, queries):
        """What a curator says to anything; in order of its lines."""
        place, heard = fresh(), []
        if begun is not None:
            place.write_bytes(begun)
        try:
            with outsourcing.open_journal(place, published, b"8642097531", queries) as record:
                outsourcing.serve(record, constant(output), said, heard.append)
        finally:
            place.unlink(missing_ok=True)
        assert all(isinstance(json.loads(line), dict) for line in heard)
        return [line for line in heard if "error" in json.loads(line)]

    def search(said, key):
        replies = [json.dumps(one) if isinstance(one, dict) else one for one in said]
        return outsourcing.search(published, replies, lambda _: None, key=key, lengthscale=1.0, noise_variance=0.1).row

    line = st.text(max_size=12) | st.sampled_from([
        "", "{}", "[]", "null", "nan", '{"query": 1, "row": 0}', '{"query": 2, "row": 3}', '{"query": 1, "row": 1e0}',
        '{"query": true, "row": 0}', '{"query": 1, "row": -1}', '{"query": 1, "row": 99999999999999999999}',
        '{"answer": 0}', '{"answer": []}', '{"answer": null}', '{"answer": 1e400}', '{"row": 1}', "[" * 5000, '"' * 9,
        "\x00",
        '{"query": {"a": 1}, "row": []}', '{"answer": ' + "9" * 5000 + "}",
    ])  # fmt: skip
    outputs = any_float | odd_private() | anything()
    hello = {
        "schema": spoken.SCHEMA,
        "version": 1,
        "released": published.digest,
        "rows": 4,
        "queries": 2,
        "answers": [],
    }
    reply = st.builds(
        lambda q, r, o: {"query": q, "row": r, "output": o}, few, st.integers(0, 3), any_float | st.none()
    )

    @st.composite
    def greetings(draw):
        told = dict(hello)
        if draw(st.booleans()):
            told[draw(st.sampled_from([*told, "more"]))] = draw(
                st.none()
                | st.integers(-2, 4)
                | st.floats()
                | st.text(max_size=3)
                | st.lists(reply | st.integers(), max_size=4)
                | either(True, {}, "2", 2.0, 10**30)
            )
        return told

    said = st.lists(reply | line, max_size=3)
    refused = {"raises": (outsourcing.ProtocolError,)}
    wrong_paths = st.sampled_from([5, 2.5, b"x", "", "\x00", folder, folder / "no" / "such", [], object(), str(folder)])
    begun = (
        st.none()
        | st.binary(max_size=60)
        | st.lists(line, max_size=3).map(lambda x: "\n".join(x).encode("utf8", "replace"))
    )
    content_of = st.fixed_dictionaries({"query": few, "row": st.integers(0, 3), "output": any_float | st.none()})
    odd_content = st.dictionaries(either("query", "row", "output", "more"), anything(), max_size=4) | anything()
    return {
        "lines.parsed": Target(spoken.parsed, {"line": line}, named=False, **refused),
        "lines.answer_of": Target(
            spoken.answer_of, {"content": content_of, "number": few, "rows": just(4)}, odd={"content": odd_content},
            fixed=("number", "rows"), words=("query", "row", "output", "answered"), named=False, **refused,
        ),
        "lines.lines_of": Target(
            lambda text: list(outsourcing.lines_of(io.StringIO(text, newline=""))), {"text": st.text(max_size=40)},
            fixed=("text",),
        ),
        "read_published of bytes": Target(
            read, {"content": just(content)}, odd={"content": corrupted() | st.binary(max_size=60)}, named=False,
            check=finite, weight=4, **refused,
        ),
        "read_published of a path": Target(
            outsourcing.read_published, {"path": just(path)}, odd={"path": wrong_paths}, named=False,
            raises=(OSError, outsourcing.ProtocolError),
        ),
        "publish": Target(
            publish, {"path": st.none(), "curated": just(curated)}, odd={"path": wrong_paths}, fixed=("curated",),
            named=False, raises=(OSError,), weight=0.3,
        ),
        "serve": Target(
            serve, {"said": st.lists(line, max_size=4), "output": outputs, "begun": begun, "queries": just(3)},
            fixed=("said", "output", "begun"),
            private=("output",), named=False, weight=3, **refused,
        ),
        "search": Target(
            search,
            {"said": st.builds(lambda one, more: [one, *more], greetings(), said), "key": secret()},
            fixed=("said",), named=False, weight=2, **refused,
        ),
    }  # fmt: skip


def proofs() -> dict[str, Target]:
    g, u, p, v, s = gibo_theory, prior_averaged, po_theory, ucb_theory, sensitivity
    noise = {
        "clip_norm": positive,
        "steps": few,
        "users": count,
        "mu": positive,
        "dimension": few,
        "failure": probability,
    }
    traces = st.lists(positive, min_size=1, max_size=3)
    gap = {"initial_gap": positive, "step_size": st.floats(0.01, 1.0), "rkhs_norm": positive, "noise": positive}
    box = st.builds(u.Box, few, positive, st.floats(1.0, 5.0), positive)
    paper = either(*u.CONSTANTS)
    lipschitz = {"gain_lipschitz": positive, "loss_lipschitz": positive}
    return {
        "noise_radius": Target(g.noise_radius, noise, check=at_least_zero),
        "noise_term": Target(g.noise_term, noise, check=at_least_zero),
        "bias_radius": Target(g.bias_radius, {"trace": positive, "rkhs_norm": positive}, check=at_least_zero),
        "mean_squared_gradient_bound": Target(
            g.mean_squared_gradient_bound, {"traces": traces} | gap, check=at_least_zero
        ),
        "geometric_radius": Target(
            g.geometric_radius,
            {"traces": traces, "step_size": st.floats(0.01, 0.5), "convexity": st.floats(0.1, 1.9),
                "rkhs_norm": positive,
             "noise": positive},
            check=at_least_zero,
        ),
        "suboptimality_bound": Target(
            g.suboptimality_bound, {"traces": traces, "convexity": st.floats(0.1, 1.0)} | gap, check=at_least_zero
        ),
        "distance_bound": Target(g.distance_bound, {"suboptimality": positive, "convexity": positive},
            check=at_least_zero),
        "adaptive_mean_squared_gradient_bound": Target(
            g.adaptive_mean_squared_gradient_bound, {"tolerance": positive, "steps": few} | gap, tame=("steps",),
            check=at_least_zero,
        ),
        "adaptive_suboptimality_bound": Target(
            g.adaptive_suboptimality_bound,
            {"tolerance": positive, "steps": few, "convexity": st.floats(0.1, 1.0)} | gap, check=at_least_zero,
        ),
        "shares": Target(u.shares, {"delta": probability, "release": release, "exact": st.booleans(),
            "constants": paper}),
        "confidence_beta": Target(u.confidence_beta, {"candidates": count, "step": few, "share": probability}),
        "final_confidence_beta": Target(u.final_confidence_beta, {"candidates": count, "share": probability}),
        "box_confidence_beta": Target(
            u.box_confidence_beta, {"box": box, "step": few, "share": probability}, fixed=("box",)
        ),
        "net_size": Target(u.net_size, {"box": box, "step": few, "share": probability}, fixed=("box",)),
        "utilities": Target(
            s.utilities, {"candidates": count, "correlation": share, "share": probability}, check=at_least_zero
        ),
        "noise_gap": Target(
            u.noise_gap, {"deviation": positive, "steps": few, "share": probability, "constants": paper},
            check=at_least_zero,
        ),
        "average_regret": Target(
            u.average_regret, {"noise_variance": positive, "beta": positive, "information": positive, "steps": few},
            check=at_least_zero,
        ),
        "exact_regret": Target(
            u.exact_regret,
            {"beta": positive, "steps": few, "candidates": few, "information": just(constant(1.5)),
                "skip_threshold": positive},
            fixed=("information",), check=at_least_zero,
        ),
        "posterior_mean": Target(s.posterior_mean, {"beta": positive, "gap": positive}, check=at_least_zero),
        "largest_observation": Target(
            s.largest_observation, {"regret": positive, "gap": positive, "noise_gap": positive}, check=at_least_zero
        ),
        "decayed_regret": Target(
            u.decayed_regret,
            {"steps": st.integers(3, 50), "dimension": few, "amplitude": positive, "rate": small, "constants": paper},
            check=at_least_zero,
        ),
        "mean_gain": Target(
            s.mean_gain, {"users": count, "largest_gain": positive, "smallest": positive,
                "constants": paper} | lipschitz,
            check=at_least_zero,
        ),
        "regularisation": Target(
            s.regularisation, {"smallest": st.floats(0.1, 1), "largest": st.floats(1, 9)} | lipschitz,
            check=at_least_zero,
        ),
        "point_shortfall": Target(
            v.point_shortfall,
            {"candidates": count, "beta": positive, "sensitivity": positive, "epsilon": epsilon,
                "failure": probability},
        ),
        "selection_shortfall": Target(
            v.selection_shortfall,
            {"candidates": count, "sensitivity": positive, "epsilon": epsilon, "failure": probability},
        ),
        "value_error": Target(
            v.value_error,
            {"regret": positive, "noise_gap": positive, "sensitivity": positive, "epsilon": epsilon,
                "failure": probability},
            check=at_least_zero,
        ),
        "over_candidates": Target(
            u.over_candidates,
            {"candidates": count, "dimension": few, "steps": few, "delta": probability, "correlation": share,
             "noise_variance": either(0.0, 0.1, 2.0), "release": release, "information": just(constant(1.5)),
             "constants": paper, "decay": st.none(), "skip_threshold": either(0.0, 1e-10)},
            fixed=("information",), words=("deviation",),
        ),
        "over_box": Target(
            u.over_box,
            {"box": box, "grid": count, "steps": few, "delta": st.floats(0.1, 0.9),
                "delta_point": st.floats(0.01, 0.09),
             "correlation": share, "noise_variance": either(0.1, 2.0), "release": release,
             "information": just(constant(1.5))},
            fixed=("information", "box"), words=("deviation",),
        ),
        "rank_for_distances": Target(
            p.rank_for_distances, {"rows": count, "distortion": st.floats(0.01, 0.4), "failure": probability},
            check=whole
        ),
        "distance_factors": Target(
            p.distance_factors, {"distortion": st.floats(0.01, 0.4), "smallest_singular": positive,
                "threshold": positive}
        ),
        "diagonally_dominant": Target(p.diagonally_dominant, {"covariance": floats_of(3, 3)}),
        "distortion_for_regret": Target(
            p.distortion_for_regret, {"regret": positive, "diameter": positive, "largest_output": positive},
            check=at_least_zero,
        ),
        "simple_regret_bound": Target(
            p.simple_regret_bound,
            {"regret": positive, "steps": few, "beta": positive, "information": positive, "noise_variance": positive,
             "first_constant": positive, "second_constant": positive},
            check=at_least_zero,
        ),
        "replace_one_regret_floor": Target(
            p.replace_one_regret_floor, {"regrets": floats_of(4, elements=positive), "steps": few, "epsilon": epsilon},
            check=at_least_zero,
        ),
    }  # fmt: skip


def surrogates() -> dict[str, Target]:
    one = kernels.stationary(1.0, 2)
    fitting = {"kernel": just(kernels.rbf), "params": just(one), "dimension": just(2)}
    points, mask = floats_of(4, 2, elements=any_float).map(jnp.asarray), just(jnp.asarray([True, True, True, False]))
    values = floats_of(4, 2, elements=any_float).map(jnp.asarray)

    def pure(function, check=None, nan=True, **arguments):
        """Takes clean arrays: only their numbers are odd."""
        return Target(function, arguments, fixed=tuple(arguments), check=check, nan=nan, named=False)

    clipped = jax.jit(clipping.clip_by_l2_norm)

    def bounded(found, given):
        return finite(found[0], None) and np.all(np.linalg.norm(found[0], axis=0) <= given["clip_norm"] * (1 + 1e-9))

    return {
        "kernels.stationary": Target(
            kernels.stationary, {"lengthscale": positive | floats_of(2, elements=positive), "dimension": just(2),
                "variance": positive},
            tame=("dimension",),
        ),
        "kernels.polynomial_of_degree": Target(
            kernels.polynomial_of_degree, {"degree": few, "offset": positive, "variance": positive}
        ),
        "kernels.check": Target(kernels.check, fitting, tame=("dimension",), words=("kernel_params",)),
        "noisy_inputs": Target(
            noisy_inputs.noisy_inputs, {"distribution": just(input_noise.distribution("gaussian", 1.0, 2)),
            "lengthscale": positive}, fixed=("distribution",)
        ),
        "cell_covariance": Target(
            noisy_inputs.cell_covariance,
            {"response": just(input_noise.response([[0.0], [1.0]], 0.5)), "lengthscale": positive},
            fixed=("response",),
        ),
        "gp.fit": Target(
            lambda **o: gp.fit(jax.random.key(0), gp.Model(kernels.rbf, one, jnp.asarray(0.1)), jnp.zeros((2, 2)),
                jnp.zeros(2), jnp.ones(2, bool), **o),
            {"num_restarts": either(0, -1), "steps": just(1), "within": just(2.0), "spread": just(1.0)},
            tame=("num_restarts", "steps"),
            fixed=("num_restarts",), weight=0.2,
        ),
        "pareto.hypervolume": Target(
            pareto.hypervolume, {"values": either(jnp.zeros((4, 1)), jnp.zeros((4, 4))), "mask": mask,
                "reference": just(jnp.ones(2))},
            fixed=("values", "mask", "reference"), weight=0.2,
        ),
        "pareto.non_dominated": pure(jax.jit(pareto.non_dominated), values=values, mask=mask),
        "pareto.strips": pure(jax.jit(pareto.strips), values=values, mask=mask, reference=just(jnp.ones(2))),
        "pareto.hypervolume of anything": pure(
            jax.jit(pareto.hypervolume), values=values, mask=mask, reference=just(jnp.ones(2))
        ),
        "first_of_largest": pure(
            jax.jit(maximize.first_of_largest), lambda found, _: 0 <= int(found[0]) < 5,
            utilities=floats_of(5, elements=any_float).map(jnp.asarray), start=st.integers(0, 4),
        ),
        "preprocessing.repaired": pure(
            jax.jit(preprocessing.repaired), finite, utilities=floats_of(4, elements=any_float).map(jnp.asarray),
            mask=mask
        ),
        "preprocessing.standardized": pure(
            jax.jit(preprocessing.standardized), finite,
            values=floats_of(4, elements=st.floats(allow_nan=False, allow_infinity=False)).map(jnp.asarray), mask=mask
        ),
        "preprocessing.mean_loss": pure(
            jax.jit(preprocessing.mean_loss), losses=floats_of(4, 2, elements=any_float).map(jnp.asarray), mask=mask,
            nan=False
        ),
        "preprocessing.counted": pure(
            jax.jit(preprocessing.counted), finite, values=floats_of(4, elements=any_float).map(jnp.asarray), mask=mask,
            centre=just(jnp.asarray(1.0)), scale=just(jnp.asarray(2.0)), limits=just(jnp.asarray([-1e3, 1e3])),
        ),
        "acquisition.beta_of_candidates": pure(
            jax.jit(acquisition.beta_of_candidates, static_argnames="candidates"), finite, t=few, candidates=just(5),
            delta=probability
        ),
        "acquisition.beta_of_box": pure(jax.jit(acquisition.beta_of_box, static_argnames="dimension"), finite, t=few,
            dimension=just(5)),
        "clip_by_l2_norm": pure(clipped, bounded, vectors=floats_of(2, 4, elements=any_float).map(jnp.asarray),
            clip_norm=positive),
        "clipped_sum": pure(
            jax.jit(clipping.clipped_sum), lambda found, _: finite(found[0], None),
            weights=floats_of(4, 2).map(jnp.asarray),
            losses=floats_of(4, 3, elements=any_float).map(jnp.asarray), clip_norm=positive,
        ),
        "clipped_sum on the grid": pure(
            jax.jit(clipping.clipped_sum),
            lambda found, _: np.linalg.norm(np.asarray(found[0], float)) <= 3 * 900,
            weights=floats_of(4, 2).map(jnp.asarray),
            losses=floats_of(4, 3, elements=any_float).map(jnp.asarray), clip_norm=positive,
            radius=just(jnp.asarray(900, jnp.int32)),
        ),
        "gp.condition": pure(
            jax.jit(lambda points, mask: gp.condition(gp.Model(kernels.rbf, one, jnp.asarray(0.1)), points, mask)),
            points=points, mask=mask,
        ),
    }  # fmt: skip


def loss_of_table(point, table):
    """A row ``(n,)`` of ``table (k, n)``, which one the bits of the point say: values that no point explains."""
    table = jnp.atleast_2d(*jax.tree.leaves(table)[:1] or [jnp.zeros(4)])
    words = jax.lax.bitcast_convert_type(jnp.asarray(point), jnp.uint32).ravel()
    mixed = jnp.sum(words * jnp.asarray(np.arange(1, 2 * words.size, 2), jnp.uint32), dtype=jnp.uint32)
    return table[(mixed >> 7) % table.shape[0]]


def utility_of_table(point, table):
    return loss_of_table(point, table)[0]


def two_of_table(point, table):
    return loss_of_table(point, table)[:2]


def gradient_of_table(point, table):
    row = loss_of_table(point, table)
    return jnp.stack([row, -row])


def says_nothing(point, data):
    return None


def says_text(point, data):
    return "losses"


def first_losses(point, data):
    """For ``run_loop``: whatever stands in the data."""
    return data[0] if isinstance(data, list) else data


def configs() -> dict[str, Target]:
    descent = {
        "users": either(4, 100), "steps": few, "mu": small, "bounds": boxes(), "clip_norm": positive,
        "theta0": st.none(),
        "step_size": st.none() | positive, "optimizer": either(optax.sgd, optax.adagrad),
        "output": either("last", "last_half_mean"),
        "noise": either("exact", "float"),
    }  # fmt: skip
    search = {"raw_samples": either(8, 9), "num_restarts": either(1, 2), "ascent_steps": few}
    searched_box = {"search": st.builds(maximize.Search, either(8, 9), either(1, 2), few)}
    kernel = {"kernel": either(kernels.rbf, kernels.matern52), "kernel_params": st.none()}
    gibo = {
        "batch": st.none() | few, "noise_variance": positive, "tolerance": st.none() | positive,
        "memory": either(*dp_gibo.MEMORIES),
        "neighbours": just(0), "polish_steps": few, "allow_incomplete_gradient": st.booleans(),
    }  # fmt: skip
    finite_set = {"candidates": distinct()}
    told = ("bounds", "candidates", "theta0", "step_size", "kernel_params", "kernel")
    ucb_options = {
        "steps": just(3), "users": st.none() | few, "noise_variance": positive, "beta": st.none() | positive,
        "delta": probability,
        "standardize": st.booleans(), "refit_every": st.integers(0, 3), "fit_steps": few,
        "answer": either(*gp_ucb.ANSWERS),
    }  # fmt: skip
    dp_ucb = {
        "steps": either(3), "epsilon": epsilon, "delta": probability, "correlation": share, "release": release,
        "point_share": probability, "noise_variance": either(0.0, 0.1), "centre": wide, "scale": positive,
        "noise": either("exact", "float"),
    }  # fmt: skip
    paper = {"decay": st.none(), "constants": either(*prior_averaged.CONSTANTS)}
    gains = {
        "users": count, "epsilon": epsilon, "largest_gain": positive, "steps": few,
        "gain_lipschitz": positive | just(math.inf), "loss_lipschitz": positive | just(math.inf),
        "acquisition": either("ucb", "expected_improvement"), "release": just("value"), "point_share": probability,
        "sigma": positive, "constants": either(*prior_averaged.CONSTANTS), "noise": either("exact", "float"),
    }  # fmt: skip
    curated = transforms.curate(
        keys.key_from_bytes(bytes(32)), transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=2.0, delta=0.1),
        CANDIDATES[:4],
    )  # fmt: skip
    inner = gp_ucb.config(steps=3, candidates=CANDIDATES[:4])
    searched = CASES["dpareto"].config(1.0)
    measured = dpareto.Release(
        point=jnp.asarray(CANDIDATES[0]), points=jnp.asarray(CANDIDATES[:3]),
        values=jnp.asarray([[1.0, 0.1], [2.0, 0.2], [0.5, 0.5]]), failed=jnp.zeros(3, jnp.int32),
        front=jnp.ones(3, bool),
        hypervolume=jnp.asarray(1.0), models=searched.model,
    )  # fmt: skip
    of_a_search = {"config": just(searched), "released": just(measured)}
    places = {"points": floats_of(2, 2, elements=any_float).map(jnp.asarray)}
    front = {
        "bounds": just(low_high(BOUNDS)), "initial_design": just(CANDIDATES[:2]), "proposals": few,
        "reference": st.tuples(positive, probability),
        "integer_mask": st.none(), "batch": either(1, 2), "acquisition": either(*dpareto.ACQUISITIONS),
        "fit_steps": few,
    }  # fmt: skip
    evaluations = {"users": count, "mu": small, "loss_range": just((0.0, 1.0)), "noise": either("exact", "float")}
    stationary_words = ("lengthscale", "variance", "users", "evaluations")
    return {
        "dp_gibo.config": Target(
            dp_gibo.config, descent | gibo | kernel, words=told, check=promises(dp_gibo.algorithm), weight=3
        ),
        "dp_gd.config": Target(dp_gd.config, descent, check=promises(dp_gd.algorithm), weight=2),
        "random_search.config": Target(
            random_search.config, {"users": count, "steps": few, "bounds": boxes(), "batch": few},
            check=promises(random_search.algorithm),
        ),
        "bounds that are no numbers": Target(
            lambda bounds: random_search.config(users=1, steps=1, bounds=bounds), {"bounds": either(*NO_NUMBERS)},
            fixed=("bounds",), check=nothing_may_pass, weight=0.2,
        ),
        "gp_ucb.config over a box": Target(gp_ucb.config, ucb_options | searched_box | kernel | {"bounds": boxes()},
            words=told, weight=2),
        "gp_ucb.config over candidates": Target(gp_ucb.config, ucb_options | searched_box | kernel | finite_set,
            words=told, weight=2),
        "dp_gp_ucb.finite_config": Target(
            dp_gp_ucb.finite_config, dp_ucb | paper | finite_set | {"kernel_params": st.none()},
            words=(*told, "amplitude"), weight=2, tame=("steps",),
            check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.box_config": Target(
            dp_gp_ucb.box_config,
            dp_ucb | {"noise_variance": just(0.1), "bounds": boxes(), "release": just("point"), "grid": distinct(),
                "search": st.builds(maximize.Search, **search)},
            words=told, weight=2, fixed=("search",), tame=("steps",), check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.box_config of a value": Target(
            dp_gp_ucb.box_config,
            dp_ucb | {"noise_variance": just(0.1), "bounds": just(low_high(BOUNDS)), "release": just("value"),
                "slope": st.tuples(st.floats(1, 3), positive)},
            words=told, weight=0.5, tame=("steps",), check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.lipschitz_config": Target(
            dp_gp_ucb.lipschitz_config, gains | finite_set, words=told, weight=2, check=promises(dp_gp_ucb.algorithm)
        ),
        "dp_gp_ucb.lipschitz_config, in order": Target(
            dp_gp_ucb.lipschitz_config,
            gains | finite_set | {"steps": st.none(), "acquisition": just("in_order"), "release": release,
                "gain_lipschitz": just(math.inf), "loss_lipschitz": just(math.inf)},
            words=told, weight=2, check=promises(dp_gp_ucb.algorithm),
        ),
        "dp_gp_ucb.preview": Target(
            dp_gp_ucb.preview, {"config": just(CASES["dp_gp_ucb"].config(1.0)), "draws": just(4), "rows": just(9)},
            fixed=("config",), tame=("draws",),
            odd={"rows": anything().filter(lambda x: not is_gigantic(x)) | just(10**9)}, weight=0.3,
        ),
        "po_gp_ucb.config": Target(
            po_gp_ucb.config,
            {"curated": just(curated), "steps": few, "lengthscale": positive, "noise_variance": positive,
             "noise_aware": st.booleans(), "centre": wide, "scale": positive, "delta": probability},
            fixed=("curated",), check=promises(po_gp_ucb.algorithm), weight=0.5,
        ),
        "dpareto.config": Target(
            dpareto.config, front | {"search": either(maximize.Search(8, 1, 1), maximize.Search(9, 2, 3))}, weight=2
        ),
        "dpareto.settings_for": Target(
            dpareto.settings_for, {"key": key()} | of_a_search | {"epsilon": positive}, fixed=("config", "released"),
            check=finite, weight=0.3,
        ),
        "dpareto.predicted": Target(
            dpareto.predicted, of_a_search | places, fixed=("config", "released", "points"), nan=True, weight=0.3
        ),
        "dpareto.improvement": Target(
            dpareto.improvement, of_a_search | places, fixed=("config", "released", "points"), nan=True, weight=0.3
        ),
        "private_evaluations.config": Target(
            private_evaluations.config, {"inner": just(gp_ucb.algorithm), "inner_config": just(inner)} | evaluations,
            fixed=("inner", "inner_config"), words=stationary_words, weight=0.3,
        ),
        "private_evaluations.noise_deviation": Target(
            private_evaluations.noise_deviation, evaluations | {"evaluations": few}, words=stationary_words,
            check=at_least_zero
        ),
        "PrivateObjective": Target(
            lambda **told: drivers.PrivateObjective(first_losses, 0.8642097531864209, **told),
            evaluations | {"evaluations": few, "key": secret(), "insecure_key": st.booleans()}, words=stationary_words,
        ),
    }  # fmt: skip


NO_NUMBERS = (
    np.array([[0j, 0], [1, 1]]), [[0j, 0.0], [1.0, 1.0]], [["0", "0"], ["1", "1"]], np.array([["0"], ["1"]]),
    [[b"0"], [b"1"]],
    np.array([["0"], ["1"]], object), [[None, 0.0], [1.0, 1.0]],
    np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[:, None],
)  # fmt: skip


def nothing_may_pass(*_):
    return False


def runners(folder: Path) -> dict[str, Target]:
    number = itertools.count()
    bounds = {"low": [-1.0, -1.0], "high": [1.0, 1.0]}
    config = dp_gibo.config(users=4, steps=2, mu=1.0, bounds=bounds, batch=2, polish_steps=1)
    objectives = either(loss_of_table)
    data = private_rows(rows=3, dimension=4)
    safe = {"key": secret(), "insecure_key": st.booleans()}
    odd_data = {
        "data": odd_private(),
        "objective": either(None, 5, "a", len, says_nothing, says_text, utility_of_table, two_of_table),
    }
    shared = {"objective": objectives, "data": data}
    refused = {"raises": (drivers.RunInterrupted, ledger.LedgerError), "private": ("data",), "nan": False}
    known = (
        "len",
        "algorithm",
        "config",
        "objective",
        "data",
        "users",
        "values",
        "losses",
        "key",
        "ledger",
        "run",
        "state",
    )

    def losses_of(point, data):
        """For Python: as many numbers as there are, of whatever kind."""
        return data

    def scanned(algorithm, config, **told):
        return drivers.run_scan(algorithm, config=config, **told).release

    def looped(algorithm, config, **told):
        return drivers.run_loop(algorithm, losses_of, config=config, **told).release

    def scan_on_record(ledger, run, key, **told):
        place = folder / f"r{next(number)}" if ledger is None else ledger
        if ledger is None:
            jaxdpbo.privacy.ledger.create(
                place, notion="gdp", level=1, relation="replace_one", protects=guarantee.USERS, total_variation=1e-9
            )
        return drivers.run_scan(
            dp_gibo.algorithm, config=config, recording=drivers.Recording(place, run), key=key, **told
        ).release

    algorithms = {"algorithm": just(dp_gibo.algorithm), "config": just(config)}
    wrong_algorithms = {
        "algorithm": either(None, 5, "dp_gibo", dp_gibo, (1, 2, 3, 4, 5), dp_gd.algorithm, dict),
        "config": either(
            None, 5, "a", {}, gp_ucb.config(steps=2, bounds=bounds), SimpleNamespace(steps=2), dp_gibo.Config
        ),
    }
    stateless = {"state": st.none(), "executor": st.none(), "progress": just(False)}
    one = st.builds(lambda seed: jax.random.split(jax.random.key(seed), 2), few)
    minimized = {
        "mu": small, "steps": just(2), "batch": just(2), "clip_norm": positive, "noise": just("exact"),
        "bounds": just(bounds),
        "theta0": st.none(), "users": st.none() | just(4),
    }  # fmt: skip
    return {
        "run_scan": Target(
            scanned, algorithms | shared | safe, odd=odd_data | wrong_algorithms, words=known, weight=2, **refused
        ),
        "run_scan on record": Target(
            scan_on_record, shared | {"ledger": st.none(), "run": words, "key": st.none()},
            odd=odd_data | {"ledger": either(5, "\x00", folder / "no" / "such", folder / "template", b"x", folder)},
            words=(*known, *OF_PATHS), **refused | {"raises": (OSError, ledger.LedgerError, drivers.RunInterrupted)},
            weight=0.3,
        ),
        "run_loop": Target(
            looped, algorithms | {"data": floats_of(4, elements=any_float)} | safe | stateless,
            odd={"data": odd_private(), "state": either(5, "a", (), (1, 2), object(), SimpleNamespace(public=1)),
                 "executor": either(5, "a", object())} | wrong_algorithms,
            fixed=("progress",), words=known, weight=2, **refused,
        ),
        "minimize": Target(
            lambda **told: drivers.minimize(**told).release, shared | minimized | safe,
            tame=("steps", "batch", "users"),
            odd=odd_data, words=(*known, "noise"), weight=2, **refused,
        ),
        "sweep": Target(
            lambda configs, **told: drivers.sweep(dp_gibo.algorithm, configs=configs, **told).release,
            shared | {"configs": just(config), "keys": one, "policy": st.none() | just("map")},
            odd=odd_data | {"configs": either(None, [], (), 5, "ab", [config, 5], [None])}, words=known, **refused,
        ),
        "distribute": Target(
            lambda inputs, policy: drivers.distribute(added_up, inputs, jnp.ones(()), policy=policy),
            {"inputs": floats_of(2), "policy": st.none() | just("map")},
            odd={"inputs": either(None, [], {}, 5.0, [np.zeros(2), np.zeros(3)], np.zeros((0, 2)), "ab", [object()],
                ())},
        ),
        "PrivateObjective of anything": Target(
            lambda losses: evaluated(losses), {"losses": floats_of(4, elements=any_float)},
            odd={"losses": odd_private()},
            private=("losses",), words=("loss",),
        ),
    }  # fmt: skip


def added_up(each, shared):
    return each + shared


def evaluated(losses):
    objective = drivers.PrivateObjective(
        lambda point, data: data, losses, users=4, mu=1.0, evaluations=1, loss_range=(0.0, 1.0)
    )
    return objective(0)


def protocols() -> dict[str, Target]:
    """``tell`` of every algorithm, values of wrong shapes: refused at trace time."""
    found = {}
    for name, case in CASES.items():
        config = case.config(1.0)
        state = jax.eval_shape(case.algorithm.init, jax.random.key(0), config)
        query = jax.eval_shape(case.algorithm.ask, jax.random.key(0), config, state)

        def tell(shape, case=case, config=config, state=state, query=query):
            values = jax.ShapeDtypeStruct(shape, jnp.result_type(float))
            return str(jax.eval_shape(case.algorithm.tell, jax.random.key(0), config, state, query, values))

        shapes = st.lists(st.integers(0, 7), max_size=4).map(tuple)
        found[f"tell of {name}"] = Target(
            tell, {"shape": shapes}, fixed=("shape",), words=("values",), weight=0.1
        )  # fmt: skip
    return found


def trainings() -> dict[str, Target]:
    settings = {
        "steps": few,
        "batch": few,
        "learning_rate": positive,
        "noise_multiplier": positive,
        "clip_norm": positive,
    }
    labels = jnp.asarray([0, 1] * 4)
    model = models.logistic_regression(2)
    trained = jax.jit(
        lambda features, settings: dp_optim.train(
            jax.random.key(0), model, models.examples(features, labels), settings, largest=4
        )
    )
    projected = jax.jit(lambda features: permutation_sgd.train(jax.random.key(0), features, labels, 0.1, 0.1, passes=2))
    errors = jax.jit(
        lambda noise: oracles.sparse_vector_errors(jax.random.split(jax.random.key(0), 2), 3, noise, queries=5, ones=2)
    )
    made = st.builds(dp_optim.settings, **settings | {"learning_rate": small, "clip_norm": small})
    any_rows = floats_of(8, 2, elements=any_float).map(jnp.asarray)
    dataset = datasets.Dataset(CANDIDATES, np.arange(9.0) % 2, "nine rows")
    splitting = {"dataset": just(dataset), "seed": few, "train": few, "validation": st.none() | few}
    return {
        "logistic_regression": Target(models.logistic_regression, {"features": few}),
        "linear_svm": Target(models.linear_svm, {"features": few}),
        "mlp": Target(models.mlp, {"features": few, "hidden": st.lists(few, max_size=2), "classes": st.integers(2, 4)}),
        "dp_optim.settings": Target(dp_optim.settings, settings),
        "steps_of_epochs": Target(dp_optim.steps_of_epochs, {"epochs": count, "records": count, "batch": count},
            check=whole),
        "capacities": Target(dp_optim.capacities, {"largest": count, "records": count, "smallest": either(1, 8)}),
        "dp_optim.train": Target(
            trained, {"features": any_rows, "settings": made}, fixed=("features", "settings"), check=finite, named=False
        ),
        "permutation_sgd.train": Target(projected, {"features": any_rows}, fixed=("features",), check=finite,
            named=False),
        "sampling.draws_of": Target(sampling.draws_of, {"records": count, "capacity": few}, check=whole),
        "training_epsilon": Target(
            oracles.training_epsilon,
            {"settings": made, "records": st.integers(100, 1000), "delta": probability},
            fixed=("settings",), words=("batch",), weight=0.5,
            check=lambda found, _: at_least_zero(found.epsilon, None),
        ),
        "sparse_vector_errors": Target(errors, {"noise": positive}, fixed=("noise",), check=finite, named=False),
        "random_settings": Target(
            spaces.random_settings, {"space": either(*spaces.SPACES.values()), "count": few, "seed": few},
            fixed=("space",), tame=("count",),
        ),
        "grid_settings": Target(
            spaces.grid_settings, {"space": either(*spaces.SPACES.values()), "size": few}, fixed=("space",),
            tame=("size",)
        ),
        "splits.divided": Target(
            splits.divided, {"total": st.integers(8, 50), "seed": few, "train": few, "validation": st.none() | few,
                             "ordered": st.booleans()},
            tame=("total",),
        ),
        "kernel_svr.split": Target(kernel_svr.split,
            splitting | {"ordered": st.booleans(), "features": st.none() | just(1)}, fixed=("dataset",)),
        "kernel_svr.bounds": Target(kernel_svr.bounds, {"features": few}, tame=("features",)),
        "kernel_svm.split": Target(kernel_svm.split, splitting | {"positive": just(1.0)}, fixed=("dataset",)),
        "logistic_regression.split": Target(logistic_regression.split, splitting, fixed=("dataset",)),
        "datasets.load": Target(datasets.load, {"name": just("diabetes")}, fixed=("download",), weight=0.2),
        "datasets.table": Target(datasets.table, {"name": either(*datasets.TABLES)}, raises=(OSError,)),
        "classification.load": Target(
            classification.load, {"name": just("adult"), "seed": few, "test": st.none() | few}, fixed=("seed",),
            weight=0.2, raises=(OSError,)
        ),
        "outsourced.grid": Target(outsourced.grid, {"side": positive, "points": few}, tame=("points",)),
        "outsourced.branin_hoo": Target(outsourced.branin_hoo, {"points": few}, tame=("points",)),
        "location.sample": Target(location.sample, {"key": key(), "users": few}, tame=("users",), named=False),
        "huber_regression.sample": Target(huber_regression.sample, {"key": key(), "users": few}, tame=("users",),
            named=False),
        "gp_regression.start": Target(gp_regression.start, {"key": key()}),
    }  # fmt: skip


def table(folder: Path) -> dict[str, Target]:
    """Every row; ``folder`` is for files."""
    return {
        **accountants(), **statements(), **noises(), **curators(), **ledgers(folder), **parties(folder), **proofs(),
        **surrogates(), **configs(), **runners(folder), **protocols(), **trainings(),
    }  # fmt: skip


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

"""Named dimensions: to the unit box and back, the same for Python and under a trace."""

import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxdpbo import Search, Space, minimize, space

MIXED = Space(
    {
        "C": space.real(1e-3, 1e3, log=True),
        "shift": space.real(-2.0, 6.0),
        "depth": space.integer(2, 9),
        "leaves": space.integer(1, 500, log=True),
        "kernel": space.categorical("rbf", "poly", None, True),
    }
)
UNIT = st.lists(st.floats(0, 1), min_size=5, max_size=5)


@settings(max_examples=200, deadline=None)
@given(UNIT)
def test_there_and_back(point):
    params = MIXED.params(point)
    again = MIXED.params(MIXED.point(params))
    assert all(again[name] == params[name] for name in ("depth", "leaves", "kernel"))
    np.testing.assert_allclose(again["C"], params["C"], rtol=1e-12)
    np.testing.assert_allclose(again["shift"], params["shift"], atol=1e-12)
    assert [type(value) for value in params.values()][:4] == [float, float, int, int]
    np.testing.assert_allclose(MIXED.snap([point])[0], MIXED.point(params), atol=1e-12)


def test_ends_and_intervals():
    low, high = (MIXED.params(np.full(5, end)) for end in (0.0, 1.0))
    assert low == {"C": pytest.approx(1e-3), "shift": -2.0, "depth": 2, "leaves": 1, "kernel": "rbf"}
    assert high == {"C": pytest.approx(1e3), "shift": 6.0, "depth": 9, "leaves": 500, "kernel": True}
    assert MIXED.params(np.array([-9.0, -9.0, 9.0, 9.0, 9.0])) == low | {"depth": 9, "leaves": 500, "kernel": True}
    depths = [MIXED.params([0, 0, place, 0, 0])["depth"] for place in (np.arange(800) + 0.5) / 800]
    assert set(np.bincount(depths)[2:]) == {100}


@pytest.mark.parametrize("dimension", [space.integer(1, 500, log=True), space.integer(-3, 2**24 - 5)])
def test_every_whole_number_has_a_place(dimension):
    for value in {dimension.low, dimension.low + 1, (dimension.low + dimension.high) // 2, dimension.high}:
        place = dimension.encode("x", value)
        assert 0 <= place <= 1
        assert dimension.plain(dimension.decode(np.asarray(place), np)) == value


NUMBERS = Space({name: MIXED.dimensions[i] for i, name in enumerate(MIXED.names[:4])} | {"k": space.categorical(3, 5)})


@settings(max_examples=50, deadline=None)
@given(UNIT)
def test_a_traced_point_is_the_same(point):
    traced = _traced(jnp.asarray(point))
    for name, value in NUMBERS.params(point).items():
        np.testing.assert_allclose(traced[name], value, rtol=1e-12, atol=1e-12)


_traced = jax.jit(NUMBERS.params)


def test_float32_keeps_whole_numbers(float32):
    wide = Space({"x": space.integer(1, 2**24)})
    for place in (0.0, 0.3, 1.0):
        assert 1 <= int(jax.jit(wide.params)(jnp.asarray([place]))["x"]) <= 2**24


def test_categories_that_are_no_numbers_are_refused_under_a_trace():
    with pytest.raises(TypeError, match="categories must be numbers where JAX traces"):
        jax.jit(MIXED.params)(jnp.zeros(5))


def test_spaces_compare_by_what_they_are():
    same = Space(dict(zip(MIXED.names, MIXED.dimensions, strict=True)))
    assert same == MIXED == pickle.loads(pickle.dumps(MIXED))
    assert hash(same) == hash(MIXED)
    assert MIXED.real_axes.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: space.real(1, 1), "low must be less than high"),
        (lambda: space.real(0, 1, log=True), "low must be positive where log=True"),
        (lambda: space.real(0, math.inf), "high must be finite"),
        (lambda: space.integer(0.5, 2), "low must be an integer"),
        (lambda: space.integer(1, 2**25, log=True), "high must be at most"),
        (lambda: space.categorical("a"), "two or more"),
        (lambda: space.categorical("a", "a"), "all different"),
        (lambda: space.categorical("a", [1]), "choices must be text"),
        (lambda: Space({}), "at least one"),
        (lambda: Space([("a", space.real(0, 1))]), "must be a dict of names"),
        (lambda: Space({1: space.real(0, 1)}), "names must be text"),
        (lambda: Space({"a": (0, 1)}), "must be real"),
        (lambda: Space({"a": Space({"b": space.real(0, 1)})}), "conditional dimensions are not supported"),
        (lambda: Space({"a": lambda params: space.real(0, 1)}), "conditional dimensions are not supported"),
        (lambda: MIXED.params([0.0]), "must have shape"),
        (lambda: MIXED.point({"C": 1.0}), "params must be a dict of"),
        (lambda: MIXED.point(MIXED.params(np.zeros(5)) | {"kernel": 1}), "must be one of"),
        (lambda: MIXED.point(MIXED.params(np.zeros(5)) | {"depth": 2.5}), "must be a whole number"),
        (lambda: MIXED.point(MIXED.params(np.zeros(5)) | {"C": 1e4}), "must lie in"),
        (lambda: MIXED.snap(np.zeros((3, 4))), "points must be finite, of shape"),
    ],
)
def test_mistakes_are_named(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()


@pytest.mark.parametrize(
    ("value", "dimension"),
    [
        (["rbf", "poly", None], space.categorical("rbf", "poly", None)),
        ([1, 2.5], space.categorical(1, 2.5)),
        (list(np.array([1, 4])), space.categorical(1, 4)),
        (stats.uniform(), space.real(0, 1)),
        (stats.uniform(loc=-1, scale=3), space.real(-1, 2)),
        (stats.loguniform(1e-3, 1e2), space.real(1e-3, 1e2, log=True)),
        (stats.reciprocal(1, 2), space.real(1, 2, log=True)),
        (stats.randint(1, 10), space.integer(1, 9)),
        (stats.randint(1, 10, loc=2), space.integer(3, 11)),
    ],
)
def test_lists_and_distributions_are_dimensions(value, dimension):
    assert Space({"x": value}) == Space({"x": dimension})
    assert all(type(choice) in (int, float, str, type(None)) for choice in getattr(dimension, "choices", ()))


class uniform_gen(stats.rv_continuous):
    """A stranger's, of SciPy's name."""

    def _pdf(self, x):
        return 2 * x


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (stats.norm(), "x must be real"),
        (stats.binom(3, 0.5), "x must be real"),
        (stats.uniform, "x must be real"),  # not frozen
        (uniform_gen(a=0, b=1, name="uniform")(), "x must be real"),
        (stats.uniform(scale=0), "x: low must be"),
        (stats.uniform(np.zeros(2), np.ones(2)), "x: low must be|x: low must have"),
        (stats.loguniform(1, 2, loc=1), "x: loguniform must have loc=0"),
        (stats.randint(1, 2), "x: low must be less than high"),
        (["rbf"], "x: choices must be two or more"),
        ([1, [2]], "x: choices must be text"),
        (np.array([1.0, 2.0]), "x must be real"),
        (range(3), "x must be real"),
        (0.5, "x must be real.* a list of choices, or a frozen uniform, loguniform or randint of scipy.stats, got 0.5"),
    ],
)
def test_other_spellings_of_a_dimension_are_refused_by_name(value, said):
    with pytest.raises((TypeError, ValueError), match=said):
        Space({"x": value})


def test_a_dict_of_dimensions_is_a_space_and_one_of_ends_is_a_box():
    named = {"x": space.real(0, 2), "k": [1, 2]}
    assert space.box(named)[1] == Space(named)
    assert space.box({"low": space.real(0, 1), "high": [1, 2]})[1].names == ("low", "high")
    for ends in ({"low": [0, 1], "high": [2, 3]}, {"lower": [0, 1], "upper": [2, 3]}, {"low": [0]}, {}):
        assert space.box(ends) == (ends, None)  # which says what is wrong with them


@pytest.mark.parametrize("ends", [(-1e308, 1e308), (-1.7e308, 1e307)])
def test_a_range_too_wide_for_a_float_is_refused(ends):
    with pytest.raises(ValueError, match="high - low must be a float"):
        space.real(*ends)
    low, high = -8e307, 8e307
    found = Space({"x": space.real(low, high)})
    assert [found.params([place])["x"] for place in (0.0, 0.5, 1.0)] == [low, 0.0, high]


@pytest.mark.usefixtures("float32")
@pytest.mark.parametrize(
    "dimension",
    [space.real(-3e38, 3e38), space.real(1e-45, 1.0, log=True), space.real(0, 1e39), space.integer(1, 2**20, log=True)],
)
def test_a_range_that_float32_cannot_hold_is_refused_under_a_trace_and_right_in_python(dimension):
    """``minimize`` then calls the loss from Python, where values are of 64 bits."""
    found = Space({"x": dimension})
    with pytest.raises(ValueError, match="float32"):
        jax.jit(found.params)(jnp.zeros(1))
    for place in (0.0, 0.1, 0.5, 1.0):
        value = found.params([place])["x"]
        assert dimension.low <= value <= dimension.high
        assert dimension.count or math.isclose(found.point({"x": value})[0], place, abs_tol=1e-5)
    run = minimize(
        lambda params, records: np.abs(records - (params["x"] > 10)), np.zeros(400), found, loss_range=(0, 1), mu=2.0,
        search=Search(method="in_order", steps=2, batch=2),
    )  # fmt: skip
    assert dimension.low <= run.release.params["x"] <= dimension.high


@pytest.mark.usefixtures("float32")
def test_whole_numbers_in_the_logarithm_come_back_under_a_trace():
    largest = 2**18
    found = Space({"x": space.integer(1, largest, log=True)})
    whole = np.unique(np.concatenate([np.arange(1, 2000), np.arange(largest - 2000, largest + 1)]))
    places = jnp.asarray([found.point({"x": int(number)}) for number in whole], jnp.float32)
    np.testing.assert_array_equal(jax.jit(jax.vmap(lambda place: found.params(place)["x"]))(places), whole)

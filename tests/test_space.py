"""Named dimensions: to the unit box and back, the same for Python and under a trace."""

import copy
import math
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jaxdpbo import Search, Space, minimize, space
from jaxdpbo.ledger.fingerprints import fingerprint

MIXED = Space(
    {
        "C": space.real(1e-3, 1e3, log=True),
        "shift": space.real(-2.0, 6.0),
        "depth": space.integer(2, 9),
        "leaves": space.integer(1, 500, log=True),
        "kernel": space.categorical("rbf", "poly", None, True),
    }
)
OBJECTS = Space({"f": [np.mean, "none"], "layers": space.categorical(small=(8, 8), large={"deep": [64, 64]})})
TREE = Space(
    {
        "scale": space.real(0.1, 10, log=True),
        "model": space.branches(
            {
                "svm": {"kernel": space.branches({"rbf": {"gamma": space.real(0, 1)}, "linear": {}}), "C": [1, 2]},
                "forest": {"C": space.real(0, 5), "depth": space.integer(1, 9), "seed": [7]},
                "mean": {},
            }
        ),
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


def test_objects_are_known_by_their_labels():
    params = OBJECTS.params([0.0, 0.9])
    assert params["f"] is np.mean
    assert params["layers"] == {"deep": [64, 64]}
    assert params == {"f": np.mean, "layers": {"deep": [64, 64]}}
    labels = {"f": "mean_0", "layers": "large"}
    assert repr(params) == str(params) == repr(labels)
    assert OBJECTS.to_labels(params) == labels
    assert repr(OBJECTS.from_labels(labels)) == repr(labels)
    assert OBJECTS.from_labels(labels)["f"] is np.mean
    assert "deep" not in repr(OBJECTS)
    assert "function" not in repr(OBJECTS)
    np.testing.assert_allclose(OBJECTS.point(params), [0.25, 0.75])
    np.testing.assert_allclose(OBJECTS.point(labels), [0.25, 0.75])
    np.testing.assert_allclose(OBJECTS.point({"f": "none", "layers": "small"}), [0.75, 0.25])
    assert repr(pickle.loads(pickle.dumps(params))) == repr(params)
    assert space.categorical(lambda: 1, str, ()).labels == ("lambda_0", "str_1", "tuple_2")
    assert type(MIXED.params(np.zeros(5))) is dict  # plain choices are what they were


class Uncomparable:
    """Fails where somebody compares or prints it."""

    def __eq__(self, other):
        raise AssertionError("compared")

    def __repr__(self):
        raise AssertionError("printed")

    __hash__ = None


def test_objects_are_never_compared_or_printed():
    first, second = Uncomparable(), Uncomparable()
    one, other = ({"x": space.categorical(first, last)} for last in (second, Uncomparable()))
    assert Space(one) == Space(one) != Space(other)
    assert hash(Space(one)) == hash(Space(one))
    assert Space({"x": space.categorical(a=1, b=2)}) != Space({"x": space.categorical(a=1, b=True)})
    searched = Space(one)
    assert searched.point({"x": second}).tolist() == [0.75]
    assert searched.params([0.9])["x"] is second
    assert str(searched.params([0.1])) == "{'x': 'Uncomparable_0'}"
    assert fingerprint(searched) == fingerprint(Space(other)) != fingerprint(Space({"x": space.categorical("a", "b")}))
    with pytest.raises(ValueError, match="got another Uncomparable"):
        searched.point({"x": Uncomparable()})


def test_what_a_loss_writes_into_an_object_stays_out_of_the_release():
    """An estimator that a loss fits to the records would hold them."""
    choices = [[], [0]]
    records = np.linspace(0.2, 0.8, 500)

    def loss(params, records):
        params["model"].append(records)
        return np.abs(records - len(params["model"]) / 4)

    run = minimize(
        loss, records, {"model": choices}, loss_range=(0, 1), mu=1.0, search=Search(method="in_order", steps=2, batch=2)
    )
    assert run.release.params["model"] in ([], [0])
    assert choices == [[], [0]]
    assert any(run.release.params["model"] is choice for choice in choices)
    assert "model': 'list_" in repr(run)
    assert run.report().fingerprint
    assert run.report().fingerprint == run._replace(release=copy.deepcopy(run.release)).report().fingerprint


def test_a_branch_decides_which_parameters_exist():
    assert TREE.names == (
        "scale", "model", "model.svm.kernel", "model.svm.kernel.rbf.gamma", "model.svm.C", "model.forest.C",
        "model.forest.depth",
    )  # fmt: skip
    weights = np.array([4, 3, 1]) / 8  # one more than the coordinates
    assert TREE.dimensions[1].weights == tuple(weights)
    rows = [TREE.params([0.5, place] + [0.9] * 5)["model"] for place in (np.arange(800) + 0.5) / 800]
    assert [rows.count(name) for name in ("svm", "forest", "mean")] == (800 * weights).tolist()
    assert TREE.params(np.full(7, 0.01)) == {"scale": pytest.approx(0.1, rel=0.1), "model": "svm", "kernel": "rbf",
                                              "gamma": 0.01, "C": 1}  # fmt: skip
    assert TREE.params([0.5, 0.6, 0.0, 0.0, 0.0, 0.4, 1.0]) == {
        "scale": pytest.approx(1), "model": "forest", "C": pytest.approx(2), "depth": 9, "seed": 7
    }  # fmt: skip
    assert TREE.params([0.5, 1.0] + [0.3] * 5) == {"scale": pytest.approx(1), "model": "mean"}
    assert Space({"m": space.branches({"a": {}, "b": {}}, weights={"a": 3, "b": 1})}).params([0.7]) == {"m": "a"}
    assert hash(TREE) == hash(pickle.loads(pickle.dumps(TREE)))
    assert pickle.loads(pickle.dumps(TREE)) == TREE
    assert not np.any(TREE.real_axes[1:3])
    assert TREE.branched
    assert not MIXED.branched


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=7, max_size=7))
def test_points_of_a_tree_there_and_back(point):
    params = TREE.params(point)
    again = TREE.point(params)
    np.testing.assert_allclose(TREE.snap([point])[0], again, atol=1e-12)
    assert TREE.to_labels(params) == params
    assert TREE.from_labels(params) == params
    reached = {"svm": {2, 4} | ({3} if params.get("kernel") == "rbf" else set()), "forest": {5, 6}, "mean": set()}[
        params["model"]
    ]
    absent = [axis for axis in range(2, 7) if axis not in reached]
    others = np.array(point)
    others[absent] = 0.123
    np.testing.assert_allclose(TREE.snap(others), again, atol=1e-12)
    imputed, moved = (np.asarray(_impute(jnp.asarray(each))) for each in (np.array(point), others))
    np.testing.assert_array_equal(imputed, moved)
    named = [isinstance(each, (space.Branches, space.Categorical)) for each in TREE.dimensions]
    np.testing.assert_array_equal(imputed[absent], np.where(np.array(named)[absent], -1.0, 0.5))
    assert np.all(again[absent] == 0.5)
    np.testing.assert_allclose(imputed[1], again[1], atol=1e-6)
    placed = [TREE.snap(others)[4], others[5]]  # a category is in the middle of its interval, a real number stays
    np.testing.assert_allclose(imputed[[4, 5]], np.where([4 in reached, 5 in reached], placed, [-1.0, 0.5]))


_impute = jax.jit(space.imputation(TREE))


def test_a_list_of_dicts_is_branches_without_a_name():
    grids = Space([{"model": [np.mean], "C": [1, 2]}, {"model": [np.median, np.max], "C": space.real(0, 1)}])
    assert grids.names == ("branch", "branch.0.C", "branch.1.model", "branch.1.C")
    first, second = grids.params([0.1, 0.9, 0.9, 0.9]), grids.params([0.9, 0.1, 0.1, 0.5])
    assert first == {"model": np.mean, "C": 2}
    assert second == {"model": np.median, "C": 0.5}
    assert repr(first) == "{'C': 2, 'model': 'mean'}"
    assert repr(second) == "{'model': 'median_0', 'C': 0.5}"
    for params in (first, second):
        assert grids.params(grids.point(params)) == params == grids.from_labels(grids.to_labels(params))
    assert space.box([{"C": [1, 2]}])[1] == Space({"C": [1, 2]})
    assert Space([{"C": [1, 2], "kind": ["a"]}]).params([0.9]) == {"kind": "a", "C": 2}
    assert [params["model"] for params in space.middles(grids)] == [np.mean, np.max]
    assert [tuple(params) for params in space.middles(TREE)] == [
        ("scale", "model", "kernel", "gamma", "C"), ("scale", "model", "C", "depth", "seed"), ("scale", "model"),
        ("scale", "model", "kernel", "C"),
    ]  # fmt: skip


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
        (lambda: space.categorical("a", math.nan), "choices must be finite"),
        (lambda: space.categorical("a", b="c"), "all by position or all by keyword"),
        (lambda: space.categorical(svm={"C": space.real(0, 1)}, mean={}), "type space.branches"),
        (lambda: space.categorical(threading.Lock(), "a"), "copy.deepcopy copies"),
        (
            lambda: OBJECTS.point({"f": np.mean, "layers": np.zeros(2)}),
            "must be one of 'small', 'large', got another ndarr",
        ),
        (lambda: OBJECTS.from_labels({"f": "mean_0", "layers": "huge"}), "must be one of 'small', 'large', got 'huge'"),
        (lambda: jax.jit(OBJECTS.params)(jnp.zeros(2)), "categories must be numbers .* got .'mean_0', 'none'"),
        (lambda: Space({}), "at least one"),
        (lambda: Space([("a", space.real(0, 1))]), "must be a dict of names"),
        (lambda: Space({1: space.real(0, 1)}), "names must be text"),
        (lambda: Space({"a": (0, 1)}), "must be real"),
        (lambda: Space({"a": Space({"b": space.real(0, 1)})}), "a: for parameters .* type space.branches"),
        (lambda: Space({"a": lambda params: space.real(0, 1)}), "a: for parameters .* type space.branches"),
        (lambda: Space({"a": {"b": space.real(0, 1)}}), "a: for parameters .* type space.branches"),
        (lambda: space.branches({"a": {}}), "branches must be two or more"),
        (lambda: space.branches([{}, {}]), "branches must be a dict of names"),
        (lambda: space.branches({"a": {}, "b": [1]}), "branch 'b' must be a dict of names"),
        (lambda: space.branches({"a": {}, "b": {"c": 1}}), "c must be real"),
        (lambda: space.branches({"a": {}, "b": {}}, weights={"a": 1}), "weights must be a dict of 'a', 'b'"),
        (lambda: space.branches({"a": {}, "b": {}}, weights={"a": 1, "b": 0}), "weights.'b'. must be positive"),
        (lambda: Space({"C": [1, 2], "m": space.branches({"a": {"C": [1, 2]}, "b": {}})}), "C: two parameters of one"),
        (lambda: Space({"m": space.branches({"a": {"m": [1, 2]}, "b": {}})}), "m: two parameters of one name"),
        (
            lambda: Space({"m.a.C": [1, 2], "m": space.branches({"a": {"C": [1, 2]}, "b": {}})}),
            "m.a.C: a name with dots",
        ),
        (lambda: jax.jit(TREE.params)(jnp.zeros(len(TREE.names))), "JAX cannot trace the loss"),
        (lambda: TREE.point({"model": "svm", "C": 1.0}), "params must be a dict of"),
        (lambda: TREE.point({"model": "mean", "depth": 1}), "params must be a dict of"),
        (lambda: TREE.point({"model": "mean"} | {"scale": 1.0, "extra": 2}), "params must be a dict of"),
        (
            lambda: TREE.point({"model": "tree", "scale": 1.0}),
            "model must be one of 'svm', 'forest', 'mean', got 'tree'",
        ),
        (lambda: Space([{"a": [1]}, {"b": [2, 3]}]).point({"b": 9}), "must fit one of the dicts .* one of 2, 3, got 9"),
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
        ([1, math.inf], "x: choices must be finite"),
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


def test_a_choice_is_no_label_of_another():
    """Who types a printed label back must get its choice."""
    with pytest.raises(ValueError, match="choices must differ from the labels of others, got 'b'"):
        space.categorical(a="b", b="a")
    assert space.categorical(a="a", b=(1, 2)).labels == ("a", "b")

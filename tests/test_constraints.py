"""Constraints on the parameters of a ``Space``: met by every point that a loss sees, and by the release."""

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from option_groups import group_options

from jaxdpbo import Space, minimize, preview, space
from jaxdpbo.drivers import methods
from jaxdpbo.ledger.fingerprints import fingerprint

DIMENSIONS = {
    "a": space.real(0, 1),
    "b": space.real(-1, 3),
    "c": space.real(0.1, 10, log=True),
    "n": space.integer(1, 4),
}
BELOW = space.linear({"a": 2, "b": 1, "c": -0.5}, most=0.5)
SUM = Space(DIMENSIONS, constraints=[BELOW])
MIXTURE = Space(
    {name: space.real(0, 1) for name in "xyz"}, constraints=[space.linear({"x": 1, "y": 1, "z": 1}, least=1, most=1)]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_a_point_has_the_nearest_parameters_that_meet_the_constraint(point):
    params = SUM.params(point)
    assert 2 * params["a"] + params["b"] - 0.5 * params["c"] <= 0.5 + 1e-12
    free = Space(DIMENSIONS).params(point)
    if BELOW.holds(free):
        assert params == free
    low, side = np.array([0, -1, 0.1]), np.array([1, 4, 9.9])
    wanted = (np.array([free[name] for name in "abc"]) - low) / side
    oracle = scipy.optimize.minimize(
        lambda t: np.sum((t - wanted) ** 2), np.zeros(3), bounds=[(0, 1)] * 3, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda t: 0.5 - (low + side * t) @ [2, 1, -0.5]}, options={"ftol": 1e-14},
    ).x  # fmt: skip
    found = (np.array([params[name] for name in "abc"]) - low) / side
    assert np.sum((found - wanted) ** 2) <= np.sum((oracle - wanted) ** 2) + 1e-6
    traced = _traced(jnp.asarray(point))
    np.testing.assert_allclose([float(traced[name]) for name in "abcn"], list(params.values()), rtol=1e-9, atol=1e-9)
    snapped = SUM.snap(point)
    np.testing.assert_allclose(SUM.point(params), snapped, atol=1e-7)
    assert SUM.meets(snapped)


_traced = jax.jit(SUM.params)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_the_parts_of_a_mixture_add_up(point):
    parts = list(MIXTURE.params(point).values())
    assert sum(parts) == pytest.approx(1, abs=1e-12)
    assert min(parts) >= 0


def test_float32_meets_a_constraint_to_rounding(float32):
    parts = jax.jit(MIXTURE.params)(jnp.array([0.9, 0.8, 0.1]))
    assert sum(map(float, parts.values())) == pytest.approx(1, abs=1e-6)


def test_a_design_leaves_out_what_breaks_a_constraint_and_moves_what_is_left():
    half = Space({"a": space.real(0, 1), "b": space.real(0, 1)}, constraints=[space.linear({"a": 1, "b": 1}, most=1)])
    points = space.spread(half, 100, 2)
    assert points.shape == (100, 2)
    assert np.all(points.sum(axis=1) <= 1)
    assert np.sum(points.sum(axis=1) > 0.999) < 3  # none was moved to the border
    np.testing.assert_allclose(space.spread(MIXTURE, 20, 3).sum(axis=1), 1)
    np.testing.assert_array_equal(space.spread(Space(DIMENSIONS), 20, 4), space.sobol(20, 4, 0))


RECORDS = np.random.default_rng(0).normal([0.6, 0.3, 0.1], 0.05, (500, 3))


def losses(params, records):
    parts = jnp.stack([params[name] for name in "xyz"])
    return jnp.sum(jnp.square(records - parts[None]), axis=1)


@pytest.mark.daily("evaluations", "choice", "local", "proposed", "in_order")
@pytest.mark.parametrize("method", methods.METHODS)
def test_every_search_keeps_to_a_mixture_and_finds_its_best(method):
    given = {"method": method, "steps": 20, "batch": 4, "mu": 20.0, "clip_norm": 1.0 if "local" in method else None}
    public = RECORDS[:60].copy() if method == methods.PROPOSED else None
    seeded = {"key": jax.random.key(0), "insecure_key": True}
    found = minimize(losses, RECORDS, MIXTURE, public=public, loss_range=(0, 1), **group_options(**given, **seeded))
    parts = np.array(list(found.release.params.values()))
    assert parts.sum() == pytest.approx(1, abs=1e-9)
    assert np.linalg.norm(parts - [0.6, 0.3, 0.1]) < 0.25


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: space.linear({"a": 1}, most=1), "two or more"),
        (lambda: space.linear({"a": 1, "b": 0}, most=1), "not 0"),
        (lambda: space.linear({"a": 1, "b": 1}), "one of them given"),
        (lambda: space.linear({"a": 1, "b": 1}, least=2, most=1), "least must be at most most"),
        (lambda: space.linear([1, 2], most=1), "weights must be a dict of names"),
        (lambda: Space(DIMENSIONS, constraints=[lambda params: True]), "must be a list of space.linear"),
        (lambda: Space(DIMENSIONS, constraints=[space.linear({"a": 1, "d": 1}, most=1)]), "real parameters of one"),
        (lambda: Space(DIMENSIONS, constraints=[space.linear({"a": 1, "n": 1}, most=1)]), "real parameters of one"),
        (lambda: Space(DIMENSIONS, constraints=[space.linear({"a": 1, "b": 1}, least=5)]), "from -1 to 4"),
        (lambda: Space(DIMENSIONS, constraints=[space.linear({"a": 1, "b": 1}, most=1), BELOW]), "'a' in two"),
        (
            lambda: SUM.point({"a": 1.0, "b": 3.0, "c": 1.0, "n": 1}),
            "params must have a sum from -inf to 0.5 .* got 4.5",
        ),
    ],
)
def test_mistakes_are_named(make, said):
    with pytest.raises((TypeError, ValueError), match=said):
        make()


def test_a_constraint_counts_in_the_branch_of_its_parameters():
    shares = {"p": space.real(0, 1), "q": space.real(0, 1)}
    tree = Space(
        {"m": space.branches({"two": shares, "none": {}})}, constraints=[space.linear({"p": 1, "q": -1}, most=0)]
    )
    params = tree.params([0.1, 0.9, 0.3])
    assert params["p"] <= params["q"] + 1e-12
    assert params["p"] == pytest.approx(0.6)
    assert tree.params([0.99, 0.9, 0.3]) == {"m": "none"}
    np.testing.assert_allclose(tree.snap([0.99, 0.9, 0.3])[1:], 0.5)
    np.testing.assert_array_equal(tree.meets([[0.99, 0.9, 0.3], [0.1, 0.9, 0.3], [0.1, 0.3, 0.9]]), [True, False, True])
    weights = np.mean(space.spread(tree, 400, 3)[:, 0] < 0.75)
    assert 0.55 < weights < 0.65  # half of one branch is left out: 3 / 8 of 5 / 8
    assert tree != Space({"m": tree.dimensions[0]})


def test_a_constraint_is_of_its_branch_alone():
    """In another branch the same names may be fixed values, which move nowhere."""
    inside = {"a": space.real(0, 1), "b": space.real(0, 1)}
    tree = space.branches({"mixed": inside, "fixed": {"a": [0.5], "b": [0.9]}})
    searched = Space({"m": tree}, constraints=[space.linear({"a": 1, "b": 1}, most=1)])
    fixed = {"m": "fixed", "a": 0.5, "b": 0.9}
    assert searched.params(searched.point(fixed)) == fixed
    mixed = searched.params([0.1, 1.0, 1.0])
    assert mixed["a"] + mixed["b"] <= 1 + 1e-6
    with pytest.raises(ValueError, match="params must have a sum"):
        searched.point({"m": "mixed", "a": 0.9, "b": 0.9})


TREES = {"depth": space.integer(1, 9), "leaves": space.integer(2, 512, log=True), "rate": space.real(0, 1)}


def fits(params):
    return params["leaves"] <= 2 ** params["depth"] and params["rate"] <= 0.8


FEASIBLE = Space(TREES, feasible=fits)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
def test_a_point_that_is_not_feasible_has_the_nearest_parameters_of_a_design(point):
    params, free = FEASIBLE.params(point), Space(TREES).params(point)
    assert fits(params)
    if fits(free):
        assert params == free
        assert FEASIBLE.meets(point)
        np.testing.assert_array_equal(FEASIBLE.snap(point), Space(TREES).snap(point))
        return
    tried = Space(TREES).snap(space.sobol(1024, 3, 0))
    allowed = np.array([each for each in tried if fits(Space(TREES).params(each))])
    nearest = allowed[np.argmin(np.sum((allowed - Space(TREES).point(free)) ** 2, axis=1))]
    assert params == Space(TREES).params(nearest)
    np.testing.assert_array_equal(FEASIBLE.snap(point), nearest)
    assert FEASIBLE.params(FEASIBLE.snap(point)) == params
    assert not FEASIBLE.meets(point)
    with pytest.raises(ValueError, match="params must be feasible, got 'depth', 'leaves', 'rate' where"):
        FEASIBLE.point(free)


def test_parameters_on_the_border_are_taken_as_they_are():
    """The point and back may differ in the last digit."""
    for rate in (0.1, 0.3, 0.7, 0.8):
        edge = Space({"rate": space.real(0, 3)}, feasible=lambda params, rate=rate: params["rate"] <= rate)
        assert edge.to_labels({"rate": rate}) == edge.from_labels({"rate": rate}) == {"rate": rate}


def tree_losses(params, records):
    assert fits(params)
    return np.abs(records - params["rate"]) / 2 + 0.02 * (9 - params["depth"])


@pytest.mark.daily("evaluations", "in_order")
@pytest.mark.parametrize("method", ["auto", *(each for each in methods.METHODS if each != methods.LOCAL)])
def test_every_search_keeps_to_what_is_feasible(method):
    """The least loss of all, at .9, is not feasible."""
    records = np.full(300, 0.9)
    given = {"method": method, "steps": 8, "batch": 4, "mu": 30.0}
    public = records[:40].copy() if method == methods.PROPOSED else None
    seeded = {"key": jax.random.key(0), "insecure_key": True}
    found = minimize(
        tree_losses, records, FEASIBLE, public=public, loss_range=(0, 1), **group_options(**given, **seeded)
    )
    assert fits(found.release.params)
    assert found.release.params["rate"] > 0.5
    assert dict(found.terms)["SHA-256 of feasible and its values"] == fingerprint(fits)


def test_descents_keep_to_what_is_feasible():
    disc = Space({"a": space.real(0, 1), "b": space.real(0, 1)}, feasible=lambda p: p["a"] ** 2 + p["b"] ** 2 <= 1)
    records = np.full((300, 2), 0.9)

    def far(params, records):
        assert params["a"] ** 2 + params["b"] ** 2 <= 1
        return np.sum(np.abs(records - [params["a"], params["b"]]), axis=1)

    seeded = {"key": jax.random.key(0), "insecure_key": True}
    given = {"method": "local", "steps": 15, "mu": 30.0, "clip_norm": 1.0}
    params = minimize(far, records, disc, loss_range=(0, 2), **group_options(**given, **seeded)).release.params
    assert params["a"] + params["b"] > 1.2


def test_a_feasible_that_no_search_can_use_is_named():
    def with_(feasible):
        return lambda: Space(TREES, feasible=feasible)

    for make, said in (
        (with_(lambda params: params["depth"] > 9), "must be True at 10 of 1024 points of a design, got 0"),
        (with_(lambda params: params["depth"]), "feasible must return True or False, got int"),
        (with_("depth"), "feasible must be a function of the parameters, got str"),
        (lambda: jax.jit(FEASIBLE.params)(jnp.zeros(3)), "feasible is a function of Python"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            make()


def test_feasible_gets_copies_and_is_in_the_fingerprint_and_shown():
    """What it writes into an object must not reach a release."""

    def spoil(params):
        params["of"].append(1)
        return len(params["of"]) == 1

    shown = Space({"of": space.categorical(a=[], b=[]), "x": space.real(0, 1)}, feasible=spoil)
    assert shown.params([0.1, 0.5])["of"] == []
    shown.to_labels(shown.params([0.1, 0.5]))
    assert shown.dimensions[0].choices == ([], [])
    assert repr(shown).endswith("; feasible by spoil)")
    assert fingerprint(Space(TREES, feasible=fits)) == fingerprint(FEASIBLE)
    assert fingerprint(FEASIBLE) != fingerprint(Space(TREES, feasible=lambda params: params["rate"] < 0.7))
    assert Space(TREES) != FEASIBLE
    again = cloudpickle.loads(cloudpickle.dumps(FEASIBLE))
    assert again.params([0.0, 1.0, 0.5]) == FEASIBLE.params([0.0, 1.0, 0.5])


def test_a_feasible_that_raises_in_a_run_counts_as_false_and_in_the_design_is_raised():
    """A run may have been charged by then."""
    calls = []

    def fails_late(params):
        calls.append(params)
        if len(calls) > 1024:
            raise KeyError("late")
        return params["rate"] <= 0.8

    late = Space(TREES, feasible=fails_late)
    assert fits(late.params([0.5, 0.1, 0.3]) | {"leaves": 2})
    assert not late.meets([0.5, 0.1, 0.3])
    with pytest.raises(KeyError, match="early"):
        Space(TREES, feasible=lambda params: {}["early"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_of_a_list_of_dicts_a_point_keeps_its_own(point):
    pair = {"a": space.real(0, 1), "b": space.real(0, 1)}
    grids = LISTED[0] if LISTED else Space([pair, pair | {"a": space.real(0, 2)}], feasible=small_sum)
    LISTED.append(grids)
    params = grids.params(point)
    assert params == grids.params(grids.snap(point))
    assert small_sum(params)
    assert (grids.snap(point)[0] < 0.5) == (point[0] < 0.5)


LISTED = []


def small_sum(params):
    return params["a"] + params["b"] <= 0.9


def test_what_is_not_feasible_stays_in_its_branch_and_category_where_it_can():
    inside = {"one": {"b": space.real(0, 1)}, "two": {"c": space.real(0, 1)}, "no": {}}
    tree = Space(
        {"m": space.branches(inside), "kind": list("abcdefgh")},
        feasible=lambda params: params.get("b", 0) <= 0.1 and params["m"] != "no",
    )
    params = tree.params([0.1, 0.95, 0.3, 0.55])
    assert (params["m"], params["kind"]) == ("one", "e")
    assert params["b"] <= 0.1
    elsewhere = tree.params([0.99, 0.3, 0.3, 0.55])
    assert elsewhere["kind"] == "e"
    assert elsewhere["m"] != "no"


@pytest.mark.parametrize("of", [FEASIBLE, MIXTURE])
def test_a_start_that_may_not_be_used_is_refused(of):
    with pytest.raises(ValueError, match="start must be feasible and meet the constraints"):
        minimize(
            losses, RECORDS, of, loss_range=(0, 1), key=jax.random.key(0), insecure_key=True,
            **group_options(mu=1.0, start=[0.0, 0.99, 0.99]),
        )  # fmt: skip


def test_a_plan_asks_whether_points_are_feasible_once():
    calls = []

    def counted(params):
        calls.append(params)
        return params["x"] <= 0.9

    wide = Space({"x": space.real(0, 1), "y": space.real(0, 1)}, feasible=counted)
    preview(users=500, space=wide, loss_range=(0, 1), epsilon=1, delta=1e-6)
    assert len(calls) < 1024 + 2 * 25 * 3
    assert len(space.spread(wide, 16, 2)) == 16
    wide_enough = Space({"x": space.real(0, 1)}, feasible=Sized())
    assert np.all(space.spread(wide_enough, 16, 1) <= 0.5)
    assert wide_enough.meets(np.zeros((0, 1))).shape == (0,)


class Sized:
    """False as a truth value."""

    def __len__(self):
        return 0

    def __call__(self, params):
        return params["x"] <= 0.5


def test_a_study_answers_with_what_was_evaluated():
    optuna = pytest.importorskip("optuna")
    from jaxdpbo.integrations.optuna import observations, private_study

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    half = Space(
        {"a": space.real(0, 1), "b": space.real(0, 1)}, feasible=lambda params: params["a"] + params["b"] <= 0.5
    )
    seen = []

    def of_sum(params, records):
        seen.append(params)
        return np.abs(records - params["a"])

    given = {"users": 300, "evaluations": 8, "loss_range": (0, 1), "mu": 5.0}
    study = private_study(
        optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)), half, of_sum, RECORDS[:300, 0], **given
    )
    study.optimize()
    evaluated = observations(study.study).params
    assert [params["a"] for params in evaluated] == pytest.approx([params["a"] for params in seen])
    assert all(params["a"] + params["b"] <= 0.5 + 1e-9 for params in evaluated)
    assert any(trial.params["a"] + trial.params["b"] > 0.5 for trial in study.study.trials)
    assert half.meets(half.point(study.best().params))


def test_feasible_sees_what_exists_in_a_branch():
    seen = []

    def small(params):
        seen.append(params)
        return params.get("b", 0) <= 0.5

    tree = Space({"m": space.branches({"one": {"b": space.real(0, 1)}, "none": {}})}, feasible=small)
    assert {frozenset(params) for params in seen} == {frozenset({"m", "b"}), frozenset({"m"})}
    assert tree.params([0.1, 0.9])["b"] <= 0.5
    assert tree.params([0.9, 0.9]) == {"m": "none"}
    assert all(params.get("b", 0) <= 0.5 for params in map(tree.params, space.spread(tree, 50, 2)))

"""The methods of ``minimize``, chosen by public numbers; and spaces of named dimensions, in every algorithm."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options
from scipy import stats

import jaxdpbo
from jaxdpbo import (
    Space,
    by_person,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    drivers,
    gp_ucb,
    ledger,
    per_user,
    private_evaluations,
    random_search,
    space,
)
from jaxdpbo.drivers import methods
from jaxdpbo.guarantee import assumptions, budget_calibration, guarantees
from jaxdpbo.surrogate import box_search

USERS = 60
RECORDS = np.random.default_rng(0).normal([1.0, 2.0], 0.2, (USERS, 2))
BOX = [(0.0, 4.0), (1.0, 3.0), (-1.0, 1.0)]
SEEDED = {"key": jax.random.key(0), "insecure_key": True}
SMALL = {"steps": 6, "batch": 2, "mu": 2.0, "loss_range": (0.0, 4.0), **SEEDED}
MIXED = Space(
    {"rate": space.real(0.01, 100.0, log=True), "depth": space.integer(1, 4), "kind": space.categorical(0.5, 2.0)}
)
WORDS = Space({"rate": space.real(0.01, 100.0, log=True), "kind": space.categorical("flat", "steep")})


def loss(point, data):
    return jnp.sum(jnp.square(data - point[None, :2]), axis=1)


def loss_in_cents(point, data):
    return 64 * loss(point, data)


def python_loss(point, data):
    return np.sum(np.square(data - np.asarray(point)[None, :2]), axis=1)


def named_loss(params, data):
    """Least at a rate of 1, depth 3, of the second kind; for JAX and for Python."""
    depth = jnp.asarray(params["depth"], float)
    return (jnp.log(params["rate"]) ** 2 + (depth - 3) ** 2 + (params["kind"] - 2.0) ** 2) * data[:, 0] ** 2


def worded_loss(params, data):
    assert [type(value) for value in params.values()] == [float, str]
    return (math.log(params["rate"]) ** 2 + (params["kind"] == "flat")) * data[:, 0] ** 2


def plan(method="auto", **changes):
    given = {"users": 1000, "mu": 1.0, "space": BOX, "steps": 20, "clip_norm": 1.0, "loss_range": (0.0, 4.0)}
    grouped = group_options(method=method, **given | changes)
    budget = {name: grouped.pop(name) for name in ("mu", "epsilon", "delta") if name in grouped}
    requested = budget_calibration.check_budget(**budget, users=grouped["users"])
    public = method == methods.PROPOSED
    return methods.plan(methods.make_problem(grouped.pop("search"), budget=requested, public=public, **grouped))


@pytest.mark.parametrize(
    ("changes", "method", "reason"),
    [
        ({}, methods.START, "a choice for 10 % of mu^2 has a sharpness of 63"),
        ({"users": 300}, methods.LOCAL, "less than 20"),
        ({"mu": 0.1}, methods.LOCAL, "0.15 clipping norms, at most 0.35"),
        ({"users": 100, "mu": 0.3}, methods.IN_ORDER, "0.52 clipping norms, more than 0.35"),
        ({"loss_range": (0.0, 40.0)}, methods.LOCAL, "less than 20"),
        ({"loss_range": None}, methods.LOCAL, "no loss_range was given"),
        ({"space": MIXED}, methods.IN_ORDER, "not all dimensions are real"),
        ({"space": Space({"x": space.real(0, 1)})}, methods.IN_ORDER, "fewer than 3 dimensions"),
        ({"mu": math.inf}, methods.START, "there is no noise"),
        ({"mu": math.inf, "space": MIXED}, methods.CHOICE, "there is no noise"),
        ({"steps": 9}, methods.IN_ORDER, "fewer than 10 steps"),
    ],
)
def test_the_rule_reads_public_numbers_alone(changes, method, reason):
    found = plan("auto", **changes)
    assert found.method == method
    assert reason in found.reason


@pytest.mark.parametrize("method", methods.METHODS)
def test_every_method_stays_within_its_budget_and_its_evaluations(method):
    found = plan(method, mu=0.7)
    stated = found.algorithm.privacy(found.config)
    assert 0.6 < stated.level <= 0.7
    assert stated.notion == "gdp"
    assert found.config.steps * found.config.batch <= 20 * 4
    assert stated.epsilon(1e-5) <= stated.epsilon(1e-9)
    unbounded = plan(method, mu=math.inf)
    assert unbounded.algorithm.privacy(unbounded.config).notion == "none"


@pytest.mark.parametrize("method", methods.METHODS)
def test_float_noise_of_no_budget_is_no_noise(method):
    found = plan(method, mu=math.inf, noise="float", estimate_share=0.1)
    assert found.algorithm.privacy(found.config).notion == "none"


@pytest.mark.parametrize("mu", [0.05, 0.3, 0.7, 1.0, 3.3])
def test_float_noise_in_float32_is_never_beyond_what_was_asked_for(float32, mu):
    for method in methods.METHODS:
        found = plan(method, mu=float(np.float32(mu)), noise="float", estimate_share=0.1)
        assert found.algorithm.privacy(found.config).level <= float(np.float32(mu)) * (1 + 1e-15)


def test_one_choice_is_pure_too():
    found = plan("in_order", mu=0.7)
    stated = found.algorithm.privacy(found.config)
    notion, epsilon = stated.also
    assert notion == "dp"
    assert stated.epsilon(0.3) < epsilon == pytest.approx(stated.epsilon(1e-12), rel=1e-5)
    assert guarantees.guarantee_from_dict(stated.to_dict()).also == stated.also
    printed = re.search(r"gdp ([0-9.]+) and dp ([0-9.]+)", stated.claim)
    for number, level in zip(map(float, printed.groups()), (stated.level, epsilon), strict=True):
        assert level <= number < level * (1 + 1e-5)  # six digits, rounded up


@pytest.mark.daily("local", "choice", "in_order")
@pytest.mark.parametrize("method", [methods.LOCAL, methods.START, methods.CHOICE, methods.IN_ORDER])
def test_a_method_by_name_runs_the_same_compiled_and_from_python(method):
    options = {"method": method, "users": USERS} | SMALL
    compiled = jaxdpbo.minimize(loss, RECORDS, BOX[:2] + BOX[2:], **group_options(**options))
    looped = jaxdpbo.minimize(python_loss, RECORDS, BOX, **group_options(traceable=False, **options))
    np.testing.assert_allclose(compiled.release.point, looped.release.point, atol=1e-5)
    assert compiled.method == looped.method == f"{method}: as asked for"
    low, high = np.transpose(BOX)
    assert np.all((low <= looped.release.point) & (looped.release.point <= high))


def test_losses_in_other_units_are_the_same_search():
    """The loss range says the units: clip norm, noise and steps follow, to the last bit where units are powers of 2."""
    given = {"method": "start_then_local", "users": USERS, "clip_norm": None} | SMALL
    once = jaxdpbo.minimize(loss, RECORDS, BOX, **group_options(**given))
    scaled = jaxdpbo.minimize(loss_in_cents, RECORDS, BOX, **group_options(**(given | {"loss_range": (0.0, 256.0)})))
    np.testing.assert_array_equal(once.release.path, scaled.release.path)
    fixed = jaxdpbo.minimize(
        loss_in_cents, RECORDS, BOX, **group_options(**(given | {"loss_range": (0.0, 256.0), "clip_norm": 1.0}))
    )
    assert not np.array_equal(once.release.path, fixed.release.path)


def test_evaluations_by_name():
    run = jaxdpbo.minimize(
        python_loss, RECORDS, BOX, **group_options(traceable=False, users=USERS, **(SMALL | {"method": "evaluations"}))
    )
    assert run.release.values.shape == (12,)


def test_more_budget_finds_the_best_point():
    run = jaxdpbo.minimize(
        loss, RECORDS, BOX, **group_options(method="choice", **(SMALL | {"mu": math.inf, "steps": 30}))
    )
    assert np.all(np.abs(np.asarray(run.release.point)[:2] - [1.0, 2.0]) < 0.5)


def test_a_method_without_gradients_reads_no_clip_norm():
    assert plan("choice", clip_norm=np.zeros(0)).descent is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "global"}, "method must be one of"),
        ({"method": "choice", "loss_range": None}, "loss_range must be given for method='choice'"),
        ({"method": "local", "space": MIXED}, "method must not be 'local' where dimensions are not real"),
        ({"method": "choice", "clip_norm": "private"}, "clip_norm must not be 'private' for method='choice'"),
        ({"method": "start_then_local", "steps": 2}, "steps must be at least 3"),
        ({"method": "choice", "start": [9.0, 9.0, 9.0]}, "start must lie inside bounds"),
        ({"loss_range": (1.0, 1.0)}, "loss_range must"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, said):
    given = {"method": "auto"} | changes
    with pytest.raises(ValueError, match=said):
        plan(**given)


def test_a_space_gives_an_objective_names_and_a_release_too():
    looped = jaxdpbo.minimize(worded_loss, RECORDS, WORDS, **group_options(users=USERS, **SMALL))
    params = looped.release.params
    assert params == WORDS.params(looped.release.point)
    assert [type(value) for value in params.values()] == [float, str]
    assert looped.method == "in_order: not all dimensions are real"
    compiled = jaxdpbo.minimize(named_loss, RECORDS, MIXED, **group_options(**SMALL))
    again = jaxdpbo.minimize(
        lambda params, data: np.asarray(named_loss(params, data)),
        RECORDS,
        MIXED,
        **group_options(traceable=False, users=USERS, **SMALL),
    )
    assert type(compiled.release.point) is np.ndarray
    assert compiled.release.params == pytest.approx(again.release.params)


def test_a_space_starts_where_its_parameters_say():
    real = Space({"x": space.real(0.0, 4.0), "y": space.real(1.0, 3.0)})

    def at(params, data):
        return loss(jnp.stack([params["x"], params["y"]]), data)

    start = {"x": 3.0, "y": 1.5}
    run = jaxdpbo.minimize(at, RECORDS, real, **group_options(start=start, **(SMALL | {"loss_range": None})))
    assert real.params(run.release.path[0]) == pytest.approx(start)
    assert run.method == "local: no loss_range was given"


def test_names_and_people_go_together():
    def of_one(params, record):
        return (params["rate"] - record[0]) ** 2

    options = SMALL | {"steps": 5}
    run = jaxdpbo.minimize(per_user(of_one), RECORDS, MIXED, **group_options(**options))
    assert assumptions.OWN_ROWS in run.guarantee.assumptions
    grouped = by_person(per_user(of_one), np.arange(USERS) // 2)
    assert (
        assumptions.ROW_OWNERS
        in jaxdpbo.minimize(grouped, RECORDS, MIXED, **group_options(**options)).guarantee.assumptions
    )
    checked = jaxdpbo.minimize(named_loss, RECORDS, MIXED, **group_options(user_axes=0, **options))
    assert assumptions.SEPARABLE_LOSSES not in checked.guarantee.assumptions


def test_another_space_is_another_run_on_record(tmp_path):
    """The same unit box, other parameters: an old release must not go out for a new one."""
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=9)
    options = {name: SMALL[name] for name in ("steps", "batch", "mu", "loss_range")} | {"users": USERS}
    options["ledger"] = jaxdpbo.Recording(path, "march")
    first, again = (jaxdpbo.minimize(worded_loss, RECORDS, WORDS, **group_options(**options)) for _ in range(2))
    assert first.release.params == again.release.params
    other = Space({"rate": space.real(0.01, 100.0), "kind": space.categorical("flat", "steep")})
    with pytest.raises(ledger.LedgerError):
        jaxdpbo.minimize(worded_loss, RECORDS, other, **group_options(**options))


GRID = WORDS.snap(space.sobol(8, 2, 0))
SEARCH = box_search.BoxSearch(8, 1, 1)


def _mean(params, data):
    return -float(np.mean(worded_loss(params, data)))


def _front(params, data):
    return np.array([1.0, 0.5 + 0.01 * (params["kind"] == "flat")])


SEARCHED = {
    "random_search": (random_search.algorithm, worded_loss, lambda: random_search.config(
        users=USERS, steps=2, bounds=WORDS)),
    "gp_ucb": (gp_ucb.algorithm, _mean, lambda: gp_ucb.config(steps=2, bounds=WORDS, search=SEARCH)),
    "gp_ucb, candidates": (gp_ucb.algorithm, _mean, lambda: gp_ucb.config(steps=2, candidates=GRID, space=WORDS)),
    "private evaluations": (
        private_evaluations.make_algorithm(gp_ucb.algorithm), worded_loss, lambda: private_evaluations.config(
            gp_ucb.algorithm, gp_ucb.config(steps=2, candidates=GRID, space=WORDS), users=USERS, mu=1.0,
            loss_range=(0, 1))),
    "dp_gp_ucb": (dp_gp_ucb.algorithm, _mean, lambda: dp_gp_ucb.finite_config(
        steps=2, epsilon=1.0, delta=0.01, correlation=0.99, candidates=GRID, noise_variance=0.1, space=WORDS)),
    "dp_gp_ucb, in order": (
        dp_gp_ucb.algorithm, lambda params, data: 1 - worded_loss(params, data), lambda: dp_gp_ucb.in_order_config(
            candidates=GRID, users=USERS, epsilon=1.0, largest_gain=1.0, release="point", space=WORDS)),
    "dpareto": (dpareto.algorithm, _front, lambda: dpareto.config(
        bounds=WORDS, initial_design=GRID[:2], proposals=1, search=SEARCH, fit_steps=1)),
}  # fmt: skip


@pytest.mark.parametrize("name", SEARCHED)
def test_every_search_takes_a_space(name):
    algorithm, objective, config = SEARCHED[name]
    released = drivers.run_loop(algorithm, objective, RECORDS, config(), **group_options(**SEEDED)).release
    assert released.params == WORDS.params(released.point)


def test_a_space_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="space must be a Space"):
        gp_ucb.config(steps=2, candidates=GRID, space=[(0, 1)])


# Box units


def test_box_units_are_the_published_algorithm_on_the_unit_box():
    """Sides of other lengths, far from the origin: the same run, point by point, mapped into the box."""
    low, high = np.array([100.0, -5.0]), np.array([100.5, 20.0])
    middle, half = (low + high) / 2, (high - low) / 2
    shared = {"users": USERS, "steps": 4, "mu": 3.0, "batch": 3, "noise": "float", "polish_steps": 2}
    data = RECORDS / 4

    def in_box(point, data):
        return loss((point - middle) / half, data)

    inside = dp_gibo.config(bounds={"low": low, "high": high}, theta0=middle + 0.5 * half, **shared)
    unit = dp_gibo.config(
        bounds={"low": [-1, -1], "high": [1, 1]}, theta0=[0.5, 0.5], box_units=False, **shared
    )  # fmt: skip
    found = drivers.run_scan(dp_gibo.algorithm, in_box, data, inside, **group_options(**SEEDED)).release
    expected = drivers.run_scan(dp_gibo.algorithm, loss, data, unit, **group_options(**SEEDED)).release
    np.testing.assert_allclose((np.asarray(found.path) - middle) / half, expected.path, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose((np.asarray(found.point) - middle) / half, expected.point, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.trace, expected.trace, rtol=1e-6)


def test_as_published_the_parameters_are_their_own_units():
    """Adding 0 and dividing by 1 change no bit."""
    chosen = dp_gibo.config(users=4, steps=1, mu=1.0, bounds=[(0.0, 3.0)], box_units=False)
    points = jnp.array([[0.1], [2.9999999]])
    for back_and_forth in (chosen.to_search, chosen.to_parameters):
        np.testing.assert_array_equal(back_and_forth(points), points)
    np.testing.assert_array_equal(chosen.search_bounds, chosen.bounds)
    assert chosen.gradient_unit == 1


def test_points_stay_inside_whatever_rounding_does():
    chosen = dp_gibo.config(users=4, steps=1, mu=1.0, bounds=[(0.1, 0.7)])
    ends = np.asarray(chosen.to_parameters(jnp.array([[-1.0], [1.0], [1.0 + 1e-9]])))
    assert np.all((np.asarray(chosen.bounds)[0] <= ends) & (ends <= np.asarray(chosen.bounds)[1]))


def test_box_units_need_a_box():
    with pytest.raises(ValueError, match="box_units must be False where bounds are infinite"):
        dp_gibo.config(
            users=4, steps=1, mu=1.0, bounds=[(0.0, np.inf)], theta0=[1.0], step_size=1.0, box_units=True
        )  # fmt: skip


def test_minimize_takes_a_dict_of_dimensions_as_a_search_of_scikit_learn_does():
    """Before, its names had to be "low" and "high"."""
    dimensions = {"rate": stats.loguniform(0.01, 100.0), "kind": ["flat", "steep"]}
    options = SMALL | {"method": "in_order", "traceable": False, "users": USERS}
    found = jaxdpbo.minimize(named_loss_of_words, RECORDS, dimensions, **group_options(**options))
    wanted = jaxdpbo.minimize(named_loss_of_words, RECORDS, WORDS, **group_options(**options))
    assert found.release.params == wanted.release.params
    assert set(found.release.params) == {"rate", "kind"}
    assert plan("auto", space=dimensions).config.space == WORDS


def named_loss_of_words(params, data):
    return np.abs(data[:, 0] - np.log(params["rate"])) + (params["kind"] == "flat")


def test_categories_without_a_range_are_told_to_give_one():
    """Before: "method must not be 'local'", which nobody had typed."""
    with pytest.raises(ValueError, match=r"loss_range must be given .*: give loss_range=\(low, high\) .* or 'private'"):
        plan("auto", space=WORDS, loss_range=None)
    with pytest.raises(ValueError, match=r"give loss_range="):
        jaxdpbo.preview(users=USERS, mu=1.0, space=WORDS)

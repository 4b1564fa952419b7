"""The front door: budgets by epsilon, losses of any kind, boxes in one reading, refusals of one sentence."""

import inspect
import math
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize
import scipy.stats
from option_groups import group_options

import jaxdpbo
from jaxdpbo import arrays, dp_gibo, drivers, notes, random_search, tables
from jaxdpbo.accounting import requested_budget
from jaxdpbo.checks import box, low_high
from jaxdpbo.drivers import execution, methods, result
from jaxdpbo.drivers.previews import step_deviation
from jaxdpbo.drivers.release_notes import path_notes
from jaxdpbo.guarantee import budget_calibration, guarantees
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.ledger import ledger_file
from jaxdpbo.types import State

USERS = 40
RECORDS = np.random.default_rng(0).uniform(0.0, 6.0, size=(USERS, 1))
SIDE = [(0.0, 6.0)]
SMALL = {"steps": 2, "batch": 2, "noise": "float"}  # one program for all of these tests


def loss(point, data):
    return jnp.log1p(jnp.sum((data - point[None]) ** 2, axis=1))


def python_loss(point, data):
    """What scikit-learn does with a tracer: an error of its own."""
    if not isinstance(point, np.ndarray) or not isinstance(point[0], np.float64):
        raise ValueError("Got a tracer")
    return np.log1p(np.sum((data - point) ** 2, axis=1))


def minimize(loss=loss, data=RECORDS, space=SIDE, **changes):
    options = {name: each for name, each in (SMALL | {"mu": 1.0} | changes).items() if each != "no"}
    return jaxdpbo.minimize(loss, data, space, **group_options(**options))


def local(users, bounds, mu, steps):
    """The descent of ``minimize`` with batches of 2."""
    search = jaxdpbo.Search(method="local", steps=steps, batch=2, clip_norm=1.0, noise="float")
    budget = budget_calibration.RequestedBudget(mu)
    return methods.plan(methods.make_problem(search, users=users, budget=budget, space=bounds, loss_range=None)).config


# Budgets

NEITHER = "mu must be given, or epsilon and delta: a budget has no default"
BUDGETS = [
    ({}, NEITHER),
    ({"mu": 1.0, "epsilon": 3.0, "delta": 1e-5}, "mu, or epsilon and delta, must be given, not both: got mu=1.0"),
    ({"mu": 1.0, "delta": 1e-5}, "not both: got mu=1.0, delta=1e-05"),
    ({"epsilon": 3.0}, "delta must be given with epsilon, got epsilon=3.0: it has no default"),
    ({"delta": 1e-5}, "epsilon must be given with delta, got delta=1e-05"),
    ({"epsilon": -1.0, "delta": 1e-5}, "epsilon must be at least zero"),
    ({"epsilon": 1.0, "delta": 0.0}, "delta must lie strictly between 0 and 1"),
    ({"epsilon": 40.0, "delta": 1e-9}, r"epsilon must be at most [0-9.]+ at delta=1e-09, got 40: noise from tables"),
    ({"epsilon": 100.0, "delta": 1e-5}, r"epsilon must be at most [0-9.]+ at delta=1e-05, got 100: noise from tables"),
    ({"epsilon": 1.0, "delta": 1e-30}, r"delta must be at least [0-9.e-]+, got 1e-30: noise from tables"),
]
DOORS = {
    "minimize": lambda folder, **budget: minimize(**{"mu": "no"} | budget),
    "preview": lambda folder, **budget: jaxdpbo.preview(**group_options(users=USERS, space=SIDE, **budget)),
    "PrivateObjective": lambda folder, **budget: jaxdpbo.PrivateObjective(
        loss, RECORDS, users=USERS, evaluations=2, loss_range=(0, 4), **budget
    ),
    "ledger.create": lambda folder, **budget: ledger_file.create(folder / "ledger.jsonl", **budget),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("budget", "message"), BUDGETS)
def test_a_budget_is_given_once_and_whole(door, budget, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        DOORS[door](tmp_path, **budget)
    assert not list(tmp_path.iterdir())


OF_USERS = [door for door in DOORS if door != "ledger.create"]  # a ledger knows no number of users


@pytest.mark.parametrize("door", OF_USERS)
def test_a_budget_too_small_for_the_noise_is_refused_in_the_words_that_were_typed(door, tmp_path):
    """With an epsilon that will do, of whatever parts the budget is divided into."""
    for epsilon in (0.0, 1e-4):
        with pytest.raises(
            ValueError, match=rf"^epsilon must be at least \S+ at delta=1e-07 .* got {epsilon:g}"
        ) as said:
            DOORS[door](tmp_path, epsilon=epsilon, delta=1e-7, noise="exact")
        enough = float(re.search(r"at least (\S+) ", str(said.value))[1])
        DOORS[door](tmp_path, epsilon=enough, delta=1e-7, noise="exact")
        with pytest.raises(ValueError, match=r"^epsilon must be at least"):
            DOORS[door](tmp_path, epsilon=0.9 * enough, delta=1e-7, noise="exact")
    with pytest.raises(ValueError, match=r"^mu must be at least"):
        DOORS[door](tmp_path, mu=1e-5, noise="exact")


@pytest.mark.parametrize("method", ["start_then_local", "choice", "evaluations", "in_order"])
def test_a_divided_budget_is_refused_with_one_that_will_do(method):
    options = {"users": USERS, "space": SIDE, "method": method, "loss_range": (0, 1), "delta": 1e-7}
    with pytest.raises(ValueError, match=r"^epsilon must be at least") as said:
        jaxdpbo.preview(**group_options(epsilon=0.0, **options))
    jaxdpbo.preview(**group_options(epsilon=float(re.search(r"at least (\S+) ", str(said.value))[1]), **options))


@pytest.mark.parametrize("door", OF_USERS)
def test_a_delta_of_one_over_the_users_is_refused_unless_said_so(door, tmp_path):
    for delta in (1 / USERS, 0.5):
        with pytest.raises(ValueError, match=rf"^delta must be below one over .* 1/{USERS} = .* got {delta:g}:"):
            DOORS[door](tmp_path, epsilon=1.0, delta=delta)
        DOORS[door](tmp_path, epsilon=1.0, delta=jaxdpbo.LargeDelta(delta))
    DOORS[door](tmp_path, epsilon=1.0, delta=0.99 / USERS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_stated_epsilon_is_at_most_the_one_asked_for(dtype):
    for epsilon in (0.01, 0.3, 1.0, 3.0, 10.0, 20.0):
        for delta in (1e-9, 1e-5, 1e-3, 0.1):
            mu = requested_budget.requested_mu(epsilon=epsilon, delta=delta, dtype=dtype)
            assert float(dtype(mu)) == mu
            for variation in (0.0, requested_budget.TOTAL_VARIATION):
                stated = guarantees.guarantee("gdp", mu, "replace_one", "them", total_variation=variation)
                assert stated.epsilon(delta) <= epsilon
            above = guarantees.guarantee("gdp", mu * (1 + 1e-6), "replace_one", "them")
            assert above.epsilon(delta) > epsilon, "no more is given away than rounding needs"


def test_at_epsilon_zero_twice_the_total_variation_is_reserved():
    """At epsilon = 0, delta is the total variation of two normals mu apart: ``2 Phi(mu / 2) - 1``."""
    mu = requested_budget.requested_mu(epsilon=0.0, delta=1e-3, total_variation=1e-4)
    assert mu == pytest.approx(2 * scipy.stats.norm.ppf((1 + 8e-4) / 2), rel=1e-6)


def test_a_total_variation_that_takes_more_than_half_of_delta_is_refused():
    budget = {"epsilon": 0.0, "total_variation": 1e-4}
    assert requested_budget.requested_mu(delta=4.1e-4, **budget) > 0
    with pytest.raises(ValueError, match=r"delta must be at least 0\.0004, got 0\.0003"):
        requested_budget.requested_mu(delta=3e-4, **budget)


@pytest.mark.parametrize("noise", ["exact", "float"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (3.0, 1e-5), (8.0, 1e-3)])
def test_configs_and_objectives_state_at_most_what_was_asked_for(noise, epsilon, delta, request):
    budget = {"epsilon": epsilon, "delta": delta, "noise": noise}
    for wide in (True, False):
        with jax.enable_x64(wide):
            stated = jaxdpbo.preview(**group_options(users=900, space=SIDE, **budget)).guarantee
            assert 0.9 * epsilon < stated.epsilon(delta) <= epsilon
            made = jaxdpbo.PrivateObjective(loss, RECORDS, users=USERS, evaluations=3, loss_range=(0, 4), **budget)
            assert 0.9 * epsilon < made.guarantee.epsilon(delta) <= epsilon


def test_a_statement_beyond_what_was_asked_for_is_refused():
    stated = guarantees.guarantee("gdp", 1.0, "replace_one", "them", total_variation=1e-9)
    for epsilon in (10.0, 4.0):
        requested = budget_calibration.RequestedBudget(1.0, epsilon, 1e-5)
        if epsilon == 10.0:
            assert budget_calibration.calibrate(lambda mu: mu, lambda _: stated, requested)[1].level < epsilon
            continue
        with pytest.raises(ValueError, match="epsilon=4 at delta=1e-05 can not be guaranteed for so many draws"):
            budget_calibration.calibrate(lambda mu: mu, lambda _: stated, requested)


# Losses of any kind


def test_what_jax_cannot_trace_is_called_from_python_and_gets_numpy():
    run = minimize(python_loss)
    assert type(run.release.point) is np.ndarray
    assert type(run.release.point[0]) is np.float64
    traced = minimize(loss)
    assert type(traced.release.point) is np.ndarray
    assert type(traced.release.point[0]) is np.float64  # by whatever route, one type


def test_a_support_vector_machine_takes_what_is_released():
    svm = pytest.importorskip("sklearn.svm")
    inputs, labels = np.random.default_rng(1).normal(size=(USERS, 2)), np.arange(USERS) % 2

    def error(point, data):
        model = svm.SVC(C=point[0]).fit(inputs, labels)
        return (model.predict(data) != labels).astype(float)

    with jax.enable_x64(False):
        run = minimize(error, inputs, space=[(0.1, 10.0)])
    svm.SVC(C=run.release.point[0]).fit(inputs, labels)


def test_what_is_chosen_depends_on_code_and_shapes_alone():
    """No value is read before the choice: data of NaN and of infinities choose as any others."""
    seen = []

    def watched(point, data):
        seen.append(isinstance(data, jax.core.Tracer) and isinstance(point, jax.core.Tracer))
        return loss(point, data)

    for data in (RECORDS, RECORDS * np.nan, RECORDS + np.inf):
        seen.clear()
        minimize(watched, data)
        assert all(seen), "only abstract values were ever seen"

    def choosy(point, data):
        truth = bool(jnp.all(data > 0))  # a tracer has no truth: Python, whatever the values
        seen.append(truth)
        return np.zeros(USERS)

    for data in (RECORDS, -RECORDS, RECORDS * np.nan):
        seen.clear()
        minimize(choosy, data)
        assert seen


def test_an_array_of_objects_takes_the_route_of_its_objective():
    """One integer of 100 bits makes NumPy choose objects for all."""
    found = [
        minimize(lambda point, data: jnp.square(data - point[0]), np.array([1] * (USERS - 1) + [last]))
        for last in (1, 10**30)
    ]
    assert [type(run.release.point) for run in found] == [np.ndarray] * 2
    assert len({run.release.point.dtype for run in found}) == 1


@pytest.mark.parametrize("method", ["local", "start_then_local", "choice", "evaluations", "in_order"])
@pytest.mark.parametrize("epsilon", [0.15, 0.3, 1.0, 3.0])
def test_any_number_of_users_is_taken(method, epsilon):
    """Sums have 64 bits."""
    options = {"space": {"low": [0.0] * 10, "high": [1.0] * 10}, "loss_range": (0, 1), "steps": 25}
    jaxdpbo.preview(**group_options(users=2**40, method=method, epsilon=epsilon, delta=1e-13, **options))


def test_what_fails_in_python_too_is_raised_as_it_is():
    def fails(point, data):
        raise KeyError("no such column")

    with pytest.raises(KeyError, match="no such column") as caught:
        minimize(fails)
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None
    assert any("point of shape (1,)" in note for note in caught.value.__notes__)
    with pytest.raises(drivers.RunInterrupted):
        minimize(fails, traceable=False)
    with pytest.raises(KeyError) as caught:
        minimize(fails, traceable=True)
    assert any("point of shape (1,)" in note for note in caught.value.__notes__)


def test_a_later_failure_keeps_the_state():
    calls = []

    def fails_later(point, data):
        calls.append(point)
        if len(calls) > 4:  # one of them was the trace
            raise OSError("gone")
        return python_loss(point, data)

    with pytest.raises(drivers.RunInterrupted, match="stopped at step 1") as caught:
        minimize(fails_later)
    assert caught.value.step == 1
    assert caught.value.snapshot is not None


def test_users_are_the_leading_length_of_all_leaves_or_asked_for():
    pair = RECORDS, RECORDS[:, 0]
    assert minimize(lambda point, data: loss(point, data[0]), pair).release.point.shape == (1,)
    with pytest.raises(ValueError, match="users must be given where the leaves of data share no leading length, got 3"):
        minimize(lambda point, data: loss(point, data[0]), (RECORDS, np.ones(3)))
    with pytest.raises(ValueError, match="users must be given"):
        minimize(python_loss, None, traceable=False)
    with pytest.raises(ValueError, match=rf"losses of shape \({USERS},\), got \(1,\)"):
        minimize(lambda point, data: jnp.mean(jnp.square(data - point[None]), axis=0))  # a mean for each column


# Boxes


def test_boxes_are_read_in_one_way_or_not_at_all():
    rows = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]])
    for spelling in (rows, rows.tolist(), rows.T, list(zip(*rows.tolist(), strict=True)), jnp.asarray(rows)):
        np.testing.assert_array_equal(box("bounds", spelling), rows)
    for dimension in (1, 2, 3):
        some = rows[:, :dimension]
        for spelling in (low_high(some), scipy.optimize.Bounds(*some), {"low": [*some[0]], "high": [*some[1]]}):
            np.testing.assert_array_equal(box("bounds", spelling), some)
    np.testing.assert_array_equal(box("bounds", [(0.0, 1.0)]), [[0.0], [1.0]])
    np.testing.assert_array_equal(box("bounds", [[0.0], [1.0]]), [[0.0], [1.0]])


@pytest.mark.parametrize("spelling", [[(0, 1), (2, 3)], [[0, 2], [1, 3]], np.array([[0, 1], [2, 3]]), jnp.eye(2)])
def test_two_by_two_is_refused_with_both_spellings(spelling):
    with pytest.raises(ValueError, match=r"bounds of shape \(2, 2\) may be pairs or rows: write ") as caught:
        random_search.config(users=1, steps=1, bounds=spelling)
    found = [eval(text) for text in re.findall(r"\{.*?\}", str(caught.value))]
    array = np.asarray(spelling, float)
    for said, rows in zip(found, (array.T, array), strict=True):
        np.testing.assert_array_equal([said["low"], said["high"]], rows)


@pytest.mark.parametrize(
    ("spelling", "message"),
    [
        ({"low": [0.0]}, "bounds must have the names 'low' and 'high' alone, got 'low'"),
        ({"low": [0.0], "high": [1.0, 2.0]}, r"bounds must have low and high of one shape \(d,\)"),
        ({"low": [1.0], "high": [0.0]}, "bounds must have lower < upper"),
        ([0.0, 1.0], r"bounds must be pairs \(low, high\), one a parameter, or have shape \(2, d\), got \(2,\)"),
        (np.zeros((3, 3)), "bounds must be pairs"),
    ],
)
def test_what_is_no_box_is_named(spelling, message):
    with pytest.raises(ValueError, match=message):
        random_search.config(users=1, steps=1, bounds=spelling)


# Before spending, and after


def test_a_preview_shows_what_does_not_help():
    options = {"space": [(0, 6)] * 3, "loss_range": (0, 4), "method": "local", "clip_norm": 1.0}
    poor, good = (
        jaxdpbo.preview(**group_options(users=20, mu=0.3, **options)),
        jaxdpbo.preview(**group_options(users=2000, mu=1.0, **options)),
    )
    assert (poor.helpful, good.helpful) == (False, True)
    assert "NOT HELPFUL" in str(poor)
    assert "NOT HELPFUL" not in str(good)
    assert f"{poor.users_needed} users" in str(poor)
    (printed,) = map(float, re.findall(r"In the loss it is ([0-9.e+]+) % of the loss range", str(poor)))
    assert 100 * poor.loss_noise <= printed < 1.1 * 100 * poor.loss_noise  # two digits, rounded up
    assert jaxdpbo.preview(**group_options(users=poor.users_needed, mu=0.3, **options)).relative_noise == pytest.approx(
        0.25, rel=0.03
    )
    ideal = 2 * math.sqrt(25) / (2000 * 1.0)
    assert ideal <= good.deviation < 1.05 * ideal
    assert good.loss_noise == pytest.approx(good.deviation * math.sqrt(3) / 4)
    with pytest.raises(ValueError, match="loss_range must have low < high"):
        jaxdpbo.preview(users=20, mu=1.0, space=SIDE, loss_range=(1, 0))


def test_a_preview_is_of_the_noise_that_a_run_has():
    """Steps of users without a gradient are noise alone: turned back, they have the deviation that was said."""
    config = local(USERS, SIDE, 0.5, 2)
    keys = jax.random.split(jax.random.key(0), 2000)
    paths = jax.lax.map(lambda key: drivers.pure_run(dp_gibo.algorithm, nothing, RECORDS, config, key)[0].path, keys)
    moved = np.diff(np.asarray(paths)[:, :2, 0], axis=1)[:, 0] / 3.0
    inside = np.abs(moved) < 0.999
    gradients = np.sqrt(0.1) * moved[inside] / np.sqrt(1 - moved[inside] ** 2)
    assert np.median(np.abs(gradients)) == pytest.approx(0.6745 * step_deviation(config), rel=0.1)


@pytest.mark.parametrize("steps", [2, 3000])
def test_the_wander_is_that_of_adagrads_steps_on_noise_alone(steps):
    """Of either sign with one chance, so that their squares add up."""
    found = jaxdpbo.preview(users=40, mu=0.3, space=SIDE, search=jaxdpbo.Search(steps=steps))
    optimizer, gradient = optax.adagrad(1.0), jnp.full(1, found.deviation)

    def step(state, _):
        moved, state = optimizer.update(gradient, state)
        return state, moved

    with jax.numpy_dtype_promotion("standard"):
        moved = jax.lax.scan(step, optimizer.init(jnp.zeros(1)), length=steps)[1]
    assert found.wander == pytest.approx(float(jnp.linalg.norm(moved)), rel=1e-5)


def nothing(point, data):
    return 0.0 * data[:, 0]


def test_a_path_that_is_no_different_from_noise_says_so():
    def lost(point, data):
        return jnp.nan * data[:, 0]

    for objective in (nothing, lost):
        runs = [minimize(objective, key=jax.random.key(seed), insecure_key=True) for seed in range(5)]
        assert sum(notes.path_like_noise()[0] in run.notes for run in runs) >= 4

    def steep(point, data):
        return 50.0 * point[0] + 0 * data[:, 0]

    assert minimize(steep, mu=5.0, data=np.repeat(RECORDS, 50, axis=0), steps=4).notes == ()


@pytest.mark.parametrize(("steps", "dimension"), [(2, 1), (10, 3), (100, 10)])
def test_noise_alone_is_what_a_chi_squared_variable_would_be(steps, dimension):
    config = local(40, [(0.0, 6.0)] * dimension, 0.5, steps)
    usual = scipy.stats.chi2.ppf(0.999, steps * dimension) * step_deviation(config) ** 2 / (steps * dimension)

    def path(squares):
        """Steps of AdaGrad on gradients of these squares, there and back."""
        shares = np.sqrt(squares / (0.1 + squares * np.arange(1, steps + 1)))
        return np.repeat(3.0 + 3.0 * np.concatenate([[0], np.cumsum(shares * (-1.0) ** np.arange(steps))])[:, None],
                         dimension, axis=1)  # fmt: skip

    assert path_notes(path(0.95 * usual), config) == notes.path_like_noise()
    assert path_notes(path(1.05 * usual), config) == ()


def test_a_note_is_a_function_of_what_is_released():
    run = minimize(python_loss, diagnostics=True)
    config = local(USERS, SIDE, 1.0, 2)
    assert run.notes == notes.few_users(USERS, private=True) + path_notes(run.release.path, config)
    assert f"note: {USERS} users are fewer than 500: unless the budget is large, expect an answer" in repr(run)


def test_few_users_are_a_note_before_the_run_too():
    few, many = (jaxdpbo.preview(users=users, mu=1.0, space=SIDE) for users in (499, 500))
    assert "499 users are fewer than 500" in str(few)
    assert "near a guess" not in str(many)
    assert notes.few_users(3, private=False) == ()


# The ledger


def test_the_ledgers_line_works_as_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger_file.create("budget.jsonl", mu=2)
    options = {"ledger": jaxdpbo.Recording("budget.jsonl", "march"), "noise": "exact"}
    first, again = (minimize(**options) for _ in range(2))
    np.testing.assert_array_equal(first.release.point, again.release.point)
    assert again.notes[-len(first.notes) :] == first.notes
    assert again.notes[0].text.startswith("this is the release of run 'march', which ")
    assert float(ledger_file.account("budget.jsonl").left.cost) == pytest.approx(3.0, abs=0.01)
    with pytest.raises(FileExistsError, match=r"second spend: 'budget\.jsonl'"):
        ledger_file.create("budget.jsonl", mu=2)
    with pytest.raises(FileNotFoundError, match=r"'nowhere/budget\.jsonl'"):
        ledger_file.create("nowhere/budget.jsonl", mu=2)
    with pytest.raises(ledger_file.BudgetExceeded, match=r"budget\.jsonl: run 'april' would spend"):
        minimize(ledger=jaxdpbo.Recording("budget.jsonl", "april"), mu=3.0, noise="exact")


def test_a_ledger_of_epsilon_holds_what_implies_it(tmp_path):
    for epsilon, delta in ((0.5, 1e-6), (3.0, 1e-5)):
        path = tmp_path / f"{epsilon}.jsonl"
        ledger_file.create(path, epsilon=epsilon, delta=delta)
        budget = ledger_file.account(path).budget
        stated = guarantees.guarantee(
            "gdp", float(budget.level), "replace_one", "them", total_variation=float(budget.total_variation)
        )
        assert 0.999 * epsilon < stated.epsilon(delta) <= epsilon
        assert (budget.relation, budget.protects, budget.delta) == ("replace_one", guarantees.USERS, 0)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ({"notion": "gdp"}, "level must be given with notion='gdp'"),
        ({"level": 1}, "notion must be one of .*, got None"),
        ({"mu": 1, "level": 1}, "notion and level must not be given with mu or epsilon"),
        ({"mu": math.inf}, "mu must be a finite number"),
    ],
)
def test_a_ledgers_budget_is_one_of_three(budget, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ledger_file.create(tmp_path / "ledger.jsonl", **budget)


def test_numbers_of_numpy_and_jax_are_python_numbers_on_record(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger_file.create(path, mu=np.int64(2))
    spend = ledger_file.Spend((ledger_file.Event("gdp", jnp.asarray(1.0)),), "replace_one", ledger_file.USERS)
    assert ledger_file.charge(path, "one", "a mean", spend).run == "one"
    ledger_file.note(path, "one", 1, {"count": np.int64(3), "rows": np.arange(2)})
    stored = ledger_file.store_release(path, "one", {"point": jnp.asarray([0.25]), "value": np.float32(0.5)})
    assert stored == {"point": [0.25], "value": 0.5}
    assert ledger_file.charge(path, "one", "a mean", spend).steps == ({"count": 3, "rows": [0, 1]},)


def test_what_was_spent_comes_back_as_plain_dicts(tmp_path):
    path = tmp_path / "ledger.jsonl"
    ledger_file.create(path, mu=2)
    made = {"users": np.int64(4), "mu": np.float64(1.0), "evaluations": np.int64(4), "loss_range": (0, 1)}

    def objective(**changes):
        return jaxdpbo.PrivateObjective(
            lambda point, data: data,
            np.zeros(4),
            ledger=jaxdpbo.Recording(path, "bo"),
            **made | changes,
        )

    first = objective()
    points = {"C": np.float32(0.5), "kernel": "rbf", "degree": np.int64(3)}, [0.25, 0.5], jnp.asarray(0.125)
    for point in points:
        first(point)
    spent = objective(users=4, evaluations=4).spent
    assert spent[0].point == {"C": 0.5, "kernel": "rbf", "degree": 3}
    assert all(type(value) in (float, str, int) for value in spent[0].point.values())
    assert isinstance(spent[1].point, np.ndarray)
    np.testing.assert_array_equal(spent[1].point, [0.25, 0.5])
    assert spent[2].point == 0.125
    assert [one.value for one in spent] == [one.value for one in first.spent]


# One sentence, at once


def test_a_list_of_rows_is_named():
    for data in (RECORDS.tolist(), [1.0] * (USERS - 1) + [None], {"a": RECORDS, "b": [1.0] * USERS}, [RECORDS]):
        with pytest.raises(TypeError, match=r"data must not hold lists.*numpy\.asarray.*tuple.*traceable=False"):
            minimize(data=data)
    assert minimize(
        lambda point, data: [abs(row[0] - point[0]) for row in data],
        RECORDS.tolist(),
        users=USERS,
        traceable=False,
    ).release.point.shape == (1,)


def test_a_box_of_another_dimension_than_the_data_says_what_point_was_passed():
    with pytest.raises(Exception, match=r"shape|broadcast") as caught:
        minimize(data=np.ones((USERS, 4)), space=[(0, 1)] * 3)
    assert any("a point of shape (3,): one number for each side of the box" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(USERS + 1), rf"loss must not return values of shape \({USERS + 1},\)"),
        (0.5, "one loss per user, not their mean"),
        ("a", rf"loss must return one loss per user, not their mean: shape \({USERS},\), got shape \(\)"),
    ],
)
def test_wrong_first_values_are_refused_before_the_second_evaluation(returned, message):
    calls = []

    def wrong(point, data):
        calls.append(point)
        return returned

    with pytest.raises(drivers.ObjectiveError, match=message) as caught:
        minimize(wrong, traceable=False)
    assert len(calls) == 1
    assert caught.value.__suppress_context__


def test_complex_losses_are_named():
    def turned(point, data):
        return loss(point, data).astype(complex) * 1j

    for options in ({}, {"traceable": True}):
        with pytest.raises(TypeError, match="loss must return real losses, got complex128"):
            minimize(turned, **options)
    config = random_search.config(users=USERS, steps=1, batch=1, bounds=SIDE)
    with pytest.raises(TypeError, match="objective must return real numbers, got complex128"):
        drivers.run_scan(random_search.algorithm, turned, RECORDS, config)


def test_a_missing_extra_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    path = tmp_path / "ledger.jsonl"
    ledger_file.create(path, mu=2)
    with pytest.raises(ImportError, match=r"progress=True needs tqdm: pip install -e '\.\[progress\]' in the checkout"):
        minimize(ledger=jaxdpbo.Recording(path, "march"), noise="exact", progress=True)
    assert not ledger_file.account(path).spends, "at once: nothing was charged"


def test_a_driver_under_a_trace_says_what_to_call():
    config = random_search.config(users=USERS, steps=1, batch=1, bounds=SIDE)

    def traced(key):
        return drivers.run_scan(random_search.algorithm, loss, RECORDS, config, key=key).release.point

    for call in (jax.jit(traced), jax.vmap(traced)):
        with pytest.raises(RuntimeError, match=r"run_scan runs on the host .* call drivers\.pure_run\("):
            call(jax.random.split(jax.random.key(0), 2))


def test_a_config_of_a_tracer_says_what_to_do():
    def made(mu):
        return dp_gibo.config(users=4, steps=1, mu=mu, bounds=SIDE).mu

    for trace in (jax.jit(made), jax.vmap(made)):
        with pytest.raises(TypeError, match="mu must be a number known outside jit, vmap and grad") as caught:
            trace(jnp.ones(2))
        assert "Traced" not in str(caught.value)


def test_data_over_explicit_axes_are_taken():
    mesh = jax.make_mesh((1,), ("users",), axis_types=(jax.sharding.AxisType.Explicit,))
    placed = jax.device_put(RECORDS, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("users")))
    assert np.shape(minimize(data=placed).release.point) == (len(SIDE),)


# How a run is executed


@pytest.mark.parametrize(
    ("driver", "options", "said"),
    [
        ("run_scan", {"progress": True}, "unexpected keyword argument 'progress'"),
        ("sweep", {"insecure_key": True}, "unexpected keyword argument 'insecure_key'"),
        ("run_loop", {"traceable": True}, "run_loop cannot use traceable on arrays"),
        ("run_loop, a table", {"diagnostics": True}, "run_loop cannot use diagnostics on a table"),
        ("minimize, a table", {"executor": ThreadPoolExecutor(1)}, "minimize cannot use executor on a table"),
        ("minimize, a table", {"checkpoint": "x"}, "minimize cannot use checkpoint on a table"),
        ("PrivateObjective", {"progress": True}, "PrivateObjective cannot use progress on arrays"),
        ("minimize", {"traceable": "no"}, "traceable must be True, False or 'auto', got 'no'"),
        ("minimize", {"progress": 1}, "progress must be True or False, got 1"),
        ("minimize", {"progress": "no"}, "progress must be True, False or 'auto', got 'no'"),
        ("minimize", {"diagnostics": "no"}, "diagnostics must be True or False, got 'no'"),
        ("minimize", {"insecure_key": None}, "insecure_key must be True or False, got None"),
        ("minimize", {"executor": 5}, "executor must be a concurrent.futures.Executor, got int"),
        ("minimize", {"resume": 5}, "resume must be the snapshot of a RunInterrupted, got int"),
    ],
)
def test_an_option_that_a_driver_cannot_use_is_refused_by_name(driver, options, said):
    algorithm, config = random_search.algorithm, random_search.config(users=USERS, steps=1, batch=1, bounds=SIDE)
    table = tables.arrays({"x": RECORDS})
    doors = {
        "run_scan": lambda: drivers.run_scan(algorithm, loss, RECORDS, config, **options),
        "run_loop": lambda: drivers.run_loop(algorithm, loss, RECORDS, config, **options),
        "run_loop, a table": lambda: drivers.run_loop(algorithm, loss, table, config, **options),
        "sweep": lambda: drivers.sweep(algorithm, loss, RECORDS, config, seeds=1, **options),
        "PrivateObjective": lambda: jaxdpbo.PrivateObjective(
            loss, RECORDS, users=USERS, mu=1.0, evaluations=1, loss_range=(0, 1), **options
        ),
        "minimize": lambda: jaxdpbo.minimize(loss, RECORDS, SIDE, mu=1.0, **options),
        "minimize, a table": lambda: jaxdpbo.minimize(loss, table, SIDE, mu=1.0, **options),
    }
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        doors[driver]()


def test_every_option_of_a_run_has_one_name_one_default_and_one_place():
    """Each driver takes those that it can use, in the order of ``minimize``, which takes all of them."""
    options = execution.Execution._field_defaults
    takers = (
        jaxdpbo.minimize, drivers.run_scan, drivers.run_loop, drivers.sweep, drivers.PrivateObjective, private_study,
    )  # fmt: skip
    for driver in takers:
        parameters = inspect.signature(driver).parameters
        taken = [name for name in parameters if name in options]
        assert taken == [name for name in options if name in taken]
        assert {name: parameters[name].default for name in taken} == {name: options[name] for name in taken}
        assert {parameters[name].kind for name in taken} == {inspect.Parameter.KEYWORD_ONLY}
    assert set(inspect.signature(jaxdpbo.minimize).parameters) >= set(options)


def test_a_search_is_of_its_own_type():
    with pytest.raises(TypeError, match="search must be a Search, got dict"):
        jaxdpbo.minimize(loss, RECORDS, SIDE, mu=1.0, search={"steps": 3})


def test_an_equal_text_is_the_default_too():
    same = "".join(["au", "to"])
    config = random_search.config(users=USERS, steps=1, batch=1, bounds=SIDE)
    assert drivers.run_loop(random_search.algorithm, loss, RECORDS, config, traceable=same).release.point.shape == (1,)


def test_a_config_keeps_its_numbers_when_the_callers_array_changes():
    array = np.array([[0.0], [3.0]])
    config = random_search.config(users=USERS, steps=1, batch=1, bounds=array)
    held = [np.zeros(64) for _ in range(20)]  # a device reads the memory of most of them, by how they are aligned
    copies = [arrays.to_device(own) for own in held]
    for own in (array, *held):
        own[:] = 9.0
    assert np.asarray(config.bounds).tolist() == [[0.0], [3.0]]
    assert not np.any(np.stack(copies))


def test_neither_key_nor_snapshot_is_shown():
    """Tools that print the variables of a frame would show them."""
    raw = result.Snapshot(State(None, np.full(2, 0.12345)), None)
    run = execution.check_execution(key=jax.random.key(123456789), insecure_key=True, resume=raw)
    assert repr(run) == "Execution(insecure_key=True)"

"""Points that public records propose: the surrogate beside an oracle, and what the proposals may depend on."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from option_groups import group_options
from oracles import gp as oracle
from oracles import kernels
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import PredefinedSplit

import jaxdpbo
from jaxdpbo import Recording, RunInterrupted, Search, Space, ledger, space
from jaxdpbo.drivers import methods, proposals
from jaxdpbo.guarantee import assumptions, budget_calibration
from jaxdpbo.integrations.sklearn import PrivateSearchCV

MIXED = Space({"a": space.real(0, 1), "b": space.integer(1, 20), "c": space.categorical("x", "y", "z")})
BOX = proposals.Box(2, None)
GIVEN = {"epsilon": 1.0, "delta": 1e-5, "loss_range": (0.0, 4.0), "steps": 6}
KEY = {"key": jax.random.key(3), "insecure_key": True}
USERS = 800


def bowl(points):
    return np.sum((np.asarray(points) - 0.3) ** 2, axis=1)


def named_losses(params, data):
    """The least at the mean record, b = 5, c = "y"."""
    return np.abs(data[:, 0] - params["a"]) + (params["b"] - 5) ** 2 / 100 + 0.3 * (params["c"] != "y")


def records(centre, users=USERS):
    return np.random.default_rng(0).normal(centre, 0.1, (users, 1))


def evaluated(points):
    return bowl(points) + 0.1 * np.sin(20 * points[:, 0])


def test_the_posterior_is_the_oracles():
    rng = np.random.default_rng(1)
    points, new = rng.random((12, 2)), rng.random((7, 2))
    found = proposals._fit(BOX, points, evaluated(points))
    noise = float((found.factor @ found.factor.T)[0, 0]) - found.variance
    kernel = kernels.matern52(found.lengthscales, found.variance)
    values = evaluated(points)
    values = np.minimum(values, np.median(values) + 2 * (np.median(values) - np.min(values)))
    values = (values - np.mean(values)) / np.std(values)
    mean, covariance = oracle.predict(kernel, points, np.full(12, noise), values, new)
    predicted, whitened = found.predict(new)
    np.testing.assert_allclose(predicted, mean, rtol=1e-6, atol=1e-8)
    prior = proposals._kernel(new, new, found.lengthscales, found.variance)[0]
    np.testing.assert_allclose(prior - whitened.T @ whitened, covariance, rtol=1e-5, atol=1e-8)


def test_the_likelihoods_slope_is_that_of_differences():
    rng = np.random.default_rng(2)
    points = MIXED.snap(rng.random((15, 3)))
    features, owners = proposals.Box(3, MIXED).to_features(points)
    assert features.shape == (15, 5)
    assert owners.tolist() == [0, 1, 2, 2, 2]
    targets, at = rng.normal(size=15), rng.normal(size=5) * 0.3 - 1.0

    def value(logs):
        return proposals._negative_log_likelihood(logs, features, owners, targets)[0]

    _, slope = proposals._negative_log_likelihood(at, features, owners, targets)
    np.testing.assert_allclose(slope, oracle.richardson(value, at, 0.1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("values", [np.zeros(9), np.full(9, np.inf), np.r_[np.inf, np.nan, np.arange(7.0)]])
def test_values_without_a_difference_or_a_value_are_harmless(values):
    standard = proposals._standardise(values)
    assert np.all(np.isfinite(standard))
    design = space.sobol(9, 2, 0)
    found = proposals.propose(lambda points: values[: len(points)], BOX, 9, 6, design)
    assert found.shape == (6, 2)
    assert len(np.unique(found, axis=0)) == 6


@pytest.mark.parametrize("above", [[0.75] * 3, []], ids=["ties", "all equal"])
def test_points_that_fail_are_never_the_best(above):
    """Where most values tie at the least, as shares of errors in a few rows do, all others were clipped to it."""
    values = np.array([np.inf] * 3 + [0.25] * 6 + above)
    standard = proposals._standardise(values)
    assert np.min(standard[:3]) > np.max(standard[3:])
    assert np.max(standard[3:9]) < np.min(standard[9:], initial=np.inf)

    def evaluate(points):  # half of the box fails
        works = np.where(points[:, 1] < 0.2, above[0] if above else 0.25, 0.25)
        return np.where(points[:, 0] < 0.5, np.inf, works)

    found = proposals.propose(evaluate, BOX, 12, 9, space.sobol(12, 2, 0))
    assert np.all(found[:6, 0] >= 0.5), "the proposals near the best points"


def test_the_proposals_are_better_than_as_many_random_points():
    seen = []

    def evaluate(points):
        seen.append(points)
        return evaluated(points)

    found = proposals.propose(evaluate, BOX, 20, 20, space.sobol(20, 2, 0))
    assert sum(map(len, seen)) == 20
    random = np.random.default_rng(3).random((200, 40, 2))
    assert np.min(evaluated(found)) < np.mean([np.min(evaluated(points)) for points in random]) - 0.005
    assert np.mean(evaluated(found)) < np.mean(evaluated(random[0])) - 0.1


def test_a_space_with_fewer_points_than_proposals_repeats_them():
    small = Space({"a": [1, 2], "b": [True, False]})
    found = proposals.propose(bowl, proposals.Box(2, small), 10, 10, space.sobol(10, 2, 0))
    assert found.shape == (10, 2)
    assert len(np.unique(found, axis=0)) == 4


def search(private, public, **options):
    chosen = GIVEN | {"traceable": False} | options
    return jaxdpbo.minimize(named_losses, private, MIXED, public=public, **group_options(**chosen))


def test_the_points_depend_on_public_records_alone_and_the_guarantee_says_that_they_steer():
    run, other = search(records(0.3), records(0.3, 50)), search(records(0.9), records(0.3, 50))
    np.testing.assert_array_equal(run.release.points, other.release.points)
    moved = search(records(0.3), records(0.8, 50))
    assert np.any(run.release.points != moved.release.points)
    assert run.method == "proposed: public records steer the search"
    assert assumptions.PUBLIC_RECORDS in run.guarantee.assumptions
    assert (run.guarantee.notion, run.guarantee.level, run.guarantee.delta) == ("dp", 1.0, 0.0)
    assert len(run.release.points) == 12  # half of 6 steps of 4
    assert abs(run.release.params["a"] - 0.3) < 0.2
    without = jaxdpbo.minimize(named_losses, records(0.3), MIXED, **group_options(**GIVEN, traceable=False))
    assert assumptions.PUBLIC_RECORDS not in without.guarantee.assumptions


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_public_and_private_evaluations_are_as_many_as_asked_for(share):
    called = {50: 0, USERS: 0}

    def counted(params, data):
        called[len(data)] += 1
        return named_losses(params, data)

    options = GIVEN | {"estimate_share": share, "traceable": False}
    jaxdpbo.minimize(counted, records(0.3), MIXED, public=records(0.3, 50), **group_options(**options))
    assert called == {50: 12 - 4 * bool(share), USERS: 12 + bool(share)}  # 6 steps of 4; an estimate is a step of 1


def test_an_estimate_and_executors_go_with_public_records():
    with_estimate = search(records(0.3), records(0.3, 50), estimate_share=0.2)
    assert np.isfinite(with_estimate.release.loss)
    assert assumptions.PUBLIC_RECORDS in with_estimate.guarantee.assumptions
    with ThreadPoolExecutor(2) as executor:
        threaded = search(records(0.3), records(0.3, 50), executor=executor, **KEY)
    plain = search(records(0.3), records(0.3, 50), **KEY)
    np.testing.assert_array_equal(threaded.release.points, plain.release.points)


def test_what_does_not_go_with_public_records_is_refused_before_anything_is_evaluated():
    def never(params, data):
        raise AssertionError

    public = records(0.3, 50)
    for options, message in (
        ({"search": Search(method="choice")}, "public must be given for method='proposed' and for no other"),
        ({"search": Search(steps=1)}, "steps must be at least 2"),
        ({"loss_range": None}, "loss_range must be given"),
        ({"loss_range": "private"}, "loss_range must be two numbers"),
    ):
        given = {"epsilon": 1.0, "delta": 1e-5, "loss_range": (0, 1), "users": 5} | options
        with pytest.raises(ValueError, match=message):
            jaxdpbo.minimize(never, public, MIXED, public=public.copy(), **given)
    with pytest.raises(ValueError, match="public must be given for method='proposed'"):
        search(public, None, method="proposed")
    grouped = jaxdpbo.by_person(named_losses, np.arange(50) // 2)
    with pytest.raises(ValueError, match="public must not be given for a loss of by_person or blocks"):
        jaxdpbo.minimize(grouped, public, MIXED, public=public.copy(), **group_options(**GIVEN))


def test_a_failing_loss_of_public_records_spends_nothing(tmp_path):
    ledger.create(tmp_path / "budget", mu=5)

    def fails(params, data):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        jaxdpbo.minimize(
            fails, records(0.3), MIXED, public=records(0.3, 9), ledger=Recording(tmp_path / "budget", "one"),
            **group_options(**GIVEN, traceable=False),
        )  # fmt: skip
    assert not ledger.account(tmp_path / "budget").spends


def test_the_same_call_under_a_ledger_proposes_the_same_points_even_of_a_model_without_a_seed(tmp_path):
    ledger.create(tmp_path / "budget", mu=5)

    def random_losses(params, data):
        return named_losses(params, data) + 0.1 * np.random.random()  # noqa: NPY002

    options = {"ledger": Recording(tmp_path / "budget", "one")} | GIVEN
    first, again = (
        jaxdpbo.minimize(
            random_losses, records(0.3), MIXED, public=records(0.3, 9), **group_options(traceable=False, **options)
        )
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.release.points, again.release.points)
    np.testing.assert_array_equal(first.release.point, again.release.point)
    assert len(ledger.account(tmp_path / "budget").spends) == 1


def unseeded_losses(params, data):
    """Of a model that seeds itself: no two calls agree."""
    return named_losses(params, data) + 0.1 * np.random.default_rng().random()


class Interrupted(Exception):
    pass


def stop_at_eighth(loss):
    """The loss, interrupted once: at the eighth evaluation of the users' records, within the second step."""
    left = [8]

    def stops(params, data):
        of_users = len(data) == USERS
        left[0] -= of_users
        if of_users and left[0] == 0:
            raise Interrupted
        return loss(params, data)

    return stops


def test_a_model_that_does_not_repeat_gets_its_first_release_again_and_resumes_nothing(tmp_path):
    ledger.create(tmp_path / "budget", mu=9)

    def call(loss, name):
        recording = Recording(tmp_path / "budget", name)
        return jaxdpbo.minimize(
            loss, records(0.3), MIXED, public=records(0.3, 9), ledger=recording,
            **group_options(**GIVEN, traceable=False),
        )  # fmt: skip

    first, again = (call(unseeded_losses, "one") for _ in range(2))
    np.testing.assert_array_equal(first.release.points, again.release.points)
    stops = stop_at_eighth(unseeded_losses)
    with pytest.raises(RunInterrupted):
        call(stops, "two")
    with pytest.raises(ledger.LedgerError, match="other points of public records, got steps"):
        call(stops, "two")
    assert len(ledger.account(tmp_path / "budget").spends) == 2


def test_records_of_users_are_not_public_and_a_snapshot_keeps_its_points():
    private = records(0.3)
    rows = {"train": records(0.3, 60), "users": private}
    given = group_options(**GIVEN | {"users": USERS}, traceable=False)
    jaxdpbo.minimize(
        lambda params, data: named_losses(params, data["users"]), rows, MIXED, public={"users": rows["train"][:40]},
        **given,
    )  # fmt: skip
    for public in (private, private[:50]):
        with pytest.raises(ValueError, match="public must not share an array with the users' records"):
            search(private, public)
    given = group_options(**GIVEN, traceable=False)
    with pytest.raises(RunInterrupted) as stopped:
        jaxdpbo.minimize(stop_at_eighth(named_losses), private, MIXED, public=records(0.3, 50), **given)
    resumed = {"traceable": False, "resume": stopped.value.snapshot}
    with pytest.raises(ValueError, match="resume must be a snapshot of a run with"):
        jaxdpbo.minimize(named_losses, private, MIXED, public=records(0.8, 50), **group_options(**GIVEN, **resumed))
    with pytest.raises(ValueError, match="resume must be a snapshot of a run with"):
        jaxdpbo.minimize(
            named_losses, private, MIXED, **group_options(**GIVEN | {"steps": 3}, method="in_order", **resumed)
        )
    run = jaxdpbo.minimize(named_losses, private, MIXED, public=records(0.3, 50), **group_options(**GIVEN, **resumed))
    assert assumptions.PUBLIC_RECORDS in run.guarantee.assumptions


def classified(labels):
    """40 training rows, and a validation row for each label."""
    inputs = np.random.default_rng(5).normal(size=(40 + len(labels), 3))
    fold = PredefinedSplit([-1] * 40 + [0] * len(labels))
    found = PrivateSearchCV(
        RandomForestClassifier(n_estimators=3, random_state=0), {"max_depth": space.integer(1, 5)}, n_iter=8, cv=fold,
        epsilon=1, delta=1e-5, **KEY,
    )  # fmt: skip
    return found.fit(inputs, np.concatenate([inputs[:40, 0] > 0, labels]))


def test_training_rows_propose_the_settings_of_a_search_and_validation_rows_do_not():
    one, other = classified(np.arange(30) % 2), classified(np.zeros(30))
    assert one.method_.startswith("proposed: ")
    np.testing.assert_array_equal(one.release_.points, other.release_.points)
    assert assumptions.PUBLIC_RECORDS in one.guarantee_.assumptions
    assert "NOT the records a model is trained on" in one.guarantee_.protects
    assert "30 users are fewer than 500" in one.notes_[0].text
    chosen = one.__class__(**(one.get_params(deep=False) | {"search": Search(method="choice")}))
    assert not chosen._proposes()


def test_a_preview_knows_the_noise_of_a_search_with_public_records():
    found = jaxdpbo.preview(
        users=USERS, space=MIXED, epsilon=1, delta=1e-5, loss_range=(0, 4), search=Search(method="proposed", steps=6)
    )
    run = search(records(0.3), records(0.3, 50))
    assert found.evaluations == len(run.release.points)
    assert (found.guarantee.level, found.guarantee.notion) == (run.guarantee.level, run.guarantee.notion)


def test_points_that_are_replaced_leave_the_budget_as_it_was():
    requested = budget_calibration.check_budget(None, 1.0, 1e-5, users=USERS)
    for share in (0.0, 0.2):
        search = Search(steps=6, estimate_share=share)
        task = {"users": USERS, "budget": requested, "space": MIXED, "loss_range": (0, 4), "public": True}
        plan = methods.plan(methods.make_problem(search, **task))
        after = plan.with_proposals(np.full(plan.config.phases[0].points.shape, 0.5), 50)
        assert after.algorithm.privacy(after.config) == plan.algorithm.privacy(plan.config)
        chosen, before = after.config.phases[0], plan.config.phases[0]
        assert np.all(np.asarray(chosen.proposals) == 0.5)
        unlike = [
            name.name for name in dataclasses.fields(chosen)
            if not np.array_equal(getattr(chosen, name.name), getattr(before, name.name))
        ]  # fmt: skip
        assert unlike == ["proposals"]

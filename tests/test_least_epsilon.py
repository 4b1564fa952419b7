"""``least_epsilon``: what leaves, what it says it cost, what a ledger gets back, and attacks on every level's claim."""

import functools
import math
import pickle
import re
import struct

import jax
import numpy as np
import pytest
from scipy import stats
from training_cases import Trivial

from jaxdpbo import Recording, accounting, ledger, tuning
from jaxdpbo.accounting import ex_post, selection, stage
from jaxdpbo.guarantee import assumptions
from jaxdpbo.ledger import ledger_file
from jaxdpbo.tuning import fitting, least_epsilon_search
from jaxdpbo.tuning import selection as runs

LEVELS = (0.5, 1.0, 2.0)
DELTA = 1e-4
PLAN = least_epsilon_search._plan
ROWS = np.zeros((60, 2)), np.zeros(60)
TERMS = {"notion": "dp", "protects": fitting.TRAIN, "delta": 0.1, "total_variation": 0.1}


class Noisy(Trivial):
    """Its model is its setting, plus a sum over the rows with Gaussian noise; so is each row's loss."""

    def cost(self, setting, noise, records):
        return stage.gaussian_stage(1 / noise, "the training")

    def fit(self, setting, noise, rows, key):
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        return setting + 0.1 * (float(np.clip(rows[0][:, 0], 0, 1).sum()) + noise * rng.standard_normal())


def search(training=None, settings=(0.2, 0.7), rows=ROWS, seed=0, **options):
    chosen = {"error": 0.4, "epsilons": LEVELS, "delta": DELTA, "mean": 8.0, "eta": 1.0, "validation_epsilon": 2.0}
    chosen |= {"key": jax.random.key(seed), "insecure_key": True}
    return tuning.least_epsilon(training or Noisy(), rows, settings, **(chosen | options))


@pytest.fixture
def one_plan(monkeypatch):
    """A call's public part, made once for all calls of a test."""
    real = functools.cache(lambda: PLAN(*first))
    first: list = []

    def plan(*arguments):
        first[:] = first or arguments
        return real()

    monkeypatch.setattr(least_epsilon_search, "_plan", plan)


def test_a_release_costs_its_level_and_the_whole_of_it(one_plan):
    found = [search(seed=seed) for seed in range(12)]
    reached = [each for each in found if each.reached]
    assert {each.setting for each in reached} <= {0.2, 0.7}
    for each in reached:
        (level,) = [level for level in LEVELS if level * 0.98 <= each.epsilon <= level]
        train, validation = each.guarantees
        assert (train.notion, train.level, train.protects) == ("ex_post_dp", each.epsilon, fitting.TRAIN)
        assert train.epsilon(DELTA) == each.epsilon <= level
        assert LEVELS[-1] * 0.98 <= train.largest == train.reservation.epsilon(DELTA) <= LEVELS[-1]
        assert (validation.notion, validation.protects) == ("dp", fitting.VALIDATION)
        assert 1.9 < validation.epsilon(DELTA) <= 2.0
        assert each.interval[0] <= min(max(each.error, 0.0), 1.0) <= each.interval[1]
        (said,) = each.notes
        note = re.fullmatch(r"the error was reached at epsilon (\S+); at most (\S+) was possible", said.text)
        assert note is not None
        assert each.epsilon <= float(note[1]) < 1.001 * each.epsilon
        assert train.largest <= float(note[2]) < 1.001 * train.largest
        for name in (
            assumptions.RUNS_UNKNOWN,
            assumptions.RUN_COST,
            assumptions.FAILS_BY_NOISE,
            assumptions.WEAK_KEY,
        ):
            assert name in train.assumptions
            assert name in validation.assumptions
    noises = {each.epsilon: each.noise for each in reached}
    assert len(noises) > 1
    assert sorted(noises.values()) == [noises[epsilon] for epsilon in sorted(noises, reverse=True)]


def test_the_lowest_level_that_passes_leaves_and_of_this_level_the_best(one_plan, monkeypatch):
    seen, real = [], fitting.release_score

    def score(training, model, *rest):
        seen.append((model, found := real(training, model, *rest)))
        return found

    monkeypatch.setattr(fitting, "release_score", score)
    ties = 0
    for seed in range(40):
        seen.clear()
        found = search(Levelled(), (0.2, 0.7), seed=seed, error=0.5)
        tried = seen[:-1] if found.reached else seen  # the last measures the model on other rows
        passed = [(model[1], scored) for model, scored in tried if scored <= 0.5]
        assert found.reached == bool(passed)
        if passed:
            assert -found.noise == min((-noise, scored) for noise, scored in passed)[0]
            assert found.error == seen[-1][1]
            ties += len({noise for noise, _ in passed}) < len(passed)
    assert ties > 3


class Levelled(Noisy):
    """Its model says its noise."""

    def fit(self, setting, noise, rows, key):
        return super().fit(setting, noise, rows, key), noise

    def losses(self, model, rows):
        return np.full(len(rows[1]), model[0])


def test_nothing_reached_is_an_outcome_of_its_own(one_plan):
    found = search(error=-5.0)
    assert not found.reached
    assert (found.model, found.setting, found.noise, found.error, found.interval) == (None,) * 5
    assert found.epsilon == found.guarantees[0].level < found.guarantees[0].largest
    plan = least_epsilon_search._plan()  # the one of this test
    profiles = [stage.gaussian_stage(1 / noises[0]).profile for noises in plan.noises]
    costs = accounting.ex_post_epsilons(accounting.repetitions(1.0, 8.0), [1 / 3] * 3, profiles, DELTA)
    assert found.epsilon == pytest.approx(costs.nothing, rel=1e-3)
    (said,) = found.notes
    assert said.text.startswith("no training reached the error; this outcome cost epsilon")
    assert "ask for a larger error" in said.text
    assert f"note: {said}" in repr(found)


class Failing(Noisy):
    def fit(self, setting, noise, rows, key):
        raise RuntimeError("seen")


def test_a_training_that_fails_does_not_pass(one_plan):
    found = search(Failing(), error=1.0)
    assert not found.reached
    # Its cost is the cost of an outcome that says no more: a failure may not be told from an error that is too large.
    assert pickle.dumps(found) == pickle.dumps(search(error=-5.0))
    assert "a training that raises an exception counts as one that misses the error" in found.notes[0].text
    assert str(found.report()).count("a private model of") == 0
    assert str(found.report()).count("a search without a model for") == 1
    with pytest.raises(RuntimeError, match="seen"):
        search(Failing(), on_error="raise")


def test_no_model_of_a_run_that_lost_is_returned(one_plan):
    class Telling(Noisy):
        def fit(self, setting, noise, rows, key):
            model = super().fit(setting, noise, rows, key)
            seen.append(model)
            return model

    seen = []
    for seed in range(4):
        start = len(seen)
        found = search(Telling(), seed=seed, error=5.0)
        kept = pickle.dumps(found)
        assert [model for model in seen[start:] if struct.pack(">d", model) in kept] == [found.model]
    assert len(seen) > 8


def test_nothing_never_costs_more_than_the_last_level(monkeypatch):
    """Among nearly equal levels the last has the least epsilon of its own, but the largest exponent."""
    monkeypatch.setattr(ex_post, "_nothing_epsilon", lambda *_: math.inf)
    asked = fitting.TuningArguments(Noisy(), (0.2,), 1.001, DELTA, None, None, True, "worst")
    law = accounting.repetitions(1.0, 8.0)
    costs = least_epsilon_search._plan(asked, (1.0, 1.001), law, 48, 12, 1.0).costs
    assert 0.9 < costs.nothing <= costs.largest <= 1.001


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"epsilons": ()}, TypeError, "epsilons"),
        ({"epsilons": 1.0}, TypeError, "epsilons"),
        ({"epsilons": (1.0, 1.0)}, ValueError, "epsilons must increase"),
        ({"epsilons": (1.0, math.inf)}, ValueError, "epsilons"),
        ({"epsilons": (0.0, 1.0)}, ValueError, "epsilons"),
        ({"epsilons": (1.0, 60.0)}, ValueError, "at most 50"),
        ({"error": math.nan}, ValueError, "error"),
        ({"error": math.inf}, ValueError, "error must be finite"),
        ({"cap": 150, "validation_epsilon": 9.0}, ValueError, r"cap must be at least \d\d\d"),
        (
            {"rows": (ROWS[0][:, :1], ROWS[1]), "validation": (ROWS[0][:, 1:], ROWS[0][:, 0])},
            ValueError,
            "share memory",
        ),
        ({"delta": 0.0}, ValueError, "delta"),
        ({"validation_epsilon": 0.0}, ValueError, "validation_epsilon"),
        ({"settings": ()}, ValueError, "settings"),
        ({"mean": 1.0}, ValueError, "mean"),
        ({"cap": 9}, ValueError, r"cap must be at least \d\d"),
        ({"on_error": "stop"}, ValueError, "on_error"),
        ({"rows": (ROWS[0], ROWS[1][:3])}, ValueError, "rows"),
        ({"ledgers": {"others": Recording("a", "b")}}, ValueError, "others"),
    ],
)
def test_what_is_wrong_is_refused_before_anything_is_spent(changes, error, message, one_plan):
    with pytest.raises(error, match=message):
        search(**changes)


def test_a_ledger_reserves_the_largest_and_gets_the_rest_back(tmp_path, one_plan):
    path = tmp_path / "ledger"
    ledger.create(path, level=5.0, **TERMS)
    found = search(ledgers={fitting.TRAIN: Recording(path, "one")}, key=None, insecure_key=False)
    (entry,) = ledger.account(path).spends
    assert entry.spend.ex_post
    assert entry.released
    assert float(entry.spend.events[0].level) == found.guarantees[0].largest
    assert float(entry.paid) == found.epsilon == float(ledger.account(path).spent.cost)
    assert f"{float(entry.spend.events[0].level):.3f}"[:4] in ledger.describe(path)
    assert " reserved, " in ledger.describe(path)
    with pytest.raises(ledger.LedgerError, match="was charged before"):
        search(ledgers={fitting.TRAIN: Recording(path, "one")}, key=None, insecure_key=False)
    assert len(ledger.account(path).spends) == 1


@pytest.mark.parametrize("place", ["before the first run", "after the last run", "while the release is written"])
def test_a_killed_run_keeps_its_reservation(place, tmp_path, one_plan, monkeypatch):
    path, append = tmp_path / "ledger", ledger_file._append
    ledger.create(path, level=3.9, **TERMS)

    def kill(*arguments, **options):
        raise KeyboardInterrupt

    def kill_release(opened, content, **options):
        return kill() if content["kind"] == "release" else append(opened, content, **options)

    module, name, planted = {
        "before the first run": (runs, "best_run", kill),
        "after the last run": (least_epsilon_search, "_result", kill),
        "while the release is written": (ledger_file, "_append", kill_release),
    }[place]
    with monkeypatch.context() as patch:
        patch.setattr(module, name, planted)
        with pytest.raises(KeyboardInterrupt):
            search(ledgers={fitting.TRAIN: Recording(path, "one")})
    (entry,) = ledger.account(path).spends
    assert (entry.paid, entry.released) == (None, False)
    assert ledger.account(path).spent.cost == entry.spend.events[0].level
    with pytest.raises(ledger.BudgetExceeded):  # an open reservation counts
        search(ledgers={fitting.TRAIN: Recording(path, "another")})


def test_a_ledger_is_charged_first_and_stores_the_release_last(tmp_path, one_plan, monkeypatch):
    path = tmp_path / "ledger"
    ledger.create(path, level=5.0, **TERMS)
    order = []
    for module, name in ((runs, "best_run"), (ledger_file, "store_release"), (ledger_file, "charge_all")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, name=name, **o: (order.append(name), real(*a, **o))[1])
    search(ledgers={fitting.TRAIN: Recording(path, "one")})
    assert order == ["charge_all", "best_run", "store_release"]


def test_a_release_that_this_call_did_not_make_is_refused(tmp_path, one_plan):
    """Somebody frees what looks like a dead reservation while its run still draws."""
    path = tmp_path / "ledger"
    ledger.create(path, level=5.0, **TERMS)

    class Meddling(Noisy):
        def fit(self, *arguments):
            ledger.store_release(path, "one", {}, paid=0)
            return super().fit(*arguments)

    with pytest.raises(ledger.MovedLedgerError, match="did not make"):
        search(Meddling(), ledgers={fitting.TRAIN: Recording(path, "one")})


def test_the_ledger_says_no_time_that_a_run_took(tmp_path, one_plan):
    path = tmp_path / "ledger"
    ledger.create(path, level=5.0, **TERMS)
    search(ledgers={fitting.TRAIN: Recording(path, "one")})
    (line,) = [line for line in ledger_file.read(path).lines if line.get("kind") == "release"]
    assert set(line) == {"kind", "run", "payload", "paid"}
    assert set(line["payload"]) == {"epsilon", "reached"}


def test_a_training_cannot_change_the_rows_of_the_next(one_plan):
    class Changing(Noisy):
        def fit(self, setting, noise, rows, key):
            rows[0][:] = 1
            return super().fit(setting, noise, rows, key)

    rows = np.zeros((60, 2)), np.zeros(60)
    with pytest.raises(ValueError, match="read-only"):
        search(Changing(), rows=rows, on_error="raise")
    with pytest.raises(ValueError, match="read-only"):
        search(Changing(), rows=rows, validation=(np.zeros((20, 2)), np.zeros(20)), on_error="raise")
    assert not rows[0].any()


def test_a_gdp_ledger_keeps_the_largest(tmp_path, one_plan):
    path = tmp_path / "ledger"
    ledger.create(path, mu=5, protects=fitting.TRAIN)
    with pytest.raises(ledger.BudgetExceeded, match="delta"):  # a gdp ledger has no delta unless it is given one
        search(ledgers={fitting.TRAIN: Recording(path, "one")})
    path = tmp_path / "another"
    ledger.create(path, level=5.0, **(TERMS | {"notion": "gdp"}))
    found = search(ledgers={fitting.TRAIN: Recording(path, "one")})
    (entry,) = ledger.account(path).spends
    assert (entry.paid, entry.released, entry.spend.ex_post) == (None, False, False)
    mu = accounting.bounded_range_mu(2 * found.guarantees[0].largest)
    assert float(entry.spend.events[0].level) == pytest.approx(mu)


def test_a_cap_runs_always_as_often_and_draws_as_without(one_plan, monkeypatch):
    """With one plan for both calls: their ideal deltas differ a little."""
    law = accounting.repetitions(1.0, 8.0)
    cap = next(k for k in range(9, 999) if selection.tail_probability(law, k) <= 1e-7 * math.exp(-2.0))
    counted = []

    class Counting(Noisy):
        def fit(self, setting, noise, rows, key):
            counted[-1] += 1
            return super().fit(setting, noise, rows, key)

    for seed in range(6):
        counted.append(0)
        capped = search(Counting(), seed=seed, cap=cap)
        plain = search(seed=seed)
        assert capped[:6] == plain[:6]
        assert assumptions.LOSERS_UNKNOWN in capped.guarantees[0].assumptions
        assert assumptions.RUNS_UNKNOWN not in capped.guarantees[0].assumptions
        tail = selection.tail_probability(law, cap)
        assert tail <= capped.guarantees[0].total_variation < 1.01 * tail
        assert capped.guarantees[0].epsilon(DELTA) < math.inf
    assert counted == [cap] * 6


def draw_releases(which, seeds, error=0.35):
    """Levels and models of many runs on one of two neighbouring data sets."""
    features = np.zeros((60, 2))
    first = np.random.default_rng(0).permutation(60)[12]  # of the training rows of ``split_rows``: moves the sum by 1
    features[first, 0] = which
    found = [search(rows=(features, np.zeros(60)), settings=(0.3,), seed=seed, error=error) for seed in seeds]
    levels = np.array(
        [np.argmin([abs(each.epsilon - level) for level in LEVELS]) if each.reached else -1 for each in found]
    )
    costs = {level: each.epsilon for level, each in zip(levels.tolist(), found, strict=True)}
    return levels, np.array([each.model if each.reached else 0.0 for each in found]), costs


def largest_violation(trials, error=0.35):
    """How far the confidence limits of an event's probabilities exceed a level's claim: positive where it is false."""
    first = draw_releases(0, range(trials), error)
    second = draw_releases(1, range(trials, 2 * trials), error)
    costs, worst = first[2] | second[2], -math.inf
    for (levels, models, _), (others, other_models, _) in ((first, second), (second, first)):
        for level in sorted(costs):
            for low, high in ((-9.0, 9.0), (-9.0, 0.25), (0.25, 9.0), (-9.0, 0.35), (0.35, 9.0)):
                counts = [
                    int(np.sum((at == level) & (low <= made) & (made < high)))
                    for at, made in ((levels, models), (others, other_models))
                ]
                least = stats.beta.ppf(1e-4, counts[0], trials - counts[0] + 1) if counts[0] else 0.0
                most = stats.beta.ppf(1 - 1e-4, counts[1] + 1, trials - counts[1]) if counts[1] < trials else 1.0
                worst = max(worst, least - math.exp(costs[level]) * most - DELTA)
    return worst


def test_no_attack_shows_more_than_a_release_says(trials, one_plan):
    count = trials("neighbouring runs of least_epsilon attacked, by level", 150, 50_000, 0)
    assert largest_violation(count) <= 0


def level_counts(trials):
    """How often the shipped code trains at each level, with each setting: ``(levels, settings)``."""
    counts: dict[tuple[float, float], int] = {}

    class Counting(Noisy):
        def fit(self, setting, noise, rows, key):
            counts[noise, setting] = counts.get((noise, setting), 0) + 1
            return setting

    for seed in range(trials):
        search(Counting(), seed=seed)
    noises = [noises[0] for noises in least_epsilon_search._plan().noises]  # the plan of this test
    return np.array([[counts.get((noise, setting), 0) for setting in (0.2, 0.7)] for noise in noises])


def test_levels_and_settings_are_drawn_with_the_weights_that_are_charged(trials, one_plan, monkeypatch):
    count = trials("runs of least_epsilon, by level and setting drawn", 100, 5000, 0)
    weights = np.array(least_epsilon_search._level_weights(LEVELS))
    drawn = level_counts(count)
    expected = np.outer(weights, [0.5, 0.5]) * drawn.sum()
    assert stats.chisquare(drawn.ravel(), expected.ravel()).pvalue > 1e-3
    real = runs.best_run  # planted: the top level twice as often
    monkeypatch.setattr(
        runs,
        "best_run",
        lambda run, pairs, *rest, **options: real(
            run, (*pairs, *(pair for pair in pairs if pair[0] == len(LEVELS) - 1)), *rest, **options
        ),
    )
    drawn = level_counts(count)
    assert stats.chisquare(drawn.ravel(), np.outer(weights, [0.5, 0.5]).ravel() * drawn.sum()).pvalue < 1e-6


@pytest.mark.daily("a tenth*")
@pytest.mark.parametrize("plant", ["noise forgotten", "a tenth of the noise of the largest level"])
def test_an_attack_sees_noise_that_is_missing(plant, one_plan, monkeypatch):
    real = Noisy.fit
    if plant == "noise forgotten":
        monkeypatch.setattr(Noisy, "fit", lambda self, setting, noise, *rest: real(self, setting, 1e-3 * noise, *rest))
    else:
        plan = least_epsilon_search._plan
        monkeypatch.setattr(least_epsilon_search, "_plan", lambda *arguments: _with_noise_of_largest(plan(*arguments)))
    assert largest_violation(150) > 0


def _with_noise_of_largest(plan):
    return plan._replace(noises=[[0.1 * noise for noise in plan.noises[-1]]] * len(plan.noises))

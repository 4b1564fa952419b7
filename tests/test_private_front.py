"""A front that may be published: all trainings are under one curve, the search reads noised scores alone."""

import logging
import pickle
import random
import warnings

import jax
import numpy as np
import pytest
from oracles import pareto as oracle
from training_cases import Trivial

from jaxdpbo import Recording, accounting, ledger, tuning
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions
from jaxdpbo.tuning import fitting, front, selection

X, Y = np.random.default_rng(0).normal(size=(400, 3)), np.zeros(400, int)
SETTINGS, DELTA = [0.2, 0.4, 0.9], 1e-4
COUNT = 6
LARGE = [1.4, 1.6, 1.8, 2.0, 2.2]  # fifteen candidates as by default: what is observed compiles once


def searched(rows=(X, Y), seed=0, training=None, **options):
    chosen = {"epsilon": 3.0, "delta": DELTA, "count": COUNT, "key": jax.random.key(seed), "insecure_key": True}
    return tuning.private_front(training or Trivial(), rows, options.pop("settings", SETTINGS), **(chosen | options))


class Given(Trivial):
    """A training that notes what noise it is given, with the loss of its setting."""

    def __init__(self):
        self.noises = []

    def fit(self, setting, noise, rows, key):
        self.noises.append(noise)
        return setting


def exceeded(found, noises):
    """Whether Gaussian trainings of these noises cost more than is stated."""
    trained = found.guarantees[0]
    return accounting.gdp_epsilon(accounting.compose_gdp([1 / noise for noise in noises]), DELTA) > trained.level


@pytest.mark.parametrize("levels", [None, LARGE])
def test_all_trainings_together_cost_what_is_stated(levels):
    training = Given()
    found = searched(training=training, levels=levels)
    assert len(found.models) == len(training.noises) >= 2
    assert {each.protects for each in found.guarantees} == {fitting.TRAIN, fitting.VALIDATION}
    for each in found.guarantees:
        assert 2.9 < each.epsilon(delta=DELTA) <= 3.0
        assert assumptions.WEAK_KEY in each.assumptions
    assert not exceeded(found, training.noises)
    np.testing.assert_array_equal(found.noises, training.noises)
    alone = [accounting.gdp_epsilon(1 / noise, DELTA) for noise in found.noises]
    np.testing.assert_allclose(alone, found.epsilons, rtol=1e-4)


def test_a_search_that_does_not_stop_is_seen(monkeypatch):
    monkeypatch.setattr(front, "_fits", lambda *_: True)
    training = Given()
    assert exceeded(searched(training=training, levels=LARGE), training.noises)


def test_it_ends_where_nothing_is_left():
    few = searched(levels=LARGE)
    assert 2 <= len(few.errors) < COUNT
    every = searched(settings=SETTINGS[:1], count=50)
    assert sorted(every.epsilons) == [3 / 32, 3 / 16, 3 / 8, 3 / 4, 3 / 2]
    with pytest.raises(ValueError, match="levels must leave two"):
        searched(levels=[2.9])


def test_errors_are_noised_as_much_as_is_stated():
    """Of losses that are all .4 : the mean over 80 rows moves by 1 / 80, six scores are within one budget."""
    errors = np.concatenate([searched(seed=seed, settings=[0.4, 0.4, 0.4]).errors for seed in range(40)])
    deviation = np.sqrt(COUNT) / 80 / accounting.gdp_mu(3.0, DELTA)
    assert abs(np.mean(errors) - 0.4) < 4 * deviation / np.sqrt(len(errors))
    assert 0.85 < np.std(errors) / deviation < 1.15
    assert len(np.unique(errors)) > 200


def test_the_front_is_the_oracles():
    found = searched()
    values = list(zip(found.epsilons.tolist(), found.errors.tolist(), strict=True))
    assert found.front.tolist() == [not oracle.dominated(one, values) for one in values]
    assert 0 < sum(found.front) < len(found.front)
    made = found.report()
    assert made.guarantees == found.guarantees
    assert f"{np.min(found.errors):.4g} at" in str(made.details)


def test_in_single_precision_it_costs_the_same(float32):
    training = Given()
    found = searched(training=training)
    assert len(found.models) == COUNT
    assert not exceeded(found, training.noises)
    assert np.all(np.isfinite(found.errors))
    assert any(found.front)


def test_the_search_reads_noised_scores_alone(monkeypatch):
    """The same scores for rows that are all different, and for failing models: the same trainings."""
    scores = iter(np.random.default_rng(1).uniform(size=100))
    kept = [float(next(scores)) for _ in range(COUNT)]

    def run(rows, training):
        left = iter(kept)
        monkeypatch.setattr(fitting, "release_score_silently", lambda *_: next(left))
        found = searched(rows, training=training)
        return found.settings, found.epsilons.tolist(), found.errors.tolist(), found.front.tolist()

    class Failing(Trivial):
        calls = 0

        def fit(self, setting, noise, rows, key):
            self.calls += 1
            if self.calls > 1:  # a front without any model is an exception
                raise ValueError(str(rows))
            return setting

    assert run((X, Y), Trivial()) == run((X * 100, Y + 1), Failing())
    monkeypatch.setattr(fitting, "release_score_silently", lambda *_: 0.5)
    assert searched().settings != run((X, Y), Trivial())[0]  # but they read these


def test_a_training_that_fails_has_the_largest_error():
    class Failing(Trivial):
        def fit(self, setting, noise, rows, key):
            if setting == SETTINGS[0]:
                raise ValueError(str(rows))
            return setting

    found = searched(training=Failing())
    failed = [setting == SETTINGS[0] for setting in found.settings]
    assert any(failed)
    assert not all(failed)
    for bad, model, error in zip(failed, found.models, found.errors, strict=True):
        assert (model is None) == bad
        assert (error == 1.0) == bad
    with pytest.raises(ValueError, match=r"array\("):
        searched(training=Failing(), on_error="raise")

    class Broken(Trivial):
        def fit(self, setting, noise, rows, key):
            raise ValueError(str(rows))

    with pytest.raises(tuning.AllRunsFailed, match=r"for training rows; .* for validation rows"):
        searched(training=Broken())


class Global(Trivial):
    """Against the contract: notes what global generators would have drawn for it."""

    def __init__(self):
        self.drawn = []

    def fit(self, setting, noise, rows, key):
        self.drawn += [np.random.normal(), random.random()]  # noqa: NPY002
        return setting


def test_trainings_that_draw_from_global_generators_do_not_draw_alike():
    """These are put back after each training, and a difference of two models would be free of such noise."""
    training = Global()
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    searched(training=training)
    searched(training=training, seed=1)
    assert len(training.drawn) >= 8
    assert len(set(training.drawn)) == len(training.drawn)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002


class Late:
    """An array of a program that fails after it was dispatched: on a CPU a callback's failure is seen at once."""

    def block_until_ready(self):
        raise ValueError("I saw a row")


class Deferred(Trivial):
    """A training whose program fails after ``fit`` has returned."""

    def fit(self, setting, noise, rows, key):
        return Late()


def test_a_training_that_fails_late_has_failed():
    with pytest.raises(tuning.AllRunsFailed):
        searched(training=Deferred(), count=2)


@pytest.mark.parametrize("output", [Late(), {"a": Late()}, {0: 1.0, "b": Late()}, [({0: [Late()], "b": 1.0},)]])
def test_what_a_run_returned_is_waited_for(output):
    """JAX takes no dict apart whose keys have no order."""
    with pytest.raises(ValueError, match="I saw a row"):
        selection.own_output(output)


def test_nothing_but_released_values_differs_between_neighbours(tmp_path, caplog, capfd, trials):
    class Telling(Trivial):
        def fit(self, setting, noise, rows, key):
            print(rows[0].tolist())
            warnings.warn(str(rows[0].tolist()), stacklevel=1)
            logging.getLogger("telling").critical(str(rows[0].tolist()))
            return setting

        def losses(self, model, rows):
            if not np.all(np.isfinite(rows[0])):
                raise ValueError(str(rows))
            return np.full(len(rows[1]), model)

    count = trials("neighbouring rows whose fronts were compared", 4, 100, 3)
    rng, said = np.random.default_rng(3), []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for number in range(count):
            data, path = X.copy(), tmp_path / str(number)
            if number:
                data[rng.integers(400)] = rng.choice([1e300, np.nan, -np.inf, 5.0])
            ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=fitting.TRAIN)
            caplog.clear()
            found = searched((data, Y), training=Telling(), ledgers={fitting.TRAIN: Recording(path, "one")})
            (spend,) = ledger.account(path).spends
            kept = spend._replace(when="", who="", fingerprint="")
            released = front.Front(*[()] * 6, guarantees=found.guarantees)
            said.append(
                (
                    repr(released),
                    pickle.dumps(released),
                    caplog.text.replace(str(path), ""),
                    tuple(capfd.readouterr()),
                    repr(kept),
                )
            )
    assert len(set(said)) == 1
    assert not warned


def test_a_training_without_a_level_is_refused_and_one_that_costs_nothing_is_not(tmp_path):
    """Before anything is charged: not when the search comes to it."""

    class Approximate(Trivial):
        def cost(self, setting, noise, records):
            return stage.approximate_stage(1 / noise, DELTA / 10)

    class Free(Trivial):
        def cost(self, setting, noise, records):
            return stage.pure_stage(0.0)

    path = tmp_path / "budget"
    ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=fitting.TRAIN)
    with pytest.raises(ValueError, match="training must be Gaussian DP but for a delta"):
        searched(training=Approximate(), ledgers={fitting.TRAIN: Recording(path, "one")})
    assert not ledger.account(path).spends
    assert len(searched(training=Free()).errors) == COUNT


def test_settings_are_placed_by_rank():
    mixed = [{"rate": 1e-3, "kind": "a"}, {"rate": 1.0, "kind": "b"}, {"rate": 50.0, "kind": "a"}]
    np.testing.assert_array_equal(front._coordinates(mixed), [[0, 0], [0.5, 1], [1, 0]])
    with pytest.raises(ValueError, match="same names"):
        front._coordinates([{"rate": 1.0}, {"speed": 1.0}])


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"rows": (X, Y.tolist())}, TypeError, "data frames of numbers"),
        ({"validation": (X, Y)}, ValueError, "validation must"),
        ({"levels": [0.0, 1.0]}, ValueError, "levels must be positive"),
        ({"levels": [1e-9], "delta": 1e-12}, ValueError, "epsilon must be larger"),
        ({"levels": "all"}, TypeError, "levels"),
        ({"count": 1}, ValueError, "count"),
        ({"epsilon": 800.0, "levels": [1.0]}, ValueError, "epsilon must be at most"),
        ({"delta": 1e-28}, ValueError, "delta must be larger"),
        ({"on_error": "ignore"}, ValueError, "on_error must be"),
    ],
)
def test_what_is_out_of_range_is_refused_before_anything_is_charged(options, kind, said, tmp_path):
    path = tmp_path / "budget"
    ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=fitting.TRAIN)
    with pytest.raises(kind, match=said):
        searched(ledgers={fitting.TRAIN: Recording(path, "one")}, **options)
    assert not ledger.account(path).spends

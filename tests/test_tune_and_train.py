"""One statement for tuning and training: what leaves differs between neighbours in released values alone."""

import logging
import pickle
import warnings

import jax
import numpy as np
import pytest

from jaxdpbo import Recording, accounting, ledger, tuning
from jaxdpbo.privacy import guarantee
from jaxdpbo.privacy.accounting import stage
from jaxdpbo.training import dp_optim, models
from jaxdpbo.tuning import training as trainings
from jaxdpbo.tuning import tune

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
SETTINGS = [{"learning_rate": rate, "batch": 16, "epochs": 3, "clip_norm": 1.0} for rate in (1e-4, 0.5)]
TRAINING = tuning.DPSGD(models.logistic_regression(3))
ROUTES = ("selection", "blocks")


def tuned(rows=(X, Y), seed=0, **options):
    chosen = {"epsilon": 3.0, "delta": 1e-4, "key": jax.random.key(seed), "insecure_key": True, "k": 20}
    return tuning.tune_and_train(options.pop("training", TRAINING), rows, SETTINGS, **(chosen | options))


class Telling:
    """A training without privacy of its own that says all it sees, and fails at some rows."""

    def __init__(self, said):
        self.said = said

    def cost(self, setting, noise, records):
        return stage.gaussian(1 / noise, "the training")

    def assumptions(self):
        return ()

    def expect(self, rows):
        pass

    def total_variation(self, setting, records):
        return 1e-30

    def fit(self, setting, noise, rows, key):
        print(rows[0].tolist())
        warnings.warn(str(rows[0].tolist()), stacklevel=1)
        logging.getLogger("telling").critical(str(rows[0].tolist()))
        self.said.append(float(np.sum(rows[0])))
        return {"released": setting["learning_rate"]}

    def fit_block(self, setting, noise, rows, records, key):
        return self.fit(setting, noise, rows, key)

    def losses(self, model, rows):
        if not np.all(np.isfinite(rows[0])):
            raise ValueError(str(rows))
        return np.full(len(rows[1]), model["released"])


@pytest.mark.parametrize("route", ROUTES)
def test_all_that_leaves_is_within_what_was_asked_for(route):
    found = tuned(route=route, epsilon=2.0)
    assert found.route == route
    assert found.setting in SETTINGS
    assert set(found.model[0]._fields) == {"weights", "bias"}
    protected = {each.protects for each in found.guarantees}
    assert protected == ({tune.TRAIN, tune.VALIDATION} if route == "selection" else {guarantee.ALL_ROWS})
    for each in found.guarantees:
        assert 1.8 < each.epsilon(delta=1e-4) <= 2.0
        assert guarantee.WEAK_KEY in each.assumptions
    assert np.mean(TRAINING.losses(tuned(route=route, epsilon=12.0).model, (X, Y))) < 0.2


def test_noise_is_the_least_that_the_statement_allows():
    for setting in SETTINGS:
        noise = trainings.noise_for(TRAINING, setting, 400, 1.0, 1e-5)
        assert TRAINING.cost(setting, noise, 400).epsilon(1e-5) <= 1.0
        assert TRAINING.cost(setting, noise * 0.99, 400).epsilon(1e-5) > 1.0
    with pytest.raises(ValueError, match="epsilon must be larger"):
        trainings.noise_for(TRAINING, SETTINGS[0], 400, 1e-9, 1e-12)


def test_a_selection_costs_what_its_parts_say():
    found = tuned(route="selection")
    law = accounting.repetitions(0.0, tune.MEAN_RUNS)
    training, validation = found.guarantees
    wanted = accounting.selection_epsilon(law, TRAINING.cost(found.setting, found.noise, 320).profile, 1e-4)
    assert training.level == pytest.approx(wanted, rel=1e-3)  # both settings have the same steps
    assert validation.level <= 3.0
    variation = dp_optim.total_variation(TRAINING.model, 60)
    assert training.total_variation >= tune.MEAN_RUNS * variation * (1 - 1e-9)


def test_a_training_that_a_search_chose_is_under_one_curve():
    found = tuned(route="blocks")
    (stated,) = found.guarantees
    whole = accounting.gdp_mu(3.0, 1e-4)
    costs = [TRAINING.cost(each, trainings.noise_for(TRAINING, each, 400, 1.0, 1e-4), 400).profile for each in SETTINGS]
    assert stage.under(accounting.worst_of(costs)).epsilon(1e-4) >= max(stage.under(c).epsilon(1e-4) for c in costs)
    assert stated.level > accounting.gdp_epsilon(np.sqrt(tune.SEARCH_SHARE) * whole, 1e-4)


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_but_released_values_differs_between_neighbours(route, tmp_path, caplog, capfd, trials):
    count = trials(f"neighbouring rows whose tuning by {route} was compared", 4, 100, 3)
    rng, said = np.random.default_rng(3), []
    levels = caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, logger="jax")
    with levels[0], levels[1], warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for number in range(count):
            data, path, row = X.copy(), tmp_path / str(number), rng.integers(400)
            if number:
                data[row] = rng.choice([1e300, np.nan, -np.inf, 5.0])
            protects = tune.TRAIN if route == "selection" else guarantee.ALL_ROWS
            ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=protects)
            caplog.clear()
            seen = []
            options = {"route": route, "training": Telling(seen), "recordings": {protects: Recording(path, "one")}}
            found = tuned((data, Y), **options)
            assert seen
            (spend,) = ledger.account(path).spends
            kept = spend._replace(when="", who="", fingerprint="")
            released = found._replace(model=None, setting=None, noise=0.0)
            said.append((repr(released), pickle.dumps(released), caplog.text, tuple(capfd.readouterr()), repr(kept)))
    assert len(set(said)) == 1
    assert not warned
    assert released.route == route


def test_rows_are_held_out_without_looking():
    seen = []

    class Looking(Telling):
        def fit(self, setting, noise, rows, key):
            seen.append(tuple(np.asarray(rows[1])[:40]))
            return {"released": 0.5}

    numbers = np.arange(400)
    tuned((X, numbers), route="selection", training=Looking([]))
    tuned((X * 7, numbers), route="selection", training=Looking([]))
    assert len(set(seen)) == 1
    tuned((X, numbers), validation=(X[:50].copy(), numbers[:50].copy()), route="selection", training=Looking([]))
    assert seen[-1] == tuple(range(40))


def test_noise_in_floats_is_assumed_ideal():
    for route in ROUTES:
        training = tuning.DPSGD(models.logistic_regression(3), noise="float")
        assert all(
            guarantee.IDEAL_NOISE in each.assumptions for each in tuned(training=training, route=route).guarantees
        )
        assert not any(guarantee.IDEAL_NOISE in each.assumptions for each in tuned(route=route).guarantees)


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ((X, Y.tolist()), TypeError, "arrays of numbers"),
        ((X, Y.astype(object)), TypeError, "arrays of numbers"),
        ((X[:300], Y), ValueError, "as many labels"),
        ((X[:, :2], Y), ValueError, "features must be"),
        ((X, Y[:, None]), ValueError, "labels must be"),
        ((X, Y.astype(float)), ValueError, "labels must be"),
        ((X[:3], Y[:3]), ValueError, "10 or more"),
        (X, TypeError, "rows must be"),
    ],
)
@pytest.mark.parametrize("route", ROUTES)
def test_rows_of_other_shapes_are_refused_before_anything_is_charged(rows, kind, said, route, tmp_path):
    recording = {guarantee.ALL_ROWS: Recording(tmp_path / "none", "one")}
    with pytest.raises(kind, match=said):
        tuned(rows, route=route, recordings=recording)
    with pytest.raises(ValueError, match="validation must"):
        tuned(route=route, validation=(X, Y))


def test_losses_of_another_shape_fail_the_run():
    class Averaging(Telling):
        def losses(self, model, rows):
            return np.zeros(1)

    assert tuned(training=Averaging([]), route="selection").model is None
    with pytest.raises(ValueError, match="losses must have shape"):
        tuned(training=Averaging([]), route="selection", on_error="raise")


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"delta": 1e-12}, ValueError, "delta must be larger"),
        ({"epsilon": 800.0}, ValueError, "epsilon must be at most"),
        ({"epsilon": 1e-3, "delta": 1e-2}, ValueError, "delta must be smaller"),
        ({"route": "trials"}, ValueError, "route"),
        ({"route": "blocks", "k": 300}, ValueError, "k must leave"),
        ({"mean": 0.5}, ValueError, "mean"),
    ],
)
def test_what_is_out_of_range_is_refused(options, kind, said):
    with pytest.raises(kind, match=said):
        tuned(**options)
    with pytest.raises(ValueError, match="settings must have"):
        TRAINING.cost({"batch": 3}, 1.0, 400)

"""The peers of ``tuning.tune_and_train`` are as private as the library's own way, and find what they should."""

import dataclasses
import warnings
from functools import partial

import jax
import numpy as np
import pytest
from oracles import training as oracle
from test_tune_and_train import (  # noqa: F401
    SETTINGS,
    Route,
    Telling,
    X,
    Y,
    test_all_that_leaves_is_within_what_was_asked_for,
    test_no_row_is_told_by_what_float32_does_not_hold,
    test_noise_in_floats_is_assumed_ideal,
    test_nothing_but_released_values_differs_between_neighbours,
    test_rows_of_other_shapes_are_refused_before_anything_is_charged,
    test_what_chooses_is_noised,
    test_what_no_training_would_take_is_refused_before_anything_is_charged,
    tuned,
)
from test_whole_calls import HUGE, KEY, TUNED, examples, variation_of
from test_whole_calls import SETTINGS as OF_REGRESSION
from training_cases import Trivial

from benchmarks import tuning_peers
from benchmarks.tuning_peers import blocks, trials
from benchmarks.tuning_peers.trainings import DPSGD, InBlocks, Reaching
from jaxdpbo import Recording, accounting, ledger, phases
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import guarantees
from jaxdpbo.testing import tape
from jaxdpbo.training import dp_optim, models
from jaxdpbo.tuning import training as trainings

TRAINING = DPSGD(models.logistic_regression(3), classes=(0, 1))
BLOCKS = Route(partial(tuning_peers.tune_and_train, route="blocks", k=20), DPSGD, (guarantees.ALL_ROWS,))
TRIALS = Route(partial(tuning_peers.tune_and_train, route="trials"), DPSGD, listed=False)


@pytest.fixture(params=[BLOCKS, TRIALS], ids=["blocks", "trials"])
def route(request):
    """Of the tests that the library's own way passes too."""
    return request.param


def test_trials_cost_what_their_parts_say():
    found = tuned(route=TRIALS)
    whole, count = accounting.gdp_mu(3.0, 1e-4), len(SETTINGS)
    least = whole * np.sqrt(trials.SHARE / (count * (1 + trials.RATIO**2)))
    small = [accounting.gdp_epsilon(float(mu), 1e-4) for mu in (least, trials.RATIO * least)]
    costs = [TRAINING.cost(each, trainings.noise_for(TRAINING, each, 320, epsilon, 1e-4), 320)
             for epsilon in small for each in SETTINGS]  # fmt: skip
    total = accounting.total([*costs, TRAINING.cost(found.setting, found.noise, 320)], 1e-4)
    assert found.guarantees[0].level == pytest.approx(total.epsilon, rel=0.01)
    variation = dp_optim.total_variation(TRAINING.model, 60)
    assert found.guarantees[0].total_variation >= (2 * count + 1) * variation * (1 - 1e-9)
    assert found.guarantees[1].level == pytest.approx(3.0, rel=0.01)


@pytest.mark.parametrize(
    ("best", "wanted"), [((1, 1), 0.2), ((0, 1), 0.5), ((1, 0), 0.1), ((2, 1), 0.1), ((0, 2), 0.8)]
)
def test_trials_follow_the_line_within_the_list(best, wanted):
    """Reaches .1, .2 and .4 at budgets 1 and 2, for one of 5; the list ends at .1 and .8."""
    settings = [{"learning_rate": reach} for reach in (0.1, 0.2, 0.4, 0.8)]
    found = trials._extrapolate(Telling([]), settings, best, [1.0, 2.0, 5.0], 10)
    assert found == {"learning_rate": pytest.approx(wanted)}


def test_a_reach_is_told_by_the_learning_rate_alone():
    setting = SETTINGS[1]
    assert TRAINING.reach(setting, 400) == pytest.approx(0.5 * 75)
    further = TRAINING.with_reach(setting, 3.0, 400)
    assert TRAINING.reach(further, 400) == pytest.approx(3.0)
    assert further | {"learning_rate": 0.5} == setting
    assert isinstance(TRAINING, Reaching)

    class Fixed(Telling):
        reach = None

    with pytest.raises(TypeError, match="training must have reach"):
        tuned(training=Fixed([]), route=TRIALS)


@pytest.mark.parametrize("model", [models.logistic_regression(3), models.regression(3)])
def test_a_block_is_measured_by_its_own_rows_alone(model):
    """Whatever they hold: all blocks are one program."""
    rng = np.random.default_rng(5)
    training = DPSGD(model, classes=None if model.loss == models.SQUARED else (0, 1))
    labels = rng.integers(0, 2, (4, 20)).astype(float if model.loss == models.SQUARED else int)
    features = rng.normal(size=(4, 20, 3))
    found = {}
    for junk in (0.0, 1e300, np.nan, np.inf):
        features[2, 3] = junk
        parts = [(features[:, of], labels[:, of]) for of in (slice(12), slice(12, None))]
        found[junk] = training.block_losses(SETTINGS, [0.3, 0.3], *parts, 80, jax.random.key(0))
        features[2, 15] = junk
    others = [0, 1, 3]
    for losses in found.values():
        assert losses.shape == (2, 4)
        np.testing.assert_array_equal(losses[:, others], found[0.0][:, others])
    assert len(np.unique(found[0.0])) > 3


def test_block_losses_are_the_oracles():
    """Whole blocks for batches, and no noise: every block's descent is its own."""
    training, setting = DPSGD(models.logistic_regression(3), classes=(0, 1)), SETTINGS[1] | {"batch": 80, "epochs": 9}
    train, held_out = [(X[of].reshape(4, -1, 3), Y[of].reshape(4, -1)) for of in (slice(48), slice(48, 80))]
    found = training.block_losses([setting], [0.0], train, held_out, 80, jax.random.key(0))
    wanted = []
    for x, y, test, truth in zip(*train, *held_out, strict=True):
        layers = oracle.train("logistic", [(np.zeros((3, 1)), np.zeros(1))], x, y, 9, 0.5, 1.0, "sgd")
        answers = [oracle.answer(oracle.scores(layers, row)) for row in test]
        wanted.append(np.mean(np.array(answers) != truth))
    np.testing.assert_allclose(found, [wanted])
    assert np.ptp(wanted) > 0


def test_blocks_find_the_better_setting():
    class Better(Telling):
        def losses(self, model, rows):
            return np.full(len(rows[1]), 0.5 if model["released"] < 0.1 else 0.1)

    assert tuned(training=Better([]), route=BLOCKS, epsilon=20.0).setting == SETTINGS[1]


def test_a_route_takes_what_it_needs_of_a_training():
    assert isinstance(TRAINING, InBlocks)

    class Lacking(Telling):
        block_losses = None

    with pytest.raises(TypeError, match="training must have block_losses"):
        tuned(training=Lacking([]), route=BLOCKS)

    class Short(Telling):
        def block_losses(self, settings, *rest):
            return np.zeros((len(settings), 1))

    with pytest.raises(ValueError, match="block_losses must have shape"):
        tuned(training=Short([]), route=BLOCKS)


def test_a_training_that_a_search_chose_is_under_one_curve():
    found = tuned(route=BLOCKS)
    (stated,) = found.guarantees
    whole = accounting.gdp_mu(3.0, 1e-4)
    costs = [TRAINING.cost(each, trainings.noise_for(TRAINING, each, 400, 1.0, 1e-4), 400).profile for each in SETTINGS]
    assert stage.curve_stage(accounting.worst_profile(costs)).epsilon(1e-4) >= max(
        stage.curve_stage(c).epsilon(1e-4) for c in costs
    )
    assert stated.level > accounting.gdp_epsilon(np.sqrt(blocks.SEARCH_SHARE) * whole, 1e-4)


@pytest.mark.parametrize("peer", [BLOCKS, TRIALS], ids=["blocks", "trials"])
def test_what_is_trained_has_the_noise_that_is_stated(peer):
    """Of a Gaussian training with two settings: the noises that ``fit`` was given compose to the statement."""
    given = []

    class Listening(Trivial):
        def fit(self, setting, noise, rows, key):
            given.append(noise)
            return setting

        def block_losses(self, settings, noises, train, held_out, records, key):
            return np.repeat(np.array(settings)[:, None], len(held_out[1]), axis=1)

    found = tuned(training=Listening(), settings=[0.2, 0.7], route=peer)
    assert given[-1] == found.noise
    stated, composed = found.guarantees[0].level, accounting.compose_gdp([1 / noise for noise in given])
    if peer == TRIALS:
        assert accounting.gdp_epsilon(composed, 1e-4) == pytest.approx(stated, rel=0.01)
    else:
        assert given == [found.noise]
        assert accounting.gdp_epsilon(composed, 1e-4) < stated


def test_too_many_blocks_are_refused_before_anything_is_charged(tmp_path):
    path = tmp_path / "budget"
    ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=guarantees.ALL_ROWS)
    with pytest.raises(ValueError, match="k must leave"):
        tuned(route=BLOCKS, ledgers={guarantees.ALL_ROWS: Recording(path, "one")}, k=300)
    assert not ledger.account(path).spends


def test_blocks_at_once_that_fail_have_lost_unheard(capfd):
    class Failing(Telling):
        def block_losses(self, settings, noises, train, held_out, records, key):
            print(train[0].tolist())
            settings[0]["learning_rate"] = 7.0
            warnings.warn(str(train[0].tolist()), stacklevel=1)
            raise ValueError(str(train[0].tolist()))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = tuned(training=Failing([]), route=BLOCKS)
    assert found.setting in SETTINGS
    assert SETTINGS[0]["learning_rate"] == 1e-4
    assert not warned
    assert tuple(capfd.readouterr()) == ("", "")
    with pytest.raises(ValueError, match=r"^\[\["):
        tuned(training=Failing([]), route=BLOCKS, on_error="raise")


def variations():
    """Of blocks' search beside a training in floats, which has none: that of what was drawn, and what is stated."""
    with tape.running() as fresh:
        training, rows = DPSGD(models.regression(2), noise="float"), examples(HUGE)[0]
        found, draws = fresh().record(lambda: BLOCKS.tune(training, rows, OF_REGRESSION, **TUNED | KEY | {"k": 2}))
    return sum(map(variation_of, draws)), found.guarantees[0].total_variation


def test_blocks_state_the_variation_of_their_search():
    drawn, stated = variations()
    assert drawn == 2.0**-128 <= stated


def test_a_search_without_its_variation_is_seen(monkeypatch):
    """Planted: a search that states none."""
    real = phases.make_algorithm

    def make_algorithm(*arguments):
        algorithm = real(*arguments)
        return algorithm._replace(
            privacy=lambda config: dataclasses.replace(algorithm.privacy(config), total_variation=0.0)
        )

    monkeypatch.setattr(phases, "make_algorithm", make_algorithm)
    drawn, stated = variations()
    assert drawn > stated

"""One statement for tuning and training: what leaves differs between neighbours in released values alone."""

import logging
import pickle
import warnings

import jax
import numpy as np
import pytest
from oracles import training as oracle
from training_cases import Trivial

import jaxdpbo
from benchmarks import tuning_peers
from benchmarks.tuning_peers import blocks, trials
from benchmarks.tuning_peers.trainings import DPSGD, InBlocks, Reaching
from jaxdpbo import Recording, accounting, ledger, tuning
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.training import dp_optim, models
from jaxdpbo.tuning import fitting, joint_tuning
from jaxdpbo.tuning import training as trainings

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)
SETTINGS = [{"learning_rate": rate, "batch": 16, "epochs": 3, "clip_norm": 1.0} for rate in (1e-4, 0.5)]
TRAINING = DPSGD(models.logistic_regression(3), classes=(0, 1))
SELECTION = "selection"  # the library's; the others are peers, and as private
ROUTES = (SELECTION, *tuning_peers.ROUTES)


def tuned(rows=(X, Y), seed=0, route=SELECTION, **options):
    chosen = {"epsilon": 3.0, "delta": 1e-4, "key": jax.random.key(seed), "insecure_key": True}
    training, settings = options.pop("training", TRAINING), options.pop("settings", SETTINGS)
    if route == SELECTION:
        return tuning.tune_and_train(training, rows, settings, **(chosen | options))
    own = {"k": 20} if route == "blocks" else {}
    return tuning_peers.tune_and_train(training, rows, settings, route=route, **(chosen | own | options))


class Telling(Trivial):
    """A training without privacy of its own that says all it sees, and fails at some rows."""

    def __init__(self, said):
        self.said = said

    def fit(self, setting, noise, rows, key):
        print(rows[0].tolist())
        warnings.warn(str(rows[0].tolist()), stacklevel=1)
        logging.getLogger("telling").critical(str(rows[0].tolist()))
        self.said.append(float(np.sum(rows[0])))
        return {"released": setting["learning_rate"]}

    def reach(self, setting, records):
        return setting["learning_rate"]

    def with_reach(self, setting, reach, records):
        return setting | {"learning_rate": reach}

    def losses(self, model, rows):
        if not np.all(np.isfinite(rows[0])):
            raise ValueError(str(rows))
        return np.full(len(rows[1]), model["released"])


@pytest.mark.parametrize("route", ROUTES)
def test_all_that_leaves_is_within_what_was_asked_for(route):
    found = tuned(route=route, epsilon=2.0)
    (like,) = [each for each in SETTINGS if each | {"learning_rate": 0} == found.setting | {"learning_rate": 0}][:1]
    assert 1e-4 <= found.setting["learning_rate"] <= 0.5 if route == "trials" else found.setting in SETTINGS
    assert set(found.setting) == set(like)
    assert set(found.model[0]._fields) == {"weights", "bias"}
    protected = {each.protects for each in found.guarantees}
    assert protected == ({fitting.TRAIN, fitting.VALIDATION} if route != "blocks" else {guarantees.ALL_ROWS})
    for each in found.guarantees:
        assert 1.8 < each.epsilon(delta=1e-4) <= 2.0
        assert assumptions.WEAK_KEY in each.assumptions
    assert np.mean(TRAINING.losses(tuned(route=route, epsilon=12.0).model, (X, Y))) < 0.2


def test_noise_is_the_least_that_the_statement_allows():
    for setting in SETTINGS:
        noise = trainings.noise_for(TRAINING, setting, 400, 1.0, 1e-5)
        assert TRAINING.cost(setting, noise, 400).epsilon(1e-5) <= 1.0
        assert TRAINING.cost(setting, noise * 0.99, 400).epsilon(1e-5) > 1.0
    with pytest.raises(ValueError, match="epsilon must be larger"):
        trainings.noise_for(TRAINING, SETTINGS[0], 400, 1e-9, 1e-12)


@pytest.mark.parametrize("noise", dp_optim.NOISES)
def test_a_training_on_rows_without_a_gradient_is_the_noise_of_its_cost(noise):
    """The noise that ``cost`` charges for, from the key of ``fit``; by labels of no class."""
    training = tuning.DPSGD(models.linear_svm(3000), classes=(0, 1), noise=noise)
    rows, setting = (np.ones((40, 3000)), np.full(40, 7)), SETTINGS[1] | {"batch": 10, "clip_norm": 0.5}
    first, again, other = (
        np.concatenate([np.ravel(leaf) for leaf in training.fit(setting, 3.0, rows, jax.random.key(seed))[0]])
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first, other)[0, 1]) < 4 / np.sqrt(3000)
    (rate, multiplier, steps) = (training.cost(setting, 3.0, 40).arguments[name] for name in range(3))
    assert (rate, multiplier, steps) == (10 / 40, 3.0, 12)
    for sample in (first, other):
        assert np.std(sample) == pytest.approx(0.5 * np.sqrt(steps) * 2 * 0.5 * multiplier / 10, rel=0.05)


def test_a_selection_costs_what_its_parts_say():
    found = tuned(route="selection")
    law = accounting.repetitions(joint_tuning.ETA, joint_tuning.MEAN_RUNS)
    training, validation = found.guarantees
    wanted = accounting.selection_epsilon(law, TRAINING.cost(found.setting, found.noise, 320).profile, 1e-4)
    assert training.level == pytest.approx(wanted, rel=1e-3)  # both settings have the same steps
    assert validation.level <= 3.0
    variation = dp_optim.total_variation(TRAINING.model, 60)
    assert training.total_variation >= joint_tuning.MEAN_RUNS * variation * (1 - 1e-9)


def test_trials_cost_what_their_parts_say():
    found = tuned(route="trials")
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
        tuned(training=Fixed([]), route="trials")


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

    assert tuned(training=Better([]), route="blocks", epsilon=20.0).setting == SETTINGS[1]


def test_a_route_takes_what_it_needs_of_a_training():
    assert isinstance(TRAINING, InBlocks)

    class Lacking(Telling):
        block_losses = None

    with pytest.raises(TypeError, match="training must have block_losses"):
        tuned(training=Lacking([]), route="blocks")

    class Short(Telling):
        def block_losses(self, settings, *rest):
            return np.zeros((len(settings), 1))

    with pytest.raises(ValueError, match="block_losses must have shape"):
        tuned(training=Short([]), route="blocks")


def test_a_regression_is_tuned_by_its_squared_errors():
    targets, settings = 0.5 + 0.2 * X[:, 0], [SETTINGS[1] | {"clip_norm": 0.1}]
    training = tuning.DPSGD(models.regression(3))
    found = tuned((X, targets), training=training, settings=settings, route="selection", epsilon=12.0)
    losses = training.losses(found.model, (X, targets))
    assert np.mean(losses) < np.var(targets)
    scores = np.asarray(models.model_scores(found.model, X))[:, 0]
    np.testing.assert_allclose(losses, np.minimum((scores - targets) ** 2, 1.0), rtol=1e-5)
    assert max(training.losses(found.model, (X, targets + 7.0))) == 1.0
    with pytest.raises(ValueError, match="labels must be floats"):
        tuned((X, Y), training=training)


LIKE = Y.astype(np.uint8)


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [((1, 2), int), ((-1, 1), np.int8), ((7, -3), int), (None, bool), ((0, 1), bool), ((0, 1), np.float32)],
)
def test_labels_are_read_in_one_way(classes, dtype):
    """Trained, scored and told apart as class numbers, which names of classes stand for."""
    labels = np.asarray(classes or (0, 1))[Y].astype(dtype)
    training = tuning.DPSGD(models.logistic_regression(3), classes=classes)
    training.expect((X, labels))
    key, usual = jax.random.key(0), tuning.DPSGD(models.logistic_regression(3), classes=(0, 1))
    found, wanted = training.fit(SETTINGS[1], 0.05, (X, labels), key), usual.fit(SETTINGS[1], 0.05, (X, LIKE), key)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
    losses = training.losses(found, (X, labels))
    np.testing.assert_array_equal(losses, usual.losses(wanted, (X, LIKE)))
    assert np.mean(losses) < 0.1
    other = np.asarray(classes or (0, 1))[1 - Y].astype(dtype)
    np.testing.assert_array_equal(training.losses(found, (X, other)), 1 - losses)


def test_labels_in_an_array_of_objects_are_numbers():
    """One that is none would otherwise refuse, or retype, all others."""
    labels = Y.astype(object)
    labels[7] = None
    given = {"training": tuning.DPSGD(models.logistic_regression(3), classes=(0, 1)), "key": jax.random.key(0)}
    found, usual = (tuned((X, each), insecure_key=True, **given) for each in (labels, Y.astype(float)))
    assert found.setting == usual.setting
    assert [type(leaf) for leaf in jax.tree.leaves(found.model)] == [
        type(leaf) for leaf in jax.tree.leaves(usual.model)
    ]


@pytest.mark.parametrize("label", [0, 3, -1, 2**40])
def test_a_label_of_no_class_moves_nothing_and_has_lost(label):
    """As a row that is not finite does; of both kinds of models. Nothing is raised: labels are private."""
    for model, classes in ((models.logistic_regression(3), (1, 2)), (models.mlp(3, (4,), 3), (1, 2, 5))):
        training, labels = tuning.DPSGD(model, classes=classes), np.asarray(classes)[Y]
        labels[7], left_out = label, X.copy()
        left_out[7] = np.nan
        known = np.where(np.arange(400) == 7, 1, labels)
        found = training.fit(SETTINGS[1], 0.5, (X, labels), jax.random.key(0))
        wanted = training.fit(SETTINGS[1], 0.5, (left_out, known), jax.random.key(0))
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
        losses, others = training.losses(found, (X, labels)), np.arange(400) != 7
        assert losses[7] == 1.0
        np.testing.assert_array_equal(losses[others], training.losses(found, (X, known))[others])


@pytest.mark.parametrize(
    ("model", "classes", "labels", "kind", "said"),
    [
        (models.logistic_regression(3), None, Y, ValueError, r"classes must be given for labels of int64: .*\(0, 1\)"),
        (models.mlp(3, (4,), 3), None, Y > 0, ValueError, r"classes must be given for labels of bool: .*\(0, 1, 2\)"),
        (models.logistic_regression(3), (1, 2), Y > 0, ValueError, "numbers that labels of bool can be"),
        (models.logistic_regression(3), (-1, 1), LIKE, ValueError, "numbers that labels of uint8 can be"),
        (models.logistic_regression(3), None, X[:, 0], ValueError, "classes must be given for labels of float64"),
        (models.logistic_regression(3), (0, 1, 2), Y, ValueError, "classes must be 2 different numbers"),
        (models.logistic_regression(3), (1, 1), Y, ValueError, "classes must be 2 different numbers"),
        (models.logistic_regression(3), (0.0, 1.0), Y, TypeError, "classes must be an integer"),
        (models.logistic_regression(3), "01", Y, TypeError, "classes must be a sequence"),
        (models.regression(3), (0, 1), X[:, 0], ValueError, "classes must not be given for a regression"),
    ],
)
def test_classes_that_labels_cannot_have_are_refused_before_anything_is_charged(
    model, classes, labels, kind, said, tmp_path
):
    path = tmp_path / "budget"
    ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=fitting.TRAIN)
    with pytest.raises(kind, match=said):
        tuned(
            (X, labels),
            training=tuning.DPSGD(model, classes=classes),
            ledgers={fitting.TRAIN: Recording(path, "one")},
        )
    assert not ledger.account(path).spends


def test_a_training_that_a_search_chose_is_under_one_curve():
    found = tuned(route="blocks")
    (stated,) = found.guarantees
    whole = accounting.gdp_mu(3.0, 1e-4)
    costs = [TRAINING.cost(each, trainings.noise_for(TRAINING, each, 400, 1.0, 1e-4), 400).profile for each in SETTINGS]
    assert stage.curve_stage(accounting.worst_profile(costs)).epsilon(1e-4) >= max(
        stage.curve_stage(c).epsilon(1e-4) for c in costs
    )
    assert stated.level > accounting.gdp_epsilon(np.sqrt(blocks.SEARCH_SHARE) * whole, 1e-4)


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
            protects = guarantees.ALL_ROWS if route == "blocks" else fitting.TRAIN
            ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=protects)
            caplog.clear()
            seen = []
            options = {"route": route, "training": Telling(seen), "ledgers": {protects: Recording(path, "one")}}
            found = tuned((data, Y), **options)
            assert seen
            (spend,) = ledger.account(path).spends
            kept = spend._replace(when="", who="", fingerprint="")
            released = found._replace(model=None, setting=None, noise=0.0)
            said.append((repr(released), pickle.dumps(released), caplog.text, tuple(capfd.readouterr()), repr(kept)))
    assert len(set(said)) == 1
    assert not warned


@pytest.mark.parametrize("junk", [1e300, np.nan, -np.inf])
@pytest.mark.parametrize("route", ROUTES)
def test_no_row_is_told_by_what_float32_does_not_hold(route, junk, capfd):
    """Neither feature nor label: NumPy warns of a float64 that it casts to infinity."""
    data, labels = X.copy(), 0.5 + 0.2 * X[:, 0]
    data[7, 1] = labels[9] = junk
    options = {"training": DPSGD(models.regression(3)), "route": route, "epsilon": 8.0}
    with jax.enable_x64(False), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert tuned((data, labels), **options).model is not None
    assert not warned
    assert tuple(capfd.readouterr()) == ("", "")


def test_blocks_at_once_that_fail_have_lost_unheard(capfd):
    class Failing(Telling):
        def block_losses(self, settings, noises, train, held_out, records, key):
            print(train[0].tolist())
            settings[0]["learning_rate"] = 7.0
            warnings.warn(str(train[0].tolist()), stacklevel=1)
            raise ValueError(str(train[0].tolist()))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = tuned(training=Failing([]), route="blocks")
    assert found.setting in SETTINGS
    assert SETTINGS[0]["learning_rate"] == 1e-4
    assert not warned
    assert tuple(capfd.readouterr()) == ("", "")
    with pytest.raises(ValueError, match=r"^\[\["):
        tuned(training=Failing([]), route="blocks", on_error="raise")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": (X.astype(np.float16), Y)}, "features must be"),
        ({"settings": [SETTINGS[0] | {"learning_rate": -1.0}]}, "learning_rate must be positive"),
        ({"settings": [SETTINGS[0] | {"clip_norm": 0.0}]}, "clip_norm must be positive"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"training": DPSGD(models.mlp(3, (2**12,), 2), classes=(0, 1))}, "fewer than .* scores a layer"),
    ],
)
def test_what_no_training_would_take_is_refused_before_anything_is_charged(options, said, route, tmp_path):
    path, protects = tmp_path / "budget", guarantees.ALL_ROWS if route == "blocks" else fitting.TRAIN
    ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=protects)
    with pytest.raises(ValueError, match=said):
        tuned(route=route, ledgers={protects: Recording(path, "one")}, **options)
    if route == "blocks":
        with pytest.raises(ValueError, match="k must leave"):
            tuned(route=route, ledgers={protects: Recording(path, "one")}, k=300)
    assert not ledger.account(path).spends


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_trained_has_the_noise_that_is_stated(route):
    """Of a Gaussian training with two settings: the noises that ``fit`` was given compose to the statement."""
    given = []

    class Recording(Trivial):
        def fit(self, setting, noise, rows, key):
            given.append(noise)
            return setting

        def block_losses(self, settings, noises, train, held_out, records, key):
            return np.repeat(np.array(settings)[:, None], len(held_out[1]), axis=1)

    found = tuned(training=Recording(), settings=[0.2, 0.7], route=route)
    assert given[-1] == found.noise
    stated = found.guarantees[0].level
    if route == "selection":
        assert set(given) == {found.noise}
        law = accounting.repetitions(joint_tuning.ETA, joint_tuning.MEAN_RUNS)
        assert accounting.selection_epsilon(law, stage.gaussian_stage(1 / found.noise).profile, 1e-4) <= stated * (
            1 + 1e-6
        )
    elif route == "trials":
        composed = accounting.compose_gdp([1 / noise for noise in given])
        assert accounting.gdp_epsilon(composed, 1e-4) == pytest.approx(stated, rel=0.01)
    else:
        assert given == [found.noise]
        assert accounting.gdp_epsilon(1 / found.noise, 1e-4) < stated


@pytest.mark.parametrize("route", ROUTES)
def test_what_chooses_is_noised(route):
    """Two settings that differ by much less than the noise: without it the better one wins every time."""
    options = {"training": Trivial(), "settings": [0.5, 0.5001], "route": route, "epsilon": 1.0}
    chosen = [tuned(seed=seed, **options).setting for seed in range(12)]
    assert 0 < np.mean(np.array(chosen) > 0.50005) < 1


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
        training = DPSGD(models.logistic_regression(3), classes=(0, 1), noise="float")
        assert all(
            assumptions.IDEAL_NOISE in each.assumptions for each in tuned(training=training, route=route).guarantees
        )
        assert not any(assumptions.IDEAL_NOISE in each.assumptions for each in tuned(route=route).guarantees)


@pytest.mark.parametrize(
    ("rows", "kind", "said"),
    [
        ((X, Y.tolist()), TypeError, "data frames of numbers"),
        ((X, Y.astype(complex)), TypeError, "arrays of real numbers"),
        ((X[:300], Y), ValueError, "as many labels"),
        ((X[:, :2], Y), ValueError, "features must be"),
        ((X, Y[:, None]), ValueError, "labels must be"),
        ((X, np.array(["a", "b"])[Y][:, None]), ValueError, "labels must be"),
        ((X[:3], Y[:3]), ValueError, "10 or more"),
        (X, TypeError, "rows must be"),
    ],
)
@pytest.mark.parametrize("route", ROUTES)
def test_rows_of_other_shapes_are_refused_before_anything_is_charged(rows, kind, said, route, tmp_path):
    recording = {guarantees.ALL_ROWS: Recording(tmp_path / "none", "one")}
    with pytest.raises(kind, match=said):
        tuned(rows, route=route, ledgers=recording)
    with pytest.raises(ValueError, match="validation must"):
        tuned(route=route, validation=(X, Y))


@pytest.mark.parametrize("name", ["optimizer", "noise"])
def test_a_training_of_unknown_words_is_none(name):
    with pytest.raises(ValueError, match=name):
        tuning.DPSGD(models.logistic_regression(3), classes=(0, 1), **{name: "adamw"})


def test_a_delta_of_one_over_the_rows_is_refused_unless_said_so():
    for run, options in ((tuning.tune_and_train, {}), (tuning.private_front, {"count": 4})):
        given = {"epsilon": 3.0, "key": jax.random.key(0), "insecure_key": True} | options
        for delta in (1 / 400, 0.1):
            with pytest.raises(ValueError, match=r"^delta must be below one over the number of users, 1/400 = "):
                run(Trivial(), (X, Y), [0, 1], delta=delta, **given)
        run(Trivial(), (X, Y), [0, 1], delta=jaxdpbo.LargeDelta(1 / 400), **given)


def test_losses_of_another_shape_fail_the_run():
    class Averaging(Telling):
        def losses(self, model, rows):
            return np.zeros(1)

    with pytest.raises(tuning.AllRunsFailed, match=r"dp \S+ at .* for training rows; dp \S+ at .* for validation rows"):
        tuned(training=Averaging([]), route="selection")
    with pytest.raises(ValueError, match="losses must return values of shape"):
        tuned(training=Averaging([]), route="selection", on_error="raise")


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"delta": 1e-12}, ValueError, "delta must be larger"),
        ({"epsilon": 800.0}, ValueError, "epsilon must be at most"),
        ({"epsilon": 1e-3, "delta": jaxdpbo.LargeDelta(1e-2)}, ValueError, "delta must be smaller"),
        ({"route": "blocks", "k": 300}, ValueError, "k must leave"),
        ({"mean": 0.5}, ValueError, "mean"),
    ],
)
def test_what_is_out_of_range_is_refused(options, kind, said):
    with pytest.raises(kind, match=said):
        tuned(**options)
    with pytest.raises(ValueError, match="settings must have"):
        TRAINING.cost({"batch": 3}, 1.0, 400)


def test_small_batches_share_a_program_and_a_score_of_zero_means_the_first_class():
    assert [trainings._room(batch) for batch in (1, 2, 8, 9, 100)] == [8, 8, 8, 16, 128]
    training = tuning.DPSGD(models.logistic_regression(3), classes=(4, 7))
    zero = jax.tree.map(np.zeros_like, models.init_params(jax.random.key(0), training.model, float))
    np.testing.assert_array_equal(training.losses(zero, (X[:3], np.array([4, 7, 4]))), [0.0, 1.0, 0.0])

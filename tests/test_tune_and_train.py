"""One statement for tuning and training: what leaves differs between neighbours in released values alone."""

import logging
import pickle
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas
import pytest
from training_cases import Trivial

import jaxdpbo
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
TRAINING = tuning.DPSGD(models.logistic_regression(3), classes=(0, 1))


class Route(NamedTuple):
    """A way to tune and train: the library's, or a peer's, whose tests are those here that take a ``route``.

    Attributes:
      tune: called as ``tuning.tune_and_train``.
      training: makes DP-SGD for it.
      protects: what its guarantees are for.
      listed: whether it returns a setting of the list.
    """

    tune: Callable[..., Any]
    training: Callable[..., Any]
    protects: tuple[str, ...] = (fitting.TRAIN, fitting.VALIDATION)
    listed: bool = True


SELECTION = Route(tuning.tune_and_train, tuning.DPSGD)


@pytest.fixture
def route():
    return SELECTION


def tuned(rows=(X, Y), seed=0, route=SELECTION, **options):
    chosen = {"epsilon": 3.0, "delta": 1e-4, "key": jax.random.key(seed), "insecure_key": True}
    own = {name: options.pop(name) for name in ("model", "classes", "noise") if name in options}
    made = route.training(**({"model": models.logistic_regression(3), "classes": (0, 1)} | own))
    training, settings = options.pop("training", made), options.pop("settings", SETTINGS)
    return route.tune(training, rows, settings, **(chosen | options))


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


def test_all_that_leaves_is_within_what_was_asked_for(route):
    found = tuned(route=route, epsilon=2.0)
    (like,) = [each for each in SETTINGS if each | {"learning_rate": 0} == found.setting | {"learning_rate": 0}][:1]
    assert found.setting in SETTINGS if route.listed else 1e-4 <= found.setting["learning_rate"] <= 0.5
    assert set(found.setting) == set(like)
    assert set(found.model[0]._fields) == {"weights", "bias"}
    assert tuple(each.protects for each in found.guarantees) == route.protects
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
    found = tuned()
    law = accounting.repetitions(joint_tuning.ETA, joint_tuning.MEAN_RUNS)
    training, validation = found.guarantees
    wanted = accounting.selection_epsilon(law, TRAINING.cost(found.setting, found.noise, 320).profile, 1e-4)
    assert training.level == pytest.approx(wanted, rel=1e-3)  # both settings have the same steps
    assert validation.level <= 3.0
    variation = dp_optim.total_variation(TRAINING.model, 60)
    assert training.total_variation >= joint_tuning.MEAN_RUNS * variation * (1 - 1e-9)


def test_a_regression_is_tuned_by_its_squared_errors():
    targets, settings = 0.5 + 0.2 * X[:, 0], [SETTINGS[1] | {"clip_norm": 0.1}]
    training = tuning.DPSGD(models.regression(3))
    found = tuned((X, targets), training=training, settings=settings, epsilon=12.0)
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


def test_nothing_but_released_values_differs_between_neighbours(route, tmp_path, caplog, capfd, trials):
    count = trials("neighbouring rows whose tuning was compared", 4, 100, 3)
    rng, said = np.random.default_rng(3), []
    levels = caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, logger="jax")
    with levels[0], levels[1], warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for number in range(count):
            data, path, row = X.copy(), tmp_path / str(number), rng.integers(400)
            if number:
                data[row] = rng.choice([1e300, np.nan, -np.inf, 5.0])
            protects = route.protects[0]
            ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=protects)
            caplog.clear()
            seen = []
            options = {"route": route, "training": Telling(seen), "ledgers": {protects: Recording(path, "one")}}
            found = tuned((data, Y), **options)
            assert seen
            (spend,) = ledger.account(path).spends
            kept = spend._replace(when="", who="", fingerprint="")
            released = found._replace(model=None, setting=None, noise=0.0)
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


@pytest.mark.parametrize("junk", [1e300, np.nan, -np.inf])
def test_no_row_is_told_by_what_float32_does_not_hold(route, junk, capfd):
    """Neither feature nor label: NumPy warns of a float64 that it casts to infinity."""
    data, labels = X.copy(), 0.5 + 0.2 * X[:, 0]
    data[7, 1] = labels[9] = junk
    options = {"model": models.regression(3), "classes": None, "route": route, "epsilon": 8.0}
    with jax.enable_x64(False), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert tuned((data, labels), **options).model is not None
    assert not warned
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rows": (X.astype(np.float16), Y)}, "features must be"),
        ({"settings": [SETTINGS[0] | {"learning_rate": -1.0}]}, "learning_rate must be positive"),
        ({"settings": [SETTINGS[0] | {"clip_norm": 0.0}]}, "clip_norm must be positive"),
        ({"on_error": "ignore"}, "on_error must be"),
        ({"model": models.mlp(3, (2**12,), 2)}, "fewer than .* scores a layer"),
    ],
)
def test_what_no_training_would_take_is_refused_before_anything_is_charged(options, said, route, tmp_path):
    path, protects = tmp_path / "budget", route.protects[0]
    ledger.create(path, notion="dp", level=5.0, delta=1e-2, total_variation=1e-3, protects=protects)
    with pytest.raises(ValueError, match=said):
        tuned(route=route, ledgers={protects: Recording(path, "one")}, **options)
    assert not ledger.account(path).spends


def test_what_is_trained_has_the_noise_that_is_stated():
    """Of a Gaussian training with two settings: the noises that ``fit`` was given compose to the statement."""
    given = []

    class Recording(Trivial):
        def fit(self, setting, noise, rows, key):
            given.append(noise)
            return setting

    found = tuned(training=Recording(), settings=[0.2, 0.7])
    assert set(given) == {found.noise}
    law = accounting.repetitions(joint_tuning.ETA, joint_tuning.MEAN_RUNS)
    stated = found.guarantees[0].level * (1 + 1e-6)
    assert accounting.selection_epsilon(law, stage.gaussian_stage(1 / found.noise).profile, 1e-4) <= stated


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
    tuned((X, numbers), training=Looking([]))
    tuned((X * 7, numbers), training=Looking([]))
    assert len(set(seen)) == 1
    tuned((X, numbers), validation=(X[:50].copy(), numbers[:50].copy()), training=Looking([]))
    assert seen[-1] == tuple(range(40))


def test_noise_in_floats_is_assumed_ideal(route):
    for noise in dp_optim.NOISES:
        for each in tuned(noise=noise, route=route).guarantees:
            assert (assumptions.IDEAL_NOISE in each.assumptions) == (noise == "float")


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


def test_validation_columns_in_another_order_are_read_by_name():
    """Before: by their places, so every score was one of swapped columns."""
    frame = pandas.DataFrame({"a": np.arange(20.0), "b": -np.arange(20.0)})
    labels = np.arange(20) % 2
    _, found = fitting.check_rows(Trivial(), (frame, labels), (frame[["b", "a"]], labels.copy()))
    np.testing.assert_array_equal(found[0], frame)
    for wrong in (frame[["a"]], frame.assign(c=0.0), frame.rename(columns={"b": "c"}), frame[["a", "b", "b"]]):
        with pytest.raises(ValueError, match="validation must have the columns of rows"):
            fitting.check_rows(Trivial(), (frame, labels), (wrong, labels.copy()))


def test_a_delta_of_one_over_the_rows_is_refused_unless_said_so():
    for run, options in ((tuning.tune_and_train, {}), (tuning.private_front, {"count": 4})):
        given = {"epsilon": 3.0, "key": jax.random.key(0), "insecure_key": True} | options
        for delta in (1 / 400, 0.1):
            with pytest.raises(ValueError, match=r"^delta must be below one over the number of users, 1/400 = "):
                run(Trivial(), (X, Y), [0, 1], delta=delta, **given)
        run(Trivial(), (X, Y), [0, 1], delta=jaxdpbo.LargeDelta(1 / 400), **given)
        more = np.concatenate([X, X]), np.concatenate([Y, Y])
        for parts in (((X, Y), more), (more, (X, Y))):  # rows that train, and rows that validate: all are protected
            with pytest.raises(ValueError, match=r"^delta must be below one over the number of users, 1/800 = "):
                run(Trivial(), parts[0], [0, 1], delta=1 / 600, validation=parts[1], **given)


def test_losses_of_another_shape_fail_the_run():
    class Averaging(Telling):
        def losses(self, model, rows):
            return np.zeros(1)

    with pytest.raises(tuning.AllRunsFailed, match=r"dp \S+ at .* for training rows; dp \S+ at .* for validation rows"):
        tuned(training=Averaging([]))
    with pytest.raises(ValueError, match="losses must return values of shape"):
        tuned(training=Averaging([]), on_error="raise")


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"delta": 1.0}, ValueError, "delta"),
        ({"delta": 1e-12}, ValueError, "delta must be larger"),
        ({"epsilon": 800.0}, ValueError, "epsilon must be at most"),
        ({"epsilon": 1e-3, "delta": jaxdpbo.LargeDelta(1e-2)}, ValueError, "delta must be smaller"),
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


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("search", ["tune_and_train", "least_epsilon"])
def test_the_error_is_of_rows_that_chose_nothing_with_a_key_and_a_budget_of_their_own(search, given, monkeypatch):
    rows = np.zeros((400, 1)), np.arange(400) / 1000  # a label says which row it is
    validation = (np.zeros((80, 1)), (400 + np.arange(80)) / 1000) if given else None
    seen, real = [], fitting.release_score

    def release_score(training, model, part, budget, key):
        seen.append((set(part[1].tolist()), budget, bytes(jax.random.key_data(key))))
        return real(training, model, part, budget, key)

    monkeypatch.setattr(fitting, "release_score", release_score)
    options = {"delta": 1e-3, "validation": validation, "key": jax.random.key(3), "insecure_key": True}
    if search == "tune_and_train":
        found = tuning.tune_and_train(Trivial(), rows, [0.25, 0.5], epsilon=2.0, mean=4.0, **options)
    else:
        found = tuning.least_epsilon(Trivial(), rows, [0.25], error=0.9, epsilons=(1.0, 2.0), mean=6.0, **options)
    *choosing, (unseen, budget, last) = seen
    assert len(choosing) >= 1
    assert all(part == choosing[0][0] for part, _, _ in choosing)
    assert len(unseen) == len(choosing[0][0]) == 40
    assert not unseen & choosing[0][0]
    assert last not in {key for _, _, key in choosing}
    stated = next(each for each in found.guarantees if each.protects == fitting.VALIDATION)
    assert accounting.gdp_delta(float(budget.mu), stated.level) <= stated.delta
    assert float(budget.mu) > float(choosing[0][1].mu)
    moved = 2 * int(budget.radius) / budget.sigma
    assert moved <= float(budget.mu)

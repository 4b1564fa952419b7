"""Trainings of Opacus, jax-privacy and diffprivlib: what their guarantees claim is what the libraries do.

What Opacus's accountant counted, as stored, is what is charged. Opacus is large, and diffprivlib needs an older
scikit-learn: tests/systems/test_opacus.py and test_diffprivlib.py run their tests in environments of their own.
"""

import json
import runpy
from pathlib import Path

import jax
import jax.numpy as jnp
import joblib
import numpy as np
import optax
import pandas as pd
import pytest
from oracles import objective_perturbation as oracle

import jaxdpbo
from jaxdpbo import ledger, tuning
from jaxdpbo.guarantee import assumptions
from jaxdpbo.training import models
from jaxdpbo.tuning import diffprivlib, fitting, jax_privacy, opacus, other_trainings, training

DOCS = Path(__file__).parent.parent / "docs"
COUNTED = Path(__file__).with_name("opacus_counted.json")  # of EXAMPLE, rewritten by test_opacus_counts_what_is_stored
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 3))
Y = X[:, 0] > 0
SETTING = {"learning_rate": 2.0, "batch": 32, "epochs": 1, "clip_norm": 1.0}
EXAMPLE = {"learning_rate": 0.5, "batch": 32, "epochs": 2, "clip_norm": 1.0}, 1.3  # setting, noise
OPACUS, JAX_PRIVACY, DIFFPRIVLIB = "opacus", "jax_privacy", "diffprivlib"


def linear(params, row):
    return row @ params["weights"] + params["bias"]


def zeros(key, scores=1):
    return {"weights": jnp.zeros((3, scores), jnp.float32), "bias": jnp.zeros(scores, jnp.float32)}


def module(scores=1):
    import torch

    return torch.nn.Linear(3, scores)


def of_library(request):
    """A training, and a setting of it, if the library is installed."""
    pytest.importorskip(request.param)
    return {
        OPACUS: (opacus.DPSGD(module), SETTING),
        JAX_PRIVACY: (jax_privacy.DPSGD(zeros, linear), SETTING),
        DIFFPRIVLIB: (diffprivlib.LogisticRegression(classes=(0, 1), norm=3.0), {"C": 1.0}),
    }[request.param]


@pytest.fixture(params=[JAX_PRIVACY, OPACUS, DIFFPRIVLIB])
def library(request):
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield of_library(request)


@pytest.fixture(params=[JAX_PRIVACY, OPACUS])
def descent(request):
    """A training by DP-SGD."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield of_library(request)


def leaves(model):
    """Numbers of a model of any library."""
    if hasattr(model, "parameters"):
        return [parameter.detach().numpy() for parameter in model.parameters()]
    found = jax.tree.leaves(model)
    assert {type(leaf).__module__ for leaf in found} == {"numpy"}
    return found


def flat(model):
    return np.concatenate([np.ravel(leaf) for leaf in leaves(model)])


def test_tuned_and_trained_under_one_guarantee(library, capfd):
    training, setting = library
    settings = [setting, setting | ({"C": 0.01} if "C" in setting else {"learning_rate": 1e-4})]
    found = tuning.tune_and_train(
        training, (X, Y), settings, epsilon=8.0, delta=1e-4, key=jax.random.key(3), insecure_key=True, on_error="raise"
    )
    assert found.setting in settings
    for each in found.guarantees:
        assert 6.0 < each.epsilon(delta=1e-4) <= 8.0
        assert set(training.assumptions()) <= set(each.assumptions)
    assert {assumptions.IDEAL_NOISE, assumptions.FOREIGN_DRAWS} < set(training.assumptions())
    assert {each.relation for each in found.guarantees} == {"replace_one"}
    converted = "group privacy" in training.cost(setting, found.noise, 320).how
    assert converted != isinstance(training, diffprivlib.LogisticRegression)
    assert capfd.readouterr() == ("", "")


def several(training):
    """The same training with two models and two optimizers to choose from, one of each its own."""
    if isinstance(training, opacus.DPSGD):
        import torch

        def hidden():
            return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))

        optimizers = {"sgd": torch.optim.SGD, "adam": lambda parameters, rate: torch.optim.Adam(parameters, lr=rate)}
        return opacus.DPSGD({"linear": module, "hidden": hidden}, optimizers=optimizers)

    def hidden_params(key):
        return {"first": jax.random.normal(key, (3, 4), jnp.float32), "last": jnp.zeros((4, 1), jnp.float32)}

    def hidden_scores(params, row):
        return jax.nn.relu(row @ params["first"]) @ params["last"]

    return jax_privacy.DPSGD(
        {"linear": zeros, "hidden": hidden_params},
        {"linear": linear, "hidden": hidden_scores},
        optimizers={"sgd": optax.sgd, "adam": optax.adam},
    )


def test_models_and_optimizers_are_chosen_by_name(descent, tmp_path):
    training, setting = descent
    choosing = several(training)
    first, other = {"model": "linear", "optimizer": "sgd"}, {"model": "hidden", "optimizer": "adam"}
    costs = [choosing.cost(setting | choice, 1.0, 320).epsilon(1e-4) for choice in (first, other)]
    assert costs == [training.cost(setting, 1.0, 320).epsilon(1e-4)] * 2
    rows = X, Y
    choosing.expect(rows)
    if isinstance(training, jax_privacy.DPSGD):
        plain = training.fit(setting, 0.1, rows, jax.random.key(0))
        same = choosing.fit(setting | first, 0.1, rows, jax.random.key(0))
        assert same.model == "linear"
        np.testing.assert_array_equal(flat(plain), flat(same.params))
    for choice in (first, other, {"model": "linear", "optimizer": "adam"}):
        found = choosing.fit(setting | choice | {"learning_rate": 0.1, "epochs": 8}, 0.1, rows, jax.random.key(1))
        assert np.mean(choosing.losses(found, rows)) < 0.2
    path = tmp_path / "ledger.jsonl"
    ledger.create(path, notion="dp", level=9.0, delta=1e-2, protects="training rows")
    for wrong, said in (
        (setting, "settings must have learning_rate, batch, epochs, clip_norm, model, optimizer"),
        (setting | first | {"model": "deep"}, "model must be .*linear"),
        (setting | first | {"optimizer": "rmsprop"}, "optimizer must be .*sgd"),
    ):
        with pytest.raises(ValueError, match=said):
            tuning.tune_and_train(
                choosing, rows, [setting | other, wrong], epsilon=8.0, delta=1e-4,
                ledgers={"training rows": jaxdpbo.Recording(path, "one")},
            )  # fmt: skip
    assert not ledger.account(path).spends
    tuned = tuning.tune_and_train(
        choosing, rows, [setting | first, setting | other], epsilon=8.0, delta=1e-4, key=jax.random.key(3),
        insecure_key=True, on_error="raise",
    )  # fmt: skip
    assert tuned.setting in [setting | first, setting | other]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (({"a": zeros}, linear), "predict must have the names of make_params, .'a'., got None"),
        (({"a": zeros}, {"b": linear}), "predict must have the names"),
        (({}, {}), "must have at least one name"),
        (({1: zeros}, {1: linear}), "must be a dict of functions by names"),
        ((zeros, linear, "squared", None, optax.adam), "optimizers must be a dict of functions by names, got function"),
    ],
)
def test_choices_that_are_none_are_refused(arguments, said):
    with pytest.raises((TypeError, ValueError), match=said):
        jax_privacy.DPSGD(*arguments)


def test_an_optimizer_that_opacus_cannot_step_is_refused_before_the_charge():
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    training = opacus.DPSGD(module, optimizers={"lbfgs": lambda parameters, rate: torch.optim.LBFGS(parameters, rate)})
    with pytest.raises(ValueError, match="optimizer 'lbfgs'; on rows of zeros it raised"):
        training.expect((X, Y))


def test_data_sets_and_loaders_of_torch_are_rows():
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    tensors = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    loader = torch.utils.data.DataLoader(tensors, batch_size=7, shuffle=True)
    found = []
    for rows in ((X, Y), tensors, loader):
        tuned = tuning.tune_and_train(
            opacus.DPSGD(module), rows, [SETTING], epsilon=8.0, delta=1e-4, key=jax.random.key(3), insecure_key=True
        )
        found.append((tuned.error, flat(tuned.model).tolist()))
    assert found[0] == found[1] == found[2]
    with pytest.raises(ValueError, match="validation must not share memory with rows"):
        tuning.tune_and_train(opacus.DPSGD(module), tensors, [SETTING], epsilon=8, delta=1e-4, validation=loader)
    subset = torch.utils.data.Subset(tensors, range(50))
    with pytest.raises(TypeError, match=r"a TensorDataset: pass opacus.stack\(dataset\)"):
        tuning.tune_and_train(opacus.DPSGD(module), subset, [SETTING], epsilon=8.0, delta=1e-4)


def test_the_least_epsilon_of_any_library(library):
    training, setting = library
    found = tuning.least_epsilon(
        training, (X, Y), [setting], error=0.4, epsilons=(2.0, 16.0), delta=1e-4, mean=4.0, eta=1.0,
        validation_epsilon=8.0, key=jax.random.key(3), insecure_key=True, on_error="raise",
    )  # fmt: skip
    assert found.reached
    assert min(abs(found.epsilon / level - 1) for level in (2.0, 16.0)) < 0.02
    assert np.mean(training.losses(found.model, (X, Y))) < 0.5


def test_it_learns_from_its_key_alone(library):
    training, setting = library

    def model(seed):
        return leaves(training.fit(setting, 0.1, (X, Y), jax.random.key(seed)))

    np.random.seed(1)  # noqa: NPY002
    first, state = model(0), np.random.get_state()[1]  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    again, other = model(0), model(1)
    for one, same, different in zip(first, again, other, strict=True):
        assert np.array_equal(one, same)
        assert not np.array_equal(one, different)
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    trained = training.fit(setting, 0.1, (X, Y), jax.random.key(0))
    assert np.mean(training.losses(trained, (X, Y))) < 0.2


def words_of(key, count):
    """Seeds as wide as they are asked for, written out, in place of those from a key."""
    return [int(word) for word in np.random.default_rng(0).integers(2**32, size=count)]


def zero_started(training):
    """A training from zero, and rows without a gradient: the model is the noise."""
    rows = X, np.full(400, -99)  # of no class
    if isinstance(training, opacus.DPSGD):
        start = module()
        for parameter in start.parameters():
            parameter.data.zero_()
        return opacus.DPSGD(lambda: start, classes=(0, 1)), rows
    return _with_classes(training), rows


def test_other_keys_draw_other_noise(library):
    """Seen without batches: no row has a gradient, and the start is zero."""
    training, setting = library
    training, rows = zero_started(training)
    models = [flat(training.fit(setting, 1.0, rows, jax.random.key(seed))) for seed in (0, 0, 1, 2, 3)]
    np.testing.assert_array_equal(models[0], models[1])
    assert np.all(models[0] != 0)
    numbers = np.stack(models[1:])
    assert all(len(np.unique(column)) == 4 for column in numbers.T)
    assert np.linalg.matrix_rank(numbers, tol=1e-4 * np.abs(numbers).max()) == 4


@pytest.mark.parametrize("library", [OPACUS, DIFFPRIVLIB], indirect=True)
def test_a_seed_of_noise_counts_in_full_width(library, monkeypatch):
    """The highest bit of the word of the noise, and of no other word, moves a model without a gradient."""
    training, setting = library
    training, rows = zero_started(training)

    def model(changed, of=rows):
        def seeds(key, count):
            words = words_of(key, count)
            return [word ^ (2**31 if number == changed else 0) for number, word in enumerate(words)]

        monkeypatch.setattr(other_trainings, "seed_words", seeds)
        return flat(training.fit(setting, 1.0, of, jax.random.key(0)))

    usual, noise = model(None), 1 if isinstance(training, opacus.DPSGD) else diffprivlib.SEED_WORDS - 1
    assert not np.array_equal(usual, model(noise))
    if isinstance(training, opacus.DPSGD):
        np.testing.assert_array_equal(usual, model(2))  # batches have a seed of their own
        assert not np.array_equal(model(None, (X, Y)), model(2, (X, Y)))
    else:
        assert all(not np.array_equal(usual, model(number)) for number in range(diffprivlib.SEED_WORDS))


def test_seeds_are_whole_words_of_a_key():
    words = np.array([other_trainings.seed_words(jax.random.key(seed), 8) for seed in range(50)])
    assert np.unique(words).size == words.size
    assert all(0.3 < np.mean(words >> bit & 1) < 0.7 for bit in range(32))


def test_rows_of_any_values_raise_nothing_and_spoil_nothing(library):
    training, setting = library
    for value in (np.nan, np.inf, -1e300, 1e38):
        junk, labels = X.copy(), Y.astype(float)
        junk[:30], labels[:30] = value, value
        training = _with_classes(training)
        training.expect((junk, labels))
        model = training.fit(setting, 1.0, (junk, labels), jax.random.key(0))
        assert all(np.all(np.isfinite(leaf)) for leaf in leaves(model))
        losses = training.losses(model, (junk, labels))
        assert np.all(losses[:30] == 1.0)
        assert set(losses) <= {0.0, 1.0}
    with pytest.raises(ValueError, match="features must"):
        training.expect((X.astype(int), Y))
    if not isinstance(training, diffprivlib.LogisticRegression):  # its model has the width of the rows
        with pytest.raises((ValueError, TypeError, RuntimeError), match="shape"):
            training.expect((X[:, :2], Y))


def _with_classes(training):
    """For labels that are floats."""
    return {
        opacus.DPSGD: lambda: opacus.DPSGD(module, classes=(0, 1)),
        jax_privacy.DPSGD: lambda: jax_privacy.DPSGD(zeros, linear, classes=(0, 1)),
        diffprivlib.LogisticRegression: lambda: training,
    }[type(training)]()


def test_empty_batches_are_steps_of_noise_alone(descent):
    """With a mean of one row, a third of the batches are empty."""
    training, setting = descent
    model = training.fit(setting | {"batch": 1, "epochs": 3}, 1.0, (X[:20], Y[:20]), jax.random.key(0))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(model))


def test_several_classes_are_learnt(library):
    training, setting = library
    labels = np.array([7, -1, 3])[np.argmax(X, axis=1)]
    training = {
        opacus.DPSGD: lambda: opacus.DPSGD(lambda: module(3), classes=(-1, 3, 7)),
        jax_privacy.DPSGD: lambda: jax_privacy.DPSGD(lambda key: zeros(key, 3), linear, classes=(-1, 3, 7)),
        diffprivlib.LogisticRegression: lambda: diffprivlib.LogisticRegression(classes=(-1, 3, 7), norm=3.0),
    }[type(training)]()
    training.expect((X, labels))
    model = training.fit(setting | ({"epochs": 5} if "epochs" in setting else {}), 0.1, (X, labels), jax.random.key(0))
    assert np.mean(training.losses(model, (X, labels))) < 0.35


def test_a_regression_is_learnt(descent):
    training, setting = descent
    targets = np.clip(0.5 + 0.2 * X[:, 0], 0, 1)
    training = {
        opacus.DPSGD: lambda: opacus.DPSGD(module, loss="squared"),
        jax_privacy.DPSGD: lambda: jax_privacy.DPSGD(zeros, linear, loss="squared"),
    }[type(training)]()
    training.expect((X, targets))
    model = training.fit(setting | {"epochs": 5, "learning_rate": 0.5}, 0.3, (X, targets), jax.random.key(0))
    losses = training.losses(model, (X, targets))
    assert np.mean(losses) < 0.5 * np.var(targets)
    targets[:3] = np.nan
    assert np.all(training.losses(model, (X, targets))[:3] == 0.25)
    with pytest.raises(ValueError, match="labels must be floats"):
        training.expect((X, Y))


@pytest.mark.parametrize("library", [OPACUS, DIFFPRIVLIB], indirect=True)
def test_the_block_of_the_page_runs(library, tmp_path, monkeypatch):
    """Where scripts/test --systems does not run it."""
    monkeypatch.chdir(tmp_path)  # the block saves a model
    page = runpy.run_path(str(DOCS / "run_blocks.py"))["blocks"](DOCS / "tutorials" / "libraries.md")
    name = type(library[0]).__module__.rpartition(".")[2]
    (block,) = [block for block in page if f"import {name}\n" in block.source]
    exec(compile(block.source, "libraries.md", "exec"), {})


@pytest.mark.parametrize("descent", [JAX_PRIVACY], indirect=True)
def test_frames_tensors_and_datasets_are_rows(descent):
    training, _ = descent
    frame = pd.DataFrame(X)
    features, labels = fitting._check_arrays("rows", (frame, Y), training)
    np.testing.assert_array_equal(features, X)
    np.testing.assert_array_equal(labels, Y)
    odd = frame.astype(object)
    odd.iloc[7, 1] = "unknown"  # as a file may hold: nothing is raised for one value
    features, _ = fitting._check_arrays("rows", (odd, Y), training)
    assert np.isnan(features[7, 1])
    np.testing.assert_array_equal(np.delete(features, 7, axis=0), np.delete(X, 7, axis=0))
    with pytest.raises(TypeError, match="rows must be two arrays"):
        fitting._check_arrays("rows", (X.tolist(), Y), training)
    for labels in (pd.Series(Y, dtype="boolean"), pd.Series(Y, dtype="category"), pd.Series(Y, dtype="Int64")):
        missing = labels.copy()
        missing[3] = None
        both = [
            fitting._check_arrays("rows", (frame, each), jax_privacy.DPSGD(zeros, linear, classes=(0, 1)))[1]
            for each in (labels, missing)
        ]
        assert [each.dtype for each in both] == [float, float]  # not chosen by one value
        np.testing.assert_array_equal(both[0], Y)
        assert np.isnan(both[1][3])
    counts = pd.DataFrame({"a": range(len(Y)), "b": 1, "yes": Y})
    for cell in (7, "1,234", None):  # a reader makes the column integers, text or floats
        read = counts.astype(object)
        read.iloc[0] = cell
        read = read.astype(str) if cell == "1,234" else read.infer_objects()
        with pytest.raises(ValueError, match="classes must be given for labels of float64"):
            fitting._check_arrays("rows", (read, read["yes"]), training)  # in no other words for another cell
        listed = jax_privacy.DPSGD(zeros, linear, classes=(0, 1))
        features, labels = fitting._check_arrays("rows", (read, read["yes"]), listed)
        np.testing.assert_array_equal(features[1:], counts[1:].astype(float))
        np.testing.assert_array_equal(labels[1:], Y[1:])
        assert {features.dtype, labels.dtype} == {np.dtype(float)}
    odd = np.array(Y, object)
    with pytest.raises(ValueError, match="share memory"):
        fitting.check_rows(jax_privacy.DPSGD(zeros, linear, classes=(0, 1)), (X, odd), (X.copy(), odd))
    features, labels = opacus.stack(list(zip(X, Y, strict=True)))
    np.testing.assert_array_equal(features, X)
    np.testing.assert_array_equal(labels, Y)


def test_one_row_moves_a_sum_by_no_more_than_the_clip_norm():
    """Of jax-privacy's steps, as they are put together here."""
    pytest.importorskip("jax_privacy")
    from jax_privacy import noise_addition

    of = other_trainings.finite_examples((X[:9] * 40, Y[:9]), None, regression=False)
    params, padding = zeros(None), np.zeros(9, bool)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        state = noise_addition.gaussian_privatizer(stddev=0.0, prng_key=0).init(params)
        trained = params, state, optax.sgd(1.0).init(params)
        found = [
            jax_privacy._step(
                linear, "cross_entropy", optax.sgd, trained, of, padding | (np.arange(9) == left), 0.0, 0.7, 1.0, 1
            )[0]
            for left in (-1, 0, 4)
        ]
    for other in found[1:]:
        moved = np.hypot(np.linalg.norm(found[0]["weights"] - other["weights"]), found[0]["bias"] - other["bias"])[0]
        assert 0.69 < moved <= 0.7 * (1 + 1e-5)  # each gradient is far over the clip norm


def test_what_is_charged_is_what_jax_privacy_draws(monkeypatch):
    """The rate, the steps and the noise of the event are the sampler's and the privatizer's; batches are Poisson."""
    pytest.importorskip("jax_privacy")
    from jax_privacy import batch_selection, noise_addition
    from jax_privacy.experimental import accounting as jax_accounting

    training = jax_privacy.DPSGD(zeros, linear)
    made, drawn = batch_selection.CyclicPoissonSampling, []
    noised, deviations = noise_addition.gaussian_privatizer, []
    monkeypatch.setattr(
        batch_selection, "CyclicPoissonSampling", lambda **given: drawn.append(made(**given)) or drawn[-1]
    )
    monkeypatch.setattr(
        noise_addition, "gaussian_privatizer", lambda **given: deviations.append(given["stddev"]) or noised(**given)
    )
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        training.fit(SETTING, 1.7, (X, Y), jax.random.key(0))
    event, _ = training.cost(SETTING, 1.7, len(Y)).arguments
    (sampling,) = drawn
    assert event == jax_accounting.dpsgd_event(1.7, sampling.iterations, sampling_prob=sampling.sampling_prob)
    assert (event.event.sampling_probability, event.count) == (sampling.sampling_prob, sampling.iterations)
    assert event.event.event.noise_multiplier == deviations[0]  # of clipped gradients scaled to length 1
    many = made(sampling_prob=0.1, iterations=4000, partition_type=sampling.partition_type)
    counts = [np.bincount(one, minlength=50) for one in many.batch_iterator(50, rng=np.random.default_rng(0))]
    sizes = np.sum(counts, axis=1)
    assert np.max(counts) == 1
    assert np.mean(sizes) == pytest.approx(5.0, abs=0.15)
    assert np.var(sizes) == pytest.approx(4.5, rel=0.1)


def test_each_step_of_jax_privacy_adds_noise_of_the_stated_deviation():
    """Seen on parameters without a gradient: a step that repeats its noise, or has less, is seen."""
    pytest.importorskip("jax_privacy")
    steps, noise, unused = 10, 1.5, 20_000
    training = jax_privacy.DPSGD(lambda key: zeros(key) | {"unused": jnp.zeros(unused, jnp.float32)}, linear)
    setting = {"learning_rate": 0.5, "batch": 40, "epochs": 1, "clip_norm": 2.0}
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        model = training.fit(setting, noise, (X, Y), jax.random.key(0))
    assert jax_privacy.training.check_setting(setting, 400)[0] == steps
    wanted = 0.5 * 2.0 * noise * np.sqrt(steps) / 40
    assert np.std(model["unused"]) == pytest.approx(wanted, rel=0.03)


def test_the_keys_of_params_batches_and_noise_differ(monkeypatch):
    pytest.importorskip("jax_privacy")
    from jax_privacy import noise_addition

    keys, seeds, noised = [], other_trainings.seed_words, noise_addition.gaussian_privatizer
    monkeypatch.setattr(other_trainings, "seed_words", lambda key, count: keys.append(key) or seeds(key, count))
    monkeypatch.setattr(
        noise_addition, "gaussian_privatizer", lambda **given: keys.append(given["prng_key"]) or noised(**given)
    )
    training = jax_privacy.DPSGD(lambda key: keys.append(key) or zeros(key), linear)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        training.fit(SETTING, 1.0, (X, Y), jax.random.key(0))
    words = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys[:3]}
    assert len(words) == 3


def test_what_is_charged_is_what_opacus_counted():
    """The rate and the steps that its data loader made of a batch, and epochs, of 400 rows."""
    event, relation = opacus.DPSGD(module).cost(*EXAMPLE, len(Y)).arguments
    assert relation == "add_or_remove"
    (counted,) = json.loads(COUNTED.read_text())
    assert (event.event.event.noise_multiplier, event.event.sampling_probability, event.count) == tuple(counted)


def test_opacus_counts_what_is_stored():
    pytest.importorskip("opacus")
    import torch

    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    training = opacus.DPSGD(module)
    model, counted = training._train(*EXAMPLE, (X, Y), jax.random.key(0))
    assert torch.equal(before, torch.random.get_rng_state())
    assert [list(one) for one in counted] == json.loads(COUNTED.read_text())
    assert training.losses(model, (X, Y)).shape == (400,)
    assert not any(vars(parameter) or parameter.grad is not None for parameter in model.parameters())
    torch.manual_seed(1)
    first = torch.rand(3)
    torch.manual_seed(1 + 2**32)
    assert torch.equal(first, torch.rand(3))  # the seed has 32 bits, which the page says


def test_opacus_adds_noise_of_the_stated_deviation_in_each_step():
    pytest.importorskip("opacus")
    import torch

    class Unused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Linear(3, 1), torch.nn.Linear(20_000, 1, bias=False)
            torch.nn.init.zeros_(self.unused.weight)

        def forward(self, x):
            return self.used(x) + 0.0 * self.unused(torch.zeros(len(x), 20_000))

    setting, noise = {"learning_rate": 0.5, "batch": 40, "epochs": 1, "clip_norm": 2.0}, 1.5
    model = opacus.DPSGD(Unused).fit(setting, noise, (X, Y), jax.random.key(0))
    wanted = 0.5 * 2.0 * noise * np.sqrt(10) / 40
    assert np.std(model.unused.weight.detach().numpy()) == pytest.approx(wanted, rel=0.03)


def test_a_factory_neither_fixes_the_noise_nor_shares_what_is_trained():
    """It seeds torch's generator; it returns one module at every call; its module stores what it saw."""
    pytest.importorskip("opacus")
    import torch

    def seeded():
        torch.manual_seed(0)
        return module()

    first, second = (opacus.DPSGD(seeded).fit(SETTING, 5.0, (X, Y), jax.random.key(seed)) for seed in (0, 1))
    assert not torch.equal(first.weight, second.weight)

    class Storing(torch.nn.Linear):
        def forward(self, x):
            self.seen = x
            return super().forward(x)

    shared = Storing(3, 1)
    before = shared.weight.detach().clone()
    training = opacus.DPSGD(lambda: shared)
    model = training.fit(SETTING, 1.0, (X, Y), jax.random.key(0))
    training.losses(model, (X, Y))
    assert torch.equal(before, shared.weight)
    assert model is not shared
    assert not hasattr(model, "seen")
    assert not model._forward_hooks
    again = training.fit(SETTING, 1.0, (X, Y), jax.random.key(0))
    assert torch.equal(model.weight, again.weight)


@pytest.mark.parametrize("planted", [False, True])
def test_no_row_makes_the_gradients_of_opacus_infinite(planted, monkeypatch):
    pytest.importorskip("opacus")
    import torch

    class Overflowing(torch.nn.Linear):
        def forward(self, x):
            return super().forward(torch.exp(x))

    if planted:
        monkeypatch.setattr(opacus, "_drop_infinite_gradients", lambda *_: None)
    far, targets = X.copy(), Y.astype(float)
    far[5], targets[7] = 1e6, 3e38
    models = [
        opacus.DPSGD(lambda: Overflowing(3, 1)).fit(SETTING | {"epochs": 5}, 1.0, (far, Y), jax.random.key(0)),
        opacus.DPSGD(module, loss="squared").fit(SETTING, 1.0, (X, targets), jax.random.key(0)),
    ]
    assert [bool(torch.isfinite(model.weight).all()) for model in models] == [not planted, True]


def test_no_row_makes_the_gradients_of_jax_privacy_infinite():
    pytest.importorskip("jax_privacy")
    far = X.copy()
    far[5] = 1e6
    training = jax_privacy.DPSGD(zeros, lambda params, row: linear(params, jnp.exp(row)))
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        model = training.fit(SETTING | {"epochs": 5}, 1.0, (far, Y), jax.random.key(0))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(model))


def test_rows_without_a_label_do_not_train_opacus():
    pytest.importorskip("opacus")
    training, labels, other = opacus.DPSGD(module, classes=(0, 1)), Y.astype(float), X.copy()
    labels[:50] = 7.0
    other[:50] *= -3.0
    first, second = (training.fit(SETTING, 1.0, (rows, labels), jax.random.key(0)) for rows in (X, other))
    for one, same in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize(("records", "batch"), [(372, 4), (400, 32), (10, 3), (5, 9)])
def test_opacus_counts_as_many_steps_as_are_charged(records, batch):
    pytest.importorskip("opacus")
    training, setting = opacus.DPSGD(module), {"learning_rate": 0.1, "batch": batch, "epochs": 1, "clip_norm": 1.0}
    _, ((noise, rate, steps),) = training._train(setting, 1.0, (X[:records], Y[:records]), jax.random.key(0))
    event, _ = training.cost(setting | {"epochs": np.int64(1)}, 1.0, records).arguments
    assert (noise, rate, steps) == (1.0, event.event.sampling_probability, event.count)


def test_a_module_that_mixes_rows_is_refused():
    pytest.importorskip("opacus")
    import torch

    training = opacus.DPSGD(lambda: torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.BatchNorm1d(1)))
    with pytest.raises(Exception, match="BatchNorm"):
        training.expect((X, Y))


def expect_refused_unpaid(training, setting, message, tmp_path):
    path = tmp_path / "ledger"
    ledger.create(path, notion="dp", level=9.0, delta=1e-3, protects=fitting.TRAIN)
    recordings = {fitting.TRAIN: jaxdpbo.Recording(path, "one")}
    with pytest.raises(ValueError, match=message) as raised:
        tuning.tune_and_train(training, (X, Y), [setting], epsilon=8.0, delta=1e-4, ledgers=recordings)
    assert raised.value.__cause__ is not None
    assert not ledger.account(path).spends


def without_gradient(params, row):
    """It predicts, and has no gradient backwards."""
    return jax.lax.while_loop(
        lambda carry: carry[0] < 2, lambda carry: (carry[0] + 1, carry[1] * 2), (0, linear(params, row))
    )[1]


def test_a_model_that_jax_privacy_cannot_train_is_refused_before_the_charge(tmp_path):
    pytest.importorskip("jax_privacy")
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        expect_refused_unpaid(
            jax_privacy.DPSGD(zeros, without_gradient), SETTING, "predict must be.*while_loop", tmp_path
        )


def test_a_diffprivlib_that_cannot_train_is_refused_before_the_charge(monkeypatch, tmp_path):
    class Peer:
        BudgetAccountant = dict

        class models:
            class LogisticRegression(dict):
                def fit(self, features, labels):
                    raise TypeError("fmin_l_bfgs_b() got an unexpected keyword argument 'iprint'")

    monkeypatch.setattr(diffprivlib, "_library", lambda: Peer)
    training = diffprivlib.LogisticRegression(classes=(0, 1), norm=2.0)
    expect_refused_unpaid(training, {"C": 1.0}, r"take those of the extra diffprivlib.*'iprint'", tmp_path)


@pytest.mark.parametrize("fault", ["an unused parameter", "a double", "a default of doubles"])
def test_a_module_that_opacus_cannot_train_is_refused_before_the_charge(fault, tmp_path):
    pytest.importorskip("opacus")
    import torch

    class Unused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = module(), torch.nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    factory, message = {
        "an unused parameter": (Unused, r"make_model must return .*requires_grad_\(False\) .*spare.weight, spare.bias"),
        "a double": (lambda: module().double(), "make_model must return .* float32"),
        "a default of doubles": (module, "make_model must return .* float32"),
    }[fault]
    try:
        torch.set_default_dtype(torch.float64 if fault == "a default of doubles" else torch.float32)
        expect_refused_unpaid(opacus.DPSGD(factory), SETTING, message, tmp_path)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_dry_run_leaves_no_trace_in_a_module():
    """A factory returns one module at every call: its mode, its buffers and the draws of others are as before."""
    pytest.importorskip("opacus")
    import torch

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            self.seen = x
            return x + np.random.random() + torch.rand(())  # noqa: NPY002

    def state():
        return str((shared.training, sorted(vars(shared[0])), shared.state_dict()))

    shared = torch.nn.Sequential(Counting(), module())
    before, states = state(), (torch.random.get_rng_state(), np.random.get_state()[1].copy())  # noqa: NPY002
    training = opacus.DPSGD(lambda: shared)
    training.expect((X, Y))
    assert state() == before
    assert torch.equal(torch.random.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    training.losses(training.fit(SETTING, 1.0, (X, Y), jax.random.key(0)), (X, Y))
    assert torch.equal(torch.random.get_rng_state(), states[0])  # moved, it would tell the number of hidden runs
    assert state() == before


def test_diffprivlib_is_called_within_the_theorem(monkeypatch):
    """Rows of norm 1 at most, no intercept, every class there: whatever the rows hold."""
    seen = []

    class Peer:
        class BudgetAccountant:
            pass

        class models:
            class LogisticRegression:
                def __init__(self, **given):
                    self.given = given

                def fit(self, features, labels):
                    seen.append((self.given, features, labels))
                    self.coef_ = np.array([[1.0, 0.0, 0.0, -1.0]])
                    return self

    monkeypatch.setattr(diffprivlib, "_library", lambda: Peer)
    training, junk, labels = diffprivlib.LogisticRegression(classes=(5, 9), norm=2.0), X.copy(), np.full(400, 5.0)
    junk[0], junk[1], labels[2] = np.nan, 1e300, 7.0
    model = training.fit({"C": 3.0}, 0.5, (junk, labels), jax.random.key(0))
    ((given, features, targets),) = seen
    assert (given["epsilon"], given["data_norm"], given["C"], given["fit_intercept"]) == (2.0, 1.0, 3.0, False)
    assert given["n_jobs"] == 1
    drawn = [given["random_state"].bytes(32)]
    for seed in (0, 1):
        training.fit({"C": 3.0}, 0.5, (junk, labels), jax.random.key(seed))
        drawn.append(seen[-1][0]["random_state"].bytes(32))
    assert drawn[0] == drawn[1] != drawn[2]
    assert np.max(np.linalg.norm(features, axis=1)) <= 1 + 1e-12
    np.testing.assert_array_equal(features[2], 0)
    np.testing.assert_array_equal(features[-2:], 0)
    assert set(targets) == {0, 1}
    scores = (X @ model["weights"].T + model["bias"])[3:, 0]
    short = np.linalg.norm(X[3:], axis=1) <= 2.0
    np.testing.assert_allclose(scores[short], (features[3:400] @ [1, 0, 0, -1])[short])


@pytest.mark.parametrize("classes", [(0, 1), (-1, 3, 7)])
def test_diffprivlib_draws_the_noise_that_is_stated(classes):
    """From the weights of rows of zeros: the minimiser is the noise, over the regularisation."""
    pytest.importorskip("diffprivlib")
    training, found = diffprivlib.LogisticRegression(classes=classes, norm=1.0), []
    rows = np.zeros((30, 3)), np.full(30, -99)  # of no class, so that no row counts
    with joblib.parallel_config(n_jobs=2):
        for seed in range(150):
            model = training.fit({"C": 1.0}, 0.5, rows, jax.random.key(seed))
            found.append(np.sqrt(2) * np.concatenate([model["weights"], model["bias"][:, None]], axis=1))
    noise, count = np.array(found), 1 if len(classes) == 2 else len(classes)
    share = 2.0 / count
    left = share - 2 * np.log1p(0.25)
    # Without rows the objective is w^2 / 2 + b w: w = -b, of a length that is gamma distributed
    strength, left = (1.0, left) if left > 0 else (0.25 / np.expm1(share / 4), share / 2)
    lengths = strength * np.linalg.norm(noise, axis=2)
    assert np.mean(lengths) == pytest.approx(4 * 2 / left, rel=0.1)
    if count > 1:
        assert np.max(np.abs(np.corrcoef(noise[:, :, 0].T) - np.eye(count))) < 0.4  # not one noise for all


@pytest.mark.parametrize(("norm", "c", "epsilon"), [(12.0, 1.0, 3.0), (100.0, 1e-3, 0.5)])
def test_the_claim_of_diffprivlib_is_false_for_long_rows(norm, c, epsilon):
    """Of one row, by the density of the minimiser: its formula takes the norm where the theorem has the square."""
    claimed = oracle.epsilon_of_minimiser(epsilon, norm, 1 / c, squared=False)
    assert claimed > epsilon * 1.05
    assert oracle.epsilon_of_minimiser(epsilon, norm, 1 / c, squared=True) <= epsilon
    assert oracle.epsilon_of_minimiser(epsilon, 1.0, 1 / c, squared=False) <= epsilon


def test_a_missing_target_counts_as_the_error_of_the_middle():
    """In every training, as in private steps: before, it counted as 1 in these, and notes compared it with 1/4."""
    targets = np.array([0.5, np.nan, 0.0, np.nan])
    examples = other_trainings.finite_examples((np.zeros((4, 1)), targets), None, regression=True)
    scores = np.array([0.5, 0.25, 2.0, np.nan])
    expected = [0.0, 0.25, 1.0, 1.0]  # a score that is not finite is the training's fault
    np.testing.assert_array_equal(other_trainings.row_losses(scores, examples, regression=True), expected)
    layer = models.Layer(jnp.zeros((1, 1)), jnp.full(1, 0.5))
    found = training.DPSGD(models.Model((1, 1), models.SQUARED)).losses((layer,), (np.zeros((4, 1)), targets))
    np.testing.assert_array_equal(found, [0.0, 0.25, 0.25, 0.25])

"""The oracles that DPareto measures: proofs of epsilon, errors of trainings, the sparse vector technique, settings."""

import dataclasses
import functools
import inspect
import math
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import training as oracle
from scipy.stats import expon, kstest, laplace, norm, truncnorm, uniform

from jaxdpbo import accounting, drivers
from jaxdpbo.algorithms import dpareto
from jaxdpbo.surrogate import box_search
from jaxdpbo.training import dp_optim, models, objectives, oracles, permutation_sgd, spaces

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
Y = (X[:, 0] + 0.1 * RNG.normal(size=200) > 0).astype(int)
MODEL, LARGEST = models.logistic_regression(4), 64
TEST = jnp.asarray(X), jnp.asarray(Y)
DATA = objectives.Data(models.examples(*TEST), TEST, jax.random.key(0))


def settings(**changes):
    chosen = {"steps": 200, "batch": 32, "learning_rate": 0.5, "noise_multiplier": 1.0, "clip_norm": 1.0}
    return dp_optim.settings(**(chosen | changes))


def test_the_privacy_oracle_is_the_accountant_of_what_is_run():
    steps = dp_optim.steps_of_epochs(64, 30_956, 256)
    found = oracles.training_epsilon(settings(steps=steps, batch=256), records=30_956, delta=1e-5)
    assert found == accounting.sampled_gaussian_epsilon(rate=256 / 30_956, noise_multiplier=1.0, steps=7744, delta=1e-5)
    assert found.epsilon == pytest.approx(5.5676963689, rel=1e-5)
    with pytest.raises(ValueError, match="batch must be at most the records 10, got 11"):
        oracles.training_epsilon(settings(batch=11), records=10, delta=1e-5)


@pytest.mark.full
def test_errors_fall_with_training_and_a_diverged_training_has_error_one(compilations):
    """All by one program, since settings are traced."""
    keys = jax.random.split(jax.random.key(0), 3)

    def of(**changes):
        chosen = settings(**({"noise_multiplier": 0.0} | changes))
        return oracles.training_errors(keys, MODEL, DATA.train, DATA.test, chosen, largest=LARGEST)

    good = of()
    compilations.clear()
    noisy = of(noise_multiplier=50.0)
    assert compilations["programs"] == 0
    assert good.mean < 0.1 < noisy.mean
    assert good.best <= good.mean <= good.worst
    diverged = of(learning_rate=1e308, noise_multiplier=1e3)
    assert diverged.mean == diverged.best == diverged.worst == 1.0


def test_the_objective_is_both_oracles_at_one_setting(compilations):
    """Beside the loop of the NumPy oracle, where batches of all examples without noise leave nothing random."""
    measure, count = objectives.objective(MODEL, delta=1e-3, largest=20), 20
    few = objectives.Data(models.examples(*(part[:count] for part in TEST)), TEST, jax.random.key(0))
    start = [[np.zeros((4, 1)), np.zeros(1)]]
    for number, (epochs, rate, clip_norm) in enumerate(((3, 0.5, 1.0), (8, 0.02, 0.3), (1, 2.0, 5.0))):
        layers = oracle.train("logistic", start, X[:count], Y[:count], epochs, rate, clip_norm, "sgd")
        wrong = [oracle.answer(oracle.scores(layers, x)) != y for x, y in zip(X, Y, strict=True)]
        epsilon, error = measure(jnp.array([epochs, count, rate, 0.0, clip_norm]), few)
        assert np.isinf(epsilon)
        assert error == pytest.approx(np.mean(wrong), abs=1e-6)  # a float32 mean of booleans
        if number == 0:
            compilations.clear()
    assert 0.01 < np.mean(wrong) < 0.5
    again = objectives.objective(MODEL, delta=0.001, largest=20, repeats=1, optimizer="sgd")
    assert again is measure
    for point in ((3.3, 9.6, 0.5, 1.5, 1.0), (0.2, 500.0, 0.1, 2.0, 1.0)):  # 10 of 20: two steps an epoch; all of 20
        epochs, batch = max(1, round(point[0])), min(round(point[1]), count)
        epsilon, error = again(np.array(point), few)
        expected = accounting.sampled_gaussian_epsilon(
            rate=batch / count, noise_multiplier=point[3], steps=epochs * (count // batch), delta=1e-3
        )
        assert epsilon == pytest.approx(expected.epsilon, rel=1e-12)
        assert 0 <= float(error) <= 1
    assert compilations["programs"] == 0
    assert pickle.loads(pickle.dumps(measure))(jnp.array([3, 20, 0.5, -1.0, 1.0]), few)[0] == np.inf


def test_the_objective_is_the_same_in_a_compiled_program_and_a_search_runs_on_it():
    measure = objectives.objective(MODEL, delta=1e-3, largest=16, repeats=2)
    low, high = np.array([1, 4, 0.1, 1.0, 0.5]), np.array([3, 16, 1.0, 4.0, 1.0])
    config = dpareto.config(
        bounds=np.stack([low, high]), initial_design=np.stack([low, high]), proposals=1, fit_steps=1,
        integer_mask=spaces.INTEGER_MASK, search=box_search.BoxSearch(4, 1, 1),
    )  # fmt: skip
    run = drivers.run_scan(dpareto.algorithm, measure, DATA, config, key=jax.random.key(2))
    assert np.all(np.asarray(run.release.failed) == dpareto.USABLE)
    for point, values in zip(np.asarray(run.release.points), np.asarray(run.release.values), strict=True):
        np.testing.assert_allclose(measure(point, DATA), values, rtol=1e-9)
    assert run.guarantee.notion == "none"
    given = measure(low, DATA, jax.random.split(jax.random.key(5), 2))
    assert given[0] == run.release.values[0, 0]
    assert given[1] != run.release.values[0, 1]  # other keys, another error


def test_every_setting_trains_with_keys_of_its_own():
    """Other keys where a number differs in the last of 32 bits, or the data's key does; equal settings, equal keys."""
    base = settings()
    near = [dataclasses.replace(base, steps=base.steps + 1), dataclasses.replace(base, batch=base.batch + 1)]
    for name in ("learning_rate", "noise_multiplier", "clip_norm"):
        value = jnp.nextafter(getattr(base, name).astype(jnp.float32), jnp.float32(9.0))
        near.append(dataclasses.replace(base, **{name: value.astype(getattr(base, name).dtype)}))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), base, base, *near)
    key_of = jax.jit(jax.vmap(objectives._settings_key, in_axes=(None, 0)))
    keys = jnp.concatenate([key_of(jax.random.key(seed), stacked) for seed in (0, 1)])
    drawn = [tuple(words) for words in np.asarray(jax.random.key_data(keys)).tolist()]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 2 * (1 + len(near))


def test_settings_of_a_point_are_the_host_s():
    """Halves to even: 5 records in batches of 2 are two steps, 7 are four."""
    cases = [(n, batch, epochs) for n in (5, 7, 30, 30_956) for batch in (1, 2, 4, 12, 64) for epochs in (1, 3)]
    for n in (5, 7, 30, 30_956):
        some = np.array([(epochs, batch, 0.1, 1.0, 2.0) for m, batch, epochs in cases if m == n])
        found = jax.vmap(functools.partial(objectives.to_settings, records=n, largest=50))(jnp.asarray(some))
        batches = np.minimum(some[:, 1], min(n, 50)).astype(int)
        expected = [dp_optim.steps_of_epochs(int(e), n, int(b)) for e, b in zip(some[:, 0], batches, strict=True)]
        np.testing.assert_array_equal(found.steps, expected)
        np.testing.assert_array_equal(found.batch, batches)
        np.testing.assert_array_equal(found.clip_norm, 2.0)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"delta": 1.0}, ValueError, "delta must lie strictly"),
        ({"largest": 0}, ValueError, "largest must be at least 1"),
        ({"repeats": 1.5}, TypeError, "repeats must be an integer"),
        ({"optimizer": "lbfgs"}, ValueError, "optimizer must be one of"),
    ],
)
def test_a_bad_objective_is_named(changes, error, message):
    with pytest.raises(error, match=message):
        objectives.objective(MODEL, **({"delta": 1e-3, "largest": 8} | changes))


def test_output_perturbation_learns_and_its_noise_is_added_once():
    train = jax.jit(permutation_sgd.train_by_permutation, static_argnames=("passes", "batch"))
    weights = train(jax.random.key(0), jnp.asarray(X), jnp.asarray(Y), jnp.asarray(0.01), jnp.asarray(0.0))
    assert np.mean((X @ np.asarray(weights) > 0) == Y) > 0.9
    assert np.linalg.norm(weights) <= 100
    noised = jax.jit(
        lambda keys: jax.lax.map(
            lambda key: permutation_sgd.train_by_permutation(
                key, jnp.zeros((20, 3)), jnp.ones(20, int), jnp.asarray(1.0), jnp.asarray(0.7), passes=1
            ),
            keys,
        )
    )(jax.random.split(jax.random.key(1), 3000))
    assert kstest(np.asarray(noised).ravel(), norm(scale=0.7).cdf).pvalue > 1e-3
    assert len(np.unique(noised)) == np.size(noised)  # another key, another noise
    junk = train(
        jax.random.key(0), jnp.asarray(X).at[3].set(jnp.nan), jnp.asarray(Y), jnp.asarray(0.1), jnp.asarray(0.0)
    )
    assert np.all(np.isfinite(junk))


def learner_error(gamma, passes, batch):
    """How far the shipped learner is from the oracle's loop: rows in the unit ball, beyond it, and no numbers."""
    learn = functools.partial(permutation_sgd.train_by_permutation, passes=passes, batch=batch)
    rng, key = np.random.default_rng(1), jax.random.key(5)
    x = rng.normal(size=(23, 3)) * 10.0 ** rng.uniform(-1, 1, size=(23, 1))
    x[4, 1], x[7] = np.nan, 1e200
    y = rng.integers(0, 2, 23)
    found = learn(key, jnp.asarray(x), jnp.asarray(y), jnp.asarray(gamma), jnp.asarray(0.0))
    order = np.asarray(jax.random.permutation(jax.random.split(key)[0], 23))
    expected = oracle.permutation_sgd(x, y, order, gamma, passes, batch)
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize(("gamma", "passes", "batch"), [(0.05, 3, 4), (2.0, 2, 1), (0.3, 1, 23)])
def test_permutation_sgd_is_the_oracles_loop(gamma, passes, batch):
    """Trap 12, of the shipped code; 23 rows, so that batches of 4 leave some out."""
    assert learner_error(gamma, passes, batch) < 1e-12


PLANTS = {
    "a constant step": ("jnp.minimum(1.0 / smooth, 1.0 / (regularisation * (t + 1)))", "1.0 / smooth"),
    "the gradient doubled": ("weights - size * gradient", "weights - 2.0 * size * gradient"),
    "the mean of a batch forgotten": (" / batch + regularisation", " + regularisation"),
    "rows beyond the unit ball": ("jnp.maximum(jnp.where(usable, length, 1.0), 1.0)", "1.0"),
    "rows counted twice": ("batches = rows.shape[0] // batch", "rows, labels = rows.repeat(2, 0), labels.repeat(2); "
                           "signs = signs.repeat(2); batches = rows.shape[0] // batch"),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_learner_is_seen(plant, monkeypatch):
    old, new = PLANTS[plant]
    source = inspect.getsource(permutation_sgd.train_by_permutation)
    assert source.count(old) == 1
    planted = vars(permutation_sgd).copy()
    exec(source.replace(old, new), planted)
    monkeypatch.setattr(permutation_sgd, "train_by_permutation", planted["train_by_permutation"])
    with jax.disable_jit():  # few steps, whose operations all plants share
        assert learner_error(0.3, 5, 23) > 1e-3


def scales(answers, noise):
    """Of the threshold and of a query: lines 2 and 3 of algorithm 1."""
    b1 = noise / (1 + (2 * answers) ** (1 / 3))
    return b1, noise - b1


def loop(rng, truth, answers, noise):
    """Algorithm 1 of Avent et al. (2020), query by query."""
    b1, b2 = scales(answers, noise)
    threshold, answered, count = 0.5 + rng.laplace(scale=b1), [], 0
    for query in truth:
        answer = query + rng.laplace(scale=b2) >= threshold and count < answers
        count += answer
        answered.append(answer)
    return np.array(answered)


def test_the_sparse_vector_technique_is_the_papers_loop():
    """Beside a loop over queries, in distribution: mean errors agree; perfect without noise, guessing under noise."""

    def error(rng, answers, noise):
        truth = rng.permutation(np.arange(100) < 10)
        answered = loop(rng, truth, answers, noise)
        return 1 - 2 * np.sum(answered & truth) / (np.sum(answered) + 10)

    errors = jax.jit(oracles.sparse_vector_errors)
    keys = jax.random.split(jax.random.key(0), 3000)
    rng = np.random.default_rng(0)
    for answers, noise in ((10, 0.2), (4, 0.5), (25, 3.0)):
        expected = [error(rng, answers, noise) for _ in range(3000)]
        found = errors(keys, jnp.asarray(answers), jnp.asarray(noise))
        assert found.mean == pytest.approx(np.mean(expected), abs=5 * np.std(expected) / math.sqrt(3000))
        assert found.best <= found.mean <= found.worst
    assert errors(keys, jnp.asarray(10), jnp.asarray(1e-9)).worst == pytest.approx(0, abs=1e-9)


def sparse_vector_loss(answers, noise, queries=100):
    """How often the loop answers 1, and one answer's log ratio between neighbours that differ in every query.

    The answer is 0 at first and 1 at the last queries, as many as the loop answers with 1 where there is no noise.
    """
    b1, b2 = scales(answers, noise)
    threshold = np.linspace(-30, 30, 200_001) * noise
    last = len(np.flatnonzero(loop(np.random.default_rng(0), np.ones(queries), answers, 1e-9)))

    def probability(others, ones):
        zeros, above = laplace.cdf(threshold + 0.5 - others, scale=b2), laplace.sf(threshold + 0.5 - ones, scale=b2)
        return np.sum(laplace.pdf(threshold, scale=b1) * zeros ** (queries - last) * above**last)

    return last, math.log(probability(0, 1) / probability(1, 0))


def test_between_whole_numbers_the_papers_loop_spends_more_than_its_formula():
    """C = 1.5 gives two answers, with noise for one and a half; the shipped formula takes whole numbers alone."""
    for answers in (1, 2):
        released, loss = sparse_vector_loss(answers, 1.0)
        assert released == answers
        assert loss == pytest.approx(accounting.sparse_vector_epsilon(1.0, answers), rel=1e-4)
    b1, b2 = scales(1.5, 1.0)
    released, loss = sparse_vector_loss(1.5, 1.0)
    printed = (1 + 3 ** (1 / 3)) * (1 + 3 ** (2 / 3))
    assert released == 2
    assert printed == pytest.approx(1 / b1 + 2 * 1.5 / b2)
    assert loss == pytest.approx(1 / b1 + 2 * 2 / b2, rel=1e-4)
    assert loss > 1.2 * printed
    with pytest.raises(TypeError, match=r"answers must be an integer, got 1\.5"):
        accounting.sparse_vector_epsilon(1.0, 1.5)


def test_spaces_are_those_of_the_papers_experiments():
    """Typed out a second time: Avent et al. (2020), appendix."""
    adult, mnist = spaces.SPACES["adult"], spaces.SPACES["mnist"]
    np.testing.assert_array_equal(adult.bounds, [[1, 8, 0.0005, 0.1, 0.1], [64, 512, 0.05, 16, 4]])
    np.testing.assert_array_equal(adult.sampled, [[1, 8, 0.001, 0.1, 0.1], [64, 512, 0.1, 16, 4]])
    assert (adult.batch, adult.rates) == ((128, 64), (10, 0.1, 0.1))
    np.testing.assert_array_equal(mnist.bounds, [[1, 16, 0.001, 0.1, 0.1], [400, 4000, 0.5, 16, 12]])
    np.testing.assert_array_equal(mnist.sampled, mnist.bounds)
    assert (mnist.batch, mnist.rates) == ((800, 800), (10, 0.5, 0.5))


def test_errors_are_of_the_optimizer_that_is_asked_for():
    keys, noisy = jax.random.split(jax.random.key(0), 3), settings(noise_multiplier=5.0)
    sgd, adam = (
        oracles.training_errors(keys, MODEL, DATA.train, DATA.test, noisy, largest=LARGEST, optimizer=optimizer).mean
        for optimizer in dp_optim.OPTIMIZERS
    )
    assert sgd != adam


@pytest.mark.parametrize("name", spaces.SPACES)
def test_random_settings_have_the_printed_laws(name):
    space = spaces.SPACES[name]
    settings = spaces.random_settings(space, 4000, 0)
    low, high = space.sampled
    assert np.all((settings >= low) & (settings <= high))
    np.testing.assert_array_equal(settings[:, :2], np.round(settings[:, :2]))
    middle, spread = space.batch
    distributions = {
        0: uniform(low[0], high[0] - low[0]),
        1: truncnorm((low[1] - middle) / spread, (high[1] - middle) / spread, middle, spread),
    }
    for column, distribution in distributions.items():
        jittered = settings[:, column] + np.random.default_rng(1).uniform(-0.5, 0.5, 4000)
        assert kstest(jittered, distribution.cdf).pvalue > 1e-3
    for column, rate in zip((2, 3, 4), space.rates, strict=True):
        distribution = expon(low[column], 1 / rate)
        share = distribution.cdf(high[column])
        assert kstest(distribution.cdf(settings[:, column]) / share, "uniform").pvalue > 1e-3
    assert len(spaces.grid_settings(space, 3)) == 243
    np.testing.assert_array_equal(np.unique(spaces.grid_settings(space, 3)[:, 3]), np.linspace(0.1, 16, 3))

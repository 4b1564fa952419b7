"""The oracles that DPareto measures: proofs of epsilon, errors of trainings, the sparse vector technique, settings."""

import functools
import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import training as oracle
from scipy.stats import expon, kstest, norm, truncnorm, uniform

from jaxdpbo.privacy import accounting
from jaxdpbo.problems import classification, datasets
from jaxdpbo.training import dp_optim, models, oracles, permutation_sgd, spaces

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 4))
Y = (X[:, 0] + 0.1 * RNG.normal(size=200) > 0).astype(int)


def test_the_privacy_oracle_is_the_accountant_of_what_is_run():
    found = oracles.training_epsilon(records=30_956, epochs=64, batch=256, noise_multiplier=1.0, delta=1e-5)
    assert found == accounting.sampled_gaussian_epsilon(rate=256 / 30_956, noise_multiplier=1.0, steps=7744, delta=1e-5)
    assert found.epsilon == pytest.approx(5.5676963689, rel=1e-5)
    with pytest.raises(ValueError, match="batch must be at most the records 10, got 11"):
        oracles.training_epsilon(records=10, epochs=1, batch=11, noise_multiplier=1.0, delta=1e-5)


def test_errors_fall_with_training_and_a_diverged_training_has_error_one():
    model = models.logistic_regression(4)
    data = (jnp.asarray(X), jnp.asarray(Y))
    records = models.records(*data)
    errors = jax.jit(lambda keys, settings: oracles.training_errors(keys, model, records, data, settings, largest=64))
    keys = jax.random.split(jax.random.key(0), 3)

    def of(**changes):
        chosen = {"steps": 200, "batch": 32, "learning_rate": 0.5, "noise_multiplier": 0.0, "clip_norm": 1.0}
        return errors(keys, dp_optim.settings(**(chosen | changes)))

    good, noisy = of(), of(noise_multiplier=50.0)
    assert good.mean < 0.1 < noisy.mean
    assert good.best <= good.mean <= good.worst
    diverged = of(learning_rate=1e308, noise_multiplier=1e3)
    assert diverged.mean == diverged.best == diverged.worst == 1.0


def test_output_perturbation_learns_and_its_noise_is_added_once():
    train = jax.jit(permutation_sgd.train, static_argnames=("passes", "batch"))
    weights = train(jax.random.key(0), jnp.asarray(X), jnp.asarray(Y), jnp.asarray(0.01), jnp.asarray(0.0))
    assert np.mean((X @ np.asarray(weights) > 0) == Y) > 0.9
    assert np.linalg.norm(weights) <= 100
    noised = jax.jit(
        lambda keys: jax.lax.map(
            lambda key: permutation_sgd.train(
                key, jnp.zeros((20, 3)), jnp.ones(20, int), jnp.asarray(1.0), jnp.asarray(0.7), passes=1
            ),
            keys,
        )
    )(jax.random.split(jax.random.key(1), 3000))
    assert kstest(np.asarray(noised).ravel(), norm(scale=0.7).cdf).pvalue > 1e-3
    junk = train(
        jax.random.key(0), jnp.asarray(X).at[3].set(jnp.nan), jnp.asarray(Y), jnp.asarray(0.1), jnp.asarray(0.0)
    )
    assert np.all(np.isfinite(junk))


def learner_error(gamma, passes, batch):
    """How far the shipped learner is from the oracle's loop: rows in the unit ball, beyond it, and no numbers."""
    learn = functools.partial(permutation_sgd.train, passes=passes, batch=batch)
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
    source = inspect.getsource(permutation_sgd.train)
    assert source.count(old) == 1
    planted = vars(permutation_sgd).copy()
    exec(source.replace(old, new), planted)
    monkeypatch.setattr(permutation_sgd, "train", planted["train"])
    with jax.disable_jit():  # few steps, whose operations all plants share
        assert learner_error(0.3, 5, 23) > 1e-3


def test_the_sparse_vector_technique_is_the_papers_loop():
    """Beside a loop over queries, in distribution: mean errors agree; perfect without noise, guessing under noise."""

    def loop(rng, answers, noise):
        truth = rng.permutation(np.arange(100) < 10)
        b1 = noise / (1 + (2 * answers) ** (1 / 3))
        threshold, told, count = 0.5 + rng.laplace(scale=b1), [], 0
        for query in truth:
            answer = query + rng.laplace(scale=noise - b1) >= threshold and count < answers
            count += answer
            told.append(answer)
        right = np.sum(np.array(told) & truth)
        return 1 - 2 * right / (np.sum(told) + 10)

    errors = jax.jit(oracles.sparse_vector_errors)
    keys = jax.random.split(jax.random.key(0), 3000)
    rng = np.random.default_rng(0)
    for answers, noise in ((10, 0.2), (4, 0.5), (25, 3.0)):
        expected = [loop(rng, answers, noise) for _ in range(3000)]
        found = errors(keys, jnp.asarray(answers), jnp.asarray(noise))
        assert found.mean == pytest.approx(np.mean(expected), abs=5 * np.std(expected) / math.sqrt(3000))
        assert found.best <= found.mean <= found.worst
    assert errors(keys, jnp.asarray(10), jnp.asarray(1e-9)).worst == pytest.approx(0, abs=1e-9)


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


def test_adult_is_encoded_in_123_columns(monkeypatch):
    row = ["39", "State-gov", "77516", "Bachelors", "13", "Never-married", "Adm-clerical", "Not-in-family", "White",
           "Male", "2174", "0", "40", "United-States", "<=50K"]  # fmt: skip
    other = ["50", "?", "83311", "HS-grad", "9", "Divorced", "Sales", "Wife", "Black", "Female", "0", "5", "13", "Cuba",
             ">50K"]  # fmt: skip
    monkeypatch.setattr(datasets, "table", lambda name: [row, other] * 10)
    loaded = classification.load("adult", test=4)
    # Two values of each of the other categories, one known workclass, four continuous in five parts, two gains in two.
    assert loaded.train[0].shape == (16, 4 * 5 + 2 * 2 + 7 * 2 + 1)
    assert set(np.unique(loaded.train[0])) <= {0.0, 1.0}
    assert set(loaded.train[1]) <= {0, 1}
    assert (loaded.classes, len(loaded.test[1])) == (2, 4)
    with pytest.raises(ValueError, match="name must be one of"):
        classification.load("iris")
    with pytest.raises(ValueError, match="test must leave records"):
        classification.load("adult", test=20)

"""Clipped gradients in whole numbers: no example is longer than the radius, no sum is rounded, and training goes on."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_training import LABELS, MODELS, TOGETHER, X, clipped_sum, extreme_cases, labels_of, parameters, settings

from jaxdpbo import sensitivity
from jaxdpbo.guarantee import assumptions
from jaxdpbo.training import dp_optim, integer_sums, models, oracles

RADII = (40, 4096, 2**15, 1)


@partial(jax.jit, static_argnums=0)
def whole_sum(model, params, x, y, mask, clip_norm, radius):
    given = integer_sums.integer_examples(models.examples(x, y), model, radius)
    return integer_sums.exact_gradient_sum(model, params, given, mask, clip_norm, radius)


def flat(tree, lead=()):
    return np.concatenate([np.asarray(leaf).reshape(*lead, -1) for leaf in jax.tree.leaves(tree)], axis=-1)


def longest(name, dtype, count):
    """The longest contribution of one example over the radius, in whole numbers; and how many are not zero."""
    model = MODELS[name]

    @jax.jit
    def contributions(params, features, labels, clip_norms, radius):
        def alone(params, x, y, clip_norm):
            return whole_sum(model, params, x[None], y[None], jnp.ones(1, bool), clip_norm, radius)

        return jax.vmap(alone)(params, features, labels, clip_norms)

    rng, found, nonzero = np.random.default_rng(8), Fraction(0), 0
    for number in range(-(-count // TOGETHER)):
        with np.errstate(over="ignore", invalid="ignore"):
            params, features, labels, clip_norms = extreme_cases(rng, model, dtype)
        radius = RADII[number % len(RADII)]
        total = flat(contributions(params, features, labels, clip_norms, jnp.int32(radius)), (TOGETHER,))
        assert total.dtype == np.int32
        squares = [sum(value * value for value in row if value) for row in total.tolist()]
        found = max(found, Fraction(max(squares), radius**2))
        nonzero += sum(square > 0 for square in squares)
    return found, nonzero


@pytest.mark.daily("softmax-float32", "squared-float64", "logistic-float32", "hinge-float64")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MODELS)
def test_no_example_is_longer_than_the_radius_whatever_floats_it_holds(name, dtype, trials):
    """Trap 45, in integers: no tolerance."""
    count = trials(
        f"whole contributions of extreme examples, {name}, {np.dtype(dtype)}", 4 * TOGETHER, 40 * TOGETHER, 8
    )
    squared, nonzero = longest(name, dtype, count)
    assert Fraction(9, 10) < squared <= 1
    assert nonzero > 0.02 * count


def test_rounding_without_a_guard_is_seen(monkeypatch):
    def planted(usable, limit, layers):
        return [jnp.where(usable[:, None] & jnp.isfinite(one.rounded), one.rounded, 0.0) for one in layers]

    monkeypatch.setattr(integer_sums, "_pick_rounding", planted)
    jax.clear_caches()
    assert longest("softmax", np.float32, 4 * TOGETHER)[0] > 1
    jax.clear_caches()


@pytest.mark.parametrize("name", MODELS)
def test_one_loop_measures_and_adds_up_what_it_reads_from_memory(name):
    """Two places of a program may round one value in two ways: none is left to the loop, and the loop is compiled."""
    model = MODELS[name]
    given = jnp.asarray(X), labels_of(name), jnp.ones(60, bool), jnp.asarray(1.0), jnp.int32(100)
    loops = [eqn for eqn in primitives(whole_sum.trace(model, parameters(model), *given).jaxpr) if is_loop(eqn)]
    assert len(loops) == 1
    inside = [str(eqn.primitive) for eqn in primitives(loops[0].params["jaxpr"])]
    assert {"le", "dot_general"} < set(inside)
    assert not {"floor", "round", "div", "rsqrt", "sqrt", "exp"} & set(inside)
    text = whole_sum.lower(model, parameters(model), *given).compile().as_text()
    assert text.count(" while(") == 1


def primitives(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            if not is_loop(eqn) and hasattr(value, "eqns"):
                yield from primitives(value)


def is_loop(eqn):
    return str(eqn.primitive) == "scan"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("clip_norm", [0.05, 1.0, 10.0])
def test_the_sum_is_that_of_the_floats_but_for_the_grid(name, clip_norm):
    model, params = MODELS[name], parameters(MODELS[name])
    mask, radius = jnp.arange(60) % 3 > 0, integer_sums.MAX_RADIUS
    given = model, params, jnp.asarray(X), labels_of(name), mask, jnp.asarray(clip_norm)
    found = flat(whole_sum(*given, jnp.int32(radius))) * (clip_norm / radius)
    expected = flat(clipped_sum(*given)[0])
    grid = 20 * 256 * clip_norm / radius  # forty examples, at most half of a row each, at random
    assert np.linalg.norm(found - expected) <= 0.03 * np.linalg.norm(expected) + grid
    assert np.linalg.norm(found) > 0


def test_company_changes_no_whole_number():
    """Over 512 examples float32 adds up in groups."""
    rng, model = np.random.default_rng(0), MODELS["softmax"]
    x, y = rng.normal(size=(1100, 5)).astype(np.float32), rng.integers(0, 3, 1100)
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), parameters(model))
    clip, radius = jnp.float32(0.5), jnp.int32(integer_sums.MAX_RADIUS // 4)

    def total(mask):
        return flat(whole_sum(model, params, x, y, mask, clip, radius)).astype(np.int64)

    some = rng.uniform(size=1100) < 0.3
    whole = total(np.ones(1100, bool))
    np.testing.assert_array_equal(total(some) + total(~some), whole)
    assert np.max(np.abs(whole)) > 2**17  # of which a float32 has not every fraction
    expected = flat(clipped_sum(model, params, x, y, np.ones(1100, bool), clip)[0])
    assert np.linalg.norm(whole * (float(clip) / int(radius)) - expected) < 0.03 * np.linalg.norm(expected)


def test_small_gradients_count_by_how_many_they_are():
    """A hundredth of the clip norm each: to the nearest whole number every one would be rounded to zero."""
    model, count = models.linear_svm(5), 4000
    x = jnp.asarray(np.random.default_rng(0).normal(size=(count, 5)) + 1)
    given = model, models.init_params(jax.random.key(0), model), x, jnp.ones(count, int), jnp.ones(count, bool)
    clip, radius = 300.0, 4096
    found = flat(whole_sum(*given, jnp.asarray(clip), jnp.int32(radius))) * (clip / radius)
    expected = flat(clipped_sum(*given, jnp.asarray(clip))[0])
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_neighbours_move_the_sum_by_the_sensitivity_exactly():
    model, radius = MODELS["softmax"], 1000
    for seed in range(10):
        rng = np.random.default_rng(seed)
        other, labels = X.copy(), np.array(LABELS)
        other[0], labels[0] = 10 ** rng.uniform(-3, 3) * rng.normal(size=5), rng.integers(0, 3)
        mask, clip, params = jnp.ones(60, bool), jnp.asarray(0.3), parameters(model, seed)
        one, two = (
            flat(whole_sum(model, params, jnp.asarray(x), jnp.asarray(y), mask, clip, jnp.int32(radius)))
            for x, y in ((X, LABELS), (other, labels))
        )
        moved = sum(value * value for value in (one.astype(int) - two).tolist())
        assert 0 < moved <= sensitivity.integer_sum(radius) ** 2


@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e200])
def test_an_example_that_is_no_number_counts_as_zero(junk):
    model, params, spoiled = MODELS["softmax"], parameters(MODELS["softmax"]), X.copy()
    spoiled[4, 2] = junk
    mask, rest = jnp.ones(60, bool), (jnp.asarray(0.5), jnp.int32(500))
    total = flat(whole_sum(model, params, jnp.asarray(spoiled), jnp.asarray(LABELS), mask, *rest))
    without = flat(whole_sum(model, params, jnp.asarray(X), jnp.asarray(LABELS), mask.at[4].set(False), *rest))
    if junk != 1e200:
        np.testing.assert_array_equal(total, without)


def test_layers_that_are_too_wide_are_refused():
    model = models.mlp(3, (4096,), 2)
    given = integer_sums.IntegerExamples(
        integer_sums.Rows(jnp.zeros((2, 3)), jnp.ones(2), jnp.zeros(2)), jnp.zeros(2, int)
    )
    with pytest.raises(ValueError, match="fewer than 4194304 features and 4096 scores a layer"):
        integer_sums.exact_gradient_sum(
            model, models.init_params(jax.random.key(0), model), given, jnp.ones(2, bool), 1.0, 5
        )


# The noise.


@given(st.floats(1e-3, 1e5), st.integers(1, 10**6), st.sampled_from([np.float32, np.float64]))
def test_the_noise_is_at_least_what_the_accountant_charges_for(multiplier, batch, dtype):
    multiplier = dtype(multiplier)
    radius = int(dp_optim._radius(jnp.asarray(multiplier, dtype), batch))
    assert 0 <= radius <= integer_sums.largest_sum_radius(batch) <= 2**15
    assert batch * radius + 19 * dp_optim.SIGMA < 2**31
    assert Fraction(dp_optim.SIGMA) >= Fraction(float(multiplier)) * sensitivity.integer_sum(radius)
    if radius < integer_sums.largest_sum_radius(batch):
        assert 1.0001 * float(multiplier) * sensitivity.integer_sum(radius + 1) >= dp_optim.SIGMA


@pytest.mark.full
def test_exact_noise_trains_as_floats_do():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 5))
    labels = (x @ np.arange(5.0) > rng.logistic(size=2000)).astype(int)
    chosen = settings(steps=300, batch=64, learning_rate=0.5, noise_multiplier=1.0, clip_norm=1.0)
    given, model = models.examples(jnp.asarray(x), jnp.asarray(labels)), MODELS["logistic"]
    train = jax.jit(dp_optim.train, static_argnames=("model", "largest", "smallest", "noise"))
    learnt = {
        noise: train(jax.random.key(4), model, given, chosen, largest=64, smallest=64, noise=noise)
        for noise in dp_optim.NOISES
    }
    accuracies = {
        noise: float(models.accuracy(params, given.features, given.labels)) for noise, params in learnt.items()
    }
    assert min(accuracies.values()) > 0.8
    assert abs(accuracies["exact"] - accuracies["float"]) < 0.02


def test_a_training_says_what_it_guarantees():
    model, chosen = MODELS["softmax"], settings(noise_multiplier=1.0, steps=100)
    said = oracles.training_guarantee(chosen, model, records=1000, delta=1e-5)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(parameters(model)))
    assert said.level == oracles.training_epsilon(chosen, records=1000, delta=1e-5).epsilon
    assert said.total_variation == 100 * numbers * dp_optim.total_variation(models.linear_svm(1), 1) / 2
    assert said.assumptions == (assumptions.RANDOM_BITS, assumptions.PUBLIC_CONFIG)
    in_floats = oracles.training_guarantee(chosen, model, records=1000, delta=1e-5, noise="float")
    assert in_floats.total_variation == 0
    assert assumptions.IDEAL_NOISE in in_floats.assumptions
    assert oracles.training_guarantee(settings(), model, records=1000, delta=1e-5).notion == "none"  # no noise at all
    with pytest.raises(ValueError, match="noise must be one of"):
        oracles.training_guarantee(chosen, model, records=1000, delta=1e-5, noise="none")

"""Noise of the stated distribution (Kolmogorov-Smirnov); draws of the stated probabilities."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm
from scipy.stats import laplace as laplace_law

from jaxdpbo.noise import mechanisms

DRAWS, DEVIATION = 40_000, 0.37

gaussian = jax.jit(mechanisms.gaussian)


@partial(jax.jit, static_argnames="draws")
def noises(key, standard_deviation, *, draws=DRAWS):
    """One coordinate of many releases, each with a key of its own."""
    return jax.vmap(mechanisms.gaussian, in_axes=(0, None, None))(
        jax.random.split(key, draws), jnp.zeros(2), standard_deviation
    )


def p_value(sample, distribution):
    return kstest(sample, distribution.cdf).pvalue


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_noise_is_normal_with_the_declared_deviation(seed):
    sample = np.asarray(noises(jax.random.key(seed), DEVIATION))
    for coordinate in sample.T:
        assert p_value(coordinate, norm(scale=DEVIATION)) > 1e-3


@pytest.mark.parametrize(
    "distribution",
    [norm(scale=DEVIATION * 2 / 3), norm(scale=DEVIATION * 3 / 2), norm(loc=0.1 * DEVIATION, scale=DEVIATION)],
    ids=["scale x 2/3", "scale x 3/2", "shifted mean"],
)
def test_the_test_of_normality_rejects_another_law(distribution):
    sample = np.asarray(noises(jax.random.key(0), DEVIATION))[:, 0]
    assert p_value(sample, distribution) < 1e-9


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_the_test_of_normality_rejects_noise_of_another_scale(factor):
    sample = np.asarray(noises(jax.random.key(0), factor * DEVIATION))[:, 0]
    assert p_value(sample, norm(scale=DEVIATION)) < 1e-9


def test_one_large_array_is_noised_like_many_small_ones():
    sample = np.asarray(gaussian(jax.random.key(3), jnp.full((DRAWS // 4, 4), 5.0), DEVIATION)) - 5.0
    assert p_value(sample.ravel(), norm(scale=DEVIATION)) > 1e-3
    shares = np.corrcoef(sample.T)[~np.eye(4, dtype=bool)]
    assert np.max(np.abs(shares)) < 5 / np.sqrt(DRAWS // 4)


def test_coordinates_and_consecutive_releases_are_uncorrelated():
    sample = np.asarray(noises(jax.random.key(4), DEVIATION))
    assert abs(np.corrcoef(sample.T)[0, 1]) < 5 / np.sqrt(DRAWS)
    assert abs(np.corrcoef(sample[1:, 0], sample[:-1, 0])[0, 1]) < 5 / np.sqrt(DRAWS)


def test_the_noise_is_around_the_value():
    value = jnp.array([-3.0, 0.0, 1e3])
    key = jax.random.key(5)
    zero = gaussian(key, jnp.zeros(3), DEVIATION)
    np.testing.assert_allclose(gaussian(key, value, DEVIATION) - value, zero, rtol=1e-10)
    np.testing.assert_allclose(gaussian(key, jnp.zeros(3), 2 * DEVIATION), 2 * zero, rtol=1e-14)


def test_each_coordinate_may_have_its_own_deviation():
    key, deviations = jax.random.key(6), jnp.array([0.0, 1.0, 10.0])
    noise = gaussian(key, jnp.zeros(3), deviations)
    np.testing.assert_allclose(noise, deviations * gaussian(key, jnp.zeros(3), 1.0), rtol=1e-14)


def test_no_noise_gives_the_value_to_the_bit():
    value = jnp.array([0.1, -1e300, 1e-300, 0.0, 1 / 3])
    np.testing.assert_array_equal(gaussian(jax.random.key(7), value, 0.0), value)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_shape_and_dtype_are_those_of_the_value(shape):
    for dtype in (jnp.float64, jnp.float32):
        result = gaussian(jax.random.key(8), jnp.ones(shape, dtype), jnp.asarray(0.5, dtype))
        assert result.shape == shape
        assert result.dtype == dtype


def test_float32_noise_has_the_law_too(float32):
    sample = gaussian(jax.random.key(9), jnp.zeros(DRAWS), DEVIATION)
    assert sample.dtype == jnp.float32
    assert p_value(np.asarray(sample, np.float64), norm(scale=DEVIATION)) > 1e-3


def test_a_key_decides_the_noise():
    value = jnp.zeros(4)
    once, again, other = (np.asarray(gaussian(jax.random.key(seed), value, 1.0)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(once, again)
    assert np.all(once != other)
    assert len(np.unique(once)) == 4


@partial(jax.jit, static_argnames="draws")
def laplace_noises(key, scale, *, draws=DRAWS):
    return jax.vmap(mechanisms.laplace, in_axes=(0, None, None))(jax.random.split(key, draws), jnp.zeros(2), scale)


@pytest.mark.parametrize("seed", [0, 1])
def test_laplace_noise_has_the_declared_scale(seed):
    sample = np.asarray(laplace_noises(jax.random.key(seed), DEVIATION))
    for coordinate in sample.T:
        assert p_value(coordinate, laplace_law(scale=DEVIATION)) > 1e-3
        for wrong in (laplace_law(scale=DEVIATION * 2 / 3), laplace_law(scale=DEVIATION * 3 / 2)):
            assert p_value(coordinate, wrong) < 1e-9
        assert p_value(coordinate, norm(scale=DEVIATION * np.sqrt(2))) < 1e-9  # of the same variance
    assert abs(np.corrcoef(sample.T)[0, 1]) < 5 / np.sqrt(DRAWS)


def test_laplace_tails_are_exponential():
    sample = np.abs(np.asarray(laplace_noises(jax.random.key(2), 1.0))[:, 0])
    for a in (1.0, 2.0, 4.0):
        assert np.mean(sample > a) == pytest.approx(np.exp(-a), abs=5 * np.sqrt(np.exp(-a) / DRAWS))


def test_laplace_is_around_the_value_and_without_scale_it_is_the_value():
    value, key = jnp.array([-3.0, 0.1, 1e3]), jax.random.key(5)
    zero = mechanisms.laplace(key, jnp.zeros(3), DEVIATION)
    np.testing.assert_allclose(mechanisms.laplace(key, value, DEVIATION) - value, zero, rtol=1e-10)
    np.testing.assert_array_equal(mechanisms.laplace(key, value, 0.0), value)


log_probabilities = jax.jit(mechanisms.exponential_log_probabilities)
ROWS = 6  # one shape, one compilation


@jax.jit
def drawn(keys, scores, epsilon, sensitivity):
    return jax.vmap(mechanisms.exponential, in_axes=(0, None, None, None))(keys, scores, epsilon, sensitivity)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_rows_are_drawn_with_the_exact_probabilities(epsilon):
    scores = np.array([0.0, 1.0, 1.0, -2.0, 0.5, 2.0])
    exact = np.exp(epsilon * scores / (2 * 0.7))
    exact /= exact.sum()
    np.testing.assert_allclose(np.exp(log_probabilities(scores, epsilon, 0.7)), exact, rtol=1e-12)
    counts = np.bincount(
        np.asarray(drawn(jax.random.split(jax.random.key(0), DRAWS), scores, epsilon, 0.7)), minlength=6
    )
    assert chisquare(counts, exact * DRAWS).pvalue > 1e-3
    wrong = np.exp(1.2 * epsilon * scores / (2 * 0.7))  # a forgotten factor would be seen
    assert chisquare(counts, wrong / wrong.sum() * DRAWS).pvalue < 1e-9


finite_scores = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(
    st.lists(finite_scores, min_size=ROWS, max_size=ROWS),
    st.lists(st.floats(-1, 1), min_size=ROWS, max_size=ROWS),
    st.floats(1e-3, 20.0),
    st.sampled_from([1e-3, 1.0, 50.0]),
)
def test_no_change_within_the_sensitivity_shows_more_than_epsilon(scores, moves, epsilon, sensitivity):
    """The definition of epsilon-DP, exactly, row by row."""
    scores, moves = np.array(scores), np.array(moves) * sensitivity
    before, after = (np.asarray(log_probabilities(values, epsilon, sensitivity)) for values in (scores, scores + moves))
    rounding = 1e-11 * (1 + epsilon * np.max(np.abs(scores)) / sensitivity)
    assert np.max(np.abs(before - after)) <= epsilon + rounding


def test_that_property_sees_a_sensitivity_that_is_too_small():
    scores, moves = np.zeros(ROWS), np.array([1.0, -1, -1, -1, -1, -1])
    honest = np.abs(log_probabilities(scores, 2.0, 1.0) - log_probabilities(scores + moves, 2.0, 1.0))
    planted = np.abs(log_probabilities(scores, 2.0, 0.5) - log_probabilities(scores + moves, 2.0, 0.5))
    assert np.max(honest) <= 2.0 < np.max(planted)


def shown(draw, epsilon, trials=20_000):
    """A lower bound on the log-odds of row 0 under neighbours, from frequencies."""
    first, second = np.zeros(ROWS), np.array([-1.0, 1, 1, 1, 1, 1])  # each moved by the sensitivity
    hits = [
        np.sum(np.asarray(draw(jax.random.split(jax.random.key(seed), trials), scores)) == 0)
        for seed, scores in enumerate((first, second))
    ]
    return np.log((hits[0] - 4 * np.sqrt(hits[0] + 1) + 1) / (hits[1] + 4 * np.sqrt(hits[1] + 1) + 1)) - epsilon


def test_a_planted_exact_argmax_is_caught():
    """Trap 20: a selection that never went through the mechanism."""

    def honest(keys, scores):
        return drawn(keys, scores, 1.0, 1.0)

    def planted(keys, scores):
        return np.full(len(keys), np.argmax(scores))

    assert shown(honest, 1.0) < 0
    assert shown(planted, 1.0) > 1


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([np.nan] * 6, [1 / 6] * 6),
        ([-np.inf] * 6, [1 / 6] * 6),
        ([3.0] * 6, [1 / 6] * 6),
        ([1e308, -1e308, 0.0, 0.0, 0.0, 0.0], [1.0, 0, 0, 0, 0, 0]),
        ([-1e308] * 5 + [1e308], [0.0] * 5 + [1.0]),
        ([0.0, np.nan, 0.0, np.inf, -np.inf, 0.0], [1 / 3, 0, 1 / 3, 0, 0, 1 / 3]),
    ],
)
def test_scores_that_are_no_numbers_or_far_apart(scores, expected):
    """Trap 5: no overflow, no NaN, a valid draw."""
    found = np.asarray(log_probabilities(np.array(scores), 1.0, 1.0))
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(np.exp(found), expected, atol=1e-12)
    rows = np.asarray(drawn(jax.random.split(jax.random.key(1), 100), np.array(scores), 1.0, 1.0))
    assert set(rows) <= set(np.flatnonzero(expected))


def test_the_exponential_mechanism_in_float32(float32):
    scores = jnp.array([0.0, 1.0, 1.0, -2.0, 0.5, 3e38])
    found = mechanisms.exponential_log_probabilities(scores, 1.0, 1.0)
    assert found.dtype == jnp.float32
    assert np.all(np.isfinite(found))
    found = mechanisms.exponential_log_probabilities(jnp.array([0.0, jnp.nan, 0.0]), 1.0, 1.0)
    np.testing.assert_allclose(np.exp(found), [0.5, 0.0, 0.5], rtol=1e-6)

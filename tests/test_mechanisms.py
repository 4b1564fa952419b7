"""The Gaussian mechanism adds noise of the law it says, as Kolmogorov and Smirnov see it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, norm

from jaxdpbo.privacy import mechanisms

DRAWS, DEVIATION = 40_000, 0.37

gaussian = jax.jit(mechanisms.gaussian)


@partial(jax.jit, static_argnames="draws")
def noises(key, standard_deviation, *, draws=DRAWS):
    """One coordinate of many releases, each with a key of its own."""
    return jax.vmap(mechanisms.gaussian, in_axes=(0, None, None))(
        jax.random.split(key, draws), jnp.zeros(2), standard_deviation
    )


def p_value(sample, law):
    return kstest(sample, law.cdf).pvalue


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_noise_is_normal_with_the_declared_deviation(seed):
    sample = np.asarray(noises(jax.random.key(seed), DEVIATION))
    for coordinate in sample.T:
        assert p_value(coordinate, norm(scale=DEVIATION)) > 1e-3


@pytest.mark.parametrize(
    "law",
    [norm(scale=DEVIATION * 2 / 3), norm(scale=DEVIATION * 3 / 2), norm(loc=0.1 * DEVIATION, scale=DEVIATION)],
    ids=["scale x 2/3", "scale x 3/2", "shifted mean"],
)
def test_the_test_of_normality_rejects_another_law(law):
    sample = np.asarray(noises(jax.random.key(0), DEVIATION))[:, 0]
    assert p_value(sample, law) < 1e-9


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

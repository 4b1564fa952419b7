"""Several processes as one are each the process of ``gp``: posteriors, likelihoods with their gradients, fits."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import NAMES, case
from oracles import gp as oracle

from jaxdpbo import kernels
from jaxdpbo.surrogate import batched_gp, gp, gp_fit

CAPACITY, DIMENSION = 75, 3  # no multiple of a block
NOISE = (1e-6, 1e-2)
MORE_NOISE = (1e-3, 1e-2)  # for a polynomial, whose covariance has rank 10: with less it has few digits, as gp says


def scene(name):
    """Two models of one kernel, points with holes between them, values, and where to predict."""
    made, rng = case(name, DIMENSION), np.random.default_rng(0)
    models = [made.model(noise) for noise in (MORE_NOISE if name.startswith("polynomial") else NOISE)]
    points = oracle.clustered(rng, CAPACITY, DIMENSION, 0.03)
    mask = rng.uniform(size=CAPACITY) < 0.8
    values = np.sin(3 * points @ rng.normal(size=(DIMENSION, 2))) + 0.1 * rng.normal(size=(CAPACITY, 2))
    return made, models, jnp.asarray(points), jnp.asarray(mask), jnp.asarray(values), rng.uniform(size=(6, DIMENSION))


@jax.jit
def in_steps(models, points, mask, counts):
    """The posterior of ``batched_gp.extend``, which sees the rows up to each of ``counts`` and no later one."""
    start = batched_gp.prior(batched_gp.stack(models), *points.shape)

    def step(posterior, count):
        seen = jnp.arange(CAPACITY, dtype=jnp.int32) < count
        known = posterior._replace(points=jnp.where(seen[:, None], points, 0.0), mask=mask & seen)
        return batched_gp.extend(known, count), None

    return jax.lax.scan(step, start, counts)[0]


predict = jax.jit(
    lambda posterior, values, new: batched_gp.predict(posterior, batched_gp.whiten(posterior, values), new)
)


@pytest.mark.parametrize("counts", [[CAPACITY], list(range(1, 76)), [5, 5, 31, 32, 33, 70, 70]])
@pytest.mark.parametrize("name", ["matern52", "rbf", "polynomial2"])
def test_the_posterior_is_the_textbook_one_however_the_points_came(name, counts):
    made, models, points, mask, values, new = scene(name)
    counts = counts + [counts[-1]] * (75 - len(counts))  # one shape: one compilation
    posterior = in_steps(models, points, mask, jnp.asarray(counts, jnp.int32))
    held = np.asarray(mask) & (np.arange(CAPACITY) < counts[-1])
    junk = jnp.where(jnp.asarray(held)[:, None], values, jnp.nan)
    mean, variance = predict(posterior, junk, new)
    assert posterior.used == counts[-1]
    for place, model in enumerate(models):
        observed = np.asarray(points)[held]
        noises = oracle.noise(made.oracle, observed, float(model.noise_variance), 1e-10)
        expected, covariance = oracle.predict(made.oracle, observed, noises, np.asarray(values)[held, place], new)
        scale = np.max(np.abs(expected))
        np.testing.assert_allclose(mean[place], expected, atol=1e-7 * scale)
        np.testing.assert_allclose(
            variance[place], np.diagonal(covariance), atol=1e-7 * np.max(np.diagonal(covariance))
        )
        at_once = jax.jit(gp.condition)(model, points, jnp.asarray(held)).whitening
        np.testing.assert_allclose(posterior.whitening[place], at_once, atol=1e-7 * np.max(np.abs(at_once)))


def test_what_stands_beyond_the_rows_used_is_ignored_and_what_is_within_is_not():
    _, models, points, mask, values, new = scene("matern52")
    counts = jnp.full(75, 40, jnp.int32)
    expected = predict(in_steps(models, points, mask, counts), values, new)
    far = predict(in_steps(models, points.at[41].set(9.0), mask.at[41].set(True), counts), values.at[41].set(9.0), new)
    np.testing.assert_array_equal(expected, far)
    near = predict(in_steps(models, points, mask.at[39].set(~mask[39]), counts), values, new)
    assert np.max(np.abs(np.asarray(near[1]) - np.asarray(expected[1]))) > 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_the_likelihood_and_its_gradient_are_those_of_gp(name):
    _, models, points, mask, values, _ = scene(name)
    junk = jnp.where(mask[:, None], values, jnp.nan)
    slow = jax.jit(jax.value_and_grad(gp.log_marginal_likelihood))
    for model, column in zip(models, junk.T, strict=True):
        expected, slope = slow(model, points, column, mask)
        found, gradient = jax.jit(batched_gp.likelihood)(model, points, column, mask)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
        for one, other in zip(jax.tree.leaves(gradient), jax.tree.leaves(slope), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.max(np.abs(other)))


@pytest.mark.parametrize("used", [280, 9, 70])
def test_a_fit_is_that_of_gp_from_one_start(used):
    """On whichever prefix the rows used need."""
    capacity, rng = 280, np.random.default_rng(3)
    assert batched_gp.stages(capacity) == (70, 280)
    points, mask = jnp.asarray(rng.uniform(size=(capacity, 2))), jnp.arange(capacity) < used
    values = jnp.stack([jnp.sin(5 * points[:, 0]), points[:, 1] ** 2 + 0.1 * jnp.asarray(rng.normal(size=capacity))], 1)
    middle = [gp.GPModel(kernels.matern52, kernels.stationary_params(0.7, 2), jnp.asarray(noise)) for noise in NOISE]
    begun = [replace(model, params=kernels.stationary_params([0.9, 0.5], 2)) for model in middle]
    found = batched_gp.unstack(_fitted(middle, begun, points, values, mask, jnp.asarray(used, jnp.int32)))
    slow = jax.jit(partial(gp_fit.fit, num_restarts=1, steps=5))
    for place in (0, 1):
        expected = slow(jax.random.key(0), middle[place], points, values[:, place], mask, initial=begun[place])
        for one, other in zip(jax.tree.leaves(found[place]), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        assert not np.allclose(found[place].params.lengthscale, begun[place].params.lengthscale, rtol=1e-2)


@jax.jit
def _fitted(middle, begun, points, values, mask, used):
    return batched_gp.fit(
        batched_gp.stack(middle), points, values, mask, used, initial=batched_gp.stack(begun), steps=5
    )

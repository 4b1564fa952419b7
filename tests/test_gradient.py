"""The gradient posterior agrees with dense per-user solves, with autodiff and with finite differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import NAMES, STATIONARY, case, lengthscale
from oracles import gp as gp_oracle
from oracles import gradient as oracle

from jaxdpbo import kernels
from jaxdpbo.surrogate import gp, gradient

CAPACITY, DIMENSION, USERS, NOISE = 40, 4, 3, 1e-6
SEEDS = range(6)

condition = jax.jit(gp.condition)
append = jax.jit(gp.append)
weights = jax.jit(gradient.weights)
covariance = jax.jit(gradient.gradient_covariance)
cross = jax.jit(gradient.cross)
gram = jax.jit(kernels.gram, static_argnums=0)
noise = jax.jit(gp.noise)
information = jax.jit(gradient.gradient_information)


@jax.jit
def predicted_mean(model, factorization, values, theta):
    return gp.predict(model, factorization, values, theta[None])[0][0]


slope_of_mean = jax.jit(jax.grad(predicted_mean, argnums=3))


@partial(jax.jit, static_argnums=0)
def mixed_of_posterior_covariance(kernel, params, points, noises, theta):
    """``k_D(x, y)`` written with a plain inverse, differentiated by rows in ``x`` and by columns in ``y``."""
    pairs = jax.vmap(jax.vmap(kernel, (None, None, 0)), (None, 0, None))
    inverse = jnp.linalg.inv(pairs(params, points, points) + jnp.diag(noises))

    def factorization(x, y):
        left = pairs(params, x[None], points)[0]
        right = pairs(params, y[None], points)[0]
        return kernel(params, x, y) - left @ inverse @ right

    return jax.jacfwd(jax.grad(factorization, argnums=0), argnums=1)(theta, theta)


def scene(name, seed, noise_variance=NOISE, jitter=1e-10):
    """Points down to 0.03 lengthscales apart, one in eight masked, values of the model's making, a theta amid them."""
    made = case(name, DIMENSION)
    rng = np.random.default_rng(seed)
    scales = lengthscale(DIMENSION) if name in STATIONARY else np.ones(DIMENSION)
    points = scales * gp_oracle.clustered(rng, CAPACITY, DIMENSION, 0.03)
    mask = rng.permutation(CAPACITY) >= CAPACITY // 8
    noises = gp_oracle.noise(made.oracle, points, noise_variance, jitter)
    root = np.linalg.cholesky(gp_oracle.covariance(made.oracle, points, noises))
    values = root @ rng.normal(size=(CAPACITY, USERS))
    theta = scales * rng.uniform(0.3, 0.7, size=DIMENSION)
    return made, points, mask, noises, values, theta


def in_blocks(made, points, mask, noise_variance=NOISE, batch=5):
    """The posterior as a run builds it."""
    factorization = gp.empty(*points.shape, points.dtype)
    for start in range(0, len(points), batch):
        rows = slice(start, start + batch)
        factorization = append(made.model(noise_variance), factorization, points[rows], mask[rows])
    return factorization


def worst_relative(actual, expected):
    """The largest relative error of a column, in norm."""
    errors = np.linalg.norm(np.asarray(actual) - expected, axis=0) / np.linalg.norm(expected, axis=0)
    return float(np.max(errors))


@pytest.mark.parametrize("name", NAMES)
def test_mean_is_a_dense_solve_for_each_user(name):
    for seed in SEEDS:
        made, points, mask, noises, values, theta = scene(name, seed)
        expected = oracle.means(made.oracle, points[mask], noises[mask], values[mask], theta)
        for factorization in (condition(made.model(NOISE), points, mask), in_blocks(made, points, mask)):
            w = np.asarray(weights(made.model(), factorization, theta))
            assert w.shape == (CAPACITY, DIMENSION)
            np.testing.assert_array_equal(w[~mask], 0.0)
            assert worst_relative(w.T @ values, expected) < 1e-8


@pytest.mark.parametrize("name", NAMES)
def test_mean_is_a_dense_solve_even_of_white_noise(name):
    """Values no function of the kernel would take: the worst that ill-conditioning can do.

    A polynomial Gram matrix has rank 15 or 35 of 40 here: white values are divided by the noise variance itself, and
    the condition number is 1e9.
    """
    tolerance = 1e-8 if name in STATIONARY else 1e-6
    for seed in SEEDS:
        made, points, mask, noises, values, theta = scene(name, seed)
        white = np.random.default_rng(seed).normal(size=values.shape)
        factorization = condition(made.model(NOISE), points, mask)
        w = np.asarray(weights(made.model(), factorization, theta))
        expected = oracle.means(made.oracle, points[mask], noises[mask], white[mask], theta)
        assert worst_relative(w.T @ white, expected) < tolerance


@pytest.mark.parametrize(("name", "digits"), [("rbf", 1), ("matern32", 1), ("matern52", 1), ("polynomial2", 2)])
def test_keeping_the_inverse_factor_costs_digits_that_are_known(name, digits):
    """Against triangular solves with the same matrix; worst for a rank-deficient one."""
    lost = []
    for seed in range(12):
        made, points, *_, theta = scene(name, seed)
        here = gram(made.kernel, made.params, points, points)
        observed = np.asarray(here) + np.diag(noise(made.model(NOISE), points))
        slopes = np.asarray(cross(made.model(), theta, points))
        exact, triangular = gp_oracle.refined_solve(observed, slopes)
        factorization = in_blocks(made, points, np.ones(CAPACITY, bool))
        error = np.linalg.norm(weights(made.model(), factorization, theta) - exact)
        lost.append(np.log10(error / np.linalg.norm(triangular - exact)))
    assert np.mean(lost) < digits
    assert np.mean(lost) > -0.5  # the reference is the better of the two, or it refers to nothing


def test_mean_is_a_dense_solve_after_a_whole_run():
    """25 batches of 11 points in 10 dimensions: simplices of 0.03 to 1 lengthscales along a path of small steps."""
    made = case("rbf", 10)
    rng = np.random.default_rng(0)
    path = np.cumsum(0.3 * rng.normal(size=(25, 1, 10)) / np.sqrt(10), axis=0)
    corners = np.concatenate([np.zeros((1, 10)), np.eye(10)])
    radii = np.geomspace(0.03, 1.0, 25)[rng.permutation(25), None, None]
    points = (lengthscale(10) * (path + radii * corners)).reshape(-1, 10)
    noises = np.full(275, NOISE)
    values = np.sum(np.sin(points[:, :, None] + rng.normal(size=(10, USERS))), axis=1)
    factorization = in_blocks(made, points, np.ones(275, bool), batch=11)
    theta = lengthscale(10) * path[-1, 0]
    w = np.asarray(weights(made.model(), factorization, theta))
    expected = oracle.means(made.oracle, points, noises, values, theta)
    assert worst_relative(w.T @ values, expected) < 1e-8


@pytest.mark.parametrize("name", NAMES)
def test_mean_is_the_slope_of_the_predicted_mean(name):
    for seed in SEEDS:
        made, points, mask, _, values, theta = scene(name, seed)
        factorization = condition(made.model(NOISE), points, mask)
        w = np.asarray(weights(made.model(), factorization, theta))
        slopes = [slope_of_mean(made.model(), factorization, column, theta) for column in values.T]
        assert worst_relative(w.T @ values, np.stack(slopes, axis=1)) < 1e-8


@pytest.mark.parametrize("name", NAMES)
def test_mean_is_the_finite_difference_of_the_predicted_mean(name):
    made, points, mask, _, values, theta = scene(name, 0)
    factorization = condition(made.model(NOISE), points, mask)
    w = np.asarray(weights(made.model(), factorization, theta))

    def mean(at):
        return float(predicted_mean(made.model(), factorization, values[:, 0], at))

    step = 0.1 if name != "matern32" else 0.01  # its second derivative jumps at each evaluated point
    differences = gp_oracle.richardson(mean, theta, step, levels=5)
    assert worst_relative(w.T @ values[:, :1], differences[:, None]) < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_covariance_is_the_oracle_s_and_autodiff_s(name):
    for seed in SEEDS:
        made, points, mask, noises, _, theta = scene(name, seed)
        factorization = condition(made.model(NOISE), points, mask)
        found = np.asarray(covariance(made.model(), factorization, theta))
        expected = oracle.covariance(made.oracle, points[mask], noises[mask], theta)
        scale = np.linalg.norm(made.oracle.mixed(theta, theta))
        assert np.linalg.norm(found - expected) < 1e-10 * scale
        np.testing.assert_allclose(found, found.T, atol=1e-12 * scale)
        assert np.linalg.eigvalsh(found)[0] > -1e-12 * scale
        trace = float(information(made.model(), factorization, theta))
        np.testing.assert_allclose(
            trace, oracle.trace(made.oracle, points[mask], noises[mask], theta), atol=1e-10 * scale
        )


@pytest.mark.parametrize("name", NAMES)
def test_covariance_is_the_mixed_derivative_of_the_posterior_covariance(name):
    made, points, _, noises, _, theta = scene(name, 1)
    factorization = condition(made.model(NOISE), points, np.ones(CAPACITY, bool))
    found = covariance(made.model(), factorization, theta)
    differentiated = mixed_of_posterior_covariance(made.kernel, made.params, points, noises, theta)
    assert np.linalg.norm(found - differentiated) < 1e-7 * np.linalg.norm(made.oracle.mixed(theta, theta))


@pytest.mark.parametrize("name", NAMES)
def test_before_any_evaluation_the_mean_is_zero_and_the_covariance_the_prior_s(name):
    made, *_, theta = scene(name, 0)
    nothing = gp.empty(CAPACITY, DIMENSION, float)
    np.testing.assert_array_equal(weights(made.model(), nothing, theta), 0.0)
    found = covariance(made.model(), nothing, theta)
    np.testing.assert_allclose(found, made.oracle.mixed(theta, theta), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_theta_on_an_evaluated_point_gives_no_nan(name):
    made, points, mask, noises, values, _ = scene(name, 2)
    theta = points[np.flatnonzero(mask)[3]]
    factorization = condition(made.model(NOISE), points, mask)
    w = np.asarray(weights(made.model(), factorization, theta))
    assert np.all(np.isfinite(w))
    expected = oracle.means(made.oracle, points[mask], noises[mask], values[mask], theta)
    assert worst_relative(w.T @ values, expected) < 1e-8


def test_more_evaluations_never_raise_the_trace():
    made, points, mask, _, _, theta = scene("rbf", 3)
    counts = [np.cumsum(mask) <= k for k in (5, 15, 35)]
    traces = []
    for held in counts:
        factorization = condition(made.model(NOISE), points, mask & held)
        traces.append(float(information(made.model(), factorization, theta)))
    assert np.trace(made.oracle.mixed(theta, theta)) > traces[0] > traces[1] > traces[2] > 0


def test_a_quadratic_s_gradient_is_found_by_the_polynomial_kernel():
    """The kernel's space holds every quadratic: enough points determine the gradient itself, far from them too."""
    made, points, mask, *_ = scene("polynomial2", 4)
    centre, theta = np.arange(DIMENSION) / 3.0, np.full(DIMENSION, 1.5)
    values = np.sum((points - centre) ** 2, axis=1) / 2
    factorization = condition(made.model(1e-8), points, mask)
    w = np.asarray(weights(made.model(), factorization, theta))
    np.testing.assert_allclose(w.T @ values, theta - centre, rtol=1e-5, atol=1e-5)


def test_float32_follows_the_float64_oracle(float32):
    for seed in SEEDS:
        made, points, mask, _, values, theta = scene("rbf", seed, noise_variance=1e-4, jitter=1e-4)
        points, values, theta = (x.astype(np.float32) for x in (points, values, theta))
        factorization = in_blocks(made, points, mask, noise_variance=1e-4)
        w = np.asarray(weights(made.model(), factorization, theta))
        left = np.asarray(covariance(made.model(), factorization, theta))
        assert w.dtype == left.dtype == np.float32
        exact = points.astype(float)
        noises = gp_oracle.noise(made.oracle, exact, 1e-4, 1e-4)
        held = exact[mask], noises[mask]
        expected = oracle.means(made.oracle, *held, values.astype(float)[mask], theta.astype(float))
        assert worst_relative(w.T @ values, expected) < 3e-2
        known = oracle.covariance(made.oracle, *held, theta.astype(float))
        assert np.linalg.norm(left - known) < 1e-3 * np.linalg.norm(made.oracle.mixed(theta, theta))


def test_the_tolerance_sees_a_noise_variance_off_by_a_thousandth():
    made, points, mask, noises, values, theta = scene("rbf", 0)
    expected = oracle.means(made.oracle, points[mask], noises[mask], values[mask], theta)
    off = oracle.means(made.oracle, points[mask], noises[mask] * 1.001, values[mask], theta)
    assert worst_relative(off, expected) > 10 * 1e-8

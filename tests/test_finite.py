"""What is believed of a finite set, what can be learnt of it, and how alike two tasks are: beside dense oracles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import dp_gp_ucb as oracle
from oracles import kernels as kernel_oracle
from oracles.gp import predict

from jaxdpbo import kernels
from jaxdpbo.algorithms import dp_gp_ucb
from jaxdpbo.guarantee import assumptions
from jaxdpbo.surrogate import acquisition, finite_gp, gp, information_gain, two_task

CANDIDATES = np.random.default_rng(0).uniform(size=(30, 2))
LENGTHSCALE = np.array([0.3, 0.5])
KERNELS = {"rbf": (kernels.rbf, kernel_oracle.rbf), "matern52": (kernels.matern52, kernel_oracle.matern52)}


def model(noise, name="matern52"):
    return gp.GPModel(KERNELS[name][0], kernels.stationary_params(LENGTHSCALE, 2), jnp.asarray(noise))


def best_posterior_mean(noise, rows, values, name="matern52", capacity=None):
    return _believed(model(noise, name), jnp.asarray(CANDIDATES), jnp.asarray(rows), jnp.asarray(values), capacity)


def _believe(model, candidates, rows, values, capacity=None):
    def step(posterior, seen):
        return finite_gp.observe(model, posterior, *seen), None

    return jax.lax.scan(step, finite_gp.prior(model, candidates, capacity or len(rows)), (rows, values))[0]


_believed = jax.jit(_believe, static_argnames="capacity")


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("noise", [1e-4, 0.3])
@pytest.mark.parametrize("capacity", [20, 23])
@pytest.mark.parametrize("cached", [0, finite_gp.CACHED])
def test_the_belief_is_the_posterior(name, noise, capacity, cached, monkeypatch):
    """Room to spare or none, and both ways to add up what the evaluations explain."""
    monkeypatch.setattr(finite_gp, "CACHED", cached)
    rng = np.random.default_rng(1)
    rows, values = rng.integers(0, 30, 20), rng.normal(size=20)  # repeats among them
    _believed.clear_cache()
    posterior = best_posterior_mean(noise, rows, values, name, capacity)
    kernel = KERNELS[name][1](LENGTHSCALE, 1.0)
    mean, covariance = predict(kernel, CANDIDATES[rows], np.full(20, noise), values, CANDIDATES)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-8)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), atol=1e-8)


def test_exact_observations_are_reproduced_and_learnt_once():
    rows = np.array([3, 8, 3, 12, 8])
    values = np.array([0.5, -1.0, 99.0, 0.2, 99.0])  # a repeat is not learnt, whatever it says
    posterior = best_posterior_mean(0.0, rows, values)
    first = np.array([3, 8, 12])
    np.testing.assert_allclose(posterior.mean[first], [0.5, -1.0, 0.2], atol=1e-12)
    np.testing.assert_allclose(posterior.variance[first], 0.0, atol=1e-12)
    assert posterior.used == 3
    mean, covariance = predict(
        KERNELS["matern52"][1](LENGTHSCALE, 1.0), CANDIDATES[first], np.zeros(3), values[[0, 1, 3]], CANDIDATES
    )
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-10)
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), atol=1e-10)


def test_no_more_is_learnt_than_there_is_room_for_or_than_is_wanted():
    full = best_posterior_mean(0.1, np.array([1, 2, 3]), np.ones(3), capacity=2)
    np.testing.assert_array_equal(full.mean, best_posterior_mean(0.1, np.array([1, 2]), np.ones(2), capacity=2).mean)
    start = finite_gp.prior(model(0.1), jnp.asarray(CANDIDATES), 2)
    same = finite_gp.observe(model(0.1), start, jnp.array(1), jnp.array(2.0), when=False)
    jax.tree.map(np.testing.assert_array_equal, same, start)


def test_the_belief_stays_finite_in_float32_where_points_crowd(float32):
    crowded = jnp.linspace(0.0, 0.01, 50)[:, None]
    smooth = gp.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.0))
    posterior = _believe(smooth, crowded, jnp.arange(50) % 50, jnp.ones(50))
    assert posterior.mean.dtype == jnp.float32
    assert np.all(np.isfinite(posterior.mean))
    np.testing.assert_allclose(posterior.mean, 1.0, atol=0.05)


def longdouble_mean(covariance, rows, values, noise):
    """The posterior mean of draws observed at ``rows``: Cholesky in 64 bits of precision."""
    known = covariance[np.ix_(rows, rows)] + noise * np.eye(len(rows), dtype=np.longdouble)
    factor, whitened = np.zeros_like(known), np.zeros(len(rows), np.longdouble)
    for i in range(len(rows)):
        for j in range(i + 1):
            left = known[i, j] - factor[i, :j] @ factor[j, :j]
            factor[i, j] = np.sqrt(left) if i == j else left / factor[j, j]
        whitened[i] = (values[i] - factor[i, :i] @ whitened[:i]) / factor[i, i]
    weights = np.zeros(len(rows), np.longdouble)
    for i in reversed(range(len(rows))):
        weights[i] = (whitened[i] - factor[i + 1 :, i] @ weights[i + 1 :]) / factor[i, i]
    return covariance[:, rows] @ weights


@pytest.mark.parametrize("bits", [32, 64])
def test_the_mean_is_computed_to_within_what_exact_noise_allows_for(bits, trials):
    """Crowded candidates, repeats, long lengthscales; exact utilities, which float32 does not take, or little noise."""
    with jax.enable_x64(bits == 64):
        dtype, worst = jnp.result_type(float), 0.0
        points = np.asarray(np.linspace(0, 1, 60), dtype)
        scan = jax.jit(
            lambda model, rows, values: jax.lax.scan(
                lambda before, seen: (lambda after: (after, after.used > before.used))(
                    finite_gp.observe(model, before, *seen)
                ),
                finite_gp.prior(model, jnp.asarray(points)[:, None], 50),
                (rows, values),
            )
        )
        for seed in range(trials(f"posterior means beside longdouble, float{bits}, six priors each", 2, 50, 0)):
            for noise in (0.0 if bits == 64 else gp.jitter(dtype), gp.jitter(dtype), 0.01):
                for lengthscale in (0.1, 0.5, 2.0):
                    rng = np.random.default_rng(seed)
                    exact = points.astype(np.longdouble) / np.longdouble(np.asarray(lengthscale, dtype))
                    covariance = np.exp(-0.5 * (exact[:, None] - exact[None]) ** 2)
                    spread, basis = np.linalg.eigh(covariance.astype(float))
                    drawn = (basis * np.sqrt(np.maximum(spread, 0))) @ rng.normal(size=60)
                    rows = rng.integers(0, 60, 50)
                    values = np.asarray(drawn[rows] + np.sqrt(noise) * rng.normal(size=50), dtype)
                    smooth = gp.GPModel(
                        kernels.rbf, kernels.stationary_params(lengthscale, 1), jnp.asarray(noise, dtype)
                    )
                    posterior, learnt = scan(smooth, jnp.asarray(rows), jnp.asarray(values))
                    of = np.asarray(learnt)
                    variance = np.longdouble(np.asarray(noise, dtype))
                    mean = longdouble_mean(covariance, rows[of], values[of].astype(np.longdouble), variance)
                    worst = max(worst, float(np.max(np.abs(mean - np.asarray(posterior.mean).astype(np.longdouble)))))
        assert 0 < worst < dp_gp_ucb.configs.MEAN_ERROR
    assert f" {dp_gp_ucb.configs.MEAN_ERROR:g} " in assumptions.COMPUTED_MEAN


def test_expected_improvement_is_an_expectation():
    draws = np.random.default_rng(2).normal(size=400_000)
    for mean, variance, best in ((0.2, 1.0, 0.5), (-1.0, 0.25, -0.9), (3.0, 4.0, 0.0)):
        expected = np.maximum(mean + np.sqrt(variance) * draws - best, 0).mean()
        found = acquisition.expected_improvement(jnp.array(mean), jnp.array(variance), jnp.array(best))
        assert found == pytest.approx(expected, rel=0.02)
    np.testing.assert_array_equal(
        acquisition.expected_improvement(jnp.array([1.0, -1.0]), jnp.zeros(2), jnp.array(0.0)), [1.0, 0.0]
    )


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_the_bound_on_the_information_holds_on_every_multiset(noise):
    few = CANDIDATES[:6]
    kernel = KERNELS["matern52"][1](LENGTHSCALE, 1.0)
    for steps in (1, 2, 4):
        exact = oracle.maximum_information_gain(kernel, few, steps, noise)
        greedy = float(information_gain.greedy_gain(model(noise), jnp.asarray(few), steps))
        bound = information_gain.gain_bound(model(noise), few, steps)
        assert (1 - np.exp(-1)) * exact <= greedy + 1e-9 <= exact + 2e-9
        assert exact <= bound + 1e-9
        assert bound <= 0.5 * steps * np.log1p(1 / noise) + 1e-9


def test_the_bound_over_a_box_holds_for_points_anywhere_in_it():
    bounds = np.array([[0.0, -1.0], [1.0, 1.0]])
    smooth = gp.GPModel(kernels.rbf, kernels.stationary_params([0.4, 0.8], 2), jnp.asarray(0.05))
    kernel = kernel_oracle.rbf(np.array([0.4, 0.8]), 1.0)
    rng = np.random.default_rng(3)
    for steps in (5, 40):
        bound = information_gain.gain_bound_of_box(smooth, bounds, steps)
        tried = bounds[0] + (bounds[1] - bounds[0]) * rng.uniform(size=(200, steps, 2))
        corners = np.stack(np.meshgrid(*bounds.T), -1).reshape(-1, 2)
        tried[0] = corners[np.arange(steps) % 4]
        gains = [oracle.information_gain(kernel, points, 0.05) for points in tried]
        assert max(gains) <= bound
        assert bound < 0.5 * steps * np.log1p(1 / 0.05) or steps == 5  # at 40 the net says more than the trivial bound
    with pytest.raises(ValueError, match="kernel must be stationary"):
        information_gain.gain_bound_of_box(
            gp.GPModel(kernels.polynomial, kernels.polynomial_params(2), jnp.asarray(0.1)), bounds, 3
        )


def test_the_bound_is_computed_once(monkeypatch):
    calls = []
    honest = information_gain._greedy_gain
    monkeypatch.setattr(information_gain, "_greedy_gain", lambda *a: calls.append(a) or honest(*a))
    first = information_gain.gain_bound(model(0.123), CANDIDATES, 7)
    assert information_gain.gain_bound(model(0.123), CANDIDATES.copy(), 7) == first
    assert len(calls) == 1
    information_gain.gain_bound(model(0.124), CANDIDATES, 7)
    assert len(calls) == 2


def test_two_tasks_by_sum_and_difference_are_the_kronecker_product():
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 3, 30))
    correlations = np.array([-0.5, 0.0, 0.3, 0.95, 0.999])
    found = two_task.two_task_log_likelihood(
        model(0.01), jnp.asarray(CANDIDATES), jnp.asarray(first), jnp.asarray(second), jnp.asarray(correlations)
    )
    kernel = KERNELS["matern52"][1](LENGTHSCALE, 1.0)
    for i in range(3):
        for j, correlation in enumerate(correlations):
            expected = oracle.two_task_log_likelihood(kernel, CANDIDATES, first[i], second[i], correlation, 0.01)
            np.testing.assert_allclose(found[i, j], expected, rtol=1e-9)


@pytest.mark.parametrize("truth", [0.3, 0.6, 0.9])
def test_a_correlation_is_recovered_from_its_own_draws(truth):
    rng = np.random.default_rng(5)
    points = rng.uniform(size=(40, 2))
    factor = np.linalg.cholesky(kernel_oracle.gram(KERNELS["matern52"][1](LENGTHSCALE, 1.0), points, points))
    common, apart = factor @ rng.normal(size=(2, 40, 20))
    pairs = (
        np.sqrt(truth) * common + np.sqrt(1 - truth) * apart,
        np.sqrt(truth) * common + np.sqrt(1 - truth) * (factor @ rng.normal(size=(40, 20))),
    )
    noisy = [values.T + 0.01 * rng.normal(size=(20, 40)) for values in pairs]
    grid = np.linspace(0.05, 0.95, 19)
    found = two_task.two_task_log_likelihood(
        model(1e-4), jnp.asarray(points), *map(jnp.asarray, noisy), jnp.asarray(grid)
    )
    assert abs(grid[np.argmax(found.sum(axis=0))] - truth) < 0.11

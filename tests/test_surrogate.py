"""The surrogate as a library: shapes, compilations, noise, joint posteriors, acquisitions, kernels of kernels."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from kernel_cases import case
from oracles import gp as oracle
from protocol_cases import loss
from scipy import integrate, stats

from jaxdpbo import Space, dp_gibo, drivers, kernels, space, surrogate
from jaxdpbo.surrogate import acquisition, box_search, gp, preprocessing

RNG = np.random.default_rng(0)
POINTS, VALUES, NEW = RNG.uniform(size=(6, 2)), RNG.normal(size=6), RNG.uniform(size=(3, 2))
FRONT, REFERENCE = jnp.array([[0.0, 1.0], [1.0, 0.2]]), jnp.array([2.0, 2.0])
SEARCH = surrogate.BoxSearch(raw_samples=8, num_restarts=1, ascent_steps=2)


def model_of(name="matern52", noise_variance=1e-2):
    return case(name, 2).model(noise_variance)


def hill(middle, points):
    return -jnp.sum(jnp.square(points - jnp.broadcast_to(middle, points.shape)), axis=-1)


TREE = Space({"x": space.real(0, 1), "kind": ["a", "b", "c"]})


@functools.cache
def calls():
    """Every public function of arrays, called as a user does, by name."""
    model, key = model_of(), jax.random.key(0)
    points, values, new = (jnp.asarray(array) for array in (POINTS, VALUES, NEW))
    known = surrogate.condition(model, points)
    room = surrogate.condition(model, points, capacity=8)
    mean, deviation, regions = (
        jnp.array([0.5, 0.5]),
        jnp.array([0.3, 0.2]),
        surrogate.undominated_strips(FRONT, None, REFERENCE),
    )
    mean_and_covariance = surrogate.joint_posterior(model, known, values, new)
    normals, one = jax.random.normal(key, (4, 3)), jnp.ones(2)
    params, low, high = model.params, jnp.zeros(2), jnp.ones(2)
    fitted = {"num_restarts": 1, "steps": 1, "fixed": ["noise_variance"], "priors": {"lengthscale": (0.0, 1.0)}}
    return {
        "append": lambda: surrogate.append(model, room, new[:2]),
        "best_candidate": lambda: surrogate.best_candidate(Partial(hill, low), points),
        "beta_of_box": lambda: surrogate.beta_of_box(1, 2),
        "beta_of_candidates": lambda: surrogate.beta_of_candidates(1, 9, 0.1),
        "condition": lambda: surrogate.condition(model, points),
        "expected_hypervolume_improvement": lambda: surrogate.expected_hypervolume_improvement(
            mean, deviation, regions
        ),
        "expected_improvement": lambda: surrogate.expected_improvement(mean, deviation, mean[0]),
        "fit": lambda: surrogate.fit(key, model, points, values, **fitted),
        "gradient_covariance": lambda: surrogate.gradient_covariance(model, known, new[0]),
        "gradient_information": lambda: surrogate.gradient_information(model, known, new[0]),
        "gradient_posterior": lambda: surrogate.gradient_posterior(model, known, new[0]),
        "hvpoi": lambda: surrogate.hvpoi(mean, deviation, regions, mean[0]),
        "hypervolume": lambda: surrogate.hypervolume(jnp.eye(3), None, 2 * jnp.ones(3)),
        "is_non_dominated": lambda: surrogate.is_non_dominated(FRONT),
        "joint_posterior": lambda: surrogate.joint_posterior(model, known, values, new),
        "log_expected_improvement": lambda: surrogate.log_expected_improvement(mean, deviation, mean[0]),
        "log_marginal_likelihood": lambda: surrogate.log_marginal_likelihood(model, points, values),
        "predict": lambda: surrogate.predict(model, known, values, new),
        "predict_outputs": lambda: surrogate.predict_outputs([model], [known], values[:, None], new),
        "probability_of_improvement": lambda: surrogate.probability_of_improvement(mean, deviation, regions),
        "q_log_expected_improvement": lambda: surrogate.q_log_expected_improvement(
            *mean_and_covariance, values[0], normals
        ),
        "sample_posterior": lambda: surrogate.sample_posterior(key, model, known, values, new, count=2),
        "search_box": lambda: surrogate.search_box(
            key, Partial(hill, low), low, high, incumbent=one * 0.5, search=SEARCH
        ),
        "standardize": lambda: surrogate.standardize(values),
        "undominated_strips": lambda: surrogate.undominated_strips(FRONT, None, REFERENCE),
        "ucb": lambda: surrogate.ucb(model, known, values, new, 4.0),
        "unstandardize": lambda: surrogate.unstandardize(mean, deviation, values),
        "warp_inputs": lambda: surrogate.warp_inputs(points, one, one),
        "kernels.add": lambda: kernels.add(kernels.rbf, kernels.rbf)((params, params), new[0], new[1]),
        "kernels.constant": lambda: kernels.constant(kernels.constant_params(), new[0], new[1]),
        "kernels.constant_params": lambda: kernels.constant_params(2.0),
        "kernels.gram": lambda: kernels.gram(kernels.rbf, params, points, new),
        "kernels.matern32": lambda: kernels.matern32(params, new[0], new[1]),
        "kernels.matern52": lambda: kernels.matern52(params, new[0], new[1]),
        "kernels.multiply": lambda: kernels.multiply(kernels.rbf, kernels.rbf)((params, params), new[0], new[1]),
        "kernels.of_space": lambda: kernels.of_space(kernels.rbf, TREE)(params, new[0], new[1]),
        "kernels.on_categories": lambda: kernels.on_categories(kernels.rbf, [1])(params, new[0], new[1]),
        "kernels.on_columns": lambda: kernels.on_columns(kernels.rbf, [1, 0])(params, new[0], new[1]),
        "kernels.on_moved": lambda: kernels.on_moved(kernels.rbf, jnp.square)(params, new[0], new[1]),
        "kernels.polynomial": lambda: kernels.polynomial(kernels.polynomial_params(2), new[0], new[1]),
        "kernels.polynomial_params": lambda: kernels.polynomial_params(2),
        "kernels.rbf": lambda: kernels.rbf(params, new[0], new[1]),
        "kernels.stationary_params": lambda: kernels.stationary_params(1.0, 2),
        "kernels.stationary_params_from_box": lambda: kernels.stationary_params_from_box(np.eye(2)),
        "kernels.warp": lambda: kernels.warp(kernels.rbf)(kernels.warp_params(params, 2), new[0], new[1]),
        "kernels.warp_params": lambda: kernels.warp_params(params, 2),
    }


def public_functions():
    rooms = ((surrogate, ""), (kernels, "kernels."))
    names = [(room, prefix, name) for room, prefix in rooms for name in room.__all__]
    return {prefix + name for room, prefix, name in names if not isinstance(getattr(room, name), (type, type(np)))}


def test_every_public_function_is_called_here():
    assert calls().keys() == public_functions()


@pytest.mark.parametrize("name", sorted(public_functions()))
def test_a_public_function_called_twice_from_python_compiles_once(name, compilations):
    call = calls()[name]
    first = call()
    compilations.clear()
    second = call()
    assert compilations["programs"] == 0
    for left, right in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_search_reads_what_a_plain_function_reads_now():
    """A function that reads a name of its module must not be held to the array the name had at the first call."""
    middle = {"now": jnp.full(2, 0.2)}

    def utility(points):
        return hill(middle["now"], points)

    def found():
        start, search = jnp.full(2, 0.5), surrogate.BoxSearch(8, 1, 30)
        box = surrogate.search_box(
            jax.random.key(0), utility, jnp.zeros(2), jnp.ones(2), incumbent=start, search=search
        )
        return box[0], surrogate.best_candidate(utility, jnp.array([[0.2, 0.2], [0.8, 0.8]]))[0]

    before = found()
    middle["now"] = jnp.full(2, 0.8)
    after = found()
    np.testing.assert_allclose(before[0], 0.2, atol=0.05)
    np.testing.assert_allclose(after[0], 0.8, atol=0.05)
    assert (before[1], after[1]) == (0, 1)


def wrong_shapes():
    model, points, values, new = model_of(), jnp.asarray(POINTS), jnp.asarray(VALUES), jnp.asarray(NEW)
    known, mask, normals = surrogate.condition(model, points), jnp.ones(6, bool), jnp.zeros((4, 3))
    mean, pair, key = jnp.zeros(3), jnp.ones(2), jax.random.key(0)
    regions, params, low = surrogate.undominated_strips(FRONT, None, REFERENCE), model.params, jnp.zeros(2)
    one = dataclasses.replace(model, params=kernels.stationary_params(1.0, 1))
    line = points[:, 0]

    def search(utilities, lower=low, upper=pair, incumbent=low):
        return surrogate.search_box(key, utilities, lower, upper, incumbent=incumbent, search=SEARCH)

    return {
        r"points must have shape \(m, d\), got \(2,\)": lambda: surrogate.condition(model, new[0]),
        r"points must have shape \(m, d\), got \(6,\)": lambda: surrogate.condition(model, line),
        r"mask must have shape \(6,\), got \(5,\)": lambda: surrogate.condition(model, points, mask[:5]),
        r"noise_variances must have shape \(6,\), got \(1,\)": lambda: surrogate.condition(
            model, points, noise_variances=jnp.ones(1)
        ),
        r"capacity must be at least the number of points, 6, got 5": lambda: surrogate.condition(
            model, points, capacity=5
        ),
        r"lengthscale must have shape \(d,\), got \(\)": lambda: kernels.rbf(
            kernels.Stationary(jnp.ones(()), jnp.ones(())), new[0], new[1]
        ),
        r"x must have shape \(1,\), got \(2,\)": lambda: surrogate.condition(one, points),
        r"points must have shape \(k, 2\), got \(2,\)": lambda: surrogate.predict(model, known, values, new[0]),
        r"points must have shape \(k, 2\), got \(3, 1\)": lambda: surrogate.predict(model, known, values, new[:, :1]),
        r"values must have shape \(6,\), got \(1,\)": lambda: surrogate.predict(model, known, values[:1], new),
        r"values must have shape \(6, n\), got \(1, 6\)": lambda: surrogate.predict(model, known, values[None], new),
        r"points must have shape \(k, 2\), got \(3,\)": lambda: surrogate.joint_posterior(
            model, known, values, new[:, 0]
        ),
        r"values must have shape \(6,\), got \(6, 1\)": lambda: surrogate.sample_posterior(
            key, model, known, values[:, None], new, count=1
        ),
        r"values must have a column for each of 1 models, got shape \(6,\)": lambda: surrogate.predict_outputs(
            [model], [known], values, new
        ),
        r"points must have shape \(b, 2\), got \(2,\)": lambda: surrogate.append(
            model, surrogate.condition(model, points, capacity=9), new[0]
        ),
        r"points must fit the free rows, 0, got 3: pass a larger capacity to condition": lambda: surrogate.append(
            model, known, new
        ),
        r"values must have shape \(6,\), got \(6, 1\) ": lambda: surrogate.log_marginal_likelihood(
            model, points, values[:, None]
        ),
        r"values must have shape \(6,\), got \(5,\)": lambda: surrogate.fit(
            key, model, points, values[:5], num_restarts=1, steps=1
        ),
        r"theta must have shape \(2,\), got \(1, 2\)": lambda: surrogate.gradient_covariance(model, known, new[:1]),
        r"theta must have shape \(2,\), got \(1,\)": lambda: surrogate.gradient_information(model, known, mean[:1]),
        r"theta must have shape \(2,\), got \(\)": lambda: surrogate.gradient_posterior(model, known, mean[0]),
        r"values must have shape \(n, p\), got \(2,\)": lambda: surrogate.is_non_dominated(FRONT[0]),
        r"mask must have shape \(2,\), got \(1,\)": lambda: surrogate.is_non_dominated(FRONT, mask[:1]),
        r"reference must have shape \(2,\), got \(1,\)": lambda: surrogate.undominated_strips(
            FRONT, None, REFERENCE[:1]
        ),
        r"reference must have shape \(2,\), got \(\)": lambda: surrogate.hypervolume(FRONT, None, REFERENCE[0]),
        r"deviation must have shape \(2,\), got \(\)": lambda: surrogate.probability_of_improvement(
            pair, pair[0], regions
        ),
        r"mean must have shape \(2,\), got \(3,\)": lambda: surrogate.expected_hypervolume_improvement(
            mean, pair, regions
        ),
        r"deviation must have shape \(2,\), got \(2, 1\)": lambda: surrogate.hvpoi(
            pair, pair[:, None], regions, pair[0]
        ),
        r"best must have shape \(\) or the shape of mean, \(3,\), got \(1,": lambda: surrogate.expected_improvement(
            mean, mean, mean[:1]
        ),
        r"gain must have shape \(\), got \(2,\)": lambda: surrogate.hvpoi(pair, pair, regions, pair),
        r"variance must have the shape of mean, \(3,\), got \(3, 1\)": lambda: surrogate.expected_improvement(
            mean, mean[:, None], mean[0]
        ),
        r"variance must have the shape of mean, \(3,\), got \(\)": lambda: surrogate.log_expected_improvement(
            mean, mean[0], mean[0]
        ),
        r"covariance must have shape \(3, 3\), got \(3,\)": lambda: surrogate.q_log_expected_improvement(
            mean, mean, mean[0], normals
        ),
        r"normals must have shape \(s, 3\), got \(3,\)": lambda: surrogate.q_log_expected_improvement(
            mean, jnp.eye(3), mean[0], mean
        ),
        r"utility must return a scalar, got shape \(2,\)": lambda: surrogate.best_candidate(lambda x: x, points),
        r"utilities must have shape \(8,\), got \(8, 2\)": lambda: search(lambda x: x),
        r"incumbent must have shape \(2,\), got \(\)": lambda: search(Partial(hill, low), incumbent=low[0]),
        r"upper must have shape \(2,\), got \(3,\)": lambda: search(Partial(hill, low), upper=mean),
        r"points must have shape \(k, 2\), got \(6,\)": lambda: surrogate.ucb(model, known, values, line, 4.0),
        r"values must have shape \(m,\), got \(6, 1\)": lambda: surrogate.standardize(values[:, None]),
        r"mask must have shape \(6,\), got \(2,\)": lambda: surrogate.unstandardize(mean, mean, values, mask[:2]),
        r"a must have shape \(2,\), got \(\)": lambda: surrogate.warp_inputs(points, mean[0], mean[0]),
        r"xs must have shape \(p, d\), got \(2,\)": lambda: kernels.gram(kernels.rbf, params, new[0], new),
        r"y must have shape \(2,\), got \(1,\)": lambda: kernels.matern32(params, new[0], new[0, :1]),
        r"columns must lie below d = 2, got 2": lambda: kernels.on_columns(kernels.rbf, [2])(params, new[0], new[1]),
        r"columns must be at least one column, got 0": lambda: kernels.on_columns(kernels.rbf, []),
        r"columns must lie below d = 2, got 3": lambda: kernels.on_categories(kernels.rbf, [3])(params, new[0], new[1]),
        r"kernels must be at least one kernel, got 0": kernels.add,
        r"params must be a tuple of 2, one for each kernel, got 1": lambda: kernels.multiply(kernels.rbf, kernels.rbf)(
            (params,), new[0], new[1]
        ),
        r"fixed must name numbers of the model, params.lengthscale, .*, got 'noise'": lambda: surrogate.fit(
            key, model, points, values, fixed=["noise"]
        ),
        r"priors must name numbers of the model, .*, got 'scale'": lambda: surrogate.fit(
            key, model, points, values, priors={"scale": (0.0, 1.0)}
        ),
    }


def test_a_wrong_shape_raises_before_any_arithmetic():
    for message, call in wrong_shapes().items():
        with pytest.raises(ValueError, match=message.strip()):
            call()


def test_the_first_of_equal_utilities_wins_but_not_of_those_a_digit_apart(float32):
    for utilities, best in (([1000.0, 1000.1], 1), ([1000.0, 1000.0005], 0), ([-1000.1, -1000.0], 1)):
        row, value = surrogate.best_candidate(lambda utility: utility, jnp.array(utilities, jnp.float32))
        assert (int(row), float(value)) == (best, float(np.float32(utilities[best])))
    assert box_search.tie_tolerance(jnp.float64) == 1e3 * np.finfo(float).eps


def noisy_gibo(step_size):
    options = {"users": 6, "steps": 2, "mu": 2.0, "batch": 1, "noise": "float", "polish_steps": 1, "clip_norm": 0.5}
    config = dp_gibo.config(bounds={"low": [-2.0, -1.0], "high": [2.0, 3.0]}, step_size=0.3, **options)
    data = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)))
    run = drivers.pure_run(
        dp_gibo.algorithm, loss, data, dataclasses.replace(config, step_size=step_size), jax.random.key(0)
    )
    return run[0].point


def test_a_tangent_passes_through_a_run():
    """Before the first step all eigenvalues are equal, and a slope of 0 enters Adam: neither may spoil a tangent."""
    at, along = jnp.array([0.3, 0.3]), jnp.array([1.0, -0.5])

    def end(step):
        return jnp.sum(noisy_gibo(at + step * along))

    run = jax.jit(end)
    forward, reverse = jax.jit(lambda step: (jax.jvp(end, (step,), (1.0,))[1], jax.grad(end)(step)))(0.0)
    np.testing.assert_allclose(forward, (run(1e-5) - run(-1e-5)) / 2e-5, rtol=1e-4)
    np.testing.assert_allclose(reverse, forward, rtol=1e-9)


def test_append_after_condition_takes_place():
    model = model_of()
    room = surrogate.condition(model, jnp.asarray(POINTS[:4]), capacity=6)
    masked = surrogate.condition(model, jnp.asarray(POINTS), jnp.arange(6) < 4)
    for begun in (room, masked):
        found = surrogate.append(model, begun, jnp.asarray(POINTS[4:]))
        expected = surrogate.condition(model, jnp.asarray(POINTS))
        assert found.used == expected.used == 6
        np.testing.assert_allclose(found.whitening, expected.whitening, rtol=1e-9, atol=1e-12)
    held = surrogate.append(model, expected, jnp.asarray(POINTS[:1]), when=False)
    np.testing.assert_array_equal(held.whitening, expected.whitening)


def test_noise_of_each_observation_is_that_of_the_dense_solve():
    known, noises = case("matern52", 2), RNG.uniform(0.01, 1.0, 6)
    model, variances = known.model(0.3), jnp.asarray(noises)
    expected = oracle.predict(known.oracle, POINTS, noises, VALUES, NEW)
    whole = surrogate.condition(model, jnp.asarray(POINTS), noise_variances=variances)
    parts = surrogate.condition(model, jnp.asarray(POINTS[:4]), noise_variances=variances[:4], capacity=6)
    parts = surrogate.append(model, parts, jnp.asarray(POINTS[4:]), noise_variances=variances[4:])
    for factorization in (whole, parts):
        mean, variance = surrogate.predict(model, factorization, jnp.asarray(VALUES), jnp.asarray(NEW))
        np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
        np.testing.assert_allclose(variance, np.diagonal(expected[1]), rtol=1e-9)
    found = surrogate.log_marginal_likelihood(
        model, jnp.asarray(POINTS), jnp.asarray(VALUES), noise_variances=variances
    )
    covariance = oracle.covariance(known.oracle, POINTS, noises)
    np.testing.assert_allclose(found, stats.multivariate_normal.logpdf(VALUES, np.zeros(6), covariance), rtol=1e-10)


def test_the_noise_floor_can_be_lowered_and_then_fails_where_points_crowd(float32):
    crowded, apart = jnp.linspace(0.0, 0.1, 8)[:, None], 10 * jnp.arange(8.0)[:, None]
    params, exact = kernels.stationary_params(1.0, 1), jnp.asarray(0.0)
    default = surrogate.GPModel(kernels.rbf, params, exact)
    lowered = surrogate.GPModel(kernels.rbf, params, exact, noise_floor=1e-12)
    np.testing.assert_array_equal(gp.noise(default, apart), np.float32(1e-4))
    np.testing.assert_array_equal(gp.noise(lowered, apart), np.float32(1e-12))
    assert np.all(np.isfinite(surrogate.condition(default, crowded).whitening))
    assert np.all(np.isfinite(surrogate.condition(lowered, apart).whitening))
    assert np.any(np.isnan(surrogate.condition(lowered, crowded).whitening))


def fit(**options):
    model = surrogate.GPModel(kernels.rbf, kernels.stationary_params([0.5, 1.0], 2), jnp.asarray(0.05))
    return model, surrogate.fit(
        jax.random.key(0), model, jnp.asarray(POINTS), jnp.asarray(VALUES), num_restarts=1, steps=20, **options
    )


def test_what_is_fixed_stays_and_the_rest_is_fitted():
    model, free = fit()
    assert free.noise_variance != model.noise_variance
    model, fitted = fit(fixed=["noise_variance"])
    assert fitted.noise_variance == model.noise_variance
    assert np.all(fitted.params.lengthscale != model.params.lengthscale)
    model, fitted = fit(fixed=["params.variance", "lengthscale"])
    assert fitted.params.variance == model.params.variance
    np.testing.assert_array_equal(fitted.params.lengthscale, model.params.lengthscale)
    assert fitted.noise_variance != model.noise_variance
    model, fitted = fit(noise_variances=jnp.full(6, 0.2))
    assert fitted.noise_variance == model.noise_variance
    before, after = (
        surrogate.log_marginal_likelihood(
            each, jnp.asarray(POINTS), jnp.asarray(VALUES), noise_variances=jnp.full(6, 0.2)
        )
        for each in (model, fitted)
    )
    assert after > before


def test_a_narrow_prior_decides_and_a_wide_one_does_not():
    _, narrow = fit(priors={"lengthscale": (jnp.log(jnp.array([0.2, 3.0])), 1e-3)})
    np.testing.assert_allclose(narrow.params.lengthscale, [0.2, 3.0], rtol=0.02)
    _, wide = fit(priors={"lengthscale": (0.0, 1e9)})
    _, without = fit()
    for left, right in zip(jax.tree.leaves(wide), jax.tree.leaves(without), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)


def test_the_joint_posterior_is_the_dense_one_and_samples_have_it():
    known, noises = case("rbf", 2), np.full(6, 1e-2)
    model = known.model(1e-2)
    factorization = surrogate.condition(model, jnp.asarray(POINTS))
    mean, covariance = surrogate.joint_posterior(model, factorization, jnp.asarray(VALUES), jnp.asarray(NEW))
    expected = oracle.predict(known.oracle, POINTS, noises, VALUES, NEW)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
    np.testing.assert_allclose(covariance, expected[1], rtol=1e-9, atol=1e-12)
    marginal = surrogate.predict(model, factorization, jnp.asarray(VALUES), jnp.asarray(NEW))
    np.testing.assert_allclose(np.diagonal(covariance), marginal[1], rtol=1e-9)
    count = 20_000
    drawn = np.asarray(
        surrogate.sample_posterior(
            jax.random.key(0), model, factorization, jnp.asarray(VALUES), jnp.asarray(NEW), count=count
        )
    )
    deviation = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose((drawn.mean(axis=0) - mean) / deviation, 0.0, atol=4 / count**0.5)
    found = np.cov(drawn.T) / np.outer(deviation, deviation)
    np.testing.assert_allclose(found, covariance / np.outer(deviation, deviation), atol=6 / count**0.5)


def test_each_output_is_predicted_by_its_own_model():
    models = [model_of("rbf"), model_of("matern32", 0.3)]
    points, new, values = jnp.asarray(POINTS), jnp.asarray(NEW), jnp.stack([jnp.asarray(VALUES), -2.0 * VALUES], axis=1)
    each = [surrogate.condition(model, points) for model in models]
    mean, variance = surrogate.predict_outputs(models, each, values, new)
    for output, (model, known) in enumerate(zip(models, each, strict=True)):
        single = surrogate.predict(model, known, values[:, output], new)
        np.testing.assert_array_equal(mean[:, output], single[0])
        np.testing.assert_array_equal(variance[:, output], single[1])


@pytest.mark.parametrize("z", [-1e5, -300.0, -30.0, -18.001, -17.999, -8.0, -3.0, -1.001, -1.0, -0.999, 0.0, 2.0, 30.0])
def test_log_expected_improvement_is_the_integral_and_so_is_its_slope(z):
    """``E max(f - best, 0) = phi(z) int_0^inf t exp(z t - t^2 / 2) dt``: no cancellation at any ``z``."""

    def moment(power):
        width = 1 / max(1.0, abs(z)) if z < 0 else 1.0
        grid = (0, 40 * width) if z < 0 else (max(0.0, z - 40), z + 40)
        shift = 0.5 * z * z if z > 0 else 0.0
        inside = integrate.quad(
            lambda t: t**power * np.exp(z * t - 0.5 * t * t - shift),
            *grid,
            epsabs=0,
            limit=500,
            points=[z] if z > 0 else None,
        )[0]
        return inside, shift

    one, shift = moment(1)
    zeroth, _ = moment(0)
    deviation, best = 0.5, 0.3
    expected = np.log(one) + shift - 0.5 * z * z - 0.5 * np.log(2 * np.pi) + np.log(deviation)
    function = jax.value_and_grad(surrogate.log_expected_improvement)
    value, slope = function(jnp.asarray(best + z * deviation), jnp.asarray(deviation**2), jnp.asarray(best))
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    np.testing.assert_allclose(slope, zeroth / one / deviation, rtol=1e-6)


def test_log_expected_improvement_keeps_a_gradient_in_float32(float32):
    means = jnp.array([-1e6, -300.0, -9.0, -7.0, -3.0, 0.5], jnp.float32)
    both = jax.jit(jax.vmap(jax.value_and_grad(surrogate.log_expected_improvement), (0, 0, None)))
    values, slopes = both(means, jnp.ones(6, jnp.float32), jnp.float32(0.0))
    assert values.dtype == jnp.float32
    assert np.all(np.isfinite(values))
    assert np.all(np.isfinite(slopes) & (slopes > 0))
    np.testing.assert_allclose(
        values[3:], np.log(acquisition.expected_improvement(means[3:], jnp.ones(3, jnp.float32), 0.0)), rtol=1e-3
    )
    values, slopes = both(jnp.array([-1.0, -1e-3, 0.0, 1e-3, 1.0, 1e3], jnp.float32), jnp.zeros(6, jnp.float32), 0.0)
    assert np.all(np.isfinite(values) & np.isfinite(slopes) & (slopes > 0))
    np.testing.assert_allclose(values[3:], np.log([1e-3, 1.0, 1e3]), rtol=1e-5, atol=1e-6)


def test_q_log_expected_improvement_is_the_mean_over_draws():
    """Of one point the closed form; of three the plain estimate from the same normal numbers, and more."""
    normals = jax.random.normal(jax.random.key(1), (4096, 3))
    root = np.tril(RNG.normal(size=(3, 3))) + 2 * np.eye(3)
    mean, covariance, best = np.array([0.0, 0.5, -1.0]), root @ root.T, 0.7
    found = surrogate.q_log_expected_improvement(jnp.asarray(mean), jnp.asarray(covariance), jnp.asarray(best), normals)
    plain = np.log(np.mean(np.maximum(np.max(mean + np.asarray(normals) @ root.T, axis=1) - best, 0.0)))
    np.testing.assert_allclose(found, plain, atol=1e-2)
    one = surrogate.q_log_expected_improvement(
        jnp.asarray(mean[:1]), jnp.asarray(covariance[:1, :1]), jnp.asarray(best), normals[:, :1]
    )
    closed = surrogate.log_expected_improvement(jnp.asarray(mean[0]), jnp.asarray(covariance[0, 0]), jnp.asarray(best))
    np.testing.assert_allclose(one, closed, atol=0.05)
    assert found > one
    far = jax.grad(surrogate.q_log_expected_improvement)(
        jnp.asarray(mean) - 1e4, jnp.asarray(covariance), jnp.asarray(best), normals
    )
    assert np.all(np.isfinite(far))
    assert np.sum(far) > 0


def test_q_log_expected_improvement_takes_equal_points_in_float32(float32):
    """Whose covariance has no Cholesky factor: rounding makes a pivot negative."""
    model = model_of("rbf", 1e-3)
    points, values = jnp.asarray(POINTS, jnp.float32), jnp.asarray(VALUES, jnp.float32)
    normals = jax.random.normal(jax.random.key(1), (256, 4), jnp.float32)

    @jax.jit
    def both(new):
        known = surrogate.condition(model, points)

        def value(new):
            joint = surrogate.joint_posterior(model, known, values, new)
            return surrogate.q_log_expected_improvement(*joint, jnp.max(values), normals)

        covariance = surrogate.joint_posterior(model, known, values, new)[1]
        return jax.value_and_grad(value)(new), jnp.linalg.cholesky(covariance)

    failed = []
    for new in (points[jnp.array([0, 0, 3, 3])], points[:4] + 1e-4, jnp.tile(points[:1] + 0.3, (4, 1))):
        (value, slope), factor = both(new)
        failed.append(bool(np.any(np.isnan(factor))))
        assert np.isfinite(value)
        assert np.all(np.isfinite(slope))
    assert any(failed)
    one = acquisition.log_expected_improvement(
        *(array[0] for array in surrogate.predict(model, surrogate.condition(model, points), values, new[:1])),
        jnp.max(values),
    )
    np.testing.assert_allclose(value, one, atol=0.2)  # four equal points are one


def test_kernels_compose_by_their_formulas():
    one, other = case("rbf", 2), case("polynomial2", 1)
    x, y = POINTS[0], POINTS[1]
    added = kernels.add(kernels.rbf, kernels.on_columns(kernels.polynomial, [1]), kernels.constant)
    params = one.params, other.params, kernels.constant_params(3.0)
    expected = one.oracle.value(x, y) + other.oracle.value(x[1:], y[1:]) + 3.0
    np.testing.assert_allclose(added(params, jnp.asarray(x), jnp.asarray(y)), expected, rtol=1e-13)
    product = kernels.multiply(kernels.rbf, kernels.on_columns(kernels.polynomial, [1]))
    expected = one.oracle.value(x, y) * other.oracle.value(x[1:], y[1:])
    np.testing.assert_allclose(product(params[:2], jnp.asarray(x), jnp.asarray(y)), expected, rtol=1e-13)
    moved = kernels.on_moved(kernels.rbf, jnp.square)
    np.testing.assert_allclose(
        moved(one.params, jnp.asarray(x), jnp.asarray(y)), one.oracle.value(x**2, y**2), rtol=1e-13
    )
    swapped = kernels.on_columns(kernels.rbf, [1, 0])
    expected = one.oracle.value(x[::-1], y[::-1])
    np.testing.assert_allclose(swapped(one.params, jnp.asarray(x), jnp.asarray(y)), expected, rtol=1e-13)
    kernels.check(added, params, 2)
    with pytest.raises(ValueError, match="kernel_params do not fit"):
        kernels.check(added, params[:2], 2)
    assert kernels.add(kernels.rbf, kernels.constant) is kernels.add(kernels.rbf, kernels.constant)
    assert kernels.on_columns(kernels.rbf, [0]) is kernels.on_columns(kernels.rbf, (0,))
    named = kernels.on_categories(kernels.rbf, [1])
    apart = np.array([y[0], x[1] + 1])  # of two values that differ the distance is 1
    value = named(one.params, jnp.asarray(x), jnp.asarray(y))
    np.testing.assert_allclose(value, one.oracle.value(x, apart), rtol=1e-13)
    assert kernels.on_categories(kernels.rbf, [1]) is kernels.on_categories(kernels.rbf, (1,))


def test_a_constant_and_a_linear_mean_are_found_by_their_kernels():
    """Of values far from 0 with a slope: with a vague mean the posterior is that of generalised least squares."""
    values = 100.0 + 7.0 * POINTS[:, 0] - 3.0 * POINTS[:, 1] + 0.1 * VALUES
    known, vague, noise = case("rbf", 2), 1e6, 1e-2
    kernel = kernels.add(kernels.rbf, kernels.polynomial)
    params = known.params, kernels.polynomial_params(1, offset=1.0, variance=vague)
    model = surrogate.GPModel(kernel, params, jnp.asarray(noise), noise_floor=0.0)
    factorization = surrogate.condition(model, jnp.asarray(POINTS))
    mean, _ = surrogate.predict(model, factorization, jnp.asarray(values), jnp.asarray(NEW))
    basis, at = (np.column_stack([np.ones(len(points)), points]) for points in (POINTS, NEW))
    inverse = np.linalg.inv(oracle.covariance(known.oracle, POINTS, np.full(6, noise)))
    beta = np.linalg.solve(basis.T @ inverse @ basis, basis.T @ inverse @ values)
    rest, _ = oracle.predict(known.oracle, POINTS, np.full(6, noise), values - basis @ beta, NEW)
    np.testing.assert_allclose(mean, at @ beta + rest, rtol=1e-4)


def test_warped_inputs_are_kumaraswamy_s_and_a_fit_finds_a_warp():
    a, b, points = np.array([0.4, 2.0]), np.array([1.5, 0.7]), RNG.uniform(size=(5, 2))
    found = surrogate.warp_inputs(jnp.asarray(points), jnp.asarray(a), jnp.asarray(b))
    np.testing.assert_allclose(found, 1 - (1 - points**a) ** b, rtol=1e-12)
    corners = jnp.array([[0.0, 0.0], [1.0, 1.0], [-3.0, 7.0]])
    np.testing.assert_allclose(
        surrogate.warp_inputs(corners, jnp.ones(2), jnp.ones(2)), [[0, 0], [1, 1], [0, 1]], atol=1e-15
    )
    slopes = jax.grad(lambda at, a, b: jnp.sum(surrogate.warp_inputs(at, a, b)), (0, 1, 2))(
        corners, jnp.asarray(a), jnp.asarray(b)
    )
    assert all(np.all(np.isfinite(slope)) for slope in slopes)
    line = jnp.linspace(0.02, 0.98, 12)[:, None]
    values = jnp.sin(12.0 * line[:, 0] ** 0.3)
    params = kernels.warp_params(kernels.stationary_params(0.3, 1), 1)
    model = surrogate.GPModel(kernels.warp(kernels.rbf), params, jnp.asarray(1e-4))
    fitted = surrogate.fit(
        jax.random.key(0),
        model,
        line,
        values,
        num_restarts=1,
        steps=40,
        fixed=["noise_variance", "b"],
        priors={"a": (0.0, 0.75)},
    )
    assert fitted.params.a[0] < 0.8
    assert fitted.params.b[0] == 1.0


def test_standard_units_go_there_and_back():
    values, mask = jnp.array([1e3, 1.5e3, np.nan, 3e3]), jnp.array([True, True, False, True])
    standard = surrogate.standardize(values, mask)
    mean, variance = surrogate.unstandardize(standard, jnp.ones(4), values, mask)
    np.testing.assert_allclose(mean[mask], values[mask], rtol=1e-14)
    np.testing.assert_allclose(variance, np.var([1e3, 1.5e3, 3e3]), rtol=1e-13)
    mean, variance = surrogate.unstandardize(jnp.zeros(1), jnp.ones(1), jnp.full(3, 5.0))
    assert (float(mean[0]), float(variance[0])) == (5.0, 1.0)


@pytest.mark.parametrize("function", [preprocessing.standardize, preprocessing.rank_lower_half, "units"])
def test_nan_in_masked_rows_and_equal_values_have_derivatives(function):
    mask, units = jnp.array([True, True, True, False]), (jnp.asarray(0.5), jnp.asarray(2.0))

    def of(values, centre, scale):
        if function == "units":
            return jnp.sum(preprocessing.to_standard_units(values, mask, centre, scale, (-9.0, 9.0)) ** 2)
        return jnp.sum(function(values, mask) ** 3)

    for values in ([1.0, 1.0, 1.0, np.nan], [1.0, 2.0, 4.0, np.nan]):
        slopes = jax.grad(of, (0, 1, 2))(jnp.array(values), *units)
        clean = jax.grad(of, (0, 1, 2))(jnp.array([*values[:3], 0.0]), *units)
        for slope, expected in zip(slopes, clean, strict=True):
            assert np.all(np.isfinite(slope))
            np.testing.assert_array_equal(slope, expected)

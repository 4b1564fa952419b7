"""Kernels, their gradients and mixed second derivatives are the closed forms, coincident points included."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernel_cases import NAMES, OFFSET, STATIONARY, VARIANCE, case, lengthscale
from oracles import kernels as oracle

from jaxdpbo.surrogate import kernels


@partial(jax.jit, static_argnums=0)
def derivatives(kernel, params, xs, ys):
    """For each pair: ``k``, ``grad_x k``, ``grad_x k grad_y^T`` and one more derivative, in ``x``."""
    gradient = jax.grad(kernel, argnums=1)
    mixed = jax.jacfwd(gradient, argnums=2)
    functions = (kernel, gradient, mixed, jax.jacfwd(mixed, argnums=1))
    return [jax.vmap(function, in_axes=(None, 0, 0))(params, xs, ys) for function in functions]


@partial(jax.jit, static_argnums=0)
def gram(kernel, params, xs, ys):
    return kernels.gram(kernel, params, xs, ys), kernels.diagonal(kernel, params, xs)


def pairs(dimension):
    """Sixteen pairs: far, near, nearly and wholly coincident, and beside the origin."""
    rng = np.random.default_rng(dimension)
    xs = rng.uniform(-1, 1, size=(16, dimension))
    apart = rng.normal(size=xs.shape) * np.r_[np.ones(8), 0.1, 0.03, 1e-3, 1e-5, 1e-8, 0, 0, 0][:, None]
    xs[-1] = 0.0
    return xs, xs + apart


def close(actual, expected, tolerance):
    """Relative to the largest entry of the expected array: an entry that should cancel to 0 has no relative error."""
    assert actual.shape == expected.shape
    assert np.all(np.isfinite(actual))
    assert np.max(np.abs(actual - expected)) <= tolerance * np.max(np.abs(expected))


@pytest.mark.parametrize("dimension", [1, 3, 7])
@pytest.mark.parametrize("name", NAMES)
def test_value_gradient_and_mixed_derivative_are_the_closed_forms(name, dimension):
    kernel, params, known = case(name, dimension)
    xs, ys = pairs(dimension)
    value, gradient, mixed, third = (np.asarray(x) for x in derivatives(kernel, params, xs, ys))
    assert np.all(np.isfinite(third))
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        close(value[i], np.asarray(known.value(x, y)), 1e-14)
        np.testing.assert_allclose(gradient[i], known.gradient(x, y), rtol=1e-12, atol=1e-14)
        close(mixed[i], known.mixed(x, y), 1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_float32_follows_float64(name, float32):
    kernel, params, known = case(name, 3)
    xs, ys = pairs(3)
    found = derivatives(kernel, params, jnp.asarray(xs, jnp.float32), jnp.asarray(ys, jnp.float32))
    value, gradient, mixed, third = (np.asarray(x) for x in found)
    assert value.dtype == gradient.dtype == mixed.dtype == np.float32
    assert np.all(np.isfinite(third))
    for i, (x, y) in enumerate(zip(np.float32(xs).astype(float), np.float32(ys).astype(float), strict=True)):
        close(value[i], np.asarray(known.value(x, y)), 2e-6)
        np.testing.assert_allclose(gradient[i], known.gradient(x, y), rtol=2e-5, atol=2e-6)
        close(mixed[i], known.mixed(x, y), 2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_third_derivatives_are_slopes_of_the_mixed_ones(name):
    kernel, params, known = case(name, 3)
    xs, ys = pairs(3)
    third = np.asarray(derivatives(kernel, params, xs, ys)[3])
    step = 1e-5
    for i in range(8):  # the pairs that are far apart: Matern-3/2 has no third derivative where they coincide
        slopes = [
            (known.mixed(xs[i] + step * e, ys[i]) - known.mixed(xs[i] - step * e, ys[i])) / (2 * step)
            for e in np.eye(3)
        ]
        np.testing.assert_allclose(third[i], np.stack(slopes, axis=-1), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("name", "curvature"), [("rbf", 1.0), ("matern32", 3.0), ("matern52", 5.0 / 3.0)])
def test_where_points_coincide_the_derivatives_are_their_limits(name, curvature):
    kernel, params, _ = case(name, 3)
    xs, _ = pairs(3)
    value, gradient, mixed, third = (np.asarray(x) for x in derivatives(kernel, params, xs, xs))
    np.testing.assert_array_equal(value, VARIANCE)
    np.testing.assert_array_equal(gradient, 0.0)
    np.testing.assert_array_equal(third, 0.0)  # odd in x - y, or, for Matern-3/2, the mean of its two sides
    limit = curvature * VARIANCE * np.diag(lengthscale(3) ** -2)
    np.testing.assert_allclose(mixed, np.broadcast_to(limit, mixed.shape), rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_gram_is_symmetric_positive_semidefinite_and_has_the_diagonal(name):
    kernel, params, known = case(name, 3)
    points = np.concatenate(pairs(3))
    matrix, diagonal = (np.asarray(x) for x in gram(kernel, params, points, points))
    np.testing.assert_allclose(matrix, oracle.gram(known, points, points), rtol=1e-13)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(diagonal, np.diagonal(matrix), rtol=1e-14)
    assert np.linalg.eigvalsh(matrix)[0] >= -1e-14 * np.trace(matrix)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_one_of_the_gram_matrix(name):
    kernel, params, known = case(name, 3)
    xs, ys = pairs(3)
    found = jax.jit(kernels.row, static_argnums=0)(kernel, params, xs[0], ys.T)
    np.testing.assert_allclose(found, oracle.gram(known, xs[:1], ys)[0], rtol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_the_gram_matrix_of_many_points_is_that_of_few_and_so_are_its_derivatives(name):
    kernel, params, known = case(name, 3)
    xs, ys = (jnp.asarray(points) for points in pairs(3))
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(16, 16)))

    @jax.jit
    def found(params, xs, ys):
        matrix, pull = jax.vjp(partial(kernels.gram_of_many, kernel), params, xs, ys)
        slow, slow_pull = jax.vjp(partial(kernels.gram, kernel), params, xs, ys)
        return matrix, pull(weights), slow, slow_pull(weights)

    matrix, slopes, slow, slow_slopes = found(params, xs, ys)
    np.testing.assert_allclose(matrix, oracle.gram(known, np.asarray(xs), np.asarray(ys)), rtol=1e-13)
    np.testing.assert_allclose(matrix, slow, rtol=1e-14)
    for one, other in zip(jax.tree.leaves(slopes), jax.tree.leaves(slow_slopes), strict=True):
        close(np.asarray(one), np.asarray(other), 1e-12)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("away", [0.0, 1e6], ids=["near", "far"])
def test_around_a_centre_the_gram_matrix_is_the_same_and_so_are_its_derivatives(name, away):
    """Wherever the centre lies; and far points have the small covariances that they have."""
    kernel, params, known = case(name, 3)
    xs, ys = pairs(3)
    xs, ys = (away + np.concatenate([points, scale * points]) for points, scale in ((xs, 1.0), (ys, 5.0)))
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(32, 32)))

    @jax.jit
    def found(params, centre, xs, ys):
        matrix, pull = jax.vjp(partial(kernels.gram_around, kernel, params, centre), xs, ys)
        slow, slow_pull = jax.vjp(partial(kernels.gram, kernel, params), xs, ys)
        return matrix, pull(weights), slow, slow_pull(weights)

    matrix, slopes, slow, slow_slopes = found(params, xs.mean(axis=0), jnp.asarray(xs), jnp.asarray(ys))
    close(np.asarray(matrix), oracle.gram(known, xs, ys), 1e-13)
    close(np.asarray(matrix), np.asarray(slow), 1e-13)
    for one, other in zip(slopes, slow_slopes, strict=True):
        close(np.asarray(one), np.asarray(other), 1e-12)


@pytest.mark.parametrize("name", STATIONARY)
def test_around_a_centre_single_precision_is_as_good_as_pair_by_pair(name):
    """Of points within a lengthscale of the centre, as a search's are, and others up to far away."""
    kernel, params, _ = case(name, 3)
    rng = np.random.default_rng(0)
    xs = 7.0 + 0.5 * lengthscale(3) * rng.uniform(-1, 1, (32, 3))
    ys = 7.0 + lengthscale(3) * rng.normal(size=(32, 3)) * np.geomspace(0.01, 100, 32)[:, None]
    exact = np.asarray(kernels.gram(kernel, params, jnp.asarray(xs), jnp.asarray(ys)))
    single = [
        jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), one) for one in (params, np.full(3, 7.0), xs, ys)
    ]
    assert np.max(np.abs(np.asarray(kernels.gram_around(kernel, *single)) - exact)) < 1e-6 * VARIANCE


def test_gram_has_first_points_by_rows():
    kernel, params, known = case("rbf", 3)
    xs, ys = pairs(3)
    np.testing.assert_allclose(gram(kernel, params, xs[:2], ys)[0], oracle.gram(known, xs[:2], ys), rtol=1e-13)


def test_one_lengthscale_serves_every_coordinate():
    params = kernels.stationary_params(0.7, 4, variance=2)
    np.testing.assert_array_equal(params.lengthscale, np.full(4, 0.7))
    assert params.lengthscale.dtype == params.variance.dtype == jnp.float64
    assert params.variance.shape == ()


@pytest.mark.parametrize("name", STATIONARY)
def test_each_coordinate_has_its_own_lengthscale(name):
    kernel, params, _ = case(name, 3)
    steps = np.diag(lengthscale(3))
    values = np.asarray(gram(kernel, params, np.zeros((1, 3)), steps)[0])[0]
    np.testing.assert_allclose(values, values[0], rtol=1e-14)
    assert VARIANCE * 0.3 < values[0] < VARIANCE * 0.7


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"lengthscale": 0.0}, ValueError, r"lengthscale must be positive, got \[0.0, 0.0\]"),
        ({"lengthscale": [1.0, -2.0]}, ValueError, r"lengthscale must be positive, got \[1.0, -2.0\]"),
        ({"lengthscale": [1.0, np.inf]}, ValueError, "lengthscale must be finite, got .*inf"),
        ({"lengthscale": np.nan}, ValueError, "lengthscale must be finite, got .*nan"),
        ({"lengthscale": [1.0]}, ValueError, r"lengthscale must have shape \(2,\), got \(1,\)"),
        ({"lengthscale": np.ones((2, 1))}, ValueError, r"lengthscale must have shape \(2,\), got \(2, 1\)"),
        ({"lengthscale": ["a", "b"]}, TypeError, "lengthscale must be an array of real numbers"),
        ({"variance": 0.0}, ValueError, "variance must be positive, got 0.0"),
        ({"variance": np.inf}, ValueError, "variance must be finite, got inf"),
        ({"variance": np.nan}, ValueError, "variance must not be NaN"),
        ({"variance": "1"}, TypeError, "variance must be one real number, got '1'"),
    ],
)
def test_stationary_refuses_and_names(arguments, error, message):
    with pytest.raises(error, match=message):
        kernels.stationary_params(**({"lengthscale": 1.0, "dimension": 2} | arguments))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"degree": 0}, ValueError, "degree must be at least 1, got 0"),
        ({"degree": 2.0}, TypeError, "degree must be an integer, got 2.0"),
        ({"degree": True}, TypeError, "degree must be an integer, got True"),
        ({"offset": 0.0}, ValueError, "offset must be positive, got 0.0"),
        ({"offset": -1.0}, ValueError, "offset must be positive, got -1.0"),
        ({"variance": -1.0}, ValueError, "variance must be positive, got -1.0"),
    ],
)
def test_polynomial_refuses_and_names(arguments, error, message):
    with pytest.raises(error, match=message):
        kernels.polynomial_params(**({"degree": 2} | arguments))


def pair_of_values(params, x, y):
    return jnp.stack([jnp.dot(x, y), params.variance])


def test_check_accepts_what_fits():
    for name in NAMES:
        kernel, params, _ = case(name, 3)
        kernels.check(kernel, params, 3)


@pytest.mark.parametrize(
    ("kernel", "params", "error", "message"),
    [
        (
            kernels.rbf,
            kernels.polynomial_params(2),
            ValueError,
            "kernel_params do not fit kernel rbf: got Polynomial",
        ),
        (
            kernels.polynomial,
            kernels.stationary_params(1.0, 2),
            ValueError,
            "do not fit kernel polynomial: got Stationary",
        ),
        (kernels.rbf, kernels.stationary_params(1.0, 3), ValueError, "kernel_params do not fit kernel rbf"),
        (kernels.rbf, None, ValueError, "kernel_params do not fit kernel rbf: got None"),
        (
            pair_of_values,
            kernels.stationary_params(1.0, 2),
            ValueError,
            r"kernel must return a scalar .* got shape \(2,\)",
        ),
        (lambda params, x, y: x @ y, None, TypeError, "kernel must be a function defined once"),
        ("rbf", None, TypeError, "kernel must be a function, got 'rbf'"),
    ],
)
def test_check_refuses_and_names(kernel, params, error, message):
    with pytest.raises(error, match=message):
        kernels.check(kernel, params, 2)


def test_polynomial_gram_has_the_rank_it_says():
    _, params, _ = case("polynomial2", 2)
    points = np.random.default_rng(0).uniform(-1, 1, size=(12, 2))
    matrix, _ = gram(kernels.polynomial, params, points, points)
    eigenvalues = np.linalg.eigvalsh(matrix)[::-1]
    assert eigenvalues[5] > 1e-4 * OFFSET
    assert np.all(np.abs(eigenvalues[6:]) < 1e-12)

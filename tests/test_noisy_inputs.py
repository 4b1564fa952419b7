"""Kernels that know the noise of their inputs: expectations under the distribution that the curator draws from."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import input_noise as oracle

from jaxdpbo import input_noise
from jaxdpbo.surrogate import kernels, noisy_inputs

CELLS = [[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]


def test_a_law_and_its_characteristic_function_agree():
    for kind in input_noise.KINDS:
        for dimension in (1,) if kind == "product_laplace" else (1, 2, 4):  # a coordinate's, by itself
            distribution = input_noise.distribution(kind, 0.5, dimension)
            drawn = np.asarray(input_noise.draw_noise(jax.random.key(1), distribution, 200_000))
            variances, weights = input_noise.difference_variances(distribution)
            for s in (0.3, 1.0, 2.5):
                exact = oracle.characteristic(kind, 0.5, dimension, s)
                assert np.cos(s * drawn[:, 0]).mean() == pytest.approx(exact, abs=0.01)
                assert weights @ np.exp(-variances * s**2 / 2) == pytest.approx(exact**2, rel=1e-5)
            assert np.all(weights > 0)


@pytest.mark.daily("1-gaussian", "2-planar_laplace", "3-gaussian")
@pytest.mark.parametrize("kind", input_noise.KINDS[:2])
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_the_noise_aware_kernel_is_the_expectation(kind, dimension):
    distribution = input_noise.distribution(kind, 0.6, dimension)
    params = noisy_inputs.noisy_inputs(distribution, 1.25)
    for distance in (0.0, 0.5, 2.0, 6.0):
        x, y = np.zeros((2, 1 + dimension))
        y[0], y[1] = 1.0, distance
        exact = oracle.averaged_rbf(kind, 0.6, dimension, 1.25, distance)
        assert noisy_inputs.noisy_rbf(params, jnp.asarray(x), jnp.asarray(y)) == pytest.approx(exact, rel=1e-5)
    # By simulation, from the same distribution that the curator draws from.
    z = np.array([[0.0] * dimension, [1.5] + [0.0] * (dimension - 1)])
    noise = np.asarray(input_noise.draw_noise(jax.random.key(2), distribution, 400_000)).reshape(2, 200_000, dimension)
    inputs = z[:, None] - noise
    simulated = np.exp(-np.sum((inputs[0] - inputs[1]) ** 2, axis=1) / (2 * 1.25**2)).mean()
    pair = noisy_inputs.number_rows(z)
    assert noisy_inputs.noisy_rbf(params, pair[0], pair[1]) == pytest.approx(simulated, rel=0.02)


def test_the_kernel_aware_of_product_noise_is_a_product_of_expectations():
    distribution, places = input_noise.distribution("product_laplace", 0.6, 3), np.array([0.0, 0.5, 2.0])
    kernel, params, points = noisy_inputs.make_kernel(distribution, np.stack([np.zeros(3), places]), 1.25)
    exact = np.prod([oracle.averaged_rbf("planar_laplace", 0.6, 1, 1.25, distance) for distance in places])
    assert kernel(params, points[0], points[1]) == pytest.approx(exact, rel=1e-5)
    assert kernel(params, points[1], points[1]) == 1.0
    noise = np.asarray(input_noise.draw_noise(jax.random.key(2), distribution, 400_000)).reshape(2, 200_000, 3)
    simulated = np.exp(-np.sum((noise[0] - noise[1] - places) ** 2, axis=1) / (2 * 1.25**2)).mean()
    assert kernel(params, points[0], points[1]) == pytest.approx(simulated, rel=0.02)
    kernels.check(noisy_inputs.product_rbf, params, 4)


def test_a_row_is_fully_correlated_with_itself_and_the_gram_matrix_is_positive():
    params = noisy_inputs.noisy_inputs(input_noise.distribution("planar_laplace", 1.0, 2), 1.0)
    points = noisy_inputs.number_rows(np.random.default_rng(0).normal(size=(60, 2)))
    gram = np.asarray(kernels.gram(noisy_inputs.noisy_rbf, params, points, points))
    np.testing.assert_array_equal(np.diag(gram), 1.0)
    assert np.min(np.linalg.eigvalsh(gram)) > 0.1
    twin = points.at[1, 1:].set(points[0, 1:])  # at the same place, but another row
    assert noisy_inputs.noisy_rbf(params, twin[0], twin[1]) < 0.5
    kernels.check(noisy_inputs.noisy_rbf, params, 3)


def test_the_kernel_of_named_cells_is_the_expectation():
    response = input_noise.response([*CELLS, [9.0, 9.0]], 0.6)
    places, variances = np.array(response.cells), input_noise.cell_variances(response)
    np.testing.assert_allclose(variances, np.array([25, 25, 25, 97]) / 12)
    kernel, params, points = noisy_inputs.make_kernel(response, places[[0, 0, 1, 2, 3, 3]], 4.0)
    gram = np.asarray(kernels.gram(kernel, params, points, points))
    np.testing.assert_array_equal(np.diag(gram), 1.0)
    assert np.min(np.linalg.eigvalsh(gram)) > 0.1
    named = [0, 0, 1, 2, 3, 3]
    for i, j in np.argwhere(~np.eye(6, dtype=bool)):
        exact = oracle.averaged_over_cells(places, 0.6, variances, 4.0, (named[i], named[j]))
        assert gram[i, j] == pytest.approx(exact, rel=1e-12)
    # By simulation: rows of a random cell, normal there, that answered as the curator's do.
    rng, count = np.random.default_rng(0), 200_000
    cells = rng.integers(0, 4, (2, count))
    answers = np.where(rng.uniform(size=(2, count)) < 0.6, cells, (cells + rng.integers(1, 4, (2, count))) % 4)
    inputs = places[cells] + np.sqrt(variances[cells])[..., None] * rng.normal(size=(2, count, 2))
    correlation = np.exp(-np.sum((inputs[0] - inputs[1]) ** 2, axis=1) / 32)
    both = (answers[0] == 0) & (answers[1] == 1)
    assert correlation[both].mean() == pytest.approx(gram[0, 2], abs=5 * correlation[both].std() / both.sum() ** 0.5)


def test_a_law_is_read_back():
    for distribution in (input_noise.distribution("gaussian", 0.5, 2), input_noise.response(CELLS, 0.6)):
        assert input_noise.distribution_from_dict(json.loads(json.dumps(distribution._asdict()))) == distribution


def test_a_response_between_fewer_than_two_cells_is_refused():
    with pytest.raises(ValueError, match="cells must be at least 2, got 1"):
        input_noise.response([[0.0, 1.0]], 0.6)


def test_without_noise_worth_mentioning_it_is_the_kernel_itself():
    params = noisy_inputs.noisy_inputs(input_noise.distribution("gaussian", 1e-6, 2), 0.8)
    points = noisy_inputs.number_rows(np.random.default_rng(1).normal(size=(8, 2)))
    plain = kernels.gram(kernels.rbf, kernels.stationary_params(0.8, 2), points[:, 1:], points[:, 1:])
    np.testing.assert_allclose(kernels.gram(noisy_inputs.noisy_rbf, params, points, points), plain, atol=1e-9)

"""Derivatives of every public function of the surrogate, in both modes, against differences of its values."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from test_surrogate import SEARCH, TREE, hill, public_functions

from jaxdpbo import kernels, surrogate

NOT_DIFFERENTIABLE = {"is_non_dominated"}  # booleans
OF_THE_HOST = {  # they check numbers outside a trace
    "kernels.constant_params", "kernels.polynomial_params", "kernels.stationary_params",
    "kernels.stationary_params_from_box", "kernels.warp_params",
}  # fmt: skip
RNG = np.random.default_rng(1)
KEY = jax.random.key(0)
AT = {
    "points": RNG.uniform(size=(5, 2)), "values": RNG.normal(size=5), "new": RNG.uniform(size=(3, 2)),
    "lengthscale": np.array([0.5, 0.8]), "variance": np.array(1.3), "noise": np.array(0.1),
    "variances": RNG.uniform(0.1, 0.2, size=5), "mean": np.array([0.5, 0.4]), "deviation": np.array([0.3, 0.2]),
    "front": np.array([[0.0, 1.0], [1.0, 0.2]]), "reference": np.array([2.0, 2.5]), "number": np.array(0.6),
    "cube": RNG.uniform(size=(3, 3)), "top": np.full(3, 1.5), "low": np.array([-0.3, -0.2]),
}  # fmt: skip
ALONG = {name: np.sign(value + 1e-9) * RNG.uniform(0.3, 1.0, size=value.shape) for name, value in AT.items()}


def results(given):
    """By name, what every differentiable public function returns for arrays ``given``."""
    points, values, new, mean, deviation = (given[name] for name in ("points", "values", "new", "mean", "deviation"))
    params = kernels.Stationary(given["lengthscale"], given["variance"])
    model = surrogate.GPModel(kernels.matern52, params, given["noise"])
    known = surrogate.condition(model, points, noise_variances=given["variances"])
    room = surrogate.condition(model, points[:3], capacity=5)
    regions, number = surrogate.undominated_strips(given["front"], None, given["reference"]), given["number"]
    joint = surrogate.joint_posterior(model, known, values, new)
    low, high, x, y = given["low"], given["low"] + 1.5, new[0], new[1]
    polynomial, constant = kernels.Polynomial(number, params.variance, 2), kernels.Constant(number)
    warp = kernels.Warp(params, deviation, mean)
    normals = jax.random.normal(KEY, (4, 3), values.dtype)
    inside = {"num_restarts": 1, "steps": 2, "scale": 1.0, "priors": {"lengthscale": (number, 1.0)}}
    return {
        "append": surrogate.append(model, room, points[3:], noise_variances=given["variances"][3:]).whitening,
        "best_candidate": surrogate.best_candidate(Partial(hill, low), points)[1],
        "beta_of_box": surrogate.beta_of_box(number, 2),
        "beta_of_candidates": surrogate.beta_of_candidates(1, 9, number),
        "condition": known.whitening,
        "expected_hypervolume_improvement": surrogate.expected_hypervolume_improvement(mean, deviation, regions),
        "expected_improvement": surrogate.expected_improvement(mean, deviation, number),
        "fit": surrogate.fit(KEY, model, points, values, **inside),
        "gradient_covariance": surrogate.gradient_covariance(model, known, x),
        "gradient_information": surrogate.gradient_information(model, known, x),
        "gradient_posterior": surrogate.gradient_posterior(model, known, x).weights,
        "hvpoi": surrogate.hvpoi(mean, deviation, regions, number),
        "hypervolume": surrogate.hypervolume(given["cube"], None, given["top"]),
        "joint_posterior": joint,
        "log_expected_improvement": surrogate.log_expected_improvement(mean, deviation, number),
        "log_marginal_likelihood": surrogate.log_marginal_likelihood(model, points, values),
        "predict": surrogate.predict(model, known, values, new),
        "predict_outputs": surrogate.predict_outputs([model], [known], values[:, None], new),
        "probability_of_improvement": surrogate.probability_of_improvement(mean, deviation, regions),
        "q_log_expected_improvement": surrogate.q_log_expected_improvement(*joint, number, normals),
        "sample_posterior": surrogate.sample_posterior(KEY, model, known, values, new, count=2),
        "search_box": surrogate.search_box(KEY, Partial(hill, mean), low, high, incumbent=deviation, search=SEARCH),
        "standardize": surrogate.standardize(values),
        "undominated_strips": tuple(jnp.where(jnp.isfinite(edge), edge, 0.0) for edge in regions),
        "ucb": surrogate.ucb(model, known, values, new, number),
        "unstandardize": surrogate.unstandardize(mean, deviation, values),
        "warp_inputs": surrogate.warp_inputs(new, deviation, mean),
        "kernels.add": kernels.add(kernels.rbf, kernels.constant)((params, constant), x, y),
        "kernels.constant": kernels.constant(constant, x, y),
        "kernels.gram": kernels.gram(kernels.matern32, params, points, new),
        "kernels.matern32": kernels.matern32(params, x, y),
        "kernels.matern52": kernels.matern52(params, x, y),
        "kernels.multiply": kernels.multiply(kernels.rbf, kernels.matern32)((params, params), x, y),
        "kernels.of_space": kernels.of_space(kernels.rbf, TREE)(params, x, y),
        "kernels.on_categories": kernels.on_categories(kernels.rbf, [1])(params, x, y),
        "kernels.on_columns": kernels.on_columns(kernels.rbf, [1, 0])(params, x, y),
        "kernels.on_moved": kernels.on_moved(kernels.rbf, jnp.square)(params, x, y),
        "kernels.polynomial": kernels.polynomial(polynomial, x, y),
        "kernels.rbf": kernels.rbf(params, x, y),
        "kernels.warp": kernels.warp(kernels.rbf)(warp, x, y),
    }


def weighed(step):
    """Each function's numbers in one: a weighted sum, with all inputs moved together by ``step``."""
    given = {name: jnp.asarray(AT[name]) + step * ALONG[name] for name in AT}
    sums = {}
    for name, found in results(given).items():
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(found)])
        sums[name] = jnp.sum(flat * jnp.asarray(np.random.default_rng(2).uniform(0.5, 1.5, size=flat.shape)))
    return sums


@functools.cache
def derivatives():
    """All in one program: forward, reverse, and central differences."""

    @jax.jit
    def compute(step):
        ends = jax.lax.map(weighed, step * jnp.array([1.0, -1.0, 2.0, -2.0]))
        near, far = (
            jax.tree.map(lambda end, at=at: (end[at] - end[at + 1]) / (step * (at + 2)), ends) for at in (0, 2)
        )
        differences = jax.tree.map(lambda one, two: (4 * one - two) / 3, near, far)
        return jax.jvp(weighed, (0.0,), (1.0,))[1], jax.jacrev(weighed)(0.0), differences

    return jax.tree.map(float, compute(1e-4))


def test_every_public_function_is_differentiated_or_says_why_not():
    assert derivatives()[0].keys() == public_functions() - NOT_DIFFERENTIABLE - OF_THE_HOST


@pytest.mark.parametrize("name", sorted(public_functions() - NOT_DIFFERENTIABLE - OF_THE_HOST))
def test_both_modes_are_the_limit_of_differences(name):
    forward, reverse, difference = (each[name] for each in derivatives())
    np.testing.assert_allclose(forward, difference, rtol=1e-6)
    np.testing.assert_allclose(reverse, forward, rtol=1e-8)
    assert abs(forward) > 1e-3  # a derivative of 0 would agree with anything that is flat

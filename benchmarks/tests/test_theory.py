"""The papers' utility bounds as implemented hold; two of them as printed do not."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import gradient as gradient_oracle
from oracles import kernels as kernel_oracle
from test_dp_gp_ucb_theory import CORRELATION, COUNT, DELTA, NOISE, STEPS, config, draw_pairs, runs

from benchmarks.papers import huber_regression, theory
from jaxdpbo import accounting, sensitivity, transforms
from jaxdpbo.accounting import prior_averaged_constants
from jaxdpbo.noise import clipping

SETTING = {"clip_norm": 1.3, "steps": 25, "users": 4500, "mu": 0.8, "dimension": 10, "failure": 0.05}


def paper_s_m(*, clip_norm, steps, users, mu, dimension, failure):
    """The ``M`` of theorem 3.2, symbol by symbol."""
    tail = 4 * np.sqrt(dimension) + 2 * np.sqrt(2 * np.log(steps / failure))
    return 2 * clip_norm**2 * np.sqrt(steps) * tail / (users * mu)


def test_the_noise_terms_are_the_paper_s():
    m, b = paper_s_m(**SETTING), SETTING["clip_norm"]
    assert theory.noise_radius(**SETTING) == pytest.approx(m / b, rel=1e-14)
    assert theory.noise_term(**SETTING) == pytest.approx(m * (2 + m / (2 * b**2)), rel=1e-14)


def test_without_noise_the_noise_terms_are_zero():
    setting = SETTING | {"mu": math.inf}
    assert theory.noise_radius(**setting) == theory.noise_term(**setting) == 0.0


def test_the_noise_stays_within_its_radius_as_often_as_it_says(trials):
    """Lemma A.3: over all steps at once. The radius is loose; sqrt(d) in place of its tail is far too small."""
    runs = trials("runs of lemma A.3", 10_000, 100_000, 0)
    steps, dimension = SETTING["steps"], SETTING["dimension"]
    deviation = 2 * SETTING["clip_norm"] * np.sqrt(steps) / (SETTING["users"] * SETTING["mu"])
    rng = np.random.default_rng(0)
    largest = [np.max(np.linalg.norm(rng.normal(size=(steps, dimension)), axis=1)) for _ in range(runs)]
    largest = deviation * np.array(largest)
    assert np.mean(largest > theory.noise_radius(**SETTING)) <= SETTING["failure"]
    assert np.mean(largest > deviation * np.sqrt(dimension)) > 0.9


@pytest.mark.parametrize("name", ["rbf", "matern32", "matern52"])
def test_the_gradient_s_bias_stays_within_its_radius(name):
    """Lemma A.2, for functions made of kernels: ``f = sum_j a_j k(c_j, .)``, whose norm is ``sqrt(a' K a)``."""
    kernel, ratios = getattr(kernel_oracle, name)(np.array([0.7, 1.2]), 1.0), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        centres, points, theta = rng.normal(size=(6, 2)), rng.normal(size=(5, 2)), rng.normal(size=2)
        factors = rng.normal(size=6)
        norm = np.sqrt(factors @ kernel_oracle.gram(kernel, centres, centres) @ factors)
        noises = np.full(5, 1e-10)
        values = kernel_oracle.gram(kernel, points, centres) @ factors
        truth = kernel_oracle.gradients(kernel, theta, centres).T @ factors
        error = np.linalg.norm(gradient_oracle.mean(kernel, points, noises, values, theta) - truth)
        radius = theory.bias_radius(gradient_oracle.trace(kernel, points, noises, theta), rkhs_norm=norm)
        ratios.append(error / radius)
    assert max(ratios) <= 1


def test_the_bias_radius_is_attained():
    """By the function that knows the least-known slope: ``f = d/dx k_D(theta, .)`` in one dimension, without noise."""
    kernel, theta, step = kernel_oracle.rbf(np.array([1.0]), 1.0), np.zeros(1), 1e-4
    points = np.array([[-0.8], [0.5], [1.1]])
    # The derivative of k(theta, .) is a difference of two kernels; D's part is a sum of three.
    centres = np.concatenate([[theta + step], [theta - step], points])
    cross = kernel_oracle.gradients(kernel, theta, points)[:, 0]
    factors = np.r_[[0.5 / step, -0.5 / step], -np.linalg.solve(kernel_oracle.gram(kernel, points, points), cross)]
    norm = np.sqrt(factors @ kernel_oracle.gram(kernel, centres, centres) @ factors)
    values = kernel_oracle.gram(kernel, points, centres) @ factors
    truth = kernel_oracle.gradients(kernel, theta, centres).T @ factors
    nothing = np.zeros(3)
    error = np.linalg.norm(gradient_oracle.mean(kernel, points, nothing, values, theta) - truth)
    radius = theory.bias_radius(gradient_oracle.trace(kernel, points, nothing, theta), rkhs_norm=norm)
    assert error == pytest.approx(radius, rel=1e-5)


def test_theorem_3_2_is_its_formula():
    found = theory.mean_squared_gradient_bound(
        [0.3, 0.1, 0.2], initial_gap=2.0, step_size=0.5, rkhs_norm=3.0, noise=0.7
    )
    assert found == pytest.approx(2 * 2.0 / (0.5 * 3) + 9.0 * 0.2 + 1.4, rel=1e-14)


def test_theorem_3_3_is_its_recursion_unrolled():
    """``F <- (1 - eta tau) F + eta / 2 C^2 trace``, from the proof; the noise's series is summed to infinity."""
    rng = np.random.default_rng(0)
    traces, gap, eta, tau, norm = rng.uniform(size=30), 2.0, 0.3, 0.4, 1.5
    bias = 0.0
    for trace in traces:
        gap = (1 - eta * tau) * gap
        bias = (1 - eta * tau) * bias + eta / 2 * norm**2 * trace
    shared = {"step_size": eta, "convexity": tau, "rkhs_norm": norm, "noise": 0.6}
    assert theory.geometric_radius(traces, **shared) == pytest.approx(bias + 0.6 / tau, rel=1e-12)
    assert theory.suboptimality_bound(traces, initial_gap=2.0, **shared) == pytest.approx(gap + bias + 1.5, rel=1e-12)


def test_corollary_3_6_bounds_every_run_whose_traces_keep_the_tolerance():
    shared = {"initial_gap": 2.0, "step_size": 0.3, "rkhs_norm": 1.5, "noise": 0.1}
    first = theory.adaptive_mean_squared_gradient_bound(tolerance=0.4, steps=30, **shared)
    second = theory.adaptive_suboptimality_bound(tolerance=0.4, steps=30, convexity=0.5, **shared)
    assert first == pytest.approx(2 * 2.0 / (0.3 * 30) + 1.5**2 * 0.4 + 0.2, rel=1e-14)
    assert second == pytest.approx(0.85**30 * 2.0 + 1.5**2 * 0.4 / (2 * 0.5) + 0.1 / 0.5, rel=1e-14)
    for seed in range(5):
        traces = np.random.default_rng(seed).uniform(0, 0.4, size=30)
        assert theory.mean_squared_gradient_bound(traces, **shared) <= first
        assert theory.suboptimality_bound(traces, convexity=0.5, **shared) <= second


def descend(curvature, start, step_size, steps):
    """Exact gradient descent on ``curvature theta^2 / 2``: no bias, no noise. The ``T + 1`` iterates."""
    return start * (1 - step_size * curvature) ** np.arange(steps + 1)


@pytest.mark.parametrize("share", [1e-3, 0.03, 0.3, 1.0])
def test_theorem_3_2_holds_on_a_parabola_and_its_printed_form_does_not(share):
    """``2 F_0 L / T`` is ``2 F_0 / (eta T)`` at ``eta = 1 / L`` only; a small step leaves the gradient where it was."""
    smoothness, steps = 4.0, 20
    path = descend(smoothness, 1.5, share / smoothness, steps)
    gap = smoothness * path[0] ** 2 / 2
    mean_squared_gradient = np.mean((smoothness * path[:-1]) ** 2)
    quiet = {"initial_gap": gap, "step_size": share / smoothness, "rkhs_norm": 1.0, "noise": 0.0}
    assert mean_squared_gradient <= theory.mean_squared_gradient_bound([0.0] * steps, **quiet)
    assert mean_squared_gradient <= theory.adaptive_mean_squared_gradient_bound(tolerance=1e-12, steps=steps, **quiet)
    printed = 2 * gap * smoothness / steps
    assert (mean_squared_gradient > printed * (1 + 1e-9)) == (share < 1)


@pytest.mark.parametrize("share", [1e-4, 1e-2])
def test_corollary_3_4_holds_on_a_parabola_and_its_printed_form_does_not(share):
    """Strong convexity gives ``F >= tau / 2 distance^2``, with equality here."""
    convexity, steps = 0.5, 20
    path = descend(convexity, 1.5, share / convexity, steps)
    gap = theory.suboptimality_bound(
        [0.0] * steps,
        initial_gap=convexity * path[0] ** 2 / 2,
        step_size=share / convexity,
        convexity=convexity,
        rkhs_norm=1.0,
        noise=0.0,
    )
    assert convexity * path[-1] ** 2 / 2 <= gap
    assert abs(path[-1]) <= theory.distance_bound(gap, convexity=convexity)
    assert abs(path[-1]) > math.sqrt(gap / convexity)


def test_the_bounds_hold_over_noisy_biased_runs_and_need_their_noise_term():
    """Descent on a bowl with the algorithm's own noise and a bias as large as the traces allow, all assumptions met.

    Lemma B.1 bounds each step, theorems 3.2 and 3.3 a whole run.
    """
    bowl, clip_norm, step_size, steps = np.array([0.5, 1.0, 2.0]), 6.0, 0.4, 40
    setting = {"clip_norm": clip_norm, "steps": steps, "users": 200, "mu": 1.0, "dimension": 3, "failure": 0.01}
    deviation, noise = 2 * clip_norm * np.sqrt(steps) / 200, theory.noise_term(**setting)
    beyond_the_noiseless_bounds, beyond_the_noiseless_lemma = np.zeros(2), 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        traces, theta, squares = rng.uniform(0, 1e-3, size=steps), rng.uniform(-0.1, 0.1, size=3), []
        shared = {"initial_gap": bowl @ theta**2 / 2, "step_size": step_size, "rkhs_norm": 2.0}
        for trace in traces:
            gradient, loss = bowl * theta, bowl @ theta**2 / 2
            squares.append(gradient @ gradient)
            bias = rng.normal(size=3)
            bias *= theory.bias_radius(trace, rkhs_norm=2.0) / np.linalg.norm(bias)
            assert np.linalg.norm(gradient + bias) <= clip_norm
            theta = theta - step_size * (gradient + bias + deviation * rng.normal(size=3))
            fall = step_size / 2 * (gradient @ gradient - 2.0**2 * trace)
            assert bowl @ theta**2 / 2 <= loss - fall + step_size * noise
            beyond_the_noiseless_lemma += bowl @ theta**2 / 2 > loss - fall
        reached = np.mean(squares), bowl @ theta**2 / 2
        bounds, noiseless = (
            (
                theory.mean_squared_gradient_bound(traces, noise=v, **shared),
                theory.suboptimality_bound(traces, convexity=0.5, noise=v, **shared),
            )
            for v in (noise, 0.0)
        )
        assert reached[0] <= bounds[0]
        assert reached[1] <= bounds[1]
        assert np.linalg.norm(theta) <= theory.distance_bound(bounds[1], convexity=0.5)
        beyond_the_noiseless_bounds += np.greater(reached, noiseless)
    assert np.all(beyond_the_noiseless_bounds > 50)
    assert beyond_the_noiseless_lemma > 1000  # of 4,000 steps


def test_huber_regression_s_gradients_reach_sqrt_2_and_no_more():
    """At ``||x||^2 = 2``: the ``B = 1 (true value)`` of appendix C.2 is no upper bound."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(4000, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    squares = np.r_[np.geomspace(1e-3, 1e3, 3999), 2.0]
    covariates = directions * np.sqrt(squares)[:, None]
    responses = rng.normal(size=4000) * 10
    responses[-1] = 50.0
    slopes = jax.jacfwd(huber_regression.loss)(jnp.ones(4), (jnp.asarray(covariates), jnp.asarray(responses)))
    norms = np.linalg.norm(slopes, axis=1)
    assert np.max(norms) == norms[-1] == pytest.approx(math.sqrt(2), rel=1e-12)
    ceiling = np.sqrt(squares) * np.minimum(1.0, 2.0 / squares)
    assert np.all(norms <= ceiling * (1 + 1e-12))
    assert np.mean(norms > 1.0) > 0.05


@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (11, 25), (34, 10)])
def test_trainings_of_section_3_4_compose_to_mu_with_less_noise_than_printed(batch, steps):
    """The printed level of a training, mu / (b sqrt(T)), is sqrt(b) times smaller than corollary 2.5 asks for."""
    mu, count = 1.0, batch * steps
    enough, printed = mu / math.sqrt(count), mu / (batch * math.sqrt(steps))
    assert accounting.compose_gdp([enough] * count) == pytest.approx(mu)
    assert accounting.compose_gdp([printed] * count) == pytest.approx(mu / math.sqrt(batch))


def test_a_clipped_gradient_is_no_further_from_a_true_one():
    """Lemma A.1, and a true gradient outside of the ball for which it is false."""
    rng = np.random.default_rng(0)
    estimates, truths = rng.normal(0.0, 3.0, (2, 5, 1000))
    truths /= np.maximum(1.0, np.linalg.norm(truths, axis=0))
    clipped = np.asarray(clipping.clip_by_l2_norm(jnp.asarray(estimates), 1.0)[0])
    nearer = np.linalg.norm(clipped - truths, axis=0) <= np.linalg.norm(estimates - truths, axis=0) + 1e-12
    assert nearer.all()
    outside = np.linalg.norm(clipped - 9.0 * estimates, axis=0) > np.linalg.norm(estimates - 9.0 * estimates, axis=0)
    assert outside.any()


def test_iterates_stay_in_a_ball_though_a_smaller_loss_may_be_further():
    """Lemma A.4. Printed: a smaller loss is nearer to the minimiser. A step contracts the distance instead."""
    convexity, smoothness, push = 0.1, 1.0, 0.05
    curvatures = np.array([convexity, smoothness])
    near, far = np.array([0.0, 1.0]), np.array([2.0, 0.0])
    losses = [0.5 * curvatures @ point**2 for point in (near, far)]
    assert losses[1] < losses[0]
    assert np.linalg.norm(far) > np.linalg.norm(near)
    radius = push / convexity  # where a step brings the minimiser as much nearer as bias and noise push away
    theta, rng = np.array([radius, 0.0]), np.random.default_rng(0)
    for _ in range(1000):
        away = rng.normal(size=2)
        theta = theta - (curvatures * theta + push * away / np.linalg.norm(away)) / smoothness
        assert np.linalg.norm(theta) <= radius + 1e-12


def test_distances_keep_within_lemma_1_and_theorem_2():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(30, 3)) @ np.diag([1.0, 2.0, 0.5])
    rank = theory.rank_for_distances(30, 0.4, 0.1)
    assert rank == math.ceil(8 * math.log(9000) / 0.16)
    apart = np.triu_indices(30, 1)

    def squared(rows):
        return np.sum((rows[apart[0]] - rows[apart[1]]) ** 2, axis=1)

    for epsilon in (1e9, 2e3):
        chosen = transforms.random_projection(dimension=3, projected=rank, epsilon=epsilon, delta=1e-5)
        smallest = np.linalg.svd(inputs - inputs.mean(axis=0), compute_uv=False).min()
        low, high = theory.distance_factors(0.4, smallest, chosen.threshold)
        assert (high > 1.4) == (smallest < chosen.threshold) == (epsilon < 1e9)
        for seed in range(20):
            ratios = squared(np.asarray(transforms.curate(jax.random.key(seed), chosen, inputs).z)) / squared(inputs)
            assert low <= ratios.min()
            assert ratios.max() <= high


def test_a_smaller_rank_allows_a_larger_distortion_and_a_larger_failure_alone():
    """Remark 1, by the bound of lemma 1: the least distortion at rank r is the root of 8 log(n^2 / mu) / r."""
    distortions = np.linspace(0.1, 0.49, 40)
    ranks = [theory.rank_for_distances(100, distortion, 0.05) for distortion in distortions]
    assert np.all(np.diff(ranks) < 0)
    np.testing.assert_allclose(np.sqrt(8 * np.log(100**2 / 0.05) / np.array(ranks)), distortions, rtol=1e-2)
    failing = [theory.rank_for_distances(100, 0.3, failure) for failure in (0.01, 0.05, 0.2, 0.9)]
    assert np.all(np.diff(failing) < 0)


def test_epsilon_enters_the_regret_by_the_threshold_alone():
    """Remark 4: where the data reach it nothing depends on epsilon; below it theorem 2's factor does, through it."""
    rank, delta, smallest = 11, 1e-5, 1000.0
    least = transforms.threshold(rank, 1.0, delta) / smallest  # the threshold falls as 1 / epsilon

    def factors(epsilon):
        return theory.distance_factors(0.4, smallest, transforms.threshold(rank, epsilon, delta))

    assert {factors(share * least) for share in (1.001, 2.0, 100.0)} == {(0.6, 1.4)}
    below = np.array([factors(share * least) for share in (0.999, 0.5, 0.1)])
    np.testing.assert_allclose(below[:, 1], 1.4 * (1 + 1 / np.array([0.999, 0.5, 0.1]) ** 2))
    np.testing.assert_array_equal(below[:, 0], 0.6)
    for bound in (theory.simple_regret_bound, theory.distortion_for_regret, theory.rank_for_distances):
        assert not {"epsilon", "threshold"} & set(inspect.signature(bound).parameters)


def test_diagonal_dominance_and_the_regret_bound_by_hand():
    assert theory.diagonally_dominant(np.eye(5))
    assert theory.diagonally_dominant([[1.0, 0.5], [0.5, 1.0]])
    assert not theory.diagonally_dominant([[1.0, 0.51], [0.51, 1.0]])
    assert theory.distortion_for_regret(0.1, 2.0, 3.0) == pytest.approx(0.1 / (2 * math.sqrt(3) * 12))
    assert theory.distortion_for_regret(1e9, 10.0, 3.0) == pytest.approx(0.02)
    bound = theory.simple_regret_bound(
        regret=0.1, steps=50, beta=4.0, information=3.0, noise_variance=0.5, first_constant=0.2, second_constant=0.3
    )
    expected = 0.01 + 24 * 0.49 * math.log(50) / 50 + 24 / math.log(3) * 12 / 50
    assert bound == pytest.approx(math.sqrt(expected))


def test_no_answer_that_is_private_for_any_replacement_beats_the_floor():
    """By hand; and beside a modeler who knows the function, of rows that named their cell by randomised response."""
    assert theory.replace_one_regret_floor([3.0, 0.0, 1.0, 2.0], 1, math.log(2)) == pytest.approx(0.5)
    assert theory.replace_one_regret_floor([0.0, 5.0], 1, 1e4) == 0
    rng, epsilon, steps, values = np.random.default_rng(0), 1.0, 3, np.arange(20.0)
    floor = theory.replace_one_regret_floor(values, steps, epsilon)
    truth, found = math.exp(epsilon) / (math.exp(epsilon) + 19), []
    for _ in range(2000):
        cells = rng.integers(0, 20, 400)
        answers = np.where(rng.uniform(size=400) < truth, cells, (cells + rng.integers(1, 20, 400)) % 20)
        found.append(values[cells[np.argsort(answers)[:steps]]].min())  # the rows that named the best cells
    assert 0.5 < floor < np.mean(found) < values[rng.integers(0, 20, (2000, steps))].min(axis=1).mean()


@pytest.fixture(scope="module")
def pairs():
    return draw_pairs()


def test_the_utility_of_the_released_point(pairs):
    """Theorem 2, corrected: coverage on draws, at a budget where it says something."""
    failure, epsilon = 0.05, 2000.0
    chosen = config(epsilon=epsilon, release="point")
    means, _, _ = runs(chosen, *map(jnp.asarray, pairs), steps=STEPS)
    keys = jax.random.split(jax.random.key(1), 4000)
    drawn = jax.vmap(
        lambda key, scores: jax.random.categorical(key, chosen.epsilon_point * scores / 2 / chosen.point_sensitivity)
    )(keys, means.reshape(-1, COUNT))
    utilities = pairs[0].reshape(-1, COUNT)
    released = np.take_along_axis(utilities, np.asarray(drawn)[:, None], axis=1)[:, 0]
    share = prior_averaged_constants.shares(DELTA, "point", exact=False)
    bound = theory.point_shortfall(
        candidates=COUNT, beta=prior_averaged_constants.confidence_beta(COUNT, STEPS + 1, share.confidence),
        sensitivity=float(chosen.point_sensitivity), epsilon=epsilon, failure=failure,
    )  # fmt: skip
    shortfall = utilities.max(axis=1) - released
    assert np.mean(shortfall > bound) <= share.confidence + failure
    assert np.max(shortfall) > 0.01
    scores = means.reshape(-1, COUNT)
    missed = scores.max(axis=1) - np.take_along_axis(np.asarray(scores), np.asarray(drawn)[:, None], axis=1)[:, 0]
    allowed = theory.selection_shortfall(COUNT, float(chosen.point_sensitivity), epsilon, failure)
    assert np.mean(missed > allowed) <= failure


@pytest.mark.parametrize("variance", [NOISE, 0.0])
def test_the_utility_of_the_released_value(pairs, variance):
    """Theorem 4, and theorem 6 for exact observations."""
    failure, epsilon, exact = 0.05, 50.0, variance == 0
    chosen = config(epsilon=epsilon, release="value", noise_variance=variance)
    _, values, _ = runs(chosen, *map(jnp.asarray, (pairs[0], pairs[1] * (not exact))), steps=STEPS)
    scale = float(chosen.value_sensitivity) / epsilon
    released = np.max(values, axis=2) + np.random.default_rng(2).laplace(scale=scale, size=(2000, 2))
    share = prior_averaged_constants.shares(DELTA, "value", exact=exact)
    q = 0.0 if exact else prior_averaged_constants.noise_gap(math.sqrt(variance), STEPS, share.noise)
    regret = float(chosen.value_sensitivity) - q - sensitivity.utilities(COUNT, CORRELATION, share.gap)
    bound = theory.value_error(
        regret=regret, noise_gap=q, sensitivity=float(chosen.value_sensitivity), epsilon=epsilon, failure=failure
    )
    missed = np.abs(released - pairs[0].max(axis=2))
    assert np.mean(missed > bound) <= share.confidence + share.noise / 2 + failure
    laplace_part = theory.value_error(
        regret=0.0, noise_gap=0.0, sensitivity=float(chosen.value_sensitivity), epsilon=epsilon, failure=failure
    )
    noise = np.abs(released - np.max(values, axis=2))  # theorem 8 is about this alone, and is sharp
    assert np.mean(noise > laplace_part) == pytest.approx(failure, abs=0.015)

"""What one user can move, against brute force: no pair of neighbours moves a statistic further, and some pair attains
it. Half of each bound is exceeded, so none of these checks would pass a bound that is too small.
"""

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import integers

from jaxdpbo import sensitivity
from jaxdpbo.noise import calibration, clipping, mechanisms, private_mean

USERS = 5
HARD = (0.0, 1.0, -1.0, 0.3, 1e30, -1e30, np.nan, np.inf, -np.inf)  # what users may return


def largest_move(statistic, pairs):
    """The largest l2 distance over pairs of neighbours."""
    return max(float(np.linalg.norm(np.asarray(statistic(one)) - np.asarray(statistic(other)))) for one, other in pairs)


def replaced(data, user, record):
    """Its neighbour in the record of one user, users last."""
    other = data.copy()
    other[..., user] = record
    return data, other


def pairs_of_vectors(dimension, count=200):
    """Random neighbours, and all pairs of extreme records of one user."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        data = rng.choice(HARD, size=(dimension, USERS))
        yield replaced(data, rng.integers(USERS), rng.choice(HARD, size=dimension))
    calm = rng.normal(size=(dimension, USERS))
    for first, second in itertools.product(HARD, repeat=2):
        yield replaced(replaced(calm, 2, first)[1], 2, second)


@pytest.mark.parametrize("clip_norm", [0.7, 1.0, 3.0])
@pytest.mark.parametrize("dimension", [1, 3])
def test_a_clipped_sum(clip_norm, dimension):
    clipped = jax.jit(lambda vectors: clipping.clip_and_sum(vectors, clip_norm)[0])
    moved = largest_move(clipped, pairs_of_vectors(dimension))
    assert moved == pytest.approx(sensitivity.clipped_sum(clip_norm), rel=1e-12)


@pytest.mark.parametrize("dimension", [1, 3])
def test_an_integer_sum_moves_by_no_more_exactly(dimension):
    radius = 1000
    program = jax.jit(lambda vectors: clipping.clip_and_sum(vectors, 0.7, jnp.int32(radius))[0])
    moved = largest_move(lambda vectors: integers.value(*program(vectors)).astype(float), pairs_of_vectors(dimension))
    assert 0.99 * sensitivity.integer_sum(radius) < moved <= sensitivity.integer_sum(radius) == 2000


@given(st.integers(0, 10**6))
def test_the_largest_radius_is_the_largest(distance):
    radius = sensitivity.largest_radius(distance)
    assert sensitivity.integer_sum(radius) <= distance < sensitivity.integer_sum(radius + 1)


@pytest.mark.parametrize(("low", "high"), [(0.0, 3.0), (-1.0, 7.0), (5.0, 7.0)])
@pytest.mark.parametrize("noise", ["none", "exact"])
def test_a_mean_of_losses(low, high, noise):
    mu = math.inf if noise == "none" else 1.0
    drawn = calibration.sum_noise(mu, noise, users=USERS, steps=4, dimension=1, dtype=float)
    ends = jnp.asarray(low), jnp.asarray(high)

    @jax.jit
    def raw(losses):
        total, _ = private_mean.sum_clipped_losses(drawn, losses, *ends)
        return private_mean.mean_of_losses(drawn, private_mean.skip_noise(drawn, total), *ends)

    moved = largest_move(raw, ((one, other) for one, other in pairs_of_vectors(1)))
    assert moved == pytest.approx(sensitivity.mean_loss(low, high, USERS), rel=1e-12)


def test_a_loss_that_is_not_finite_counts_as_the_upper_end():
    drawn = calibration.sum_noise(math.inf, "none", users=2, steps=1, dimension=1, dtype=float)
    low, high, losses = jnp.asarray(5.0), jnp.asarray(7.0), jnp.asarray([[jnp.nan, -jnp.inf], [5.0, jnp.inf]])
    mean = private_mean.noisy_mean_loss(jax.random.key(0), drawn, losses, low, high)
    _, clipped = private_mean.sum_clipped_losses(drawn, losses, low, high)
    np.testing.assert_array_equal(mean, [7.0, 6.0])
    np.testing.assert_array_equal(clipped, [2, 1])


def test_traced_numbers_come_back_traced():
    found = jax.jit(lambda b: (sensitivity.clipped_sum(b), sensitivity.mean_loss(0.0 * b, b, 4)))(jnp.float32(3.0))
    assert [(float(each), each.dtype) for each in found] == [(6.0, jnp.float32), (0.75, jnp.float32)]


@given(st.integers(0, 3), st.lists(st.integers(-5, 5), min_size=2, max_size=4))
def test_the_difference_of_two_scores(moved, scores):
    """All neighbours whose scores move by at most ``moved``."""
    shifts = range(-moved, moved + 1)
    gaps = [abs((scores[0] + a) - (scores[1] + b) - (scores[0] - scores[1])) for a in shifts for b in shifts]
    assert max(gaps) == sensitivity.between_scores(moved)


def test_the_exponential_mechanism_pays_for_the_difference():
    """The odds of the worst pair of neighbours: ``epsilon`` is nearly attained among many, and never exceeded."""
    epsilon, moved, count = 1.5, 0.4, 2000
    scores = np.zeros(count)
    before, after = scores.copy(), scores.copy()
    before[0], after[0] = -moved / 2, moved / 2
    before[1:], after[1:] = moved / 2, -moved / 2
    logs = [mechanisms.exponential_log_probabilities(jnp.asarray(each), epsilon, moved) for each in (before, after)]
    worst = float(jnp.max(jnp.abs(logs[1] - logs[0])))
    assert 0.99 * epsilon < worst <= epsilon * (1 + 1e-12)


@given(st.floats(0, 1), st.floats(0, 0.1), st.floats(-1, 1), st.floats(-1, 1))
def test_a_computed_statistic(exact, error, first, second):
    apart = abs((exact + error * first) - error * second)
    assert apart <= sensitivity.add_computation_error(exact, error) + 1e-12
    assert abs((exact + error) + error) == pytest.approx(sensitivity.add_computation_error(exact, error))


def best(gains, rows, top):
    counted = np.clip(np.where(np.isfinite(gains), gains, 0.0), 0.0, top)
    return counted.mean(axis=1)[rows].max()


def test_gains_that_are_evaluated_in_order():
    rng, top, worst = np.random.default_rng(1), 2.0, 0.0
    for _ in range(300):
        gains = rng.choice([0.0, 1.0, 2.0, 5.0, np.nan, np.inf], size=(3, USERS))
        before, after = replaced(gains, rng.integers(USERS), rng.choice([0.0, 2.0, 9.0, np.nan], size=3))
        worst = max(worst, abs(best(before, [0, 1, 2], top) - best(after, [0, 1, 2], top)))
    assert worst == pytest.approx(float(sensitivity.gains_in_order(USERS).share) * top)


def test_gains_of_other_candidates_move_by_their_whole_range():
    gains = np.array([[0.0] * USERS, [2.0] * USERS])
    moved = abs(best(gains, [0], 2.0) - best(gains, [1], 2.0))
    assert moved == float(sensitivity.gains_anywhere(USERS).share) * 2.0


def test_gains_along_lambda():
    """Gains of Lipschitz functions of a path ``w(lambda) = L_l / lambda``; runs that query different candidates."""
    rng, top, gain_lipschitz, loss_lipschitz = np.random.default_rng(2), 2.0, 0.8, 1.0
    lambdas = np.array([1.0, 1.1, 1.3])
    bound = sensitivity.gains_along_lambda(
        lambdas, USERS, top, gain_lipschitz=gain_lipschitz, loss_lipschitz=loss_lipschitz
    )
    models, worst = loss_lipschitz / lambdas, 0.0
    for _ in range(500):
        slopes = rng.choice([-1.0, 1.0], size=USERS) * gain_lipschitz
        shifts = rng.uniform(0.5, 1.5, size=USERS)
        gains = shifts[None] + slopes[None] * (models[:, None] - models[0])
        before, after = replaced(gains, 0, rng.choice([0.0, top, np.nan]))
        first, second = rng.integers(3, size=2)
        worst = max(worst, abs(best(before, [first], top) - best(after, [second], top)) / top)
    assert 0.5 * float(bound.share) < worst <= float(bound.share) < 1
    assert bound.slope == USERS * bound.share
    assert bound.rest == 2 * USERS


def test_gains_of_steep_models_are_capped():
    steep = {"gain_lipschitz": 100.0, "loss_lipschitz": 1.0}
    assert sensitivity.gains_along_lambda([0.1, 1.0], USERS, 2.0, **steep) == sensitivity.gains_anywhere(USERS)
    endless = {"gain_lipschitz": math.inf, "loss_lipschitz": 1.0}
    assert sensitivity.gains_along_lambda([0.1, 1.0], USERS, 2.0, **endless) == sensitivity.gains_anywhere(USERS)
    half = {"gain_lipschitz": 1.0, "loss_lipschitz": 1.0}  # over [1, 2], 1 / 2; a user of two adds the other half
    assert sensitivity.gains_along_lambda([1.0, 2.0], 2, 1.0, **half) == sensitivity.gains_anywhere(2)
    assert sensitivity.gains_along_lambda([1.0], USERS, 2.0, **endless).share == Fraction(1, USERS)
    with pytest.raises(ValueError, match="candidates must be positive, as each is a lambda, got 0"):
        sensitivity.gains_along_lambda([0.0, 1.0], USERS, 2.0, **steep)


def test_utilities_of_neighbouring_draws():
    """Draws of ``f`` and ``f'`` of correlation ``k1`` on independent candidates, where the union bound is sharp."""
    rng, correlation, share, count = np.random.default_rng(3), 0.9, 0.05, 30
    common, first, second = rng.normal(size=(3, 20_000, count))
    both = [math.sqrt(correlation) * common + math.sqrt(1 - correlation) * each for each in (first, second)]
    gaps = np.max(np.abs(both[0] - both[1]), axis=1)
    bound = sensitivity.utilities(count, correlation, share)
    assert np.mean(gaps > bound) <= share
    assert np.mean(gaps > 0.75 * bound) > share


@given(st.floats(0, 9), st.floats(0, 2), st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_the_posterior_mean_by_the_triangle(beta, gap, first, second, between):
    """``|m - f|`` and ``|m' - f'|`` within ``sqrt(beta)``, ``|f - f'|`` within the gap: all corners."""
    width = math.sqrt(beta)
    moved = abs(width * first + gap * between + width * second)
    assert moved <= sensitivity.posterior_mean(beta, gap) * (1 + 1e-12) + 1e-12
    assert 2 * width + gap == pytest.approx(sensitivity.posterior_mean(beta, gap))


def test_the_largest_observation_by_its_corners():
    """A best point within the regret of the top, tops within the gap, noises of either run within half of ``q``."""
    regret, gap, noise = 0.5, 0.2, 0.3
    worst = 0.0
    for top, found, other, up, down in itertools.product((-gap, gap), (0, regret), (0, regret), (-1, 1), (-1, 1)):
        first, second = 1.0 - found + up * noise / 2, 1.0 + top - other + down * noise / 2
        worst = max(worst, abs(first - second))
    assert worst == pytest.approx(sensitivity.largest_observation(regret, gap, noise))


@pytest.mark.parametrize("radius", [None, 2.5])
def test_rows_and_their_cells(radius):
    """Random rows, rounded down to a grid: cells in l1 and in l2, of rows as far apart as they may be."""
    rng, apart, dimension, worst = np.random.default_rng(4), 40, 3, 0.0
    distance = sensitivity.row_distance(radius)
    for _ in range(3000):
        direction = rng.normal(size=dimension) if rng.integers(2) else rng.choice([-1.0, 1.0], size=dimension)
        start = rng.uniform(-1, 1, size=dimension)
        end = start + distance * direction / np.linalg.norm(direction)
        cells = np.abs(np.floor(end / distance * apart) - np.floor(start / distance * apart))
        worst = max(worst, cells.sum())
        assert np.linalg.norm(cells) <= apart + sensitivity.rounding_l2(dimension, each=1.0)
    assert 0.9 * sensitivity.cells_l1(apart, dimension) < worst <= sensitivity.cells_l1(apart, dimension)


def test_cells_fit_where_the_sum_of_the_roots_does():
    for dimension, in_l1 in itertools.product((1, 2, 3, 5), (False, True)):
        for apart, rounding in ((Fraction(7), Fraction(1)), (Fraction(40), Fraction(3, 2))):
            root = math.sqrt(dimension)
            least = dimension * rounding + root * apart if in_l1 else apart + root * rounding
            for paid in (math.floor(least * (1 - 1e-9)), math.ceil(least * (1 + 1e-9))):
                fits = sensitivity.cells_fit(paid, apart, dimension, rounding, in_l1=in_l1)
                assert fits == (paid >= least * (1 - 1e-12))
    assert not sensitivity.cells_fit(1, Fraction(7), 2, Fraction(1))  # and no square makes a negative rest pass
    assert sensitivity.cells_fit(7 + 2, Fraction(7), 4, Fraction(1))  # what is moved exactly is paid for: sqrt(4) = 2
    assert sensitivity.cells_apart(Fraction(9), math.inf) == 9
    assert sensitivity.cells_apart(Fraction(9), 2.5) == 5


def test_a_projected_row():
    projection = np.random.default_rng(5).normal(size=(4, 2))
    directions = np.random.default_rng(6).normal(size=(4000, 4))
    moved = np.linalg.norm(directions / np.linalg.norm(directions, axis=1, keepdims=True) @ projection, axis=1)
    assert 0.98 * sensitivity.projected_row(projection) < moved.max() <= sensitivity.projected_row(projection)


@pytest.mark.parametrize("batch", [1, 3])
def test_permutation_sgd_on_neighbours(batch):
    """The recursion on scalars, in every order of few records: ``2 / (gamma b floor(n / b))`` is not exceeded."""
    gamma, records, worst = 0.5, 6, 0.0
    bound = sensitivity.permutation_sgd(regularisation=gamma, records=records, batch=batch)

    def last(rows, signs):
        weights, steps = 0.0, records // batch
        for t in range(2 * steps):
            here = slice(t % steps * batch, (t % steps + 1) * batch)
            x, y = rows[here], signs[here]
            gradient = np.mean(-y * x / (1 + np.exp(y * x * weights))) + gamma * weights
            weights -= min(1 / (1 + gamma), 1 / (gamma * (t + 1))) * gradient
            weights /= max(1.0, gamma * abs(weights))
        return weights

    for signs in itertools.product((-1.0, 1.0), repeat=records):
        for user in range(records):
            before, after = replaced(np.array(signs), user, -signs[user])
            worst = max(worst, abs(last(np.ones(records), before) - last(np.ones(records), after)))
    assert 0.2 * bound < worst <= bound
    assert sensitivity.permutation_sgd(regularisation=gamma, records=records, batch=batch, bound="paper") == 2 * bound

"""The best of candidates and of a box; a NaN never wins and never ends a climb."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo.surrogate import box_search


def best_of(utilities):
    best, value = box_search.best_candidate(lambda row: jnp.asarray(utilities)[row], jnp.arange(len(utilities)))
    return int(best), float(value)


@pytest.mark.parametrize(
    ("utilities", "best"),
    [
        ([1.0, 3.0, 2.0], 1),
        ([3.0, 1.0, 3.0], 0),
        ([1.0, 1.0 + 1e-14], 0),  # equal but for rounding: the same choice on every backend
        ([-1.0 - 1e-14, -1.0, -2.0], 0),
        ([1.0, 1.0 + 1e-12], 1),
        ([0.0, 1e-300], 1),
        ([np.nan, -5.0, np.nan], 1),
        ([np.nan, 1.0, np.inf], 2),
        ([-np.inf, -np.inf], 0),
        ([-np.inf, -1e300], 1),
        ([-0.0, 0.0], 0),
        ([7.0], 0),
    ],
)
def test_the_first_of_the_largest_wins_and_nan_does_not(utilities, best):
    assert best_of(utilities) == (best, utilities[best])


def test_where_all_are_nan_the_utility_says_so():
    assert best_of([np.nan, np.nan]) == (0, -np.inf)


def test_candidates_may_have_any_shape():
    candidates = jnp.arange(24.0).reshape(4, 3, 2) % 7
    best, value = box_search.best_candidate(lambda c: jnp.sum(c * c), candidates)
    sums = np.sum(np.asarray(candidates) ** 2, axis=(1, 2))
    assert (int(best), value) == (np.argmax(sums), np.max(sums))


@partial(jax.jit, static_argnums=0, static_argnames="steps")
def ascent(utility, start, lower, upper, step_size, *, steps=60):
    return box_search.ascend(
        jax.value_and_grad(utility), lambda x: jnp.clip(x, lower, upper), start, steps=steps, step_size=step_size
    )


def bowl(x):
    return -jnp.sum((x - 0.3) ** 2)


def test_ascend_reaches_the_top_of_a_hill():
    point, value = ascent(bowl, jnp.array([0.9, -0.9]), -1.0, 1.0, 0.1)
    np.testing.assert_allclose(point, 0.3, atol=0.1)
    assert -0.01 < value == bowl(point)


def test_ascend_stays_where_it_may_be():
    point, _ = ascent(bowl, jnp.array([-0.9, -0.5]), -1.0, 0.1, 0.1)
    np.testing.assert_array_equal(point, 0.1)


def test_ascend_keeps_the_start_where_every_step_is_worse():
    start = jnp.full(2, 0.3)
    point, value = ascent(bowl, start + 1e-3, -1e6, 1e6, 1e3, steps=3)
    np.testing.assert_array_equal(point, start + 1e-3)
    assert value == bowl(start + 1e-3)


def wave(x):
    return jnp.sum(jnp.sin(9.0 * x)) - jnp.sum(x * x)


@pytest.mark.parametrize("steps", [1, 7, 60])
def test_ascend_returns_the_best_of_all_it_evaluated(steps):
    """Against a plain loop of Adam with Nesterov momentum (Dozat 2016, algorithm 8) and a cosine-decayed step."""
    start, lower, upper, size = np.array([0.4, -0.2]), -1.0, 1.0, 0.3
    value_and_gradient = jax.jit(jax.value_and_grad(wave))
    point, first, second, seen = start, np.zeros(2), np.zeros(2), []
    for t in range(steps + 1):
        value, gradient = value_and_gradient(point)
        seen.append((float(value), point))
        gradient = np.asarray(gradient)
        first = 0.7 * first + 0.3 * gradient
        second = 0.8 * second + 0.2 * gradient**2
        ahead = 0.7 * first / (1 - 0.7 ** (t + 2)) + 0.3 * gradient / (1 - 0.7 ** (t + 1))
        move = ahead / (np.sqrt(second / (1 - 0.8 ** (t + 1))) + 1e-8)
        share = 0.2 + 0.8 * (1 + np.cos(np.pi * t / steps)) / 2
        point = np.clip(point + size * share * move, lower, upper)
    best, where = max(seen, key=lambda pair: pair[0])
    found, value = ascent(wave, jnp.asarray(start), lower, upper, size, steps=steps)
    np.testing.assert_allclose(value, best, rtol=1e-9)
    np.testing.assert_allclose(found, where, rtol=1e-7)


def hill_beside_nan(x):
    """NaN, gradient included, beyond 0.5; it rises towards the edge."""
    return jnp.where(x[0] > 0.5, jnp.nan, x[0])


def test_ascend_survives_nan_and_keeps_the_best_finite_point():
    point, value = ascent(hill_beside_nan, jnp.zeros(1), -1.0, 1.0, 0.2)
    assert 0.3 < float(value) <= 0.5
    assert value == point[0]


def cliff(x):
    """A finite value whose gradient is NaN at the start, and only there."""
    return jnp.where(x[0] == 0.0, jnp.sqrt(x[0]) * 0.0, -((x[0] - 0.4) ** 2))


def test_ascend_survives_a_nan_gradient():
    point, value = ascent(cliff, jnp.zeros(1), -1.0, 1.0, 0.2)
    np.testing.assert_array_equal(point, 0.0)
    assert value == 0.0


def never(x):
    return jnp.sum(x) * jnp.nan


def test_ascend_where_nothing_is_a_number_returns_the_start_and_minus_infinity():
    start = jnp.array([0.2, 0.4])
    point, value = ascent(never, start, -1.0, 1.0, 0.1)
    np.testing.assert_array_equal(point, start)
    assert value == -np.inf


LOWER, UPPER = jnp.array([-2.0, 5.0]), jnp.array([3.0, 5.5])


def two_hills(x):
    """The wide one at (-1, 5.1) is 1 high; the narrow one at (2, 5.4) is 2 high."""
    wide = jnp.exp(-0.5 * ((x[0] + 1) ** 2 + ((x[1] - 5.1) / 0.3) ** 2))
    return wide + 2 * jnp.exp(-8.0 * ((x[0] - 2) ** 2 + ((x[1] - 5.4) / 0.3) ** 2))


def only_upper_right(x):
    return jnp.where(x[0] + 10 * x[1] > 54, x[0] + x[1], jnp.nan)


@partial(jax.jit, static_argnums=1, static_argnames=("num_restarts", "steps"))
def multi_start(key, utility, lower, upper, initial=None, *, num_restarts=16, steps=60):
    return box_search.multi_start(key, utility, lower, upper, num_restarts=num_restarts, steps=steps, initial=initial)


@pytest.mark.parametrize("seed", range(5))
def test_multi_start_finds_the_higher_of_two_hills(seed):
    point, value = multi_start(jax.random.key(seed), two_hills, LOWER, UPPER)
    np.testing.assert_allclose(point, [2.0, 5.4], atol=0.02)
    np.testing.assert_allclose(value, two_hills(point), rtol=1e-9)


def test_multi_start_from_one_point_stays_on_its_hill():
    point, _ = multi_start(jax.random.key(0), two_hills, LOWER, UPPER, jnp.array([-1.2, 5.0]), num_restarts=1)
    np.testing.assert_allclose(point, [-1.0, 5.1], atol=0.02)


def test_multi_start_stays_in_the_box_and_finds_its_corner():
    point, value = multi_start(jax.random.key(0), only_upper_right, LOWER, UPPER)
    np.testing.assert_allclose(point, UPPER, rtol=1e-12)
    assert np.all(point <= UPPER)
    np.testing.assert_allclose(value, 8.5, rtol=1e-12)


def test_multi_start_where_nothing_is_a_number_returns_a_start_and_minus_infinity():
    start = jnp.array([0.5, 5.25])
    point, value = multi_start(jax.random.key(0), never, LOWER, UPPER, start, num_restarts=3)
    np.testing.assert_allclose(point, start, rtol=1e-12)
    assert value == -np.inf


def test_multi_start_draws_its_starts_from_the_key():
    found = [multi_start(jax.random.key(seed), never, LOWER, UPPER, num_restarts=1)[0] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert np.all(found[0] != found[2])


def test_ascents_begin_at_the_best_of_what_was_tried_and_at_what_must_be():
    """Each hill of a comb is climbed from its own side alone: where an ascent ended says where it began."""
    tried, always = jnp.array([[0.12], [0.32], [0.52], [0.72]]), jnp.array([[0.92]])

    def comb(at):
        hill = jnp.round(10 * at[0] - 0.5)
        return hill - jnp.square(at[0] - 0.05 - hill / 10) * 1e3

    def found(scores, start=always):
        return box_search.ascend_from_best(
            comb, start, tried, jnp.array(scores), num_restarts=1, steps=40, step_size=0.01
        )[0]

    np.testing.assert_allclose(found([0.0, 0.0, 0.0, 1.0]), 0.95, atol=0.01)
    low = jnp.array([[0.02]])
    np.testing.assert_allclose(found([0.0, 0.0, 1.0, 0.0], low), 0.55, atol=0.01)
    np.testing.assert_allclose(found([jnp.nan, -5.0, jnp.nan, jnp.nan], low), 0.35, atol=0.01)


def test_half_of_the_samples_lie_a_twentieth_of_the_box_around_the_incumbent(monkeypatch):
    """And the other half anywhere in the box."""
    seen = []
    monkeypatch.setattr(
        box_search, "ascend_from_best", lambda _, start, samples, *__, **___: seen.append(samples) or (start[0], 0.0)
    )
    lower, upper = jnp.array([-1.0, 10.0]), jnp.array([1.0, 50.0])
    box_search.sample_and_ascend(
        jax.random.key(0), lambda point: jnp.sum(point), lower, upper, incumbent=jnp.array([0.0, 20.0]),
        raw_samples=4000, num_restarts=1, steps=1,
    )  # fmt: skip
    far, near = np.split(np.asarray(seen[0]), 2)
    np.testing.assert_allclose(near.mean(axis=0), [0.5, 0.25], atol=5 * 0.05 / 2000**0.5)
    np.testing.assert_allclose(near.std(axis=0), 0.05, rtol=0.1)
    np.testing.assert_allclose(np.quantile(far, [0.05, 0.5, 0.95], axis=0).T, [[0.05, 0.5, 0.95]] * 2, atol=0.05)

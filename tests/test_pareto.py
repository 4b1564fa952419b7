"""Fronts by brute force: who is dominated, hypervolumes, what a point gains, and by how much it is expected to."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import pareto as oracle

from jaxdpbo.surrogate import acquisition, pareto

CAPACITY = 8


@jax.jit
def front(values, mask, reference):
    strips = pareto.undominated_strips(values, mask, reference)
    return pareto.is_non_dominated(values, mask), pareto.hypervolume(values, mask, reference), strips


volume = jax.jit(pareto.hypervolume)
gained = jax.jit(jax.vmap(acquisition.gained_hypervolume, in_axes=(0, None)))


@jax.jit
def acquisitions(mean, deviation, strips):
    return (
        acquisition.probability_of_improvement(mean, deviation, strips),
        acquisition.expected_hypervolume_improvement(mean, deviation, strips),
        acquisition.hvpoi(mean, deviation, strips, acquisition.gained_hypervolume(mean, strips)),
    )


def drawn(rng, objectives=2):
    """Points with ties and duplicates, some beyond the reference, some masked."""
    values = (
        rng.integers(0, 7, (CAPACITY, objectives)) / 5
        if rng.uniform() < 0.5
        else rng.uniform(0, 1.3, (CAPACITY, objectives))
    )
    return values, rng.uniform(size=CAPACITY) < rng.uniform(), np.ones(objectives)


def test_what_a_point_gains_is_the_difference_of_hypervolumes(trials):
    count = trials("random fronts whose gain of hypervolume is compared", 400, 20_000, 0)
    rng = np.random.default_rng(0)
    for _ in range(count):
        values, mask, reference = drawn(rng)
        kept, total, strips = front(values, mask, reference)
        inside = values[mask]
        np.testing.assert_array_equal(
            kept, [m and not oracle.dominated(v, inside) for v, m in zip(values, mask, strict=True)]
        )
        assert total == pytest.approx(oracle.hypervolume(inside, reference), abs=1e-12)
        point = rng.uniform(-0.2, 1.3, 2)
        expected = oracle.hypervolume(np.vstack([inside, point]), reference) - oracle.hypervolume(inside, reference)
        assert gained(point[None], strips)[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("objectives", [2, 3])
def test_hypervolume_is_the_volume_of_the_union_of_boxes(objectives):
    rng = np.random.default_rng(objectives)
    for _ in range(40):
        values, mask, reference = drawn(rng, objectives)
        assert volume(values, mask, reference) == pytest.approx(oracle.hypervolume(values[mask], reference), abs=1e-12)
    with pytest.raises(ValueError, match="values must have 2 or 3 objectives, got 4"):
        pareto.hypervolume(jnp.ones((3, 4)), jnp.ones(3, bool), jnp.ones(4))


def test_expectations_are_those_of_simulation():
    rng = np.random.default_rng(1)
    for _ in range(6):
        values, mask, reference = drawn(rng)
        strips = pareto.undominated_strips(jnp.asarray(values), jnp.asarray(mask), jnp.asarray(reference))
        mean, deviation = rng.uniform(0, 1.2, 2), rng.uniform(0.05, 0.5, 2)
        sample = mean + deviation * rng.normal(size=(200_000, 2))
        gains = np.asarray(gained(sample, strips))
        improves = np.mean(gains > 0)
        probability, expected, product = acquisitions(mean, deviation, strips)
        assert probability == pytest.approx(improves, abs=0.006)
        assert expected == pytest.approx(gains.mean(), abs=5 * gains.std() / np.sqrt(len(gains)) + 1e-12)
        assert product == pytest.approx(float(probability * gained(mean[None], strips)[0]), rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 2), st.floats(0, 2)), min_size=1, max_size=CAPACITY), st.floats(1e-3, 3))
def test_nothing_dominated_is_worth_anything_and_gradients_are_finite(points, deviation):
    values = np.full((CAPACITY, 2), 9.0)
    values[: len(points)] = points
    mask = np.arange(CAPACITY) < len(points)
    strips = pareto.undominated_strips(jnp.asarray(values), jnp.asarray(mask), jnp.ones(2))
    assert gained(values, strips)[0] == 0  # a point of the front, or beyond the reference
    slopes = gradients(jnp.asarray(values[0]), jnp.full(2, deviation), strips)
    assert all(np.all(np.isfinite(slope)) for slope in slopes)


@jax.jit
def gradients(mean, deviation, strips):
    def hvpoi(mean, deviation, strips):
        gain = acquisition.gained_hypervolume(mean, strips)
        return acquisition.hvpoi(mean, deviation, strips, gain)

    return [
        jax.grad(function, argnums=(0, 1))(mean, deviation, strips)
        for function in (hvpoi, acquisition.expected_hypervolume_improvement)
    ]


def test_orders_of_points_and_what_is_masked_change_nothing():
    values = jnp.asarray([[0.1, 0.9], [0.5, 0.5], [0.9, 0.1], [0.5, 0.5]])
    totals = {
        round(float(volume(values[jnp.asarray(order)], jnp.ones(4, bool), jnp.ones(2))), 12)
        for order in itertools.permutations(range(4))
    }
    assert len(totals) == 1
    nan = values.at[1].set(jnp.nan)
    mask = jnp.array([True, False, True, True])
    assert volume(nan, mask, jnp.ones(2)) == volume(values, mask, jnp.ones(2))

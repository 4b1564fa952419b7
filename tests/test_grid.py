"""Sums of privacy losses on a grid: masses, moments, powers and epsilons against plain ones that share no code."""

import math

import numpy as np
import pytest
from oracles import sampling as oracle
from scipy.special import logsumexp

from jaxdpbo.accounting import grid, renyi, sampling

DELTA = 1e-5


@pytest.mark.daily("0.004-0.22-10", "0.01-4.0-100", "0.3-2.0-30", "0.9-3.0-5")
@pytest.mark.parametrize(
    ("rate", "z", "steps"), [(0.01, 4.0, 100), (0.3, 2.0, 30), (0.05, 1.0, 200), (0.9, 3.0, 5), (0.004, 0.22, 10)]
)
def test_a_composition_is_the_plain_one(rate, z, steps):
    step = sampling.GRID_SHARE * oracle.deviation(rate, z)
    assert sampling.deviation(rate, z) == pytest.approx(oracle.deviation(rate, z), rel=1e-7)
    plain = oracle.epsilon_on_grid(rate, z, steps, step, DELTA)
    assert plain * (1 - 1e-9) <= sampling.profile_epsilon(rate, z, steps, DELTA) <= plain * (1 + 1e-6)


@pytest.mark.parametrize(("rate", "z"), [(0.004, 0.2), (0.3, 1.0), (0.01, 8.0), (0.02, 0.03)])
def test_bins_of_every_width_hold_what_integration_says(rate, z):
    widths = np.array([1.3, 0.7, 0.3, 0.06, 0.02, 0.0099, 0.004]) / max(1, 0.1 / z)
    edges = 0.5 / z + np.append(0.0, np.cumsum(widths))
    mass, up = sampling._masses(rate, 1 / z, edges)
    for number in range(len(widths)):
        expected = oracle.bin_of(rate, z, edges[number], edges[number + 1])
        assert (mass[number], up[number]) == pytest.approx(expected, rel=1e-10, abs=0)


def test_one_steps_pair_is_all_mass_and_symmetric():
    for rate, z in ((0.004, 0.2), (0.3, 1.0), (0.01, 8.0), (1.0, 2.0)):
        step = sampling.GRID_SHARE * sampling.deviation(rate, z)
        part = sampling.discretise_loss(rate, z, step, 1e-14, 7)
        half = len(part.mass) // 2
        assert part.times == 7
        assert part.mass.sum() + part.infinite == pytest.approx(1.0, abs=1e-15)
        assert 0 < part.infinite < 2e-14
        assert part.mass[:half][::-1] * np.exp(step * np.arange(1, half + 1)) == pytest.approx(
            part.mass[half + 1 :], abs=1.1e-14
        )


def test_powers_leave_out_what_is_faint():
    rng = np.random.default_rng(0)
    transform = np.exp(1j * rng.uniform(0, 2 * np.pi, 500)) * rng.uniform(0.5, 1.0, 500)
    for times in (1, 2, 7, 100, 4097):
        found, plain = grid._power(transform, times), transform**times
        np.testing.assert_allclose(found, plain, rtol=1e-15 * (times + 1), atol=1.01 * grid.FAINT)
        faint = np.abs(plain) < 0.9 * grid.FAINT
        assert np.all(found[faint] == 0)
        assert np.any(faint) == (times >= 100)


@pytest.mark.parametrize("length", [3, 4, 10, 11, 12, 40])
def test_a_circle_holds_every_mass_at_its_loss(length):
    mass = np.random.default_rng(1).uniform(size=11)
    expected = np.zeros(length)
    for loss, one in zip(range(-5, 6), mass, strict=True):
        expected[loss % length] += one
    np.testing.assert_allclose(grid._wrap(mass, length), expected, rtol=1e-15)


def random_part(rng, half, times):
    """Masses at a few losses, far ones less likely."""
    mass = rng.uniform(size=2 * half + 1) * 10.0 ** -(rng.uniform(0, 6) * np.abs(np.linspace(-1, 1, 2 * half + 1)))
    mass[rng.integers(0, half)] = 0.0
    return grid.Part(mass / mass.sum(), 0.0, times)


def test_moments_are_sums_of_exponentials():
    rng = np.random.default_rng(2)
    for half, step in ((3, 0.5), (40, 1.0), (3 * grid.BLOCK, 1e-3), (200, 9.0)):
        part, tilts = random_part(rng, half, 1), np.array([1e-3, 0.1, 0.5, 1.0, 5.0])
        losses = step * np.arange(-half, half + 1)
        with np.errstate(divide="ignore"):
            expected = [[logsumexp(sign * t * losses + np.log(part.mass)) for t in tilts] for sign in (1, -1)]
        np.testing.assert_allclose(grid._log_moments(part.mass, step, tilts), expected, rtol=1e-12, atol=1e-13)


def test_moments_of_no_loss():
    assert grid._log_moments(np.array([0.5]), 0.1, np.array([1.0, 2.0])) == pytest.approx(np.log(0.5))


def test_the_window_is_no_wider_than_all_losses():
    still, once = grid.Part(np.array([0.0, 1.0, 0.0]), 0.0, 3), grid.Part(np.array([0.3, 0.2, 0.5]), 0.0, 2)
    assert grid._window([still], 0.5, 1e-9) == (-1.5, 1.5)
    assert grid._window([once], 0.5, 1e-30) == (-1.0, 1.0)


def test_next_to_nothing_is_outside_of_the_window():
    """And it is nearly as narrow as Chernoff's bound can make it."""
    rng, slack, step = np.random.default_rng(3), 1e-4, 0.1
    for _ in range(50):
        parts = [random_part(rng, int(rng.integers(2, 30)), int(rng.integers(1, 200))) for _ in range(2)]
        low, high = grid._window(parts, step, slack)
        total, centre = oracle.summed([(part.mass, part.times) for part in parts])
        losses = step * (np.arange(len(total)) - centre)
        assert total[losses > high].sum() <= slack
        assert total[losses < low].sum() <= slack
        deviation = math.sqrt(total @ losses**2 - (total @ losses) ** 2)
        fine = np.geomspace(1e-3, 50, 1000) / deviation
        moments = sum(part.times * grid._log_moments(part.mass, step, fine) for part in parts)
        best = np.min((moments - math.log(slack)) / fine, axis=1)
        assert high - low <= 1.1 * best.sum()


def test_the_sum_is_the_plain_one():
    """Of a grid that the window cuts, and of one that fits; with losses that lie above zero alone."""
    rng, step, slack = np.random.default_rng(4), 0.05, 1e-9
    skewed = grid.Part(np.array([0.0, 0.0, 0.0, 0.0, 1.0, 3.0, 2.0]) / 6, 1e-8, 400)
    for parts in (
        [random_part(rng, 20, 1)],
        [random_part(rng, 5, 3)],
        [random_part(rng, 20, 300), random_part(rng, 900, 2)],
        [skewed],
    ):
        found = grid.add_losses(parts, step, slack, 0.5)
        total, centre = oracle.summed([(part.mass, part.times) for part in parts])
        losses = np.round(found.losses / step).astype(int)
        inside = losses + centre < len(total)
        np.testing.assert_allclose(found.mass[inside], total[losses[inside] + centre], atol=2 * slack)
        assert np.all(found.losses > 0)
        assert np.all(found.mass >= 0)
        assert found.mass.sum() == pytest.approx(total[centre + 1 :].sum(), abs=2 * slack)
        infinite = 1 - np.prod([(1 - part.infinite) ** part.times for part in parts])
        assert infinite + slack < found.lost < infinite + slack + 1e-11


def test_epsilons_are_those_of_sums_over_all_losses():
    rng = np.random.default_rng(5)
    for _ in range(200):
        losses = np.cumsum(rng.uniform(0.01, 0.3, rng.integers(1, 30)))
        mass = rng.dirichlet(np.ones(len(losses))) * rng.uniform()
        delta = 10 ** rng.uniform(-4, 0)
        found = grid.find_epsilon(mass, losses, delta)
        left = np.sum(mass * np.maximum(-np.expm1(found - losses), 0))
        assert found == 0 or left == pytest.approx(delta, rel=1e-9)
        assert left <= delta * (1 + 1e-9)
    assert grid.find_epsilon(np.zeros(0), np.zeros(0), 1e-3) == 0
    assert grid.find_epsilon(np.array([0.5]), np.array([1.0]), 0.0) == math.inf


def test_divergences_at_all_orders_are_those_at_each():
    for rate, z in ((0.01, 1.0), (0.2, 0.1), (1.0, 3.0)):
        found = renyi.pair_divergences(rate, z)
        near = np.isfinite(found)
        assert np.any(near)
        each = [renyi._divergences(rate, z, np.array([order]))[0] for order in renyi.ORDERS[near]]
        np.testing.assert_allclose(found[near], each, rtol=1e-9, atol=1e-13)
    assert np.all(np.isinf(renyi.pair_divergences(0.5, 0.001)))
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0.0  # of a cache


@pytest.mark.parametrize("z", [0.1, 1.0, 3.0])
def test_divergences_of_whole_batches_are_the_gaussian_mechanisms(z):
    found = renyi.pair_divergences(1.0, z)
    near = np.isfinite(found)
    assert np.count_nonzero(near) > 60
    np.testing.assert_allclose(found[near], renyi.ORDERS[near] / (2 * z**2), rtol=1e-10)

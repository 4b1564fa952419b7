"""Epsilons of DP-SGD with batches without replacement: known values, below every other proof, above every attack."""

import math

import dp_accounting
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import privacy_loss_distribution
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from oracles import sampling as oracle
from scipy.stats import norm

from jaxdpbo import accounting, sensitivity
from jaxdpbo.accounting import grid, renyi, sampling
from jaxdpbo.training import permutation_sgd

ADULT = 256 / 30_956
KNOWN = {  # grid of 0.1 and of 0.02 deviations; the Renyi bound of the pair
    (0.01, 1.0, 10_000): (8.0889493944, 8.0841630989, 8.703),
    (0.01, 4.0, 10_000): (1.0400897201, 1.0392667710, 1.135),
    (0.1, 4.0, 1000): (3.7238658253, 3.7207664421, 4.026),
    (ADULT, 1.0, 7744): (5.5676963689, 5.5645099249, 6.014),
    (8 / 30_956, 12.67, 7740): (0.0040166534, 0.0040130349, None),
}
DELTA = 1e-5
INTEGERS = np.arange(2, 257)


def epsilon(rate, z, steps, delta=DELTA):
    return accounting.sampled_gaussian_epsilon(rate=rate, noise_multiplier=z, steps=steps, delta=delta)


def test_a_delta_among_the_least_floats_is_left_to_the_divergences():
    for delta in (5e-324, 2.3e-308):
        assert sampling.profile_epsilon(0.01, 1.0, 1, delta) == math.inf
        assert epsilon(0.01, 1.0, 1, delta).by == "renyi"


@pytest.mark.parametrize("setting", KNOWN)
def test_known_values(setting):
    coarse, fine, divergence = KNOWN[setting]
    assert epsilon(*setting) == accounting.Bound(pytest.approx(coarse, rel=1e-5), "profile")
    assert sampling.profile_epsilon(*setting, DELTA, 0.02) == pytest.approx(fine, rel=1e-5)
    assert fine < coarse < 1.0015 * fine
    if divergence:
        assert renyi.pair_epsilon(*setting, DELTA) == pytest.approx(divergence, rel=2e-4)


def test_the_published_divergence_is_dp_accountings():
    for rate, z, steps in ((0.01, 1.0, 10_000), (0.01, 4.0, 10_000), (0.1, 4.0, 1000), (0.3, 0.7, 10)):
        orders = np.arange(2, 65)
        theirs = RdpAccountant(orders.tolist(), NeighboringRelation.REPLACE_ONE)
        batches = dp_accounting.SampledWithoutReplacementDpEvent(
            100_000, round(100_000 * rate), dp_accounting.GaussianDpEvent(z)
        )
        theirs.compose(batches, steps)
        ours = renyi.renyi_epsilon(orders, steps * renyi.published_divergence(rate, z, orders), DELTA)
        assert ours == pytest.approx(theirs.get_epsilon(DELTA), rel=1e-6)
    divergences = 10_000 * renyi.published_divergence(0.01, 1.0, INTEGERS)
    assert renyi.renyi_epsilon(INTEGERS, divergences, DELTA) == pytest.approx(13.150418329587026, rel=1e-9)
    assert renyi.renyi_epsilon(INTEGERS, divergences, DELTA, "classic") == pytest.approx(14.105189582029244, rel=1e-9)


@pytest.mark.parametrize(("rate", "z", "order"), [(0.01, 1.0, 2.5), (0.3, 0.7, 1.3), (0.1, 4.0, 30.0), (0.9, 2.0, 5.0)])
def test_the_pairs_divergence_is_the_integral_and_below_the_published(rate, z, order):
    assert renyi._divergences(rate, z, np.array([order]))[0] == pytest.approx(oracle.renyi(rate, z, order), rel=1e-9)
    for whole in (2, 3, 7, 20):
        published = renyi.published_divergence(rate, z, np.array([whole]))[0]
        assert renyi._divergences(rate, z, np.array([whole]))[0] <= published * (1 + 1e-9)


def test_even_moments_have_closed_forms():
    """``E e^(k (x / z - 1 / (2 z^2))) = e^(k (k - 1) / (2 z^2))``, also where moments are small."""
    for z in (0.5, 1.0, 4.0, 50.0):
        second, fourth = np.exp(renyi._even_moments(z, np.array([2, 4])))
        unit = 1 / z**2
        assert second == pytest.approx(math.expm1(unit), rel=1e-9, abs=0)
        if z < 10:  # of the closed form no digit is left
            closed = math.expm1(6 * unit) - 4 * math.expm1(3 * unit) + 6 * math.expm1(unit)
            assert fourth == pytest.approx(closed, rel=1e-9, abs=0)


def test_a_rule_of_n_nodes_integrates_polynomials_up_to_degree_2n_minus_1():
    nodes, weights = renyi.rule(3)
    for degree in range(6):
        assert weights @ nodes**degree == pytest.approx(1 / (degree + 1), rel=1e-12)


def test_every_proof_is_above_ours_and_poisson_sampling_below(trials):
    """Poisson sampling at the same noise multiplier attains what one of our neighbours does."""
    count = trials("random settings of DP-SGD between two other accountants", 20, 500, 3)
    rng = np.random.default_rng(3)
    for _ in range(count):
        rate, z = 10 ** rng.uniform(-4, -0.02), 10 ** rng.uniform(-0.5, 1.3)
        steps, delta = int(10 ** rng.uniform(0, 4)), 10 ** rng.uniform(-7, -3)
        found = epsilon(rate, z, steps, delta)
        published = steps * renyi.published_divergence(rate, z, INTEGERS)
        theirs = [renyi.renyi_epsilon(INTEGERS[i], published[i], delta) for i in range(len(INTEGERS))]
        order = INTEGERS[np.argmin(theirs)]
        pair = renyi.renyi_epsilon(order, steps * renyi._divergences(rate, z, np.array([order]))[0], delta)
        poisson = privacy_loss_distribution.from_gaussian_mechanism(
            z,
            sampling_prob=rate,
            value_discretization_interval=1e-3,
            pessimistic_estimate=False,
            use_connect_dots=False,
        ).self_compose(steps)
        assert found.epsilon <= pair * (1 + 1e-9)
        assert pair <= min(theirs) * (1 + 1e-6)
        assert found.epsilon >= poisson.get_epsilon_for_delta(delta) * (1 - 1e-9), (rate, z, steps, delta)


@pytest.mark.daily("*-[23]-?", "1.0-4-2")
@pytest.mark.parametrize(("records", "batch"), [(2, 1), (3, 1), (3, 2), (4, 2), (2, 2)])
@pytest.mark.parametrize("z", [0.5, 1.0, 2.0])
def test_no_choice_of_gradients_exceeds_one_step_and_one_attains_it(records, batch, z):
    for delta in (0.01, 0.1):
        found = epsilon(batch / records, z, 1, delta)
        attacked = max(oracle.composed_delta([pair], found.epsilon, 6001) for pair in oracle.choices(records, batch, z))
        assert attacked <= delta + 1e-6
        if found.epsilon > 0:
            assert attacked > 0.97 * delta


def test_no_choice_of_gradients_exceeds_two_steps(trials):
    """Each step's gradients chosen by themselves, of four records; the bound is nearly attained."""
    count = trials("random pairs of gradients of two steps of DP-SGD", 60, 1000, 5)
    rng = np.random.default_rng(5)
    pairs = list(oracle.choices(4, 2, 1.0))
    found = epsilon(0.5, 1.0, 2, 0.05).epsilon
    ends = [pair for pair in oracle.choices(4, 2, 1.0, (-1.0, 1.0))]
    attacked = [oracle.composed_delta([first, second], found) for first in ends[4:12] for second in ends[4:12]]
    attacked += [oracle.composed_delta([pairs[i], pairs[j]], found) for i, j in rng.integers(0, len(pairs), (count, 2))]
    assert max(attacked) <= 0.05 + 1e-5
    planted = epsilon(0.5, 2.0, 2, 0.05).epsilon  # noise counted double
    assert max(oracle.composed_delta([pair, pair], planted) for pair in ends) > 0.05


def test_one_step_is_its_profile():
    for rate, z in ((0.01, 1.0), (0.2, 0.6), (0.5, 3.0)):
        for level in (0.05, 0.2, 0.8):
            delta = oracle.step_profile(rate, z, level)
            if delta > 1e-8:
                assert level <= epsilon(rate, z, 1, delta).epsilon < level * 1.03 + 1e-6


def test_the_ends_are_the_gaussian_mechanism_and_nothing():
    assert epsilon(1.0, 2.0, 4) == (accounting.gdp_epsilon(1.0, DELTA), "gaussian")
    assert epsilon(1 - 1e-9, 1.0, 1).epsilon == pytest.approx(accounting.gdp_epsilon(1.0, DELTA), rel=2e-3)
    assert epsilon(0.0, 1.0, 100) == epsilon(0.1, 1.0, 0) == (0.0, "union")
    assert epsilon(0.1, 0.0, 1) == (math.inf, "gaussian")
    assert epsilon(1e-5, 50.0, 10, 1e-3) == (0.0, "union")
    assert 10 * 1e-5 * (2 * norm.cdf(0.01) - 1) < 1e-3
    largest = 1e-3 / (3 * (2 * norm.cdf(0.5) - 1))  # the rate at which three steps together move that much
    assert [epsilon(share * largest, 1.0, 3, 1e-3).by for share in (0.99, 1.01)] == ["union", "profile"]


def test_beyond_what_a_grid_is_for_the_renyi_bound_stands():
    found = epsilon(0.5, 0.5, 2000)
    assert found == (pytest.approx(renyi.pair_epsilon(0.5, 0.5, 2000, DELTA)), "renyi")
    assert sampling.MAX_EPSILON < found.epsilon < sampling.profile_epsilon(0.5, 0.5, 2000, DELTA)
    assert grid.find_epsilon(np.array([0.5]), np.array([800.0]), 1e-3) == math.inf  # exp(800) is none
    losses = np.linspace(0.1, 5.0, 50)
    last = np.array([grid.find_epsilon(np.array([0.3]), np.array([loss]), 1e-30) for loss in losses])
    none = np.isinf(last)  # where rounding leaves some 1e-17 of the mass beyond the last loss
    np.testing.assert_allclose(last[~none], losses[~none])
    assert 0 < np.sum(none) < len(losses)


@given(
    st.floats(-5, 0), st.floats(math.log10(0.05), 2), st.integers(1, 1_000_000), st.floats(-9, -2),
    st.sampled_from(["rate", "noise", "steps", "delta"]), st.floats(0.01, 1),
)  # fmt: skip
def test_more_of_anything_that_leaks_leaks_more(rate, z, steps, delta, what, by):
    """Monotone in every argument, up to the grid's step; and never NaN, whatever the setting."""
    first = epsilon(10**rate, 10**z, steps, 10**delta).epsilon
    rate, z, steps, delta = {
        "rate": (min(rate + by, 0.0), z, steps, delta),
        "noise": (rate, z - by, steps, delta),
        "steps": (rate, z, math.ceil(steps * 10**by), delta),
        "delta": (rate, z, steps, delta - by),
    }[what]
    second = epsilon(10**rate, 10**z, steps, 10**delta).epsilon
    assert 0 <= first <= second * 1.02 + 1e-9


def learnt_apart(batch, rng):
    """How far the shipped learner moves where one record is replaced, in units of ``1 / gamma``; and the tight bound.

    The same key for both: the same order. Records of one dimension at the ends of the unit ball, and others; the last
    one visited, or any other, is replaced by its opposite, by one beyond the ball, or by one that is no number.
    """
    keys = jax.random.split(jax.random.key(batch), PAIRS)
    gammas = 10.0 ** rng.uniform(-1, 1, PAIRS)
    x = rng.normal(size=(PAIRS, 20, 2)) * 10.0 ** rng.uniform(-1, 1, size=(PAIRS, 20, 1))
    x[::2] = [1.0, 0.0]
    y = rng.integers(0, 2, (PAIRS, 20))
    y[::4] = 1
    other_x, other_y = x.copy(), y.copy()
    orders = jax.vmap(lambda key: jax.random.permutation(jax.random.split(key)[0], 20))(keys)
    replaced = np.where(
        rng.uniform(size=PAIRS) < 0.7, np.asarray(orders)[:, 19 - 20 % batch], rng.integers(0, 20, PAIRS)
    )
    these = np.arange(PAIRS), replaced
    other_y[these] = 1 - y[these]
    scale = rng.choice([1.0, -1.0, 1e3, -1e3, np.nan, np.inf], PAIRS, p=[0.6, 0.1, 0.1, 0.1, 0.05, 0.05])
    with np.errstate(invalid="ignore"):  # infinity times zero
        other_x[these] *= scale[:, None]

    @jax.jit
    @jax.vmap
    def learnt(key, x, y, gamma):
        return permutation_sgd.train_by_permutation(key, x, y, gamma, jnp.zeros(()), passes=3, batch=batch)

    found, other = (np.asarray(learnt(keys, *records, gammas)) for records in ((x, y), (other_x, other_y)))
    return np.linalg.norm(found - other, axis=1) * gammas


PAIRS = 200


@pytest.mark.parametrize("batch", [3, 4])
def test_a_learner_of_output_perturbation_moves_by_at_most_the_sensitivity(batch):
    """Trap 12: the shipped permutation SGD on neighbouring records moves by half the tight bound at most, and nearly.

    The bound of one record over the batch, which a step suggests, is exceeded.
    """
    bound = sensitivity.permutation_sgd(regularisation=1.0, records=20, batch=batch)
    assert sensitivity.permutation_sgd(regularisation=1.0, records=20, batch=batch, bound="paper") == 2 * bound
    assert bound == pytest.approx(2 / (20 - 20 % batch))
    moved = learnt_apart(batch, np.random.default_rng(0))
    assert 0.4 * bound < np.max(moved) <= 0.5 * bound
    assert np.max(moved) > bound / batch


def test_the_sparse_vectors_split_spends_what_it_says():
    threshold, queries = accounting.split_noise(1.0, 5)
    assert threshold + queries == 1
    assert accounting.sparse_vector_epsilon(1.0, 5) == pytest.approx((1 + 10 ** (1 / 3)) * (1 + 10 ** (2 / 3)))
    for share in (0.9, 1.1):  # another split of the same epsilon compares with more noise
        other = share * threshold
        rest = 10 / (accounting.sparse_vector_epsilon(1.0, 5) - 1 / other)
        assert other**2 + rest**2 > threshold**2 + queries**2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: epsilon(1.1, 1.0, 1), ValueError, r"rate must lie in \[0, 1\]"),
        (lambda: epsilon(0.1, -1.0, 1), ValueError, "noise_multiplier must be at least zero"),
        (lambda: epsilon(0.1, 1.0, 1.5), TypeError, "steps must be an integer"),
        (lambda: epsilon(0.1, 1.0, -1), ValueError, "steps must be at least 0"),
        (lambda: epsilon(0.1, 1.0, 1, 0.0), ValueError, "delta must lie strictly"),
        (lambda: accounting.compose_epsilon([(1.1, 1.0, 1)], DELTA), ValueError, r"rate must lie in \[0, 1\]"),
        (lambda: accounting.compose_epsilon([(-0.1, 1.0, 1)], DELTA), ValueError, r"rate must lie in \[0, 1\]"),
        (lambda: accounting.split_noise(1.0, 2.5), TypeError, "answers must be an integer"),
        (lambda: accounting.split_noise(0.0, 2), ValueError, "noise must be positive"),
        (
            lambda: sensitivity.permutation_sgd(regularisation=1.0, records=3, batch=4),
            ValueError,
            "batch must be at most",
        ),
        (
            lambda: sensitivity.permutation_sgd(regularisation=0.0, records=3),
            ValueError,
            "regularisation must be positive",
        ),
    ],
)
def test_bad_settings_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_many_settings_at_once_are_each_of_them(monkeypatch):
    settings = [*KNOWN, (0.5, 0.5, 2000), (1.0, 2.0, 4), (0.0, 1.0, 9), (0.1, 0.0, 1), (0.01, 1.0, 10_000)]
    rates, noises, steps = map(np.array, zip(*settings, strict=True))
    each = [epsilon(*one).epsilon for one in settings]
    taken, one_by_one = [], sampling._bound
    monkeypatch.setattr(sampling, "_bound", lambda *setting: taken.append(setting) or one_by_one(*setting))
    found = accounting.sampled_gaussian_epsilons(rates=rates, noise_multipliers=noises, steps=steps, delta=DELTA)
    assert found.dtype == np.float64
    assert found.tolist() == each
    assert len(taken) == len(set(taken)) == len(settings) - 1  # the last is the first again


def many(rates=(0.1, 0.2), noise_multipliers=(1.0, 2.0), steps=(1, 2), delta=DELTA):
    return accounting.sampled_gaussian_epsilons(
        rates=rates, noise_multipliers=noise_multipliers, steps=steps, delta=delta
    )


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"rates": 0.1}, ValueError, r"rates must have shape \(d,\), got \(\)"),
        ({"noise_multipliers": [1.0]}, ValueError, r"noise_multipliers must have shape \(2,\), got \(1,\)"),
        ({"steps": [[1, 2]]}, ValueError, r"steps must have shape \(2,\), got \(1, 2\)"),
        ({"rates": [0.1, 1.1]}, ValueError, r"rates must lie in \[0, 1\], got .*1\.1"),
        ({"rates": [-0.1, 0.1]}, ValueError, r"rates must lie in \[0, 1\]"),
        ({"noise_multipliers": [1.0, -1.0]}, ValueError, "noise_multipliers must be at least zero"),
        ({"steps": [1, 2.5]}, TypeError, "steps must be an integer"),
        ({"steps": [1, -2]}, ValueError, "steps must be at least 0"),
        ({"delta": 1.0}, ValueError, "delta must lie strictly"),
    ],
)
def test_bad_vectors_of_settings_are_named(given, error, message):
    assert many().shape == (2,)
    with pytest.raises(error, match=message):
        many(**given)


def test_published_trainings_add_up():
    trainings = [(0.01, 1.0, 300), (0.05, 2.0, 40), (0.2, 5.0, 7)]
    found = accounting.compose_epsilon(trainings, DELTA)
    assert found == pytest.approx(accounting.compose_epsilon(trainings[::-1], DELTA))
    assert found > max(epsilon(*one).epsilon for one in trainings)
    split = [(0.01, 1.0, 100), (0.01, 1.0, 200)]
    assert accounting.compose_epsilon(split, DELTA) == pytest.approx(renyi.pair_epsilon(0.01, 1.0, 300, DELTA))
    assert epsilon(0.01, 1.0, 300).epsilon < accounting.compose_epsilon(split, DELTA)
    assert accounting.compose_epsilon([], DELTA) == accounting.compose_epsilon([(0.0, 1.0, 5)], DELTA) == 0
    assert accounting.compose_epsilon([(0.5, 0.0, 1)], DELTA) == math.inf
    whole = [(1.0, 3.0, 2), (1.0, 4.0, 5)]
    gaussian = accounting.gdp_epsilon(math.sqrt(2 / 9 + 5 / 16), DELTA)
    assert gaussian <= accounting.compose_epsilon(whole, DELTA) < 1.2 * gaussian


@pytest.mark.parametrize(("rate", "z", "steps", "delta"), [(1e-7, 0.5, 10_000, 1e-6), (1e-8, 0.4, 10**6, 1e-9)])
def test_a_grid_that_would_not_fit_in_memory_is_not_made(rate, z, steps, delta, monkeypatch):
    """Before: gigabytes at small rates, at which a step's loss is tiny but for far, rare ones."""
    monkeypatch.setattr(sampling, "discretise_loss", None)
    found = sampling._bound(rate, z, steps, delta)
    assert 0 < found.epsilon < accounting.gdp_epsilon(math.sqrt(steps) / z, delta)
    assert found.by == "renyi"

"""GDP accounting: exact against quadrature and an independent library, and rounded towards less privacy claimed."""

import itertools
import math
from decimal import Decimal

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import accounting as oracle

from jaxdpbo import accounting

MUS = [1e-6, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0]
EPSILONS = [0.0, 1e-8, 1e-3, 0.1, 1.0, 5.0, 50.0, 1000.0]
DELTAS = [1e-300, 1e-100, 1e-30, 1e-10, 1e-5, 0.01, 0.3, 0.9, 0.999999]


def exponents(low, high):
    return st.floats(low, high).map(lambda power: 10.0**power)


def close(expected, rel, abs=0.0):
    """Without the absolute tolerance of 1e-12 that ``approx`` adds unasked."""
    return pytest.approx(expected, rel=rel, abs=abs)


SOME_MU = exponents(-6, 2)
SOME_EPSILON = st.just(0.0) | exponents(-8, 5)
SOME_DELTA = exponents(-300, -1e-9) | st.floats(1e-3, 1 - 1e-9)


@pytest.mark.parametrize("mu", MUS)
def test_delta_is_the_hockey_stick_divergence(mu):
    for epsilon in EPSILONS:
        expected = oracle.log_delta(mu, epsilon)
        found = accounting.gdp_delta(mu, epsilon)
        if expected < -700:
            assert found <= 1e-300
        else:
            assert found == close(math.exp(expected), rel=1e-9 if mu >= 0.01 else 1e-5)


def test_delta_at_known_places():
    assert accounting.gdp_delta(1.0, 0.0) == close(0.3829249225480262, rel=1e-14)  # 2 Phi(1/2) - 1
    assert accounting.gdp_delta(1.0, 1.0) == close(0.12693673750664395, rel=1e-13)
    phi = 0.022750131948179195  # Phi(-2)
    assert accounting.gdp_delta(2.0, 2.0) == close(0.5 - math.exp(2) * phi, rel=1e-13)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("mu", MUS)
def test_epsilon_solves_for_it(mu, delta):
    found = accounting.gdp_epsilon(mu, delta)
    assert math.isfinite(found)
    assert found == close(oracle.epsilon(mu, delta), rel=1e-8, abs=1e-15)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS[2:])
def test_mu_solves_for_it(epsilon, delta):
    assert accounting.gdp_mu(epsilon, delta) == close(oracle.mu(epsilon, delta), rel=1e-8)


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-17, 1e-12, 1e-5])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1.0])
def test_calibration_never_overshoots_the_true_delta(epsilon, delta):
    """By the oracle, not by our own formula: an error that both share would hide."""
    assert oracle.log_delta(accounting.gdp_mu(epsilon, delta), epsilon) <= math.log(delta) + 1e-4


@pytest.mark.parametrize("mu", [1e-20, 1e-17, 1e-15, 1e-12, 1e-6])
def test_a_little_noise_is_never_no_loss(mu):
    """At epsilon 0 the divergence is ``2 Phi(mu / 2) - 1``, about ``mu / sqrt(2 pi)``: small, and not 0."""
    assert accounting.gdp_delta(mu, 0.0) == close(mu / math.sqrt(2 * math.pi), rel=1e-3)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_independent_library_agrees_on_epsilon(mu, delta):
    expected = dp_accounting.get_epsilon_gaussian(1.0 / mu, delta)
    assert accounting.gdp_epsilon(mu, delta) == close(expected, rel=1e-8, abs=1e-11)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_independent_library_agrees_on_mu(epsilon, delta):
    expected = 1.0 / dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert accounting.gdp_mu(epsilon, delta) == close(expected, rel=1e-8)


def test_the_edges():
    assert accounting.gdp_delta(0.0, 0.0) == accounting.gdp_delta(0.0, 3.0) == 0.0
    assert accounting.gdp_delta(math.inf, 0.0) == accounting.gdp_delta(math.inf, 1e300) == 1.0
    assert accounting.gdp_delta(1.0, math.inf) == 0.0
    assert accounting.gdp_epsilon(0.0, 1e-5) == 0.0
    assert accounting.gdp_epsilon(math.inf, 1e-5) == math.inf
    assert accounting.gdp_epsilon(1.0, 0.5) == 0.0


def test_an_enormous_mu_costs_an_enormous_epsilon():
    for mu in (1e20, 1e150, 1e155, 1e300):
        assert accounting.gdp_epsilon(mu, 1e-5) >= min(mu * mu / 4, 1e300)


@pytest.mark.parametrize("mu", MUS)
def test_delta_falls_with_epsilon_to_the_last_digit(mu):
    deltas = [accounting.gdp_delta(mu, epsilon) for epsilon in [0.0, *np.geomspace(1e-9, 1e6, 100)]]
    assert deltas == sorted(deltas, reverse=True)
    assert all(0 <= delta <= 1 for delta in deltas)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_delta_rises_with_mu_to_the_last_digit(epsilon):
    deltas = [accounting.gdp_delta(mu, epsilon) for mu in np.geomspace(1e-9, 1e3, 100)]
    assert deltas == sorted(deltas)


def test_the_epsilon_of_any_delta_keeps_it_always(trials):
    count = trials("gdp_delta(mu, gdp_epsilon(mu, delta)) <= delta", 500, 10_000, 0)

    @settings(max_examples=count)
    @given(SOME_MU, SOME_DELTA)
    def holds(mu, delta):
        epsilon = accounting.gdp_epsilon(mu, delta)
        assert math.isfinite(epsilon)
        assert accounting.gdp_delta(mu, epsilon) <= delta
        if epsilon > 0:  # and it is no larger than it must be
            assert accounting.gdp_delta(mu, epsilon * (1 - 1e-6)) > delta

    holds()


def test_the_calibrated_mu_keeps_epsilon_and_delta_always(trials):
    count = trials("gdp_delta(gdp_mu(epsilon, delta), epsilon) <= delta", 500, 10_000, 0)

    @settings(max_examples=count)
    @given(SOME_EPSILON, SOME_DELTA)
    def holds(epsilon, delta):
        mu = accounting.gdp_mu(epsilon, delta)
        assert 0 < mu < math.inf
        assert accounting.gdp_delta(mu, epsilon) <= delta
        if delta < 0.9:  # near 1 every epsilon has the same delta, to the last digit
            assert accounting.gdp_epsilon(mu, delta) <= epsilon * (1 + 1e-9) + 1e-12

    holds()


def test_a_delta_of_a_large_level_is_rounded_up_where_it_is_steepest():
    """Near ``epsilon = mu^2 / 2``, where ``mu / 2 - epsilon / mu`` loses digits and the density is largest."""
    for distance in (0.1, 0.2, 0.3, 0.4, 0.5):
        epsilon = 30 * (15 - distance)
        exact, found = oracle.exact_delta(30.0, epsilon), Decimal(accounting.gdp_delta(30.0, epsilon))
        assert exact <= found <= exact + Decimal("1e-14")


def test_conversions_err_towards_less_privacy_in_the_last_digits(trials):
    """Against 50 digits: each conversion is a bound, and no looser than floats must be."""
    count = trials("conversions of GDP compared with 50 digits", 60, 3000, 5)
    rng, wrong = np.random.default_rng(5), []
    for number in range(count):
        mu = 10.0 ** rng.uniform(-3, 1.5)
        delta = 10.0 ** rng.uniform(*((-300, -0.4), (-12, -0.4))[number % 2])
        epsilon = accounting.gdp_epsilon(mu, delta)
        if oracle.exact_delta(mu, epsilon) > Decimal(delta):
            wrong.append(("epsilon", mu, delta))
        exact, found = oracle.exact_delta(mu, epsilon), Decimal(accounting.gdp_delta(mu, epsilon))
        if not exact <= found <= exact * (1 + Decimal("5e-12")) + Decimal("2e-322"):
            wrong.append(("delta", mu, epsilon, float(found / exact - 1)))
        if oracle.exact_delta(accounting.gdp_mu(epsilon, delta), epsilon) > Decimal(delta):
            wrong.append(("mu", epsilon, delta))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@settings(max_examples=300)
@given(SOME_MU, SOME_EPSILON, SOME_DELTA, st.floats(1.01, 100.0))
def test_more_noise_never_costs_more(mu, epsilon, delta, factor):
    assert accounting.gdp_delta(mu, epsilon) <= accounting.gdp_delta(mu * factor, epsilon)
    assert accounting.gdp_epsilon(mu, delta) <= accounting.gdp_epsilon(mu * factor, delta)
    larger = min(delta * factor, 1 - 1e-9)
    assert accounting.gdp_epsilon(mu, larger) <= accounting.gdp_epsilon(mu, delta)
    assert accounting.gdp_mu(epsilon, delta) <= accounting.gdp_mu(epsilon, larger)
    assert accounting.gdp_mu(epsilon, delta) <= accounting.gdp_mu(epsilon * factor, delta)
    deviation = accounting.gaussian_standard_deviation(1.0, mu)
    assert accounting.gaussian_standard_deviation(1.0, mu * factor) < deviation
    assert accounting.gaussian_mu(1.0, deviation * factor) < accounting.gaussian_mu(1.0, deviation)


@settings(max_examples=300)
@given(st.lists(SOME_MU, min_size=1, max_size=6), SOME_MU, st.randoms(use_true_random=False))
def test_composition_is_the_root_of_the_sum_of_squares_in_any_order(mus, one_more, random):
    total = accounting.compose_gdp(mus)
    assert total == close(math.sqrt(math.fsum(mu * mu for mu in mus)), rel=1e-15)
    shuffled = random.sample(mus, len(mus))
    assert accounting.compose_gdp(shuffled) == close(total, rel=2e-16)
    assert total <= accounting.compose_gdp([*mus, one_more])
    assert max(mus) <= total <= sum(mus) * (1 + 1e-15)
    assert accounting.compose_gdp([accounting.compose_gdp(mus), one_more]) == close(
        accounting.compose_gdp([*mus, one_more]), rel=1e-15
    )


def test_composition_of_nothing_and_of_no_privacy():
    assert accounting.compose_gdp([]) == 0.0
    assert accounting.compose_gdp(iter([0.0, 3.0, 4.0])) == 5.0
    assert accounting.compose_gdp([1.0, math.inf]) == math.inf


@settings(max_examples=100)
@given(SOME_MU, st.integers(1, 3000))
def test_steps_compose_to_what_was_split(mu, steps):
    step = accounting.split_gdp(mu, steps)
    assert accounting.compose_gdp(itertools.repeat(step, steps)) == close(mu, rel=1e-12)


def test_noise_and_level_are_each_other_s_inverse():
    assert accounting.gaussian_standard_deviation(2.0, 0.5) == 4.0
    assert accounting.gaussian_mu(2.0, 4.0) == 0.5
    assert accounting.gaussian_standard_deviation(2.0, math.inf) == 0.0
    assert accounting.gaussian_mu(2.0, 0.0) == math.inf
    assert accounting.gaussian_mu(2.0, math.inf) == 0.0


@pytest.mark.parametrize(("mu", "steps"), [(1.0, 1), (1.0, 25), (0.5, 150), (4.0, 7)])
def test_the_exported_event_is_the_run(mu, steps):
    event = accounting.dp_event(mu, steps)
    loss = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
    for delta in (1e-10, 1e-5, 1e-2):
        exact = accounting.gdp_epsilon(mu, delta)
        assert exact - 1e-9 <= loss.get_epsilon(delta) <= exact + 2e-3
        renyi = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
        zcdp = mu * mu / 2 + mu * math.sqrt(-2 * math.log(delta))  # Bun and Steinke (2016), propositions 1.3 and 1.6
        assert exact <= renyi.get_epsilon(delta) <= zcdp * 1.01


def test_under_replace_one_the_event_would_be_charged_twice_the_sensitivity():
    """Our noise multiplier is over the replace-one sensitivity already: the docstring's warning, measured."""
    event = accounting.dp_event(1.0, 4)
    doubled = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(event).get_epsilon(1e-5)
    assert doubled == close(accounting.gdp_epsilon(2.0, 1e-5), rel=0, abs=2e-3)


def test_a_run_without_noise_is_a_non_private_event():
    assert isinstance(accounting.dp_event(math.inf, 3), dp_accounting.NonPrivateDpEvent)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: accounting.gdp_delta(-1.0, 1.0), ValueError, "mu must be at least zero, got -1.0"),
        (lambda: accounting.gdp_delta(math.nan, 1.0), ValueError, "mu must not be NaN"),
        (lambda: accounting.gdp_delta(1.0, -1e-9), ValueError, "epsilon must be at least zero, got -1e-09"),
        (lambda: accounting.gdp_delta("1", 1.0), TypeError, "mu must be one real number, got '1'"),
        (lambda: accounting.gdp_delta(np.ones(2), 1.0), TypeError, "mu must be one real number"),
        (lambda: accounting.gdp_epsilon(-1.0, 0.1), ValueError, "mu must be at least zero, got -1.0"),
        (lambda: accounting.gdp_epsilon(1.0, 0.0), ValueError, "delta must lie strictly between 0 and 1, got 0.0"),
        (lambda: accounting.gdp_epsilon(1.0, 1.0), ValueError, "delta must lie strictly between 0 and 1, got 1.0"),
        (lambda: accounting.gdp_epsilon(1.0, math.nan), ValueError, "delta must not be NaN"),
        (lambda: accounting.gdp_mu(-1.0, 0.1), ValueError, "epsilon must be at least zero and finite, got -1.0"),
        (lambda: accounting.gdp_mu(math.inf, 0.1), ValueError, "epsilon must be at least zero and finite, got inf"),
        (lambda: accounting.gdp_mu(1.0, 2.0), ValueError, "delta must lie strictly between 0 and 1, got 2.0"),
        (lambda: accounting.compose_gdp([1.0, -1.0]), ValueError, "mu must be at least zero, got -1.0"),
        (lambda: accounting.compose_gdp([1.0, math.nan]), ValueError, "mu must not be NaN"),
        (lambda: accounting.split_gdp(1.0, 0), ValueError, "steps must be at least 1, got 0"),
        (lambda: accounting.split_gdp(1.0, 2.5), TypeError, "steps must be an integer, got 2.5"),
        (
            lambda: accounting.gaussian_standard_deviation(0.0, 1.0),
            ValueError,
            "sensitivity must be positive, got 0.0",
        ),
        (lambda: accounting.gaussian_standard_deviation(1.0, 0.0), ValueError, "mu must be positive, got 0.0"),
        (lambda: accounting.gaussian_mu(math.inf, 1.0), ValueError, "sensitivity must be finite, got inf"),
        (lambda: accounting.gaussian_mu(1.0, -1.0), ValueError, "standard_deviation must be at least zero, got -1.0"),
        (lambda: accounting.dp_event(0.0), ValueError, "mu must be positive, got 0.0"),
        (lambda: accounting.dp_event(1.0, 0), ValueError, "steps must be at least 1, got 0"),
    ],
)
def test_wrong_input_is_refused_by_name(call, error, message):
    with pytest.raises(error, match=message):
        call()

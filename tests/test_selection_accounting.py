"""What private selection costs, brute-forced: the law of K, the theorem on finite mechanisms, published bounds."""

import math

import numpy as np
import pytest

from jaxdpbo import accounting
from jaxdpbo.accounting import selection

GOLDEN = [  # eta, mean, mu, delta -> gamma, epsilon: a prototype's, to be met to 1e-5
    (-0.5, 16, 0.5, 1e-5, 0.00104058, 2.90406),
    (0.0, 16, 0.5, 1e-5, 0.0145627, 3.09303),
    (1.0, 16, 0.5, 1e-5, 0.0625, 3.37001),
    (0.0, 10, 1.0, 1e-6, 0.0269183, 6.67592),
]
LAWS = [(-0.5, 4.0), (-0.5, 30.0), (0.0, 3.0), (0.0, 16.0), (1.0, 2.0), (1.0, 16.0), (2.5, 8.0), (0.3, 40.0)]


@pytest.mark.parametrize(("eta", "mean", "mu", "delta", "gamma", "epsilon"), GOLDEN)
def test_golden_values(eta, mean, mu, delta, gamma, epsilon):
    law = accounting.repetitions(eta, mean)
    assert law.gamma == pytest.approx(gamma, rel=1e-5)
    found = accounting.selection_epsilon(law, lambda at: accounting.gdp_delta(mu, at), delta)
    assert found == pytest.approx(epsilon, rel=1e-5)
    assert accounting.selection_profile(law, lambda at: accounting.gdp_delta(mu, at))(found) <= delta * (1 + 1e-9)


@pytest.mark.parametrize(("eta", "mean"), LAWS)
def test_the_law_has_its_mean_and_its_tail(eta, mean):
    law = accounting.repetitions(eta, mean)
    count = 200_000
    found = accounting.repetition_probabilities(law, count)
    tail = accounting.tail_probability(law, count)
    assert np.sum(found) + tail == pytest.approx(1.0, abs=1e-9)
    assert found @ np.arange(1, count + 1) == pytest.approx(mean, rel=1e-6)
    for largest in (1, 5, 50):
        true = 1 - np.sum(found[:largest])
        assert true <= accounting.tail_probability(law, largest) * (1 + 1e-9) + 1e-12


def selected(law, weights, count=4000):
    """The law of the best of K draws of scores ``0, 1, ...``, which are their ranks, by summing over K."""
    below = np.concatenate([[0.0], np.cumsum(weights)])
    chances = accounting.repetition_probabilities(law, count)
    powers = np.arange(1, count + 1)[:, None]
    return chances @ (below[1:] ** powers - below[:-1] ** powers)


def profile_of(first, second):
    """Both directions' hockey-stick divergences, at any epsilon."""

    def profile(epsilon):
        factor = math.exp(epsilon)
        return max(
            float(np.sum(np.maximum(first - factor * second, 0))), float(np.sum(np.maximum(second - factor * first, 0)))
        )

    return profile


def test_no_finite_mechanism_violates_the_theorem(trials):
    count = trials("finite mechanisms on which the selection theorem was brute-forced", 60, 10_000, 3)
    rng = np.random.default_rng(3)
    laws = [accounting.repetitions(*law) for law in LAWS if law[1] <= 16.0]
    closest = 0.0
    for number in range(count):
        law = laws[number % len(laws)]
        outcomes = rng.integers(2, 6)
        first = rng.dirichlet(np.full(outcomes, rng.choice([0.3, 1.0, 3.0])))
        second = first * np.exp(rng.choice([0.1, 0.5, 1.5]) * rng.normal(size=outcomes))
        second /= second.sum()
        chosen = [selected(law, each, 600) for each in (first, second)]
        truth = profile_of(*chosen)
        for epsilon in (0.05, 0.3, 1.0, 2.0, 4.0):
            bound = accounting.selection_profile(law, profile_of(first, second))(epsilon)
            assert truth(epsilon) <= bound + 1e-9, (law, first, second, epsilon)
            if 1e-6 < bound < 1:
                closest = max(closest, truth(epsilon) / bound)
    assert closest > 0.1  # the bound is not empty


def test_a_mechanism_attains_the_pure_part():
    law = accounting.repetitions(1.0, 16.0)  # pure epsilon of a run: (eta + 2) epsilon of the selection
    first, second = np.array([1 - 1e-9, 1e-9]), np.array([1 - 1e-9 * math.e, 1e-9 * math.e])
    chosen = [selected(law, each, 3000) for each in (first, second)]
    assert math.log(chosen[1][1] / chosen[0][1]) == pytest.approx(1.0, abs=1e-3)  # rare winners cost what one run costs
    bound = accounting.selection_epsilon(law, lambda at: max(0.0, 1 - math.exp(at - 1.0)) if at < 1 else 0.0, 1e-12)
    assert 1.0 <= bound <= 3.0 + 1e-9


def test_a_known_number_of_runs_is_worse_than_the_claim():
    law = accounting.repetitions(0.0, 16.0)
    first, second = np.array([0.95, 0.05]), np.array([1 - 0.05 * math.e, 0.05 * math.e])
    claim = accounting.selection_epsilon(law, profile_of(first, second), 1e-6)
    fixed = [np.array([each[0] ** 40, 1 - each[0] ** 40]) for each in (first, second)]
    assert math.log(fixed[0][0] / fixed[1][0]) > claim  # forty runs for certain, none successful


def test_it_is_never_above_dp_accountings_renyi_bound():
    pytest.importorskip("dp_accounting")
    from dp_accounting import dp_event, rdp

    for eta, mean, mu, delta, _, _ in GOLDEN:
        if eta < 0:
            continue
        law = accounting.repetitions(eta, mean)
        event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(1 / mu), mean, eta)
        theirs = rdp.RdpAccountant().compose(event).get_epsilon(delta)
        ours = accounting.selection_epsilon(law, lambda at, mu=mu: accounting.gdp_delta(mu, at), delta)
        assert ours <= theirs * (1 + 1e-9)


def test_what_is_out_of_range_is_refused():
    for eta, mean in ((-1.0, 16), (0.0, 1.0), (0.0, math.inf), (math.nan, 16)):
        with pytest.raises(ValueError, match=r"eta|mean"):
            accounting.repetitions(eta, mean)
    law = accounting.repetitions(0.0, 16)
    assert accounting.selection_profile(law, lambda at: 1.0)(0.5) == 1.0
    for nothing in (1.0, math.nan, -0.1, 2.0):
        assert accounting.selection_epsilon(law, lambda at, nothing=nothing: nothing, 1e-5) == math.inf
    holes = accounting.selection_epsilon(law, lambda at: math.nan if at < 2 else accounting.gdp_delta(0.5, at), 1e-5)
    assert holes >= accounting.selection_epsilon(law, lambda at: accounting.gdp_delta(0.5, at), 1e-5)
    steep = accounting.repetitions(200.0, 1e6)
    assert 0 <= np.sum(accounting.repetition_probabilities(steep, 1000)) <= 1
    assert selection.LARGEST == 700.0

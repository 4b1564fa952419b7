"""The least regret that a private choice can promise: against mechanisms whose regret is known."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import jaxdpbo
from jaxdpbo.privacy._accounting import regret


def slowly(candidates, users, mu=math.inf, epsilon=math.inf):
    """Every group size, one after another."""
    worst = 0.0
    for m in range(1, users + 1):
        right = [1.0]
        if math.isfinite(mu):
            right += [norm.cdf(m * mu / 2), norm.cdf(norm.ppf(1 / candidates) + m * mu)]
        if math.isfinite(epsilon):
            right += [1 / (1 + math.exp(-m * epsilon)), min(1.0, math.exp(m * epsilon) / candidates)]
        worst = max(worst, m / users * (1 - min(right)))
    return worst


@pytest.mark.parametrize("candidates", [2, 3, 75, 10_000])
@pytest.mark.parametrize("level", [{"mu": 0.3}, {"epsilon": 0.7}, {"mu": 0.2, "epsilon": 1.0}])
@pytest.mark.parametrize("users", [1, 7, 300])
def test_it_is_the_largest_bound_of_all_group_sizes(candidates, level, users):
    assert regret.least_regret(candidates, users, **level) == pytest.approx(slowly(candidates, users, **level))


@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
def test_gaussian_noise_attains_the_bound_of_two(mu):
    """On the difference of two mean losses, which a user moves by ``2 R / n``."""
    users = 400
    deviation = 2 / users / mu
    of_sizes = [m / users * norm.cdf(-(m / users) / deviation) for m in range(1, users + 1)]
    assert regret.least_regret(2, users, mu=mu) == pytest.approx(max(of_sizes))


@pytest.mark.parametrize("candidates", [2, 20, 500])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_exponential_mechanism_has_no_less_and_not_much_more(candidates, epsilon):
    """On the data of the proof, where all but one candidate are equal."""
    users = 300
    m = np.arange(users + 1)
    right = 1 / (1 + (candidates - 1) * np.exp(-epsilon * m / 2))
    attained = np.max(m / users * (1 - right))
    limit = regret.least_regret(candidates, users, epsilon=epsilon)
    assert limit <= attained <= 5 * limit


def test_a_regret_of_a_percent_takes_so_many_users_and_no_fewer():
    for level in ({"mu": 0.2}, {"epsilon": 1.0}):
        users = regret.users_for_regret(0.01, 50, **level)
        assert regret.least_regret(50, users, **level) <= 0.01 < regret.least_regret(50, users - 1, **level)
    assert regret.users_for_regret(1.0, 2, mu=1.0) == 1


def test_without_a_level_nothing_is_lost():
    assert regret.least_regret(9, 10) == 0.0
    assert regret.users_for_regret(0.01, 9) == 1


@pytest.mark.parametrize("search", [jaxdpbo.Search(method="local"), jaxdpbo.Search(method="in_order", steps=5)])
def test_a_preview_says_the_limit_of_its_guarantee(search):
    found = jaxdpbo.preview(users=200, space=[(0, 1)] * 3, epsilon=1, delta=1e-5, loss_range=(0, 1), search=search)
    stated = found.guarantee
    levels = {stated.notion: stated.level} | dict([stated.also] if stated.also else [])
    limit = slowly(found.evaluations, 200, levels["gdp"], math.inf if stated.delta else levels["dp"])
    assert found.regret_limit == pytest.approx(limit)
    assert f"{100 * limit:.2g} % of the loss range" in str(found)
    assert f"1 % takes {found.users_for_percent:,} users" in str(found)
    assert found.users_for_percent > 100

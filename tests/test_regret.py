"""The least regret that a private choice can promise: against mechanisms whose regret is known."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest
import scipy
from scipy.special import ndtr, ndtri

import jaxdpbo
from jaxdpbo.accounting import regret


def moved(probability, users, mu, epsilon, delta):
    """The largest probability of an event after ``users`` are replaced, one after another."""
    for _ in range(users):
        of_mu = ndtr(ndtri(probability) + mu) if math.isfinite(mu) else 1.0
        up, down = math.exp(epsilon) * probability + delta, 1 - math.exp(-epsilon) * (1 - delta - probability)
        probability = min(1.0, of_mu, up, down)
    return probability


def slowly(candidates, users, mu=math.inf, epsilon=math.inf, delta=0.0):
    """Every group size, and every user of a group, one after another."""
    if math.isfinite(mu) and math.isfinite(epsilon):
        return max(slowly(candidates, users, mu=mu), slowly(candidates, users, epsilon=epsilon, delta=delta))
    level, worst = (mu, min(epsilon, 700.0), delta), 0.0
    for m in range(1, users + 1):
        least, most = 0.0, 0.5  # the least error of two candidates: the others' errors are at most as likely
        for _ in range(40):
            middle = (least + most) / 2
            least, most = (middle, most) if moved(middle, m, *level) < 1 - middle else (least, middle)
        worst = max(worst, m / users * least, m / users * (1 - moved(1 / candidates, m, *level)))
        if 2 * m <= users:
            share = 1 / min(candidates, users // m)
            worst = max(worst, 2 * m / users * (1 - moved(share, m, *level)))
    return worst


@pytest.mark.parametrize("candidates", [2, 3, 75, 10_000])
@pytest.mark.parametrize(
    "level",
    [{"mu": 0.3}, {"epsilon": 0.7}, {"mu": 0.2, "epsilon": 1.0}, {"epsilon": 0.1, "delta": 1e-3},
     {"epsilon": 2.0, "delta": 0.2}, {"epsilon": 1e-7, "delta": 1e-3}],
)  # fmt: skip
@pytest.mark.parametrize("users", [1, 7, 60])
def test_it_is_the_largest_bound_of_all_group_sizes(candidates, level, users):
    expected = slowly(candidates, users, **level)
    assert regret.least_regret(candidates, users, **level) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def least_of_all_mechanisms(candidates, users, epsilon, delta):
    """The regret of the best ``(epsilon, delta)``-DP choice of all, by a linear program over all data of 0 and 1."""
    vectors = list(itertools.product((0, 1), repeat=candidates))
    tables = {
        frozenset(Counter(rows).items()): rows for rows in itertools.combinations_with_replacement(vectors, users)
    }
    place, rows, bounds = {data: number for number, data in enumerate(tables)}, [], []
    size = candidates * len(tables) + 1  # the probabilities of each table, then the regret
    events = [event for event in itertools.product((0, 1), repeat=candidates) if 0 < sum(event) < candidates]
    for number, data in enumerate(tables.values()):
        means = np.mean(data, axis=0)
        row = np.zeros(size)
        row[number * candidates : (number + 1) * candidates], row[-1] = means - means.min(), -1
        rows.append(row)
        bounds.append(0.0)
        neighbours = {
            place[frozenset(Counter((*data[:i], other, *data[i + 1 :])).items())]
            for i in range(users)
            for other in vectors
        }
        for neighbour, event in itertools.product(neighbours - {number}, events):
            row = np.zeros(size)
            row[number * candidates : (number + 1) * candidates] = event
            row[neighbour * candidates : (neighbour + 1) * candidates] = -math.exp(epsilon) * np.array(event)
            rows.append(row)
            bounds.append(delta)
    ones = np.kron(np.eye(len(tables), size // candidates), np.ones(candidates))
    ones = np.hstack([ones, np.zeros((len(tables), 1))])
    found = scipy.optimize.linprog(
        np.eye(size)[-1], scipy.sparse.csr_array(np.array(rows)), bounds, ones, np.ones(len(tables))
    )
    assert found.status == 0
    return found.fun


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (1.0, 0.0), (0.5, 0.05), (2.0, 1e-3)])
@pytest.mark.parametrize(("candidates", "users"), [(2, 1), (2, 4), (2, 5), (3, 2), (3, 3)])
def test_no_private_choice_of_all_has_less(candidates, users, epsilon, delta):
    least = least_of_all_mechanisms(candidates, users, epsilon, delta)
    assert regret.least_regret(candidates, users, epsilon=epsilon, delta=delta) <= least + 1e-9


def permute_and_flip(candidates, users, epsilon):
    """The largest regret of ``epsilon``-DP permute-and-flip: all candidates but one have the same mean loss."""
    m = np.arange(users + 1)
    accepted = np.exp(-epsilon * m / 2)
    right = np.mean((1 - accepted) ** np.arange(candidates)[:, None], axis=0)
    return np.max(m / users * (1 - right))


@pytest.mark.parametrize("candidates", [2, 3, 12, 99])
@pytest.mark.parametrize("epsilon", [0.1, 0.25, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_permute_and_flip_has_no_less_and_attains_the_bound_of_two(candidates, epsilon, delta):
    for users in (10, 200, 3000):
        attained = permute_and_flip(candidates, users, epsilon)
        assert regret.least_regret(candidates, users, epsilon=epsilon, delta=delta) <= attained * (1 + 1e-12)
    if candidates == 2 and epsilon <= 1:
        assert regret.least_regret(2, 200, epsilon=epsilon) == pytest.approx(permute_and_flip(2, 200, epsilon))


@pytest.mark.parametrize("mu", [0.05, 0.3, 2.0])
def test_gaussian_noise_attains_the_bound_of_two(mu):
    """On the difference of two mean losses, which a user moves by ``2 R / n``."""
    users = 400
    deviation = 2 / users / mu
    of_sizes = [m / users * ndtr(-(m / users) / deviation) for m in range(1, users + 1)]
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
    for level in ({"mu": 0.2}, {"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-4}):
        users = regret.users_for_regret(0.01, 50, **level)
        assert regret.least_regret(50, users, **level) <= 0.01
        assert all(regret.least_regret(50, fewer, **level) > 0.01 for fewer in range(1, users))
    assert regret.users_for_regret(1.0, 2, mu=1.0) == 1


def test_without_a_level_nothing_is_lost():
    assert regret.least_regret(9, 10) == 0.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("candidates", [2, 1000, 2**53])
@pytest.mark.parametrize(
    "level", [{"epsilon": epsilon, "delta": delta} for epsilon in (0, 1e-300, 37, 709, 1e300) for delta in (0, 1e-5)]
    + [{"mu": mu} for mu in (5e-324, 1e-300, 1e-9, 40, 1e300)],
)  # fmt: skip
def test_every_level_has_a_bound_without_a_warning(candidates, level):
    for users in (1, 7, 1000, 2**53):
        assert 0 <= regret.least_regret(candidates, users, **level) <= 1 - 1 / candidates + 1e-12
    assert regret.least_regret(2, 10, mu=5e-324) == pytest.approx(0.5)
    assert regret.users_for_regret(0.01, candidates, **level) >= 1
    assert regret.users_for_regret(0.01, 9) == 1


IN_ORDER = jaxdpbo.Search(method="in_order", steps=5)


@pytest.mark.parametrize("search", [jaxdpbo.Search(method="local"), IN_ORDER])
@pytest.mark.parametrize(
    ("budget", "every"),
    [({"epsilon": 1, "delta": 1e-5}, "No (1, 1e-05)-DP search"), ({"mu": 0.3}, "No 0.3-GDP search")],
)
def test_a_preview_says_the_limit_of_the_budget_that_was_typed(search, budget, every):
    preview = jaxdpbo.preview(users=60, space=[(0, 1)] * 3, loss_range=(0, 1), search=search, **budget)
    limit = slowly(preview.evaluations, 60, **budget)
    assert preview.regret_limit == pytest.approx(limit)
    (printed,) = re.findall(rf"{re.escape(every)} can promise a regret below (.*) % of the loss range", str(preview))
    assert float(printed) <= 100 * limit < 1.1 * float(printed)
    assert f"1 % takes {preview.users_for_percent:,} users" in str(preview)
    assert preview.users_for_percent > 60


def test_the_limit_of_a_pair_is_not_above_what_a_search_of_this_pair_attains():
    search = jaxdpbo.Search(method="in_order", steps=1)
    for users, epsilon in ((500, 0.25), (500, 1.0)):
        preview = jaxdpbo.preview(
            users=users, space=[(0, 1)], epsilon=epsilon, delta=1e-5, loss_range=(0, 1), search=search
        )
        assert preview.regret_limit <= permute_and_flip(preview.evaluations, users, epsilon)

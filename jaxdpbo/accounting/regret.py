"""The least regret that any private choice can promise: lower bounds by group privacy, with proofs.

The regret of a choice is the mean loss of the chosen candidate less the least mean loss, over the width ``R`` of the
losses' range. Every bound holds for the worst data set: on easier data a search may do better.
"""

import math
from functools import partial

import numpy as np
import scipy

from jaxdpbo import checks

FARTHEST = 40.0  # times a level, in users: beyond, all probabilities below are 0
SIZES = 4096  # group sizes to try: all up to some 700, then in steps of 0.2 %
MAX_EXPONENT = 700.0  # of a float
MOST = 2.0**1000  # group sizes that a float holds
LEAST = 1e-12  # an epsilon of zero counts as this much: the bound holds, as every smaller epsilon implies it


def least_regret(
    candidates: int, users: int, *, mu: float = math.inf, epsilon: float = math.inf, delta: float = 0.0
) -> float:
    """Bound from below the largest expected regret of every private choice of one of ``k`` candidates, over ``R``.

    The bound by ``mu`` holds for every ``mu``-GDP choice, and the bound by ``epsilon`` and ``delta`` for every
    ``(epsilon, delta)``-DP choice, for replace-one. Proofs and data sets: docs/theorems.md.

    Args:
      candidates: ``k``, at least 2.
      users: ``n``.
      mu: the level of Gaussian DP; inf for none.
      epsilon: of ``(epsilon, delta)``-DP; inf for none.
      delta: see ``epsilon``; in [0, 1).

    Returns:
      The largest of the bounds over many groups of users, each of them valid; 0 without a level.

    Raises:
      ValueError: a number out of range.

    >>> from jaxdpbo.accounting import regret
    >>> round(regret.least_regret(2, 1000, mu=1.0), 5)
    0.00032
    """
    return _largest_sum(candidates, checks.size("users", users), mu, epsilon, delta) / users


def users_for_regret(
    regret: float, candidates: int, *, mu: float = math.inf, epsilon: float = math.inf, delta: float = 0.0
) -> int:
    """Return the least number of users for which ``least_regret`` is at most ``regret``; at least 1.

    Beyond ``2^45`` users the number is rounded up, by at most ``2^-45`` of it.

    >>> from jaxdpbo.accounting import regret
    >>> regret.users_for_regret(0.01, 2, mu=1.0)
    32
    """
    regret, users = checks.positive("regret", regret), 1
    # The regret times the users never falls with more users: all numbers below its quotient by ``regret`` are too few.
    while (least := _largest_sum(candidates, users, mu, epsilon, delta)) / users > regret:
        users = max(users + 1 + (users >> 45), math.ceil(least / regret * (1 - 2.0**-40)))
    return users


def _largest_sum(candidates: int, users: int, mu: float, epsilon: float, delta: float) -> float:
    """The largest bound, times the number of users; it never falls with more users."""
    candidates, delta = checks.size("candidates", candidates, minimum=2), checks.number("delta", delta)
    mu = checks.positive("mu", mu, finite=False)
    epsilon = max(checks.nonnegative_or_infinite("epsilon", epsilon), LEAST)
    if not 0 <= delta < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    bounds = [0.0]
    dp_errors = partial(_dp_error_of_two, delta=delta), partial(_dp_error, delta=delta)
    for level, (of_two, of_many) in ((mu, (_gdp_error_of_two, _gdp_error)), (epsilon, dp_errors)):
        if math.isinf(level):
            continue
        farthest = np.ceil(min(FARTHEST * max(1.0, math.log(candidates)) / level, MOST))
        sizes = np.unique(np.rint(np.geomspace(1, farthest, SIZES)))
        sizes = sizes[sizes <= users]
        same = np.maximum(of_two(sizes, level), of_many(1 / candidates, sizes, level))
        disjoint = of_many(1 / np.minimum(candidates, users // sizes), sizes, level)
        bounds.append(float(np.max(sizes * np.maximum(same, 2 * disjoint))))
    return max(bounds)


def _gdp_error_of_two(sizes: np.ndarray, mu: float) -> np.ndarray:
    """The least probability of a wrong choice between two candidates that ``sizes`` users swap."""
    return scipy.special.ndtr(-sizes * mu / 2)


def _gdp_error(shares: np.ndarray | float, sizes: np.ndarray, mu: float) -> np.ndarray:
    """The least probability of a wrong choice where ``sizes`` users make a candidate of these ``shares`` the best."""
    return scipy.special.ndtr(-scipy.special.ndtri(shares) - sizes * mu)


def _dp_error_of_two(sizes: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """As ``_gdp_error_of_two``: half of the users away from data, or from two neighbours, in the middle."""
    middle = np.where(sizes % 2 == 0, 0.5, (1 - delta) * scipy.special.expit(-epsilon))
    return _least_probability(middle, sizes // 2, epsilon, delta)


def _dp_error(shares: np.ndarray | float, sizes: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """As ``_gdp_error``: users multiply a share by ``e^epsilon``, and beyond ``turn`` divide its complement."""
    epsilon = min(epsilon, MAX_EXPONENT)
    turn = (1 - delta) * scipy.special.expit(-epsilon)
    more = (turn - shares) / (shares + delta / math.expm1(epsilon))
    growth = np.log1p(np.maximum(more, -0.5)) / epsilon  # -1 has no logarithm, and below 0 nothing is multiplied
    grown = np.clip(np.floor(growth) + 1, 0, sizes)  # any number gives a valid bound, this one the largest
    share = shares * np.exp(grown * epsilon) + delta * np.expm1(grown * epsilon) / math.expm1(epsilon)
    return _least_probability(np.maximum(1 - share, 0.0), sizes - grown, epsilon, delta)


def _least_probability(before: np.ndarray, sizes: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """What ``sizes`` replaced users leave of a probability: each leaves ``(p - delta) / e^epsilon``."""
    lost = delta * math.exp(-epsilon) * np.expm1(-sizes * epsilon) / math.expm1(-epsilon)
    return np.maximum(before * np.exp(-sizes * epsilon) - lost, 0.0)

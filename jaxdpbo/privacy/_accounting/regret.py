"""The least regret that any private choice can promise: lower bounds by group privacy, with proofs.

The regret of a choice is the mean loss of the chosen candidate less the least mean loss, over the width ``R`` of the
losses' range. Every bound holds for the worst data set: on easier data a search may do better.
"""

import math

import numpy as np
import scipy

from jaxdpbo import _checks

FARTHEST = 40.0  # times a level, in users: beyond, both probabilities below are 0
SIZES = 4096  # group sizes to try: all up to some 700, then in steps of 0.2 %


def least_regret(candidates: int, users: int, *, mu: float = math.inf, epsilon: float = math.inf) -> float:
    """Bound from below the largest expected regret of a private choice of one of ``k`` candidates, over ``R``.

    Let ``m`` of ``n`` users have the loss 0 at one candidate and ``R`` at the others, and let all other users not care.
    The regret of a wrong choice is ``R m / n``. Group privacy for ``m`` users (Dong et al. 2022, theorem 3) limits how
    often the choice is right:

    * Two candidates, good in turn: under ``mu``-GDP the mean probability of a wrong choice is ``Phi(-m mu / 2)`` at
      least, and under ``epsilon``-DP ``1 / (1 + e^(m epsilon))``.
    * ``k`` candidates: where nobody cares, some candidate has at most the probability ``1 / k``. If the ``m`` users
      prefer it, its probability is at most ``Phi(Phi^-1(1 / k) + m mu)``, and at most ``e^(m epsilon) / k``.

    Args:
      candidates: ``k``, at least 2.
      users: ``n``.
      mu: the level of Gaussian DP; inf for none.
      epsilon: of pure DP; inf for none.

    Returns:
      The largest of the bounds over many ``m``, each of them valid; 0 without a level.

    Raises:
      ValueError: a number out of range.

    >>> from jaxdpbo.privacy._accounting import regret
    >>> round(regret.least_regret(2, 1000, mu=1.0), 5)
    0.00032
    """
    candidates, users = _checks.size("candidates", candidates, minimum=2), _checks.size("users", users)
    mu, epsilon = _checks.positive("mu", mu, finite=False), _checks.positive("epsilon", epsilon, finite=False)
    bounds = []
    for level, error in ((mu, _mu_error), (epsilon, _epsilon_error)):
        if math.isfinite(level):
            farthest = math.ceil(FARTHEST * max(1.0, math.log(candidates)) / level)
            sizes = np.unique(np.rint(np.geomspace(1, min(users, farthest), SIZES)))
            bounds.append(float(np.max(sizes / users * error(sizes * level, candidates))))
    return max(bounds, default=0.0)


def users_for_regret(regret: float, candidates: int, *, mu: float = math.inf, epsilon: float = math.inf) -> int:
    """Return the least number of users for which ``least_regret`` is at most ``regret``; at least 1.

    >>> from jaxdpbo.privacy._accounting import regret
    >>> regret.users_for_regret(0.01, 2, mu=1.0)
    32
    """
    regret = _checks.positive("regret", regret)
    low, high = 0, 1
    while least_regret(candidates, high, mu=mu, epsilon=epsilon) > regret:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = least_regret(candidates, middle, mu=mu, epsilon=epsilon) <= regret
        low, high = (low, middle) if fits else (middle, high)
    return high


def _mu_error(moved: np.ndarray, candidates: int) -> np.ndarray:
    """The probability of a wrong choice after group privacy for a level of ``moved``."""
    of_two = scipy.special.ndtr(-moved / 2)
    of_many = scipy.special.ndtr(-scipy.special.ndtri(1 / candidates) - moved)
    return np.maximum(of_two, of_many)


def _epsilon_error(moved: np.ndarray, candidates: int) -> np.ndarray:
    """The probability of a wrong choice after group privacy for an epsilon of ``moved``."""
    of_two = scipy.special.expit(-moved)
    of_many = 1 - np.exp(np.minimum(moved - math.log(candidates), 0.0))
    return np.maximum(of_two, of_many)

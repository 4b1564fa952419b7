"""Ex-post cost of a selection over levels: the release names its level, and costs the epsilon of this level.

Ex-post differential privacy (Ligett et al. 2017): for all replace-one neighbours and every set ``S`` of outcomes,
``P(S) <= integral over S of e^epsilon(a) P'(da) + delta``. The theorem is ours (docs/theorems.md).

One run draws a level with public weights, trains within the budget of the level, and passes a public test or not. The
best of ``K`` runs is released. Passed runs rank above failed runs, then lower levels above higher, then lower scores
above higher. All failed runs count as one outcome, "nothing".

Notation as in ``selection``: ``w_i`` is the weight of level ``i``, ``d_i`` the profile of its runs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxdpbo import checks
from jaxdpbo.accounting import grid, selection

NOTHING_SHARE = 1 / 6  # of delta, for the outcome without a release
SHARE_STEPS = 4  # of the division of delta between levels
LEAST_SHARE = 1e-3  # of delta, for one level
STEP = 1e-4  # relative, of a slope by differences
POINTS = 4096  # probabilities at which the outcome without a release is bounded
LEAST_PROBABILITY = 1e-12
LEAST_EPSILON = 1e-12  # of a product


class LevelCosts(NamedTuple):
    """The epsilon of each outcome of a selection over levels, under one ``delta``.

    Attributes:
      epsilons: ``(l,)``, of a release at each level.
      nothing: of the outcome without a release.
      delta: of the whole selection.
    """

    epsilons: tuple[float, ...]
    nothing: float
    delta: float

    @property
    def largest(self) -> float:
        """The epsilon of the selection before its outcome is known."""
        return max(*self.epsilons, self.nothing)


def ex_post_epsilons(
    repetitions: selection.Repetitions,
    weights: Sequence[float],
    profiles: Sequence[grid.Profile],
    delta: float,
) -> LevelCosts:
    """Return the epsilon of each outcome of a selection over levels.

    One sixth of ``delta`` is for the outcome "nothing", the rest for releases: below, ``delta`` is this rest. "Nothing"
    costs the log-ratio of its probabilities, at most the largest ``e_i`` plus ``rho_l``.

    A release at level ``i`` costs ``e_i + rho_i``, for any ``e_1, ..., e_l`` with ``m sum_i w_i d_i(e_i) <= delta``:
    those with about the least product are chosen. ``rho_i`` is the least of ``(eta + 1) log max(e^e, 1 + (1 - gamma) /
    gamma sum_(j <= i) w_j d_j(e))`` over ``e >= 0``. Everything is rounded up.

    Args:
      repetitions: distribution of the number of runs, made by ``accounting.repetitions``.
      weights: ``w (l,)``, positive, with sum 1.
      profiles: ``d (l,)``, upper bounds in both directions of neighbours, nonincreasing: of a run at each level, the
        lowest level first.
      delta: of the whole selection.

    Returns:
      The costs; inf where nothing is proved.

    Raises:
      ValueError: ``delta`` not in (0, 1), weights that are no distribution, or not as many as profiles.

    >>> from jaxdpbo import accounting
    >>> repetitions = accounting.repetitions(1.0, 40)
    >>> runs = [accounting.gaussian_stage(mu).profile for mu in (0.1, 0.2, 0.4)]
    >>> costs = accounting.ex_post_epsilons(repetitions, [1 / 3] * 3, runs, 1e-5)
    >>> [round(epsilon, 2) for epsilon in costs.epsilons], round(costs.nothing, 2)
    ([0.64, 1.32, 2.73], 1.25)
    """
    delta = checks.probability("delta", delta)
    clamped = [grid.clamp_profile(profile) for profile in profiles]
    shares = checks.vector("weights", weights, len(clamped))
    if np.any(shares <= 0) or not math.isclose(float(np.sum(shares)), 1.0, rel_tol=1e-9):
        raise ValueError(f"weights must be positive and add up to 1, got {shares.tolist()}")
    shares = (shares / np.sum(shares) * grid.ABOVE).tolist()
    weighted = list(zip(shares, clamped, strict=True))
    own = _divide_delta(weighted, delta * (1 - NOTHING_SHARE) / repetitions.mean)
    exponents = [selection.exponent(repetitions, _sum_profiles(weighted[: last + 1])) for last in range(len(weighted))]
    nothing = max(own) + exponents[-1]
    bounded = _nothing_epsilon(repetitions, _sum_profiles(weighted), delta * NOTHING_SHARE * (1 - 1e-9))
    return LevelCosts(
        tuple((epsilon + rho) * grid.ABOVE for epsilon, rho in zip(own, exponents, strict=True)),
        min(nothing, bounded) * grid.ABOVE,
        delta,
    )


def _sum_profiles(weighted: Sequence[tuple[float, grid.Profile]]) -> grid.Profile:
    """Return the weighted sum of profiles, at most 1."""
    return lambda epsilon: min(1.0, sum(weight * profile(epsilon) for weight, profile in weighted))


def _divide_delta(weighted: Sequence[tuple[float, grid.Profile]], delta: float) -> list[float]:
    """Return ``e_i`` with ``sum_i w_i d_i(e_i) <= delta``, close to the least product of the ``e_i``.

    At the least product, a level's share of delta is proportional to ``1 / (e_i h_i)``, with ``h_i`` the slope of
    ``-log d_i`` at ``e_i``. Every division of delta is valid.
    """
    shares = np.full(len(weighted), 1 / len(weighted))
    best, least = [math.inf] * len(weighted), (len(weighted), math.inf)
    for _ in range(SHARE_STEPS if len(weighted) > 1 else 1):
        deltas = [float(share) * delta / weight for share, (weight, _) in zip(shares, weighted, strict=True)]
        epsilons = [grid.first_below(profile, own) for own, (_, profile) in zip(deltas, weighted, strict=True)]
        finite = [max(epsilon, LEAST_EPSILON) for epsilon in epsilons if math.isfinite(epsilon)]
        size = len(weighted) - len(finite), math.fsum(map(math.log, finite))
        if size < least:
            best, least = epsilons, size
        prices = [_delta_weight(profile, epsilon) for epsilon, (_, profile) in zip(epsilons, weighted, strict=True)]
        if not sum(prices) > 0:
            break
        shares = np.maximum(np.array(prices) / sum(prices), LEAST_SHARE)
        shares /= np.sum(shares) * grid.ABOVE
    return best


def _delta_weight(profile: grid.Profile, epsilon: float) -> float:
    """Return ``1 / (e h)``, with the slope ``h`` by a difference; 0 where a share of delta changes nothing."""
    step = STEP * max(epsilon, STEP)
    if math.isinf(epsilon) or epsilon == 0:
        return 0.0
    ends = profile(max(epsilon - step, 0.0)), profile(epsilon + step)
    if min(ends) <= 0 or ends[0] <= ends[1]:
        return 0.0
    return (step + min(step, epsilon)) / (epsilon * math.log(ends[0] / ends[1]))


def _nothing_epsilon(repetitions: selection.Repetitions, profile: grid.Profile, delta: float) -> float:
    """Return the epsilon of one event, that no run passes, but for ``delta``.

    The event has probability ``phi(x)`` if a run fails with probability ``x``, and ``x <= e^e y + d(e)``, ``1 - y <=
    e^e (1 - x) + d(e)`` bound ``x`` by the probability ``y`` under the neighbour. The result is the logarithm of the
    least ``a`` with ``phi(x) - a phi(y) <= delta`` for all of them, over intervals of ``y``.
    """
    half = np.geomspace(LEAST_PROBABILITY, 0.5, POINTS // 2)
    y = np.concatenate([half, 1 - half[-2::-1], [1.0]])
    reach = min(grid.first_below(profile, LEAST_PROBABILITY), grid.MAX_EPSILON)
    largest = np.ones_like(y)
    for epsilon in np.linspace(0.0, reach, 512).tolist():
        slope, slack = math.exp(epsilon), profile(epsilon)
        largest = np.minimum(largest, np.minimum(slope * y + slack, 1 - (1 - y - slack) / slope))
    likely = selection.generating_function(repetitions, np.clip(largest, 0.0, 1.0)) * grid.ABOVE - delta
    if likely[0] > 0:  # for y below the first point too
        return math.inf
    least = selection.generating_function(repetitions, y) / grid.ABOVE
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # for large eta, phi is 0 in floats
        largest_ratio = float(np.max(likely[1:] / least[:-1]))
    return math.inf if math.isnan(largest_ratio) else math.log(max(1.0, largest_ratio))

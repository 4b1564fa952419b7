"""Lower bounds on what private selections cost: a run and an order of its outcomes that attain them.

A proved epsilon may be larger than needed. For a profile, this module builds two distributions of one run that have at
most this profile, splits them into about a hundred outcomes, and searches for the order of the outcomes that costs the
selection the most. No theorem about all runs with the profile can prove a smaller epsilon than the search finds.
"""

import math

import numpy as np

from jaxdpbo import checks
from jaxdpbo.accounting import grid, selection

TANGENTS = 30  # slopes at which the trade-off function is cut into outcomes
SPLITS = np.geomspace(1e-4, 0.5, 16)  # extra cuts: outcomes of equal ratio can stand at several places of an order
LINES = 2048  # of the trade-off function
REACH = 1e-2  # ratios above the epsilon with this share of the delta of one run are not distinguished
ROUNDING = 1e-15  # of the mass of an outcome
Vector = grid.Vector


def attained_selection_epsilon(repetitions: selection.Repetitions, profile: grid.Profile, delta: float) -> float:
    """Return an ``epsilon`` that a private selection needs at ``delta`` for some run with this profile.

    ``selection_epsilon`` is an upper bound for all runs with the profile; the two numbers show what is left to gain.

    Args:
      repetitions: distribution of the number of runs.
      profile: upper bound on the profile of a run, nonincreasing, such as ``lambda epsilon: gdp_delta(mu, epsilon)``.
      delta: of the selection.

    Returns:
      The ``epsilon``, rounded down: of two distributions on finitely many outcomes.

    Raises:
      ValueError: ``delta`` not in (0, 1).

    >>> from jaxdpbo import accounting
    >>> repetitions = accounting.repetitions(0.0, 16)
    >>> run = lambda epsilon: accounting.gdp_delta(0.5, epsilon)
    >>> round(accounting.attained_selection_epsilon(repetitions, run, 1e-5), 2)
    2.98
    >>> round(accounting.selection_epsilon(repetitions, run, 1e-5), 2)
    3.09
    """
    delta, clamped = checks.probability("delta", delta), grid.clamp_profile(profile)
    null, other = _worst_pair(clamped, delta / repetitions.mean)
    epsilon = _search(repetitions, null, other, delta + ROUNDING * len(null)) * (1 - 1e-9)
    return max(0.0, min(epsilon, selection.selection_epsilon(repetitions, clamped, delta)))


def _worst_pair(profile: grid.Profile, delta: float) -> tuple[Vector, Vector]:
    """Return the masses ``(k,)`` of two neighbours with a profile of at most ``profile``, by falling ratio.

    The trade-off function of a profile is the largest of the lines ``1 - d(e) - e^e x`` and their mirror images. Two
    approximations raise this function, which makes the pair more private: ``d`` at the next point of the grid, and
    chords between points of the convex function.
    """
    reach = min(grid.first_below(profile, profile(grid.MAX_EPSILON) + REACH * delta), grid.MAX_EPSILON)
    if reach == 0:
        return np.ones(1), np.ones(1)
    at = np.linspace(0.0, reach, LINES)
    deltas = np.array([profile(float(epsilon)) for epsilon in at])
    above = np.append(deltas[1:], 0.0)
    slopes = np.exp(at)

    def errors(x: Vector) -> Vector:
        lines = 1 - above - slopes * x[:, None]
        mirrored = (1 - above - x[:, None]) / slopes
        return np.maximum(np.max(np.maximum(lines, mirrored), axis=1), 0.0)

    chosen = np.linspace(0, LINES - 2, TANGENTS).astype(int)
    touching = (deltas[chosen] - deltas[chosen + 1]) / (slopes[chosen + 1] - slopes[chosen])  # near the lines' tangents
    inner = np.concatenate([np.clip(touching, 0.0, 1.0), SPLITS])
    ends = np.unique(np.concatenate([[0.0, 1.0], inner, errors(inner)]))
    missed = errors(ends)
    missed[-1] = 0.0
    null, other = np.append(0.0, np.diff(ends)), np.append(1 - missed[0], -np.diff(missed))
    held = null + other > 0
    return null[held], np.maximum(other[held], 0.0)


def _search(repetitions: selection.Repetitions, null: Vector, other: Vector, delta: float) -> float:
    """Return the largest epsilon found over orders of the outcomes, best outcome first.

    The costly orders put a few outcomes of the lowest ratio first, then the outcomes by falling ratio: all of these
    orders are tried, both ways round. Moving single outcomes thousands of times gains half a percent.
    """
    falling = np.arange(len(null))
    orders = (
        np.concatenate([falling[len(null) - first :][::turn], falling[: len(null) - first]])
        for first in range(len(null) + 1)
        for turn in (1, -1)
    )
    return max(_cost(repetitions, null[order], other[order], delta) for order in orders)


def _cost(repetitions: selection.Repetitions, null: Vector, other: Vector, delta: float) -> float:
    """Return the epsilon of a selection among outcomes in this order, from ``null`` to ``other``."""
    first, second = _release_probabilities(repetitions, other), _release_probabilities(repetitions, null)
    with np.errstate(divide="ignore"):
        ratios = np.where(second > 0, first / np.where(second > 0, second, 1.0), np.inf)
    falling = np.argsort(-ratios)
    first, second = np.cumsum(first[falling]), np.cumsum(second[falling])
    # The delta at epsilon is the largest first - e^epsilon second over prefixes, so each prefix bounds epsilon.
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = np.where(first > delta, (first - delta) / second, 0.0)
    return math.log(max(1.0, float(np.max(roots))))


def _release_probabilities(repetitions: selection.Repetitions, mass: Vector) -> Vector:
    """Return the probabilities that the best of ``K`` runs has each outcome, best outcome first.

    With ``g = gamma + (1 - gamma) b`` for the mass ``b`` of better outcomes, differences of ``phi`` are differences of
    powers ``g^-eta``: in terms of ``log(g_next / g)`` they keep their digits.
    """
    better = np.append(0.0, np.cumsum(mass)[:-1])
    rest = repetitions.gamma + (1 - repetitions.gamma) * better
    steps = np.log1p((1 - repetitions.gamma) * mass / rest)
    logarithm = math.log(repetitions.gamma)
    power = repetitions.eta * logarithm
    if abs(power) < selection.LOGARITHMIC:
        return steps / -logarithm
    if repetitions.eta < 0:
        return np.exp(-repetitions.eta * np.log(rest)) * -np.expm1(-repetitions.eta * steps) / math.expm1(-power)
    return np.exp(repetitions.eta * (logarithm - np.log(rest))) * np.expm1(-repetitions.eta * steps) / math.expm1(power)

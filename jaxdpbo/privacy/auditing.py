"""Attacks: lower bounds on what a release really gives away. An audit falsifies a guarantee; it never certifies one.

A bound on ``epsilon`` from trials: an attack guesses which of two neighbours was released. Where it says "first" with
probability ``p`` on the first and ``q`` on the second, ``(epsilon, delta)``-DP wants ``p <= e^epsilon q + delta``; with
``p`` and ``q`` replaced by the ends of their confidence intervals, the ``epsilon`` this needs is a lower bound.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from jaxdpbo import _checks


class Audit(NamedTuple):
    """What an attack showed.

    Attributes:
      epsilon: the lower bound, at ``confidence``; 0 where nothing was shown.
      correct: of ``trials`` on the first data set, how many were told right.
      wrong: of ``trials`` on the second, how many were taken for the first.
      trials: on each of the two, those that the bound was counted on.
      confidence: that the bound holds.
    """

    epsilon: float
    correct: int
    wrong: int
    trials: int
    confidence: float


def epsilon_lower_bound(
    correct: int, wrong: int, trials: int, *, delta: float = 0.0, confidence: float = 0.95
) -> Audit:
    """The ``epsilon`` that ``(epsilon, delta)``-DP would need, at least, by two one-sided Clopper-Pearson bounds.

    Raises:
      ValueError: counts that are not within ``trials``, a delta outside [0, 1), a confidence outside (0, 1).
    """
    trials = _checks.size("trials", trials)
    for name, count in (("correct", correct), ("wrong", wrong)):
        if not 0 <= count <= trials:
            raise ValueError(f"{name} must lie in [0, {trials}], got {count}")
    if not 0 <= _checks.number("delta", delta) < 1:
        raise ValueError(f"delta must lie in [0, 1), got {delta}")
    tail = (1.0 - _checks.probability("confidence", confidence)) / 2.0  # half of it for each rate
    lowest = float(beta.ppf(tail, correct, trials - correct + 1)) if correct else 0.0
    highest = float(beta.ppf(1.0 - tail, wrong + 1, trials - wrong)) if wrong < trials else 1.0
    shown = lowest - delta
    return Audit(max(0.0, math.log(shown / highest)) if shown > 0 else 0.0, correct, wrong, trials, confidence)


def threshold_audit(first: np.ndarray, second: np.ndarray, *, delta: float = 0.0, confidence: float = 0.95) -> Audit:
    """The bound of the attack "the score is above a threshold", the threshold chosen on one half of the trials.

    Args:
      first: ``(trials,)`` scores where the first data set was released; high scores should mean the first.
      second: ``(trials,)`` scores where the second was.
      delta: of the claim.
      confidence: that the bound holds; the half it is counted on was not looked at before.

    Raises:
      ValueError: fewer than 4 trials, or different numbers of them.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.ndim != 1 or first.shape != second.shape or len(first) < 4:
        raise ValueError(f"scores must be two vectors of one length, at least 4, got {first.shape} and {second.shape}")
    half = len(first) // 2
    tried = np.unique(np.quantile(np.concatenate([first[:half], second[:half]]), np.linspace(0, 1, 201)))

    def bound(threshold: float, rows: slice) -> Audit:
        correct, wrong = (int(np.sum(scores[rows] > threshold)) for scores in (first, second))
        return epsilon_lower_bound(correct, wrong, len(first[rows]), delta=delta, confidence=confidence)

    best = max(tried, key=lambda threshold: bound(threshold, slice(half)).epsilon)
    return bound(best, slice(half, None))


def affine_misfit(known: np.ndarray, released: np.ndarray, candidate: np.ndarray, its_release: np.ndarray) -> float:
    """How badly ``z = x G + h`` fits all rows if the unknown row is ``candidate``: the column-space attack.

    Where all rows went through ONE affine map the misfit of the true row is rounding, of a false one is not, so the
    smaller misfit tells two neighbours apart without error, whatever noise was claimed.

    Args:
      known: ``(k, d)`` inputs that the attacker knows, at least ``d + 1``, affinely spanning.
      released: ``(k, r)`` their releases.
      candidate: ``(d,)`` a guess of the row that is not known.
      its_release: ``(r,)`` its release.
    """
    rows = np.vstack([known, candidate])
    design = np.column_stack([rows, np.ones(len(rows))])
    released = np.vstack([released, its_release])
    solution = np.linalg.lstsq(design, released, rcond=None)[0]
    return float(np.linalg.norm(design @ solution - released) / np.linalg.norm(released))


def reconstruct(known: np.ndarray, its_release: np.ndarray, released: np.ndarray) -> np.ndarray:
    """Every input ``(n, d)`` from ``released (n, r)``, ``r >= d``, given ``d + 1`` affinely independent known rows.

    Exact up to rounding where the release was one affine map; meaningless otherwise.

    Raises:
      ValueError: fewer known rows than ``d + 1``, or ``r < d``.
    """
    count, dimension = known.shape
    if count <= dimension or released.shape[1] < dimension:
        raise ValueError(
            f"known must be at least {dimension + 1} rows and released of {dimension} columns or more, "
            f"got {count} and {released.shape[1]}"
        )
    design = np.column_stack([known, np.ones(count)])
    solution = np.linalg.lstsq(design, its_release, rcond=None)[0]
    return (released - solution[-1]) @ np.linalg.pinv(solution[:-1])

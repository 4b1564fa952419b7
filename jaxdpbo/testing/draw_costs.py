"""What recorded draws cost, by NumPy and SciPy alone: nothing here is shared with the accounting of the package.

A draw is a mechanism, a scale, and the numbers that noise is added to, or the scores of a choice. Between two data sets
a draw costs a level of Gaussian DP, or an epsilon of pure DP:

* Gaussian noise of standard deviation ``s`` on vectors ``x`` and ``y``: ``|x - y| / s`` (Dong et al. 2022, theorem 1).
* A choice with probabilities proportional to ``exp(rate * score)``, or of the largest score with geometric noise: all
  log-ratios lie in an interval of length ``eta = rate * (max - min of the differences of scores)``. No attack separates
  the two better than randomised response between ``eta / 2`` and ``-eta / 2``, so the level is
  ``2 Phi^-1(1 / (1 + exp(-eta / 2)))``, and the epsilon ``eta``.
* Laplace noise: the rate times the l1 norm of ``x - y``; in the plane, times the sum of the rows' l2 norms.

Levels compose by the root of the sum of their squares (corollary 2), epsilons by their sum.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

Term = tuple[str, float, np.ndarray, np.ndarray]  # a mechanism, a scale, and both totals


def difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Subtract in long doubles, which hold 64-bit integers."""
    return np.asarray(one, np.longdouble) - np.asarray(other, np.longdouble)


def gaussian_level(one: np.ndarray, other: np.ndarray, deviation: float) -> float:
    """Return the level of a Gaussian draw; NaN or infinities in a total are a defect, and cost everything."""
    moved = float(np.sqrt(np.sum(np.square(difference(one, other)))))
    return moved / float(deviation) if np.isfinite(moved) else np.inf


def choice_epsilon(one: np.ndarray, other: np.ndarray, rate: float) -> float:
    """Return the length of the interval of log-ratios of a choice by scores."""
    moved = difference(one, other)
    length = float(rate) * float(np.max(moved) - np.min(moved))
    return length if np.isfinite(length) else np.inf


def choice_level(one: np.ndarray, other: np.ndarray, rate: float) -> float:
    """Return the Gaussian level of a choice by scores."""
    return float(2 * norm.ppf(1 / (1 + np.exp(-choice_epsilon(one, other, rate) / 2))))


def laplace_epsilon(one: np.ndarray, other: np.ndarray, rate: float) -> float:
    """Return the epsilon of Laplace noise on every coordinate."""
    moved = float(np.sum(np.abs(difference(one, other))))
    return moved * float(rate) if np.isfinite(moved) else np.inf


def planar_epsilon(one: np.ndarray, other: np.ndarray, rate: float) -> float:
    """Return the epsilon of noise of density ``exp(-rate |z|)`` on every row."""
    moved = float(np.sum(np.sqrt(np.sum(np.square(difference(one, other)), axis=-1))))
    return moved * float(rate) if np.isfinite(moved) else np.inf


LEVELS = {
    "exact Gaussian": gaussian_level,
    "exact Gaussian of 64 bits": gaussian_level,
    "float Gaussian": gaussian_level,
    "choice": choice_level,
    "float choice": choice_level,
}
EPSILONS = {
    "choice": choice_epsilon,
    "float choice": choice_epsilon,
    "exact Laplace": laplace_epsilon,
    "float Laplace": lambda one, other, scale: laplace_epsilon(one, other, 1 / scale),
    "exact planar Laplace": planar_epsilon,
}


def level_of(pairs: Sequence[Term]) -> float:
    """Return the Gaussian level of draws together."""
    levels = [LEVELS[mechanism](one, other, scale) for mechanism, scale, one, other in pairs]
    return float(np.sqrt(np.sum(np.square(levels))))


def epsilon_of(pairs: Sequence[Term]) -> float:
    """Return the epsilon of pure DP of draws together."""
    return float(np.sum([EPSILONS[mechanism](one, other, scale) for mechanism, scale, one, other in pairs]))

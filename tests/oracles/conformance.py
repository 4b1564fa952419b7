"""What recorded draws cost, by NumPy and SciPy alone: nothing here is shared with the package's accounting.

A draw is a mechanism, a scale, and what it was drawn onto. Between two data sets its cost is a level of Gaussian DP, or
an epsilon of pure DP:

* Gaussian noise of standard deviation ``s`` on vectors ``x`` and ``y``: ``|x - y| / s`` (Dong et al. 2022, theorem 1).
* A choice with probabilities proportional to ``exp(rate * score)``, or of the largest score with geometric noise: all
  log-ratios lie in an interval of the length ``eta = rate * (max - min of the differences of scores)``. No attack
  separates the two better than randomised response between ``eta / 2`` and ``-eta / 2``, so the level is
  ``2 Phi^-1(1 / (1 + exp(-eta / 2)))``, and the epsilon ``eta``.
* Laplace noise: the rate times the l1 norm of ``x - y``; in the plane, times the sum of the rows' l2 norms.

Levels compose by the root of the sum of their squares (corollary 2), epsilons by their sum. Choices and Gaussian noise
together cost what an adaptive attack attains.
"""

import numpy as np
from scipy.stats import norm


def difference(one, other):
    """In long doubles, which hold 64-bit integers."""
    return np.asarray(one, np.longdouble) - np.asarray(other, np.longdouble)


def gaussian_level(one, other, deviation):
    """The level of a Gaussian draw; NaN or infinities in a total are a defect, and cost everything."""
    moved = float(np.sqrt(np.sum(np.square(difference(one, other)))))
    return moved / float(deviation) if np.isfinite(moved) else np.inf


def choice_epsilon(one, other, rate):
    """The length of the interval of log-ratios of a choice by scores."""
    moved = difference(one, other)
    length = float(rate) * float(np.max(moved) - np.min(moved))
    return length if np.isfinite(length) else np.inf


def choice_level(one, other, rate):
    """The Gaussian level of a choice by scores."""
    return float(2 * norm.ppf(1 / (1 + np.exp(-choice_epsilon(one, other, rate) / 2))))


def laplace_epsilon(one, other, rate):
    """The epsilon of Laplace noise on every coordinate."""
    moved = float(np.sum(np.abs(difference(one, other))))
    return moved * float(rate) if np.isfinite(moved) else np.inf


def planar_epsilon(one, other, rate):
    """The epsilon of noise of density ``exp(-rate |z|)`` on every row."""
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


def level_of(pairs):
    """The Gaussian level of draws ``(mechanism, scale, one, other)`` together."""
    levels = [LEVELS[mechanism](one, other, scale) for mechanism, scale, one, other in pairs]
    return float(np.sqrt(np.sum(np.square(levels))))


def epsilon_of(pairs):
    """The epsilon of pure DP of draws together."""
    return float(np.sum([EPSILONS[mechanism](one, other, scale) for mechanism, scale, one, other in pairs]))


def delta_of(level, epsilon, total_variation=0.0):
    """The least delta of a mechanism of that Gaussian level, of which each world is that far from the ideal one.

    Dong et al. 2022, corollary 1. An event of the real world ``x`` has at most ``P(ideal x) + tv``, and
    ``P(ideal y) <= P(real y) + tv``, which ``e^epsilon`` multiplies: ``(1 + e^epsilon) tv`` together.
    """
    grown = np.exp(epsilon)
    ideal = norm.cdf(level / 2 - epsilon / level) - grown * norm.cdf(-level / 2 - epsilon / level)
    return float(ideal + (1 + grown) * total_variation)


def epsilon_at(level, delta):
    """The epsilon at which a Gaussian level has a delta."""
    low, high = 0.0, 200.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(level, middle) > delta else (low, middle)
    return high


def attained_epsilon(level, etas, delta, step=2.0**-10):
    """The largest epsilon at ``delta`` that an adaptive attack shows of choices of these ranges and a Gaussian level.

    In every choice the attacker takes the pair of log-ratios ``up`` and ``up - eta`` that is worst for what is left
    (Dong, Durfee and Rogers 2020). On a lattice that holds every ``up``, nothing is interpolated.
    """
    spans = [int(eta / step + 1e-9) for eta in etas]
    first, last = -sum(spans), int(8 * (level + 1) / step) + 2 * sum(spans)
    epsilons = step * np.arange(first, last + 1)
    if level:
        deltas = norm.cdf(level / 2 - epsilons / level) - np.exp(epsilons) * norm.cdf(-level / 2 - epsilons / level)
    else:
        deltas = np.maximum(0.0, -np.expm1(epsilons))
    for span in spans:
        ups = step * np.arange(1, span)
        chances = np.expm1(span * step - ups) / (np.exp(span * step - ups) - np.exp(-ups))
        inside = len(deltas) - 2 * span
        worst = np.zeros(inside)
        for up, chance in enumerate(chances, start=1):  # the loss is up, or up - span
            lower, higher = deltas[span - up :][:inside], deltas[2 * span - up :][:inside]
            worst = np.maximum(worst, chance * lower + (1 - chance) * higher)
        deltas, epsilons = worst, epsilons[span : span + inside]
    return float(np.max(epsilons[deltas > delta], initial=0.0))


def attained_by(pairs, delta):
    """The ``attained_epsilon`` of draws ``(mechanism, scale, one, other)``."""
    choices = [pair for pair in pairs if "choice" in pair[0]]
    etas = [eta for _, rate, one, other in choices if (eta := choice_epsilon(one, other, rate)) > 0]
    level = level_of([pair for pair in pairs if "choice" not in pair[0]])
    return attained_epsilon(level, etas, delta) if etas else epsilon_at(level, delta)

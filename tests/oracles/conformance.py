"""What recorded draws cost, by NumPy and SciPy alone: nothing here is shared with the package's accounting.

A draw is a mechanism, a scale, and what it was drawn onto. Between two data sets its cost is a level of Gaussian DP:

* Gaussian noise of standard deviation ``s`` on vectors ``x`` and ``y``: ``|x - y| / s`` (Dong et al. 2022, theorem 1).
* A choice with probabilities proportional to ``exp(rate * score)``: log-ratios lie in an interval of the length
  ``eta = rate * (max - min of the differences of scores)``, so no attack separates the two better than randomised
  response between ``eta / 2`` and ``-eta / 2``, and its level is ``2 Phi^-1(1 / (1 + exp(-eta / 2)))``.

Levels compose by the root of the sum of their squares (corollary 2).
"""

import numpy as np
from scipy.stats import norm


def gaussian_level(one, other, deviation):
    """The level of a Gaussian draw; NaN or infinities in a total are a defect, and cost everything."""
    difference = np.asarray(one, np.longdouble) - np.asarray(other, np.longdouble)
    moved = float(np.sqrt(np.sum(np.square(difference))))
    return moved / float(deviation) if np.isfinite(moved) else np.inf


def choice_level(one, other, rate):
    """The level of a draw of a row by scores."""
    difference = np.asarray(one, float) - np.asarray(other, float)
    length = float(rate) * float(np.max(difference) - np.min(difference))
    return float(2 * norm.ppf(1 / (1 + np.exp(-length / 2)))) if np.isfinite(length) else np.inf


LEVELS = {"exact Gaussian": gaussian_level, "float Gaussian": gaussian_level, "choice": choice_level}


def composed(levels):
    """The level of several draws together."""
    return float(np.sqrt(np.sum(np.square(levels))))


def delta_of(level, epsilon, total_variation):
    """The least delta of a mechanism of that Gaussian level, of which each world is that far from the ideal one.

    Dong et al. 2022, corollary 1. An event of the real world ``x`` has at most ``P(ideal x) + tv``, and
    ``P(ideal y) <= P(real y) + tv``, which ``e^epsilon`` multiplies: ``(1 + e^epsilon) tv`` together.
    """
    grown = np.exp(epsilon)
    ideal = norm.cdf(level / 2 - epsilon / level) - grown * norm.cdf(-level / 2 - epsilon / level)
    return float(ideal + (1 + grown) * total_variation)

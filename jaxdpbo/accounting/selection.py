"""Cost of private selection: release only the best of a random, hidden number of private runs.

Liu and Talwar (2019), Papernot and Steinke (2022). ``K`` has a truncated negative binomial distribution and stays
hidden: with ``K`` known the theorem is false. The bound is ours, by profiles (docs/theorems.md): sharper than Koskela,
Redberg and Wang (2024), and for Gaussian runs sharper than Papernot and Steinke by Renyi divergences.

Notation: ``d_Q`` is the privacy profile of a run, ``epsilon -> delta``, over both directions of neighbours; ``m`` is
the mean of ``K``; ``eta > -1`` is the shape (1 is geometric, 0 logarithmic) and ``gamma`` in (0, 1) the rate.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy  # submodules load on first use

from jaxdpbo import checks
from jaxdpbo.accounting import grid

Profile = grid.Profile
LARGEST = grid.LARGEST
LOGARITHMIC = 1e-15  # below, a power of gamma counts as its limit at eta = 0


class Repetitions(NamedTuple):
    """The distribution of ``K``: ``eta``, ``gamma`` and the mean; made by ``repetitions``."""

    eta: float
    gamma: float
    mean: float


def repetitions(eta: float, mean: float) -> Repetitions:
    """Return the truncated negative binomial of this shape and mean (Papernot and Steinke 2022, definition 1).

    Raises:
      ValueError: ``eta`` not in (-1, 1e3), ``mean`` not in (1, 1e9), or no distribution in floats.

    >>> from jaxdpbo import accounting
    >>> round(accounting.repetitions(1.0, 16).gamma, 6)
    0.0625
    """
    eta, mean = checks.number("eta", eta), checks.number("mean", mean)
    if not -1 < eta < 1e3 or not 1 < mean < 1e9:
        raise ValueError(f"eta must lie in (-1, 1000) and mean in (1, 1e9), got {eta:g}, {mean:g}")
    low, high = -LARGEST, -1e-12  # of log gamma
    if not _mean(eta, math.exp(low)) > mean > _mean(eta, math.exp(high)):
        raise ValueError(f"eta and mean must give a distribution that floats hold, got {eta:g}, {mean:g}")
    logarithm = scipy.optimize.brentq(lambda at: math.log(_mean(eta, math.exp(at)) / mean), low, high, xtol=1e-14)
    gamma = math.exp(float(logarithm))
    return Repetitions(eta, gamma, max(mean, _mean(eta, gamma)))


def repetition_probabilities(repetitions: Repetitions, largest: int) -> np.ndarray:
    """Return ``P(K = k)`` for ``k`` from 1 to ``largest``; the rest of 1 is the tail.

    Raises:
      ValueError: ``largest`` is not positive.
    """
    k = np.arange(1, checks.size("largest", largest) + 1)
    return np.exp(_log_probabilities(repetitions, k))


def tail_probability(repetitions: Repetitions, largest: int) -> float:
    """Bound ``P(K > largest)`` from above by a geometric series of its first term."""
    following = checks.size("largest", largest) + 1
    first = float(np.exp(_log_probabilities(repetitions, np.array([following]))[0]))
    ratio = (1 - repetitions.gamma) * max(1.0, (following + repetitions.eta) / (following + 1))
    return min(1.0, first / (1 - ratio) * (1 + 1e-9)) if ratio < 1 else 1.0


def generating_function(repetitions: Repetitions, x: np.ndarray) -> np.ndarray:
    """Return ``phi(x) = E[x^K]``, for ``x`` in [0, 1]."""
    logarithm = math.log(repetitions.gamma)
    of_x = np.where(x < 0.5, np.log1p(-(1 - repetitions.gamma) * x), np.log((1 - x) + repetitions.gamma * x))
    if abs(repetitions.eta * logarithm) < LOGARITHMIC:
        return of_x / logarithm
    if repetitions.eta < 0:
        return np.expm1(-repetitions.eta * of_x) / math.expm1(-repetitions.eta * logarithm)
    # gamma^-eta may exceed all floats: divide numerator and denominator by it
    power = repetitions.eta * logarithm
    return np.exp(power - repetitions.eta * of_x) * np.expm1(repetitions.eta * of_x) / math.expm1(power)


def selection_epsilon(repetitions: Repetitions, profile: Profile, delta: float) -> float:
    """Return an ``epsilon`` of the selection: ``epsilon_Q(delta / m) + rho``.

    ``rho`` is the least of ``(eta + 1) log max(e^e1, 1 + (1 - gamma) / gamma d_Q(e1))`` over ``e1 >= 0``, rounded up:
    any ``e1`` gives a valid bound.

    Args:
      repetitions: distribution of the number of runs, made by ``accounting.repetitions``.
      profile: an upper bound on ``d_Q``, nonincreasing, such as ``lambda epsilon: gdp_delta(mu, epsilon)``.
      delta: of the guarantee.

    Returns:
      The ``epsilon``; inf where nothing is proved.

    Raises:
      ValueError: ``delta`` not in (0, 1).

    >>> from jaxdpbo import accounting
    >>> repetitions = accounting.repetitions(0.0, 16)
    >>> round(accounting.selection_epsilon(repetitions, lambda epsilon: accounting.gdp_delta(0.5, epsilon), 1e-5), 5)
    3.09303
    """
    delta, clamped = checks.probability("delta", delta), grid.clamp_profile(profile)
    return grid.first_below(clamped, delta / repetitions.mean) + exponent(repetitions, clamped)


def selection_profile(repetitions: Repetitions, profile: Profile) -> Profile:
    """Return the selection's whole profile, ``epsilon -> m d_Q(epsilon - rho)``, at most 1, for compositions.

    >>> from jaxdpbo import accounting
    >>> repetitions = accounting.repetitions(0.0, 16)
    >>> selected = accounting.selection_profile(repetitions, lambda epsilon: accounting.gdp_delta(0.5, epsilon))
    >>> selected(3.09304) <= 1e-5
    True
    """
    clamped = grid.clamp_profile(profile)
    rho = exponent(repetitions, clamped)

    def profile_of_selection(epsilon: float) -> float:
        return min(1.0, repetitions.mean * clamped(epsilon - rho)) if epsilon >= rho else 1.0

    return profile_of_selection


def exponent(repetitions: Repetitions, profile: Profile) -> float:
    """Return ``rho`` at about the best ``e1``, rounded up.

    Args:
      repetitions: distribution of the number of runs, made by ``accounting.repetitions``.
      profile: of the event that one run beats the released outcome: ``d_Q`` for a plain selection, the weighted sum of
        the profiles of lower levels for a selection over levels.
    """
    odds = (1 - repetitions.gamma) / repetitions.gamma

    def gap(at: float) -> float:
        return odds * profile(at) - math.expm1(at)

    low, high = 0.0, 1.0
    while gap(high) > 0:
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gap(middle) > 0 else (low, middle)
    return (repetitions.eta + 1) * max(high, math.log1p(odds * profile(high)))


def _mean(eta: float, gamma: float) -> float:
    """Return the mean, ``phi'(1)``."""
    logarithm = math.log(gamma)
    if abs(eta * logarithm) < LOGARITHMIC:
        return (1 / gamma - 1) / -logarithm
    return eta * (1 - gamma) / gamma / -math.expm1(eta * logarithm)


def _log_probabilities(repetitions: Repetitions, k: np.ndarray) -> np.ndarray:
    """Return ``log((1 - gamma)^k Gamma(k + eta) / (k! Gamma(eta) (gamma^-eta - 1)))``, or its limit at ``eta = 0``."""
    eta, logarithm = repetitions.eta, math.log(repetitions.gamma)
    # Gamma(k + eta) / Gamma(1 + eta) times eta / (gamma^-eta - 1): both are positive for all eta.
    power = -eta * logarithm
    share = -math.log(-logarithm)
    if abs(power) >= 1e-9:
        share = math.log(abs(eta)) - max(power, 0.0) - math.log(-math.expm1(-abs(power)))
    rising = scipy.special.gammaln(k + eta) - scipy.special.gammaln(1 + eta) - scipy.special.gammaln(k + 1.0)
    return k * math.log1p(-repetitions.gamma) + rising + share

"""What discrete Gaussian noise on the integers costs: exact fractions, rounded towards less privacy claimed.

With noise of ``sigma`` sigma a shift by an integer vector of length ``D`` is ``D^2 / (2 sigma^2)``-zCDP, a theorem
(Canonne, Kamath and Steinke 2020, theorem 4). In terms of GDP it is a little worse than the Gaussian's ``D / sigma``:
the knots of its trade-off curve lie where ``sigma (t(k + 1) - t(k)) <= 1 + kappa / sigma^2``, ``t(k) = -Phi^-1(P(Y >=
k))``, and a shift by more, or in several dimensions, is a telescope and a tensor product of shifts by one. ``kappa``
tends to 1/24 (Euler-Maclaurin) and was computed, not proved, to be below 1/20 for every width from 4 on within 15
widths; beyond them lies less than the table's own truncation. Guarantees that use it say so.
"""

import math
from fractions import Fraction

from jaxdpbo import _checks

KAPPA = Fraction(1, 20)
MIN_SIGMA = 4


def discrete_gaussian_mu(distance: float, sigma: int, releases: int = 1) -> float:
    """The GDP level of ``releases`` draws around integers that move by at most ``distance`` in l2 norm; rounded up.

    ``sqrt(releases) distance / sigma (1 + 1 / (20 sigma^2))``.

    Raises:
      ValueError: ``distance`` not positive, ``sigma`` below 4, ``releases`` below 1.
    """
    moved = Fraction(_checks.positive("distance", distance))
    sigma = _checks.size("sigma", sigma, minimum=MIN_SIGMA)
    squared = _checks.size("releases", releases) * (moved / sigma * (1 + KAPPA / sigma**2)) ** 2
    return _root_above(squared)


def discrete_gaussian_rho(distance: float, sigma: int, releases: int = 1) -> float:
    """The zCDP level of the same, ``releases distance^2 / (2 sigma^2)``: the theorem, no computation; rounded up.

    Raises:
      ValueError: as ``discrete_gaussian_mu``.
    """
    moved = Fraction(_checks.positive("distance", distance))
    sigma = _checks.size("sigma", sigma, minimum=MIN_SIGMA)
    return above(_checks.size("releases", releases) * moved**2 / (2 * sigma**2))


def largest_distance(mu: float, sigma: int, releases: int = 1) -> int:
    """The largest integer distance that costs at most ``mu``: the calibration. It may be 0.

    ``discrete_gaussian_mu(largest_distance(mu, sigma, T), sigma, T) <= mu`` wherever it is positive.

    Raises:
      ValueError: ``mu`` not positive and finite, ``sigma`` below 4, ``releases`` below 1.
    """
    sigma = _checks.size("sigma", sigma, minimum=MIN_SIGMA)
    each = Fraction(_checks.positive("mu", mu)) * sigma / (1 + KAPPA / sigma**2)
    return math.isqrt(math.floor(each**2 / _checks.size("releases", releases)))


def above(value: Fraction) -> float:
    """The least float that is at least ``value``."""
    try:
        found = float(value)
    except OverflowError:
        return math.inf
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


def _root_above(squared: Fraction) -> float:
    shift = (
        60 - (squared.numerator.bit_length() - squared.denominator.bit_length()) // 2
    )  # the squares of few floats are
    root = math.isqrt(math.ceil(squared * Fraction(4) ** shift)) + 1
    found = above(root / Fraction(2) ** shift)
    while Fraction(lower := math.nextafter(found, 0.0)) ** 2 >= squared:
        found = lower
    return found

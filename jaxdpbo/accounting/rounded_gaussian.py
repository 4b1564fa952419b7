"""Cost of rounded Gaussian noise on the integers, in exact fractions, rounded to weaken the guarantee.

An integer vector ``x`` plus ``round(sigma N)`` is ``round(x + sigma N)``: post-processing of the Gaussian mechanism.
So a shift of ``x`` by a vector of length ``D`` costs ``D / sigma`` in terms of GDP (docs/theorems.md).
"""

import math
from fractions import Fraction

from jaxdpbo import checks


def rounded_gaussian_mu(distance: float, sigma: int, releases: int = 1) -> float:
    """Return the GDP level of ``releases`` draws around integers moving by at most ``distance`` in l2 norm, rounded up.

    The level is ``sqrt(releases) distance / sigma``.

    Raises:
      ValueError: ``distance`` not positive, ``sigma`` or ``releases`` below 1.
    """
    moved = Fraction(checks.positive("distance", distance))
    return root_above(checks.size("releases", releases) * (moved / checks.size("sigma", sigma)) ** 2)


def largest_distance(mu: float, sigma: int, releases: int = 1) -> int:
    """Return the largest integer distance of cost at most ``mu``, possibly 0: the calibration.

    ``rounded_gaussian_mu(largest_distance(mu, sigma, T), sigma, T) <= mu`` for every positive distance.

    Raises:
      ValueError: ``mu`` not positive and finite, ``sigma`` or ``releases`` below 1.
    """
    scaled = Fraction(checks.positive("mu", mu)) * checks.size("sigma", sigma)
    return math.isqrt(math.floor(scaled**2 / checks.size("releases", releases)))


def compose_gdp_rounded_up(*levels: float) -> float:
    """Return ``sqrt(sum mu_t^2)`` of GDP levels, rounded up: adaptive composition (Dong et al. 2022, corollary 3.3).

    >>> from jaxdpbo import accounting
    >>> accounting.compose_gdp_rounded_up(3.0, 4.0) >= 5.0
    True
    """
    return root_above(sum((Fraction(checks.positive("level", level)) ** 2 for level in levels), Fraction(0)))


def round_up(value: Fraction) -> float:
    """Return the least float of at least ``value``."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def root_above(squared: Fraction) -> float:
    """Return the least float of at least the root of ``squared``."""
    if not squared:
        return 0.0
    shift = 60 - (squared.numerator.bit_length() - squared.denominator.bit_length()) // 2  # a root of about 60 bits
    root = math.isqrt(math.ceil(squared * Fraction(4) ** shift)) + 1
    upper = round_up(root / Fraction(2) ** shift)
    while Fraction(lower := math.nextafter(upper, 0.0)) ** 2 >= squared:
        upper = lower
    return upper

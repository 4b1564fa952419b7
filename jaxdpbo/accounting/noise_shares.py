"""Cost of Gaussian noise that several parties add in shares, each an exact discrete Gaussian on the integers.

The sum of shares is a discrete Gaussian of the summed variance, and a discrete Gaussian of variance ``s^2`` costs what
a Gaussian of variance ``s^2 - SLACK`` costs, both but for a tiny total variation (docs/theorems.md).
"""

import math
from fractions import Fraction

from jaxdpbo import checks
from jaxdpbo.accounting.rounded_gaussian import root_above

SLACK = Fraction(9, 2)  # b: part of the variance, for the rounding to integers
LEAST_SIGMA = 128  # of a share
ROUNDING = 2.2e-38  # 2 e / (1 - e) for e = 2.001 exp(-2 pi^2 SLACK): total variation for each number
ADDITION = 1e-300  # the same for adding a share: e <= 2.001 exp(-pi^2 LEAST_SIGMA^2)


def discrete_gaussian_mu(distance: int, variance: int, releases: int = 1) -> float:
    """Return the GDP level of ``releases`` sums with discrete Gaussian noise, rounded up.

    Integers move by at most ``distance`` in l2 norm. The level is ``distance sqrt(releases / (variance - 4.5))``.

    Raises:
      ValueError: a number below 1, or ``variance`` below that of the smallest share.
    """
    moved, releases = checks.size("distance", distance), checks.size("releases", releases)
    return root_above(releases * moved**2 / gaussian_variance(variance))


def gaussian_variance(variance: int) -> Fraction:
    """Return the variance of a Gaussian that costs as much as a discrete Gaussian.

    Raises:
      ValueError: ``variance`` below that of the smallest share.
    """
    return Fraction(checks.size("variance", variance, minimum=LEAST_SIGMA**2)) - SLACK


def share_total_variation(shares: int, numbers: int) -> float:
    """Bound the total variation between noised sums and those of ``discrete_gaussian_mu``; tables of draws come extra.

    Args:
      shares: the number of shares in a sum.
      numbers: noised numbers, in all sums.

    >>> from jaxdpbo.accounting import noise_shares
    >>> noise_shares.share_total_variation(50, 1000) < 1e-34
    True
    """
    return checks.size("numbers", numbers) * (ROUNDING + checks.size("shares", shares) * ADDITION)


def share_sigma(sigma: int, shares: int) -> int:
    """Return the least whole ``sigma`` of each of so many shares that together have at least the noise of ``sigma``.

    Raises:
      ValueError: more shares than exact noise of this width can be divided into.
    """
    sigma, shares = checks.size("sigma", sigma), checks.size("shares", shares)
    share = math.isqrt(math.ceil(Fraction(sigma**2, shares)) - 1) + 1
    if share < LEAST_SIGMA:
        raise ValueError(f"shares must be at most {sigma**2 // LEAST_SIGMA**2} for this noise, got {shares}")
    return share

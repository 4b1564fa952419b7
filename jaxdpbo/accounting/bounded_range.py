"""Gaussian DP of the exponential mechanism: the bounded-range formula.

The exponential mechanism has bounded range: for neighbours, the logarithms of the ratios of all its probabilities lie
in an interval of length ``eta`` (Dong, Durfee and Rogers 2020, "Optimal differential privacy composition for
exponential mechanisms", definition 3). It is then ``mu``-GDP, ``mu = 2 Phi^-1(e^(eta/2) / (1 + e^(eta/2)))``, and no
less: ours, docs/theorems.md. For small ``eta`` this is half the cost of ``eta``-DP alone. Taking the largest of noisy
scores has this range only with Gumbel noise: with other noise, rely on ``eta``-DP.
"""

import math

import scipy  # submodules load on first use

from jaxdpbo import checks

MARGIN = 1 + 2.0**-40  # factor above the rounding errors of the functions used


def bounded_range_mu(eta: float) -> float:
    """Return the GDP level of a mechanism of range ``eta``, rounded up.

    Raises:
      ValueError: ``eta`` not positive and finite.

    >>> from jaxdpbo import accounting
    >>> round(accounting.bounded_range_mu(1.0), 4)
    0.6239
    """
    eta = checks.positive("eta", eta)
    if eta < 4:
        half = math.sqrt(2) * float(scipy.special.erfinv(math.tanh(eta / 4)))
    else:
        half = -float(scipy.special.ndtri_exp(-eta / 2 - math.log1p(math.exp(-eta / 2))))
    return 2 * half * MARGIN


def bounded_range_eta(mu: float) -> float:
    """Return the largest range with ``mu``-GDP, rounded down: the calibration.

    ``bounded_range_mu(bounded_range_eta(mu)) <= mu`` always.

    Raises:
      ValueError: ``mu`` not positive and finite, or so large that no float holds the range.

    >>> from jaxdpbo import accounting
    >>> round(accounting.bounded_range_eta(1.0), 4)
    1.6139
    """
    mu = checks.positive("mu", mu)
    if mu < 2:
        return 4 * math.atanh(math.erf(mu / math.sqrt(8))) / MARGIN**2
    upper, lower = (float(scipy.special.log_ndtr(side * mu / 2)) for side in (1, -1))
    return checks.positive("the range of mu", 2 * (upper - lower) / MARGIN**2)

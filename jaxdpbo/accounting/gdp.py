"""Gaussian differential privacy: exact conversion, composition, calibration. Host numerics, float64.

Dong, Roth and Su (2022), "Gaussian differential privacy". A mechanism is ``mu``-GDP if distinguishing neighbours is at
least as hard as distinguishing ``N(0, 1)`` from ``N(mu, 1)``. All conversions are exact for GDP (corollary 2.13); every
rounding weakens the guarantee.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy  # submodules load on first use: this halves the package's import time

from jaxdpbo import checks

ROUNDING = 2.0**-53  # of an operation, relative
FARTHEST = -39.0  # standard deviations: beyond, the density is below the smallest double
SMALL = 0.1  # below this level, integrate the difference of two tails


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest ``delta`` with ``mu``-GDP implying ``(epsilon, delta)``-DP, rounded up.

    ``Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)`` (Dong et al. 2022, corollary 2.13), plus a bound on
    the rounding error, relative 1e-14 or so and at most 2e-12 above 1e-300. The result is 0 at ``mu = 0`` and for
    values far below the smallest double; 1 at ``mu = inf``.

    >>> from jaxdpbo import accounting
    >>> round(accounting.gdp_delta(0.5, 1.0), 6)
    0.00683

    Raises:
      ValueError: ``mu`` or ``epsilon`` negative or NaN.
    """
    mu, epsilon = _nonnegative("mu", mu), _nonnegative("epsilon", epsilon)
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    ratio = epsilon / mu
    upper = mu / 2 - ratio
    if upper < FARTHEST:
        return 0.0
    delta, error = _delta_and_error(mu, upper, mu / 2 + ratio)
    return min(1.0, math.nextafter(delta + error, math.inf))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ``epsilon`` with ``mu``-GDP implying ``(epsilon, delta)``-DP, rounded up.

    ``gdp_delta(mu, gdp_epsilon(mu, delta)) <= delta`` always, and ``gdp_delta`` is itself rounded up.
    The result is 0 for large ``delta``; inf at ``mu = inf`` and above 1e150.

    >>> from jaxdpbo import accounting
    >>> round(accounting.gdp_epsilon(0.5, 1e-5), 3)
    1.993

    Raises:
      ValueError: ``mu`` negative, ``delta`` not strictly between 0 and 1.
    """
    mu, delta = _nonnegative("mu", mu), checks.probability("delta", delta)
    if mu > 1e150:  # epsilon is about mu^2 / 2: beyond the doubles
        return math.inf
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gdp_delta(mu, high) > delta:
        high *= 2.0
    epsilon = _root(lambda epsilon: gdp_delta(mu, epsilon) - delta, 0.0, high)
    return _nudge(epsilon, math.inf, lambda epsilon: gdp_delta(mu, epsilon) <= delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest ``mu`` with ``mu``-GDP implying ``(epsilon, delta)``-DP, rounded down: the calibration.

    ``gdp_delta(gdp_mu(epsilon, delta), epsilon) <= delta`` always.

    >>> from jaxdpbo import accounting
    >>> round(accounting.gdp_mu(3.0, 1e-5), 4)
    0.7191

    Raises:
      ValueError: ``epsilon`` negative or infinite, ``delta`` not strictly between 0 and 1.
    """
    epsilon, delta = checks.nonnegative("epsilon", epsilon), checks.probability("delta", delta)
    high = 1.0
    while gdp_delta(high, epsilon) <= delta:
        high *= 2.0
    low = high
    while gdp_delta(low, epsilon) > delta:
        low /= 2.0
    mu = _root(lambda mu: gdp_delta(mu, epsilon) - delta, low, high)
    return _nudge(mu, 0.0, lambda mu: gdp_delta(mu, epsilon) <= delta)


def compose_gdp(mus: Iterable[float]) -> float:
    """Return ``sqrt(sum mu_t^2)``: adaptive composition (Dong et al. 2022, cor. 3.3; Sopa et al. 2025, cor. 2.5).

    >>> from jaxdpbo import accounting
    >>> accounting.compose_gdp([3.0, 4.0])
    5.0
    """
    if not isinstance(mus, Iterable) or getattr(mus, "shape", None) == ():
        raise TypeError(f"mus must be an iterable of levels, got {mus!r}")
    return math.hypot(*(_nonnegative("mu", mu) for mu in mus))


def split_gdp(mu: float, steps: int) -> float:
    """Return the level ``mu / sqrt(T)`` of each of ``T`` equal steps composing to ``mu``."""
    return _nonnegative("mu", mu) / math.sqrt(checks.size("steps", steps))


def gaussian_standard_deviation(sensitivity: float, mu: float) -> float:
    """Return the noise scale ``sensitivity / mu`` for ``mu``-GDP at this l2 ``sensitivity``; 0 at ``mu = inf``.

    >>> from jaxdpbo import accounting
    >>> accounting.gaussian_standard_deviation(1.0, 0.5)
    2.0
    """
    return checks.positive("sensitivity", sensitivity) / checks.positive("mu", mu, finite=False)


def gaussian_mu(sensitivity: float, standard_deviation: float) -> float:
    """Return the GDP level of Gaussian noise of this ``standard_deviation``; inf at 0.

    >>> from jaxdpbo import accounting
    >>> accounting.gaussian_mu(1.0, 4.0)
    0.25
    """
    sensitivity = checks.positive("sensitivity", sensitivity)
    deviation = _nonnegative("standard_deviation", standard_deviation)
    return math.inf if deviation == 0 else sensitivity / deviation


def dp_event(mu: float, steps: int = 1) -> Any:
    """Return the run as a dp-accounting event: ``steps`` Gaussian mechanisms composing to ``mu``-GDP.

    Needs the ``accounting`` extra. The noise multiplier is noise over the sensitivity UNDER THE RUN'S OWN RELATION
    (2B/n for replace-one), so account for the event under dp-accounting's ADD_OR_REMOVE_ONE, with a Gaussian of
    sensitivity 1; under its REPLACE_ONE some accountants would double the sensitivity a second time.

    >>> from jaxdpbo import accounting
    >>> accounting.dp_event(0.5, steps=4)
    SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=4.0), count=4)
    """
    import dp_accounting  # an extra: import on use

    mu = checks.positive("mu", mu, finite=False)
    if math.isinf(mu):
        return dp_accounting.NonPrivateDpEvent()
    step = dp_accounting.GaussianDpEvent(1.0 / split_gdp(mu, steps))
    return dp_accounting.SelfComposedDpEvent(step, steps)


def _nonnegative(name: str, value: float) -> float:
    """Check a number of at least zero; infinity is allowed and means no privacy."""
    result = checks.number(name, value)
    if result < 0:
        raise ValueError(f"{name} must be at least zero, got {result}")
    return result


def _delta_and_error(mu: float, upper: float, lower: float) -> tuple[float, float]:
    """Return the delta for ``upper = mu / 2 - epsilon / mu``, ``lower = mu / 2 + epsilon / mu``, and its error bound.

    ``e^epsilon = phi(upper) / phi(lower)``, so with Mills' ratio ``R(x) = Phi(-x) / phi(x)`` the delta is
    ``Phi(upper) - phi(upper) R(lower)``, or for ``upper < 0`` ``phi(upper) (R(-upper) - R(lower))``. For a small ``mu``
    the two ratios nearly cancel: their difference is the integral of ``1 + x R(-x)``, by Gauss-Legendre, without
    subtraction.

    The error in units of rounding: 8 for every function and product, plus the effect of the roundings of ``upper`` and
    ``lower``: they move the density by ``|upper|`` relative to its value, a ratio by ``1 / (1 + x^2)`` at most, as
    ``R(x) > x / (1 + x^2)``.
    """
    density = math.exp(-upper * upper / 2) / math.sqrt(2 * math.pi)
    moved = lower + abs(upper)
    if mu < SMALL:
        x = upper - mu / 2 + mu / 2 * _NODES
        slope = 1.0 + x * math.sqrt(math.pi / 2) * scipy.special.erfcx(-x / math.sqrt(2.0))
        difference = mu / 2 * float(_WEIGHTS @ slope)
        lost = 8 * mu + 2 * moved * difference
    elif upper >= 0:
        delta = float(scipy.special.ndtr(upper)) - density * _mills(lower)
        return delta, ROUNDING * (16 + 2 * density * moved)
    else:
        nearer, farther = _mills(-upper), _mills(lower)
        difference = nearer - farther
        lost = 8 * (nearer + farther) + 2 * moved / (1 + upper * upper)
    relative = abs(upper) * (moved + 2 * abs(upper)) + 8  # of the density
    return density * difference, ROUNDING * density * (difference * relative + lost)


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x / math.sqrt(2.0)))


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _root(function, low: float, high: float) -> float:
    return float(scipy.optimize.brentq(function, low, high, xtol=1e-300, maxiter=1000))  # pyright: ignore[reportArgumentType]


def _nudge(value: float, towards: float, holds) -> float:
    """Return the first value at or beyond ``value`` where ``holds``: a root-finder may stop on the wrong side."""
    step = math.ulp(value)
    while not holds(value):
        value = value + step if towards > value else max(value - step, 0.0)
        step *= 2.0
    return value

"""Gaussian differential privacy: exact conversion, composition, calibration. Host numerics, float64.

Dong, Roth and Su (2022), "Gaussian differential privacy". A mechanism is ``mu``-GDP if telling neighbours apart is at
least as hard as telling ``N(0, 1)`` from ``N(mu, 1)``. All conversions are exact for GDP (corollary 2.13); what is
rounded is rounded towards less privacy claimed.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy  # its submodules load where they are first used: half of the time to import this package

from jaxdpbo import _checks


def gdp_delta(mu: float, epsilon: float) -> float:
    """The smallest ``delta`` with ``mu``-GDP implying ``(epsilon, delta)``-DP.

    ``Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)`` (Dong et al. 2022, corollary 2.13), evaluated
    in logarithms. 0 at ``mu = 0``; 1 at ``mu = inf``.

    Raises:
      ValueError: ``mu`` or ``epsilon`` negative or NaN.
    """
    mu, epsilon = _nonnegative("mu", mu), _nonnegative("epsilon", epsilon)
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    if mu < 0.1:
        return _small_delta(mu, epsilon)
    first = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    if math.isinf(first) or second >= first:  # both tails under the smallest double
        return 0.0
    return math.exp(first) * -math.expm1(second - first)


def gdp_epsilon(mu: float, delta: float) -> float:
    """The smallest ``epsilon`` with ``mu``-GDP implying ``(epsilon, delta)``-DP; rounded up.

    ``gdp_delta(mu, gdp_epsilon(mu, delta)) <= delta`` always. 0 where ``delta`` is large enough; inf at ``mu = inf``.

    Raises:
      ValueError: ``mu`` negative, ``delta`` not strictly between 0 and 1.
    """
    mu, delta = _nonnegative("mu", mu), _checks.probability("delta", delta)
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
    """The largest ``mu`` such that ``mu``-GDP implies ``(epsilon, delta)``-DP; rounded down: the calibration.

    ``gdp_delta(gdp_mu(epsilon, delta), epsilon) <= delta`` always.

    Raises:
      ValueError: ``epsilon`` negative or infinite, ``delta`` not strictly between 0 and 1.
    """
    epsilon, delta = _checks.nonnegative("epsilon", epsilon), _checks.probability("delta", delta)
    high = 1.0
    while gdp_delta(high, epsilon) <= delta:
        high *= 2.0
    low = high
    while gdp_delta(low, epsilon) > delta:
        low /= 2.0
    mu = _root(lambda mu: gdp_delta(mu, epsilon) - delta, low, high)
    return _nudge(mu, 0.0, lambda mu: gdp_delta(mu, epsilon) <= delta)


def compose_gdp(mus: Iterable[float]) -> float:
    """``sqrt(sum mu_t^2)``: adaptive composition (Dong et al. 2022, corollary 3.3; Sopa et al. 2025, corollary 2.5)."""
    if not isinstance(mus, Iterable) or getattr(mus, "shape", None) == ():
        raise TypeError(f"mus must be levels, got {mus!r}")
    return math.hypot(*(_nonnegative("mu", mu) for mu in mus))


def split_gdp(mu: float, steps: int) -> float:
    """The level ``mu / sqrt(T)`` of each of ``T`` equal steps that compose to ``mu``."""
    return _nonnegative("mu", mu) / math.sqrt(_checks.size("steps", steps))


def gaussian_standard_deviation(sensitivity: float, mu: float) -> float:
    """Noise that makes a statistic of this l2 ``sensitivity`` ``mu``-GDP: ``sensitivity / mu`` (0 at ``mu = inf``)."""
    return _checks.positive("sensitivity", sensitivity) / _checks.positive("mu", mu, finite=False)


def gaussian_mu(sensitivity: float, standard_deviation: float) -> float:
    """The GDP level of Gaussian noise of this ``standard_deviation``; inf where it is 0."""
    sensitivity = _checks.positive("sensitivity", sensitivity)
    deviation = _nonnegative("standard_deviation", standard_deviation)
    return math.inf if deviation == 0 else sensitivity / deviation


def dp_event(mu: float, steps: int = 1) -> Any:
    """The run as a dp-accounting event: ``steps`` Gaussian mechanisms that compose to ``mu``-GDP.

    Needs the ``accounting`` extra. The noise multiplier is noise over the sensitivity UNDER THE RUN'S OWN RELATION
    (2B/n for replace-one), so account for the event under dp-accounting's ADD_OR_REMOVE_ONE, whose Gaussian has
    sensitivity 1; under its REPLACE_ONE some accountants would double the sensitivity a second time.
    """
    import dp_accounting  # an extra: imported where it is used

    mu = _checks.positive("mu", mu, finite=False)
    if math.isinf(mu):
        return dp_accounting.NonPrivateDpEvent()
    step = dp_accounting.GaussianDpEvent(1.0 / split_gdp(mu, steps))
    return dp_accounting.SelfComposedDpEvent(step, steps)


def _nonnegative(name: str, value: float) -> float:
    """A number of at least zero; infinity is allowed: it means no privacy."""
    result = _checks.number(name, value)
    if result < 0:
        raise ValueError(f"{name} must be at least zero, got {result}")
    return result


def _small_delta(mu: float, epsilon: float) -> float:
    """The same delta where its two terms nearly cancel.

    With ``a = mu / 2 - epsilon / mu`` and ``R = Phi / phi``, ``e^epsilon = phi(a) / phi(a - mu)``, so the delta is
    ``phi(a) (R(a) - R(a - mu))``: the integral of ``R'(x) = 1 + x R(x)``, by Gauss-Legendre, nothing subtracted.
    """
    upper = mu / 2 - epsilon / mu
    if upper < -40:  # phi is under the smallest double
        return 0.0
    x = upper - mu / 2 + mu / 2 * _NODES
    slope = 1.0 + x * math.sqrt(math.pi / 2) * scipy.special.erfcx(-x / math.sqrt(2.0))
    return math.exp(-(upper**2) / 2) / math.sqrt(2 * math.pi) * mu / 2 * float(_WEIGHTS @ slope)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _root(function, low: float, high: float) -> float:
    return float(scipy.optimize.brentq(function, low, high, xtol=1e-300, maxiter=1000))  # pyright: ignore[reportArgumentType]


def _nudge(value: float, towards: float, holds) -> float:
    """The first value at or beyond ``value`` where ``holds``: a root-finder may stop on the wrong side."""
    step = math.ulp(value)
    while not holds(value):
        value = value + step if towards > value else max(value - step, 0.0)
        step *= 2.0
    return value

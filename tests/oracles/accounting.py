"""Gaussian differential privacy by quadrature of the hockey-stick divergence: every integrand is positive.

Between ``N(mu, 1)`` and ``N(0, 1)`` the likelihood ratio exceeds ``e^epsilon`` beyond ``x0 = epsilon / mu + mu / 2``,
so ``delta = int_x0^inf (phi(x - mu) - e^epsilon phi(x)) dx``, which is ``int_0^inf phi(c + t) (1 - e^(-mu t)) dt`` with
``c = x0 - mu``.
"""

import functools
import itertools
import math
from decimal import Decimal, getcontext, localcontext

from scipy.integrate import quad


def log_delta(mu: float, epsilon: float) -> float:
    """``log delta``; -inf at ``mu = 0``. Finite where ``delta`` itself is far under the smallest double."""
    if mu == 0:
        return -math.inf
    c = epsilon / mu - mu / 2
    peak = max(-c, 0.0)
    scale = min(1.0, 1.0 / max(c, 1e-300))  # the integrand falls as e^(-c t - t^2 / 2)

    def integrand(t):  # phi(c + t) over its largest value on t >= 0
        exponent = -c * t - t * t / 2 if c > 0 else -((c + t) ** 2) / 2
        return math.exp(exponent) * -math.expm1(-mu * t)

    edges = [0.0, *(peak + scale * step for step in (-20, -8, -4, -2, -1, 0, 0.25, 1, 2, 4, 8, 20, 50))]
    edges = sorted({edge for edge in edges if edge >= 0})
    total = math.fsum(quad(integrand, low, high, epsabs=0, epsrel=1e-13)[0] for low, high in itertools.pairwise(edges))
    return math.log(total) - max(c, 0.0) ** 2 / 2 - math.log(2 * math.pi) / 2


def delta(mu: float, epsilon: float) -> float:
    """The smallest ``delta`` with which ``mu``-GDP implies ``(epsilon, delta)``-DP."""
    return math.exp(log_delta(mu, epsilon))


def epsilon(mu: float, target: float) -> float:
    """The ``epsilon`` at which ``delta(mu, epsilon) = target``, by bisection; 0 where it is under already."""
    if log_delta(mu, 0.0) <= math.log(target):
        return 0.0
    low, high = 0.0, 1.0
    while log_delta(mu, high) > math.log(target):
        low, high = high, 2 * high
    return _bisect(lambda value: log_delta(mu, value) > math.log(target), low, high)


def mu(epsilon: float, target: float) -> float:
    """The ``mu`` at which ``delta(mu, epsilon) = target``, by bisection."""
    low, high = 1e-12, 1.0
    while log_delta(high, epsilon) < math.log(target):
        low, high = high, 2 * high
    return _bisect(lambda value: log_delta(value, epsilon) < math.log(target), low, high)


def _bisect(below, low: float, high: float) -> float:
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


def repetition_law(eta: float, gamma: float, count: int) -> list[Decimal]:
    """``P(K = k)`` for ``k`` from 1 to ``count``, by their ratios, and so that they sum to 1."""
    with localcontext() as context:
        context.prec = 60
        shape, rate, weights = Decimal(eta), 1 - Decimal(gamma), [Decimal(1)]
        for k in range(1, count):
            weights.append(weights[-1] * rate * (k + shape) / (k + 1))
        total = sum(weights)
        return [weight / total for weight in weights]


def exact_delta(mu: float, epsilon: float) -> Decimal:
    """``Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)`` to 50 digits, by power series."""
    with localcontext() as context:
        far = (mu / 2 + epsilon / mu) ** 2 / 2
        context.prec = 60 + math.ceil((far + epsilon) / math.log(10))
        context.Emin = -(10**6)
        level, loss = Decimal(mu), Decimal(epsilon)
        return _normal_cdf(level / 2 - loss / level) - loss.exp() * _normal_cdf(-level / 2 - loss / level)


def _normal_cdf(x: Decimal) -> Decimal:
    """``1 / 2 + phi(x) (x + x^3 / 3 + x^5 / (3 5) + ...)``: far below 0 nearly all digits cancel."""
    with localcontext() as context:
        context.prec += 5
        square, term, total, odd = x * x, x, x, 1
        while abs(term) > abs(total) * Decimal(10) ** -context.prec:
            odd += 2
            term *= square / odd
            total += term
        return Decimal(1) / 2 + (-square / 2).exp() / _root_of_two_pi() * total


@functools.cache
def _pi(digits: int) -> Decimal:
    """Machin's ``16 arctan(1 / 5) - 4 arctan(1 / 239)``."""
    with localcontext() as context:
        context.prec = digits + 5

        def arctan(inverse: int) -> Decimal:
            power, total, k = Decimal(1) / inverse, Decimal(1) / inverse, 1
            while abs(power) > Decimal(10) ** -context.prec:
                power, k = -power / inverse**2, k + 2
                total += power / k
            return total

        return 16 * arctan(5) - 4 * arctan(239)


def _root_of_two_pi() -> Decimal:
    return (2 * _pi(-(-getcontext().prec // 100) * 100)).sqrt()

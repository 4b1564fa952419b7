"""Probabilities as integers over 2^128, made on the host in decimals: what the exact mechanisms compare bits with.

A table of thresholds ``t_0 <= t_1 <= ...`` is drawn from by ``#{x: u >= t_x}``, ``u`` uniform on 128 bits: outcome
``x`` has the probability ``(t_x - t_(x-1)) / 2^128``, which is within ``2^-128`` of the distribution's own. The
``total_variation`` functions bound the total variation distance of one draw from its distribution; they are theorems
about tables, not measurements.

Tables are NumPy arrays ``(T, 4)`` of 32-bit words, the most significant first; each is made once.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache, wraps
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import _checks

DIGITS = 80
SMALLEST = Decimal(10) ** -50  # terms of a series that are added up, of masses near 1
WORDS = 4
TOTAL = 2**128
MAX_DEVIATIONS = 14  # standard deviations that a Gaussian table covers
MAX_DIGITS = 31  # digits of a geometric variable
TAIL = 92  # e^-92 < 2^-132: where an exponential tail is cut
MAX_SIGMA = 2**24  # of a Gaussian
FINEST, FINEST_LADDER, FINEST_PLANE = Fraction(1, 2**31), Fraction(1, 2**14), Fraction(1, 16)  # longer: no memory
PART, MAX_FACTOR = 324, 8  # the variance of a part of a wide Gaussian, and how many of its steps make one of the next


def _made_once(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A table made once for each argument, which is checked before."""

    def wrap(make: Any) -> Any:
        made = cache(make)
        return wraps(make)(lambda argument: made(check(argument)))

    return wrap


def _rate(finest: Fraction) -> Callable[[Any], Fraction]:
    return lambda rate: _checks.rational("rate", rate, minimum=finest)


def _sigma(sigma: Any) -> int:
    if _checks.size("sigma", sigma) > MAX_SIGMA:
        raise ValueError(f"sigma must be at most {MAX_SIGMA}, got {sigma}")
    return int(sigma)


def _probabilities(probabilities: Any) -> tuple[Fraction, ...]:
    if not isinstance(probabilities, tuple | list):
        raise TypeError(f"probabilities must be a tuple of Fractions, got {probabilities!r}")
    exact = tuple(
        _checks.rational("probabilities", one, minimum=Fraction(0), maximum=Fraction(1)) for one in probabilities
    )
    if sum(exact) != 1:
        raise ValueError(f"probabilities must sum to 1, got {sum(exact)}")
    return exact


class Sum(NamedTuple):
    """A sum of ``factors[i] x_i``, ``x_i`` drawn from table ``limbs[i]`` of ``limbs (k, T, 4)``.

    Shorter tables are filled up with 2^128 - 1, which one ``u`` in 2^128 reaches.
    """

    limbs: np.ndarray
    factors: tuple[int, ...]


@_made_once(_sigma)
def gaussian(sigma: int) -> Sum:
    """Tables of the rounded Gaussian, ``round(sigma N)`` for a standard normal ``N``.

    From 41 on as ``x_0 + c_1 (x_1 + c_2 (x_2 + ...))``, ``x_0`` a rounded Gaussian and the others discrete ones,
    ``P(x)`` proportional to ``exp(-x^2 / (2 a))``; all but the last of variance ``a = 324``, and the last of at least
    that. By Poisson's summation ``x_i + c y``, ``y`` of variance ``b``, is within ``(1 + e) / (1 - e)`` of the
    distribution of variance ``a + c^2 b`` at every integer, ``e <= 2.001 exp(-2 pi^2 a b / (a + c^2 b))``
    (docs/theorems.md). So the tables stay small, and their number grows with the logarithm of the width.
    """
    variance, factors, parts = Fraction(sigma) ** 2, [1], []
    while (factor := min(MAX_FACTOR, math.isqrt(max(0, math.floor(variance / PART - 1))))) > 1:
        rest = (variance - PART) / factor**2
        assert PART * rest >= Fraction(498, 100) * variance  # e < 2^-140
        parts.append(Fraction(PART))
        factors.append(factors[-1] * factor)
        variance = rest
    first, *others = [*parts, variance]
    found = [_rounded_gaussian(first), *map(_gaussian, others)]
    limbs = np.full((len(found), max(map(len, found)), WORDS), 2**32 - 1, np.uint32)
    for row, part in zip(limbs, found, strict=True):
        row[: len(part)] = part
    return Sum(limbs, tuple(factors))


def gaussian_total_variation(sigma: int) -> float:
    """How far, at most, a draw is from the rounded Gaussian."""
    count, length, _ = gaussian(sigma).limbs.shape
    return count * ((length + 1) * 2.0**-128 + 2.0**-139)


@_made_once(_rate(FINEST))
def geometric(rate: Fraction) -> np.ndarray:
    """Of the binary digits of a geometric variable, ``P(g)`` proportional to ``exp(-rate g)``: they are independent.

    Digit ``i`` is 1 with probability ``1 / (1 + e^(rate 2^i))``; a row for each, where a draw below it says 1.

    Raises:
      ValueError: it would have more than the 31 that an ``int32`` holds.
    """
    if digits(rate) > MAX_DIGITS:
        raise ValueError(f"rate must be at least {TAIL / 2**MAX_DIGITS:.2g}, got {float(rate):g}")
    with localcontext() as context:
        context.prec = DIGITS
        exact = _decimal(rate)
        probabilities = [1 / (1 + (exact * 2**i).exp()) for i in range(digits(rate))]
        return _words([_rounded(probability) for probability in probabilities])


def padded(rate: Fraction) -> np.ndarray:
    """``geometric(rate)`` with digits that are never 1 added up to 31: one shape for all rates."""
    table = geometric(rate)
    return np.concatenate([table, np.zeros((MAX_DIGITS - len(table), WORDS), np.uint32)])


def digits(rate: Fraction) -> int:
    """How many binary digits a geometric variable of this rate is drawn with."""
    return max(1, math.ceil(math.log2(TAIL / _checks.rational("rate", rate, minimum=FINEST))))


def geometric_total_variation(rate: Fraction) -> float:
    """How far, at most, a geometric draw is from its distribution."""
    count = digits(rate)
    return count * 2.0**-128 + math.exp(-float(rate) * 2**count)


@_made_once(_rate(FINEST_LADDER))
def ladder(rate: Fraction) -> tuple[int, ...]:
    """Integer weights ``W_0 = 2^96``, ``W_(j+1) = ceil(W_j q)`` down to 1, ``q >= e^-rate`` rational.

    ``W_j <= e^rate W_(j+1)`` holds EXACTLY, whatever the rounding: each weight is rounded up.
    """
    with localcontext() as context:
        context.prec, context.rounding = DIGITS, ROUND_CEILING
        power = (-_decimal(rate)).exp()
        fraction = int((power.next_plus().next_plus() * 10**70).to_integral_value(ROUND_CEILING)), 10**70
    weights = [2**96]
    while weights[-1] > 1 and (following := -(-weights[-1] * fraction[0] // fraction[1])) < weights[-1]:
        weights.append(following)
    return tuple(weights)


class Octant(NamedTuple):
    """Thresholds ``(T, 4)`` of cells of one eighth of the plane, and the cells ``(T, 2)`` themselves."""

    thresholds: np.ndarray
    cells: np.ndarray


@_made_once(_rate(FINEST_PLANE))
def planar(rate: Fraction) -> Octant:
    """Of ``P(z)`` proportional to ``exp(-rate |z|)`` on the integer plane, folded to ``0 <= y <= x``.

    Cells on an axis or the diagonal stand for 4 cells, the origin for 1, the others for 8.
    """
    limit = math.ceil(82 / rate)
    x, y = np.meshgrid(np.arange(limit + 1), np.arange(limit + 1), indexing="ij")
    squared = x * x + y * y
    kept = (y <= x) & (squared <= limit * limit)
    cells = np.stack([x[kept], y[kept]], axis=1)
    copies = np.where(squared[kept] == 0, 1, np.where((cells[:, 1] == 0) | (cells[:, 0] == cells[:, 1]), 4, 8))
    with localcontext() as context:
        context.prec = 50
        exact = _decimal(rate)
        heights = {int(s): (-exact * Decimal(int(s)).sqrt()).exp() for s in np.unique(squared[kept])}
        masses = [heights[int(s)] * int(c) for s, c in zip(squared[kept], copies, strict=True)]
        return Octant(_thresholds(masses), cells.astype(np.int32))


def planar_total_variation(rate: Fraction) -> float:
    """How far, at most, a planar draw is from its distribution: rounding, and what lies beyond 82 scales."""
    return (len(planar(rate).cells) + 1) * 2.0**-128 + 100.0 * math.exp(-82.0)


@_made_once(_probabilities)
def choice(probabilities: tuple[Fraction, ...]) -> np.ndarray:
    """Of outcomes ``0, 1, ...`` with these probabilities, which sum to 1: exact for multiples of 2^-128."""
    below = itertools.accumulate(probabilities[:-1])
    return _words([min(round(part * TOTAL), TOTAL - 1) for part in below])


def truth(epsilon: float, count: int) -> Fraction:
    """The probability of the true one of ``count`` answers, the others all alike, with odds of at most ``e^epsilon``.

    A multiple of 2^-128, as the others' are: with ``q <= e^epsilon`` rational they are ``ceil(2^128 / (q + count - 1))
    / 2^128`` each, and the true one's is the rest, at most ``q`` times as much and more than another's.

    Raises:
      ValueError: ``epsilon`` under ``count^2 2^-127``, which no multiples of 2^-128 have.
    """
    epsilon, count = _checks.positive("epsilon", epsilon), _checks.size("count", count, minimum=2)
    if epsilon < count**2 * 2.0**-127:
        raise ValueError(f"epsilon must be at least {count**2 * 2.0**-127:.2g} for {count} answers, got {epsilon:g}")
    with localcontext() as context:
        context.prec = DIGITS
        power = Fraction(Decimal(min(epsilon, 89.0)).exp().next_minus().next_minus())  # e^89 > 2^128
    other = math.ceil(TOTAL / (power + count - 1))
    return Fraction(TOTAL - (count - 1) * other, TOTAL)


def _rounded_gaussian(variance: Fraction) -> np.ndarray:
    """Of ``|round(x)|`` for a normal ``x``."""
    with localcontext() as context:
        context.prec = DIGITS
        exact = _decimal(variance)
        masses = [_around(x, weight, exact) for x, weight in enumerate(_weights(variance))]
        return _thresholds([masses[0], *(2 * mass for mass in masses[1:])])  # of x and -x


def _gaussian(variance: Fraction) -> np.ndarray:
    """Of ``|x|`` for a discrete Gaussian ``x``."""
    with localcontext() as context:
        context.prec = DIGITS
        first, *others = _weights(variance)
        return _thresholds([first, *(2 * weight for weight in others)])


def _weights(variance: Fraction) -> Iterator[Decimal]:
    """``exp(-x^2 / (2 variance))`` for ``x = 0, 1, ...``, to the last of a table: beyond lie 2^-145 of the sum."""
    exact = _decimal(variance)
    weight, ratio, step = Decimal(1), (-1 / (2 * exact)).exp(), (-1 / exact).exp()
    yield weight
    for _ in range(math.isqrt(math.ceil(MAX_DEVIATIONS * MAX_DEVIATIONS * variance)) + 1):
        weight *= ratio
        ratio *= step
        yield weight


def _around(x: int, weight: Decimal, variance: Decimal) -> Decimal:
    """The integral of ``exp(-t^2 / (2 variance))``, ``weight`` at ``x``, over ``x - 1/2 < t < x + 1/2``, by Taylor.

    The ``k``-th coefficient, times ``2^-k``, follows from the two before it; the even ones count, over ``k + 1``.
    """
    half, quarter = Decimal(x) / (2 * variance), 1 / (4 * variance)
    before, term, total, order = Decimal(0), weight, weight, 0
    while max(abs(term), abs(before)) > SMALLEST:
        order += 1
        before, term = term, -(half * term + quarter * before) / order
        if order % 2 == 0:
            total += term / (order + 1)
    return total


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def _thresholds(masses: list[Decimal]) -> np.ndarray:
    """Cumulated, all but the last: what no threshold stops is the last outcome."""
    total, below, found = sum(masses), Decimal(0), []
    for mass in masses[:-1]:
        below += mass
        found.append(_rounded(below / total))
    return _words(found)


def _rounded(probability: Decimal) -> int:
    return min(int((probability * TOTAL).to_integral_value(ROUND_HALF_EVEN)), TOTAL - 1)


def _words(values: list[int]) -> np.ndarray:
    data = b"".join(value.to_bytes(4 * WORDS, "big") for value in values)
    return np.frombuffer(data, ">u4").astype(np.uint32).reshape(-1, WORDS)

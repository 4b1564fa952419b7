"""Probabilities as integers over 2^128, made on the host in decimals: thresholds for the bits of exact mechanisms.

A table of thresholds ``t_0 <= t_1 <= ...`` gives the draw ``#{x: u >= t_x}``, ``u`` uniform on 128 bits: outcome ``x``
has the probability ``(t_x - t_(x-1)) / 2^128``, within ``2^-128`` of the distribution's own. The ``total_variation``
functions bound the total variation distance of a draw from its distribution; they are theorems about tables, not
measurements.

Tables are NumPy arrays ``(T, 4)`` of 32-bit words, the most significant first; each is made once. Gaussian tables also
come with 64 bits, for a great many draws that can afford ``2^-54`` of total variation each.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from functools import cache, wraps
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks, rounding

DIGITS = 80
SMALLEST = Decimal(10) ** -50  # smallest term of a series to add up, for masses near 1
WORDS = 4
TOTAL = 2**128
MAX_DIGITS = 31  # digits of a geometric variable
TAIL = 92  # e^-92 < 2^-132: where an exponential tail is cut
MAX_SIGMA = 2**24  # largest width of a Gaussian
FINEST, FINEST_LADDER, FINEST_PLANE = Fraction(1, 2**31), Fraction(1, 2**14), Fraction(1, 16)  # smaller: no memory


def _make_once(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a table once for each argument, after a check of the argument."""

    def wrap(make: Any) -> Any:
        made = cache(make)
        return wraps(make)(lambda argument: made(check(argument)))

    return wrap


def _rate(finest: Fraction) -> Callable[[Any], Fraction]:
    return lambda rate: checks.rational("rate", rate, minimum=finest)


def _sigma(sigma: Any) -> int:
    if checks.size("sigma", sigma) > MAX_SIGMA:
        raise ValueError(f"sigma must be at most {MAX_SIGMA}, got {sigma}")
    return int(sigma)


def _probabilities(probabilities: Any) -> tuple[Fraction, ...]:
    if not isinstance(probabilities, tuple | list):
        raise TypeError(f"probabilities must be a tuple of Fractions, got {probabilities!r}")
    exact = tuple(
        checks.rational("probabilities", probability, minimum=Fraction(0), maximum=Fraction(1))
        for probability in probabilities
    )
    if sum(exact) != 1:
        raise ValueError(f"probabilities must sum to 1, got {sum(exact)}")
    return exact


class TableSum(NamedTuple):
    """A sum of ``factors[i] x_i``, ``x_i`` drawn from table ``limbs[i]`` of ``limbs (k, T, 4)``.

    Shorter tables are filled up with 2^128 - 1, reached by a single ``u`` in 2^128.
    """

    limbs: np.ndarray
    factors: tuple[int, ...]


class Precision(NamedTuple):
    """Parameters of a Gaussian's tables.

    Attributes:
      words: of 32 bits, in each threshold.
      deviations: range of a table; beyond lies less than ``2^-(bits + 11)``.
      part: the variance of all but the last of its parts.
      factor: the most steps of a part in a step of the next.
    """

    words: int
    deviations: int
    part: int
    factor: int


PRECISIONS = {128: Precision(4, 14, 361, 8), 64: Precision(2, 10, 100, 6)}


def gaussian(sigma: int, bits: int = 128) -> TableSum:
    """Return tables of the rounded Gaussian, ``round(sigma N)`` for a standard normal ``N``.

    Wide Gaussians are ``x_0 + c_1 (x_1 + c_2 (x_2 + ...))``, ``x_0`` a rounded Gaussian and the others discrete ones,
    ``P(x)`` proportional to ``exp(-x^2 / (2 a))``; all but the last of variance ``a = part``, and the last of at least
    ``part``. By Poisson's summation ``x_i + c y``, ``y`` of variance ``b``, is within ``(1 + e) / (1 - e)`` of the
    distribution of variance ``a + c^2 b`` at every integer, ``e <= 2.001 exp(-2 pi^2 a b / (a + c^2 b))``
    (docs/theorems.md). So the tables stay small, and their number grows with the logarithm of the width.

    Raises:
      ValueError: ``sigma`` above 2^24, or ``bits`` not of ``PRECISIONS``.
    """
    if checks.size("bits", bits) not in PRECISIONS:
        raise ValueError(f"bits must be one of {', '.join(map(str, PRECISIONS))}, got {bits}")
    return _parts(_sigma(sigma), int(bits), False)


def discrete_gaussian(sigma: int) -> TableSum:
    """Return tables of the discrete Gaussian, ``P(x)`` proportional to ``exp(-x^2 / (2 sigma^2))``; see ``gaussian``.

    The innermost part is a discrete Gaussian too.

    Raises:
      ValueError: ``sigma`` above 2^24.
    """
    return _parts(_sigma(sigma), 128, True)


def gaussian_total_variation(sigma: int, bits: int = 128) -> float:
    """Bound the total variation of a draw from the rounded Gaussian, or from the discrete one."""
    count, length, _ = gaussian(sigma, bits).limbs.shape
    return count * ((length + 1) * 2.0**-bits + 2.0 ** -(bits + 9))


@cache
def _parts(sigma: int, bits: int, discrete: bool) -> TableSum:
    precision, variance, factors, parts = PRECISIONS[bits], Fraction(sigma) ** 2, [1], []
    part = Fraction(precision.part)
    while (factor := min(precision.factor, math.isqrt(max(0, math.floor(variance / part - 1))))) > 1:
        rest = (variance - part) / factor**2
        assert 24 * part * rest >= bits * variance  # e < 2^-(bits + 10)
        parts.append(part)
        factors.append(factors[-1] * factor)
        variance = rest
    first, *others = [*parts, variance]
    innermost = _gaussian if discrete else _rounded_gaussian
    tables = [innermost(first, bits), *(_gaussian(other, bits) for other in others)]
    limbs = np.full((len(tables), max(map(len, tables)), precision.words), 2**32 - 1, np.uint32)
    for row, table in zip(limbs, tables, strict=True):
        row[: len(table)] = table
    return TableSum(limbs, tuple(factors))


@_make_once(_rate(FINEST))
def geometric(rate: Fraction) -> np.ndarray:
    """Return a table of a geometric variable's independent binary digits, ``P(g)`` proportional to ``exp(-rate g)``.

    Digit ``i`` is 1 with probability ``1 / (1 + e^(rate 2^i))``; a row for each, with draws below the row giving 1.

    Raises:
      ValueError: more digits than the 31 of an ``int32``.
    """
    if digits(rate) > MAX_DIGITS:
        raise ValueError(f"rate must be at least {rounding.shorten_up(TAIL / 2**MAX_DIGITS, 3)}, got {float(rate):g}")
    with localcontext() as context:
        context.prec = DIGITS
        exact = _decimal(rate)
        probabilities = [1 / (1 + (exact * 2**i).exp()) for i in range(digits(rate))]
        return _words([_round(probability) for probability in probabilities])


def pad_geometric(rate: Fraction) -> np.ndarray:
    """Pad ``geometric(rate)`` to 31 digits that are never 1: the same shape for all rates."""
    table = geometric(rate)
    return np.concatenate([table, np.zeros((MAX_DIGITS - len(table), WORDS), np.uint32)])


def digits(rate: Fraction) -> int:
    """Return the number of binary digits of a geometric draw with this rate."""
    return max(1, math.ceil(math.log2(TAIL / checks.rational("rate", rate, minimum=FINEST))))


def geometric_total_variation(rate: Fraction) -> float:
    """Bound the total variation of a geometric draw from its distribution."""
    count = digits(rate)
    return count * 2.0**-128 + math.exp(-float(rate) * 2**count)


@_make_once(_rate(FINEST_LADDER))
def ladder(rate: Fraction) -> tuple[int, ...]:
    """Return integer weights ``W_0 = 2^96``, ``W_(j+1) = ceil(W_j q)`` down to 1, ``q >= e^-rate`` rational.

    ``W_j <= e^rate W_(j+1)`` holds EXACTLY, under any rounding: each weight is rounded up.
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
    """Thresholds ``(T, 4)`` of cells of an eighth of the plane, and the cells ``(T, 2)`` themselves."""

    thresholds: np.ndarray
    cells: np.ndarray


@_make_once(_rate(FINEST_PLANE))
def planar(rate: Fraction) -> Octant:
    """Return the table of ``P(z)`` proportional to ``exp(-rate |z|)`` on the integer plane, folded to ``0 <= y <= x``.

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
    """Bound the total variation of a planar draw from its distribution: rounding, and the mass beyond 82 scales."""
    return (len(planar(rate).cells) + 1) * 2.0**-128 + 100.0 * math.exp(-82.0)


@_make_once(_probabilities)
def choice(probabilities: tuple[Fraction, ...]) -> np.ndarray:
    """Return the table of outcomes ``0, 1, ...`` with these probabilities of sum 1: exact for multiples of 2^-128."""
    below = itertools.accumulate(probabilities[:-1])
    return _words([min(round(part * TOTAL), TOTAL - 1) for part in below])


def truth(epsilon: float, count: int) -> Fraction:
    """Return the true answer's probability among ``count``, the others equal, with odds of at most ``e^epsilon``.

    A multiple of 2^-128: with ``q <= e^epsilon`` rational the others have ``ceil(2^128 / (q + count - 1)) / 2^128``
    each, and the true answer the rest, at most ``q`` times as much and more than another.

    Raises:
      ValueError: ``epsilon`` under ``count^2 2^-127``, out of reach for multiples of 2^-128.
    """
    epsilon, count = checks.positive("epsilon", epsilon), checks.size("count", count, minimum=2)
    if epsilon < (least := count**2 * 2.0**-127):
        raise ValueError(
            f"epsilon must be at least {rounding.shorten_up(least, 3)} for {count} answers, got {epsilon:g}"
        )
    with localcontext() as context:
        context.prec = DIGITS
        power = Fraction(Decimal(min(epsilon, 89.0)).exp().next_minus().next_minus())  # e^89 > 2^128
    other = math.ceil(TOTAL / (power + count - 1))
    return Fraction(TOTAL - (count - 1) * other, TOTAL)


def _rounded_gaussian(variance: Fraction, bits: int) -> np.ndarray:
    """Return the table of ``|round(x)|`` for a normal ``x``."""
    with localcontext() as context:
        context.prec = DIGITS
        exact = _decimal(variance)
        masses = [_integrate(x, weight, exact) for x, weight in enumerate(_weights(variance, bits))]
        return _thresholds([masses[0], *(2 * mass for mass in masses[1:])], bits)  # of x and -x


def _gaussian(variance: Fraction, bits: int) -> np.ndarray:
    """Return the table of ``|x|`` for a discrete Gaussian ``x``."""
    with localcontext() as context:
        context.prec = DIGITS
        first, *others = _weights(variance, bits)
        return _thresholds([first, *(2 * weight for weight in others)], bits)


def _weights(variance: Fraction, bits: int) -> Iterator[Decimal]:
    """Yield ``exp(-x^2 / (2 variance))`` for ``x = 0, 1, ...``, to the last of a table."""
    exact = _decimal(variance)
    weight, ratio, step = Decimal(1), (-1 / (2 * exact)).exp(), (-1 / exact).exp()
    yield weight
    for _ in range(math.isqrt(math.ceil(PRECISIONS[bits].deviations ** 2 * variance)) + 1):
        weight *= ratio
        ratio *= step
        yield weight


def _integrate(x: int, weight: Decimal, variance: Decimal) -> Decimal:
    """Integrate ``exp(-t^2 / (2 variance))``, ``weight`` at ``x``, over ``x - 1/2 < t < x + 1/2``, by Taylor.

    The ``k``-th coefficient, times ``2^-k``, follows from the two before; the even coefficients count, over ``k + 1``.
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


def _thresholds(masses: list[Decimal], bits: int = 128) -> np.ndarray:
    """Cumulate all masses but the last: a draw past all thresholds is the last outcome."""
    total, below, thresholds = sum(masses), Decimal(0), []
    for mass in masses[:-1]:
        below += mass
        thresholds.append(_round(below / total, bits))
    return _words(thresholds, bits)


def _round(probability: Decimal, bits: int = 128) -> int:
    return min(int((probability * 2**bits).to_integral_value(ROUND_HALF_EVEN)), 2**bits - 1)


def _words(values: list[int], bits: int = 128) -> np.ndarray:
    data = b"".join(value.to_bytes(bits // 8, "big") for value in values)
    return np.frombuffer(data, ">u4").astype(np.uint32).reshape(-1, bits // 32)

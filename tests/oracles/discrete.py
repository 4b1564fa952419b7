"""Distributions on the integers in decimals and fractions, what tables of thresholds draw, and costs by summing."""

import itertools
import math
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

DIGITS = 70
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803")


def gaussian(sigma: float, bound: int) -> np.ndarray:
    """Of ``-bound .. bound``, ``P(x)`` proportional to ``exp(-x^2 / (2 sigma^2))`` on all integers, in floats."""
    reach = max(bound, math.ceil(18 * sigma))
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-((x / sigma) ** 2) / 2)
    return (weights / math.fsum(weights))[reach - bound : reach + bound + 1]


def rounded_gaussian(sigma: float, bound: int) -> np.ndarray:
    """Of ``-bound .. bound``, ``round(sigma N)`` for a standard normal ``N``, in floats, from the nearer tail."""
    edges = (np.arange(bound + 2) - 0.5) / sigma
    below = ndtr(-edges)
    masses = np.concatenate([[1 - 2 * below[1]], -np.diff(below[1:])])
    return np.concatenate([masses[:0:-1], masses])


def geometric(rate: float, bound: int) -> np.ndarray:
    """Of ``0 .. bound``, ``P(g)`` proportional to ``exp(-rate g)``."""
    return -math.expm1(-rate) * np.exp(-rate * np.arange(bound + 1))


def laplace(rate: float, bound: int) -> np.ndarray:
    """Of ``-bound .. bound``, ``P(x)`` proportional to ``exp(-rate |x|)``."""
    return math.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(-bound, bound + 1)))


def planar(rate: float, bound: int) -> np.ndarray:
    """Of the points ``-bound .. bound`` squared, ``P(z)`` proportional to ``exp(-rate |z|)``; the rest is forgotten."""
    x = np.arange(-bound, bound + 1)
    weights = np.exp(-rate * np.hypot(x[:, None], x[None, :]))
    return weights / weights.sum()


def exact_gaussian(variance: Fraction, bound: int) -> list[Decimal]:
    """Of ``0 .. bound``, both signs of one together, and last of all that lie beyond; each power anew."""
    with localcontext() as context:
        context.prec = DIGITS
        scale = Decimal(2 * variance.numerator) / variance.denominator
        weights, x = [Decimal(1)], 0
        while x <= bound or weights[-1] > Decimal(10) ** -DIGITS:
            x += 1
            weights.append(2 * (-Decimal(x * x) / scale).exp())
        total = sum(weights)
        return [weight / total for weight in weights[: bound + 1]] + [sum(weights[bound + 1 :], Decimal(0)) / total]


def exact_rounded_gaussian(variance: Fraction, bound: int) -> list[Decimal]:
    """Of ``0 .. bound``, both signs of one together, and last of all that lie beyond.

    ``P(|x| <= z) = sqrt(2 / pi) e^(-z^2 / 2) (z + z^3 / 3 + z^5 / 15 + ...)``: positive terms.
    """
    with localcontext() as context:
        context.prec = DIGITS
        spread = (Decimal(variance.numerator) / variance.denominator).sqrt()
        inside = []
        for x in range(bound + 1):
            z = (x + Decimal(1) / 2) / spread
            term, total, odd = z, Decimal(0), 1
            while term > total * Decimal(10) ** -DIGITS:
                total, odd = total + term, odd + 2
                term *= z * z / odd
            inside.append((2 / PI).sqrt() * (-z * z / 2).exp() * total)
        return [inside[0], *(b - a for a, b in itertools.pairwise(inside)), 1 - inside[-1]]


def exact_geometric(rate: Fraction, bound: int) -> list[Decimal]:
    """Of ``0 .. bound``, and last of all beyond."""
    with localcontext() as context:
        context.prec = DIGITS
        ratio = (-Decimal(rate.numerator) / rate.denominator).exp()
        powers = itertools.accumulate(
            itertools.repeat(ratio, bound + 1), lambda power, by: power * by, initial=Decimal(1)
        )
        *powers, beyond = powers
        return [(1 - ratio) * power for power in powers] + [beyond]


def exact_planar(rate: Fraction, limit: int) -> tuple[dict[tuple[int, int], Decimal], Decimal]:
    """Of the cells ``0 <= y <= x`` within ``limit``, each with its images; and of all beyond (a float's precision)."""
    far = limit + math.ceil(60 / rate)
    x = np.arange(-far, far + 1, dtype=float)
    radii = np.hypot(x[:, None], x[None, :])
    beyond = Decimal(float(np.exp(-float(rate) * radii[radii > limit]).sum()))
    with localcontext() as context:
        context.prec = DIGITS
        exact, heights, found = Decimal(rate.numerator) / rate.denominator, {}, {}
        for a in range(limit + 1):
            for b in range(a + 1):
                squared = a * a + b * b
                if squared <= limit * limit:
                    if squared not in heights:
                        heights[squared] = (-exact * Decimal(squared).sqrt()).exp()
                    images = {(s * p, t * q) for p, q in ((a, b), (b, a)) for s in (1, -1) for t in (1, -1)}
                    found[a, b] = len(images) * heights[squared]
        total = sum(found.values()) + beyond
        return {cell: mass / total for cell, mass in found.items()}, beyond / total


def whole(words: np.ndarray) -> list[int]:
    """Rows of 32-bit words, the most significant first, as integers."""
    return [sum(int(word) << 32 * i for i, word in enumerate(reversed(row))) for row in words]


def drawn(thresholds: np.ndarray) -> list[int]:
    """How many of the ``2^128`` draws, or as many as words can say, give ``0, 1, ...``: ``#{x: u >= t_x}``."""
    edges = [0, *whole(thresholds), 2 ** (32 * thresholds.shape[1])]
    assert edges == sorted(edges)
    return [upper - lower for lower, upper in itertools.pairwise(edges)]


def signed(counts: list[int]) -> list[int]:
    """Of ``-T .. T`` out of twice as many: a magnitude and a sign, where -0 is 0."""
    return [*reversed(counts[1:]), 2 * counts[0], *counts[1:]]


def summed(first: list[int], factor: int, second: list[int]) -> list[int]:
    """Of ``x_1 + factor x_2`` out of the product of both wholes: one product of two long integers, digit by digit."""
    slot = (sum(first) * sum(second)).bit_length() // 8 + 1  # bytes that hold every digit
    spread = [0] * (factor * (len(second) - 1) + 1)
    spread[::factor] = second
    packed = [
        int.from_bytes(b"".join(n.to_bytes(slot, "little") for n in numbers), "little") for numbers in (first, spread)
    ]
    data = (packed[0] * packed[1]).to_bytes(slot * (len(first) + len(spread)), "little")
    return [int.from_bytes(data[slot * i : slot * (i + 1)], "little") for i in range(len(first) + len(spread) - 1)]


def gaussian_law(limbs: np.ndarray, factors: tuple[int, ...]) -> tuple[list[int], int]:
    """What the sum of ``factors[i] x_i``, a table each, draws, of ``-T .. T``, and out of how many."""
    *others, found = [signed(drawn(table)) for table in limbs]
    for counts, (factor, following) in zip(reversed(others), reversed(list(itertools.pairwise(factors))), strict=True):
        found = summed(counts, following // factor, found)
    return found, 2 ** ((32 * limbs.shape[2] + 1) * len(limbs))


def geometric_law(thresholds: np.ndarray) -> tuple[list[int], int]:
    """Of ``0 .. 2^L - 1``, and out of how many: each binary digit is 1 below its threshold, independently."""
    counts = [1]
    for one in reversed(whole(thresholds)):  # the last digit is the leading one
        counts = [count * ways for count in counts for ways in (2**128 - one, one)]
    return counts, 2 ** (128 * len(thresholds))


def total_variation(counts: list[int], total: int, exact: list[Decimal]) -> Decimal:
    """Total variation between outcomes drawn ``counts`` times in ``total`` and one with the rest as its last."""
    with localcontext() as context:
        context.prec = DIGITS
        apart = sum(abs(Decimal(n) / total - p) for n, p in zip(counts, exact[:-1], strict=True))
        return (apart + exact[-1]) / 2


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """``delta`` at ``epsilon`` between two distributions on the same points: Canonne et al. (2020), theorem 7."""
    return math.fsum(np.maximum(first - math.exp(epsilon) * second, 0).ravel())


def noisy_argmax(scores: tuple[int, ...], counts: list[int]) -> list[int]:
    """How often each row wins ``score + g``, ties to the first, of ``g`` drawn ``counts`` times; no probability yet."""
    below = [0]
    for count in counts:
        below.append(below[-1] + count)

    def less(limit):  # draws g < limit
        return below[min(max(limit, 0), len(counts))]

    won = []
    for i, score in enumerate(scores):
        ways = 0
        for g, count in enumerate(counts):
            product = count
            for j, other in enumerate(scores):
                if j != i:
                    product *= less(score + g - other + (j > i))
            ways += product
        won.append(ways)
    return won


def largest(scores: np.ndarray, draws: np.ndarray, limit: int) -> int:
    """The first row of largest sum, in Python's integers, of scores clamped to ``limit`` either way."""
    sums = [min(max(int(s), -limit), limit) + int(g) for s, g in zip(scores, draws, strict=True)]
    return sums.index(max(sums))


def picked(words: np.ndarray, weights: list[int]) -> int:
    """The row that ``floor(U total / 2^256)`` falls into, ``U`` of eight words, the least significant first."""
    uniform = sum(int(word) << 32 * i for i, word in enumerate(words))
    left = uniform * sum(weights) >> 256
    for row, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return row
    raise AssertionError("no row")


def power_below(rate: Fraction) -> Fraction:
    """A fraction under ``e^rate``, by one part in 10^90 at most."""
    with localcontext() as context:
        context.prec, context.rounding = 100, ROUND_FLOOR
        return Fraction((Decimal(rate.numerator) / rate.denominator).exp()) * Fraction(10**95 - 1, 10**95)


def grid_vector(vector: np.ndarray, clip_norm: float, radius: int) -> list[int]:
    """One user's vector clipped and rounded to integers of norm at most ``radius``; zero where it is not finite."""
    entries = [float(entry) for entry in vector]
    if not all(math.isfinite(entry) for entry in entries):
        return [0] * len(entries)
    shrunk = (radius - math.sqrt(len(entries)) / 2) * (1 - 2.0**-16)
    norm = math.hypot(*entries)
    scale = min(1.0, clip_norm / norm) if norm else 1.0
    return [round(entry * scale * (shrunk / clip_norm)) for entry in entries]

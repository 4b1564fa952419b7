"""Rows on a grid, in exact fractions."""

import math
from collections.abc import Sequence
from fractions import Fraction


def squared_distance(first: Sequence, second: Sequence) -> Fraction:
    """Of two rows of floats or integers."""
    return sum(((exact(a) - exact(b)) ** 2 for a, b in zip(first, second, strict=True)), Fraction(0))


def cells(row: Sequence, centre: Sequence, side: Fraction, end: int, slack: float) -> list[tuple[int, int]]:
    """The least and the greatest cell of each coordinate, where it is known up to ``slack`` cells."""
    found = []
    for x, c in zip(row, centre, strict=True):
        place = min(max((exact(x) - exact(c)) / side, Fraction(-end)), Fraction(end))
        found.append((math.floor(place - Fraction(slack)), math.floor(place + Fraction(slack))))
    return found


def squared_cost(kind: str, spread: int | Fraction, moved: Sequence[int]) -> Fraction:
    """The square of what noise of this ``spread`` costs where it hides a move by ``moved`` cells.

    Laplace noise: the largest log-ratio of two outputs' probabilities, ``rate`` times the l1 or l2 norm. Gaussian noise
    of width ``w``: ``|moved| / w``.
    """
    numbers = [abs(int(m)) for m in moved]
    if kind == "product_laplace":
        return (spread * sum(numbers)) ** 2
    squared = Fraction(sum(m * m for m in numbers))
    if kind == "planar_laplace":
        return spread**2 * squared
    return squared / spread**2


def exact(number) -> Fraction:
    """A float of any width, or an integer."""
    return Fraction(int(number)) if float(number) == int(number) else Fraction(float(number))

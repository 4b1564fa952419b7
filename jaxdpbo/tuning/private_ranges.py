"""Find the ranges of numbers that nobody can state, by noised histograms, for a share of a budget.

Each column has ``STAGES`` histograms, one after another: first of signed powers of 16, then twice of equal parts of the
range found before. So the found range may be far from zero, and needs no guess. A user counts in one cell of a column
in each histogram. All is counted in whole numbers on the host; docs/theorems.md has the proof.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import jax
import numpy as np

from jaxdpbo import sensitivity
from jaxdpbo.accounting import requested_budget, rounded_gaussian
from jaxdpbo.noise import mechanisms
from jaxdpbo.noise.mechanisms import tables

PART = "the ranges"  # of a guarantee
SIGMA, BITS = 2**24, 64
MIN_UNITS = 64  # of a count: of a person with more rows than this, no row would count
LOWEST, HIGHEST, POWER = -20, 40, 4  # exponents of two: between the ends of the first histogram's cells
CELLS = 8  # of a later histogram
STAGES = 3
LARGEST = 2.0**HIGHEST  # numbers beyond count as this
CLEAR = 4.0  # deviations of the noise: of a cell of the first histogram that surely holds users
NEXT = 2.0  # deviations of the noise: of a cell beside such a one
PRICE = 1.5  # deviations of the noise: what a cell of a later histogram must hold to be worth its width
SHARE_OF_EVEN = 0.25  # of the users of a cell if all cells held as many: the price is no more, where noise is wide
_MAGNITUDES = 2.0 ** np.arange(LOWEST, HIGHEST + 1, POWER)
ENDS = np.concatenate([-_MAGNITUDES[::-1], _MAGNITUDES])  # of the cells of the first histogram


class Config(NamedTuple):
    """What a user counts in a cell, in whole numbers, and the number of columns."""

    units: int
    columns: int


class Sought(NamedTuple):
    """The columns without ranges.

    Attributes:
      numbers: ``(n, p)``, raw; one that is not finite counts nowhere.
      share: of the square of the GDP level.
      rescale: ``(p, 2)`` ranges to the features and targets of all rows.
    """

    numbers: np.ndarray
    share: float
    rescale: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Found(NamedTuple):
    """Everything that is released: ``ranges (p, 2)``, and ``clear (p,)``, False where noise hides all counts."""

    ranges: np.ndarray
    clear: np.ndarray


def config(mu: float, columns: int) -> Config:
    """Calibrate the counts of all columns and stages together to ``mu``.

    Raises:
      requested_budget.BudgetError: ``mu`` is so small that a user would count nothing.

    >>> from jaxdpbo.tuning import private_ranges
    >>> chosen = private_ranges.config(0.25, 3)
    >>> private_ranges.level(chosen) <= 0.25
    True
    """
    moved = Fraction(sensitivity.histograms_squared(1, columns, STAGES))
    units = math.isqrt(math.floor((Fraction(min(mu, 2.0**5)) * SIGMA) ** 2 / moved))
    if units < MIN_UNITS:
        reason = f"to count {columns} columns on the grid of whole numbers, got {{}}"
        raise requested_budget.BudgetError("least", 1.01 * MIN_UNITS * math.sqrt(moved) / SIGMA, mu, reason)
    made = Config(units, columns)
    while level(made) > mu:  # rounding
        made = made._replace(units=made.units - 1)
    return made


def level(config: Config) -> float:
    """The GDP level of ``find``, for one replaced user, rounded up."""
    squared = sensitivity.histograms_squared(config.units, config.columns, STAGES)
    return rounded_gaussian.root_above(Fraction(squared, SIGMA**2))


def total_variation(columns: int) -> float:
    """Bound the total variation between the noise of ``find`` and ideal noise."""
    return columns * sum(_sizes()) * tables.gaussian_total_variation(SIGMA, BITS)


def _sizes() -> tuple[int, ...]:
    """The number of cells of each histogram."""
    return (len(ENDS) - 1, *(CELLS,) * (STAGES - 1))


def draw_noise(key: jax.Array, config: Config) -> np.ndarray:
    """All noise of ``find``, ``(p, cells)``, before a row is read. Used once."""
    shape = config.columns, sum(_sizes())
    return np.asarray(mechanisms.rounded_gaussian(key, shape, SIGMA, BITS)).astype(np.int64)


def find(noise: np.ndarray, config: Config, numbers: np.ndarray, counts: np.ndarray | None = None) -> Found:
    """Find a range for each column that holds all but thin tails.

    Formal guarantee: ``level(config)``-GDP for one replaced user. The cells of a histogram follow from those before.

    Args:
      noise: of ``draw_noise``.
      config: see ``config``.
      numbers: ``(n, p)``; one that is not finite counts nowhere.
      counts: ``(n,)``, how many of these rows the person of each row has, public; None if each row is a user.
    """
    units = np.full(len(numbers), config.units) if counts is None else config.units // counts
    users = len(numbers) if counts is None else round(float(np.sum(1 / counts)))
    found = [_find(*column, config, units, users) for column in zip(noise, numbers.T, strict=True)]
    ranges, clear = zip(*found, strict=True)
    return Found(np.array(ranges, float), np.array(clear))


def _find(
    noise: np.ndarray, numbers: np.ndarray, config: Config, units: np.ndarray, users: int
) -> tuple[tuple[float, float], bool]:
    known = np.isfinite(numbers)
    numbers, units = numbers[known], units[known]
    first, *others = np.split(noise, np.cumsum(_sizes())[:-1])
    counted = (count(numbers, ENDS, units) + first) / config.units
    deviation = SIGMA / config.units
    clear = np.flatnonzero(counted > CLEAR * deviation)
    start, stop = (clear[0], clear[-1] + 1) if len(clear) else (int(np.argmax(counted)), int(np.argmax(counted)) + 1)
    start -= int(start > 0 and counted[start - 1] > NEXT * deviation)
    stop += int(stop < len(counted) and counted[stop] > NEXT * deviation)
    low, high = ENDS[start], ENDS[stop]
    for stage, drawn in enumerate(others):
        ends = np.linspace(low, high, CELLS + 1)
        counted = (count(numbers, ends, units) + drawn) / config.units
        start, stop = _best_interval(counted - min(PRICE * deviation, SHARE_OF_EVEN * users / CELLS))
        if stage == len(others) - 1:  # a tail may be in the next cell
            start, stop = max(start - 1, 0), min(stop + 1, CELLS)
        low, high = ends[start], ends[stop]
    return (float(low), float(high)), bool(len(clear))


def count(numbers: np.ndarray, ends: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Add ``units (n,)`` to the cell of each number, ``(cells,)``, raw; numbers beyond the ends count as the ends."""
    cell = np.clip(np.searchsorted(ends, numbers, side="right") - 1, 0, len(ends) - 2)
    counted = np.zeros(len(ends) - 1, np.int64)
    np.add.at(counted, cell, units)
    return counted


def _best_interval(gains: np.ndarray) -> tuple[int, int]:
    """The start and the stop of the neighbours with the largest sum, one at least."""
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    pairs = [(start, stop) for start in range(len(gains)) for stop in range(start + 1, len(sums))]
    return max(pairs, key=lambda pair: sums[pair[1]] - sums[pair[0]])

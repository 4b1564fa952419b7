"""Measure a released model once, on rows that it was not trained on: its error, and what to compare the error with.

No error is the least of several, so ``error_`` has no bias. Everything is counted in whole numbers on the host, and
noised once.
"""

import math
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

import jax
import numpy as np

from jaxdpbo import sensitivity
from jaxdpbo.accounting import requested_budget, rounded_gaussian
from jaxdpbo.guarantee import assumptions, composed_guarantee
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import mechanisms
from jaxdpbo.noise.mechanisms import tables

SIGMA, BITS = 2**24, 64
MIN_RADIUS = 64  # of an error: less would lose a hundredth of it to rounding
MIDDLE_ERROR = 0.25  # of a row without a target: of predicting the middle of the range, at most
CONFIDENCE = 0.95


class Config(NamedTuple):
    """What a row counts, in whole numbers.

    Attributes:
      error_radius: of a wrong prediction, or of a squared error of the width of the range.
      other_radius: of a cell of the table of classes, or of the moments of a target.
      classes: 0 for a regression.
    """

    error_radius: int
    other_radius: int
    classes: int

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of the sum of errors, in rows."""
        return SIGMA / self.error_radius


class Measured(NamedTuple):
    """What was measured on ``rows`` users, with noise; nothing is cut to what is possible, which would add a bias.

    Attributes:
      error: the share of wrong predictions; or the mean squared error over the square of the width of the range.
      deviation: the standard deviation of the noise of ``error``.
      constant_error: the error of the best constant prediction, from the table or the moments. With many classes it is
        too small by up to some deviations, since the largest of noised sums is too large.
      constant_deviation: about the standard deviation of the noise of ``constant_error``.
      table: ``(k + 1, k)``, numbers of rows by class and predicted class, the last row of labels that are not listed;
        None for a regression.
      table_deviation: the standard deviation of the noise of a cell; 0 for a regression.
      rows: the number of users held out.
    """

    error: float
    deviation: float
    constant_error: float
    constant_deviation: float
    table: np.ndarray | None
    table_deviation: float
    rows: int


def config(mu: float, classes: int) -> Config:
    """Divide ``mu``, half of ``mu^2`` for the error and half for the rest.

    Raises:
      requested_budget.BudgetError: ``mu`` is so small that rounding would hide an error.
    """
    moved = min(mu, 2.0**5) * SIGMA  # a row that counts more than 32 widths of the noise is hidden from nobody
    error, other = math.floor(moved / math.sqrt(2)), math.floor(moved / (2 if classes else 2 * math.sqrt(2)))
    if error < MIN_RADIUS:
        reason = "to measure an error on the grid of whole numbers, got {}"
        raise requested_budget.BudgetError("least", 1.01 * math.sqrt(2) * MIN_RADIUS / SIGMA, mu, reason)
    made = Config(error, other, classes)
    while level(made) > mu:  # rounding
        made = made._replace(error_radius=made.error_radius - 1)
    return made


def level(config: Config) -> float:
    """The GDP level of everything that ``measure`` returns, for one replaced row, rounded up."""
    squared = sensitivity.error_and_cell_squared if config.classes else sensitivity.error_and_moments_squared
    return rounded_gaussian.root_above(Fraction(squared(config.error_radius, config.other_radius), SIGMA**2))


def privacy(config: Config, users: str) -> _guarantee.Guarantee:
    """``level``-GDP for the replacement of one of ``users``."""
    return composed_guarantee.guarantee_from_stages(
        [("the error", "gaussian", level(config))],
        users,
        assumptions=(assumptions.RANDOM_BITS, assumptions.PUBLIC_CONFIG),
        total_variation=total_variation(config.classes),
    )


def total_variation(classes: int) -> float:
    """Bound the total variation between the noise of ``measure`` and ideal noise."""
    draws = 1 + math.prod(_shape(classes))
    return draws * tables.gaussian_total_variation(SIGMA, BITS)


def _shape(classes: int) -> tuple[int, ...]:
    """Of everything that is measured beside the error."""
    return (classes + 1, classes) if classes else (2,)


def draw_noise(key: jax.Array, config: Config) -> np.ndarray:
    """All noise of ``measure``, before a row is read: an interrupted compilation then costs nothing. Used once."""
    count = 1 + math.prod(_shape(config.classes))
    return np.asarray(mechanisms.rounded_gaussian(key, (count,), SIGMA, BITS)).astype(np.int64)


def measure(
    noise: np.ndarray, config: Config, predicted: np.ndarray, labels: np.ndarray, counts: np.ndarray | None = None
) -> Measured:
    """Compare predictions with the labels of rows that trained nothing.

    Formal guarantee: that of ``privacy``, for a model that does not depend on these rows.

    Args:
      noise: of ``draw_noise``.
      config: see ``config``.
      predicted: ``(n,)``, class numbers; or targets in [-1, 1], where NaN has the largest error.
      labels: ``(n,)``, class numbers with -1 for a label that is not listed; or targets in [-1, 1], NaN for none.
      counts: ``(n,)``, how many of these rows the person of each row has, public; each row then counts as so small a
        part of one person. None if each row is a user.
    """
    counts = np.ones(len(labels), np.int64) if counts is None else counts
    count, rest = (count_classes if config.classes else count_moments)(config, predicted, labels, counts)
    users = round(float(np.sum(1 / counts)))
    error = float((count + noise[0]) / config.error_radius) / users
    numbers = (rest + noise[1:].reshape(rest.shape)) / config.other_radius
    deviation = config.deviation / users
    if not config.classes:
        first, second = numbers / users  # of targets in a range of half width 1
        of_constant = SIGMA / config.other_radius / users / 4 * math.sqrt(1 + 4 * float(first) ** 2)
        return Measured(error, deviation, float(second - first**2) / 4, of_constant, None, 0.0, users)
    constant, of_cell = 1.0 - float(np.max(numbers[:-1].sum(axis=1))) / users, SIGMA / config.other_radius
    return Measured(error, deviation, constant, of_cell * math.sqrt(config.classes) / users, numbers, of_cell, users)


def interval(error: float, deviation: float, rows: int) -> tuple[float, float]:
    """Where the error on new rows lies with a probability of 95 %, cut to [0, 1].

    For the noise and the draw of the rows together, as in the interval of Wilson (1927): all ``p`` with
    ``(error - p)^2 <= z^2 (p (1 - p) / rows + deviation^2)``. A loss in [0, 1] of mean ``p`` has a variance of at most
    ``p (1 - p)``, so the interval of a squared error is wider than need be.

    Args:
      error: the mean loss of ``rows`` rows, noised; inf for a model that failed.
      deviation: the standard deviation of the noise.
      rows: the number of rows.
    """
    if not math.isfinite(error):
        return 0.0, 1.0
    quantile = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    scaled = quantile**2 / rows
    middle, lead = error + scaled / 2, 1 + scaled
    half = math.sqrt(max(middle**2 - lead * (error**2 - (quantile * deviation) ** 2), 0.0))
    low, high = ((middle + sign * half) / lead for sign in (-1, 1))
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def count_classes(
    config: Config, predicted: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[int, np.ndarray]:
    """The sums of errors and of cells, raw."""
    cells = np.zeros(_shape(config.classes), np.int64)
    np.add.at(cells, (np.where(labels < 0, config.classes, labels), predicted), config.other_radius // counts)
    return int(np.sum(np.where(predicted != labels, config.error_radius // counts, 0))), cells


def count_moments(
    config: Config, predicted: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[int, np.ndarray]:
    """The sums of errors and of moments, raw."""
    known = np.isfinite(labels)
    targets = np.where(known, np.clip(labels, -1.0, 1.0), 0.0).astype(np.float64)
    apart = np.where(np.isfinite(predicted), np.clip(predicted, -1.0, 1.0) - targets, 2.0)
    errors = np.where(known, np.square(apart / 2), MIDDLE_ERROR)
    most = config.error_radius // counts
    whole = np.clip(np.rint(errors * most), 0, most).astype(np.int64)
    moments = np.trunc(np.stack([targets, np.square(targets)]) * (config.other_radius // counts)).astype(np.int64)
    return int(whole.sum()), moments.sum(axis=1)

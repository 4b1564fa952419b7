"""Notes that follow from what was released: a search or a model that is no different from noise says so.

Formal guarantee: none of these spends a budget. Each is a function of the release and of public numbers: everybody who
sees the release can compute it.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from jaxdpbo import checks, notes
from jaxdpbo.algorithms import dp_gibo, private_evaluations
from jaxdpbo.drivers import methods
from jaxdpbo.drivers.previews import ACCUMULATED, step_deviation
from jaxdpbo.space import Space
from jaxdpbo.types import ArrayLike

FALSE_ALARMS = 0.001  # how often noise alone looks like more, at most
WIDE = 0.1  # deviation of an error in [0, 1] that leaves little of it
DEVIATIONS = 2.0  # between an error and a constant's, or between two settings, to tell them apart


def plan_notes(plan: methods.Plan, released: Any) -> notes.Notes:
    """The notes on the release of a plan of ``minimize``."""
    said: notes.Notes = () if plan.public_rows is None else notes.few_public_rows(plan.public_rows)
    if getattr(released, "points", None) is not None:
        said += point_notes(_settings(released.points, plan.config.space))
    means = plan.find(private_evaluations.Config)
    for own in (released, *getattr(released, "phases", ())):
        descent = getattr(own, "descent", own)  # of a phase that holds coordinates: without them
        if plan.descent is not None and isinstance(descent, dp_gibo.Release):
            said += path_notes(descent.path, plan.descent)
        if means is not None and isinstance(own, private_evaluations.Release):
            high = None if own.high is None else float(own.high)
            said += value_notes(own.values, private_evaluations.deviation(means, high))
    return said


def _settings(points: np.ndarray, space: Space | None) -> list[str]:
    return [repr(point.tolist() if space is None else space.params(point)) for point in np.asarray(points)]


def path_notes(path: ArrayLike, config: dp_gibo.Config) -> notes.Notes:
    """The note that a released path is no different from noise alone; none if the path differs.

    The rule of AdaGrad turns the steps back into noised gradients. For pure noise, the sum of their squares over the
    variance of the noise has a chi-squared distribution with ``T d`` degrees of freedom. The note warns if the sum is
    at most the quantile at 99.9 % (Wilson and Hilferty 1931). A coordinate stopped by the box counts with the
    distance moved.

    Args:
      path: the released path ``(T + 1, d)``.
      config: the config of the run's descent.
    """
    points, box = np.asarray(path, np.float64), np.asarray(config.bounds, np.float64)
    moved = np.clip(np.abs(np.diff(points, axis=0)) / checks.half_width(box), 0.0, 1 - 1e-9)
    sum_of_squares, total = np.full(points.shape[1], ACCUMULATED), 0.0
    for share in np.square(moved):
        squares = share * sum_of_squares / (1 - share)
        sum_of_squares, total = sum_of_squares + squares, total + float(np.sum(squares))
    variance, freedom = step_deviation(config) ** 2, moved.size
    quantile = freedom * (1 - 2 / (9 * freedom) + 3.09 * math.sqrt(2 / (9 * freedom))) ** 3
    return notes.path_like_noise() if total <= quantile * variance else ()


def value_notes(values: ArrayLike, deviation: float) -> notes.Notes:
    """The note that noise alone explains how far released values ``(m,)`` are apart; none below two values.

    ``m`` values of equal means are farther apart than the bound in at most one case of 1000, by the union over pairs.

    Args:
      values: noised means; NaN where nothing was evaluated.
      deviation: the largest standard deviation of their noise.
    """
    found = np.asarray(values, np.float64)
    found = found[np.isfinite(found)]
    count = len(found)
    if count < 2 or not deviation:
        return ()
    quantile = NormalDist().inv_cdf(1 - FALSE_ALARMS / (count * (count - 1)))
    apart = float(np.max(found) - np.min(found))
    return notes.values_like_noise(count) if apart <= math.sqrt(2) * deviation * quantile else ()


def point_notes(settings: Sequence[str]) -> notes.Notes:
    """The note that all settings, each written out, are one."""
    return notes.equal_points(len(settings)) if len(settings) > 1 and len(set(settings)) == 1 else ()


def best_notes(means: ArrayLike, deviations: ArrayLike, best: int) -> notes.Notes:
    """The note that half of the other settings, or more, could be as good as the best.

    Args:
      means: ``(m,)``, the posterior means of the losses.
      deviations: ``(m,)``, their standard deviations.
      best: the row of the best.
    """
    mean, width = np.asarray(means, np.float64), np.asarray(deviations, np.float64)
    near = int(np.sum(mean - mean[best] <= DEVIATIONS * np.hypot(width, width[best]))) - 1
    others = len(mean) - 1
    return notes.best_within_noise(near, others) if others and 2 * near >= others else ()


def error_notes(
    error: float, deviation: float, constant: float | None = None, constant_deviation: float = 0.0
) -> notes.Notes:
    """The notes on a noised error in [0, 1].

    Args:
      error: of a model, noised.
      deviation: the standard deviation of its noise.
      constant: the error of a prediction that reads no features, or a bound on it; None if nobody knows.
      constant_deviation: the standard deviation of its noise.
    """
    said: notes.Notes = ()
    if constant is not None and error + DEVIATIONS * math.hypot(deviation, constant_deviation) >= constant:
        said += notes.error_like_a_constant(float(error), float(constant))
    return said + notes.wide_error(float(deviation)) if deviation >= WIDE else said

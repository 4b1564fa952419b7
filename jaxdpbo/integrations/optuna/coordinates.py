"""Convert values of Optuna's distributions to coordinates of the unit box, and back."""

import math
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution


def count_values(distribution: BaseDistribution) -> int | None:
    """The number of values of a distribution; None for a continuous distribution."""
    if isinstance(distribution, CategoricalDistribution):
        return len(distribution.choices)
    assert isinstance(distribution, (FloatDistribution, IntDistribution))
    if distribution.step is None:
        return None
    return round((distribution.high - distribution.low) / distribution.step) + 1


def encode(distribution: BaseDistribution, value: Any) -> float:
    """The coordinate of a value in [0, 1], clipped; discrete values take the middle of their interval."""
    if isinstance(distribution, CategoricalDistribution):
        return (distribution.to_internal_repr(value) + 0.5) / len(distribution.choices)
    assert isinstance(distribution, (FloatDistribution, IntDistribution))
    low, high, place = _ends(distribution)
    number = math.log(value) if distribution.log and value > 0 else value
    return float(np.clip((number - low) / (high - low), 0.0, 1.0)) if place else 0.5


def decode(distribution: BaseDistribution, place: float) -> Any:
    """The value at a coordinate: a Python number or a choice."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[min(int(place * len(distribution.choices)), len(distribution.choices) - 1)]
    assert isinstance(distribution, (FloatDistribution, IntDistribution))
    low, high, _ = _ends(distribution)
    number = low + place * (high - low)
    value = math.exp(number) if distribution.log else number
    if distribution.step is not None:
        value = distribution.low + distribution.step * round((value - distribution.low) / distribution.step)
    value = min(max(value, distribution.low), distribution.high)
    return int(value) if isinstance(distribution, IntDistribution) else float(value)


def _ends(distribution: FloatDistribution | IntDistribution) -> tuple[float, float, bool]:
    """The ends of the coordinate's interval, half a step beyond the values, and True if they differ."""
    half = 0.5 * distribution.step if distribution.step is not None else 0.0
    low, high = distribution.low - half, distribution.high + half
    low, high = (math.log(low), math.log(high)) if distribution.log else (low, high)
    return low, high, high > low

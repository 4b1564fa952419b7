"""What a guarantee means: an attacker's chances, and the guarantee of a group."""

import math
from dataclasses import replace

import numpy as np

from jaxdpbo import audit
from jaxdpbo.guarantee import guarantees

MAX_EXPONENT = 700.0  # of a float


def detection_rates(guarantee: guarantees.Guarantee, false_alarms: np.ndarray) -> np.ndarray:
    """The most that any attacker detects at each rate of false alarms: the least of the bounds by both levels.

    For "ex_post_dp" the rates hold before the release is known.

    Raises:
      ValueError: a notion without (epsilon, delta).
    """
    whole = guarantee.reservation
    if whole.notion not in guarantees.CONVERTIBLE:
        raise ValueError(f"guarantee must be gdp, dp or ex_post_dp, got {whole.notion!r}")
    levels = {whole.notion: whole.level} | dict([whole.also] if whole.also else [])
    variation = whole.total_variation
    moved = np.minimum(np.asarray(false_alarms, float) + variation, 1.0)
    curves = [
        audit.declared_trade_off(replace(whole, notion=notion, level=level, also=None, stages=()), moved)
        for notion, level in levels.items()
    ]
    return np.minimum(1.0, 1.0 - np.maximum.reduce(curves) + variation)


def group_bound(guarantee: guarantees.Guarantee, size: int, delta: float) -> tuple[float, float]:
    """The epsilon and delta for ``size`` users who are replaced together; (inf, 1) if nothing is proved.

    The levels of GDP and the ranges of choices grow ``size`` times, at the same ``delta``. Otherwise a pair
    ``(epsilon, delta)`` becomes ``(size epsilon, delta (e^(size epsilon) - 1) / (e^epsilon - 1))`` (Dwork and Roth
    2014, theorem 2.2, with the delta of each exchange).
    """
    whole = guarantee.reservation
    if whole.is_pure:
        return size * whole.level, 0.0
    if size == 1:
        return whole.epsilon(delta), delta
    if whole.notion == "gdp" and not whole.delta:
        group = replace(whole, level=size * whole.level, parts=(), also=None, stages=())
        return group.epsilon(delta), delta
    if whole.stages:
        scaled = tuple((what, kind, size * level) for what, kind, level in whole.stages)
        return replace(whole, notion="dp", level=math.inf, parts=(), also=None, stages=scaled).epsilon(delta), delta
    epsilon = whole.epsilon(delta)
    if size * epsilon > MAX_EXPONENT:
        return math.inf, 1.0
    total = delta * sum(math.exp(number * epsilon) for number in range(size))
    return (size * epsilon, total) if total < 1 else (math.inf, 1.0)


def display_delta(guarantee: guarantees.Guarantee) -> float:
    """The delta to state an epsilon at: 0 for pure DP, otherwise ``Guarantee.display_delta``."""
    return 0.0 if guarantee.is_pure else guarantee.display_delta

"""Which search ``minimize`` runs, and with what: chosen by public numbers alone."""

import math
from typing import Any, NamedTuple

import numpy as np
import optax

from jaxdpbo import _checks
from jaxdpbo.algorithms import dp_gibo, private_search
from jaxdpbo.privacy import choice
from jaxdpbo.types import Algorithm

METHODS = ("auto", "local", "start_then_local", "choice")
SHARP = 50.0  # of a choice for ``CHOICE_SHARE``: from here on it pays to choose a start
CHOICE_SHARE = 0.1  # of mu^2, for the start, and again for the answer
DESIGN_SHARE = 0.15  # of the evaluations
LOCAL, START, CHOICE = METHODS[1:]


class Plan(NamedTuple):
    """What ``minimize`` runs.

    Attributes:
      method: of ``METHODS``, never "auto".
      reason: why, in words: public numbers alone.
      algorithm: and
      config: its config.
    """

    method: str
    reason: str
    algorithm: Algorithm
    config: Any


def sobol(count: int, dimension: int, seed: int = 0) -> np.ndarray:
    """Points ``(count, d)`` of a scrambled Sobol sequence in the unit box; public."""
    from scipy.stats import qmc  # half of the time to import this package, so only where it is used

    power = max(1, math.ceil(math.log2(count)))
    return qmc.Sobol(dimension, seed=seed).random_base2(power)[:count]


def local(
    users: int, box: np.ndarray, mu: float, steps: int, batch: int | None, clip_norm: float | str, start: Any, noise: str
) -> dp_gibo.Config:
    """DP-GIBO with defaults that work: coordinate AdaGrad, the mean of the last half of the path."""
    return dp_gibo.config(
        users=users,
        steps=steps,
        mu=mu,
        bounds=_checks.low_high(box),
        batch=batch,
        clip_norm=clip_norm,
        theta0=start,
        optimizer=optax.adagrad,
        output="last_half_mean",
        noise=noise,
    )


def designed(box: np.ndarray, count: int, start: np.ndarray) -> private_search.Round:
    """``start``, and points of a Sobol sequence in the box."""
    low, high = box
    fresh = np.concatenate([start[None], low + (high - low) * sobol(count, len(low))])[:count]
    return private_search.Round(fresh, np.zeros_like(fresh), np.zeros(fresh.shape, bool))


def near(box: np.ndarray, count: int, reach: float, change: float, seed: int) -> private_search.Round:
    """Points around the one chosen last: a coordinate moves by up to ``reach`` of half a side with odds ``change``."""
    low, high = box
    rng = np.random.default_rng(seed)
    offset = reach * (high - low) / 2 * (2 * sobol(count, len(low), seed) - 1)
    moved = rng.random(offset.shape) < change
    moved[np.arange(count), rng.integers(0, len(low), count)] = True
    return private_search.Round(np.broadcast_to(low, offset.shape).copy(), np.where(moved, offset, 0), np.ones(offset.shape, bool))

"""One step of DP-GIBO, a user at a time (Sopa et al. 2025, Algorithm 1, lines 6 to 8)."""

import math

import numpy as np
from oracles.clipping import clip
from oracles.gradient import mean as user_gradient
from oracles.kernels import Kernel


def mean_clipped_gradient(
    kernel: Kernel, points: np.ndarray, noises: np.ndarray, losses: np.ndarray, theta: np.ndarray, clip_norm: float
) -> np.ndarray:
    """Line 7, for ``losses (m, n)``; a user whose losses are not all finite counts as zero."""
    total = np.zeros_like(theta)
    for column in losses.T:
        if np.all(np.isfinite(column)):
            total += clip(user_gradient(kernel, points, noises, column, theta), clip_norm)[0]
    return total / losses.shape[1]


def noise_deviation(*, clip_norm: float, steps: int, users: int, mu: float) -> float:
    """Line 8: ``2 B sqrt(T) / (n mu)``."""
    return 2 * clip_norm * math.sqrt(steps) / (users * mu)

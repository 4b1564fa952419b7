"""GP-UCB over a finite set by dense solves, from the beginning at each step (Srinivas et al. 2010, algorithm 1)."""

import math

import numpy as np
from oracles.gp import predict
from oracles.kernels import Kernel


def beta_of_candidates(t: int, candidates: int, delta: float) -> float:
    return 2 * math.log(candidates * t**2 * math.pi**2 / (6 * delta))


def half_ranked(values: np.ndarray) -> np.ndarray:
    """Those below the median by rank, as logistic quantiles in units of the spread above it; mean 0 and variance 1."""
    above = values - np.median(values)
    good = above >= 0
    spread = math.sqrt(np.mean(above[good] ** 2))
    found = np.zeros(len(values))
    for i, value in enumerate(values):
        if good[i]:
            found[i] = above[i] / spread if spread > 0 else 0.0
        else:
            share = np.mean(values < value) + np.mean(values == value) / 2
            found[i] = 0.6 * math.log(share / (1 - share))
    return (found - found.mean()) / (found.std() if found.std() > 0 else 1.0)


def picks(
    kernel: Kernel, candidates: np.ndarray, utilities: np.ndarray, first: int, steps: int, noise: float, delta: float,
    batch: int = 1,
) -> list[int]:  # fmt: skip
    """The rows chosen, the values half-ranked and standardised before each step.

    In a batch the mean is of the values known before it, and the variance of all points so far (GP-BUCB).
    """
    rows = [first]
    for t in range(2, steps * batch + 1):
        known = rows[: (t - 1) // batch * batch]
        mean = np.zeros(len(candidates))
        if known:
            values = half_ranked(utilities[known])
            mean, _ = predict(kernel, candidates[known], np.full(len(known), noise), values, candidates)
        _, covariance = predict(kernel, candidates[rows], np.full(len(rows), noise), np.zeros(len(rows)), candidates)
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
        rows.append(int(np.argmax(mean + math.sqrt(beta_of_candidates(t, len(candidates), delta)) * deviation)))
    return rows

"""GP-UCB over a finite set by dense solves, from the beginning at each step (Srinivas et al. 2010, algorithm 1)."""

import math

import numpy as np
from oracles.gp import predict
from oracles.kernels import Kernel


def beta_of_candidates(t: int, candidates: int, delta: float) -> float:
    return 2 * math.log(candidates * t**2 * math.pi**2 / (6 * delta))


def picks(
    kernel: Kernel, candidates: np.ndarray, utilities: np.ndarray, first: int, steps: int, noise: float, delta: float
) -> list[int]:
    """The rows chosen, the values standardised before each step."""
    rows = [first]
    for t in range(2, steps + 1):
        seen = utilities[rows]
        spread = seen.std()
        values = (seen - seen.mean()) / spread if spread > 0 else np.zeros(len(seen))
        mean, covariance = predict(kernel, candidates[rows], np.full(len(rows), noise), values, candidates)
        deviation = np.sqrt(np.maximum(np.diag(covariance), 0))
        rows.append(int(np.argmax(mean + math.sqrt(beta_of_candidates(t, len(candidates), delta)) * deviation)))
    return rows

"""The problem both sides solve: the largest of ``n`` outputs of rows of 10 coordinates, in 50 steps. NumPy only.

The rows are 3 private numbers under one random projection, the outputs a smooth random function of those 3.
"""

import math

import numpy as np

PRIVATE, DIMENSION, STEPS = 3, 10, 50
LENGTHSCALE, NOISE_VARIANCE, DELTA = 0.3, 1e-4, 0.05


def rows(count: int) -> np.ndarray:
    """``(count, 10)``."""
    rng = np.random.default_rng(0)
    return _private(count) @ rng.standard_normal((PRIVATE, DIMENSION)) / math.sqrt(DIMENSION)


def outputs(count: int, seed: int) -> np.ndarray:
    """The value of each row in a seed's run ``(count,)``: a smooth random function of variance 1."""
    rng = np.random.default_rng([seed, 2])
    frequencies = rng.standard_normal((200, PRIVATE)) / LENGTHSCALE
    phases = rng.uniform(0, 2 * np.pi, 200)
    return math.sqrt(2 / 200) * np.cos(_private(count) @ frequencies.T + phases) @ rng.standard_normal(200)


def first_row(count: int, seed: int) -> int:
    """The row a seed's run begins with."""
    return int(np.random.default_rng([seed, 3]).integers(count))


def width(t: int, count: int) -> float:
    """``beta_t``: Algorithm 2 of Kharkovskii et al."""
    return 2 * math.log(count * t**2 * math.pi**2 / (6 * DELTA))


def _private(count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(size=(count, PRIVATE))

"""The problem both sides solve: the largest of 1,000 candidates in 50 steps, the kernel's numbers known. NumPy only."""

import math

import numpy as np

CANDIDATES, DIMENSION, STEPS = 1000, 3, 50
LENGTHSCALE, NOISE_VARIANCE, DELTA = 0.3, 1e-2, 1e-3


def candidates() -> np.ndarray:
    """``(1000, 3)`` uniform in the unit cube."""
    return np.random.default_rng(0).uniform(size=(CANDIDATES, DIMENSION))


def utilities(seed: int) -> np.ndarray:
    """What a seed's run sees at each candidate ``(1000,)``: a smooth random function of variance 1, and noise."""
    rng = np.random.default_rng([seed, 1])
    frequencies = rng.standard_normal((200, DIMENSION)) / LENGTHSCALE
    phases = rng.uniform(0, 2 * np.pi, 200)
    smooth = math.sqrt(2 / 200) * np.cos(candidates() @ frequencies.T + phases) @ rng.standard_normal(200)
    return smooth + math.sqrt(NOISE_VARIANCE) * rng.standard_normal(CANDIDATES)


def width(t: int) -> float:
    """``beta_t``: Algorithm 1 of Kusner et al., point and value released, corrected."""
    return 2 * math.log(2 * CANDIDATES * t**2 * math.pi**2 / (3 * DELTA))

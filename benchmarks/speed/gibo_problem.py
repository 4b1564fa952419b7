"""The problem both sides solve: ten parameters, 4,500 users, 25 steps of 11 evaluations. NumPy only."""

import numpy as np

DIMENSION, USERS, STEPS, BATCH = 10, 4500, 25, 11
SETTINGS = {
    "mu": 1.0,
    "clip_norm": 1.0,  # a bound: the gradient of the loss is shorter than 1
    "step_size": 0.5,  # of AdaGrad, accumulator 0.1
    "noise_variance": 1e-4,
    "half_width": 3.0,  # of the box
    "lengthscale": 1.0,
}
LOSS = "sqrt(1 + |x_i - theta|^2) - 1"


def records() -> np.ndarray:
    """Users ``(4500, 10)`` around ``(1, ..., 1)``; every run starts at 0."""
    return 1.0 + np.random.default_rng(0).normal(size=(USERS, DIMENSION))

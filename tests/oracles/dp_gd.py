"""Gradient descent along clipped gradients, a user at a time, with the noise handed in."""

import numpy as np
from oracles.clipping import clip


def mean_clipped(gradients: np.ndarray, clip_norm: float) -> np.ndarray:
    """The mean over users of ``gradients (d, n)``, each clipped; one that is not finite counts as zero."""
    return sum(clip(column, clip_norm)[0] for column in gradients.T) / gradients.shape[1]


def path(
    gradients_at, theta: np.ndarray, noises: np.ndarray, *, step_size: float, clip_norm: float, bounds: np.ndarray
):
    """``(T + 1, d)`` for ``noises (T, d)``."""
    iterates = [theta]
    for noise in noises:
        move = mean_clipped(gradients_at(iterates[-1]), clip_norm) + noise
        iterates.append(np.clip(iterates[-1] - step_size * move, *bounds))
    return np.array(iterates)

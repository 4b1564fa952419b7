"""Per-user clipping by a plain loop over users."""

import math

import numpy as np


def clip(vector: np.ndarray, clip_norm: float) -> tuple[np.ndarray, bool, bool]:
    """``v min(1, B / ||v||)``, whether the norm was above ``B``, and whether ``v`` was refused and counts as zero.

    A vector is refused where its squared norm is no finite double.
    """
    entries = [float(entry) for entry in vector]
    if not math.isfinite(sum(entry * entry for entry in entries)):
        return np.zeros(len(entries)), False, True
    norm = math.hypot(*entries)
    if norm <= clip_norm:
        return np.array(entries), False, False
    return np.array([entry * (clip_norm / norm) for entry in entries]), True, False


def clipped_mean(weights: np.ndarray, losses: np.ndarray, clip_norm: float) -> tuple[np.ndarray, int, int]:
    """Each user's ``weights^T losses`` clipped; their mean, how many were clipped and how many refused."""
    total, clipped, refused = np.zeros(weights.shape[1]), 0, 0
    for user in range(losses.shape[1]):
        with np.errstate(invalid="ignore", over="ignore"):
            gradient = weights.T @ losses[:, user]
        vector, was_clipped, was_refused = clip(gradient, clip_norm)
        total += vector
        clipped += was_clipped
        refused += was_refused
    return total / losses.shape[1], clipped, refused

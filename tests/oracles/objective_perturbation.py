"""Objective perturbation in one dimension, without an intercept: the privacy loss of the minimiser, from its density.

``J(w) = a w^2 / 2 + sum_i log(1 + e^(x_i w)) - y_i x_i w + b w`` with the density of ``b`` proportional to
``exp(-|b| / scale)`` (Chaudhuri, Monteleoni and Sarwate 2011, algorithm 2, times n).
"""

import numpy as np


def epsilon_of_minimiser(epsilon, norm, alpha, *, squared):
    """The largest log-ratio of the densities of the minimiser, for one row of any value up to ``norm`` and another.

    ``squared``: the second derivative of a row's loss is at most ``norm^2 / 4``, as it is; False: ``norm / 4``, which
    diffprivlib 0.6.6 takes.
    """
    curvature = (norm**2 if squared else norm) / 4
    left = epsilon - 2 * np.log1p(curvature / alpha)
    if left <= 0:
        alpha, left = max(alpha, curvature / np.expm1(epsilon / 4)), epsilon / 2
    scale = 2 * norm / left
    w = np.linspace(-20.0, 20.0, 40_001)
    rows = [(x, y) for x in np.linspace(0.0, norm, 9) for y in (0, 1)]
    logs = [_log_density(w, x, y, alpha, scale) for x, y in rows]
    return max(np.max(one - other) for one in logs for other in logs)


def _log_density(w, x, y, alpha, scale):
    """Of the minimiser at ``w``: the density of the noise that makes it one, times the second derivative."""
    probability = 1 / (1 + np.exp(-np.clip(x * w, -500, 500)))
    gradient = alpha * w + (probability - y) * x
    return -np.abs(gradient) / scale + np.log(alpha + probability * (1 - probability) * x**2)

"""Gaussian process regression by dense solves, and finite differences of it."""

import itertools

import numpy as np
from oracles.kernels import Kernel, gram
from scipy.linalg import cho_factor, cho_solve


def noise(kernel: Kernel, points: np.ndarray, variance: float, jitter: float) -> np.ndarray:
    """The noise variance of each point: ``variance``, but at least ``jitter`` times the prior variance there."""
    return np.array([max(variance, jitter * kernel.value(x, x)) for x in points])


def covariance(kernel: Kernel, points: np.ndarray, noises: np.ndarray) -> np.ndarray:
    """``K + diag(noise)`` of the observations."""
    return gram(kernel, points, points) + np.diag(noises)


def predict(kernel: Kernel, points: np.ndarray, noises: np.ndarray, values: np.ndarray, new: np.ndarray):
    """Mean ``(k,)`` and covariance ``(k, k)`` of the latent function at ``new``, for one user's ``values (m,)``."""
    observed = covariance(kernel, points, noises)
    cross = gram(kernel, points, new)
    mean = cross.T @ np.linalg.solve(observed, values)
    return mean, gram(kernel, new, new) - cross.T @ np.linalg.solve(observed, cross)


def refined_solve(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``matrix^-1 right`` to the last digit, by residuals in extended precision; and by triangular solves alone."""
    factor = cho_factor(matrix)
    plain = cho_solve(factor, right)
    wide, solution = matrix.astype(np.longdouble), plain.astype(np.longdouble)
    for _ in range(6):
        solution = solution + cho_solve(factor, (right - wide @ solution).astype(np.float64))
    return solution.astype(np.float64), plain


def richardson(function, point: np.ndarray, step: float, levels: int = 4) -> np.ndarray:
    """The gradient of a scalar function: central differences at ``step, step / 2, ...``, extrapolated to 0."""
    gradient = np.empty(len(point))
    for i in range(len(point)):
        direction = np.zeros(len(point))
        table = []
        for level in range(levels):
            direction[i] = step / 2**level
            table.append((function(point + direction) - function(point - direction)) / (2 * direction[i]))
        for order in range(1, levels):
            table = [(4**order * fine - coarse) / (4**order - 1) for coarse, fine in itertools.pairwise(table)]
        gradient[i] = table[0]
    return gradient


def clustered(rng: np.random.Generator, count: int, dimension: int, closest: float) -> np.ndarray:
    """Points in pairs, the two of a pair apart by ``closest`` up to 1, each pair placed in the unit cube."""
    centres = rng.uniform(size=((count + 1) // 2, dimension))
    directions = rng.normal(size=centres.shape)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    apart = np.geomspace(closest, 1.0, len(centres))[:, None]
    return np.stack([centres, centres + apart * directions], axis=1).reshape(-1, dimension)[:count]

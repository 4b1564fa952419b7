"""The posterior of a Gaussian process's gradient by dense solves, one user at a time, refactored from scratch."""

import numpy as np
from oracles.gp import covariance as observed_covariance
from oracles.kernels import Kernel, gradients


def mean(kernel: Kernel, points: np.ndarray, noises: np.ndarray, values: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``grad k(theta, D) (K + noise)^-1 values``, shape ``(d,)``, for one user's ``values (m,)``."""
    return gradients(kernel, theta, points).T @ np.linalg.solve(observed_covariance(kernel, points, noises), values)


def means(kernel: Kernel, points: np.ndarray, noises: np.ndarray, values: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``(d, n)``: a solve for each of the ``n`` columns of ``values (m, n)``."""
    return np.stack([mean(kernel, points, noises, column, theta) for column in values.T], axis=1)


def covariance(kernel: Kernel, points: np.ndarray, noises: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """``grad k_D(theta, theta) grad^T``, shape ``(d, d)``."""
    model = kernel.mixed(theta, theta)
    if len(points) == 0:
        return model
    cross = gradients(kernel, theta, points)
    return model - cross.T @ np.linalg.solve(observed_covariance(kernel, points, noises), cross)


def trace(kernel: Kernel, points: np.ndarray, noises: np.ndarray, theta: np.ndarray) -> float:
    """``Tr(grad k_D(theta, theta) grad^T)``: the acquisition of Sopa et al. (2025), section 3.1."""
    return float(np.trace(covariance(kernel, points, noises, theta)))

"""DP-GP-UCB the slow way: dense solves from the beginning at each step, every multiset, the Kronecker product."""

import itertools
import math

import numpy as np
from oracles.gp import predict
from oracles.kernels import Kernel, gram
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm


def picks(
    kernel: Kernel, candidates: np.ndarray, observe, steps: int, noise: float, acquisition: str, width, first=None
) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Rows chosen, values seen and the posterior mean at the end; ``observe(t, row)`` and ``width(t)`` from t = 1."""
    rows: list[int] = []
    values: list[float] = []
    mean, variance = np.zeros(len(candidates)), np.array([kernel.value(x, x) for x in candidates])
    for t in range(1, steps + 1):
        deviation = np.sqrt(np.maximum(variance, 0.0))
        if acquisition == "ucb":
            heights = mean + math.sqrt(width(t)) * deviation
        else:
            gain = mean - (max(values) if values else -2.0)
            z = gain / np.where(deviation > 0, deviation, 1.0)
            heights = np.where(deviation > 0, gain * norm.cdf(z) + deviation * norm.pdf(z), np.maximum(gain, 0.0))
        best = int(np.argmax(heights >= heights.max() - 1e-12 * abs(heights.max())))
        rows.append(first if t == 1 and first is not None else best)
        values.append(observe(t, rows[-1]))
        seen = list(dict.fromkeys(rows)) if noise == 0 else rows  # an exact value is learnt once
        at = [rows.index(row) for row in seen] if noise == 0 else range(len(rows))
        mean, covariance = predict(
            kernel, candidates[seen], np.full(len(seen), noise), np.array([values[i] for i in at]), candidates
        )
        variance = np.diag(covariance)
        if noise == 0:
            variance = np.where(np.isin(np.arange(len(candidates)), seen), 0.0, variance)
    return rows, np.array(values), mean


def exponential_log_probabilities(scores: np.ndarray, epsilon: float, sensitivity: float) -> np.ndarray:
    exponents = epsilon * scores / (2 * sensitivity)
    return exponents - logsumexp(exponents)


def information_gain(kernel: Kernel, points: np.ndarray, noise: float) -> float:
    """``log det(I + K / noise) / 2``."""
    return 0.5 * float(np.linalg.slogdet(np.eye(len(points)) + gram(kernel, points, points) / noise)[1])


def maximum_information_gain(kernel: Kernel, candidates: np.ndarray, steps: int, noise: float) -> float:
    """Over every multiset of ``steps`` candidates."""
    return max(
        information_gain(kernel, candidates[list(rows)], noise)
        for rows in itertools.combinations_with_replacement(range(len(candidates)), steps)
    )


def two_task_log_likelihood(
    kernel: Kernel, points: np.ndarray, first: np.ndarray, second: np.ndarray, correlation: float, noise: float
) -> float:
    """By the Kronecker product and a dense normal distribution."""
    tasks = np.array([[1.0, correlation], [correlation, 1.0]])
    covariance = np.kron(tasks, gram(kernel, points, points)) + noise * np.eye(2 * len(points))
    return float(multivariate_normal(cov=covariance).logpdf(np.concatenate([first, second])))

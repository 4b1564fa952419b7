"""Kernels and their first and mixed second derivatives in closed form, for one pair of points."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Kernel(NamedTuple):
    """``value``; its ``gradient`` in ``x``, ``(d,)``; and ``mixed (d, d)``, in ``x`` by rows, in ``y`` by columns."""

    value: Callable[[np.ndarray, np.ndarray], float]
    gradient: Callable[[np.ndarray, np.ndarray], np.ndarray]
    mixed: Callable[[np.ndarray, np.ndarray], np.ndarray]


def rbf(lengthscale: np.ndarray, variance: float) -> Kernel:
    inverse = 1.0 / np.asarray(lengthscale, np.float64) ** 2

    def value(x, y):
        return variance * np.exp(-np.dot((x - y) ** 2, inverse) / 2)

    def gradient(x, y):
        return -value(x, y) * inverse * (x - y)

    def mixed(x, y):
        u = inverse * (x - y)
        return value(x, y) * (np.diag(inverse) - np.outer(u, u))

    return Kernel(value, gradient, mixed)


def matern32(lengthscale: np.ndarray, variance: float) -> Kernel:
    inverse = 1.0 / np.asarray(lengthscale, np.float64) ** 2

    def distance(x, y):
        return np.sqrt(np.dot((x - y) ** 2, inverse))

    def value(x, y):
        a = np.sqrt(3.0) * distance(x, y)
        return variance * (1.0 + a) * np.exp(-a)

    def gradient(x, y):
        return -3.0 * variance * np.exp(-np.sqrt(3.0) * distance(x, y)) * inverse * (x - y)

    def mixed(x, y):
        r, u = distance(x, y), inverse * (x - y)
        bend = np.sqrt(3.0) * np.outer(u, u) / r if r > 0 else 0.0
        return 3.0 * variance * np.exp(-np.sqrt(3.0) * r) * (np.diag(inverse) - bend)

    return Kernel(value, gradient, mixed)


def matern52(lengthscale: np.ndarray, variance: float) -> Kernel:
    inverse = 1.0 / np.asarray(lengthscale, np.float64) ** 2

    def scaled(x, y):
        return np.sqrt(5.0 * np.dot((x - y) ** 2, inverse))

    def value(x, y):
        a = scaled(x, y)
        return variance * (1.0 + a + a**2 / 3.0) * np.exp(-a)

    def gradient(x, y):
        a = scaled(x, y)
        return -5.0 / 3.0 * variance * (1.0 + a) * np.exp(-a) * inverse * (x - y)

    def mixed(x, y):
        a, u = scaled(x, y), inverse * (x - y)
        return 5.0 / 3.0 * variance * np.exp(-a) * ((1.0 + a) * np.diag(inverse) - 5.0 * np.outer(u, u))

    return Kernel(value, gradient, mixed)


def polynomial(offset: float, variance: float, degree: int) -> Kernel:
    def power(x, y, exponent):
        return (np.dot(x, y) + offset) ** exponent if exponent >= 0 else 0.0

    def value(x, y):
        return variance * power(x, y, degree)

    def gradient(x, y):
        return variance * degree * power(x, y, degree - 1) * y

    def mixed(x, y):
        second = degree * (degree - 1) * power(x, y, degree - 2) * np.outer(y, x)
        return variance * (second + degree * power(x, y, degree - 1) * np.eye(len(x)))

    return Kernel(value, gradient, mixed)


def gram(kernel: Kernel, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """``k(x_i, y_j)``, shape ``(p, q)``."""
    return np.array([[kernel.value(x, y) for y in ys] for x in xs]).reshape(len(xs), len(ys))


def gradients(kernel: Kernel, x: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """``grad_x k(x, y_j)``, shape ``(q, d)``."""
    return np.array([kernel.gradient(x, y) for y in ys]).reshape(len(ys), len(x))

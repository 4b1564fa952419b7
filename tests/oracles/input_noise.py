"""The kernel over noisy inputs by brute force: an integral over both rows' noise, and the Hankel transform."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gamma, jv


def characteristic(kind: str, scale: float, dimension: int, frequency: float) -> float:
    """Of one draw, at a frequency of this length."""
    if kind == "gaussian":
        return math.exp(-0.5 * (scale * frequency) ** 2)
    return (1.0 + (scale * frequency) ** 2) ** (-(dimension + 1) / 2)


def averaged_rbf(kind: str, scale: float, dimension: int, lengthscale: float, distance: float) -> float:
    """``E exp(-|x - x'|^2 / (2 l^2))``, the spectral density times the SQUARED characteristic function, transformed."""
    half = dimension / 2

    def density(s):
        spectrum = (2 * math.pi * lengthscale**2) ** half * math.exp(-0.5 * (lengthscale * s) ** 2)
        noise = characteristic(kind, scale, dimension, s) ** 2
        if distance == 0:
            wave = 2.0 ** (1 - half) / gamma(half)
        else:
            wave = jv(half - 1, s * distance) / (s * distance) ** (half - 1)
        return spectrum * noise * wave * s ** (dimension - 1)

    return quad(density, 0, 40 / lengthscale, limit=400)[0] / (2 * math.pi) ** half


def planar_laplace_radius_cdf(radius: np.ndarray, scale: float, dimension: int) -> np.ndarray:
    """Of ``|w|``, by integrating the density ``exp(-|w| / scale)`` over spheres."""
    total = math.gamma(dimension) * scale**dimension
    return np.array([quad(lambda r: r ** (dimension - 1) * math.exp(-r / scale), 0, end)[0] / total for end in radius])


def averaged_over_cells(
    places: np.ndarray, truth: float, variances: np.ndarray, lengthscale: float, named: tuple[int, int]
) -> float:
    """``E exp(-|x - x'|^2 / (2 l^2))`` of two rows that named two cells: Bayes over the true cells, normal in each."""
    count, dimension = places.shape
    total = 0.0
    for a in range(count):
        for b in range(count):
            probability = 1.0
            for true, said in ((a, named[0]), (b, named[1])):
                evidence = sum(truth if cell == said else (1 - truth) / (count - 1) for cell in range(count))
                probability *= (truth if true == said else (1 - truth) / (count - 1)) / evidence
            covariance = (variances[a] + variances[b]) * np.eye(dimension)
            apart = places[a] - places[b]
            wide = covariance + lengthscale**2 * np.eye(dimension)
            scale = math.sqrt(np.linalg.det(lengthscale**2 * np.eye(dimension)) / np.linalg.det(wide))
            total += probability * scale * math.exp(-0.5 * apart @ np.linalg.solve(wide, apart))
    return total

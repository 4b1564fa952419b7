"""Kernels of a Gaussian process, each a function of one pair of points, and their parameters."""

from jaxdpbo import _namespace
from jaxdpbo.surrogate._kernels import (
    Polynomial,
    Stationary,
    gram,
    matern32,
    matern52,
    polynomial,
    polynomial_of_degree,
    rbf,
    stationary,
    stationary_from_box,
)

__all__ = [
    "Polynomial",
    "Stationary",
    "gram",
    "matern32",
    "matern52",
    "polynomial",
    "polynomial_of_degree",
    "rbf",
    "stationary",
    "stationary_from_box",
]
__dir__ = _namespace.list_public(__name__)

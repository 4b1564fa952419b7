"""Mechanisms: draw noise, or choose, such that the result may be published.

The functions named after ``float`` noise (``gaussian``, ``laplace``, ``exponential``) are for research; the
others draw exactly, on the integers.
"""

from jaxdpbo import _namespace
from jaxdpbo.privacy._mechanisms import (
    discrete_laplace,
    exact_exponential,
    exponential,
    gaussian,
    geometric,
    laplace,
    noisy_argmax,
    planar_laplace,
    rounded_gaussian,
)

__all__ = [
    "discrete_laplace",
    "exact_exponential",
    "exponential",
    "gaussian",
    "geometric",
    "laplace",
    "noisy_argmax",
    "planar_laplace",
    "rounded_gaussian",
]
__dir__ = _namespace.list_public(__name__)

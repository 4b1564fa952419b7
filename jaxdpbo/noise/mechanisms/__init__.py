"""Mechanisms: turn a statistic of bounded sensitivity into a release.

``discrete_noise`` and ``selection`` are exact, on the integers, for release; ``float_noise`` is for research sweeps.
"""

from jaxdpbo import namespace
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.noise.mechanisms.discrete_noise import (
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_from_table,
    geometric,
    geometric_from_table,
    outcome,
    planar_laplace,
    rounded_gaussian,
)
from jaxdpbo.noise.mechanisms.float_noise import FLOOR, exponential, exponential_log_probabilities, gaussian, laplace
from jaxdpbo.noise.mechanisms.selection import exact_exponential, largest_score, noisy_argmax, top

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
__dir__ = namespace.list_public(__name__)

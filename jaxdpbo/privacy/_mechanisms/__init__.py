"""Mechanisms: turn a statistic of bounded sensitivity into a release.

``discrete_noise`` and ``selection`` are exact, on the integers, for release; ``float_noise`` is for research sweeps.
"""

from jaxdpbo.privacy._mechanisms import tables
from jaxdpbo.privacy._mechanisms.discrete_noise import (
    discrete_gaussian,
    discrete_laplace,
    discrete_laplace_from_table,
    geometric,
    geometric_from_table,
    outcome,
    planar_laplace,
    rounded_gaussian,
)
from jaxdpbo.privacy._mechanisms.float_noise import FLOOR, exponential, exponential_log_probabilities, gaussian, laplace
from jaxdpbo.privacy._mechanisms.selection import exact_exponential, largest_score, noisy_argmax, top

__all__ = [
    "FLOOR",
    "discrete_gaussian",
    "discrete_laplace",
    "discrete_laplace_from_table",
    "exact_exponential",
    "exponential",
    "exponential_log_probabilities",
    "gaussian",
    "geometric",
    "geometric_from_table",
    "laplace",
    "largest_score",
    "noisy_argmax",
    "outcome",
    "planar_laplace",
    "rounded_gaussian",
    "tables",
    "top",
]

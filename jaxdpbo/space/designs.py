"""Designs: public points that cover the unit box evenly."""

import math

import numpy as np


def sobol(count: int, dimension: int, seed: int) -> np.ndarray:
    """Points ``(count, d)`` of a scrambled Sobol sequence in the unit box; public."""
    from scipy.stats import qmc  # takes as long to import as jaxdpbo

    return qmc.Sobol(dimension, rng=seed).random_base2(max(1, math.ceil(math.log2(count))))[:count]

"""The kernels of the package, each beside its oracle and with the same numbers."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from oracles import kernels as oracle

from jaxdpbo.surrogate import gp, kernels
from jaxdpbo.types import Kernel

VARIANCE, OFFSET = 1.7, 1.3
STATIONARY = ("rbf", "matern32", "matern52")
NAMES = (*STATIONARY, "polynomial2", "polynomial3")


class Case(NamedTuple):
    kernel: Kernel
    params: Any
    oracle: oracle.Kernel

    def model(self, noise_variance: float = 1e-6) -> gp.GPModel:
        return gp.GPModel(self.kernel, self.params, jnp.asarray(noise_variance, jnp.result_type(float)))


def lengthscale(dimension: int) -> np.ndarray:
    """One for each coordinate, all different: a kernel that mixes them up is seen."""
    return np.geomspace(0.8, 2.0, dimension)


def case(name: str, dimension: int) -> Case:
    """Made when it is asked for: the parameters take the dtype of the moment."""
    if name in STATIONARY:
        scales = lengthscale(dimension)
        params = kernels.stationary_params(scales, dimension, variance=VARIANCE)
        return Case(getattr(kernels, name), params, getattr(oracle, name)(scales, VARIANCE))
    degree = int(name.removeprefix("polynomial"))
    params = kernels.polynomial_params(degree, offset=OFFSET, variance=VARIANCE)
    return Case(kernels.polynomial, params, oracle.polynomial(OFFSET, VARIANCE, degree))

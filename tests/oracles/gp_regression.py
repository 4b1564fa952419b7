"""Squared errors of Gaussian process regression at a validation record, one record and one dense solve at a time."""

import numpy as np
from oracles.gp import predict
from oracles.kernels import rbf


def losses(lengthscales, train, train_targets, validation, validation_targets, noise_variance: float) -> np.ndarray:
    kernel, noises = rbf(lengthscales, 1.0), np.full(len(train), noise_variance)
    return np.array(
        [
            (predict(kernel, train, noises, train_targets, x[None])[0][0] - y) ** 2
            for x, y in zip(validation, validation_targets, strict=True)
        ]
    )

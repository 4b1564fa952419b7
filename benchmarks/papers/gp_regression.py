"""Lengthscales of a Gaussian process regression, Sopa et al. (2025), example 4.3 and appendix C.3.

A point is ``lengthscales (10,)`` in the box ``[0, 5]^10``. A user is one validation record, whose loss is the squared
error of the posterior mean given the training records. The training records are not protected: a user's loss may
depend on them.

The paper prints the dimension, the kernel (RBF), the distribution of the true lengthscales (uniform on the box) and
``n = 4500``. Chosen here: 500 training records besides the 4,500 users, standard normal inputs, and Gaussian noise of
variance 0.01, known to the regression; the process has mean 0 and variance 1.

A lengthscale under ``MIN_LENGTHSCALE`` counts as that. Where all are 0 the correlations underflow, the
posterior mean is 0, and the loss is ``y_i^2``.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

from benchmarks.papers import splits

DIMENSION = 10
LENGTHSCALE = (0.0, 5.0)
MIN_LENGTHSCALE = 0.01  # smaller ones leave float32 no digits of a squared distance
NOISE_VARIANCE = 0.01
CHUNK = 128  # users at once: a batch of 11 points then keeps 11 x 128 x 500 correlations, not 11 x 4500 x 500


def bounds() -> np.ndarray:
    """The box ``(2, 10)`` of example 4.3."""
    return np.array([LENGTHSCALE] * DIMENSION).T


def start(key: jax.Array) -> jax.Array:
    """A point ``(10,)`` uniform on the box: where a replication of the paper begins, and its true lengthscales."""
    return jax.random.uniform(key, (DIMENSION,), minval=LENGTHSCALE[0], maxval=LENGTHSCALE[1])


def sample(key: jax.Array, users: int = 4500, train: int = 500) -> tuple[splits.Split, jax.Array]:
    """Records of one draw of the process, and its true lengthscales ``(10,)``, uniform on the box.

    The covariance of all ``users + train`` records is factored: 200 MB in float64 at the paper's size.
    """
    lengthscale_key, input_key, target_key = jax.random.split(key, 3)
    lengthscales = start(lengthscale_key)
    inputs = jax.random.normal(input_key, (train + users, DIMENSION))
    factor = _factor(inputs / jnp.maximum(lengthscales, MIN_LENGTHSCALE)[None])
    targets = jnp.matmul(factor, jax.random.normal(target_key, (train + users,)), precision="highest")
    return splits.Split(inputs[:train], targets[:train], inputs[train:], targets[train:]), lengthscales


def loss(theta: jax.Array, data: splits.Split) -> jax.Array:
    """Squared errors ``(n,)`` at lengthscales ``theta (d,)``: entry ``i`` reads validation record ``i`` alone."""
    squared_error = _squared_error(theta, data)
    return jax.lax.map(squared_error, (data.validation, data.validation_targets), batch_size=CHUNK)


def loss_of_one(theta: jax.Array, record: splits.Split) -> jax.Array:
    """The squared error ``()`` of one validation record: for ``per_user``, with ``splits.OF_USERS``."""
    return _squared_error(theta, record)((record.validation, record.validation_targets))


def _squared_error(theta, data):
    """Of one ``(input, target)``, given the training records."""
    lengthscales = jnp.maximum(theta, MIN_LENGTHSCALE)
    train = data.train / lengthscales[None]
    weights = cho_solve((_factor(train), True), data.train_targets)

    def squared_error(record):
        x, y = record
        correlations = _correlations((x / lengthscales)[None], train)[0]
        return jnp.square(jnp.dot(correlations, weights, precision="highest") - y)

    return squared_error


def _factor(scaled: jax.Array) -> jax.Array:
    """The lower Cholesky factor ``(N, N)`` of the covariance of noisy observations at ``scaled (N, d)`` inputs."""
    same = jnp.eye(len(scaled), dtype=bool)
    return jnp.linalg.cholesky(jnp.where(same, 1.0 + NOISE_VARIANCE, _correlations(scaled, scaled)))


def _correlations(xs: jax.Array, ys: jax.Array) -> jax.Array:
    """``exp(-|x - y|^2 / 2)`` of scaled inputs ``(p, d)`` and ``(q, d)``, the distances by one matrix product."""
    product = jnp.matmul(xs, ys.T, precision="highest")
    norms = jnp.sum(jnp.square(xs), axis=1)[:, None] + jnp.sum(jnp.square(ys), axis=1)[None, :]
    return jnp.exp(-0.5 * jnp.maximum(norms - 2.0 * product, 0.0))

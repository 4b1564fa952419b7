"""The regularisation of a logistic regression: Kusner et al. (2015), section 5, where Algorithm 3 applies.

A point is ``(log lambda,)``. The model is ``w = argmin lambda |w|^2 / 2 + mean log(1 + exp(-y w.x))`` over public
training records (equation 10), found to rounding by damped Newton steps. A user is one validation record, whose gain is
the normalised ramp ``clip((1 + y w.x) / 2, 0, 1)``. Records are scaled into the unit ball, so that the gain is
``GAIN_LIPSCHITZ``-Lipschitz in ``w``, the training loss ``LOSS_LIPSCHITZ``-Lipschitz, and a ``w`` of 0 gains 1/2.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import splits
from jaxdpbo.problems import Dataset

REGULARISATION = (1e-3, 1.0)
GAIN_LIPSCHITZ, LOSS_LIPSCHITZ, MAX_GAIN = 0.5, 1.0, 1.0
NEWTON_STEPS = 40


def bounds() -> np.ndarray:
    """``(2, 1)``, of ``log lambda``."""
    return np.log(np.asarray(REGULARISATION))[:, None]


def split(dataset: Dataset, seed: int, *, train: int, validation: int | None = None) -> splits.Split:
    """Records of two classes, standardised by the training records, each then divided by its length where above 1.

    Args:
      dataset: ``targets`` are of two values.
      seed: of the permutation.
      train: how many records to train on.
      validation: how many users; all that is left where not given.

    Raises:
      ValueError: more records than there are, or not two classes.
    """
    classes = np.unique(dataset.targets)
    if len(classes) != 2:
        raise ValueError(f"dataset must have two classes, got {len(classes)}")
    labels = np.where(dataset.targets == classes[1], 1.0, -1.0)
    data = splits.split_rows(dataset.features, labels, seed, train=train, validation=validation)
    train_inputs, inputs = (
        each / np.maximum(1.0, np.linalg.norm(each, axis=1, keepdims=True)) for each in (data.train, data.validation)
    )
    return data._replace(train=train_inputs, validation=inputs)


def fit(point: jax.Array, data: splits.Split) -> jax.Array:
    """The exact minimiser ``w (p,)`` at ``point (1,)``, to rounding.

    Newton steps damped as generalised self-concordance wants it (Sun and Tran-Dinh 2019, equation 12, nu = 2).
    """
    regularisation = jnp.exp(point[0])
    signed = data.train * data.train_targets[:, None]
    count, features = data.train.shape

    def step(w, _):
        wrong = jax.nn.sigmoid(-signed @ w)
        gradient = regularisation * w - jnp.mean(signed * wrong[:, None], axis=0)
        curvature = (data.train.T * (wrong * (1.0 - wrong))[None]) @ data.train / count
        direction = jnp.linalg.solve(curvature + regularisation * jnp.eye(features, dtype=w.dtype), gradient)
        length = jnp.linalg.norm(direction)  # times the largest |x|, 1: what the curvature can change by along it
        return w - direction * jnp.log1p(length) / jnp.maximum(length, jnp.finfo(w.dtype).tiny), None

    start = jnp.zeros(features, data.train.dtype)
    return jax.lax.scan(step, start, length=NEWTON_STEPS)[0]


def gains(point: jax.Array, data: splits.Split) -> jax.Array:
    """Gains ``(n,)`` in [0, 1]: entry ``i`` reads validation record ``i`` alone."""
    margins = data.validation_targets * (data.validation @ fit(point, data))
    return jnp.clip((1.0 + margins) / 2.0, 0.0, 1.0)


def loss(point: jax.Array, data: splits.Split) -> jax.Array:
    """``1 - gains``, to be minimised."""
    return 1.0 - gains(point, data)


def loss_of_one(point: jax.Array, record: splits.Split) -> jax.Array:
    """``1 - gain ()`` of one validation record: for ``per_user``, with ``splits.OF_USERS``."""
    margin = record.validation_targets * jnp.dot(record.validation, fit(point, record))
    return 1.0 - jnp.clip((1.0 + margin) / 2.0, 0.0, 1.0)

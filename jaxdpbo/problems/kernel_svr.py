"""Hyper-parameters of a kernel support vector regression, Sopa et al. (2025), example 4.4 and appendix C.4.

One point is ``(log lengthscales (p,), epsilon, C, gamma)``: ``d = p + 3`` parameters for ``p`` features. A user is one
validation record, whose loss is its squared error. The training records are not protected: the loss of a user may
depend on them, and the paper takes them as public. scikit-learn fits the machine, so the objective is a Python callable
for ``run_loop``, not traceable.
"""

from typing import NamedTuple

import numpy as np

from jaxdpbo import _checks
from jaxdpbo.problems.datasets import SKLEARN_HINT, Dataset

LOG_LENGTHSCALE = (-2.0, 2.0)
EPSILON = (0.01, 1.0)
C = (0.1, 3.0)
GAMMA = (0.01, 5.0)


class Split(NamedTuple):
    """Standardised records: ``train (N, p)`` with targets ``(N,)``, and ``validation (n, p)`` with targets ``(n,)``."""

    train: np.ndarray
    train_targets: np.ndarray
    validation: np.ndarray
    validation_targets: np.ndarray


def split(dataset: Dataset, seed: int, *, train: int, validation: int | None = None, ordered: bool = False) -> Split:
    """Train and validation records, standardised by the TRAINING records alone.

    Means and deviations of validation records would let one user move another's loss, and void the guarantee.

    Args:
      dataset: numeric records.
      seed: of the permutation.
      train: how many records to train on.
      validation: how many users; all that is left where not given.
      ordered: no permutation: the first records train, later ones validate (a time series).

    Raises:
      ValueError: more records asked for than there are, or a size below 1.
    """
    total = len(dataset.targets)
    train = _checks.size("train", train)
    users = total - train if validation is None else validation
    if _checks.size("validation", users) + train > total:
        raise ValueError(f"train + validation must be at most {total}, got {train} + {users}")
    order = np.arange(total) if ordered else np.random.default_rng(seed).permutation(total)
    first, second = order[:train], order[train : train + users]
    mean, deviation = dataset.features[first].mean(axis=0), dataset.features[first].std(axis=0)
    deviation[deviation == 0] = 1.0  # a constant column says nothing
    target_mean, target_deviation = dataset.targets[first].mean(), dataset.targets[first].std()
    features = (dataset.features - mean) / deviation
    targets = (dataset.targets - target_mean) / (target_deviation or 1.0)
    return Split(features[first], targets[first], features[second], targets[second])


def bounds(features: int) -> np.ndarray:
    """The box ``(2, p + 3)`` of appendix C.4."""
    return np.array([LOG_LENGTHSCALE] * _checks.size("features", features) + [EPSILON, C, GAMMA]).T


def loss(point: np.ndarray, data: Split) -> np.ndarray:
    """Squared errors ``(n,)`` of the validation records: entry ``i`` reads validation record ``i`` alone."""
    try:
        from sklearn.svm import SVR
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(SKLEARN_HINT) from error
    lengthscales = np.exp(point[:-3])
    epsilon, c, gamma = point[-3:]
    machine = SVR(kernel="rbf", epsilon=epsilon, C=c, gamma=gamma)
    machine.fit(data.train / lengthscales, data.train_targets)
    return np.square(machine.predict(data.validation / lengthscales) - data.validation_targets)

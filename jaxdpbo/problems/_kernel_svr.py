"""Hyper-parameters of a kernel support vector regression, Sopa et al. (2025), example 4.4 and appendix C.4.

A point is ``(log lengthscales (p,), epsilon, C, gamma)``: ``d = p + 3`` parameters for ``p`` features. A user is a
validation record, with its squared error as loss. The training records are not protected: the loss of a user may depend
on them, and the paper takes them as public. scikit-learn fits the machine, so the objective is a Python callable for
``run_loop``, not traceable.
"""

from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks
from jaxdpbo.problems._datasets import SKLEARN_HINT, Dataset

LOG_LENGTHSCALE = (-2.0, 2.0)
EPSILON = (0.01, 1.0)
C = (0.1, 3.0)
GAMMA = (0.01, 5.0)


class Split(NamedTuple):
    """The training records of a model, and the users' validation records.

    Attributes:
      train: ``(N, p)``.
      train_targets: ``(N,)`` responses, or labels of 1 and -1.
      validation: ``(n, p)``.
      validation_targets: ``(n,)``.
    """

    train: Any
    train_targets: Any
    validation: Any
    validation_targets: Any


def kernel_svr_split(dataset: Dataset, seed: int, *, train: int) -> Split:
    """Split a data set into training records and users, standardised by the TRAINING records alone.

    Args:
      dataset: numeric records.
      seed: the seed of the permutation.
      train: the number of training records; all others are users.

    Raises:
      ValueError: ``train`` is below 1, or leaves no user.
    """
    if checks.size("train", train) >= len(dataset.targets):
        raise ValueError(f"train must be below the number of records, {len(dataset.targets)}, got {train}")
    order = np.random.default_rng(checks.size("seed", seed, minimum=0)).permutation(len(dataset.targets))
    first, second = order[:train], order[train:]
    inputs, targets = standardise(dataset.features, first), standardise(dataset.targets, first)
    return Split(inputs[first], targets[first], inputs[second], targets[second])


def standardise(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Standardise ``values (N + n, ...)`` by the mean and standard deviation of the ``train`` rows alone.

    With the mean and deviation of validation records, a user could move another user's loss, against the guarantee. A
    column constant in the ``train`` rows is centred only.
    """
    mean, deviation = values[train].mean(axis=0), values[train].std(axis=0)
    return (values - mean) / np.where(deviation == 0, 1.0, deviation)


def kernel_svr_bounds(features: int) -> np.ndarray:
    """The box ``(2, p + 3)`` of appendix C.4.

    >>> from jaxdpbo import problems
    >>> problems.kernel_svr_bounds(10).shape
    (2, 13)
    """
    return np.array([LOG_LENGTHSCALE] * checks.size("features", features) + [EPSILON, C, GAMMA]).T


def kernel_svr_loss(point: np.ndarray, data: Split) -> np.ndarray:
    """Squared errors ``(n,)`` of the validation records: entry ``i`` reads validation record ``i`` alone.

    >>> from types import SimpleNamespace
    >>> import numpy as np
    >>> from jaxdpbo import problems
    >>> rows, targets = np.eye(4), np.arange(4.0)
    >>> data = SimpleNamespace(train=rows, train_targets=targets, validation=rows[:2], validation_targets=targets[:2])
    >>> problems.kernel_svr_loss(problems.kernel_svr_bounds(4).mean(axis=0), data).shape
    (2,)
    """
    try:
        from sklearn.svm import SVR
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(SKLEARN_HINT) from error
    lengthscales = np.exp(point[:-3])
    epsilon, c, gamma = point[-3:]
    train = data.train / lengthscales
    machine = SVR(kernel="precomputed", epsilon=epsilon, C=c)
    machine.fit(correlations(gamma, train, train), data.train_targets)
    with np.errstate(invalid="ignore", over="ignore"):  # a non-finite record has a non-finite loss
        kernel = correlations(gamma, data.validation / lengthscales, train[machine.support_])
        predictions = kernel @ machine.dual_coef_[0] + machine.intercept_[0]
        return np.square(predictions - data.validation_targets)


def correlations(gamma: float, xs: np.ndarray, ys: np.ndarray) -> np.ndarray:
    """``exp(-gamma |x - y|^2)`` for ``xs (p, d)`` and ``ys (q, d)``, by a matrix product in place, ``(p, q)``.

    The entry-by-entry kernel of libsvm would double the time of an evaluation.
    """
    result = 2.0 * (xs @ ys.T)
    result -= np.sum(np.square(xs), axis=1)[:, None]
    result -= np.sum(np.square(ys), axis=1)[None, :]
    np.minimum(result, 0.0, out=result)
    result *= gamma
    return np.exp(result, out=result)

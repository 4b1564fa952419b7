"""Hyper-parameters of a kernel support vector regression, Sopa et al. (2025), example 4.4 and appendix C.4.

A point is ``(log lengthscales (p,), epsilon, C, gamma)``: ``d = p + 3`` parameters for ``p`` features. A user is a
validation record, with its squared error as loss. The training records are not protected: the loss of a user may depend
on them, and the paper takes them as public. scikit-learn fits the machine, so the objective is a Python callable for
``run_loop``, not traceable.
"""

import numpy as np

from jaxdpbo import checks
from jaxdpbo.problems import _splits
from jaxdpbo.problems._datasets import SKLEARN_HINT, Dataset

LOG_LENGTHSCALE = (-2.0, 2.0)
EPSILON = (0.01, 1.0)
C = (0.1, 3.0)
GAMMA = (0.01, 5.0)


def kernel_svr_split(
    dataset: Dataset,
    seed: int,
    *,
    train: int,
    validation: int | None = None,
    ordered: bool = False,
    features: int | None = None,
) -> _splits.Split:
    """Split a data set into training and validation records, standardised by the TRAINING records alone.

    Args:
      dataset: numeric records.
      seed: the seed of the permutation and of the features.
      train: the number of training records.
      validation: the number of users; by default, all other records.
      ordered: True for no permutation: the first records train, later ones validate (a time series).
      features: the number of features, drawn at random without reading records; by default all. Appendix C.4 draws 30.

    Raises:
      ValueError: more records or features than the data set has, or a size below 1.
    """
    first, second = _splits.divide_rows(len(dataset.targets), seed, train=train, validation=validation, ordered=ordered)
    if features is not None:
        dataset = dataset._replace(features=dataset.features[:, _columns(dataset.features.shape[1], features, seed)])
    inputs, targets = _splits.standardise(dataset.features, first), _splits.standardise(dataset.targets, first)
    return _splits.Split(inputs[first], targets[first], inputs[second], targets[second])


def kernel_svr_bounds(features: int) -> np.ndarray:
    """The box ``(2, p + 3)`` of appendix C.4.

    >>> from jaxdpbo import problems
    >>> problems.kernel_svr_bounds(10).shape
    (2, 13)
    """
    return np.array([LOG_LENGTHSCALE] * checks.size("features", features) + [EPSILON, C, GAMMA]).T


def kernel_svr_loss(point: np.ndarray, data: _splits.Split) -> np.ndarray:
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


def _columns(total: int, features: int, seed: int) -> np.ndarray:
    """Draw ``features`` of ``total`` column numbers, ascending, by another random stream than the permutation's."""
    if checks.size("features", features) > total:
        raise ValueError(f"features must be at most {total}, got {features}")
    return np.sort(np.random.default_rng([seed, 1]).choice(total, features, replace=False))


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

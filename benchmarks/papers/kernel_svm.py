"""Hyper-parameters of a kernel support vector machine, Kusner et al. (2015), section 6, and example 4.4's sibling.

A point is ``(log C, log gamma)``. A user is one validation record, whose loss is 1 where it is classified wrongly, 0
otherwise; the utility of the paper is ``1 - mean loss``. The training records are not protected: the loss of a user may
depend on them. scikit-learn fits the machine, so the objective is a Python callable for ``run_loop``, not traceable.

The paper prints neither the ranges of ``C`` and of the kernel's width nor which of the seven forest types it tells from
the others: the ranges are chosen here, and the type is the commonest, number 2, which is half of the records.
"""

import math

import numpy as np

from benchmarks.papers import splits
from jaxdpbo import checks
from jaxdpbo.problems import Dataset, _kernel_svr
from jaxdpbo.problems._datasets import SKLEARN_HINT

C = (1e-2, 1e3)
GAMMA = (1e-4, 1.0)
COVTYPE_CLASS = 2.0


def bounds() -> np.ndarray:
    """``(2, 2)``, of ``(log C, log gamma)``."""
    return np.log(np.array([C, GAMMA])).T


def split(
    dataset: Dataset, seed: int, *, train: int, validation: int | None = None, positive: float = COVTYPE_CLASS
) -> splits.Split:
    """Train and validation records, standardised by the training records alone.

    Args:
      dataset: ``targets`` are class numbers.
      seed: of the permutation.
      train: how many records to train on.
      validation: how many users; all that is left where not given.
      positive: the class to separate from all others.

    Raises:
      ValueError: more records than there are.
    """
    labels = np.where(dataset.targets == checks.number("positive", positive), 1.0, -1.0)
    return splits.split_rows(dataset.features, labels, seed, train=train, validation=validation)


def loss(point: np.ndarray, data: splits.Split) -> np.ndarray:
    """Errors ``(n,)``, each 0 or 1: entry ``i`` reads validation record ``i`` alone."""
    try:
        from sklearn.svm import SVC
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(SKLEARN_HINT) from error
    c, gamma = math.exp(point[0]), math.exp(point[1])
    machine = SVC(kernel="precomputed", C=c)
    machine.fit(_kernel_svr.correlations(gamma, data.train, data.train), data.train_targets)
    with np.errstate(invalid="ignore", over="ignore"):  # a user who is not finite is classified wrongly
        similar = _kernel_svr.correlations(gamma, data.validation, data.train[machine.support_])
        decisions = similar @ machine.dual_coef_[0] + machine.intercept_[0]
        return np.where(decisions * data.validation_targets > 0, 0.0, 1.0)

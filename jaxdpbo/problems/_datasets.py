"""Real records bundled with scikit-learn, without downloads."""

from typing import NamedTuple

import numpy as np

from jaxdpbo import checks

SKLEARN_HINT = f"scikit-learn is needed: {checks.install_hint('sklearn')}"
NAMES = ("digits", "breast_cancer", "diabetes")


class Dataset(NamedTuple):
    """Numeric records.

    Attributes:
      features: ``(N, p)`` float64.
      targets: ``(N,)`` float64: a response, or a class number.
      source: the name of the data.
    """

    features: np.ndarray
    targets: np.ndarray
    source: str


def load_dataset(name: str) -> Dataset:
    """Load a numeric data set of ``NAMES``.

    Raises:
      ValueError: an unknown name.
      ModuleNotFoundError: scikit-learn is missing.

    >>> from jaxdpbo import problems
    >>> problems.load_dataset("diabetes").features.shape
    (442, 10)
    """
    name = checks.one_of("name", name, NAMES)
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(SKLEARN_HINT) from error
    bunch = getattr(datasets, f"load_{name}")()
    features, targets = np.asarray(bunch.data, np.float64), np.asarray(bunch.target, np.float64)
    return Dataset(features, targets, f"scikit-learn's bundled {name}")

"""Splits into training records and users, standardised by training records alone."""

from typing import Any

import numpy as np

from jaxdpbo import checks
from jaxdpbo.problems import Dataset
from jaxdpbo.problems._kernel_svr import Split, standardise

OF_USERS = Split(None, None, 0, 0)  # the axis of users in each field


def divide_rows(
    total: int, seed: int, *, train: int, validation: int | None = None, ordered: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Divide ``total`` record numbers into training records ``(N,)`` and users ``(n,)``, by default all others.

    ``ordered``: no permutation, the first records train and later ones validate (a time series).

    Raises:
      ValueError: ``train + validation`` is above ``total``, or a size is below 1.
    """
    users = total - train if validation is None else validation
    if checks.size("train", train) + checks.size("validation", users) > total:
        raise ValueError(f"train + validation must be at most {total}, got {train} + {users}")
    order = np.arange(total) if ordered else np.random.default_rng(seed).permutation(total)
    return order[:train], order[train : train + users]


def split_rows(features: np.ndarray, targets: np.ndarray, seed: int, **sizes: Any) -> Split:
    """Divide records as ``divide_rows`` does, and standardise the features."""
    first, second = divide_rows(len(targets), seed, **sizes)
    inputs = standardise(features, first)
    return Split(inputs[first], targets[first], inputs[second], targets[second])


def split_for_svr(dataset: Dataset, seed: int, *, features: int | None = None, **sizes: Any) -> Split:
    """Records of a kernel support vector regression, targets standardised too.

    Args:
      dataset: numeric records.
      seed: the seed of the permutation and of the features.
      features: the number of features, drawn at random without reading records; by default all. Appendix C.4 of Sopa
        et al. draws 30.
      sizes: as in ``divide_rows``.

    Raises:
      ValueError: more records or features than the data set has, or a size below 1.
    """
    first, _ = divide_rows(len(dataset.targets), seed, **sizes)
    inputs = dataset.features
    if features is not None:
        inputs = inputs[:, draw_columns(inputs.shape[1], features, seed)]
    return split_rows(inputs, standardise(dataset.targets, first), seed, **sizes)


def draw_columns(total: int, features: int, seed: int) -> np.ndarray:
    """Draw ``features`` of ``total`` column numbers, ascending, by another random stream than the permutation's."""
    if checks.size("features", features) > total:
        raise ValueError(f"features must be at most {total}, got {features}")
    return np.sort(np.random.default_rng([seed, 1]).choice(total, features, replace=False))

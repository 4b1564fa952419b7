"""Splits into training records and users, and standardisation by training records alone."""

from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks


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


OF_USERS = Split(None, None, 0, 0)  # the axis of users in each field


def divide_rows(
    total: int, seed: int, *, train: int, validation: int | None = None, ordered: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Divide ``total`` record numbers into training records ``(N,)`` and users ``(n,)``.

    Args:
      total: the number of records.
      seed: the seed of the permutation.
      train: the number ``N`` of training records.
      validation: the number ``n`` of users; by default, all other records.
      ordered: True for no permutation: the first records train, later ones validate (a time series).

    Raises:
      ValueError: ``train + validation`` is above ``total``, or a size is below 1.
    """
    train, total, seed = (
        checks.size("train", train),
        checks.size("total", total),
        checks.size("seed", seed, minimum=0),
    )
    users = total - train if validation is None else validation
    if checks.size("validation", users) + train > total:
        raise ValueError(f"train + validation must be at most {total}, got {train} + {users}")
    order = np.arange(total) if checks.flag("ordered", ordered) else np.random.default_rng(seed).permutation(total)
    return order[:train], order[train : train + users]


def standardise(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Standardise ``values (N + n, ...)`` by the mean and standard deviation of the ``train`` rows alone.

    With the mean and deviation of validation records, a user could move another user's loss, against the guarantee. A
    column constant in the ``train`` rows is centred only.
    """
    mean, deviation = values[train].mean(axis=0), values[train].std(axis=0)
    return (values - mean) / np.where(deviation == 0, 1.0, deviation)

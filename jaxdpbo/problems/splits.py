"""Who trains and who is a user; and a scale for features that the users do not touch."""

from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import _checks


class Split(NamedTuple):
    """Records that train a model, and the users' validation records.

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


OF_USERS = Split(None, None, 0, 0)  # which axes count users


def divide(
    total: int, seed: int, *, train: int, validation: int | None = None, ordered: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Which of ``total`` records train ``(N,)`` and which are users ``(n,)``.

    Args:
      total: how many records there are.
      seed: of the permutation.
      train: ``N``.
      validation: ``n``; all that are left where not given.
      ordered: no permutation: the first records train, later ones validate (a time series).

    Raises:
      ValueError: more records asked for than there are, or a size below 1.
    """
    train, total, seed = (
        _checks.size("train", train),
        _checks.size("total", total),
        _checks.size("seed", seed, minimum=0),
    )
    users = total - train if validation is None else validation
    if _checks.size("validation", users) + train > total:
        raise ValueError(f"train + validation must be at most {total}, got {train} + {users}")
    order = np.arange(total) if _checks.flag("ordered", ordered) else np.random.default_rng(seed).permutation(total)
    return order[:train], order[train : train + users]


def standardise(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """``values (N + n, ...)`` less the mean, over the deviation, of the ``train`` rows alone.

    Means and deviations of validation records would let one user move another's loss, and void the guarantee. A
    constant column says nothing, and becomes 0.
    """
    mean, deviation = values[train].mean(axis=0), values[train].std(axis=0)
    return (values - mean) / np.where(deviation == 0, 1.0, deviation)

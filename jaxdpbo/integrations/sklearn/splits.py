"""Split rows once into training rows (NOT protected) and validation rows (protected).

The split must not depend on the content of rows. A split by labels does: a changed label moves other rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit, check_cv

from jaxdpbo import separable

KFOLDS = (
    "cv must be one split, such as ShuffleSplit(1) or PredefinedSplit, got {}: in k-fold cross-validation each record "
    "also trains the models of the other folds, and the guarantee for validation records does not cover training; "
    "give protect='all' to protect all records, in blocks"
)
SEED = 0  # of the default split: public and fixed
THIRDS = 3  # of the training rows: two to fit to, one to measure settings that are proposed


class ValidationSplit(NamedTuple):
    """The numbers of training and validation rows, with the users of validation rows.

    Attributes:
      train: ``(m,)``, numbers of training rows.
      validation: ``(r,)``, numbers of validation rows.
      user: ``(r,)``, the user of each validation row, 0 to ``n - 1``.
      users: the number of users ``n``.
      owner: ``(m,)``, the owner of each training row, from 0 on.
    """

    train: np.ndarray
    validation: np.ndarray
    user: np.ndarray
    users: int
    owner: np.ndarray

    def user_losses(self, losses: np.ndarray) -> np.ndarray:
        """The mean loss ``(n,)`` of each user's rows, from ``losses (r,)``."""
        return np.bincount(self.user, losses, self.users) / np.bincount(self.user, minlength=self.users)


def split_training_rows(split: ValidationSplit) -> ValidationSplit:
    """Split the training rows of a split: two thirds of their owners to fit to, and one third to measure."""
    count = int(np.max(split.owner)) + 1
    held = count // THIRDS
    place = np.argsort(np.random.default_rng(SEED).permutation(count))[split.owner]
    order = np.argsort(place, kind="stable")
    rows, user, cut = split.train[order], place[order], int(np.sum(place < held))
    return ValidationSplit(rows[cut:], rows[:cut], user[:cut], held, user[cut:] - held)


def single_split(cv: Any, rows: int, groups: Any, arguments: dict[str, Any], *, again: bool) -> ValidationSplit:
    """Split by the number of rows and the groups alone; ``again`` requires the same split each time.

    Raises:
      ValueError: ``cv`` gives several splits, splits by labels, leaves a side empty, puts a row or a group on both
        sides or, with ``again``, changes between calls.
    """
    splitter = _splitter(cv, groups)
    blank = np.zeros((rows, 1))  # hide the rows from the splitter
    arguments = arguments if groups is None else arguments | {"groups": groups}
    if (count := splitter.get_n_splits(blank, np.zeros(rows), **arguments)) != 1:
        raise ValueError(KFOLDS.format(f"{count} splits"))
    (train, validation), *others = (
        [np.arange(rows)[side] for side in next(iter(splitter.split(blank, np.zeros(rows), **arguments)))]
        for _ in range(1 + again)
    )
    if any(not np.array_equal(validation, other) for _, other in others):
        raise ValueError("cv must give the same split each time with ledger=: set its random_state")
    if not len(train) or not len(validation) or len(np.intersect1d(train, validation)):
        raise ValueError("cv must give training rows and validation rows, and none that are both")
    owner = np.arange(rows) if groups is None else separable.number_owners(groups, rows)
    if groups is not None and len(np.intersect1d(owner[train], owner[validation])):
        raise ValueError("cv must not put rows of one group on both sides: use GroupShuffleSplit(1)")
    owners, user = np.unique(owner[validation], return_inverse=True)
    return ValidationSplit(train, validation, user, len(owners), separable.number_owners(owner[train], len(train)))


def _splitter(cv: Any, groups: Any) -> Any:
    """The splitter of ``cv``, halves by default. Raise a ValueError for k-fold or a split by labels."""
    if cv is None:
        halves = ShuffleSplit if groups is None else GroupShuffleSplit
        cv = halves(1, test_size=0.5, random_state=SEED)
    if isinstance(cv, (int, np.integer)):
        raise ValueError(KFOLDS.format(cv))
    if isinstance(cv, Iterator):
        raise ValueError("cv must not be an iterator, which gives its split to one fit alone: give a list of one split")
    if isinstance(cv, StratifiedShuffleSplit):
        raise ValueError(
            "cv must not split by labels, since a changed label would move other records: use ShuffleSplit(1)"
        )
    return check_cv(cv)

"""One split into training rows, which are not protected, and validation rows, which are.

Which row is where must not depend on what the rows hold. A split by labels does: one changed label moves others.
"""

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit, StratifiedShuffleSplit, check_cv

KFOLDS = (
    "cv must be one split, such as ShuffleSplit(1) or PredefinedSplit, got {}: in k-fold cross-validation each record "
    "also trains the models of the other folds, which no statement about validation records covers; "
    "protect='all' does, by blocks of records"
)
SEED = 0  # of the split where none is given: public, and the same each time


class Split(NamedTuple):
    """Rows.

    Attributes:
      train: ``(m,)``.
      validation: ``(r,)``.
      user: ``(r,)``, whose row each of ``validation`` is: 0 to ``n - 1``.
      users: ``n``.
    """

    train: np.ndarray
    validation: np.ndarray
    user: np.ndarray
    users: int

    def user_losses(self, losses: np.ndarray) -> np.ndarray:
        """``(n,)``, the mean loss of each user's rows, of ``losses (r,)``."""
        return np.bincount(self.user, losses, self.users) / np.bincount(self.user, minlength=self.users)


def single_split(cv: Any, rows: int, groups: Any, arguments: dict[str, Any], *, again: bool) -> Split:
    """The one split, by the number of rows and the groups alone; ``again`` says that it must be the same each time.

    Raises:
      ValueError: more splits than one, a split by labels, no rows on one side, rows or a group on both, a split that
        is another one each time where it must not be.
    """
    splitter = _splitter(cv, groups)
    blank = np.zeros((rows, 1))  # to a splitter the rows hold nothing: it can not look
    arguments = arguments if groups is None else arguments | {"groups": groups}
    if (count := splitter.get_n_splits(blank, np.zeros(rows), **arguments)) != 1:
        raise ValueError(KFOLDS.format(f"{count} splits"))
    (train, validation), *others = (
        [np.arange(rows)[each] for each in next(iter(splitter.split(blank, np.zeros(rows), **arguments)))]
        for _ in range(1 + again)
    )
    if any(not np.array_equal(validation, other) for _, other in others):
        raise ValueError("cv must give the same split each time where a search is on record: set its random_state")
    if not len(train) or not len(validation) or len(np.intersect1d(train, validation)):
        raise ValueError("cv must give training rows and validation rows, and none that are both")
    whose = np.arange(rows) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if groups is not None and len(np.intersect1d(whose[train], whose[validation])):
        raise ValueError("cv must not put rows of one group on both sides: use GroupShuffleSplit(1)")
    found, user = np.unique(whose[validation], return_inverse=True)
    return Split(train, validation, user, len(found))


def _splitter(cv: Any, groups: Any) -> Any:
    """The splitter of ``cv``, halves by default; ValueError where it is k-fold or splits by labels."""
    if cv is None:
        halves = ShuffleSplit if groups is None else GroupShuffleSplit
        cv = halves(1, test_size=0.5, random_state=SEED)
    if isinstance(cv, (int, np.integer)):
        raise ValueError(KFOLDS.format(cv))
    if isinstance(cv, StratifiedShuffleSplit):
        raise ValueError(
            "cv must not split by labels: one record's label then moves other records; use ShuffleSplit(1)"
        )
    return check_cv(cv)

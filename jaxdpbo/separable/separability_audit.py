"""An audit for mixed users in objectives without a traceable program: rerun Python code and compare the losses."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import checks
from jaxdpbo.types import ArrayLike, Data, Objective


class SeparabilityAudit(NamedTuple):
    """The result of ``audit_separable``. NOT PRIVATE: for the holder of the data alone.

    Attributes:
      mixed: pairs ``(i, j)``: the loss of user ``j`` moved after a replacement of the record of user ``i``.
      largest: the largest move of a loss; inf if a number became NaN or the reverse.
      replaced: the number of tried replacements, over all points.
    """

    mixed: tuple[tuple[int, int], ...]
    largest: float
    replaced: int

    def __bool__(self) -> bool:
        """True if no user moved another user's loss."""
        return not self.mixed


def audit_separable(
    objective: Objective,
    points: Sequence[ArrayLike],
    data: Data,
    users: int,
    *,
    records: Sequence[int] | None = None,
    replace: Callable[[Data, int], Data] | None = None,
    tolerance: float = 0.0,
) -> SeparabilityAudit:
    """Replace one user's record at a time, and find moves of another user's loss.

    The audit finds bugs and proves nothing: it tests only these records, replacements and points. The result depends on
    the data: show it only to people with access to the data. If JAX can trace the objective, ``check_separable`` proves
    separability.

    >>> import numpy as np
    >>> from jaxdpbo.separable import audit_separable
    >>> data = np.array([[1.0], [2.0], [4.0]])
    >>> def loss(point, data):
    ...     return np.abs(data[:, 0] - point)
    >>> bool(audit_separable(loss, [0.0, 3.0], data, users=3))
    True
    >>> def ranked(point, data):
    ...     return np.argsort(np.argsort(data[:, 0])) + point
    >>> audit_separable(ranked, [0.0], data, users=3).mixed[0]
    (0, 1)

    Args:
      objective: ``(point, data) -> losses (..., n)``, users along the last axis; deterministic, or every loss moves.
      points: the points to evaluate.
      data: the data of the objective.
      users: the number ``n`` of users.
      records: the users to replace, one at a time; by default the first, the last and up to eight between them.
      replace: ``(data, i) -> data`` with the record of user ``i`` replaced, the original untouched. By default, every
        array leaf of ``data`` of leading length ``n`` gets the next user's row there, and then ten times its largest
        number.
      tolerance: ignore moves up to this size; 0 compares to the last bit.

    Raises:
      ValueError: the losses do not have ``n`` entries, a record is outside ``[0, n)``, or nothing in ``data`` can be
        replaced.
    """
    users = checks.size("users", users)
    chosen = np.unique(np.linspace(0, users - 1, 10).astype(int)) if records is None else records
    rows = [int(row) for row in chosen]
    if not rows or not all(0 <= row < users for row in rows):
        raise ValueError(f"records must be numbers of users in [0, {users}), at least one, got {rows}")
    if replace is None and not any(_counts(leaf, users) for leaf in jax.tree.leaves(data)):
        raise ValueError(f"replace must be given if no array of data has leading length users = {users}")
    mixed, largest, count = set(), 0.0, 0
    for point in points:
        before = _losses(objective, point, data, users)
        for row in rows:
            for other in _make_replacements(data, row, users) if replace is None else [replace(data, row)]:
                moved = _differences(before, _losses(objective, point, other, users))
                moved[row] = 0.0
                mixed |= {(row, int(entry)) for entry in np.flatnonzero(moved > tolerance)}
                largest, count = max(largest, float(moved.max())), count + 1
    return SeparabilityAudit(tuple(sorted(mixed)), largest, count)


def _counts(leaf: Any, users: int) -> bool:
    return np.shape(leaf)[:1] == (users,)


def _make_replacements(data: Data, row: int, users: int) -> Iterator[Data]:
    """Yield the data with the next user's record in place of this user's, and with an outlier there."""

    def replace_row(leaf: Any, record: Callable[[np.ndarray], Any]) -> Any:
        if not _counts(leaf, users):
            return leaf
        rows = np.array(leaf)
        rows[row] = record(rows)
        return rows

    yield jax.tree.map(lambda leaf: replace_row(leaf, lambda rows: rows[(row + 1) % users]), data)
    yield jax.tree.map(lambda leaf: replace_row(leaf, _make_outlier), data)


def _make_outlier(rows: np.ndarray) -> Any:
    """Ten times the largest float of ``rows``; the first row of other types."""
    return 10 * np.max(np.abs(rows)) if np.issubdtype(rows.dtype, np.floating) else rows[0]


def _losses(objective: Objective, point: Any, data: Data, users: int) -> np.ndarray:
    losses = np.asarray(objective(point, data), np.float64)
    if losses.shape[-1:] != (users,):
        mean = "" if losses.shape else ": one loss per user, not their mean"
        raise ValueError(
            f"objective must return losses of {users} users along the last axis, got shape {losses.shape}{mean}"
        )
    return losses.reshape(-1, users)


def _differences(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """The move ``(n,)`` of each user's loss: 0 for equal values, including NaN and infinities."""
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    with np.errstate(invalid="ignore"):
        distance = np.abs(after - before)
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance)).max(axis=0)

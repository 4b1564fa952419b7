"""Try a study on public records, free of charge: errors are shown in full, since the records are public."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optuna
from optuna.trial import Trial

TOLERANCE = 1e-6  # relative: libraries round a product of matrices differently for other values


def rehearse(suggest: Callable[[Trial], Any], losses: Callable[[dict[str, Any], Any], Any], public: Any) -> None:
    """Call ``suggest`` and ``losses`` on public records as a trial would, in a study that is thrown away.

    If ``public`` holds arrays with one row for each record, the first record takes the place of the last in a second
    call: no other loss may change. Random losses are not compared.

    Raises:
      ValueError: the losses are not a vector of finite numbers, one for each row of arrays, or depend on other records.
      Exception: any exception of ``suggest`` or ``losses``.
    """
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    params = dict(suggest(study.ask()))
    before = _call(losses, params, public)
    if before.ndim != 1 or not len(before):
        raise ValueError(f"losses of the rehearsal must have the shape (n,), got shape {before.shape}")
    if not np.all(np.isfinite(before)):
        raise ValueError("losses of the rehearsal must be finite: NaN counts as the middle of loss_range")
    rows = _count_rows(public)
    if rows is None:
        return
    if rows != len(before):
        raise ValueError(f"losses of the rehearsal must be one for each of the {rows} records, got {len(before)}")
    if not _are_equal(before, _call(losses, params, public)):
        return  # random losses
    after = _call(losses, params, jax.tree.map(_replace_last, public))
    if after.shape != before.shape or not _are_equal(before[:-1], after[:-1]):
        raise ValueError(
            "losses must depend on the user's own record alone: in the rehearsal, replacing the last record changed "
            "the loss of another"
        )


def _call(losses: Callable[[dict[str, Any], Any], Any], params: dict[str, Any], records: Any) -> np.ndarray:
    return np.asarray(losses(dict(params), records), float)


def _count_rows(records: Any) -> int | None:
    """The number of rows of arrays that share a leading length; None for other records."""
    leaves = jax.tree.leaves(records)
    if not leaves or not all(isinstance(leaf, (np.ndarray, jax.Array)) and leaf.ndim for leaf in leaves):
        return None
    lengths = {leaf.shape[0] for leaf in leaves}
    return lengths.pop() if len(lengths) == 1 else None


def _replace_last(leaf: Any) -> np.ndarray:
    changed = np.array(leaf)
    changed[-1] = changed[0]
    return changed


def _are_equal(left: np.ndarray, right: np.ndarray) -> bool:
    return np.allclose(left, right, rtol=TOLERANCE, atol=TOLERANCE)

"""Try a study on public records, free of charge: errors are shown in full, since these records are nobody's secret."""

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
      ValueError: the losses are not one finite number for each record, or depend on other records.
      Exception: any exception of ``suggest`` or ``losses``.
    """
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    params = dict(suggest(study.ask()))
    measured = _call(losses, params, public)
    if measured.ndim != 1 or not len(measured):
        raise ValueError(f"losses of the rehearsal must have the shape (n,), got shape {measured.shape}")
    if not np.all(np.isfinite(measured)):
        raise ValueError("losses of the rehearsal must be finite: NaN counts as the middle of loss_range")
    if not _has_rows(public, len(measured)) or not _are_equal(measured, _call(losses, params, public)):
        return
    changed = _call(losses, params, jax.tree.map(_replace_last, public))
    if changed.shape != measured.shape or not _are_equal(measured[:-1], changed[:-1]):
        raise ValueError(
            "losses must depend on the user's own record alone: in the rehearsal, replacing the last record changed "
            "the loss of another"
        )


def _call(losses: Callable[[dict[str, Any], Any], Any], params: dict[str, Any], records: Any) -> np.ndarray:
    return np.asarray(losses(dict(params), records), float)


def _has_rows(records: Any, count: int) -> bool:
    leaves = jax.tree.leaves(records)
    arrays = (isinstance(leaf, (np.ndarray, jax.Array)) and leaf.shape[:1] == (count,) for leaf in leaves)
    return bool(leaves) and all(arrays)


def _replace_last(leaf: Any) -> np.ndarray:
    changed = np.array(leaf)
    changed[-1] = changed[0]
    return changed


def _are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    return np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE)

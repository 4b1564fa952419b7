"""Try a study on public records, free of charge: errors are shown in full, since the records are public."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optuna
from optuna.trial import Trial

from jaxdpbo import user_values
from jaxdpbo.separable import replaced_rows
from jaxdpbo.types import Data


def rehearse(suggest: Callable[[Trial], Any], losses: Callable[[dict[str, Any], Any], Any], public: Data) -> None:
    """Call ``suggest`` and ``losses`` on public records as a trial would, in a study that is thrown away.

    If ``public`` holds arrays or data frames with one row for each record, the last record replaces the first, and the
    first the last, in further calls: no other loss may change. Random losses are not compared.

    Raises:
      ValueError: the losses are not a vector of finite numbers, one for each row of arrays, or depend on other records.
      Exception: any exception of ``suggest`` or ``losses``.
    """
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    params, rows = dict(suggest(study.ask())), _count_rows(public)

    def measure(order: np.ndarray | None) -> np.ndarray:
        records = public if order is None else jax.tree.map(lambda leaf: _take(leaf, order), public)
        shape = None if rows is None else (rows,)
        return user_values.to_losses("losses", losses(dict(params), records), shape, np.float64)

    if rows is None:
        before = measure(None)
        if before.ndim != 1 or not len(before):
            raise ValueError(f"losses of the rehearsal must have the shape (n,), got shape {before.shape}")
    else:
        before = measure(np.arange(rows))  # a copy: losses may change their argument
    if not np.all(np.isfinite(before)):
        raise ValueError("losses of the rehearsal must be finite: others count as the upper end of loss_range")
    if rows is not None and replaced_rows.mixes_rows(measure, rows):
        raise ValueError(
            "losses must depend on the user's own record alone: in the rehearsal, replacing a record changed the loss "
            f"of another (each array of {rows} rows holds a row of each record)"
        )


def _count_rows(records: Any) -> int | None:
    """The number of rows of arrays and frames that share a leading length; None for other records."""
    leaves = jax.tree.leaves(records)
    if not all(isinstance(leaf, (np.ndarray, jax.Array)) or hasattr(leaf, "iloc") for leaf in leaves):
        return None
    lengths = {leaf.shape[0] if leaf.shape else None for leaf in leaves}
    return lengths.pop() if len(lengths) == 1 else None


def _take(leaf: Any, order: np.ndarray) -> Any:
    """A copy with the rows in this order; a frame keeps its index."""
    return leaf.iloc[order].set_axis(leaf.index) if hasattr(leaf, "iloc") else leaf[order]

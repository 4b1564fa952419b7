"""Losses of single records, each with a public range, and predictions that a bad record cannot stop.

A prediction that raises tells something of the record that made it raise, and warnings, prints and logs quote values.
So predictions are silenced. Where one raises, the bad rows are found by halves, and then all rows are predicted once
more with a training row in the place of each bad one. Every prediction is of as many rows as the first: BLAS rounds by
the number of rows, so among fewer rows the losses of others would move. A bad row has no loss (NaN), which counts as
the middle of the range.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import _safe_indexing

from jaxdpbo import _checks, _silence, _user_values
from jaxdpbo.integrations.sklearn import kinds
from jaxdpbo.integrations.sklearn.kinds import Estimator, Rows, Targets

AUTO = "auto"


class Loss(NamedTuple):
    """A loss of single records.

    Attributes:
      response: the estimator's method whose result is compared with the targets.
      compare: ``(estimator, targets (n,), responses) -> losses (n,)``.
      range: what its losses are clipped to where nothing else is said; None: that depends on the targets' units.
    """

    response: str
    compare: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    range: tuple[float, float] | None


def _log_loss(estimator: Estimator, targets: np.ndarray, chances: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return -np.log(np.sum(chances * _is_class(estimator, targets), axis=1))


def _zero_one(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    del estimator
    return np.asarray(predicted != targets, float)


def _hinge(estimator: Estimator, targets: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Of the margin over the best other class (Crammer and Singer 2001)."""
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    right = _is_class(estimator, targets)
    others = np.max(np.where(right, -np.inf, scores), axis=1)
    own = np.sum(np.where(right, scores, 0.0), axis=1)
    return np.where(np.any(right, axis=1), np.maximum(0.0, 1 - own + others), np.inf)


def _squared(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    del estimator
    return np.square(predicted - _floats(targets))


def _absolute(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    del estimator
    return np.abs(predicted - _floats(targets))


def _floats(targets: np.ndarray) -> np.ndarray:
    return _user_values.to_numbers(targets, (len(targets),)).astype(float)


def _is_class(estimator: Estimator, targets: np.ndarray) -> np.ndarray:
    """``(n, classes)``; a label that no training row has is in none."""
    return np.asarray(targets[:, None] == np.asarray(estimator.classes_)[None, :], bool)


LOSSES = {
    "log_loss": Loss("predict_proba", _log_loss, (0.0, 4.0)),  # 4: a chance of 1.8 %, or less
    "hinge": Loss("decision_function", _hinge, (0.0, 2.0)),
    "zero_one": Loss("predict", _zero_one, (0.0, 1.0)),
    "squared": Loss("predict", _squared, None),
    "absolute": Loss("predict", _absolute, None),
}


def named(loss: kinds.Loss, estimator: Estimator) -> kinds.Loss:
    """The name of the loss that is meant, or the caller's own function.

    Raises:
      ValueError: an unknown name, or "auto" of an estimator that is neither a classifier nor a regressor.
    """
    if callable(loss):
        return loss
    if _checks.choice("loss", loss, (AUTO, *LOSSES)) != AUTO:
        return loss
    if is_classifier(estimator):
        return "log_loss" if hasattr(estimator, "predict_proba") else "zero_one"
    if is_regressor(estimator):
        return "squared"
    raise ValueError("loss must be given for an estimator that is neither a classifier nor a regressor")


def expect(loss: kinds.Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> None:
    """Nothing, where a fitted estimator's predictions have a loss each; of rows that are not protected.

    ``targets`` are of ``elements``, as those of protected rows are: what a loss cannot take is seen here.

    Raises:
      ValueError: the loss is something else than one number a row.
      Exception: whatever the estimator or the loss raises.
    """
    found = _losses(loss, estimator, inputs, targets)
    if found.shape != (_rows(inputs),):
        raise ValueError(f"loss must be one number a row, ({_rows(inputs)},), got shape {found.shape}")
    if np.all(np.isnan(found)):
        raise ValueError("loss must be a number for some training row at least, got NaN for all")


def column(targets: Targets) -> Targets:
    """What ``fit`` is given as ``y``, a frame of one column as that column.

    Raises:
      ValueError: a frame of several columns.
    """
    if not hasattr(targets, "columns"):
        return targets
    if targets.shape[1] != 1:
        raise ValueError(f"y must be one column, or an array, got a frame of {targets.shape[1]} columns")
    return _safe_indexing(targets, 0, axis=1)


def of_records(
    loss: kinds.Loss, estimator: Estimator, inputs: Rows, targets: Targets, *, spare: bool = False
) -> np.ndarray:
    """Losses ``(n,)`` of a fitted estimator's predictions; no value of a record raises, warns, or moves another's loss.

    Args:
      loss: by name, or a function.
      estimator: fitted.
      inputs: ``n`` protected rows, and with ``spare`` a training row after them, which takes the place of bad ones.
        Otherwise another of the rows does: they are all one user's.
      targets: likewise.
      spare: see above.
    """
    count = _rows(inputs) - spare
    every = np.arange(count)
    found = _predicted(loss, estimator, inputs, targets, every)
    if found is not None:
        return found
    bad = _bad_rows(loss, estimator, inputs, targets, every, count if spare else None)
    good = [count] if spare else np.setdiff1d(every, bad)
    if len(bad) and len(good):
        every[bad] = good[0]
        found = _predicted(loss, estimator, inputs, targets, every)
    if found is None:
        return np.full(count, np.nan)
    found[bad] = np.nan
    return found


def elements(targets: Targets, rows: np.ndarray) -> Any:
    """Targets of some rows, those of lists, Series and objects one by one: a label of another type changes no other's.

    A Series too: one label decides its type, and so what a loss is given for all.
    """
    if targets is None:
        return None
    taken = _safe_indexing(targets, rows)
    if isinstance(taken, np.ndarray):
        taken = taken[:, 0] if taken.ndim == 2 and taken.shape[1] == 1 else taken
        if taken.dtype != object:
            return taken
    found = np.empty(len(taken), object)
    for row, each in enumerate(taken):
        found[row] = _on_host(each)
    return found


def _on_host(target: Any) -> Any:
    """A target that is compared without a program of JAX; None for what is no number of JAX."""
    if not isinstance(target, jax.Array):
        return target
    return None if jnp.issubdtype(target.dtype, jax.dtypes.extended) else np.asarray(target)[()]


def _bad_rows(
    loss: kinds.Loss, estimator: Estimator, inputs: Rows, targets: Targets, rows: np.ndarray, spare: int | None
) -> list[int]:
    """Which of ``rows`` make a prediction fail, given that they do together.

    Other rows give way to ``spare``, or to one of ``rows``, so that each prediction is of as many rows.
    """
    if len(rows) == 1:
        return [int(rows[0])]
    found = []
    for half in np.array_split(rows, 2):
        batch = np.full(_rows(inputs) - (spare is not None), half[0] if spare is None else spare)
        batch[half] = half
        if _predicted(loss, estimator, inputs, targets, batch) is None:
            found += _bad_rows(loss, estimator, inputs, targets, half, spare)
    return found


def _predicted(
    loss: kinds.Loss, estimator: Estimator, inputs: Rows, targets: Targets, rows: np.ndarray
) -> np.ndarray | None:
    """Losses of some rows, silenced; None where the estimator or the loss raises, or gives another shape."""

    def predict() -> np.ndarray:
        return _losses(loss, estimator, _safe_indexing(inputs, rows), _taken(targets, rows))

    found: Any = _silence.attempt(predict)
    return None if isinstance(found, _silence.Failed) or found.shape != rows.shape else found


def _taken(targets: Targets, rows: np.ndarray) -> Targets:
    return None if targets is None else _safe_indexing(targets, rows)


def _losses(loss: kinds.Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> np.ndarray:
    if callable(loss):
        return _user_values.to_numbers(loss(estimator, inputs, targets), (_rows(inputs),)).astype(float)
    if targets is None:
        raise ValueError(f"y must be given for loss={loss!r}")
    chosen = LOSSES[loss]
    response = np.asarray(getattr(estimator, chosen.response)(inputs))
    return np.asarray(chosen.compare(estimator, np.asarray(targets), response), float)


def _rows(inputs: Any) -> int:
    return inputs.shape[0] if hasattr(inputs, "shape") else len(inputs)

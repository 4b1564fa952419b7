"""Losses of single records, each with a public range, and predictions safe from bad records.

An error reveals something about its record, and warnings, prints and logs quote values, so predictions are
silenced. If a prediction raises, bisection finds the bad rows. Then all rows are predicted once more, with a
training row in the place of each bad row. Every prediction has the same number of rows: BLAS rounds differently for
another number and would change the losses of other records. The loss of a bad row is NaN, which counts as the upper
end of the range.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import get_scorer_names
from sklearn.utils import _safe_indexing

from jaxdpbo import checks, silence, user_values
from jaxdpbo.integrations.sklearn import type_aliases
from jaxdpbo.integrations.sklearn.type_aliases import Estimator, Rows, Targets
from jaxdpbo.separable import replaced_rows

AUTO = "auto"
TRIED = 100  # training rows that a loss is tried on with one replaced


class Loss(NamedTuple):
    """A loss of a record.

    Attributes:
      response: the method of the estimator to compare with the targets.
      compare: ``(estimator, targets (n,), responses) -> losses (n,)``.
      range: the default clipping range of losses; None if a range depends on the units of the targets.
    """

    response: str
    compare: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    range: tuple[float, float] | None


def _log_loss(estimator: Estimator, targets: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return -np.log(np.sum(probabilities * _is_class(estimator, targets), axis=1))


def _zero_one(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    del estimator
    return np.asarray(predicted != targets, float)


def _hinge(estimator: Estimator, targets: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The hinge loss of the margin over the best other class (Crammer and Singer 2001)."""
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1) / 2
    right = _is_class(estimator, targets)
    others = np.max(np.where(right, -np.inf, scores), axis=1)
    own = np.sum(np.where(right, scores, 0.0), axis=1)
    return np.where(np.any(right, axis=1), np.maximum(0.0, 1 - own + others), np.inf)


def _squared_error(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    del estimator
    return np.square(predicted - _floats(targets))


def _absolute_error(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    del estimator
    return np.abs(predicted - _floats(targets))


def _floats(targets: np.ndarray) -> np.ndarray:
    return user_values.to_numbers(targets, (len(targets),)).astype(float)


def _is_class(estimator: Estimator, targets: np.ndarray) -> np.ndarray:
    """True at the class of each target, ``(n, classes)``; all False for a label without training rows."""
    return np.asarray(targets[:, None] == np.asarray(cast(Any, estimator).classes_)[None, :], bool)


class NamedLosses(dict[str, Loss]):
    """Losses of a record by name, each with the estimator's method that it compares, and a default range."""


LOSSES = NamedLosses(
    {
        "log_loss": Loss("predict_proba", _log_loss, (0.0, 4.0)),  # 4: a probability of 1.8 % or less
        "hinge": Loss("decision_function", _hinge, (0.0, 2.0)),
        "zero_one": Loss("predict", _zero_one, (0.0, 1.0)),
        "squared": Loss("predict", _squared_error, None),
        "absolute": Loss("predict", _absolute_error, None),
    }
)


def resolve_loss(loss: type_aliases.Loss, estimator: Estimator) -> type_aliases.Loss:
    """Resolve "auto" to the name of a loss; return any other name or function unchanged.

    Raises:
      ValueError: the name is unknown, or "auto" for an estimator that is neither a classifier nor a regressor.
    """
    if callable(loss):
        return loss
    if loss in get_scorer_names():
        raise ValueError(
            f"loss must be {', '.join(map(repr, (AUTO, *LOSSES)))} or a function, got the scorer {loss!r}: "
            "docs/tutorials/sklearn.md lists losses for common scorers"
        )
    if checks.one_of("loss", loss, (AUTO, *LOSSES)) != AUTO:
        return loss
    if is_classifier(estimator):
        return "log_loss" if hasattr(estimator, "predict_proba") else "zero_one"
    if is_regressor(estimator):
        return "squared"
    raise ValueError("loss must be given for an estimator that is neither a classifier nor a regressor, got 'auto'")


def expect(loss: type_aliases.Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> None:
    """Raise unless a fitted estimator's predictions have one loss per row. The rows must not be protected.

    Pass ``targets`` from ``elements``, as for protected rows. A loss unable to take this type then fails here.

    Raises:
      ValueError: the loss is not one number per row, is NaN for all rows, or depends on other rows.
      Exception: any error of the estimator or the loss.
    """
    losses = _losses(loss, estimator, inputs, targets)
    if losses.shape != (_rows(inputs),):
        raise ValueError(f"loss must return one number a row, shape ({_rows(inputs)},), got shape {losses.shape}")
    if np.all(np.isnan(losses)):
        raise ValueError("loss must be a number for at least one training row, got NaN for all")
    rows = min(len(losses), TRIED)

    def measure(order: np.ndarray) -> np.ndarray:
        return _losses(loss, estimator, _safe_indexing(inputs, order), elements(targets, order))

    if rows > 1 and replaced_rows.mixes_rows(measure, rows):
        raise ValueError(
            "loss must depend on the record's own row alone: among the training rows, a row in the place of another "
            "changed the loss of a third. A ranking, such as AUC, or a ratio, such as F1, is no mean of losses: see "
            "docs/tutorials/sklearn.md for the losses to give in their place"
        )


def to_column(targets: Targets) -> Targets:
    """Return ``y``; a data frame of one column becomes that column.

    Raises:
      ValueError: ``y`` is a data frame of several columns.
    """
    columns = getattr(targets, "columns", None)
    if columns is None:
        return targets
    if len(columns) != 1:
        raise ValueError(f"y must be one column, or an array, got a frame of {len(columns)} columns")
    return _safe_indexing(targets, 0, axis=1)


def record_losses(
    loss: type_aliases.Loss, estimator: Estimator, inputs: Rows, targets: Targets, *, spare: bool = False
) -> np.ndarray:
    """Losses ``(n,)`` of a fitted estimator's predictions. No record can raise, warn, or change another record's loss.

    Args:
      loss: the name of a loss, or a function.
      estimator: a fitted estimator.
      inputs: ``n`` protected rows. With ``spare`` a training row follows, to take the place of bad rows;
        otherwise all rows belong to the same user, and a good row takes this place.
      targets: the targets of ``inputs``.
      spare: True if ``inputs`` and ``targets`` end with a training row.
    """
    count = _rows(inputs) - spare
    rows = np.arange(count)
    losses = _predict(loss, estimator, inputs, targets, rows)
    if losses is not None:
        return losses
    bad = _bad_rows(loss, estimator, inputs, targets, rows, count if spare else None)
    good = [count] if spare else np.setdiff1d(rows, bad)
    if len(bad) and len(good):
        rows[bad] = good[0]
        losses = _predict(loss, estimator, inputs, targets, rows)
    if losses is None:
        return np.full(count, np.nan)
    losses[bad] = np.nan
    return losses


def elements(targets: Targets, rows: np.ndarray) -> Any:
    """The targets of some rows. Lists, Series and arrays of objects become an array of objects, element by element.

    One label decides the dtype of a whole Series or list; as objects, a label of another type changes no other label.
    """
    if targets is None:
        return None
    taken = _safe_indexing(targets, rows)
    if isinstance(taken, np.ndarray):
        taken = taken[:, 0] if taken.ndim == 2 and taken.shape[1] == 1 else taken
        if taken.dtype != object:
            return taken
    objects = np.empty(len(taken), object)
    for row, target in enumerate(taken):
        objects[row] = _to_host(target)
    return objects


def _to_host(target: Any) -> Any:
    """Copy a JAX scalar to NumPy, so that comparing it runs no JAX program; None for keys and other extended dtypes."""
    if not isinstance(target, jax.Array):
        return target
    return None if jnp.issubdtype(target.dtype, jax.dtypes.extended) else np.asarray(target)[()]


def _bad_rows(
    loss: type_aliases.Loss, estimator: Estimator, inputs: Rows, targets: Targets, rows: np.ndarray, spare: int | None
) -> list[int]:
    """The rows among ``rows`` that make a prediction fail. The prediction of all ``rows`` must have failed.

    Row ``spare``, or one of ``rows``, fills the places of all other rows, so that every prediction has the same number
    of rows.
    """
    if len(rows) == 1:
        return [int(rows[0])]
    bad = []
    for half in np.array_split(rows, 2):
        batch = np.full(_rows(inputs) - (spare is not None), half[0] if spare is None else spare)
        batch[half] = half
        if _predict(loss, estimator, inputs, targets, batch) is None:
            bad += _bad_rows(loss, estimator, inputs, targets, half, spare)
    return bad


def _predict(
    loss: type_aliases.Loss, estimator: Estimator, inputs: Rows, targets: Targets, rows: np.ndarray
) -> np.ndarray | None:
    """Losses of some rows, silenced; None if the estimator or the loss raises, or the losses have another shape."""

    def predict() -> np.ndarray:
        return _losses(loss, estimator, _safe_indexing(inputs, rows), _take(targets, rows))

    losses: Any = silence.attempt(predict)
    return None if isinstance(losses, silence.Failed) or losses.shape != rows.shape else losses


def _take(targets: Targets, rows: np.ndarray) -> Targets:
    return None if targets is None else _safe_indexing(targets, rows)


def _losses(loss: type_aliases.Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> np.ndarray:
    if callable(loss):
        return user_values.to_numbers(loss(estimator, inputs, targets), (_rows(inputs),)).astype(float)
    if targets is None:
        raise ValueError(f"y must be given for loss={loss!r}")
    chosen = LOSSES[loss]
    response = np.asarray(getattr(estimator, chosen.response)(inputs))
    return np.asarray(chosen.compare(estimator, np.asarray(targets), response), float)


def _rows(inputs: Any) -> int:
    return inputs.shape[0] if hasattr(inputs, "shape") else len(inputs)

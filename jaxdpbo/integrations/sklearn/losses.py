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
RANKED, BALANCED = "roc_auc", "balanced_accuracy"  # scikit-learn's names of scores; their losses are 1 minus these
TRIED = 100  # training rows that a loss is tried on with one replaced


class Loss(NamedTuple):
    """A loss of a record.

    Attributes:
      responses: methods of the estimator; the first that it has is compared with the targets.
      compare: ``(estimator, targets (n,), responses) -> losses (n,)``.
      range: the default clipping range of losses; None if a range depends on the units of the targets.
      beside: for a score that is no mean of losses, ``(estimator, X, y) -> Loss``: the loss beside other rows. Its
        mean over these rows themselves is 1 minus their score. ``range`` is of this mean, ``compare`` is unused.
    """

    responses: tuple[str, ...]
    compare: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    range: tuple[float, float] | None
    beside: Callable[[Any, Any, Any], "Loss"] | None = None


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


def _beside_ranks(estimator: Estimator, inputs: Rows, targets: Targets) -> Loss:
    """The share of the rows of the other class that are scored on the wrong side of a record; a tie is half of one."""
    kind = LOSSES[RANKED]
    sides = _is_class(estimator, np.asarray(targets))
    if sides.shape[1:] != (2,) or not np.all(np.any(sides, axis=0)):
        raise ValueError(f"loss={RANKED!r} needs two classes, and rows of both to compare with")
    scores = _rank(_respond(kind, estimator, inputs))
    negative, positive = (np.sort(scores[side & ~np.isnan(scores)]) for side in sides.T)

    def compare(estimator: Estimator, targets: np.ndarray, responses: np.ndarray) -> np.ndarray:
        is_negative, is_positive = _is_class(estimator, targets).T
        scores = _rank(responses)
        under, over = _share_below(positive, scores), 1 - _share_below(negative, scores)
        losses = np.where(is_positive, over, np.where(is_negative, under, np.nan))
        return np.where(np.isnan(scores), np.nan, losses)

    return Loss(kind.responses, compare, (0.0, 1.0))


def _share_below(ordered: np.ndarray, scores: np.ndarray) -> np.ndarray:
    both = np.searchsorted(ordered, scores, "left") + np.searchsorted(ordered, scores, "right")
    return both / (2 * max(len(ordered), 1))


def _rank(responses: np.ndarray) -> np.ndarray:
    """The scores of the second class, from ``predict_proba`` or ``decision_function``."""
    return np.asarray(responses[:, 1] if responses.ndim == 2 else responses, float)


def _beside_shares(estimator: Estimator, inputs: Rows, targets: Targets) -> Loss:
    """The error of a record, weighed by 1 over the share of its class among the rows and over the number of classes."""
    del inputs
    shares = np.mean(_is_class(estimator, np.asarray(targets)), axis=0)
    weights = 1 / (np.sum(shares > 0) * np.where(shares > 0, shares, np.inf))

    def compare(estimator: Estimator, targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        own = _is_class(estimator, targets) & (shares > 0)
        return np.where(np.any(own, axis=1), (predicted != targets) * (own @ weights), np.nan)

    return Loss(LOSSES[BALANCED].responses, compare, (0.0, float(np.max(weights))))


def _no_mean(estimator: Estimator, targets: np.ndarray, responses: np.ndarray) -> np.ndarray:
    raise TypeError("a score that is no mean of losses has losses beside other rows only")


class NamedLosses(dict[str, Loss]):
    """Losses of a record by name, each with the estimator's method that it compares, and a default range."""


LOSSES = NamedLosses(
    {
        "log_loss": Loss(("predict_proba",), _log_loss, (0.0, 4.0)),  # 4: a probability of 1.8 % or less
        "hinge": Loss(("decision_function",), _hinge, (0.0, 2.0)),
        "zero_one": Loss(("predict",), _zero_one, (0.0, 1.0)),
        "squared": Loss(("predict",), _squared_error, None),
        "absolute": Loss(("predict",), _absolute_error, None),
        RANKED: Loss(("decision_function", "predict_proba"), _no_mean, (0.0, 1.0), _beside_ranks),
        BALANCED: Loss(("predict",), _no_mean, (0.0, 1.0), _beside_shares),
    }
)


def usual_range(loss: type_aliases.Loss | Loss) -> tuple[float, float] | None:
    """The default clipping range of a loss; None for a function, and where a range depends on the targets' units."""
    named = LOSSES[loss] if isinstance(loss, str) else loss
    return named.range if isinstance(named, Loss) else None


def beside(loss: type_aliases.Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> type_aliases.Loss | Loss:
    """The loss beside some rows, for a score that is no mean of losses; any other loss unchanged.

    A record's loss is then a function of this record and of these rows, so these must be public, or of the same user.

    Raises:
      ValueError: a ranking without two classes, or without rows of both.
    """
    named = LOSSES[loss] if isinstance(loss, str) else None
    return loss if named is None or named.beside is None else named.beside(estimator, inputs, targets)


def resolve_loss(loss: type_aliases.Loss, estimator: Estimator) -> type_aliases.Loss:
    """Resolve "auto" to the name of a loss; return any other name or function unchanged.

    Raises:
      ValueError: the name is unknown, or "auto" for an estimator that is neither a classifier nor a regressor.
    """
    if callable(loss):
        return loss
    if loss not in LOSSES and loss in get_scorer_names():
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


def expect(loss: type_aliases.Loss | Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> None:
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
            "changed the loss of a third. A ranking or a ratio, such as F1, is no mean of losses: loss='roc_auc' and "
            "loss='balanced_accuracy' compare with training rows, and docs/tutorials/sklearn.md has other losses"
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
    loss: type_aliases.Loss | Loss, estimator: Estimator, inputs: Rows, targets: Targets, *, spare: bool = False
) -> np.ndarray:
    """Losses ``(n,)`` of a fitted estimator's predictions. No record can raise, warn, or change another record's loss.

    Args:
      loss: the name of a loss, a function, or a loss ``beside`` other rows.
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
    loss: type_aliases.Loss | Loss,
    estimator: Estimator,
    inputs: Rows,
    targets: Targets,
    rows: np.ndarray,
    spare: int | None,
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
    loss: type_aliases.Loss | Loss, estimator: Estimator, inputs: Rows, targets: Targets, rows: np.ndarray
) -> np.ndarray | None:
    """Losses of some rows, silenced; None if the estimator or the loss raises, or the losses have another shape."""

    def predict() -> np.ndarray:
        return _losses(loss, estimator, _safe_indexing(inputs, rows), _take(targets, rows))

    losses: Any = silence.attempt(predict)
    return None if isinstance(losses, silence.Failed) or losses.shape != rows.shape else losses


def _take(targets: Targets, rows: np.ndarray) -> Targets:
    return None if targets is None else _safe_indexing(targets, rows)


def _losses(loss: type_aliases.Loss | Loss, estimator: Estimator, inputs: Rows, targets: Targets) -> np.ndarray:
    if callable(loss):
        return user_values.to_numbers(loss(estimator, inputs, targets), (_rows(inputs),)).astype(float)
    if targets is None:
        raise ValueError(f"y must be given for loss={loss!r}")
    chosen = LOSSES[loss] if isinstance(loss, str) else loss
    return np.asarray(chosen.compare(estimator, np.asarray(targets), _respond(chosen, estimator, inputs)), float)


def _respond(loss: Loss, estimator: Any, inputs: Rows) -> np.ndarray:
    name = next((name for name in loss.responses if hasattr(estimator, name)), loss.responses[0])
    return np.asarray(getattr(estimator, name)(inputs))


def _rows(inputs: Any) -> int:
    return inputs.shape[0] if hasattr(inputs, "shape") else len(inputs)

"""The objectives of a search: fit an estimator to some rows and measure its losses on others."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, column_or_1d

from jaxdpbo import cells, separable, silence
from jaxdpbo.integrations.sklearn import losses, splits, type_aliases
from jaxdpbo.integrations.sklearn.type_aliases import Estimator, Rows, Targets
from jaxdpbo.noise import private_mean


class ValidationTask(NamedTuple):
    """Training rows (NOT protected) and validation rows.

    Attributes:
      training: ``X`` and ``y``.
      validation: ``X`` and ``y``. No label changes the type of another label. The last row is a training row, and
        replaces a validation row if the estimator cannot predict the validation row.
      split: the split, with the user of each row.
      fit_params: the parameters of ``fit`` for the training rows.
      beside: ``X`` and ``y`` of the training rows that a record is compared with, see ``losses.beside``: those fitted
        to, or for a ranking a third of all, held out, since a model ranks the rows that it was fitted to too well.
    """

    training: tuple[Rows, Targets]
    validation: tuple[Rows, Targets]
    split: splits.ValidationSplit
    fit_params: dict[str, Any]
    beside: tuple[Rows, Targets]

    def public_identity(self) -> dict[str, Any]:
        """What a run on record is bound to: the columns, and which rows train, measure and belong together."""
        return {"columns": _columns_of(self.training[0]), "rows": tuple(self.split)}


def validation_task(
    inputs: Rows, targets: Targets, split: splits.ValidationSplit, fit_params: dict[str, Any], loss: type_aliases.Loss
) -> ValidationTask:
    """Take the rows of a split, for a loss."""
    fitted = compared = split.train
    if loss == losses.RANKED:
        apart = splits.split_training_rows(split)
        fitted, compared = apart.train, apart.validation
    training = take_rows(inputs, targets, fitted, isinstance(loss, str))
    like = training[0]
    # the training row at the end replaces a validation row that the estimator cannot predict
    measured = np.append(split.validation, split.train[0])
    return ValidationTask(
        training,
        (_with_levels(_safe_indexing(inputs, measured), like), losses.elements(targets, measured)),
        split,
        _check_method_params(inputs, fit_params, fitted),
        (
            like if compared is fitted else _with_levels(take_rows(inputs, None, compared, column=False)[0], like),
            losses.elements(targets, compared),
        ),
    )


class UserLosses(NamedTuple):
    """The picklable objective ``(params, rows) -> losses (n,)`` of the users."""

    estimator: Estimator
    loss: type_aliases.Loss
    raises: bool

    def __call__(self, params: dict[str, Any], data: ValidationTask) -> np.ndarray:
        """The losses of the users; infinite for all users if the fit fails."""
        try:
            model = self.fit_clone(params, data)
            loss = losses.beside(self.loss, model, *data.beside)
        except Exception:
            if self.raises:
                raise
            return np.full(data.split.users, np.inf)
        return data.split.user_losses(losses.record_losses(loss, model, *data.validation, spare=True))

    def public_identity(self) -> dict[str, Any]:
        """What a run on record is bound to beside the code: the name of a loss of the library."""
        return {"loss": self.loss} if isinstance(self.loss, str) else {}

    def fit_clone(self, params: dict[str, Any], data: ValidationTask) -> Estimator:
        """Fit a clone with these parameters to the training rows."""
        return clone_with_params(self.estimator, params).fit(*data.training, **data.fit_params)


class BlockLoss(NamedTuple):
    """The learner ``(params, training rows, held-out rows) -> mean loss`` of ``blocks``.

    Each record's loss is clipped to ``loss_range``; one that is not finite counts as the upper end. None clips nothing.
    A score that is no mean of losses compares the held-out rows among each other: they are of one user.
    """

    estimator: Estimator
    loss: type_aliases.Loss
    loss_range: tuple[float, float] | None

    def __call__(self, params: dict[str, Any], train: "TakenRows", held_out: "TakenRows") -> float:
        """The mean loss of the held-out rows; ``blocks`` catches exceptions of the fit."""
        model = clone_with_params(self.estimator, params).fit(train.rows, train.targets, **train.fit_params)
        rows = _with_levels(held_out.rows, train.rows)
        loss = silence.attempt(losses.beside, self.loss, model, rows, held_out.elements)
        if isinstance(loss, silence.Failed):
            return np.nan
        values = losses.record_losses(loss, model, rows, held_out.elements)
        ends = loss.range if isinstance(loss, losses.Loss) else self.loss_range
        return float(np.mean(values if ends is None else private_mean.clip_losses(values, *ends)))

    def public_identity(self) -> dict[str, Any]:
        """What a run on record is bound to beside the code: the name of a loss of the library."""
        return {"loss": self.loss} if isinstance(self.loss, str) else {}


class TakenRows(NamedTuple):
    """Some rows, with ``targets`` for ``fit`` and ``elements``, the same targets as separate labels."""

    rows: Rows
    targets: Targets
    elements: Targets
    fit_params: dict[str, Any]


class RowTask(NamedTuple):
    """All rows, as passed to ``fit``."""

    rows: Rows
    targets: Targets
    fit_params: dict[str, Any]
    column: bool

    def public_identity(self) -> dict[str, Any]:
        """What a run on record is bound to: the columns."""
        return {"columns": _columns_of(self.rows)}

    def take(self, numbers: np.ndarray) -> TakenRows:
        """The rows of these numbers."""
        rows, targets = take_rows(self.rows, self.targets, numbers, self.column)
        of_rows = _check_method_params(self.rows, self.fit_params, numbers)
        return TakenRows(rows, targets, losses.elements(self.targets, numbers), of_rows)


def _columns_of(rows: Any) -> tuple[Any, ...]:
    """The public columns of ``X``: their names in a frame, or else their number, if it has one."""
    if hasattr(rows, "columns"):
        return "names", [str(name) for name in rows.columns]
    return ("number", *rows.shape[1:2]) if hasattr(rows, "shape") else ()


def blocks_objective(learner: BlockLoss, rows: int, k: int, groups: Any, *, raises: bool) -> separable.Blocks:
    """The objective over ``rows`` rows cut into ``k`` blocks."""
    on_error = "raise" if raises else "worst"
    return separable.blocks(learner, rows, k, groups=groups, on_error=on_error, take=RowTask.take)


def take_rows(inputs: Rows, targets: Targets, rows: np.ndarray, column: bool) -> tuple[Rows, Targets]:
    """``X`` and ``y`` of some rows, with the dtype of these rows alone; with ``column``, ``y`` is flattened."""
    taken: Any = _safe_indexing(inputs, rows)
    if hasattr(taken, "infer_objects"):  # a frame
        taken = _with_levels(taken.infer_objects())
    if targets is None:
        return taken, None
    found: Any = _own_type(_safe_indexing(targets, rows))
    return taken, column_or_1d(found, warn=True) if column else found


def _with_levels(taken: Any, like: Any = None) -> Any:
    """A frame of pandas with the levels of its categories that occur, or those of the rows that the model is fitted to.

    A reader may have listed the categories by the cells, and every row of a frame has the list. So a category of a
    user would be a feature of a model of other rows, and change the codes of theirs.
    """
    dtypes = getattr(taken, "dtypes", None)
    if not hasattr(taken, "isetitem") or dtypes is None:
        return taken
    taken = taken.copy(deep=False)
    for place, dtype in enumerate(dtypes):
        if getattr(dtype, "name", "") == "category":
            column = taken.iloc[:, place].cat
            levels = None if like is None else like.dtypes.iloc[place].categories
            taken.isetitem(place, column.remove_unused_categories() if like is None else column.set_categories(levels))
    return taken


def expect_one_kind(targets: Any, rows: np.ndarray) -> None:
    """Raise ValueError if labels of training rows are text and others are not.

    An estimator would read all as text, and a number among the labels of users would be wrong in silence.
    """
    taken = np.zeros(0) if targets is None else _safe_indexing(targets, rows)
    objects = getattr(getattr(taken, "dtype", None), "kind", "O") == "O" and np.ndim(taken) == 1
    if objects and len({isinstance(label, (str, bytes)) for label in taken}) > 1:
        raise ValueError("y must not mix text with numbers or missing values in the training rows")


def _own_type(targets: Any) -> Any:
    """Convert targets to the type of these rows alone, independent of other rows.

    Objects get the type of these rows, and texts their length. Whole numbers become integers. Otherwise a label of .5
    in another row would turn these into floats, and an estimator shows the type of its classes.
    """
    kind = getattr(getattr(targets, "dtype", None), "kind", "")
    if kind in "OUS" and kind:
        return targets.tolist()
    if kind == "f" and hasattr(targets, "to_numpy"):  # a column of pandas: its methods take other arguments
        targets = cells.real_numbers(targets)
    if kind == "f" and np.all(np.isfinite(targets)) and np.all(targets == np.rint(targets)):
        largest = np.max(np.abs(targets), initial=0)
        return targets.astype(np.int64) if largest < 2**53 else targets
    return targets


def clone_with_params(estimator: Estimator, params: dict[str, Any]) -> Estimator:
    """Clone an estimator and set clones of parameters: a fit to users' rows must not reach an object of a release."""
    model: Any = clone(estimator)
    return model.set_params(**{name: clone(value, safe=False) for name, value in params.items()})

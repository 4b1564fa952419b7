"""What a search evaluates: an estimator with some parameters, fitted to some rows, by its losses of others."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, column_or_1d

from jaxdpbo.integrations.sklearn import losses, splits, type_aliases
from jaxdpbo.integrations.sklearn.type_aliases import Estimator, Rows, Targets
from jaxdpbo.privacy import separable


class HeldOut(NamedTuple):
    """Training rows, which are not protected, and validation rows.

    Attributes:
      training: ``X`` and ``y``.
      validation: ``X`` and ``y``, of which every label is its own: no other's type follows from it. The last row is
        one that trains: it takes the place of a validation row that cannot be predicted.
      split: which of them are whose.
      fit_params: of the training rows.
    """

    training: tuple[Rows, Targets]
    validation: tuple[Rows, Targets]
    split: splits.Split
    fit_params: dict[str, Any]


class UserLosses(NamedTuple):
    """``(params, rows) -> losses (n,)`` of the users; a name and numbers, so that processes can be given it."""

    estimator: Estimator
    loss: type_aliases.Loss
    raises: bool

    def __call__(self, params: dict[str, Any], data: HeldOut) -> np.ndarray:
        """Those of a fit that fails are the largest, whatever the range."""
        try:
            model = self.fit_clone(params, data)
        except Exception:
            if self.raises:
                raise
            return np.full(data.split.users, np.inf)
        return data.split.user_losses(losses.record_losses(self.loss, model, *data.validation, spare=True))

    def fit_clone(self, params: dict[str, Any], data: HeldOut) -> Estimator:
        """A clone with these parameters, fitted to the training rows."""
        return clone_with_params(self.estimator, params).fit(*data.training, **data.fit_params)


class BlockLoss(NamedTuple):
    """``(params, training rows, held-out rows) -> mean loss``, a learner of ``blocks``.

    ``loss_range`` clips the loss of a record, and one that is no number counts as its middle; None clips nothing.
    """

    estimator: Estimator
    loss: type_aliases.Loss
    loss_range: tuple[float, float] | None

    def __call__(self, params: dict[str, Any], train: "TakenRows", held_out: "TakenRows") -> float:
        """Whatever a fit raises, ``blocks`` catches."""
        model = clone_with_params(self.estimator, params).fit(train.rows, train.targets, **train.fit_params)
        found = losses.record_losses(self.loss, model, held_out.rows, held_out.elements)
        if self.loss_range is None:
            return float(np.mean(found))
        return float(np.mean(np.clip(np.where(np.isnan(found), np.mean(self.loss_range), found), *self.loss_range)))


class TakenRows(NamedTuple):
    """Some rows: with targets to fit to, and one by one."""

    rows: Rows
    targets: Targets
    elements: Targets
    fit_params: dict[str, Any]


class All(NamedTuple):
    """All rows, as ``fit`` was given them."""

    rows: Rows
    targets: Targets
    fit_params: dict[str, Any]
    column: bool

    def take(self, numbers: np.ndarray) -> TakenRows:
        """Some of them."""
        rows, targets = take_rows(self.rows, self.targets, numbers, self.column)
        of_rows = _check_method_params(self.rows, self.fit_params, numbers)
        return TakenRows(rows, targets, losses.elements(self.targets, numbers), of_rows)


def blocks_objective(learner: BlockLoss, rows: int, k: int, groups: Any, *, raises: bool) -> separable.Blocks:
    """The objective of ``k`` blocks of ``rows`` rows."""
    on_error = "raise" if raises else "worst"
    return separable.blocks(learner, rows, k, groups=groups, on_error=on_error, take=All.take)


def take_rows(inputs: Rows, targets: Targets, rows: np.ndarray, column: bool) -> tuple[Rows, Targets]:
    """``X`` and ``y`` of some rows, a ``y`` of one ``column`` flat; objects get the type that these rows alone need."""
    taken: Any = _safe_indexing(inputs, rows)
    if hasattr(taken, "infer_objects"):  # a frame
        taken = taken.infer_objects()
    if targets is None:
        return taken, None
    found: Any = _own_type(_safe_indexing(targets, rows))
    return taken, column_or_1d(found, warn=True) if column else found


def _own_type(targets: Any) -> Any:
    """Targets of the type that they alone need, not the one that other rows beside them needed.

    Objects get the type of these rows, and texts their length. Whole numbers are integers: beside one label of .5 they
    would be floats, and an estimator shows the type of its classes.
    """
    kind = getattr(getattr(targets, "dtype", None), "kind", "")
    if kind in "OUS" and kind:
        return targets.tolist()
    if kind == "f" and np.all(np.isfinite(targets)) and np.all(targets == np.rint(targets)):
        largest = np.max(np.abs(targets), initial=0)
        return targets.astype(np.int64) if largest < 2**53 else targets
    return targets


def clone_with_params(estimator: Estimator, params: dict[str, Any]) -> Estimator:
    """A clone with these parameters."""
    model: Any = clone(estimator)
    return model.set_params(**params)

"""Suggest the parameters of a ``Space`` to Optuna by their labels: define-by-run, so that a branch adds its own.

A trial has a parameter for each coordinate that exists, under the coordinate's name (``model.svm.C``), since Optuna
wants one distribution for a name. The losses get the parameters by their own names, with the caller's objects.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from optuna.trial import Trial

from jaxdpbo import space as spaces
from jaxdpbo.space import AnyDimension, Branches, Categorical, Integer, Space


def suggest(space: Space, trial: Trial) -> dict[str, Any]:
    """Suggest a label or number for each coordinate that exists, by the coordinate's name."""
    named = dict[str, Any]()

    def decide(axis: int) -> Any:
        name, dimension = space.names[axis], space.dimensions[axis]
        named[name] = _suggest(trial, name, dimension)
        return _row(name, dimension, named[name])

    space.decide(decide)
    return named


def params(space: Space, named: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that were suggested under these names."""
    return space.decide(lambda axis: _row(space.names[axis], space.dimensions[axis], named[space.names[axis]]))


class OfSpace(NamedTuple):
    """The losses of what ``suggest`` returns; workers of an engine load a copy."""

    space: Space
    losses: Callable[[dict[str, Any], Any], Any]

    def __call__(self, named: Mapping[str, Any], data: Any) -> Any:
        """The losses of the parameters, with copies of objects: what a loss writes into one stays out of a release."""
        return self.losses(spaces.copy_objects(params(self.space, named)), data)


def _suggest(trial: Trial, name: str, dimension: AnyDimension) -> Any:
    if isinstance(dimension, (Branches, Categorical)):
        return trial.suggest_categorical(name, dimension.labels)
    if isinstance(dimension, Integer):
        return trial.suggest_int(name, dimension.low, dimension.high, log=dimension.log)
    return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)


def _row(name: str, dimension: AnyDimension, label: Any) -> Any:
    """The row of a label; a number as it is."""
    if isinstance(dimension, Categorical):
        return dimension.row_of(name, label)
    return dimension.labels.index(label) if isinstance(dimension, Branches) else label

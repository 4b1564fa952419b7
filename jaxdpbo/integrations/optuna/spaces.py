"""Suggest the parameters of a ``Space`` to Optuna by their labels: define-by-run, so that a branch adds its own.

A trial has a parameter for each coordinate that exists, under the coordinate's name (``model.svm.C``), since Optuna
wants one distribution for a name. The losses get the parameters by their own names, with the caller's objects.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from optuna.trial import FrozenTrial, Trial

from jaxdpbo import space as spaces
from jaxdpbo.drivers import recorded_run
from jaxdpbo.space import AnyDimension, Branches, Categorical, Integer, Space

EVALUATED = "jaxdpbo:evaluated"  # attribute of a trial: the parameters that its losses get


def suggest(space: Space, trial: Trial) -> dict[str, Any]:
    """Suggest a label or number for each coordinate that exists, by the coordinate's name.

    In a space with constraints or ``feasible`` an attribute of the trial says where its losses are evaluated.
    """
    named = dict[str, Any]()

    def decide(axis: int) -> Any:
        name, dimension = space.names[axis], space.dimensions[axis]
        named[name] = _suggest(trial, name, dimension)
        return _row(name, dimension, named[name])

    found = space.decide(decide)
    if space.constraints or space.feasible is not None:
        trial.set_user_attr(EVALUATED, _name(space, found))
    return named


def evaluated(trial: FrozenTrial) -> dict[str, Any]:
    """The parameters of a trial by its own names, as they were evaluated."""
    return dict(trial.user_attrs.get(EVALUATED, trial.params))


def _name(space: Space, params: dict[str, Any]) -> dict[str, Any]:
    """Labels and numbers of parameters by the names of their coordinates."""
    place, named = space.point(params), dict[str, Any]()

    def note(axis: int) -> Any:
        name, dimension = space.names[axis], space.dimensions[axis]
        value = dimension.decode(place[axis], np)
        labelled = isinstance(dimension, (Branches, Categorical))
        named[name] = dimension.labels[int(value)] if labelled else dimension.plain(value)
        return value

    space.decide(note)
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

    def public_identity(self) -> dict[str, Any]:
        """What a run on record is bound to beside the code: that of the losses."""
        return recorded_run.identify_loss(self.losses)


def expect_different(space: Space) -> None:
    """Raise ValueError for choices that are equal in Python, such as 1 and 1.0: Optuna would record the first."""
    for name, dimension in zip(space.names, space.dimensions, strict=True):
        labels = dimension.labels if isinstance(dimension, Categorical) else ()
        if len(set(labels)) < len(labels):
            raise ValueError(
                f"the choices of {name!r} must differ for Optuna, to which 1, 1.0 and True are one choice: name them, "
                f"as in space.categorical(one=1, all=1.0), got {labels!r}"
            )


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

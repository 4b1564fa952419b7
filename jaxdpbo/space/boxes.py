"""The bounds of a search in any spelling: a box, or a ``Space`` with its unit box."""

from collections.abc import Mapping
from typing import Any, TypeGuard, cast

from jaxdpbo import checks
from jaxdpbo.checks import Unchecked
from jaxdpbo.space.dimensions import Integer, Real
from jaxdpbo.space.named_space import Space, copy_objects, is_list_of_dicts
from jaxdpbo.space.trees import AnyDimension
from jaxdpbo.types import ArrayLike

ENDS = {"low", "high", "lower", "upper", "lb", "ub", "min", "max"}  # names of the ends of a box, in any spelling


def _is_named_box(bounds: Mapping[Any, Any]) -> bool:
    """True if a dict names the ends of a box, and no value is a dimension."""
    return ENDS.issuperset(bounds) and not any(
        isinstance(value, AnyDimension) or hasattr(value, "dist") for value in bounds.values()
    )


def is_named(bounds: Unchecked) -> TypeGuard[Any]:
    """True for a ``Space``, and for dimensions in another spelling of one; False for a box."""
    by_name = isinstance(bounds, Mapping) and not _is_named_box(bounds)
    return by_name or isinstance(bounds, Space) or is_list_of_dicts(bounds)


def box(bounds: Unchecked, space: Unchecked = None) -> tuple[Any, Space | None]:
    """Bounds for ``checks.box``, and the space with these bounds as unit box: ``bounds``, ``space``, or None.

    A dict of dimensions is a ``Space``; a dict of low and high is a box.

    Raises:
      TypeError: ``space`` is no ``Space``.
    """
    if is_named(bounds) and not isinstance(bounds, Space):
        bounds = Space(cast(Any, bounds))
    if isinstance(bounds, Space):
        for name, dimension in bounds._items():
            if isinstance(dimension, (Real, Integer)) and dimension.text is not None:
                raise ValueError(f"{name} must have no decimal, thousands or unit, which are for columns of a table")
        return checks.low_high(bounds.bounds), bounds
    if not isinstance(space, Space | None):
        raise TypeError(f"space must be a Space, got {type(space).__name__}")
    return bounds, space


def place(space: Space | None, point: ArrayLike) -> Any:
    """The argument of an objective: ``point (d,)``, or the parameters at the point.

    Objects among them are copies: what a loss writes into one, such as a fit to users' records, must not reach the
    release, which holds the caller's object.
    """
    return point if space is None else copy_objects(space.params(point))

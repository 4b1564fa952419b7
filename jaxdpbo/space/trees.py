"""Branches of a search, which decide which parameters exist, and the coordinates of a tree of them.

The box has a coordinate for each parameter of every branch, so its size is public and tells nothing. A coordinate of
another branch is ignored, and counts as 0.5 wherever points are compared. The parameters that a release holds follow
from its branch: the branch is a coordinate of the released point, chosen by the same mechanism as the others, and the
guarantee of the point covers it.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks
from jaxdpbo.checks import Unchecked
from jaxdpbo.space.dimensions import (
    CONDITIONAL,
    Categorical,
    Coordinate,
    Dimension,
    Searched,
    categorical,
    integer,
    one_choice,
    real,
)

SPELLINGS = (
    "real(low, high), integer(low, high), categorical(...), branches({...}), a list of choices, or a frozen uniform, "
    "loguniform or randint of scipy.stats"
)
ROOT = "branch"  # the coordinate of a list of dicts, no parameter


@dataclass(frozen=True, repr=False)
class Branches(Searched):
    """One of several sets of parameters; made by ``branches``.

    Attributes:
      labels: the name of each branch, which is the value of the parameter.
      inside: the dimensions of each branch, by name; a ``Categorical`` of one choice is a fixed value.
      weights: the length of each branch's interval; 1 together.
    """

    labels: tuple[str, ...]
    inside: "tuple[tuple[tuple[str, Dimension | Branches], ...], ...]"
    weights: tuple[float, ...]

    def __repr__(self) -> str:
        """Show the branches with their dimensions."""
        return f"branches({ {label: dict(inside) for label, inside in zip(self.labels, self.inside, strict=True)} })"

    @property
    def count(self) -> int:
        """The number of branches."""
        return len(self.labels)

    def decode(self, place: Coordinate, library: ModuleType) -> Any:
        """The row of the branch at a coordinate; ``library`` is ``numpy`` or ``jax.numpy``."""
        return self.row_at(place, library)

    def row_at(self, place: Coordinate, library: ModuleType) -> Any:
        """The row of the branch at a coordinate."""
        ends = np.cumsum(self.weights)[:-1].tolist()
        return sum(library.where(place >= end, 1, 0) for end in ends)

    def middle(self, row: Any, library: ModuleType) -> Any:
        """The middle of the intervals of some rows."""
        ends = np.cumsum(self.weights)
        return library.take(library.asarray(ends - np.array(self.weights) / 2), row)

    def encode(self, name: str, value: Unchecked) -> float:
        """The middle of the branch's interval."""
        if value not in self.labels or not isinstance(value, str):
            raise ValueError(f"{name} must be one of {', '.join(map(repr, self.labels))}, got {value!r}")
        return float(self.middle(self.labels.index(value), np))

    def plain(self, value: Coordinate) -> str:
        """The name of this branch."""
        return self.labels[int(value)]


AnyDimension = Dimension | Branches


def branches(parameters: Mapping[str, Mapping[str, Any]], *, weights: Mapping[str, float] | None = None) -> Branches:
    """Make a dimension that decides which parameters exist: a dict of dimensions for each name, perhaps empty.

    >>> from jaxdpbo import Space, space
    >>> svm, forest = {"C": space.real(0.1, 10, log=True)}, {"depth": space.integer(1, 9), "leaves": [8, 64]}
    >>> tree = Space({"model": space.branches({"svm": svm, "forest": forest})})
    >>> tree.params([0.1, 1.0, 0.5, 0.5]), tree.params([0.9, 1.0, 0.5, 0.9])
    ({'model': 'svm', 'C': 10.0}, {'model': 'forest', 'depth': 5, 'leaves': 64})
    >>> tree.names
    ('model', 'model.svm.C', 'model.forest.depth', 'model.forest.leaves')

    A list of one choice is a fixed value of its branch, without a coordinate. Branches may hold branches, and two
    branches may have parameters of one name, with ranges of their own.

    Args:
      parameters: dimensions by name, for each branch by name.
      weights: the share of a design's points for each branch, any positive numbers; by default one more than the number
        of the branch's coordinates, since a branch without parameters is known after one evaluation.

    Raises:
      ValueError: fewer than two branches, a name that is there twice, or weights that are not positive, one a branch.
      TypeError: no dicts by name, or another spelling of a dimension.
    """
    if not isinstance(parameters, Mapping) or not all(isinstance(name, str) for name in parameters):
        raise TypeError(f"branches must be a dict of names, got {type(parameters).__name__}")
    if len(parameters) < 2:
        raise ValueError(f"branches must be two or more, got {list(parameters)}")
    return make_branches(list(parameters), list(parameters.values()), weights)


def make_branches(labels: Sequence[str], parameters: Sequence[Any], weights: Mapping[str, float] | None) -> Branches:
    """Make the branches of these labels, see ``branches``."""
    inside = tuple(
        tuple((name, make_dimension(name, value, fixed=True)) for name, value in check_names(f"branch {label!r}", own))
        for label, own in zip(labels, parameters, strict=True)
    )
    if weights is not None and (not isinstance(weights, Mapping) or set(weights) != set(labels)):
        raise ValueError(f"weights must be a dict of {', '.join(map(repr, labels))}, got {weights!r}")
    by_row = [
        1.0 + len(flatten(own)[0]) if weights is None else checks.positive(f"weights[{label!r}]", weights[label])
        for label, own in zip(labels, inside, strict=True)
    ]
    return Branches(tuple(labels), inside, tuple(weight / sum(by_row) for weight in by_row))


def check_names(what: str, dimensions: Any) -> list[tuple[str, Any]]:
    """The items of a dict by names of text; a TypeError for anything else."""
    if not isinstance(dimensions, Mapping):
        raise TypeError(f"{what} must be a dict of names, got {type(dimensions).__name__}")
    for name in dimensions:
        if not isinstance(name, str):
            raise TypeError(f"names must be text, got {name!r}")
    return list(dimensions.items())


class Axis(NamedTuple):
    """A coordinate: its ``name`` and that of the parameter, and the axis and row of the branch that it exists in."""

    name: str
    parameter: str | None
    dimension: AnyDimension
    parent: tuple[int, int] | None


class Fixed(NamedTuple):
    """A parameter without a coordinate, of one choice, with the axis and row of its branch."""

    parameter: str
    dimension: Categorical
    parent: tuple[int, int] | None


def flatten(
    items: Sequence[tuple[str, AnyDimension]], prefix: str = "", parent: tuple[int, int] | None = None, start: int = 0
) -> tuple[list[Axis], list[Fixed]]:
    """The coordinates and the fixed values of dimensions by name, in branches and outside; axes count from ``start``.

    Raises:
      ValueError: two parameters of one name may exist together.
    """
    axes, fixed = list[Axis](), list[Fixed]()
    for key, dimension in items:
        if isinstance(dimension, Categorical) and dimension.count == 1:
            fixed.append(Fixed(key, dimension, parent))
            continue
        at = start + len(axes)
        axes.append(Axis(prefix + key, key, dimension, parent))
        if isinstance(dimension, Branches):
            for row, (label, inside) in enumerate(zip(dimension.labels, dimension.inside, strict=True)):
                found = flatten(inside, f"{prefix}{key}.{label}.", (at, row), start + len(axes))
                axes, fixed = axes + found[0], fixed + found[1]
    together = Counter(key for item in items for key in _keys(*item))
    if twice := [key for key, count in together.items() if count > 1]:
        raise ValueError(f"{prefix}{twice[0]}: two parameters of one name must be in different branches of one name")
    return axes, fixed


def _keys(key: str, dimension: AnyDimension) -> list[str]:
    """The name of a dimension, and each name in its branches once."""
    rows = dimension.inside if isinstance(dimension, Branches) else ()
    return [key, *{inner for inside in rows for item in inside for inner in _keys(*item)}]


def is_in(parent: tuple[int, int] | None, chosen: Mapping[int, int]) -> bool:
    """Say if a parameter exists: without a ``parent``, or if ``chosen`` has the parent's row at the parent's axis."""
    return parent is None or chosen.get(parent[0]) == parent[1]


KINDS = {"real": real, "integer": integer}


def read_tables(tables: Mapping[str, Any], prefix: str = "") -> dict[str, AnyDimension]:
    """Dimensions from a table for each, as TOML and JSON hold them, with a prefix before each name.

    A table has ``type``, "real", "integer", "categorical" or "branches", and the arguments of the function of this
    name: low, high, log; choices; branches, tables of such tables.

    Raises:
      ValueError, TypeError: of these functions.
    """
    searched: dict[str, AnyDimension] = {}
    for name, table in tables.items():
        rest = dict(table) if isinstance(table, dict) else {}
        kind = checks.one_of(f"type of {name}", rest.pop("type", None), (*KINDS, "categorical", "branches"))
        if kind == "branches":
            inside = {label: read_tables(own, prefix) for label, own in rest.pop("branches", {}).items()}
            searched[prefix + name] = branches(inside, **rest)
        else:
            choices = rest.pop("choices", ())
            searched[prefix + name] = categorical(*choices) if kind == "categorical" else KINDS[kind](**rest)
    return searched


def make_dimension(name: str, value: Any, *, fixed: bool = False) -> AnyDimension:
    """Convert any of ``SPELLINGS`` to a dimension; a list of one is a ``fixed`` value, if there may be any."""
    if isinstance(value, AnyDimension):
        return value
    try:
        if isinstance(value, list):
            if fixed and len(value) == 1:
                return one_choice(value[0])
            return categorical(*value)
        if (dimension := _from_scipy(value)) is not None:
            return dimension
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if isinstance(value, (Searched, Mapping)) or (callable(value) and not hasattr(value, "rvs")):
        raise TypeError(f"{name}: {CONDITIONAL}")
    pair = isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, (int, float)) for end in value)
    typed = f": type space.real{value}, or space.integer{value} for whole numbers" if pair else ""
    raise TypeError(f"{name} must be {SPELLINGS}, got {value!r}{typed}")


def _from_scipy(value: Any) -> Dimension | None:
    """The dimension of a frozen distribution, recognised by SciPy's class and not by name; None for other values."""
    kind = getattr(value, "dist", None)
    if not type(kind).__module__.startswith("scipy.stats"):
        return None
    from scipy import stats  # imported already

    low, high = value.support()
    if type(kind) is type(stats.uniform):
        return real(low, high)
    if type(kind) is type(stats.randint):
        return integer(low, high)
    if type(kind) is not type(stats.loguniform):
        return None
    dimension = real(low, high, log=True)
    if not math.isclose(value.median(), math.sqrt(dimension.low * dimension.high)):
        raise ValueError("loguniform must have loc=0, for a uniform logarithm")
    return dimension

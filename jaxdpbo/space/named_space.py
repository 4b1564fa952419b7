"""A space of named dimensions, and its unit box for algorithms.

``Space`` converts points of ``[0, 1]^d`` to parameters by name, and back. Every coordinate has a dimension: real
numbers are spread over it, evenly or in their logarithm; whole numbers and categories have an interval each, of equal
length unless ``log``.
"""

import copy
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import checks
from jaxdpbo.space import designs
from jaxdpbo.space.constraints import Linear, check_constraints
from jaxdpbo.space.dimensions import (
    Categorical,
    Dimension,
    Real,
    Scalar,
    Searched,
    encode_label,
    is_same_scalar,
    label_of,
    make_label,
    snap_column,
)
from jaxdpbo.space.trees import (
    ROOT,
    AnyDimension,
    Axis,
    Branches,
    Fixed,
    check_names,
    flatten,
    is_in,
    make_branches,
    make_dimension,
)
from jaxdpbo.types import ArrayLike

SEARCHES = (
    "give method='in_order', 'choice', 'evaluations', 'start_then_local' or public records for a space with branches, "
    "or descend in the space of one branch"
)
NO_TRACE = "so JAX cannot trace the loss: leave traceable as it is, or give traceable=False"
NOT_TRACED = f"a space with branches has no fixed set of parameters, {NO_TRACE}"
FEASIBLE_NOT_TRACED = f"feasible is a function of Python, {NO_TRACE}"
NOWHERE = -1.0  # no category's coordinate
TRIED, LEAST_ALLOWED = 2**10, 10  # points of a design for those that are not feasible
MOST_LEFT_OUT = 16  # points of a sequence for each of a design that meets constraints


class Params(dict[str, Any]):
    """Parameters with objects among them, printed by their ``labels``, which JSON and records hold."""

    labels: dict[str, Scalar]

    def __init__(self, params: Mapping[str, Any], labels: Mapping[str, Scalar]):
        """Keep both, under the same names."""
        super().__init__(params)
        self.labels = dict(labels)

    def __repr__(self) -> str:
        """Show the labels."""
        return repr(self.labels)


@dataclass(frozen=True, init=False, repr=False)
class Space(Searched):
    """Named dimensions; a point is ``(d,)`` in the unit box, in the order of the names.

    >>> from jaxdpbo import Space, space
    >>> searched = Space({"C": space.real(0.01, 100, log=True), "kernel": space.categorical("rbf", "poly")})
    >>> searched.params([0.0, 0.9])
    {'C': 0.01, 'kernel': 'poly'}

    A list means ``categorical(*list)``. A frozen distribution of scipy.stats gives its ends: ``uniform`` to a ``real``,
    ``loguniform`` to a ``real`` with ``log``, ``randint`` to an ``integer``.

    >>> Space({"depth": [2, 4, 8]}).dimensions
    (Categorical(choices=(2, 4, 8)),)

    A list of dicts means ``branches`` without a name, as in scikit-learn's grids. There a list of one choice is a fixed
    value.

    >>> grids = Space([{"kernel": ["rbf"], "gamma": space.real(0.1, 1)}, {"kernel": ["linear"]}])
    >>> grids.params([0.1, 1.0]), grids.params([0.9, 1.0])
    ({'gamma': 1.0, 'kernel': 'rbf'}, {'kernel': 'linear'})

    Attributes:
      names: of the coordinates; in a branch after the names of dimension and branch, such as ``model.svm.C``.
      dimensions: the dimensions, made by ``real``, ``integer``, ``categorical`` or ``branches``.
      keys: the names of the parameters; None for a choice among dicts of a list.
      parents: the axis and the row of the branch that a coordinate exists in; None outside of branches.
      fixed: the values without a coordinate.
      constraints: of ``linear``. A point that breaks one has the parameters nearest to it that do not.
      feasible: a function of the parameters, True where they may be used; None for everywhere. It is public, and so are
        all values that it uses; a record of a ledger holds their hash, so these must not change. A point where it is
        False, or raises, has the parameters of a design where it is True that are nearest: of the fewest other branches
        and categories, and then by distance.

    >>> deep = {"depth": space.integer(1, 9), "leaves": space.integer(2, 512)}
    >>> trees = Space(deep, feasible=lambda params: params["leaves"] <= 2 ** params["depth"])
    >>> trees.params([0.5, 0.05]), trees.meets([[0.5, 0.05], [0.0, 0.9]]).tolist()
    ({'depth': 5, 'leaves': 27}, [True, False])
    """

    names: tuple[str, ...]
    dimensions: tuple[AnyDimension, ...]
    keys: tuple[str | None, ...]
    parents: tuple[tuple[int, int] | None, ...]
    fixed: tuple[Fixed, ...]
    constraints: tuple[Linear, ...]
    feasible: Callable[[dict[str, Any]], bool] | None

    def __init__(
        self,
        dimensions: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        constraints: Sequence[Linear] = (),
        feasible: Callable[[dict[str, Any]], bool] | None = None,
    ):
        """Check the dimensions and constraints, and store them.

        Raises:
          TypeError: no mapping of text to dimensions, or another spelling of a dimension; another constraint; a
            ``feasible`` that is no function, or returns something else than True or False.
          ValueError: no dimensions; a list of fewer than two choices, a distribution with invalid ends; two parameters
            of one name that may exist together; constraints of a name in common, of names that are not real parameters
            of one branch, or that no parameters meet; a ``feasible`` that is almost nowhere True.
          Exception: any exception of ``feasible`` at a point of the design.
        """
        axes, fixed = _read_dimensions(dimensions)
        if not axes:
            raise ValueError("dimensions must be at least one")
        if twice := [name for name, count in Counter(axis.name for axis in axes).items() if count > 1]:
            raise ValueError(f"{twice[0]}: a name with dots must not be that of a parameter in a branch")
        for name, column in zip(("names", "keys", "dimensions", "parents"), zip(*axes, strict=True), strict=True):
            object.__setattr__(self, name, column)
        object.__setattr__(self, "fixed", tuple(fixed))
        check_constraints(constraints, axes)
        object.__setattr__(self, "constraints", tuple(constraints))
        object.__setattr__(self, "feasible", feasible)
        self._check_feasible()

    def __repr__(self) -> str:
        """Show the parameters with their branches, fixed values and constraints, as a person who signs reads them."""
        outside = [item for item, parent in zip(self._items(), self.parents, strict=True) if parent is None]
        parts = [f"{name}: {dimension!r}" for name, dimension in outside]
        parts += [f"{each.parameter} = {each.dimension.labels[0]!r}" for each in self.fixed if each.parent is None]
        parts += map(str, self.constraints)
        parts += [] if self.feasible is None else [f"feasible by {make_label(self.feasible, None)}"]
        return f"Space({'; '.join(parts)})"

    @property
    def bounds(self) -> np.ndarray:
        """The unit box ``(2, d)``."""
        return np.stack([np.zeros(len(self.names)), np.ones(len(self.names))])

    @property
    def real_axes(self) -> np.ndarray:
        """The mask ``(d,)`` of the real coordinates."""
        return np.array([dimension.count is None for dimension in self.dimensions])

    def real_at(self, point: jax.Array) -> jax.Array:
        """The mask ``(d,)`` of the real coordinates that exist at a point ``(d,)``, traceable.

        >>> import jax.numpy as jnp
        >>> from jaxdpbo import Space, space
        >>> tree = Space({"model": space.branches({"svm": {"C": space.real(0.1, 10)}, "mean": {}})})
        >>> tree.real_at(jnp.array([0.1, 0.3])).tolist(), tree.real_at(jnp.array([0.9, 0.3])).tolist()
        ([False, True], [False, False])
        """
        exist = [jnp.asarray(True) if here is None else here for here in self._exist(point, jnp)]
        return jnp.asarray(self.real_axes) & jnp.stack(exist)

    @property
    def most_real(self) -> int:
        """The most real coordinates that exist at any point."""

        def count(parent: tuple[int, int] | None) -> int:
            inside = [axis for axis, above in enumerate(self.parents) if above == parent]
            kinds = [(axis, self.dimensions[axis]) for axis in inside]
            most = [
                max(count((axis, row)) for row in range(of.count)) for axis, of in kinds if isinstance(of, Branches)
            ]
            return sum(isinstance(of, Real) for _, of in kinds) + sum(most)

        return count(None)

    @property
    def branched(self) -> bool:
        """Whether parameters exist in some branches alone."""
        return any(isinstance(dimension, Branches) for dimension in self.dimensions)

    def params(self, point: ArrayLike) -> dict[str, Any]:
        """The parameters that exist at a point ``(d,)``: Python scalars and your objects, or traced JAX scalars.

        With objects among the choices, the dict prints their labels.

        Raises:
          ValueError: a point of another shape, or not finite.
          TypeError: a point of non-numbers; a traced point with branches, ``feasible`` or categories beside numbers.
        """
        if isinstance(point, Tracer):
            if point.shape != (len(self.names),):
                raise ValueError(f"point must have shape ({len(self.names)},), got {point.shape}")
            if self.branched:
                raise TypeError(NOT_TRACED)
            if self.feasible is not None:
                raise TypeError(FEASIBLE_NOT_TRACED)
            inside = jnp.clip(point, 0.0, 1.0)
            values = {name: each.decode(inside[i], jnp) for i, (name, each) in enumerate(self._items())}
            return self._constrain(values, dict(self._items()), jnp)
        inside = np.clip(checks.vector("point", point, len(self.names)), 0.0, 1.0)
        return self.decide(lambda axis: self.dimensions[axis].decode(inside[axis], np))

    def decide(self, value_of: Callable[[int], Any]) -> dict[str, Any]:
        """The parameters that exist, by a function from an axis to a number, or to the row of a choice or branch.

        >>> from jaxdpbo import Space, space
        >>> tree = Space({"model": space.branches({"svm": {"C": space.real(0.1, 10)}, "mean": {}})})
        >>> tree.decide([0, 3.0].__getitem__), tree.decide([1, None].__getitem__)
        ({'model': 'svm', 'C': 3.0}, {'model': 'mean'})
        """
        params = self._decide(value_of)
        if self._is_feasible(params):
            return params
        root = int(value_of(0)) if self.keys[0] is None else 0
        return self._decide_at(self._nearest(self._place_in(params, _encode, root)))

    def _decide_at(self, place: np.ndarray) -> dict[str, Any]:
        """The parameters at a point ``(d,)`` of the box, without ``feasible``."""
        return self._decide(lambda axis: self.dimensions[axis].decode(place[axis], np))

    def _decide(self, value_of: Callable[[int], Any]) -> dict[str, Any]:
        """``decide`` without ``feasible``."""
        found = list(self._existing(value_of))
        dimensions = {key: dimension for key, dimension, _ in found}
        values = self._constrain({key: value for key, _, value in found}, dimensions, np)
        params = {key: dimension.plain(values[key]) for key, dimension in dimensions.items()}
        return _show_labels(params, {key: label_of(dimension, values[key]) for key, dimension in dimensions.items()})

    def point(self, params: Mapping[str, Any]) -> np.ndarray:
        """The point ``(d,)`` of parameters: all but real numbers are in the middle of their intervals.

        The coordinates of other branches are 0.5.

        Raises:
          ValueError: other names than those of the space, a value outside, or parameters that may not be used.
          TypeError: a value of the wrong type.
        """
        place = self._place(params, _encode)
        self._expect_feasible(dict(params))
        return place

    def to_labels(self, params: Mapping[str, Any]) -> dict[str, Scalar]:
        """The parameters with a label in place of each choice that is an object, for JSON.

        >>> from jaxdpbo import Space, space
        >>> layers = Space({"layers": space.categorical(small=(8, 8), large=(64, 64))})
        >>> layers.to_labels(layers.params([0.9]))
        {'layers': 'large'}

        Raises:
          ValueError: other names than those of the space, a value outside, or parameters that may not be used.
          TypeError: a value of the wrong type.
        """
        return {
            key: label_of(dimension, value) if isinstance(dimension, Categorical) else params[key]
            for key, dimension, value in self._existing_at(self.point(params))
        }

    def from_labels(self, labels: Mapping[str, Scalar]) -> dict[str, Any]:
        """Invert ``to_labels``.

        >>> from jaxdpbo import Space, space
        >>> layers = Space({"layers": space.categorical(small=(8, 8), large=(64, 64))})
        >>> layers.from_labels({"layers": "large"})["layers"]
        (64, 64)

        Raises:
          ValueError: other names than those of the space, no label of a choice, or parameters that may not be used.
          TypeError: a value of the wrong type.
        """
        place = self._place(labels, encode_label)
        params = {
            key: dimension.plain(value) if isinstance(dimension, Categorical) else labels[key]
            for key, dimension, value in self._existing_at(place)
        }
        self._expect_feasible(params)
        return _show_labels(params, labels)

    def snap(self, points: ArrayLike) -> np.ndarray:
        """Move whole numbers, categories and branches in points ``(..., d)`` to the middle of their intervals.

        The coordinates of other branches move to 0.5.

        Raises:
          ValueError: points of another number of coordinates, or not finite.
        """
        places = checks.reals("points", points)
        if not places.ndim or places.shape[-1] != len(self.names) or not np.all(np.isfinite(places)):
            raise ValueError(f"points must be finite, of shape (..., {len(self.names)}), got {places.shape}")
        snapped = self._snap(places)
        if self.feasible is None:
            return snapped
        rows = [self._nearest(row) if not feasible else row for row, feasible in self._with_feasibility(snapped)]
        return np.reshape(rows, snapped.shape)

    def _snap(self, places: np.ndarray) -> np.ndarray:
        """``snap`` without ``feasible``."""
        return self._impute(self._project(np.clip(places, 0.0, 1.0)), np, snap_column)

    def _project(self, places: np.ndarray) -> np.ndarray:
        """Points ``(..., d)`` moved to the nearest that meet the constraints."""
        moved = places.copy()
        for constraint in self.constraints:
            axes = {name: self.keys.index(name) for name in constraint.names}
            ranges = {name: cast(Real, self.dimensions[axis]) for name, axis in axes.items()}
            values = {name: ranges[name].decode(places[..., axis], np) for name, axis in axes.items()}
            projected = constraint.project(values, ranges, np)
            for name, axis in axes.items():
                moved[..., axis] = np.where(
                    projected[name] == values[name], places[..., axis], ranges[name].place(projected[name])
                )
        return moved

    @functools.cached_property
    def _allowed(self) -> np.ndarray:
        """Points ``(m, d)`` of a design where ``feasible`` is True, which stand for others where it is not."""
        points = self._snap(designs.sobol(TRIED, len(self.names), 0))
        return points[[self._ask_feasible(self._decide_at(point)) for point in points]]

    def _check_feasible(self) -> None:
        if self.feasible is None:
            return
        if not callable(self.feasible):
            raise TypeError(f"feasible must be a function of the parameters, got {type(self.feasible).__name__}")
        hash(self.feasible)  # a space is a static part of a config
        if len(self._allowed) < LEAST_ALLOWED:
            raise ValueError(
                f"feasible must be True at {LEAST_ALLOWED} of {TRIED} points of a design, got {len(self._allowed)}: "
                "give narrower ranges, or linear constraints"
            )

    def _with_feasibility(self, points: np.ndarray) -> Iterator[tuple[np.ndarray, bool]]:
        """Each point ``(d,)`` of points ``(..., d)``, and whether its parameters may be used."""
        for point in points.reshape(-1, len(self.names)):
            yield point, self._is_feasible(self._decide_at(point))

    def _is_feasible(self, params: dict[str, Any]) -> bool:
        """Whether parameters may be used: not where ``feasible`` raises, since a run may have been charged by then."""
        try:
            return self._ask_feasible(params)
        except Exception:
            return False

    def _ask_feasible(self, params: dict[str, Any]) -> bool:
        if self.feasible is None:
            return True
        answer = self.feasible(  # with copies, which it may write into: a caller's dict has no labels of objects
            {key: each if isinstance(each, Scalar) else copy.deepcopy(each) for key, each in params.items()}
        )
        if not isinstance(answer, (bool, np.bool_)):
            raise TypeError(f"feasible must return True or False, got {type(answer).__name__}")
        return bool(answer)

    def _nearest(self, place: np.ndarray) -> np.ndarray:
        """The point of the design that stands for a point where ``feasible`` is False."""
        unordered = [isinstance(dimension, (Branches, Categorical)) for dimension in self.dimensions]
        apart = np.square(self._allowed - place)
        apart[:, unordered] = len(self.names) * (apart[:, unordered] > 0)  # more than all other coordinates together
        return self._allowed[np.argmin(np.sum(apart, axis=1))]

    def _expect_feasible(self, params: dict[str, Any]) -> None:
        """Raise a ValueError for parameters that may not be used; named, since a value may be an object."""
        if not self._is_feasible(params):
            raise ValueError(f"params must be feasible, got {', '.join(map(repr, params))} where feasible is False")

    def _items(self) -> list[tuple[str, AnyDimension]]:
        return list(zip(self.names, self.dimensions, strict=True))

    def _existing_at(self, point: np.ndarray) -> Iterator[tuple[str, AnyDimension, Any]]:
        return self._existing(lambda axis: self.dimensions[axis].decode(point[axis], np))

    def _existing(self, value_of: Callable[[int], Any]) -> Iterator[tuple[str, AnyDimension, Any]]:
        """The name, the dimension and its value, of each parameter that exists by the values of the axes."""
        rows = dict[int, int]()
        for axis, (dimension, key, parent) in enumerate(zip(self.dimensions, self.keys, self.parents, strict=True)):
            if parent is not None and rows.get(parent[0]) != parent[1]:
                continue
            value = value_of(axis)
            if isinstance(dimension, Branches):
                rows[axis] = int(value)
            if key is not None:
                yield key, dimension, value
        for key, dimension, parent in self.fixed:
            if parent is None or rows.get(parent[0]) == parent[1]:
                yield key, dimension, 0

    def _place(self, values: Mapping[str, Any], encode: Callable[[AnyDimension, str, Any], float]) -> np.ndarray:
        """The point of values, by a function of dimension, name and value; of a list of dicts, the first that fits."""
        if not isinstance(values, Mapping):
            raise ValueError(f"params must be a dict of {self._join()}, got {type(values).__name__}")
        if self.keys[0] is not None:
            return self._place_in(values, encode, 0)
        refused: Exception | None = None
        for row in range(cast(Branches, self.dimensions[0]).count):
            try:
                return self._place_in(values, encode, row)
            except (TypeError, ValueError) as error:
                refused = error
        raise ValueError(f"params must fit one of the dicts of the space, the last says: {refused}")

    def _place_in(
        self, values: Mapping[str, Any], encode: Callable[[AnyDimension, str, Any], float], root: int
    ) -> np.ndarray:
        """``_place`` in one dict of a list, by its row ``root``."""
        point, rows, placed = np.full(len(self.names), 0.5), dict[int, int](), dict[str, AnyDimension]()
        refusal = ValueError(f"params must be a dict of {self._join()}, got {', '.join(map(repr, values)) or 'none'}")
        for axis, (name, dimension) in enumerate(self._items()):
            key = self.keys[axis]
            if not is_in(self.parents[axis], rows):
                continue
            if key is None:
                point[axis] = cast(Branches, dimension).middle(root, np)
            elif key in values:
                point[axis], placed[key] = encode(dimension, name, values[key]), dimension
            else:
                raise refusal
            if isinstance(dimension, Branches):
                rows[axis] = int(dimension.decode(point[axis], np))
        placed |= {key: dimension for key, dimension, parent in self.fixed if is_in(parent, rows)}
        if placed.keys() != values.keys():
            raise refusal
        for key, dimension, _ in self.fixed:
            if placed.get(key) is dimension:
                encode(dimension, key, values[key])
        self._expect_constraints(values, placed)
        return point

    def _expect_constraints(self, values: Mapping[str, Any], placed: Mapping[str, AnyDimension]) -> None:
        """Raise a ValueError for parameters that break a constraint of what exists."""
        for constraint in self.constraints:
            if constraint.is_of(placed) and not constraint.holds(values):
                ends = f"from {constraint.least:g} to {constraint.most:g}"
                raise ValueError(f"params must have a sum {ends} by {constraint}, got {constraint.sum(values):g}")

    def _constrain(self, values: dict[str, Any], dimensions: Mapping[str, Any], library: ModuleType) -> dict[str, Any]:
        """The nearest values that meet the constraints of the parameters that exist."""
        for constraint in self.constraints:
            if constraint.is_of({name: dimensions[name] for name in values}):
                values = values | constraint.project(values, dimensions, library)
        return values

    def meets(self, points: ArrayLike) -> np.ndarray:
        """A mask ``(...)`` of the points ``(..., d)`` that meet the constraints and are feasible, without a move.

        >>> from jaxdpbo import Space, space
        >>> share = space.real(0, 1)
        >>> mixed = Space({"a": share, "b": share}, constraints=[space.linear({"a": 1, "b": 1}, most=1)])
        >>> mixed.meets([[0.2, 0.3], [0.9, 0.9]]).tolist()
        [True, False]
        """
        places = np.clip(checks.reals("points", points), 0.0, 1.0)
        met, exist = np.ones(places.shape[:-1], bool), self._exist(places, np)
        for constraint in self.constraints:
            axes = {name: self.keys.index(name) for name in constraint.names}
            values = {name: self.dimensions[axis].decode(places[..., axis], np) for name, axis in axes.items()}
            here = exist[axes[constraint.names[0]]]
            met &= constraint.holds(values) | (False if here is None else ~here)
        if self.feasible is not None:
            met &= np.array([feasible for _, feasible in self._with_feasibility(places)], bool).reshape(met.shape)
        return met

    def _join(self) -> str:
        return ", ".join(map(repr, self.names))

    def _impute(self, points: Any, library: ModuleType, move: Callable[..., Any], nowhere: float = 0.5) -> Any:
        """Points with branches and categories in the middle of their intervals, and 0.5 for what does not exist.

        A branch or category that does not exist is ``nowhere``. ``move`` moves the column of another dimension, by
        dimension, name and column.
        """
        columns = []
        for axis, ((name, dimension), here) in enumerate(zip(self._items(), self._exist(points, library), strict=True)):
            column = points[..., axis]
            if isinstance(dimension, (Branches, Categorical)):
                column = dimension.middle(dimension.row_at(column, library), library).astype(column.dtype)
            else:
                column = move(dimension, name, column)
            absent = nowhere if isinstance(dimension, (Branches, Categorical)) else 0.5
            columns.append(column if here is None else library.where(here, column, absent))
        return library.stack(columns, axis=-1)

    def _exist(self, points: Any, library: ModuleType) -> list[Any]:
        """For each coordinate of points ``(..., d)`` a mask of where it exists; None for everywhere."""
        exist = list[Any]()
        for parent in self.parents:
            if parent is None:
                exist.append(None)
                continue
            above = exist[parent[0]]
            here = self.dimensions[parent[0]].decode(points[..., parent[0]], library) == parent[1]
            exist.append(here if above is None else here & above)
        return exist


def _read_dimensions(dimensions: Any) -> tuple[list[Axis], list[Fixed]]:
    """The coordinates and the fixed values of dimensions in any spelling."""
    if is_list_of_dicts(dimensions) and len(dimensions) > 1:
        root = make_branches([str(row) for row in range(len(dimensions))], dimensions, None)
        axes, fixed = flatten([(ROOT, root)])
        return [axes[0]._replace(parameter=None), *axes[1:]], fixed
    alone = is_list_of_dicts(dimensions)
    items = check_names("dimensions", dimensions[0] if alone else dimensions)
    return flatten([(name, make_dimension(name, value, fixed=alone)) for name, value in items])


def is_list_of_dicts(dimensions: Any) -> bool:
    """True for the spelling of branches without a name."""
    return isinstance(dimensions, list) and bool(dimensions) and all(isinstance(each, Mapping) for each in dimensions)


def _show_labels(params: dict[str, Any], labels: Mapping[str, Scalar]) -> dict[str, Any]:
    """Parameters that print their labels, if these differ."""
    same = all(is_same_scalar(params[name], label) for name, label in labels.items())
    return params if same else Params(params, labels)


def relabel(params: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters ``changed``, with the labels of ``params`` where a value is the same object."""
    if not isinstance(params, Params):
        return dict(changed)
    return Params(
        changed, {name: params.labels[name] if changed[name] is params[name] else changed[name] for name in changed}
    )


def by_name(dimensions: Mapping[str, Any]) -> dict[str, Dimension]:
    """Dimensions of columns by name, in any spelling but ``branches`` and objects, which no cell holds.

    Raises:
      TypeError: a value is no dimension, of ``branches``, or has a choice that is no scalar.
      ValueError: see ``Space``.
    """
    found = dict(Space(dimensions)._items())
    for name, dimension in found.items():
        if isinstance(dimension, Branches):
            raise TypeError(f"{name}: branches must be of parameters that are searched, not of columns")
        if isinstance(dimension, Categorical) and not all(map(is_same_scalar, dimension.choices, dimension.labels)):
            raise TypeError(f"{name}: choices must be text, numbers, True, False or None, got {dimension.labels!r}")
    return cast(dict[str, Dimension], found)


def refuse_branches(space: Space | None, reason: str) -> None:
    """Raise a ValueError for a space with branches."""
    if space is not None and space.branched:
        raise ValueError(f"space must have no branches, since {reason}")


def middles(space: Space) -> list[dict[str, Any]]:
    """Parameters in the middle of the space, or of each of its branches."""
    points = {}
    for axis, dimension in enumerate(space.dimensions):
        for row in range(dimension.count if isinstance(dimension, Branches) else 0):
            point, at = np.full(len(space.names), 0.5), (axis, row)
            while at is not None:
                point[at[0]] = cast(Branches, space.dimensions[at[0]]).middle(at[1], np)
                at = space.parents[at[0]]
            snapped = space.snap(point)
            points[snapped.tobytes()] = snapped
    return [space.params(point) for point in points.values()] or [space.params(np.full(len(space.names), 0.5))]


def _encode(dimension: AnyDimension, name: str, value: Any) -> float:
    return dimension.encode(name, value)


def spread(space: Any, count: int, dimension: int) -> np.ndarray:
    """Points ``(count, d)`` of a Sobol sequence in the unit box that a ``Space`` allows; public.

    Points that break a constraint, or are not feasible, are left out; where most are, as of a mixture, the others move
    to the nearest that may be used.
    """
    if not isinstance(space, Space) or not (space.constraints or space.feasible is not None):
        return designs.sobol(count, dimension, 0)
    return _spread_allowed(space, count).copy()


@functools.lru_cache(maxsize=4)  # a plan is made in several rounds, and ``feasible`` may take its time
def _spread_allowed(space: Space, count: int) -> np.ndarray:
    points = designs.sobol(MOST_LEFT_OUT * count, len(space.names), 0)
    met, others = list[np.ndarray](), list[np.ndarray]()
    for point in points:
        (met if space.meets(point) else others).append(point)
        if len(met) == count:
            break
    return np.stack([*met, *map(space.snap, others[: count - len(met)])])


@functools.cache
def imputation(space: Space | None) -> Callable[[jax.Array], jax.Array] | None:
    """A traceable map of points ``(..., d)``: numbers that do not exist in a point's branch are 0.5, branches and
    categories are in the middle of their intervals, or ``NOWHERE``.

    Two points of one branch that differ in parameters of other branches alone go to one point. None without branches
    and categories.
    """
    if space is None or not any(isinstance(each, (Branches, Categorical)) for each in space.dimensions):
        return None

    def impute(points: jax.Array) -> jax.Array:
        return space._impute(points, jnp, lambda dimension, name, column: column, NOWHERE)

    return impute


def copy_objects(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with copies of the objects among them."""
    return {name: copy.deepcopy(value) for name, value in params.items()} if isinstance(params, Params) else params

"""The space of a search: named real, integer and categorical dimensions, branches, and the unit box for algorithms.

``Space`` converts points of ``[0, 1]^d`` to parameters by name, and back. Every dimension has a coordinate: real
numbers are spread over it, evenly or in their logarithm; whole numbers and categories have an interval each, of equal
length unless ``log``.

A branch (``branches``) decides which parameters exist. The box has a coordinate for each parameter of every branch, so
its size is public and tells nothing. A coordinate of another branch is ignored, and counts as 0.5 wherever points are
compared. The parameters that a release holds follow from its branch: the branch is a coordinate of the released point,
chosen by the same mechanism as the others, and the guarantee of the point covers it.
"""

import copy
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, SupportsInt, TypeGuard, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import checks, namespace
from jaxdpbo.checks import Unchecked
from jaxdpbo.types import LEFT_OUT, ArrayLike

__all__ = [
    "Branches",
    "Categorical",
    "Integer",
    "Linear",
    "Real",
    "Space",
    "branches",
    "categorical",
    "integer",
    "linear",
    "real",
]
__dir__ = namespace.list_public(__name__)

Coordinate = float | np.ndarray | jax.Array  # in [0, 1]; the value of a category is its row
Scalar = bool | int | float | str | None  # the types of JSON; any other choice is known by its label
MAX_INTEGER, MAX_COUNT = 2**31 - 1, 2**24  # limits of an integer dimension: 32 bits, and the precision of float32
MAX_FLOAT32_LOG_INTEGER = 2**18  # from 2^20 on, the exponential of a float32 misses the whole number
CONDITIONAL = (
    'for parameters that exist only in some cases type space.branches({"svm": {"C": space.real(0.1, 10)}, "mean": {}})'
)
SPELLINGS = (
    "real(low, high), integer(low, high), categorical(...), branches({...}), a list of choices, or a frozen uniform, "
    "loguniform or randint of scipy.stats"
)
ROOT = "branch"  # the coordinate of a list of dicts, no parameter
SEARCHES = (
    "give method='in_order', 'choice', 'evaluations' or public records for a space with branches, or descend in the "
    "space of one branch"
)
NOT_TRACED = (
    "a space with branches has no fixed set of parameters, so JAX cannot trace the loss: leave traceable as it is, or "
    "give traceable=False"
)
ROUNDING, HALVINGS = 1e-6, 60  # of a sum, over the sum of the sizes of its parts; of a bracket, to the last digit
ENDS = {"low", "high", "lower", "upper", "lb", "ub", "min", "max"}  # names of the ends of a box, in any spelling


@dataclass(frozen=True)
class NumberText:
    """How text spells the numbers of a column: "1.234,50 kr" has the decimal ",", the thousands ".", the unit "kr"."""

    decimal: str
    thousands: str
    unit: str


@dataclass(frozen=True)
class Real:
    """Real numbers in ``[low, high]``; made by ``real``."""

    low: float
    high: float
    log: bool
    text: NumberText | None = None

    def __repr__(self) -> str:
        """Show the ends, and how text spells the numbers where you gave this."""
        return _describe_range(self)

    @property
    def count(self) -> None:
        """None: a real dimension has no number of values."""
        return

    def decode(self, place: Coordinate, library: ModuleType) -> Any:
        """The value at a coordinate in [0, 1]; ``library`` is ``numpy`` or ``jax.numpy``."""
        _expect_float_range(self, place, library)
        if not self.log:
            return library.clip(self.low + place * (self.high - self.low), self.low, self.high)
        low, high = math.log(self.low), math.log(self.high)
        inside = library.clip(library.exp(low + place * (high - low)), self.low, self.high)
        return library.where(place <= 0, self.low, library.where(place >= 1, self.high, inside))

    def encode(self, name: str, value: Unchecked) -> float:
        """The coordinate of a value."""
        number = _check_range(name, checks.number(name, value), self.low, self.high)
        low, high, at = (math.log(end) if self.log else end for end in (self.low, self.high, number))
        return (at - low) / (high - low)

    def place(self, values: np.ndarray) -> np.ndarray:
        """The coordinates of values inside of the range."""
        low, high, at = (np.log(end) if self.log else end for end in (self.low, self.high, values))
        return np.clip((at - low) / (high - low), 0.0, 1.0)

    def plain(self, value: Coordinate) -> Scalar:
        """Convert to a Python number."""
        return float(value)


@dataclass(frozen=True)
class Integer:
    """Whole numbers from ``low`` to ``high``, both included; made by ``integer``."""

    low: int
    high: int
    log: bool
    text: NumberText | None = None

    def __repr__(self) -> str:
        """Show the ends, and how text spells the numbers where you gave this."""
        return _describe_range(self)

    @property
    def count(self) -> int:
        """The number of whole numbers."""
        return self.high - self.low + 1

    def decode(self, place: Coordinate, library: ModuleType) -> Any:
        """The value at a coordinate in [0, 1]; ``library`` is ``numpy`` or ``jax.numpy``."""
        if not self.log:
            return _floor(place, self.count, library) + self.low
        if self.high > MAX_FLOAT32_LOG_INTEGER and _is_float32(place, library):
            raise ValueError(
                f"high must be at most {MAX_FLOAT32_LOG_INTEGER} with log=True where JAX traces the objective in "
                f"float32, got {self.high}: give traceable=False, or enable x64"
            )
        low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
        whole = library.rint(library.exp(low + place * (high - low)))
        return library.clip(whole, self.low, self.high).astype(library.int32)

    def encode(self, name: str, value: Unchecked) -> float:
        """The middle of the value's interval."""
        if isinstance(value, bool) or checks.number(name, value) != int(cast(SupportsInt, value)):
            raise TypeError(f"{name} must be a whole number, got {value!r}")
        whole = int(_check_range(name, value, self.low, self.high))
        if not self.log:
            return (whole - self.low + 0.5) / self.count
        low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
        return (math.log(whole) - low) / (high - low)

    def plain(self, value: Coordinate) -> Scalar:
        """Convert to a Python number."""
        return int(value)


@dataclass(frozen=True, eq=False, repr=False)
class Categorical:
    """One of ``choices``; made by ``categorical``. Objects among them are known by their public ``labels`` alone.

    A record, a ledger and the fingerprint of a run hold labels: keep the meaning of a label under one run name.
    """

    choices: tuple[Any, ...] = field(metadata={LEFT_OUT: True})
    labels: tuple[Scalar, ...]

    def __repr__(self) -> str:
        """Show the labels."""
        return f"Categorical(choices={self.labels!r})"

    def __eq__(self, other: object) -> bool:
        """True for equal labels of equal plain choices, and of the same objects: objects are never compared."""
        return isinstance(other, Categorical) and self._known == other._known

    def __hash__(self) -> int:
        """Of what ``==`` compares."""
        return hash(self._known)

    @property
    def _known(self) -> tuple[Any, ...]:
        known = [(type(each), each) if isinstance(each, Scalar) else id(each) for each in self.choices]
        return self.labels, tuple(map(type, self.labels)), tuple(known)

    @property
    def count(self) -> int:
        """The number of choices."""
        return len(self.choices)

    def decode(self, place: Coordinate, library: ModuleType) -> Any:
        """The row of the choice at a coordinate; for ``jax.numpy`` the choice itself, a number."""
        row = _floor(place, self.count, library)
        if library is np:
            return row
        if not all(isinstance(choice, (bool, int, float)) for choice in self.choices):
            raise TypeError(f"categories must be numbers where JAX traces the objective, got {self.labels!r}")
        return jnp.asarray(np.array(self.choices))[row]

    def encode(self, name: str, value: Unchecked) -> float:
        """The middle of the interval of a choice, or of a label: an object is found by identity."""
        for row, choice in enumerate(self.choices):
            if choice is value or _is_same_scalar(choice, value):
                return (row + 0.5) / self.count
        return (self.row_of(name, value) + 0.5) / self.count

    def row_of(self, name: str, label: Unchecked) -> int:
        """The row of a label."""
        for row, own in enumerate(self.labels):
            if _is_same_scalar(own, label):
                return row
        shown = repr(label) if isinstance(label, Scalar) else f"another {type(label).__name__}"
        raise ValueError(f"{name} must be one of {', '.join(map(repr, self.labels))}, got {shown}")

    def plain(self, value: Coordinate) -> Any:
        """The choice of this row."""
        return self.choices[int(value)]


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


Dimension = Real | Integer | Categorical  # also of a column of a table


@dataclass(frozen=True, repr=False)
class Branches:
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


def real(
    low: float, high: float, *, log: bool = False, decimal: str | None = None, thousands: str = "", unit: str = ""
) -> Real:
    """Make a dimension of real numbers between ``low`` and ``high``; ``log`` searches in the logarithm, above 0.

    >>> from jaxdpbo import space
    >>> space.real(1e-3, 1e3, log=True)
    Real(low=0.001, high=1000.0, log=True)

    For a column of a table, say how text spells the numbers. This reads "1.234,50 kr" as 1234.5:

    >>> space.real(0, 1e6, decimal=",", thousands=".", unit="kr")
    Real(low=0.0, high=1000000.0, log=False, decimal=',', thousands='.', unit='kr')

    Args:
      low: the lower end.
      high: the upper end.
      log: search in the logarithm.
      decimal: the mark before the fraction, "." or ",". A search takes none of these last three.
      thousands: the mark between groups of digits, one of ``. , ' _`` or a space. A text with a mark in another place
        is no number.
      unit: what may stand before or after the number, such as "$".

    Raises:
      ValueError: ends not finite, not in order, too far apart for a float, or not positive with ``log``; or a mark that
        is none of these.
      TypeError: an argument of the wrong type.
    """
    low, high = (checks.vector(name, [value], 1).item() for name, value in (("low", low), ("high", high)))
    if not math.isfinite(high - low):
        raise ValueError(f"high - low must be a float, got {low}, {high}: choose nearer ends")
    return Real(*_check_order(low, high, log), _number_text(decimal, thousands, unit))


def integer(
    low: int, high: int, *, log: bool = False, decimal: str | None = None, thousands: str = "", unit: str = ""
) -> Integer:
    """Make a dimension of whole numbers from ``low`` to ``high``; ``log`` searches in the logarithm, above 0.

    The last three arguments are those of ``real``.

    Raises:
      ValueError: ends not in order, too far apart, or not positive with ``log``; or a mark as of ``real``.
      TypeError: an argument of the wrong type.

    >>> from jaxdpbo import space
    >>> space.integer(1, 10).count
    10
    """
    low, high = (checks.size(name, value, minimum=-MAX_INTEGER) for name, value in (("low", low), ("high", high)))
    dimension = Integer(*_check_order(low, high, log), _number_text(decimal, thousands, unit))
    if high > (MAX_COUNT if log else MAX_INTEGER) or dimension.count > MAX_COUNT:
        raise ValueError(f"high must be at most 2^31 - 1, with log 2^24, and within 2^24 of low, got {low}, {high}")
    return dimension


def categorical(*choices: Any, **named: Any) -> Categorical:
    """Make a dimension of two or more choices: text, numbers, True, False or None, in any order, or any objects.

    An object (an estimator, a tuple, a function) has a public label, which stands for it in reports, records, ledgers
    and wherever a release is printed: the keyword, or the name of the function, class or type with its position.

    >>> from jaxdpbo import space
    >>> space.categorical("rbf", "poly").choices
    ('rbf', 'poly')
    >>> space.categorical(small=(8, 8), large=(64, 64))
    Categorical(choices=('small', 'large'))
    >>> space.categorical(abs, (1, 2)).labels
    ('abs_0', 'tuple_1')

    Objects are public, as names and ranges are: give none that was fitted to users' records. A loss gets a deep copy of
    an object, so that whatever it writes there stays out of the release, which holds the object that you gave.

    Raises:
      ValueError: fewer than two choices, two equal ones or equal labels, or both positions and keywords.
      TypeError: a float that is not finite, dimensions among the choices, or an object that ``copy.deepcopy`` refuses.
    """
    if choices and named:
        raise ValueError("choices must be all by position or all by keyword")
    plain = [each.item() if isinstance(each, np.generic) else each for each in (*choices, *named.values())]
    for choice in plain:
        _check_choice(choice)
    labels = tuple(named) or tuple(
        choice if isinstance(choice, Scalar) else _make_label(choice, row) for row, choice in enumerate(plain)
    )
    if len(labels) < 2 or len({(type(label), label) for label in labels}) < len(labels):
        raise ValueError(f"choices must be two or more, all different, got {labels!r}")
    for row, choice in enumerate(plain):  # who types a printed label back must get its choice
        if any(_is_same_scalar(choice, label) for label in (*labels[:row], *labels[row + 1 :])):
            raise ValueError(f"choices must differ from the labels of others, got {choice!r}")
    return Categorical(tuple(plain), labels)


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


def _one_choice(choice: Any) -> Categorical:
    """A fixed value, labelled as a choice is, without a position."""
    choice = choice.item() if isinstance(choice, np.generic) else choice
    _check_choice(choice)
    label = choice if isinstance(choice, Scalar) else _make_label(choice, None)
    return Categorical((choice,), (label,))


def _check_choice(choice: Any) -> None:
    """Raise a TypeError for what cannot be a choice."""
    if isinstance(choice, float) and not math.isfinite(choice):
        raise TypeError(f"choices must be finite where they are numbers, got {choice!r}")
    if _is_branch(choice):
        raise TypeError(f"choices must hold no dimensions: {CONDITIONAL}")
    if isinstance(choice, Scalar):
        return
    try:
        copy.deepcopy(choice)
    except Exception as error:
        raise TypeError(
            f"choices must be objects that copy.deepcopy copies, since a loss gets a copy, got {type(choice).__name__}"
        ) from error


def _is_branch(choice: Any) -> bool:
    """True for dimensions by name, which are no choice."""
    inside = choice.values() if isinstance(choice, Mapping) else (choice,)
    return any(isinstance(each, (AnyDimension, Space)) for each in inside)


def _make_label(choice: Any, row: int | None) -> str:
    name = getattr(choice, "__name__", None)
    plain = (name if isinstance(name, str) else type(choice).__name__).strip("<>")  # of a lambda
    return plain if row is None else f"{plain}_{row}"


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
    return _make_branches(list(parameters), list(parameters.values()), weights)


def _make_branches(labels: Sequence[str], parameters: Sequence[Any], weights: Mapping[str, float] | None) -> Branches:
    inside = tuple(
        tuple((name, _dimension(name, value, fixed=True)) for name, value in _check_names(f"branch {label!r}", own))
        for label, own in zip(labels, parameters, strict=True)
    )
    if weights is not None and (not isinstance(weights, Mapping) or set(weights) != set(labels)):
        raise ValueError(f"weights must be a dict of {', '.join(map(repr, labels))}, got {weights!r}")
    by_row = [
        1.0 + len(_flatten(own)[0]) if weights is None else checks.positive(f"weights[{label!r}]", weights[label])
        for label, own in zip(labels, inside, strict=True)
    ]
    return Branches(tuple(labels), inside, tuple(weight / sum(by_row) for weight in by_row))


def _check_names(what: str, dimensions: Any) -> list[tuple[str, Any]]:
    if not isinstance(dimensions, Mapping):
        raise TypeError(f"{what} must be a dict of names, got {type(dimensions).__name__}")
    for name in dimensions:
        if not isinstance(name, str):
            raise TypeError(f"names must be text, got {name!r}")
    return list(dimensions.items())


class _Axis(NamedTuple):
    """A coordinate: its ``name`` and that of the parameter, and the axis and row of the branch that it exists in."""

    name: str
    key: str | None
    dimension: AnyDimension
    parent: tuple[int, int] | None


class _Fixed(NamedTuple):
    """A parameter without a coordinate, of one choice, with the axis and row of its branch."""

    key: str
    dimension: Categorical
    parent: tuple[int, int] | None


def _flatten(
    items: Sequence[tuple[str, AnyDimension]], prefix: str = "", parent: tuple[int, int] | None = None, start: int = 0
) -> tuple[list[_Axis], list[_Fixed]]:
    """The coordinates and the fixed values of dimensions by name, in branches and outside; axes count from ``start``.

    Raises:
      ValueError: two parameters of one name may exist together.
    """
    axes, fixed = list[_Axis](), list[_Fixed]()
    for key, dimension in items:
        if isinstance(dimension, Categorical) and dimension.count == 1:
            fixed.append(_Fixed(key, dimension, parent))
            continue
        at = start + len(axes)
        axes.append(_Axis(prefix + key, key, dimension, parent))
        if isinstance(dimension, Branches):
            for row, (label, inside) in enumerate(zip(dimension.labels, dimension.inside, strict=True)):
                found = _flatten(inside, f"{prefix}{key}.{label}.", (at, row), start + len(axes))
                axes, fixed = axes + found[0], fixed + found[1]
    together = Counter(key for item in items for key in _keys(*item))
    if twice := [key for key, count in together.items() if count > 1]:
        raise ValueError(f"{prefix}{twice[0]}: two parameters of one name must be in different branches of one name")
    return axes, fixed


def _keys(key: str, dimension: AnyDimension) -> list[str]:
    """The name of a dimension, and each name in its branches once."""
    rows = dimension.inside if isinstance(dimension, Branches) else ()
    return [key, *{inner for inside in rows for item in inside for inner in _keys(*item)}]


@dataclass(frozen=True)
class Linear:
    """``least <= sum of weights times parameters <= most``, of real parameters; made by ``linear``."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    least: float
    most: float

    def __str__(self) -> str:
        """Show the sum between its ends."""
        terms = " + ".join(name if weight == 1 else f"{weight:g} {name}" for name, weight in self._pairs())
        low, high = ("" if math.isinf(end) else f"{end:g}" for end in (self.least, self.most))
        return f"{terms} = {low}" if low == high else " <= ".join(filter(None, (low, terms, high)))

    def sum(self, values: Mapping[str, Any]) -> Any:
        """The weighted sum of parameters."""
        return sum(weight * values[name] for name, weight in zip(self.names, self.weights, strict=True))

    def is_of(self, dimensions: Mapping[str, Any]) -> bool:
        """True if these parameters exist and are real: in another branch they may be fixed values."""
        return all(isinstance(dimensions.get(name), Real) for name in self.names)

    def holds(self, values: Mapping[str, Any]) -> Any:
        """True where the sum is between its ends, to rounding."""
        total, slack = self.sum(values), ROUNDING * sum(abs(weight * values[name]) for name, weight in self._pairs())
        return (total >= self.least - slack) & (total <= self.most + slack)

    def project(self, values: Mapping[str, Any], ranges: Mapping[str, Real], library: ModuleType) -> dict[str, Any]:
        """The nearest parameters in their ranges whose sum is between its ends, to rounding, in sides of the box.

        In coordinates of the box they are ``places - multiplier * slopes``, cut off at 0 and 1; slopes are weights
        times sides. The sum falls as the multiplier grows, so a bisection finds the multiplier.
        """
        sides = {name: ranges[name].high - ranges[name].low for name in self.names}
        scale = max(abs(weight) * sides[name] for name, weight in self._pairs())
        slopes = {name: weight * sides[name] / scale for name, weight in self._pairs()}
        places = {name: (values[name] - ranges[name].low) / sides[name] for name in self.names}

        def move(multiplier: Any) -> dict[str, Any]:
            return {name: library.clip(places[name] - multiplier * slopes[name], 0.0, 1.0) for name in self.names}

        def total(at: Mapping[str, Any]) -> Any:
            return sum(slopes[name] * at[name] for name in self.names)

        offset = sum(weight * ranges[name].low for name, weight in self._pairs())
        now, ends = total(places), [(end - offset) / scale for end in (self.least, self.most)]
        target = library.clip(now, *ends)

        def halve(_: Any, bracket: tuple[Any, Any]) -> tuple[Any, Any]:
            middle = (bracket[0] + bracket[1]) / 2
            above = total(move(middle)) > target
            return library.where(above, middle, bracket[0]), library.where(above, bracket[1], middle)

        farthest = 1.0 / min(abs(slope) for slope in slopes.values())
        bracket = (library.full_like(target, -farthest), library.full_like(target, farthest))
        if library is np:
            for _ in range(HALVINGS):
                bracket = halve(None, bracket)
        else:
            bracket = jax.lax.fori_loop(0, HALVINGS, halve, bracket)
        moved = move(library.where(now > target, bracket[1], bracket[0]))  # on the side where the sum holds
        return {
            name: library.where(
                now == target,
                values[name],
                library.clip(ranges[name].low + sides[name] * moved[name], *_ends(ranges[name])),
            )
            for name in self.names
        }

    def _pairs(self) -> Iterator[tuple[str, float]]:
        return zip(self.names, self.weights, strict=True)


def _ends(dimension: Real) -> tuple[float, float]:
    return dimension.low, dimension.high


def linear(weights: Mapping[str, float], *, least: float = -math.inf, most: float = math.inf) -> Linear:
    """Make a constraint: the sum of ``weights`` times parameters is at least ``least`` and at most ``most``.

    >>> from jaxdpbo import Space, space
    >>> share = space.real(0, 1)
    >>> mixed = Space({"a": share, "b": share}, constraints=[space.linear({"a": 1, "b": 1}, most=1)])
    >>> mixed.params([0.25, 0.5]), mixed.params([1.0, 1.0])
    ({'a': 0.25, 'b': 0.5}, {'a': 0.5, 'b': 0.5})

    With both ends equal it is a mixture, such as shares that add up to 1.

    Args:
      weights: numbers other than 0, by the names of real parameters, two or more.
      least: the least sum.
      most: the largest sum.

    Raises:
      ValueError: fewer than two names, a weight of 0 or not finite, no end, or ends not in order.
      TypeError: an argument of the wrong type.
    """
    if not isinstance(weights, Mapping) or not all(isinstance(name, str) for name in weights):
        raise TypeError(f"weights must be a dict of names, got {type(weights).__name__}")
    numbers = {name: float(checks.number(f"weights[{name!r}]", weight)) for name, weight in weights.items()}
    if len(numbers) < 2 or not all(weight and math.isfinite(weight) for weight in numbers.values()):
        raise ValueError(f"weights must be finite, not 0, and two or more, got {dict(weights)!r}")
    low, high = (float(checks.number(name, end)) for name, end in (("least", least), ("most", most)))
    if not low <= high or (math.isinf(low) and math.isinf(high)):
        raise ValueError(f"least must be at most most, and one of them given, got {low}, {high}")
    return Linear(tuple(numbers), tuple(numbers.values()), low, high)


@dataclass(frozen=True, init=False, repr=False)
class Space:
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
    """

    names: tuple[str, ...]
    dimensions: tuple[AnyDimension, ...]
    keys: tuple[str | None, ...]
    parents: tuple[tuple[int, int] | None, ...]
    fixed: tuple[_Fixed, ...]
    constraints: tuple[Linear, ...]

    def __init__(
        self, dimensions: Mapping[str, Any] | Sequence[Mapping[str, Any]], *, constraints: Sequence[Linear] = ()
    ):
        """Check the dimensions and constraints, and store them.

        Raises:
          TypeError: no mapping of text to dimensions, or another spelling of a dimension; another constraint.
          ValueError: no dimensions; a list of fewer than two choices, a distribution with invalid ends; two parameters
            of one name that may exist together; constraints of a name in common, of names that are not real parameters
            of one branch, or that no parameters meet.
        """
        if _is_list_of_dicts(dimensions) and len(dimensions) == 1:
            items = _check_names("dimensions", cast(Any, dimensions)[0])
            axes, fixed = _flatten([(name, _dimension(name, value, fixed=True)) for name, value in items])
        elif _is_list_of_dicts(dimensions):
            root = _make_branches([str(row) for row in range(len(dimensions))], cast(Any, dimensions), None)
            axes, fixed = _flatten([(ROOT, root)])
            axes[0] = axes[0]._replace(key=None)
        else:
            items = _check_names("dimensions", dimensions)
            axes, fixed = _flatten([(name, _dimension(name, value)) for name, value in items])
        if not axes:
            raise ValueError("dimensions must be at least one")
        if twice := [name for name, count in Counter(axis.name for axis in axes).items() if count > 1]:
            raise ValueError(f"{twice[0]}: a name with dots must not be that of a parameter in a branch")
        for name, column in zip(("names", "keys", "dimensions", "parents"), zip(*axes, strict=True), strict=True):
            object.__setattr__(self, name, column)
        object.__setattr__(self, "fixed", tuple(fixed))
        _check_constraints(constraints, axes)
        object.__setattr__(self, "constraints", tuple(constraints))

    def __repr__(self) -> str:
        """Show the parameters with their branches, fixed values and constraints, as a person who signs reads them."""
        outside = [item for item, parent in zip(self._items(), self.parents, strict=True) if parent is None]
        parts = [f"{name}: {dimension!r}" for name, dimension in outside]
        parts += [f"{each.key} = {each.dimension.labels[0]!r}" for each in self.fixed if each.parent is None]
        return f"Space({'; '.join([*parts, *map(str, self.constraints)])})"

    @property
    def bounds(self) -> np.ndarray:
        """The unit box ``(2, d)``."""
        return np.stack([np.zeros(len(self.names)), np.ones(len(self.names))])

    @property
    def real_axes(self) -> np.ndarray:
        """The mask ``(d,)`` of the real coordinates."""
        return np.array([dimension.count is None for dimension in self.dimensions])

    @property
    def branched(self) -> bool:
        """Whether parameters exist in some branches alone."""
        return any(isinstance(dimension, Branches) for dimension in self.dimensions)

    def params(self, point: ArrayLike) -> dict[str, Any]:
        """The parameters that exist at a point ``(d,)``: Python scalars and your objects, or traced JAX scalars.

        With objects among the choices, the dict prints their labels.

        Raises:
          ValueError: a point of another shape, or not finite.
          TypeError: a point of non-numbers; for a traced point, categories other than numbers, or branches.
        """
        if isinstance(point, Tracer):
            if point.shape != (len(self.names),):
                raise ValueError(f"point must have shape ({len(self.names)},), got {point.shape}")
            if self.branched:
                raise TypeError(NOT_TRACED)
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
        found = list(self._existing(value_of))
        dimensions = {key: dimension for key, dimension, _ in found}
        values = self._constrain({key: value for key, _, value in found}, dimensions, np)
        params = {key: dimension.plain(values[key]) for key, dimension in dimensions.items()}
        return _show_labels(params, {key: _label(dimension, values[key]) for key, dimension in dimensions.items()})

    def point(self, params: Mapping[str, Any]) -> np.ndarray:
        """The point ``(d,)`` of parameters: all but real numbers are in the middle of their intervals.

        The coordinates of other branches are 0.5.

        Raises:
          ValueError: other names than those of the space, or a value outside.
          TypeError: a value of the wrong type.
        """
        return self._place(params, lambda dimension, name, value: dimension.encode(name, value))

    def to_labels(self, params: Mapping[str, Any]) -> dict[str, Scalar]:
        """The parameters with a label in place of each choice that is an object, for JSON.

        >>> from jaxdpbo import Space, space
        >>> layers = Space({"layers": space.categorical(small=(8, 8), large=(64, 64))})
        >>> layers.to_labels(layers.params([0.9]))
        {'layers': 'large'}

        Raises:
          ValueError: other names than those of the space, or a value outside.
          TypeError: a value of the wrong type.
        """
        return {
            key: _label(dimension, value) if isinstance(dimension, Categorical) else params[key]
            for key, dimension, value in self._existing_at(self.point(params))
        }

    def from_labels(self, labels: Mapping[str, Scalar]) -> dict[str, Any]:
        """Invert ``to_labels``.

        >>> from jaxdpbo import Space, space
        >>> layers = Space({"layers": space.categorical(small=(8, 8), large=(64, 64))})
        >>> layers.from_labels({"layers": "large"})["layers"]
        (64, 64)

        Raises:
          ValueError: other names than those of the space, or no label of a choice.
          TypeError: a value of the wrong type.
        """
        place = self._place(labels, lambda dimension, name, value: _encode_label(dimension, name, value))
        params = {
            key: dimension.plain(value) if isinstance(dimension, Categorical) else labels[key]
            for key, dimension, value in self._existing_at(place)
        }
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
        return self._impute(self._project(np.clip(places, 0.0, 1.0)), np, _snap)

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
            if not _is_in(self.parents[axis], rows):
                continue
            if key is None:
                point[axis] = cast(Branches, dimension).middle(root, np)
            elif key in values:
                point[axis], placed[key] = encode(dimension, name, values[key]), dimension
            else:
                raise refusal
            if isinstance(dimension, Branches):
                rows[axis] = int(dimension.decode(point[axis], np))
        placed |= {key: dimension for key, dimension, parent in self.fixed if _is_in(parent, rows)}
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
        """A mask ``(...)`` of the points ``(..., d)`` that meet the constraints of what exists, without a move.

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
        return met

    def _join(self) -> str:
        return ", ".join(map(repr, self.names))

    def _impute(self, points: Any, library: ModuleType, move: Callable[..., Any]) -> Any:
        """Points ``(..., d)`` with branches in the middle of their intervals and 0.5 for what does not exist.

        ``move`` moves the column of another dimension, by dimension, name and column.
        """
        columns = []
        for axis, ((name, dimension), here) in enumerate(zip(self._items(), self._exist(points, library), strict=True)):
            column = points[..., axis]
            if isinstance(dimension, Branches):
                column = dimension.middle(dimension.decode(column, library), library).astype(column.dtype)
            else:
                column = move(dimension, name, column)
            columns.append(column if here is None else library.where(here, column, 0.5))
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


def _check_constraints(constraints: Any, axes: Sequence[_Axis]) -> None:
    """Raise for what is no constraint of these coordinates, see ``Space``."""
    if not isinstance(constraints, (list, tuple)) or not all(isinstance(each, Linear) for each in constraints):
        raise TypeError(f"constraints must be a list of space.linear(...), got {constraints!r}")
    together = Counter(name for each in constraints for name in each.names)
    if twice := [name for name, count in together.items() if count > 1]:
        raise ValueError(f"constraints must have no name in common, since each moves its own, got {twice[0]!r} in two")
    for constraint in constraints:
        _check_constraint(constraint, axes)


def _check_constraint(constraint: Linear, axes: Sequence[_Axis]) -> None:
    own = [axis for axis in axes if axis.key in constraint.names]
    real = all(isinstance(axis.dimension, Real) for axis in own) and len({axis.parent for axis in own}) == 1
    if len(own) != len(constraint.names) or not real:
        raise ValueError(f"constraints must be of real parameters of one branch, got {constraint}")
    weights = dict(constraint._pairs())
    sums = [[weights[axis.key or ""] * end for end in _ends(cast(Real, axis.dimension))] for axis in own]
    lowest, highest = sum(map(min, sums)), sum(map(max, sums))
    if lowest > constraint.most or highest < constraint.least:
        raise ValueError(f"constraints must be met by some parameters, got a sum from {lowest:g} to {highest:g}")


def _is_in(parent: tuple[int, int] | None, rows: Mapping[int, int]) -> bool:
    """True outside of branches, and in a branch with these rows of the axes of branches."""
    return parent is None or rows.get(parent[0]) == parent[1]


def _is_list_of_dicts(dimensions: Any) -> bool:
    return isinstance(dimensions, list) and bool(dimensions) and all(isinstance(each, Mapping) for each in dimensions)


def _label(dimension: AnyDimension, value: Any) -> Scalar:
    return dimension.labels[int(value)] if isinstance(dimension, Categorical) else dimension.plain(value)


def _encode_label(dimension: AnyDimension, name: str, label: Any) -> float:
    if not isinstance(dimension, Categorical):
        return dimension.encode(name, label)
    return (dimension.row_of(name, label) + 0.5) / dimension.count


def _show_labels(params: dict[str, Any], labels: Mapping[str, Scalar]) -> dict[str, Any]:
    """Parameters that print their labels, if these differ."""
    same = all(_is_same_scalar(params[name], label) for name, label in labels.items())
    return params if same else Params(params, labels)


def _is_same_scalar(value: Any, other: Any) -> bool:
    """True for equal values of one type of JSON; objects are never compared."""
    return isinstance(value, Scalar) and type(value) is type(other) and value == other


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
        if isinstance(dimension, Categorical) and not all(map(_is_same_scalar, dimension.choices, dimension.labels)):
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


@functools.cache
def imputation(space: Space | None) -> Callable[[jax.Array], jax.Array] | None:
    """A traceable map of points ``(..., d)``: what does not exist in a point's branch is 0.5, the branch in its middle.

    Two points of one branch that differ in parameters of other branches alone go to one point. None without branches.
    """
    if space is None or not space.branched:
        return None

    def impute(points: jax.Array) -> jax.Array:
        return space._impute(points, jnp, lambda dimension, name, column: column)

    return impute


def _dimension(name: str, value: Any, *, fixed: bool = False) -> AnyDimension:
    """Convert any of ``SPELLINGS`` to a dimension; a list of one is a ``fixed`` value, if there may be any."""
    if isinstance(value, AnyDimension):
        return value
    try:
        if isinstance(value, list):
            if fixed and len(value) == 1:
                return _one_choice(value[0])
            return categorical(*value)
        if (dimension := _from_scipy(value)) is not None:
            return dimension
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if isinstance(value, (Space, Mapping)) or (callable(value) and not hasattr(value, "rvs")):
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


def _is_named_box(bounds: Mapping[Any, Any]) -> bool:
    """True if a dict names the ends of a box, and no value is a dimension."""
    return ENDS.issuperset(bounds) and not any(
        isinstance(value, AnyDimension) or hasattr(value, "dist") for value in bounds.values()
    )


def is_named(bounds: Unchecked) -> TypeGuard[Any]:
    """True for a ``Space``, and for dimensions in another spelling of one; False for a box."""
    by_name = isinstance(bounds, Mapping) and not _is_named_box(bounds)
    return by_name or isinstance(bounds, Space) or _is_list_of_dicts(bounds)


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


def copy_objects(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with copies of the objects among them."""
    return {name: copy.deepcopy(value) for name, value in params.items()} if isinstance(params, Params) else params


def _floor(place: Any, count: int, library: Any) -> Any:
    """The number of a coordinate's interval among ``count`` equal intervals."""
    return library.clip(library.floor(place * count), 0, count - 1).astype(library.int32)


def _is_float32(place: Any, library: ModuleType) -> bool:
    return library is not np and place.dtype == jnp.float32


def _expect_float_range(dimension: Real, place: Any, library: ModuleType) -> None:
    """Raise at trace time where float32 cannot hold the range: values would be infinite, zero or outside.

    Raises:
      ValueError: the range is too wide, or with ``log`` too near to zero.
    """
    if not _is_float32(place, library):
        return
    largest, tiny = (float(end) for end in (np.finfo(np.float32).max, np.finfo(np.float32).tiny))
    widest = max(abs(dimension.low), abs(dimension.high), dimension.high - dimension.low)
    if widest > largest or (dimension.log and dimension.low < tiny):
        raise ValueError(
            f"low and high must be floats of 32 bits where JAX traces the objective in float32, got {dimension.low}, "
            f"{dimension.high}: give traceable=False, or enable x64"
        )


def _snap(dimension: Dimension, name: str, column: np.ndarray) -> np.ndarray:
    if dimension.count is None:
        return column
    values = np.asarray(dimension.decode(column, np))
    return np.array([dimension.encode(name, dimension.plain(value)) for value in values.ravel()]).reshape(column.shape)


def _number_text(decimal: str | None, thousands: str, unit: str) -> NumberText | None:
    """How text spells numbers; None if the caller says nothing.

    Raises:
      ValueError: a mark that is none, two equal marks, or a unit that could be part of a number.
      TypeError: an argument is no text.
    """
    if decimal is None and thousands == unit == "":
        return None
    text = NumberText("." if decimal is None else decimal, thousands, unit)
    for name, value in vars(text).items():
        if not isinstance(value, str):
            raise TypeError(f"{name} must be text, got {value!r}")
    if text.decimal not in (".", ",") or text.thousands not in ("", ".", ",", "'", "_", " "):
        raise ValueError(
            f"decimal must be '.' or ',', and thousands one of . , ' _ or a space, got {text.decimal!r}, "
            f"{text.thousands!r}"
        )
    if text.decimal == text.thousands:
        raise ValueError(f"thousands must differ from decimal, got {text.thousands!r} for both: give decimal=")
    if unit != unit.strip() or any(mark.isdigit() or mark in "+-\u2212" for mark in unit):
        raise ValueError(f"unit must be text without digits, signs and spaces at its ends, got {unit!r}")
    return text


def _describe_range(dimension: "Real | Integer") -> str:
    fields = {"low": dimension.low, "high": dimension.high, "log": dimension.log}
    fields |= {} if dimension.text is None else vars(dimension.text)
    return f"{type(dimension).__name__}({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def _check_order(low: Any, high: Any, log: Any) -> tuple[Any, Any, bool]:
    checks.flag("log", log)
    if not low < high:
        raise ValueError(f"low must be less than high, got {low}, {high}")
    if log and low <= 0:
        raise ValueError(f"low must be positive where log=True, got {low}")
    return low, high, log


def _check_range(name: str, value: Any, low: Any, high: Any) -> Any:
    if not low <= value <= high:
        raise ValueError(f"{name} must lie in [{low}, {high}], got {value}")
    return value

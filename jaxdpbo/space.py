"""The space of a search: named real, integer and categorical dimensions, and the unit box for algorithms.

``Space`` converts points of ``[0, 1]^d`` to parameters by name, and back. Every dimension has a coordinate: real
numbers are spread over it, evenly or in their logarithm; whole numbers and categories have an interval each, of equal
length unless ``log``. Conditional dimensions, present only for some values of another, are refused: the set of
dimensions in a release could reveal a user's record.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, SupportsInt, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import checks, namespace
from jaxdpbo.checks import Unchecked
from jaxdpbo.types import ArrayLike

__all__ = [
    "Categorical",
    "Integer",
    "Real",
    "Space",
    "categorical",
    "integer",
    "real",
]
__dir__ = namespace.list_public(__name__)

Coordinate = float | np.ndarray | jax.Array  # in [0, 1]; the value of a category is its row
Scalar = bool | int | float | str | None  # the types of categories, and of released parameters
MAX_INTEGER, MAX_COUNT = 2**31 - 1, 2**24  # limits of an integer dimension: 32 bits, and the precision of float32
MAX_FLOAT32_LOG_INTEGER = 2**18  # from 2^20 on, the exponential of a float32 misses the whole number
CONDITIONAL = (
    "conditional dimensions are not supported: give every dimension a value and ignore it where it does not apply, "
    "or search each branch on its own"
)
SPELLINGS = (
    "real(low, high), integer(low, high), categorical(...), a list of choices, or a frozen uniform, loguniform or "
    "randint of scipy.stats"
)
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


@dataclass(frozen=True)
class Categorical:
    """One of ``choices``; made by ``categorical``."""

    choices: tuple[Scalar, ...]

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
            raise TypeError(f"categories must be numbers where JAX traces the objective, got {self.choices!r}")
        return jnp.asarray(np.array(self.choices))[row]

    def encode(self, name: str, value: Unchecked) -> float:
        """The middle of the value's interval."""
        for row, choice in enumerate(self.choices):
            if type(choice) is type(value) and choice == value:
                return (row + 0.5) / self.count
        raise ValueError(f"{name} must be one of {', '.join(map(repr, self.choices))}, got {value!r}")

    def plain(self, value: Coordinate) -> Scalar:
        """The choice of this row."""
        return self.choices[int(value)]


Dimension = Real | Integer | Categorical


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


def categorical(*choices: Scalar) -> Categorical:
    """Make a dimension of two or more choices: text, numbers, True, False or None, in any order.

    Raises:
      ValueError: fewer than two choices, or two equal ones.
      TypeError: a choice of another type.

    >>> from jaxdpbo import space
    >>> space.categorical("rbf", "poly").choices
    ('rbf', 'poly')
    """
    for choice in choices:
        if not isinstance(choice, Scalar) or (isinstance(choice, float) and not math.isfinite(choice)):
            raise TypeError(f"choices must be text, finite numbers, True, False or None, got {choice!r}")
    if len(choices) < 2 or len({(type(choice), choice) for choice in choices}) < len(choices):
        raise ValueError(f"choices must be two or more, all different, got {choices!r}")
    return Categorical(choices)


@dataclass(frozen=True, init=False)
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

    Attributes:
      names: the names of the dimensions.
      dimensions: the dimensions, made by ``real``, ``integer`` or ``categorical``.
    """

    names: tuple[str, ...]
    dimensions: tuple[Dimension, ...]

    def __init__(self, dimensions: Mapping[str, Any]):
        """Check the dimensions and store them.

        Raises:
          TypeError: no mapping of text to dimensions; a conditional dimension, or another spelling.
          ValueError: no dimensions; a list of fewer than two choices, a distribution with invalid ends.
        """
        if not isinstance(dimensions, Mapping):
            raise TypeError(f"dimensions must be a dict of names, got {type(dimensions).__name__}")
        if not dimensions:
            raise ValueError("dimensions must be at least one")
        for name in dimensions:
            if not isinstance(name, str):
                raise TypeError(f"names must be text, got {name!r}")
        object.__setattr__(self, "names", tuple(dimensions))
        object.__setattr__(self, "dimensions", tuple(_dimension(*item) for item in dimensions.items()))

    @property
    def bounds(self) -> np.ndarray:
        """The unit box ``(2, d)``."""
        return np.stack([np.zeros(len(self.names)), np.ones(len(self.names))])

    @property
    def real_axes(self) -> np.ndarray:
        """The mask ``(d,)`` of the real coordinates."""
        return np.array([dimension.count is None for dimension in self.dimensions])

    def params(self, point: ArrayLike) -> dict[str, Any]:
        """The parameters at a point ``(d,)``: Python scalars by name, or JAX scalars for a traced point.

        Raises:
          ValueError: a point of another shape, or not finite.
          TypeError: a point of non-numbers; for a traced point, categories other than numbers.
        """
        if isinstance(point, Tracer):
            if point.shape != (len(self.names),):
                raise ValueError(f"point must have shape ({len(self.names)},), got {point.shape}")
            inside = jnp.clip(point, 0.0, 1.0)
            return {name: dimension.decode(inside[i], jnp) for i, (name, dimension) in enumerate(self._items())}
        inside = np.clip(checks.vector("point", point, len(self.names)), 0.0, 1.0)
        return {
            name: dimension.plain(dimension.decode(place, np))
            for place, (name, dimension) in zip(inside, self._items(), strict=True)
        }

    def point(self, params: Mapping[str, Any]) -> np.ndarray:
        """The point ``(d,)`` of parameters: whole numbers and categories are in the middle of their intervals.

        Raises:
          ValueError: other names than those of the space, or a value outside.
          TypeError: a value of the wrong type.
        """
        if not isinstance(params, Mapping) or set(params) != set(self.names):
            raise ValueError(f"params must be a dict of {', '.join(map(repr, self.names))}, got {params!r}")
        return np.array([dimension.encode(name, params[name]) for name, dimension in self._items()])

    def snap(self, points: ArrayLike) -> np.ndarray:
        """Move whole numbers and categories in points ``(..., d)`` to the middle of their intervals.

        Raises:
          ValueError: points of another number of coordinates, or not finite.
        """
        places = checks.reals("points", points)
        if not places.ndim or places.shape[-1] != len(self.names) or not np.all(np.isfinite(places)):
            raise ValueError(f"points must be finite, of shape (..., {len(self.names)}), got {places.shape}")
        columns = [
            np.clip(column, 0.0, 1.0) if dimension.count is None else _snap(dimension, name, column)
            for column, (name, dimension) in zip(np.moveaxis(places, -1, 0), self._items(), strict=True)
        ]
        return np.stack(columns, axis=-1)

    def _items(self) -> list[tuple[str, Dimension]]:
        return list(zip(self.names, self.dimensions, strict=True))


def _dimension(name: str, value: Any) -> Dimension:
    """Convert any of ``SPELLINGS`` to a dimension."""
    if isinstance(value, Dimension):
        return value
    try:
        if isinstance(value, list):
            return categorical(*(choice.item() if isinstance(choice, np.generic) else choice for choice in value))
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
        isinstance(value, Dimension) or hasattr(value, "dist") for value in bounds.values()
    )


def box(bounds: Unchecked, space: Unchecked = None) -> tuple[Any, Space | None]:
    """Bounds for ``checks.box``, and the space with these bounds as unit box: ``bounds``, ``space``, or None.

    A dict of dimensions is a ``Space``; a dict of low and high is a box.

    Raises:
      TypeError: ``space`` is no ``Space``.
    """
    if isinstance(bounds, Mapping) and not _is_named_box(bounds):
        bounds = Space(bounds)
    if isinstance(bounds, Space):
        for name, dimension in bounds._items():
            if not isinstance(dimension, Categorical) and dimension.text is not None:
                raise ValueError(f"{name} must have no decimal, thousands or unit, which are for columns of a table")
        return checks.low_high(bounds.bounds), bounds
    if not isinstance(space, Space | None):
        raise TypeError(f"space must be a Space, got {type(space).__name__}")
    return bounds, space


def place(space: Space | None, point: ArrayLike) -> Any:
    """The argument of an objective: ``point (d,)``, or the parameters at the point."""
    return point if space is None else space.params(point)


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
    values = dimension.decode(np.clip(column, 0.0, 1.0), np)
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

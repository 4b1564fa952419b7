"""Dimensions of a search, and of a column: real numbers, whole numbers, categories."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, SupportsInt, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks
from jaxdpbo.checks import Unchecked
from jaxdpbo.types import LEFT_OUT

Coordinate = float | np.ndarray | jax.Array  # in [0, 1]; the value of a category is its row
Scalar = bool | int | float | str | None  # the types of JSON; any other choice is known by its label
MAX_INTEGER, MAX_COUNT = 2**31 - 1, 2**24  # limits of an integer dimension: 32 bits, and the precision of float32
MAX_FLOAT32_LOG_INTEGER = 2**18  # from 2^20 on, the exponential of a float32 misses the whole number
CONDITIONAL = (
    'for parameters that exist only in some cases type space.branches({"svm": {"C": space.real(0.1, 10)}, "mean": {}})'
)


class Searched:
    """What a search chooses, a dimension or a whole space: never one of the choices of another."""


@dataclass(frozen=True)
class NumberText:
    """How text spells the numbers of a column: "1.234,50 kr" has the decimal ",", the thousands ".", the unit "kr"."""

    decimal: str
    thousands: str
    unit: str


@dataclass(frozen=True)
class Real(Searched):
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

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number."""
        return self.low, self.high

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
class Integer(Searched):
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
class Categorical(Searched):
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
        row = self.row_at(place, library)
        if library is np:
            return row
        if not all(isinstance(choice, (bool, int, float)) for choice in self.choices):
            raise TypeError(f"categories must be numbers where JAX traces the objective, got {self.labels!r}")
        return jnp.asarray(np.array(self.choices))[row]

    def encode(self, name: str, value: Unchecked) -> float:
        """The middle of the interval of a choice, or of a label: an object is found by identity."""
        for row, choice in enumerate(self.choices):
            if choice is value or is_same_scalar(choice, value):
                return float(self.middle(row, np))
        return float(self.middle(self.row_of(name, value), np))

    def row_at(self, place: Coordinate, library: ModuleType) -> Any:
        """The row of the choice at a coordinate."""
        return _floor(place, self.count, library)

    def middle(self, row: Any, library: ModuleType) -> Any:
        """The middle of the intervals of some rows."""
        return library.take(library.asarray((np.arange(self.count) + 0.5) / self.count), row)

    def row_of(self, name: str, label: Unchecked) -> int:
        """The row of a label."""
        for row, own in enumerate(self.labels):
            if is_same_scalar(own, label):
                return row
        shown = repr(label) if isinstance(label, Scalar) else f"another {type(label).__name__}"
        raise ValueError(f"{name} must be one of {', '.join(map(repr, self.labels))}, got {shown}")

    def plain(self, value: Coordinate) -> Any:
        """The choice of this row."""
        return self.choices[int(value)]


Dimension = Real | Integer | Categorical  # also of a column of a table


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
    an object, so that what it writes there stays out of the release, which holds the object that you gave.

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
        choice if isinstance(choice, Scalar) else make_label(choice, row) for row, choice in enumerate(plain)
    )
    if len(labels) < 2 or len({(type(label), label) for label in labels}) < len(labels):
        raise ValueError(f"choices must be two or more, all different, got {labels!r}")
    for row, choice in enumerate(plain):  # who types a printed label back must get its choice
        if any(is_same_scalar(choice, label) for label in (*labels[:row], *labels[row + 1 :])):
            raise ValueError(f"choices must differ from the labels of others, got {choice!r}")
    return Categorical(tuple(plain), labels)


def one_choice(choice: Any) -> Categorical:
    """A fixed value, labelled as a choice is, without a position."""
    choice = choice.item() if isinstance(choice, np.generic) else choice
    _check_choice(choice)
    label = choice if isinstance(choice, Scalar) else make_label(choice, None)
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
    return any(isinstance(each, Searched) for each in inside)


def make_label(choice: Any, row: int | None) -> str:
    """The name of a function, class or type, with its position among choices."""
    name = getattr(choice, "__name__", None)
    plain = (name if isinstance(name, str) else type(choice).__name__).strip("<>")  # of a lambda
    return plain if row is None else f"{plain}_{row}"


def label_of(dimension: Any, value: Any) -> Scalar:
    """What stands for the value of a dimension in a record."""
    return dimension.labels[int(value)] if isinstance(dimension, Categorical) else dimension.plain(value)


def encode_label(dimension: Any, name: str, label: Any) -> float:
    """The coordinate of a label, see ``label_of``."""
    if not isinstance(dimension, Categorical):
        return dimension.encode(name, label)
    return float(dimension.middle(dimension.row_of(name, label), np))


def is_same_scalar(value: Any, other: Any) -> bool:
    """True for equal values of one type of JSON; objects are never compared."""
    return isinstance(value, Scalar) and type(value) is type(other) and value == other


def snap_column(dimension: Dimension, name: str, column: np.ndarray) -> np.ndarray:
    """Coordinates moved to the middle of their intervals, where a dimension has any."""
    if dimension.count is None:
        return column
    values = np.asarray(dimension.decode(column, np))
    return np.array([dimension.encode(name, dimension.plain(value)) for value in values.ravel()]).reshape(column.shape)


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

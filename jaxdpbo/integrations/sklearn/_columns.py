"""Encode the columns of a table as features, by their public dimensions alone.

A number has a place between its ends, and ``KNOTS`` hat functions of this place, which add up to 1: a linear model can
bend at each knot. A category has a feature for each choice, and one for all other values. Every column has a feature
for a missing value. No feature depends on another row, and no value raises: a value that cannot be read is missing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import _silence, _user_values
from jaxdpbo._space import Categorical, Dimension, Integer, Real, Space

KNOTS = 6
WORDS = dict.fromkeys(("True", "TRUE", "true"), 1.0) | dict.fromkeys(("False", "FALSE", "false"), 0.0)
MISSING = None  # the code of a value that is missing; other codes are text and floats
NUMBERS = "biuf"  # kinds of NumPy's dtypes
OTHERS = ("complex", "date", "time", "period", "interval", "duration", "list", "array", "struct")  # no numbers: dtypes
SPELLING = (
    'columns={"age": space.real(0, 120), "sex": space.categorical("f", "m"), "id": None}, with ranges and categories '
    "that you know without the data; None leaves a column out"
)


class Encoding(NamedTuple):
    """Public dimensions of the columns, in the order of the table.

    Attributes:
      names: of all columns of a data frame; empty for an array.
      places: the position of each encoded column in the table.
      dimensions: the dimension of each encoded column.
    """

    names: tuple[Any, ...]
    places: tuple[int, ...]
    dimensions: tuple[Dimension, ...]

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(map(_width, self.dimensions))


def make_encoding(columns: Any, names: Sequence[Any], dtypes: Sequence[Any]) -> Encoding:
    """Match dimensions with the columns of a table; reads names and dtypes, no values.

    Args:
      columns: a mapping from names to dimensions, or None for a column to leave out; or a dimension for every column.
      names: of the columns of the table; numbers for an array.
      dtypes: of the columns, for the message.

    Raises:
      ValueError: a column without a dimension, or a dimension without a column.
      TypeError: ``columns`` is neither.
    """
    if isinstance(columns, Dimension):
        columns = dict.fromkeys(names, columns)
    given = _check_names(columns, names, dtypes)
    kept = [place for place, name in enumerate(names) if given[name] is not None]
    if not kept:
        raise ValueError(f"columns must keep at least one column: give {SPELLING}")
    searched = Space({f"columns[{names[place]!r}]": given[names[place]] for place in kept})  # in any spelling
    for place, name, dimension in zip(kept, searched.names, searched.dimensions, strict=True):
        if isinstance(dimension, Categorical):
            check_choices(name, dimension.choices)
        elif str(dtypes[place]).lower().startswith(OTHERS):
            raise ValueError(f"{name} must be of numbers, got {dtypes[place]}: pass numbers, such as days since a date")
        elif not np.all(np.isfinite(_encode_numbers(dimension, np.array([dimension.low, dimension.high])))):
            raise ValueError(f"{name} must have a range that floats can divide, got {dimension}")
    return Encoding(() if names == list(range(len(names))) else tuple(names), tuple(kept), searched.dimensions)


def _check_names(columns: Any, names: Sequence[Any], dtypes: Sequence[Any]) -> dict[Any, Any]:
    """Check that there is an entry for each column of the table, and no other."""
    if columns is not None and not isinstance(columns, Mapping):
        raise TypeError(f"columns must be a dict, got {type(columns).__name__}: give {SPELLING}")
    given = dict(columns or {})
    if len(set(names)) != len(names):
        raise ValueError("X must have a different name for each column")
    if unknown := [name for name in given if name not in names]:
        raise ValueError(f"columns must be among those of X, got {', '.join(map(repr, unknown))}")
    if absent := [f"{name!r} ({dtype})" for name, dtype in zip(names, dtypes, strict=True) if name not in given]:
        raise ValueError(f"columns must give the range or the categories of {', '.join(absent)}: {SPELLING}")
    return given


def encode(encoding: Encoding, columns: Sequence[Any]) -> np.ndarray:
    """Features ``(n, width)`` in float32, all in [0, 1]; ``columns``: those of the table, arrays ``(n,)``."""
    pairs = zip(encoding.places, encoding.dimensions, strict=True)
    return np.concatenate([_encode_column(dimension, columns[place]) for place, dimension in pairs], axis=1)


def category_numbers(choices: Sequence[Any], column: Any) -> np.ndarray:
    """The position of each value in ``choices``: ``(n,)``, -1 for others, -2 for missing values.

    Text that spells a number or a boolean equals this number, and spaces at its ends do not count: a table reader
    decides by all values of a column if they become text. Fractions are compared in float32.
    """
    table = {_code(choice): number for number, choice in enumerate(choices)}
    table[MISSING] = -2
    with _silence.silence():
        return np.array([table.get(_code(value), -1) for value in column], np.int32)


def real_numbers(column: Any) -> np.ndarray:
    """Each value as a number: ``(n,)`` in float64, NaN where a value is none; text and booleans as for categories."""
    with _silence.silence(), np.errstate(all="ignore"):
        if isinstance(column, np.ndarray) and column.dtype.kind in NUMBERS:
            return column.astype(float)
        values = map(_number_or_text, column)
        return np.array([value if isinstance(value, float) else np.nan for value in values], float)


def check_choices(name: str, choices: Sequence[Any]) -> None:
    """Raise ValueError if two choices have the same code, such as 1 and "1", or if one means a missing value."""
    codes = [_code(choice) for choice in choices]
    if len(set(codes)) < len(codes) or MISSING in codes:
        raise ValueError(f"{name} must differ as text and as numbers, without None and nan, got {tuple(choices)!r}")


def _width(dimension: Dimension) -> int:
    return len(dimension.choices) + 2 if isinstance(dimension, Categorical) else KNOTS + 2


def _encode_column(dimension: Dimension, column: Any) -> np.ndarray:
    if isinstance(dimension, Categorical):
        count = len(dimension.choices)
        return np.eye(count + 2, dtype=np.float32)[category_numbers(dimension.choices, column)]  # -1 and -2 are last
    return _encode_numbers(dimension, column)


def _encode_numbers(dimension: Real | Integer, column: Any) -> np.ndarray:
    values = real_numbers(column)
    missing = np.isnan(values)
    low, high = float(dimension.low), float(dimension.high)
    inside = np.clip(np.where(missing, low, values), low, high)
    if dimension.log:
        low, high, inside = math.log(low), math.log(high), np.log(inside)
    with np.errstate(all="ignore"):
        place = (inside - low) / (high - low)
    hats = np.maximum(0.0, 1.0 - np.abs(place[:, None] * (KNOTS - 1) - np.arange(KNOTS)))
    known = np.where(missing[:, None], 0.0, np.column_stack([place, hats]))
    return np.column_stack([known, missing]).astype(np.float32)


def _code(value: Any) -> str | float | None:
    """A number or text, to compare: fractions in float32, since a column may have that dtype."""
    code = _number_or_text(value)
    if isinstance(code, float) and math.isfinite(code) and not code.is_integer():
        return float(np.float32(code))
    return code


def _number_or_text(value: Any) -> str | float | None:
    """A number as a float, and text without spaces at its ends; ``MISSING`` for everything else."""
    if issubclass(type(value), str):  # neither this nor str.strip calls a method of a user's object
        text = str.strip(value)
        if text in WORDS:
            return WORDS[text]
        try:
            number = float(text)
        except ValueError:
            return text or MISSING
    else:
        number = float(_user_values.to_numbers([value], (1,))[0])
    return MISSING if math.isnan(number) else number

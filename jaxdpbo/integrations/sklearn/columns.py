"""Encode the columns of a table as features, by their public dimensions alone.

A number is scaled to [0, 1] by its range and has a basis of linear B-splines with ``KNOTS`` knots, as of scikit-learn's
spline transformer of degree 1: a linear model can bend at each knot. A category has a feature for each choice, and one
for all other values. Every column has a feature for a missing value. No feature depends on another row, and no value
raises: a value that cannot be read is missing.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import cells
from jaxdpbo.space import Categorical, Dimension, Integer, Real, Space

KNOTS = 6
COLUMNS_EXAMPLE = (
    'columns={"age": space.real(0, 120), "sex": space.categorical("f", "m"), "id": None}, with ranges and categories '
    "that you know without the data; None leaves a column out"
)


class Encoding(NamedTuple):
    """Public dimensions of the columns, in the order of the table.

    Attributes:
      names: of all columns of a data frame; empty for an array.
      positions: the position of each encoded column in the table.
      dimensions: the dimension of each encoded column.
    """

    names: tuple[Any, ...]
    positions: tuple[int, ...]
    dimensions: tuple[Dimension, ...]

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(map(_width, self.dimensions))

    def __str__(self) -> str:
        """All columns, for a person who signs for their ranges and categories."""
        names = self.names or range(max(self.positions) + 1)
        by_position = dict(zip(self.positions, self.dimensions, strict=True))
        return "; ".join(f"{name!r}: {by_position.get(place, 'left out')}" for place, name in enumerate(names))


def make_encoding(columns: Any, names: Sequence[Any]) -> Encoding:
    """Match dimensions with the columns of a table; reads names, and neither values nor dtypes.

    Args:
      columns: a mapping from names to dimensions, or None for a column to leave out; or a dimension for every column.
      names: of the columns of the table; numbers for an array.

    Raises:
      ValueError: a column without a dimension, or a dimension without a column.
      TypeError: ``columns`` is neither a dict nor a dimension.
    """
    if isinstance(columns, Dimension):
        columns = dict.fromkeys(names, columns)
    by_name = _check_names(columns, names)
    used = [position for position, name in enumerate(names) if by_name[name] is not None]
    if not used:
        raise ValueError(f"columns must keep at least one column: give {COLUMNS_EXAMPLE}")
    space = Space({f"columns[{names[position]!r}]": by_name[names[position]] for position in used})  # in any spelling
    for name, dimension in zip(space.names, space.dimensions, strict=True):
        if isinstance(dimension, Categorical):
            cells.check_choices(name, dimension.choices)
        elif not np.all(np.isfinite(_encode_numbers(dimension, np.array([dimension.low, dimension.high])))):
            raise ValueError(f"{name} has a range too wide or narrow for floats, got {dimension}: choose other ends")
    return Encoding(() if names == list(range(len(names))) else tuple(names), tuple(used), space.dimensions)


def _check_names(columns: Any, names: Sequence[Any]) -> dict[Any, Any]:
    """Check that there is an entry for each column of the table, and no other."""
    if columns is not None and not isinstance(columns, Mapping):
        raise TypeError(f"columns must be a dict, got {type(columns).__name__}: give {COLUMNS_EXAMPLE}")
    by_name = dict(columns or {})
    if len(set(names)) != len(names):
        raise ValueError(f"X must have a different name for each column, got {_join(names)}")
    if unknown := [name for name in by_name if name not in names]:
        raise ValueError(f"columns has entries that X lacks: {_join(unknown)}; X has {_join(names)}")
    if absent := [name for name in names if name not in by_name]:  # without dtypes, which a reader chose by the cells
        raise ValueError(f"columns must give the range or the categories of {_join(absent)}: {COLUMNS_EXAMPLE}")
    return by_name


def encode(encoding: Encoding, columns: Sequence[Any]) -> np.ndarray:
    """Features ``(n, width)`` in float32, all in [0, 1]; ``columns``: those of the table, arrays ``(n,)``."""
    pairs = zip(encoding.positions, encoding.dimensions, strict=True)
    return np.concatenate([_encode_column(dimension, columns[position]) for position, dimension in pairs], axis=1)


def _join(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names))


def _width(dimension: Dimension) -> int:
    return len(dimension.choices) + 2 if isinstance(dimension, Categorical) else KNOTS + 2


def _encode_column(dimension: Dimension, column: Any) -> np.ndarray:
    if isinstance(dimension, Categorical):
        count = len(dimension.choices)
        return np.eye(count + 2, dtype=np.float32)[
            cells.category_numbers(dimension.choices, column)
        ]  # -1 and -2 are last
    return _encode_numbers(dimension, column)


@np.errstate(all="ignore")  # where your process makes underflow an error, one value would raise it
def _encode_numbers(dimension: Real | Integer, column: Any) -> np.ndarray:
    values = cells.real_numbers(column, dimension.text)
    missing = np.isnan(values)
    low, high = float(dimension.low), float(dimension.high)
    clipped = np.clip(np.where(missing, low, values), low, high)
    if dimension.log:
        low, high, clipped = math.log(low), math.log(high), np.log(clipped)
    scaled = (clipped - low) / (high - low)
    basis = np.maximum(0.0, 1.0 - np.abs(scaled[:, None] * (KNOTS - 1) - np.arange(KNOTS)))
    features = np.where(missing[:, None], 0.0, np.column_stack([scaled, basis]))
    return np.column_stack([features, missing]).astype(np.float32)

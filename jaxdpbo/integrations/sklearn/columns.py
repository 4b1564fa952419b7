"""Encode the columns of a table as features, by their public dimensions alone.

A number is scaled to [0, 1] by its range. Its features are a smooth basis on ``knots`` knots: hats (linear B-splines)
times the Cholesky factor of a kernel, so that a ridge prefers smooth functions of the number and a linear model may
bend at each knot. A category has a feature for each choice, and one for all other values. Every column has a feature
for a missing value. Two numbers or more also have ``WAVES`` pairs of random Fourier features (Rahimi and Recht 2007) of
public frequencies, for their interactions. No feature depends on another row, and no value raises: a value that cannot
be read is missing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import cells
from jaxdpbo import space as spaces
from jaxdpbo.space import Categorical, Dimension, Integer, Real, real
from jaxdpbo.tuning import private_ranges

FOUND = "found in the rows"
FEW_KNOTS, MANY_KNOTS = 2, 16
SPLINES = 1200  # features of all columns, about: with more columns there are fewer knots
MOST = 1500  # features that are trained; above, so many public random combinations of them
KERNEL = (0.5, 0.3), (0.5, 0.07)  # weight and lengthscale, of a number in [0, 1]
WAVES, WAVE_SHARE = 64, 0.2  # pairs; share of the squared norm
WAVE_LENGTHS = 0.15, 0.3  # lengthscales, times the root of the number of numbers
COLUMNS_EXAMPLE = (
    'columns={"age": space.real(0, 120), "sex": space.categorical("f", "m"), "id": None}, with ranges and categories '
    "that you know without the data; None leaves a column out, and 'private' with private_range=0.05 finds a range in "
    "the rows, for that share of the budget"
)
PRIVATE = "private"  # in place of a range
GRID = 101  # numbers of a range in a picture


class Encoding(NamedTuple):
    """Public dimensions of the columns, in the order of the table.

    Attributes:
      names: of all columns of a data frame; empty for an array.
      positions: the position of each encoded column in the table.
      dimensions: the dimension of each encoded column.
      private: the places in ``dimensions`` of the ranges that are found in the rows.
    """

    names: tuple[Any, ...]
    positions: tuple[int, ...]
    dimensions: tuple[Dimension, ...]
    private: tuple[int, ...] = ()

    @property
    def private_columns(self) -> list[Any]:
        """The names of the columns whose ranges are found in the rows."""
        places = [self.positions[place] for place in self.private]
        return [self.names[place] if self.names else place for place in places]

    def with_ranges(self, ranges: np.ndarray) -> "Encoding":
        """The encoding with the found ``ranges (p, 2)``."""
        found = dict(zip(self.private, (real(low, high) for low, high in ranges.tolist()), strict=True))
        return self._replace(dimensions=tuple(found.get(place, of) for place, of in enumerate(self.dimensions)))

    @property
    def knots(self) -> int:
        """Of each number: fewer with many columns."""
        return min(max(SPLINES // len(self.dimensions) - 1, FEW_KNOTS), MANY_KNOTS)

    @property
    def waves(self) -> int:
        """Pairs of random Fourier features."""
        return WAVES if sum(map(_is_number, self.dimensions)) > 1 else 0

    @property
    def width(self) -> int:
        """The number of features."""
        return sum(_width(each, self.knots) for each in self.dimensions) + 2 * self.waves

    @property
    def declared(self) -> dict[str, str]:
        """What is public of columns with found ranges, without the numbers found; nothing if none was found."""
        if not self.private:
            return {}
        found = [FOUND if place in self.private else str(of) for place, of in enumerate(self.dimensions)]
        return {"columns": self._describe(found)}

    @property
    def to_sign(self) -> str:
        """All columns, and what a person who signs must confirm."""
        which = "all other" if self.private else "these"
        confirm = f"Confirm that {which} ranges and categories come from a codebook, and not from the rows"
        return f"{self._mark_found(_in_words)}. {confirm}"

    @property
    def trained_width(self) -> int:
        """The number of features of ``unit_features``."""
        return min(self.width + 1, MOST)

    @property
    def squared_norm(self) -> float:
        """The largest squared norm of a row of features, with the constant of a bias."""
        blocks = len(self.dimensions) + 1.0
        return blocks / (1 - WAVE_SHARE) if self.waves else blocks

    def __str__(self) -> str:
        """All columns, for a person who signs for their ranges and categories."""
        return self._mark_found(str)

    def _mark_found(self, spell: Callable[[Dimension], str]) -> str:
        words = [spell(of) + f", {FOUND}" * (place in self.private) for place, of in enumerate(self.dimensions)]
        return self._describe(words)

    def _describe(self, described: Sequence[str]) -> str:
        names = self.names or range(max(self.positions) + 1)
        by_position = dict(zip(self.positions, described, strict=True))
        return "; ".join(f"{name!r}: {by_position.get(place, 'left out')}" for place, name in enumerate(names))


def _in_words(dimension: Dimension) -> str:
    """A dimension for a person who signs: all digits of its ends, and all choices."""
    if isinstance(dimension, Categorical):
        return f"one of {', '.join(map(str, dimension.labels))}"
    kind = "whole numbers" if isinstance(dimension, Integer) else "numbers"
    low, high = (repr(end).removesuffix(".0") for end in (dimension.low, dimension.high))
    spelled = "" if dimension.text is None else f", as text with {vars(dimension.text)}"
    return f"{kind} from {low} to {high}{', in logarithms' if dimension.log else ''}{spelled}"


def make_encoding(columns: Any, names: Sequence[Any]) -> Encoding:
    """Match dimensions with the columns of a table; reads names, and neither values nor dtypes.

    Args:
      columns: a mapping from names to dimensions, None for a column to leave out, or "private" for a range to find,
        here that of all numbers; or one of these for every column.
      names: of the columns of the table; numbers for an array.

    Raises:
      ValueError: a column without a dimension, or a dimension without a column.
      TypeError: ``columns`` is neither a dict nor a dimension.
    """
    if is_for_all(columns):
        columns = dict.fromkeys(names, columns)
    by_name = _check_names(columns, names)
    used = [position for position, name in enumerate(names) if by_name[name] is not None]
    if not used:
        raise ValueError(f"columns must keep at least one column: give {COLUMNS_EXAMPLE}")
    kept = spaces.by_name({f"columns[{names[position]!r}]": _range(names[position], by_name) for position in used})
    for name, dimension in kept.items():
        if isinstance(dimension, Categorical):
            cells.check_choices(name, dimension.choices)
        elif not _has_places(dimension):
            raise ValueError(f"{name} has a range too wide or narrow for floats, got {dimension}: choose other ends")
    private = tuple(place for place, position in enumerate(used) if is_private(by_name[names[position]]))
    named = () if names == list(range(len(names))) else tuple(names)
    return Encoding(named, tuple(used), tuple(kept.values()), private)


def is_private(dimension: Any) -> bool:
    """True in place of a range that is to be found in the rows."""
    return isinstance(dimension, str) and dimension == PRIVATE


def is_for_all(columns: Any) -> bool:
    """True for one dimension of all columns."""
    return isinstance(columns, Dimension) or is_private(columns)


def _range(name: Any, by_name: Mapping[Any, Any]) -> Any:
    """A pair of numbers as the range that it means; other spellings as they are."""
    dimension = by_name[name]
    if is_private(dimension):
        return real(-private_ranges.LARGEST, private_ranges.LARGEST)
    if not (isinstance(dimension, tuple) and len(dimension) == 2 and all(map(_is_real, dimension))):
        return dimension
    try:
        return real(*dimension)
    except ValueError as error:
        raise ValueError(f"columns[{name!r}]: {error}") from None


def _is_real(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


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


@np.errstate(all="ignore")  # where your process makes underflow an error, one value would raise it
def encode(encoding: Encoding, columns: Sequence[Any]) -> np.ndarray:
    """Features ``(n, width)`` in float32; ``columns``: those of the table, arrays ``(n,)``.

    Each block of a column has a norm of at most 1, since hats are weights of a mean and a kernel is at most 1; all
    waves together have a constant norm.
    """
    pairs = zip(encoding.positions, encoding.dimensions, strict=True)
    blocks, scaled = [], []
    for position, dimension in pairs:
        if isinstance(dimension, Categorical):
            flags = np.eye(len(dimension.choices) + 2, dtype=np.float32)  # -1 and -2 are last
            blocks.append(flags[cells.category_numbers(dimension.choices, columns[position])])
        else:
            place, missing = _places(dimension, columns[position])
            blocks.append(_basis(place, missing, encoding.knots))
            scaled.append(np.where(missing, 0.5, place))
    if encoding.waves:
        angles = np.column_stack(scaled) @ _frequencies(len(scaled))
        norm = math.sqrt(WAVE_SHARE * encoding.squared_norm / WAVES)
        blocks.append((norm * np.concatenate([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32))
    return np.concatenate(blocks, axis=1)


def feature_names(encoding: Encoding) -> list[str]:
    """Names of the features of ``encode``."""
    names = []
    for position, dimension in zip(encoding.positions, encoding.dimensions, strict=True):
        name = encoding.names[position] if encoding.names else f"x{position}"
        if isinstance(dimension, Categorical):
            names += [f"{name}={choice}" for choice in dimension.choices] + [f"{name} missing", f"{name} other"]
        else:
            names += [f"{name} spline {knot}" for knot in range(encoding.knots)] + [f"{name} missing"]
    return names + [f"{kind} wave {wave}" for kind in ("cos", "sin") for wave in range(encoding.waves)]


def public_columns(encoding: Encoding, name: Any, at: Mapping[Any, Any]) -> tuple[Any, list[Any]]:
    """Made-up columns of a table along one column, for a picture of a model: its values, and all columns.

    The values are ``GRID`` numbers of the range, or the choices and None, a missing value. Other numbers are at the
    middle of their ranges, and other categories are missing, but for the values ``at``.

    Raises:
      ValueError: a column that is not encoded.
    """
    places = range(max(encoding.positions) + 1)
    names = list(encoding.names or places)
    by_name = {names[position]: of for position, of in zip(encoding.positions, encoding.dimensions, strict=True)}
    for each in (name, *at):
        if each not in by_name:
            raise ValueError(f"column must be one of {_join(list(by_name))}, got {each!r}")
    along = by_name[name]
    ways = np.linspace(0.0, 1.0, GRID)
    values = [*along.choices, None] if isinstance(along, Categorical) else [_number_at(along, way) for way in ways]
    made = {}
    for each, of in by_name.items():
        middle = None if isinstance(of, Categorical) else _number_at(of, 0.5)
        made[each] = values if each == name else [at.get(each, middle)] * len(values)
    empty = [None] * len(values)
    columns = []
    for each in names:
        column = np.empty(len(values), dtype=object)
        column[:] = made.get(each, empty)
        columns.append(column)
    return values, columns


def _number_at(dimension: Real | Integer, place: float) -> float:
    low, high = float(dimension.low), float(dimension.high)
    return low * (high / low) ** place if dimension.log else low + (high - low) * place


@np.errstate(all="ignore")
def unit_features(encoding: Encoding, encoded: np.ndarray) -> np.ndarray:
    """Features ``(n, d)`` of l2 norm at most 1 to train on, with a constant, from those of ``encode``.

    Above ``MOST`` features: so many public random combinations; a combination that is longer than 1 is shortened where
    it is trained.
    """
    constant = np.ones((len(encoded), 1), encoded.dtype)
    features = np.concatenate([encoded, constant], axis=1) / np.float32(math.sqrt(encoding.squared_norm))
    return features if encoding.width < MOST else features @ _combinations(encoding.width + 1)


def layer_of_weights(encoding: Encoding, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias on the features of ``encode`` that equal ``weights (d, k)`` on ``unit_features``."""
    full = weights if encoding.width < MOST else _combinations(encoding.width + 1) @ weights
    full = full / np.float32(math.sqrt(encoding.squared_norm))
    return full[:-1], full[-1]


def _join(names: Sequence[Any]) -> str:
    return ", ".join(map(repr, names))


def _is_number(dimension: Dimension) -> bool:
    return not isinstance(dimension, Categorical)


def _width(dimension: Dimension, knots: int) -> int:
    return len(dimension.choices) + 2 if isinstance(dimension, Categorical) else knots + 1


@np.errstate(all="ignore")
def _has_places(dimension: Real | Integer) -> bool:
    return bool(np.all(np.isfinite(_places(dimension, np.array([dimension.low, dimension.high]))[0])))


def _places(dimension: Real | Integer, column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The numbers in [0, 1], and which are missing, ``(n,)``."""
    values = cells.real_numbers(column, dimension.text)
    missing = np.isnan(values)
    low, high = float(dimension.low), float(dimension.high)
    clipped = np.clip(np.where(missing, low, values), low, high)
    if dimension.log:
        low, high, clipped = math.log(low), math.log(high), np.log(clipped)
    return (clipped - low) / (high - low), missing


def _basis(place: np.ndarray, missing: np.ndarray, knots: int) -> np.ndarray:
    hats = np.maximum(0.0, 1.0 - np.abs(place[:, None] * (knots - 1) - np.arange(knots)))
    features = np.where(missing[:, None], 0.0, hats @ _smoothing(knots))
    return np.column_stack([features, missing]).astype(np.float32)


@lru_cache(maxsize=32)
def _smoothing(knots: int) -> np.ndarray:
    """The Cholesky factor of the kernel between knots: unique, so that a saved model means the same elsewhere."""
    apart = np.subtract.outer(np.linspace(0, 1, knots), np.linspace(0, 1, knots))
    kernel = sum(weight * np.exp(-0.5 * np.square(apart / length)) for weight, length in KERNEL)
    return np.linalg.cholesky(kernel)


@lru_cache(maxsize=32)
def _frequencies(numbers: int) -> np.ndarray:
    """Public frequencies ``(numbers, WAVES)``, half of them for each lengthscale."""
    lengths = np.repeat(WAVE_LENGTHS, WAVES // len(WAVE_LENGTHS)) * math.sqrt(numbers)
    return _public_normals(0, (numbers, WAVES)) / lengths


@lru_cache(maxsize=2)
def _combinations(features: int) -> np.ndarray:
    return (_public_normals(1, (features, MOST)) / math.sqrt(MOST)).astype(np.float32)


def _public_normals(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers that are the same in every release of NumPy: a saved model needs them again."""
    return np.random.RandomState(seed).standard_normal(shape)

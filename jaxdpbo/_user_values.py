"""Convert users' values to arrays so that one user's value cannot raise, warn, print, or affect another user's.

A loss or a leaf of data may hold anything: NumPy's complaints would quote it, and NumPy derives one type for all
values, so that beside an integer of 70 bits or a text the others would become objects or texts, and beside a list there
would be no array. Every function here is total in the values; an error follows from types of containers and from shapes
alone, which are public. The dtype of a numeric array is public too (``guarantee.PUBLIC_CONFIG``) and is kept. All
other arrays become float64, element by element, and NaN where an element is no number.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _silence
from jaxdpbo.types import DTypeLike, Tree, Unchecked

LEVELS = 4  # of lists in lists; what is deeper is NaN, a list that holds itself among it
PLAIN = {bool, int, float, np.bool_, *(np.dtype(code).type for code in "bhilqBHILQefd")}
LISTS = (
    "data must not hold lists, whose types follow from their values: numpy.asarray(data) makes one array, tuple(data) "
    "keeps several arrays apart, and traceable=False passes data to a Python objective untouched"
)


def to_losses(name: str, returned: Unchecked, shape: tuple[int, ...] | None, dtype: DTypeLike) -> np.ndarray:
    """Convert what the function ``name`` returned to real numbers.

    Args:
      name: of the function, for errors.
      returned: an array, a list or tuple, an array-like such as a Series.
      shape: of the result; None where the function may return any: ragged elements are then NaN.
      dtype: of the result.

    Raises:
      ValueError: it has another shape; says no value.
    """
    with _silence.silence():
        found = to_numbers(returned, shape).astype(dtype)
    if shape is not None and found.shape != shape:
        wanted = "values of" if found.shape or len(shape) > 1 else "one loss per user, not their mean:"
        raise ValueError(f"{name} must return {wanted} shape {shape}, got shape {found.shape}")
    return found


def to_data(data: Tree) -> Any:
    """Convert the leaves of ``data`` that are no arrays of numbers, as far as they hold numbers; keep all others.

    Arrays of objects, texts and the like become float64. Tuples, dicts and other trees are trees. What is neither an
    array nor a number stays as it is.

    Raises:
      TypeError: the tree holds a list.
    """
    if any(isinstance(leaf, list) for leaf in leaves(data)):
        raise TypeError(LISTS)
    with _silence.silence():
        return jax.tree.map(_to_leaf, data)


def to_jax(data: Tree) -> Any:
    """Convert data to JAX arrays: numbers as JAX takes them, everything else as ``to_data`` does.

    Raises:
      TypeError: the tree holds a list, or a leaf that is neither an array nor a number.
    """
    found = to_data(data)
    if not all(map(is_numeric, jax.tree.leaves(found))):
        raise TypeError("data must be a pytree of arrays of numbers")
    with _silence.silence():
        return jax.tree.map(_to_jax, found)


def leaves(data: Tree) -> list[Any]:
    """The leaves of data, lists among them: inside of a list are records, and some objects stop ``jax.tree``."""
    return jax.tree.leaves(data, is_leaf=lambda leaf: isinstance(leaf, list))


def is_numeric(leaf: Unchecked) -> bool:
    """Whether JAX has an array for a leaf that ``to_data`` returned: its type says so."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool
    return isinstance(leaf, (jax.Array, bool, int, float, complex))


def to_numbers(values: Unchecked, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Convert values to an array of real numbers; of elements that are none NaN. Call it in ``silence``.

    Numeric arrays keep their dtype, but for complex ones: a square root, say, of all, one user's of a negative number.

    Args:
      values: anything.
      shape: that is expected: a sequence whose length is the first of it is converted element by element, and an
        element of another shape than the rest is NaN. None: the shape that most elements have.
    """
    return _to_real(values, shape, LEVELS)


def _to_real(values: Any, shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    found: Any = _to_array_of_numbers(values, shape, levels)
    return np.where(found.imag == 0, found.real, np.nan) if found.dtype.kind == "c" else found


def _to_array_of_numbers(values: Any, shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    if isinstance(values, jax.Array) and not jnp.issubdtype(values.dtype, jax.dtypes.extended):
        values = np.asarray(values)
    if not isinstance(values, (np.ndarray, list, tuple)):
        values = _to_array(values, shape)
    if isinstance(values, np.ndarray):
        return _from_array(values, shape, levels)
    if _is_plain(values):  # a list of a million losses is one call
        found = np.asarray(values)
        if found.dtype.kind in "biuf":
            return found.astype(np.float64)
    return _from_sequence(values, shape, levels)


def _is_plain(values: Sequence[Any]) -> bool:
    """Whether all are Python's or NumPy's own numbers; a stranger's type may have a hash that raises."""
    try:
        return set(map(type, values)) <= PLAIN
    except Exception:
        return False


def _to_leaf(leaf: Any) -> Any:
    if isinstance(leaf, np.ma.MaskedArray) or (isinstance(leaf, np.ndarray) and not is_numeric(leaf)):
        return to_numbers(leaf)
    return leaf


def _to_jax(leaf: Any) -> jax.Array:
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        largest = int(jnp.iinfo(jnp.result_type(int)).max)
        leaf = min(max(leaf, -largest - 1), largest)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.char in "gG":  # extended precision
        leaf = leaf.astype(np.float64 if leaf.dtype.char == "g" else np.complex128)
    return jnp.asarray(leaf)


def _to_array(values: Any, shape: tuple[int, ...] | None) -> np.ndarray | list[Any]:
    """An array-like's array, or a list of the elements of another sequence; NaN where neither can be had."""
    try:
        if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
            return list(values)
        return np.asarray(values)
    except _silence.STOPS:
        raise
    except BaseException:
        try:
            return list(values)
        except _silence.STOPS:
            raise
        except BaseException:
            return np.full(() if shape is None else shape, np.nan)


def _from_array(values: np.ndarray, shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        kept = _from_array(np.asarray(values.data), shape, levels)
        hidden = np.ma.getmaskarray(values)
        if kept.shape != hidden.shape or values.dtype.names:
            return kept
        return np.where(hidden, np.nan, kept.astype(np.complex128 if kept.dtype.kind == "c" else np.float64))
    kind = values.dtype.kind
    if kind in "biufc":
        return np.asarray(values)
    if is_numeric(values):  # bfloat16 and its like
        return values.astype(np.float64)
    if kind == "m":  # integers become these beside one, and keep their numbers
        return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))
    if kind == "O" and shape is not None and shape[1:] and values.shape == shape[:1]:  # of rows
        return _from_sequence(list(values), shape, levels)
    return np.array([_to_scalar(value, levels) for value in values.flat], np.float64).reshape(values.shape)


def _from_sequence(values: Sequence[Any], shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    """Float64, element by element, in the shape that is expected, or in the one that most elements have."""
    if shape is not None and shape == (len(values),):
        return np.array([_to_scalar(value, levels) for value in values], np.float64)
    inner = shape[1:] if shape is not None and len(values) == shape[0] else None
    elements = [_to_element(value, levels - 1, inner) for value in values]
    if inner is None:
        inner = Counter(element.shape for element in elements).most_common(1)[0][0] if elements else ()
    found = np.full((len(values), *inner), np.nan)
    for place, element in enumerate(elements):
        if element.shape == inner:
            found[place] = element
    return found


def _to_scalar(value: Any, levels: int) -> float:
    """One user's number; an array or a list of one number counts as that number."""
    element = _to_element(value, levels - 1)
    return float(element.reshape(-1)[0]) if element.size == 1 else np.nan


def _to_element(value: Any, levels: int, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """One user's value as numbers of its own."""
    try:
        if not isinstance(value, (list, tuple, np.ndarray, jax.Array)) or value is np.ma.masked:
            return np.asarray(_to_float(value))
        return _to_real(value, shape, levels) if levels else np.asarray(np.nan)
    except _silence.STOPS:
        raise
    except BaseException:  # by its own methods, or its type's
        return np.asarray(np.nan)


def _to_float(value: Any) -> float:
    """The number that one value is, or NaN, whatever it raises."""
    try:
        if isinstance(value, np.timedelta64):  # a whole number to NumPy, among whole numbers
            return np.nan if np.isnat(value) else float(value.astype(np.int64))
        if isinstance(value, (str, bytes, Real, Decimal)):
            return float(value)
        number = np.asarray(value)  # NumPy's and JAX's scalars
        if number.ndim or number.dtype.kind not in "biufcV" or number.dtype.names or value is np.ma.masked:
            return np.nan
        if number.dtype.kind == "c":
            whole = complex(number)
            return whole.real if whole.imag == 0 else np.nan
        return float(number.astype(float))  # bfloat16 and its like among them
    except OverflowError:
        return _signed_infinity(value)
    except _silence.STOPS:
        raise
    except BaseException:
        return np.nan


def _signed_infinity(value: Any) -> float:
    """Of a number beyond the floats, such as an integer of 2,000 bits."""
    try:
        return np.inf if value > 0 else -np.inf
    except _silence.STOPS:
        raise
    except BaseException:
        return np.nan

"""Convert users' values to arrays so a user's value cannot raise, warn, print, or affect another user's value.

A loss or a leaf of data may hold any object. NumPy derives a common dtype: a single integer of 70 bits or a single
string turns every element into an object or a string, a list prevents the array, and NumPy's error quotes the values.
The functions of this module accept any value. They raise only because of container types and shapes, which are public.
The dtype of a numeric array is public too (``assumptions.PUBLIC_CONFIG``), and stays the same. All other arrays become
float64, element by element; elements other than numbers become NaN. A date or a time counts in seconds since 1970, in
UTC; a NumPy duration counts in the unit of its dtype.
"""

import datetime
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import silence
from jaxdpbo.types import DTypeLike, Tree, Unchecked

LEVELS = 4  # depth of nested lists; deeper lists are NaN, so a list inside itself ends
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
FRACTIONS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}  # of a second
MULTIPLES = {"m": 60, "h": 3600, "D": 86400}
PLAIN = {bool, int, float, np.bool_, *(np.dtype(code).type for code in "bhilqBHILQefd")}
LISTS = (
    "data must not hold lists, since their types follow from their values: numpy.asarray(data) makes one array, "
    "tuple(data) keeps several arrays apart, and traceable=False passes data to a Python objective untouched"
)


def to_losses(name: str, returned: Unchecked, shape: tuple[int, ...] | None, dtype: DTypeLike) -> np.ndarray:
    """Convert the values returned by the function ``name`` to real numbers.

    Args:
      name: the function's name, for error messages.
      returned: an array, a list or tuple, or an array-like such as a Series.
      shape: the expected shape; None if the function may return any shape, where ragged elements become NaN.
      dtype: the dtype of the result.

    Raises:
      ValueError: the result has another shape. The message quotes no value.
    """
    with silence.silence():
        result = to_numbers(returned, shape).astype(dtype)
    if shape is not None and result.shape != shape:
        expected = "values of" if result.shape or len(shape) > 1 else "one loss per user, not their mean:"
        raise ValueError(f"{name} must return {expected} shape {shape}, got shape {result.shape}")
    return result


def to_data(data: Tree) -> Any:
    """Convert masked arrays and arrays of objects, strings and other non-numbers to float64; keep all other leaves.

    Tuples, dicts and other registered containers are trees. Leaves other than NumPy arrays stay unchanged.

    Raises:
      TypeError: the tree holds a list.
    """
    if any(is_instance(leaf, list) for leaf in leaves(data)):
        raise TypeError(LISTS)
    with silence.silence():
        return jax.tree.map(_to_leaf, data)


def to_jax(data: Tree) -> Any:
    """Convert data with ``to_data``, then to JAX arrays. Integers are clipped to the range of JAX's integers.

    Raises:
      TypeError: the tree holds a list, or a leaf other than an array or a number.
    """
    result = to_data(data)
    if not all(map(is_numeric, jax.tree.leaves(result))):
        raise TypeError("data must be a pytree of arrays of numbers")
    with silence.silence():
        return jax.tree.map(_to_jax, result)


def leaves(data: Tree) -> list[Any]:
    """The leaves of data, with lists as leaves: a list holds records, and ``jax.tree`` fails on some objects."""
    return jax.tree.leaves(data, is_leaf=lambda leaf: is_instance(leaf, list))


def is_instance(leaf: object, *kinds: type) -> bool:
    """True for an instance of a kind, by its own type: ``isinstance`` runs code of odd records, which may raise."""
    return any(base is kind for base in type(leaf).__mro__ for kind in kinds)


def is_numeric(leaf: Any) -> bool:
    """True if JAX can make an array of a leaf from ``to_data``. Reads the type and dtype only."""
    if is_instance(leaf, np.ndarray, np.generic):
        return jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool
    return is_instance(leaf, jax.Array, Tracer, bool, int, float, complex)


def declares_wide_integers(value: Any) -> bool:
    """True for an array of NumPy of 64-bit integers: the caller chose its dtype, which no element did."""
    return is_instance(value, np.ndarray) and value.dtype.kind in "iu" and value.dtype.itemsize == 8


def to_numbers(values: Unchecked, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Convert values to an array of real numbers; other elements become NaN.

    Call ``to_numbers`` in ``silence``. Numeric arrays keep their dtype, but complex arrays become real:
    ``numpy.emath.sqrt`` of all users' values is complex if a single value is negative.

    Args:
      values: any object.
      shape: the expected shape. A sequence of length ``shape[0]`` is converted element by element, and an element of
        another shape than ``shape[1:]`` becomes NaN. None expects the most frequent shape of the elements.
    """
    return _to_real(values, shape, LEVELS)


def _to_real(values: Any, shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    result: Any = _to_array_of_numbers(values, shape, levels)
    return np.where(result.imag == 0, result.real, np.nan) if result.dtype.kind == "c" else result


def _to_array_of_numbers(values: Any, shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    if isinstance(values, jax.Array) and not jnp.issubdtype(values.dtype, jax.dtypes.extended):
        values = np.asarray(values)
    if not isinstance(values, (np.ndarray, list, tuple)):
        values = _to_array(values, shape)
    if isinstance(values, np.ndarray):
        return _from_array(values, shape, levels)
    if _is_plain(values):  # fast path: one NumPy call for a list of a million losses
        result = np.asarray(values)
        if result.dtype.kind in "biuf":
            return result.astype(np.float64)
    return _from_sequence(values, shape, levels)


def _is_plain(values: Sequence[Any]) -> bool:
    """True if all values have number types of Python or NumPy. The hash of a third-party type may raise."""
    try:
        return set(map(type, values)) <= PLAIN
    except silence.STOPS:
        raise
    except BaseException:
        return False


def _to_leaf(leaf: Any) -> Any:
    if is_instance(leaf, np.ma.MaskedArray) or (is_instance(leaf, np.ndarray) and not is_numeric(leaf)):
        return to_numbers(leaf)
    return leaf


def _to_jax(leaf: Any) -> jax.Array:
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        largest = int(jnp.iinfo(jnp.result_type(int)).max)
        leaf = min(max(leaf, -largest - 1), largest)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "iu":  # without x64 JAX wraps 64 bits to 32
        narrow = jax.dtypes.canonicalize_dtype(leaf.dtype)
        if narrow != leaf.dtype:
            leaf = np.clip(leaf, np.iinfo(narrow).min, np.iinfo(narrow).max).astype(narrow)
    if isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.char in "gG":  # extended precision
        leaf = leaf.astype(np.float64 if leaf.dtype.char == "g" else np.complex128)
    return jnp.asarray(leaf)


def _to_array(values: Any, shape: tuple[int, ...] | None) -> np.ndarray | list[Any]:
    """An array-like's array, or a list of the elements of another sequence; NaN where neither can be had."""
    try:
        if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
            return list(values)
        return np.asarray(values)
    except silence.STOPS:
        raise
    except BaseException:
        try:
            return list(values)
        except silence.STOPS:
            raise
        except BaseException:
            return np.full(() if shape is None else shape, np.nan)


def _from_array(values: np.ndarray, shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        unmasked = _from_array(np.asarray(values.data), shape, levels)
        masked = np.ma.getmaskarray(values)
        if unmasked.shape != masked.shape or values.dtype.names:
            return unmasked
        return np.where(masked, np.nan, unmasked.astype(np.complex128 if unmasked.dtype.kind == "c" else np.float64))
    kind = values.dtype.kind
    if kind in "biufc":
        return np.asarray(values)
    if is_numeric(values):  # bfloat16 and other extension dtypes
        return values.astype(np.float64)
    if kind == "M":
        return _to_seconds(values)
    if kind == "m":  # NumPy turns integers beside a timedelta into timedeltas: keep the integer
        return np.where(np.isnat(values), np.nan, values.astype(np.int64).astype(np.float64))
    if kind == "O" and shape is not None and shape[1:] and values.shape == shape[:1]:  # objects that are rows
        return _from_sequence(list(values), shape, levels)
    return np.array([_to_scalar(value, levels) for value in values.flat], np.float64).reshape(values.shape)


def _from_sequence(values: Sequence[Any], shape: tuple[int, ...] | None, levels: int) -> np.ndarray:
    """Convert to float64, element by element, in the expected shape or in the elements' most frequent one."""
    if shape is not None and shape == (len(values),):
        return np.array([_to_scalar(value, levels) for value in values], np.float64)
    inner = shape[1:] if shape is not None and len(values) == shape[0] else None
    elements = [_to_element(value, levels - 1, inner) for value in values]
    if inner is None:
        inner = Counter(element.shape for element in elements).most_common(1)[0][0] if elements else ()
    result = np.full((len(values), *inner), np.nan)
    for row, element in enumerate(elements):
        if element.shape == inner:
            result[row] = element
    return result


def _to_scalar(value: Any, levels: int) -> float:
    """Convert one user's value to a number. An array or a list of one number is that number."""
    element = _to_element(value, levels - 1)
    return float(element.reshape(-1)[0]) if element.size == 1 else np.nan


def _to_element(value: Any, levels: int, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Convert one user's value to an array, independent of all other values; NaN if it raises."""
    try:
        if not isinstance(value, (list, tuple, np.ndarray, jax.Array)) or value is np.ma.masked:
            return np.asarray(_to_float(value))
        return _to_real(value, shape, levels) if levels else np.asarray(np.nan)
    except silence.STOPS:
        raise
    except BaseException:  # a method of the value or of its type raised
        return np.asarray(np.nan)


def _number(value: Any) -> float:
    return np.nan if has_underscore(value) else float(value)


def has_underscore(value: Any) -> bool:
    """True for text such as "1_23", which Python alone reads as a number: here it is text, as in ids and categories."""
    return isinstance(value, (str, bytes)) and ("_" in value if isinstance(value, str) else b"_" in value)


def _to_float(value: Any) -> float:
    """Convert one value to a float; NaN if it is not a real number or raises."""
    try:
        if isinstance(value, np.timedelta64):  # as in _from_array
            return np.nan if np.isnat(value) else float(value.astype(np.int64))
        if isinstance(value, np.datetime64):
            return float(_to_seconds(np.asarray(value)))
        if isinstance(value, datetime.date):
            return _seconds_of_date(value)
        if isinstance(value, (str, bytes, Real, Decimal)):
            return _number(value)
        number = np.asarray(value)  # NumPy's and JAX's scalars
        if number.ndim or number.dtype.kind not in "biufcV" or number.dtype.names or value is np.ma.masked:
            return np.nan
        if number.dtype.kind == "c":
            whole = complex(number)
            return whole.real if whole.imag == 0 else np.nan
        return float(number.astype(float))  # bfloat16 too
    except OverflowError:
        return _signed_infinity(value)
    except silence.STOPS:
        raise
    except BaseException:
        return np.nan


def _to_seconds(dates: np.ndarray) -> np.ndarray:
    """Seconds since 1970, NaN for no date: a count in the unit of the dtype would change with one value's unit."""
    unit, step = np.datetime_data(dates.dtype)
    if unit in ("Y", "M", "W"):
        dates, unit, step = dates.astype("datetime64[D]"), "D", 1
    counts = dates.astype(np.int64).astype(np.float64) * (step * MULTIPLES.get(unit, 1)) / FRACTIONS.get(unit, 1)
    return np.where(np.isnat(dates), np.nan, counts)


def _seconds_of_date(value: datetime.date) -> float:
    """Seconds since 1970 of a date, or of a time, which is in UTC if it names no zone."""
    if not isinstance(value, datetime.datetime):
        value = datetime.datetime.combine(value, datetime.time())
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return (value - EPOCH).total_seconds()


def _signed_infinity(value: Any) -> float:
    """Plus or minus infinity for a number too large for a float, such as an integer of 2,000 bits."""
    try:
        return np.inf if value > 0 else -np.inf
    except silence.STOPS:
        raise
    except BaseException:
        return np.nan

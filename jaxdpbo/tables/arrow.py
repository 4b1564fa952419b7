"""Columns of Arrow as arrays of floats."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jaxdpbo import cells, silence, user_values
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.hashed_ids import HashedIds
from jaxdpbo.tables.table import Columns
from jaxdpbo.types import DTypeLike

if TYPE_CHECKING:
    import pyarrow as pa


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86400
NUMBERS = "numbers"
LEAVE_OUT = "leave it out by columns=, or encode it"


def shape_of(source: str, name: str, kind: object, remedy: str = LEAVE_OUT) -> tuple[int, ...]:
    """The shape of a row of a type of Arrow: ``()``, or ``(length,)`` for lists.

    Raises:
      ValueError: the type has no numbers.
    """
    import pyarrow as pa

    lists: Any = kind if isinstance(kind, pa.FixedSizeListType) else None
    number = kind if lists is None else lists.value_type
    if not (is_plain_number(number) or _is_time(number)):
        raise ValueError(f"column {name!r} of {source} must hold numbers, got {kind}: {remedy}")
    return () if lists is None else (lists.list_size,)


def unit_of(kind: Any) -> str:
    """What the numbers of a type of Arrow count, in words."""
    import pyarrow as pa

    if isinstance(kind, (pa.DictionaryType, pa.FixedSizeListType)):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "times, in seconds since 1970"
    return "seconds" if _is_time(kind) else NUMBERS


def is_plain_number(kind: Any) -> bool:
    """True for numbers, decimals and Booleans, also as a dictionary; False for what is no type of Arrow."""
    import pyarrow as pa

    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal
    return isinstance(kind, pa.DataType) and any(test(kind) for test in tests)


def is_text(kind: Any) -> bool:
    """True for text and bytes, also as a dictionary."""
    import pyarrow as pa

    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    names = "string", "large_string", "string_view", "binary", "large_binary", "binary_view", "fixed_size_binary"
    return any(getattr(pa.types, f"is_{name}")(kind) for name in names)


def is_wide(kind: Any) -> bool:
    """True for types, and lists of types, that hold numbers of more digits than 32 bits."""
    import pyarrow as pa

    if isinstance(kind, (pa.DictionaryType, pa.FixedSizeListType)):
        kind = kind.value_type
    tests = pa.types.is_int64, pa.types.is_uint64, pa.types.is_float64, pa.types.is_decimal
    return any(test(kind) for test in tests) or (_is_time(kind) and not pa.types.is_date32(kind))  # whole days


def _is_time(kind: Any) -> bool:
    import pyarrow as pa

    tests = pa.types.is_timestamp, pa.types.is_duration, pa.types.is_date, pa.types.is_time
    return isinstance(kind, pa.DataType) and any(test(kind) for test in tests)


def expect_ids(source: str, schema: "pa.Schema", people: _people.People) -> None:
    """Raise a ValueError for a column that cannot say whose a row is."""
    position = schema.get_field_index(people.column)
    kind = schema.field(position).type if position >= 0 else None
    _people.expect_ids(source, people, integers=is_integer(kind), text=kind is not None and is_text(kind))


def is_integer(kind: object) -> bool:
    """True for Arrow's types of integers; False for what is no type of Arrow."""
    import pyarrow as pa

    return isinstance(kind, pa.DataType) and pa.types.is_integer(kind)


def expect_numbers(source: str, name: str, kind: object) -> None:
    """Raise a ValueError for a declared type of an engine that holds no numbers, one a row."""
    if not is_plain_number(kind):
        raise ValueError(
            f"column {name!r} of {source} must hold numbers, got {kind}: leave it out by columns=, or compute numbers "
            "on the engine"
        )


def to_columns(part: "pa.RecordBatch", names: list[str]) -> Columns:
    """The columns of a record batch of an engine as JAX's default float, ``(rows,)``; NaN where there is no number.

    The engine may have inferred types from rows, so a cell is read as if it lay in a column of text: a date is missing.
    """
    dtype = jnp.result_type(float)
    return {name: _to_cells(part.column(name), dtype) for name in names}


def _to_cells(column: Any, dtype: DTypeLike) -> np.ndarray:
    import pyarrow as pa

    kind, tests = column.type, (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_duration)
    if any(test(kind) for test in tests):
        return to_numbers(column, dtype)
    if _is_time(kind):
        return np.full(len(column), np.nan, dtype)
    with silence.silence():
        return cells.real_numbers(to_values(column)).astype(dtype)


def to_values(column: Any) -> list[Any]:
    """The values of a column, text as its bytes: they may be no UTF-8, and would raise."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return (column.cast(pa.large_binary()) if is_text(column.type) else column).to_pylist()


def to_people(part: "pa.RecordBatch", names: list[str], people: _people.People) -> _people.Rows:
    """The columns of a record batch, with the person of each row."""
    return _people.Rows(to_persons(part.column(people.column), people), to_columns(part, names))


def to_persons(column: Any, people: _people.People) -> np.ndarray:
    """The number of each row's person, -1 for nobody. An engine may infer another type for a part."""
    import pyarrow as pa

    if people.ids is not None:
        return _to_slots(column, people.ids, people.users, people.exact)
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64(), safe=False).fill_null(_people.NOBODY).to_numpy(zero_copy_only=False)
    return _people.to_persons(_to_cells(column, np.float64))


def _to_slots(column: Any, ids: HashedIds, count: int, exact: bool) -> np.ndarray:
    """The slot of each row's id; an id is hashed once for a part."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        whole = column.cast(pa.uint64() if column.type == pa.uint64() else pa.int64())
        slots = ids.slots(whole.fill_null(0).to_numpy(zero_copy_only=False), count, exact=exact)
        return np.where(column.is_valid().to_numpy(zero_copy_only=False), slots, _people.NOBODY)
    if pa.types.is_floating(column.type):
        return ids.slots(column.to_numpy(zero_copy_only=False).astype(np.float64), count, exact=exact)
    if not is_text(column.type):
        return ids.slots(np.array(to_values(column), object), count, exact=exact)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    of_values = ids.slots(np.array(to_values(column.dictionary), object), count, exact=exact)
    of_values = np.append(of_values, _people.NOBODY)
    return of_values[places(column.indices, len(of_values) - 1)]


def places(indices: Any, missing: int) -> np.ndarray:
    """The indices of a dictionary, ``(rows,)``; ``missing`` for null, which the indices' own type may not hold."""
    import pyarrow as pa

    return indices.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False)


def to_numbers(column: Any, dtype: DTypeLike = np.float64) -> np.ndarray:
    """The numbers of a column as floats, ``(rows, ...)``; a date or a time counts in seconds, since 1970 in UTC."""
    import pyarrow as pa

    target = pa.from_numpy_dtype(dtype)
    if not pa.types.is_fixed_size_list(column.type):
        return _to_floats(column, target)
    size, count = column.type.list_size, len(column)
    rows = _to_floats(column.values.slice(column.offset * size, count * size), target).reshape(count, size)
    return np.where(column.is_valid().to_numpy(zero_copy_only=False)[:, None], rows, np.nan).astype(dtype)


def _to_floats(values: Any, target: Any) -> np.ndarray:
    """Floats of numbers; an engine may infer another type for a part, and then each element is converted."""
    import pyarrow as pa

    try:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if _is_time(values.type):
            return _to_seconds(values).astype(target.to_pandas_dtype())
        return values.cast(target, safe=False).to_numpy(zero_copy_only=False)
    except Exception:
        with silence.silence():
            return user_values.to_numbers(values.to_pylist(), (len(values),)).astype(target.to_pandas_dtype())


def _to_seconds(values: Any) -> np.ndarray:
    import pyarrow as pa

    kind = values.type
    whole = values.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    counts = whole.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_date32(kind):
        return counts * DAY
    return counts / PER_SECOND["ms" if pa.types.is_date64(kind) else kind.unit]

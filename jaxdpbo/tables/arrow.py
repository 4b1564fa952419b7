"""Columns of Arrow as arrays of floats."""

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from jaxdpbo import silence, user_values
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.table import Columns

if TYPE_CHECKING:
    import pyarrow as pa


def row_shape(source: str, schema: "pa.Schema", name: str) -> tuple[int, ...]:
    """The shape of a row: ``()``, or ``(length,)`` for lists. Raise a ValueError for other types."""
    position = schema.get_field_index(name)
    if position < 0:
        raise ValueError(f"{source} must have a column {name!r}, got {', '.join(schema.names)}")
    return shape_of(source, name, schema.field(position).type)


def shape_of(source: str, name: str, kind: object) -> tuple[int, ...]:
    """The shape of a row of a type of Arrow. Raise a ValueError for types without numbers."""
    import pyarrow as pa

    lists: Any = kind if isinstance(kind, pa.FixedSizeListType) else None
    number = kind if lists is None else lists.value_type
    numeric = isinstance(number, pa.DataType) and (
        pa.types.is_integer(number) or pa.types.is_floating(number) or pa.types.is_boolean(number)
    )
    if not numeric:
        raise ValueError(
            f"column {name!r} of {source} must hold numbers, got {kind}: leave it out by columns=, or encode it"
        )
    return () if lists is None else (lists.list_size,)


def expect_integers(source: str, schema: "pa.Schema", name: str) -> None:
    """Raise a ValueError for a column that cannot number people."""
    position = schema.get_field_index(name)
    _people.expect_integers(source, name, position >= 0 and is_integer(schema.field(position).type))


def is_integer(kind: object) -> bool:
    """True for Arrow's types of integers; False for what is no type of Arrow."""
    import pyarrow as pa

    return isinstance(kind, pa.DataType) and pa.types.is_integer(kind)


def to_columns(part: "pa.RecordBatch", names: list[str]) -> Columns:
    """The columns of a record batch as JAX's default float, ``(rows, ...)``; NaN where a value is missing."""
    dtype = jnp.result_type(float)
    return {name: _to_numbers(part.column(name), dtype) for name in names}


def to_people(part: "pa.RecordBatch", names: list[str], people: _people.People) -> _people.Rows:
    """The columns of a record batch, with the person of each row."""
    return _people.Rows(_to_persons(part.column(people.column)), to_columns(part, names))


def _to_persons(column: Any) -> np.ndarray:
    """The number of each row's person, -1 for nobody. An engine may infer another type for a part."""
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return column.cast(pa.int64(), safe=False).fill_null(_people.NOBODY).to_numpy(zero_copy_only=False)
    with silence.silence():
        return _people.to_persons(user_values.to_numbers(column.to_pylist(), (len(column),)))


def _to_numbers(column: Any, dtype: Any) -> np.ndarray:
    import pyarrow as pa

    target = pa.from_numpy_dtype(dtype)
    if not pa.types.is_fixed_size_list(column.type):
        return _to_floats(column, target)
    size, count = column.type.list_size, len(column)
    rows = _to_floats(column.values.slice(column.offset * size, count * size), target).reshape(count, size)
    return np.where(column.is_valid().to_numpy(zero_copy_only=False)[:, None], rows, np.nan).astype(dtype)


def _to_floats(values: Any, target: Any) -> np.ndarray:
    """Floats of numbers; an engine may infer another type for a part, and then each element is converted."""
    try:
        return values.cast(target, safe=False).to_numpy(zero_copy_only=False)
    except Exception:
        with silence.silence():
            return user_values.to_numbers(values.to_pylist(), (len(values),)).astype(target.to_pandas_dtype())

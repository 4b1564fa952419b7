"""How each column of Parquet files is made: as it lies, computed at full width, or read by a public dimension."""

import hashlib
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import jax.numpy as jnp
import numpy as np

from jaxdpbo import cells, not_private
from jaxdpbo import space as spaces
from jaxdpbo.space import Categorical, Dimension, Integer, Real
from jaxdpbo.tables import arrow, table
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.table import Columns

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

Source: TypeAlias = "Dimension | pc.Expression | None"  # None: as the column lies in the files
Selection: TypeAlias = Sequence[str] | Mapping[str, Any]
FULL_WIDTH = (
    'compute what you need at full width, such as columns={"stay": pc.field("end") - pc.field("start")}, or declare a '
    'range, such as "age": space.real(0, 120)'
)
WHOLE = "whole numbers"
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # in place of a missing value, as Hive and Spark write it
READ_TEXT = (
    'columns={{"{name}": space.categorical("a", "b")}} reads it by a public list, and space.real(0, 1e6, decimal=".") '
    "by a public format"
)


class Sources(NamedTuple):
    """The columns of a table, and how each is made from a file.

    Attributes:
      by_name: the source of each column.
      person: the name of the column with each row's person, None if each row is a user.
    """

    by_name: dict[str, Source]
    person: str | None

    @property
    def definitions(self) -> dict[str, str]:
        """How columns are made that do not lie in the files as they are, as text.

        An expression has a hash beside its text, in which pyarrow leaves out the middle of long lists.
        """
        made = {name: source for name, source in self.by_name.items() if source is not None}
        return {
            name: f"{source} {hashlib.sha256(pickle.dumps(source)).hexdigest()}"
            if _is_expression(source)
            else str(source)
            for name, source in made.items()
        }

    def kind(
        self, where: str, name: str, schema: "pa.Schema", of_path: Mapping[str, str | None]
    ) -> tuple[tuple[int, ...], str]:
        """The shape of a row of a column and what its numbers count, from the types and the path of a file alone.

        An expression may also count in whole numbers, which a division rounds.

        Raises:
          ValueError: the file has no such column, holds no numbers in it, or cannot compute it.
        """
        source = self.by_name[name]
        position = schema.get_field_index(name)
        if _is_expression(source):
            computed = _computed_type(where, name, source, schema, of_path)
            unit = WHOLE if arrow.is_integer(computed) else arrow.unit_of(computed)
            return arrow.shape_of(where, name, computed), unit
        if position < 0 and name in of_path:
            return (), arrow.NUMBERS
        if position < 0:
            raise ValueError(f"{where} must have a column {name!r}, got {', '.join([*schema.names, *of_path])}")
        kind = schema.field(position).type
        if source is None:
            return arrow.shape_of(where, name, kind, READ_TEXT.format(name=name)), arrow.unit_of(kind)
        _expect_readable(where, name, kind, source)
        return (), arrow.unit_of(kind)

    def fields(self, schema: "pa.Schema") -> list[str]:
        """The fields of a file that a scan reads."""
        texts = [str(source) for source in self.by_name.values() if _is_expression(source)]
        used = {*self.by_name, self.person}
        return [name for name in schema.names if name in used or any(name in text for text in texts)]

    def to_columns(self, part: "pa.RecordBatch", of_path: Mapping[str, str | None]) -> Columns:
        """The columns of a record batch as JAX's default float, ``(rows, ...)``; NaN where a value is missing."""
        part, dtype = _with_path(part, of_path), jnp.result_type(float)
        return {name: self._column(name, part, dtype).astype(dtype, copy=False) for name in self.by_name}

    def to_people(
        self, part: "pa.RecordBatch", of_path: Mapping[str, str | None], people: _people.People
    ) -> _people.Rows:
        """The columns of a record batch, with the person of each row."""
        return _people.Rows(arrow.to_persons(part.column(people.column), people), self.to_columns(part, of_path))

    def count_odd(self, part: "pa.RecordBatch", of_path: Mapping[str, str | None]) -> Iterator[not_private.Finding]:
        """Count the cells of a record batch that the sources do not foresee. NOT PRIVATE."""
        part = _with_path(part, of_path)
        for name, source in self.by_name.items():
            where, dimension = f"column {name!r}", source if isinstance(source, Dimension) else None
            values = self._raw_values(name, part)
            yield from not_private.count_cells(where, values, dimension)
            if isinstance(values, np.ndarray) and dimension is None and _bare_field(name, source, part.schema):
                yield from not_private.count_narrowed(where, values, as_floats=True)

    def _raw_values(self, name: str, part: "pa.RecordBatch") -> Any:
        """The values of a column as they lie, or as computed, at full width: numbers ``(n,)``, or a list of texts."""
        source = self.by_name[name]
        if _is_expression(source):
            return _compute(source, part).ravel()
        column: Any = part.column(name)
        return arrow.to_values(column) if arrow.is_text(column.type) else arrow.to_numbers(column).ravel()

    def _column(self, name: str, part: "pa.RecordBatch", dtype: Any) -> np.ndarray:
        source = self.by_name[name]
        if _is_expression(source):
            return _compute(source, part)
        column = part.column(name)
        if isinstance(source, Dimension):
            return _read_by(source, column)
        if arrow.is_text(column.type):  # of a path, which has no types
            return _each_once(column, cells.real_numbers)
        return arrow.to_numbers(column, dtype)


def check_sources(
    columns: Selection | None, available: Sequence[str], of_path: Sequence[str], person: str | None
) -> Sources:
    """Check the argument ``columns`` of a table of files.

    Args:
      columns: names, or sources by name; None for all that is available.
      available: the names in the files.
      of_path: the names in the files' paths.
      person: the name of the column with each row's person.

    Raises:
      TypeError: ``columns`` is of another type.
      ValueError: a name is there twice or not at all, or is the person's.
    """
    others = [name for name in available if name != person]
    if not isinstance(columns, Mapping):
        chosen = table.select_names(columns, others if columns is None else [*others, *of_path])
        return Sources(dict.fromkeys(chosen), person)
    if person in columns:
        raise ValueError(f"columns must not name the column of the person, got {person!r}")
    return Sources(_check_selected(columns), person)


def _check_selected(columns: Mapping[str, Any]) -> dict[str, Source]:
    """Check sources by name; a list is a category, as in a ``Space``."""
    if not columns or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"columns must be a list of names, or a dict by name, got {columns!r}")
    for name, source in columns.items():
        if source is None or isinstance(source, str):
            raise TypeError(
                f'columns[{name!r}] must be an expression, such as pc.field("{source or name}"), or a dimension, such '
                f"as space.real(0, 120), got {source!r}"
            )
    spelled = {name: source for name, source in columns.items() if not _is_expression(source)}
    dimensions = spaces.by_name(spelled) if spelled else {}
    for name, dimension in dimensions.items():
        if isinstance(dimension, Categorical):
            cells.check_choices(f"columns[{name!r}]", dimension.choices)
    return {name: dimensions.get(name, source) for name, source in columns.items()}


def columns_of_path(path: str) -> dict[str, str | None]:
    """The columns that a path names, as Hive and Spark write them: ``year=2024/`` in each file below."""
    found = re.findall("(?:^|/)([^/=]+)=([^/]*)(?=/)", path)
    return {unquote(name): None if value == NO_PARTITION else unquote(value) for name, value in found}


def wide_columns(sources: Sources, schema: "pa.Schema") -> list[str]:
    """The columns that lie in the files in 64 bits or more, and may hold numbers that 32 bits round.

    Computed columns and those in a declared range are not among them: their author knows the numbers.
    """
    return [
        name
        for name, source in sources.by_name.items()
        if (field := _bare_field(name, source, schema)) is not None
        and arrow.is_wide(schema.field(field).type)
        and not isinstance(source, Dimension)
    ]


def _bare_field(name: str, source: Source, schema: "pa.Schema") -> str | None:
    """The field that a column is, unchanged; None for a computed column and for one of a path."""
    import pyarrow.compute as pc

    if not _is_expression(source):
        return name if name in schema.names else None
    expression: Any = source
    return next((field for field in schema.names if expression.equals(pc.field(field))), None)


def _is_expression(source: Any) -> bool:
    import pyarrow.compute as pc

    return isinstance(source, pc.Expression)


def _expect_readable(where: str, name: str, kind: Any, dimension: Any) -> None:
    """Raise a ValueError for a type with values that no dimension of this kind reads."""
    if isinstance(dimension, Categorical):
        if not (arrow.is_text(kind) or arrow.is_plain_number(kind)):
            raise ValueError(f"column {name!r} of {where} must hold text or numbers for a category, got {kind}")
    elif arrow.is_text(kind) and dimension.text is None:
        raise ValueError(
            f"column {name!r} of {where} holds text, got {kind}: say how it spells numbers, such as "
            f'space.real({dimension.low}, {dimension.high}, decimal=".")'
        )
    elif not arrow.is_text(kind) and arrow.shape_of(where, name, kind):
        raise ValueError(f"column {name!r} of {where} must hold one number a row for a range, got {kind}")


def _read_by(dimension: Any, column: Any) -> np.ndarray:
    """Positions of categories, or numbers at or inside of a range; NaN for what is missing, unlisted or no number."""
    if isinstance(dimension, Categorical):

        def positions(values: Any) -> np.ndarray:
            numbers = cells.category_numbers(dimension.choices, values)
            return np.where(numbers < 0, np.nan, numbers)

        return _each_once(column, positions)
    assert isinstance(dimension, (Real, Integer))
    if arrow.is_text(column.type):
        numbers = _each_once(column, lambda values: cells.real_numbers(values, dimension.text))
    else:
        numbers = arrow.to_numbers(column)
    return np.clip(numbers, dimension.low, dimension.high)  # NaN stays


def _each_once(column: Any, read: Any) -> np.ndarray:
    """Read each different value of a column once, ``(rows,)``; a missing value is NaN."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    numbers = np.append(read(arrow.to_values(coded.dictionary)), np.nan)
    return numbers[arrow.places(coded.indices, len(coded.dictionary))]


def _with_path(part: "pa.RecordBatch", of_path: Mapping[str, str | None]) -> "pa.RecordBatch":
    """A record batch with the columns of its file's path, as text."""
    import pyarrow as pa

    for name, value in of_path.items():
        if name not in part.schema.names:
            part = part.append_column(name, pa.array([value] * part.num_rows, pa.string()))
    return part


def _computed_type(
    where: str, name: str, expression: Any, schema: "pa.Schema", of_path: Mapping[str, str | None]
) -> "pa.DataType":
    """The type of a computed column, from a row of missing values.

    Raises:
      ValueError: the expression does not fit the file's types, reads other rows, or draws at random.
    """
    import pyarrow as pa

    if "random(" in str(expression):
        raise ValueError(f"columns[{name!r}] must be the same in every scan, got {expression}")
    if "FieldPath(" in str(expression):  # a scan reads some of a file's fields, and would count these
        raise ValueError(f"columns[{name!r}] must name its fields, as pc.field('age') does, got {expression}")
    row = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], names=schema.names)
    row = _with_path(row, dict.fromkeys(of_path))
    try:
        return _evaluate(expression, row).type
    except (pa.ArrowException, TypeError, ValueError) as error:  # the row holds no value that the text could quote
        failure = str(error).splitlines()[0]
    raise ValueError(f"columns[{name!r}] cannot be computed from {where}: {failure}")


def _evaluate(expression: Any, part: "pa.RecordBatch") -> Any:
    import pyarrow as pa
    import pyarrow.dataset as ds

    scanned = ds.dataset(pa.Table.from_batches([part])).scanner(columns={"value": expression}, use_threads=False)
    return scanned.to_table().column("value").combine_chunks()


def _compute(expression: Any, part: "pa.RecordBatch") -> np.ndarray:
    """The numbers of a computed column. A row that fails, as by overflow, is NaN and leaves the others as they are."""
    try:
        return arrow.to_numbers(_evaluate(expression, part))
    except Exception:
        if part.num_rows > 1:
            half = part.num_rows // 2
            return np.concatenate([_compute(expression, part.slice(0, half)), _compute(expression, part.slice(half))])
    import pyarrow as pa

    missing = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in part.schema], names=part.schema.names)
    return np.full_like(arrow.to_numbers(_evaluate(expression, missing)), np.nan)

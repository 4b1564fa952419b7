"""The contract of tables, and arrays in memory as a table.

Every batch has one shape: XLA may round differently in programs of different shapes, and one user's loss must not
depend on the number of other rows in a batch.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, not_private, silence, user_values
from jaxdpbo import notes as _notes
from jaxdpbo.types import ArrayLike

BATCH = 2**14  # users of a batch
EMPTY = "users without a number"
SUBTRACT = "subtract long numbers before, such as end - start"
Columns: TypeAlias = dict[str, np.ndarray]


class Batch(NamedTuple):
    """The rows of ``BATCH`` users, 16,384. NOT PRIVATE.

    >>> import numpy as np
    >>> from jaxdpbo import tables
    >>> def count(batch):
    ...     return np.array([np.sum(batch.columns["age"][batch.present] > 40)])
    >>> tables.arrays({"age": [31, 54, 62]}).add(count).total
    array([2])

    Attributes:
      columns: arrays ``(BATCH, ...)`` of JAX's default float, by name; NaN where a value is missing.
      present: ``(BATCH,)``, False at padding rows, which belong to no user.
    """

    columns: Columns
    present: np.ndarray


class Sum(NamedTuple):
    """The sum over all users of a table. NOT PRIVATE.

    >>> import numpy as np
    >>> from jaxdpbo import tables
    >>> tables.Sum(np.array([2, 5]), 1).users
    1

    Attributes:
      total: int64 ``(k,)``.
      users: the number of rows in the sum.
    """

    total: np.ndarray
    users: int


Partial: TypeAlias = Callable[[Batch], np.ndarray]  # to int64 (k,), a sum over the users of the batch


class TableError(Exception):
    """A scan of a table failed, or read other rows than the table had when you opened it. Quotes no row."""


class UnreadError(TableError):
    """A scan failed before it read a row, so the failure says nothing about rows: an evaluation costs nothing."""


class Table(ABC):
    """Users as rows, columns by name, and one method. Write a subclass for an engine of your own.

    >>> import numpy as np
    >>> from jaxdpbo import tables
    >>> table = tables.arrays({"age": np.array([31, 54, 62])})
    >>> table.add(lambda batch: np.array([np.sum(batch.present)]))
    Sum(total=array([3]), users=3)
    """

    @property
    @abstractmethod
    def users(self) -> int:
        """``n``, the number of rows, public: each row is a user."""

    @property
    @abstractmethod
    def columns(self) -> dict[str, tuple[int, ...]]:
        """The shape of a row in each column, ``()`` for a number, by name."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee assumes about scans, see ``Guarantee.assumptions``; nothing by default."""
        return ()

    @property
    def definitions(self) -> dict[str, str]:
        """How columns are computed, as text by name: a part of what a run is about; nothing by default."""
        return {}

    @property
    def grouping(self) -> tuple[str, ...]:
        """How rows become users, as text: a part of what a run is about; nothing by default, if each row is a user."""
        return ()

    @property
    def notes(self) -> _notes.Notes:
        """What a run says about the columns, from declared types alone, see ``jaxdpbo.notes``; nothing by default."""
        return ()

    @abstractmethod
    def add(self, partial: Partial) -> Sum:
        """Sum ``partial`` over batches that hold every user once: 16,384 rows each, the last padded, see ``Batch``.

        Raises:
          UnreadError: no row was read, and no row decided this.
          TableError: rows could not be read, or are not those of the table when it was opened.
        """

    def check(self) -> not_private.NotPrivateCheck:
        """NOT PRIVATE: count the users without a number in a column, in one scan. Spends nothing, and writes nothing.

        For the owner of the rows, before a run. No run calls it. A range or a list that you mend after looking at
        protected rows is no longer public.

        >>> import numpy as np
        >>> from jaxdpbo import tables
        >>> tables.arrays({"age": np.array([31.0, np.nan])}).check().findings
        (Finding(where="column 'age'", what='users without a number', found=1, total=2),)

        Raises:
          TableError: see ``add``.
        """
        names, users = list(self.columns), self.users
        counted = self.add(functools.partial(_count_empty, names)).total
        found = [
            not_private.Finding(f"column {name!r}", EMPTY, count, users)
            for name, count in zip(names, counted.tolist(), strict=False)
        ]
        anywhere = [not_private.Finding("all columns", EMPTY, int(counted[-1]), users)] if len(names) > 1 else []
        return not_private.make_check(users, found, anywhere)


class ArrayTable(Table):
    """Arrays in memory as a table, made by ``arrays``."""

    def __init__(self, columns: Columns, wide: Sequence[str] = ()) -> None:
        self._columns, self._wide = columns, wide  # at full width: JAX's default float may change before a run

    def __repr__(self) -> str:
        """Show names and the number of users."""
        return describe("arrays", self)

    @property
    def notes(self) -> _notes.Notes:
        """Which columns of integers have 64 bits and reach a loss in 32: an array that you pass declares its dtype."""
        return narrowing_notes(self._wide, "the arrays hold 64 bits", SUBTRACT)

    @property
    def users(self) -> int:
        """``n``."""
        return min(map(len, self._columns.values()))

    @property
    def columns(self) -> dict[str, tuple[int, ...]]:
        """The shape of a row in each column."""
        return {name: column.shape[1:] for name, column in self._columns.items()}

    def add(self, partial: Partial) -> Sum:
        """Sum ``partial`` over all batches, see ``Table``."""
        dtype = jnp.result_type(float)
        parts = (
            {name: of[start : start + BATCH].astype(dtype, copy=False) for name, of in self._columns.items()}
            for start in range(0, self.users, BATCH)
        )
        with silence.numeric_checks_off():
            return add_batches(partial, batches(parts))


def arrays(columns: Mapping[str, ArrayLike]) -> ArrayTable:
    """Make a table of arrays in memory: the same numbers as ``parquet`` reads from a file of these columns.

    Without a run, a table gives no guarantee: its rows are NOT private.

    >>> import numpy as np
    >>> from jaxdpbo import tables
    >>> tables.arrays({"age": np.array([31, 54]), "visits": np.array([2, 7])})
    arrays(users=2, columns=['age', 'visits'])

    Args:
      columns: arrays ``(n, ...)`` of numbers by name, or lists of ``n`` numbers. They become floats, of 32 bits unless
        JAX's x64 is enabled: subtract long numbers before, such as times. An element other than a number becomes NaN; a
        ``datetime64`` counts in seconds since 1970.

    Raises:
      ValueError: there is no column, or the columns have no common length above 0.
      TypeError: a name is not text.
    """
    if not columns:
        raise ValueError("columns must not be empty")
    if not all(isinstance(name, str) for name in columns):
        raise TypeError("columns must have names, each a text")
    with silence.silence():
        read = {name: np.array(_to_column(column)) for name, column in columns.items()}  # the caller may change theirs
    lengths = {column.shape[:1] for column in read.values()}
    if len(lengths) > 1 or not lengths.pop():
        raise ValueError("columns must be arrays of one length, with an entry for each user")
    table = ArrayTable(read, [name for name, of in columns.items() if user_values.declares_wide_integers(of)])
    checks.size("users", table.users)
    return table


def _to_column(column: Any) -> np.ndarray:
    """A number for each element of a list: its shape must not depend on the elements."""
    return user_values.to_numbers(column, (len(column),) if isinstance(column, (list, tuple)) else None)


def batches(parts: Iterable[Columns]) -> Iterator[Batch]:
    """Cut parts of any length into batches of one shape; the last batch is padded with zeros."""
    waiting: list[Columns] = []
    count = 0
    for part in parts:
        length, start = len(next(iter(part.values()))), 0
        while count + length - start >= BATCH:
            end = start + BATCH - count
            yield Batch(_join([*waiting, _slice(part, start, end)]), np.ones(BATCH, bool))
            waiting, count, start = [], 0, end
        if start < length:
            waiting.append(_slice(part, start, length))
            count += length - start
    if count:
        padding = {name: np.zeros((BATCH - count, *rows.shape[1:]), rows.dtype) for name, rows in waiting[0].items()}
        yield Batch(_join([*waiting, padding]), np.arange(BATCH) < count)


def call(failure: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a reader or an engine. Raise a TableError with the type of an exception alone: its text may quote rows."""
    returned = silence.catch(function, *args)
    if isinstance(returned, silence.Failed):
        raise TableError(f"{failure} ({returned.kind})")
    return returned


def add_batches(partial: Partial, batches: Iterable[Batch]) -> Sum:
    """Sum over batches in this process, one in memory at a time."""
    total, users = np.zeros((), np.int64), 0
    for batch in batches:
        total = total + partial(batch)
        users += int(np.sum(batch.present))
    return Sum(total, users)


def select_names(columns: Sequence[str] | None, available: Sequence[str] | None) -> list[str]:
    """The names of the columns to read: those given, or all that are available.

    Raises:
      TypeError: ``columns`` is no list of names.
      ValueError: a name is there twice, or not available, or there is none.
    """
    if columns is None and available is not None:
        columns = list(available)
    if not isinstance(columns, (list, tuple)) or not all(isinstance(name, str) for name in columns):
        computed = ": compute a column on the engine, and name it here" * isinstance(columns, Mapping)
        raise TypeError(f"columns must be a list of names, got {columns!r}{computed}")
    if not columns or len(set(columns)) < len(columns):
        raise ValueError(f"columns must name one or more columns, each once, got {columns!r}")
    missing = [] if available is None else [name for name in columns if name not in available]
    if missing:
        raise ValueError(f"there must be a column {missing[0]!r}, got {', '.join(available or [])}")
    return list(columns)


def batch_shapes(table: Table) -> Batch:
    """The shapes and dtypes of a batch, without rows."""
    dtype = jnp.result_type(float)
    columns = {name: jax.ShapeDtypeStruct((BATCH, *shape), dtype) for name, shape in table.columns.items()}
    return Batch(columns, jax.ShapeDtypeStruct((BATCH,), bool))  # pyright: ignore[reportArgumentType]


def _count_empty(names: Sequence[str], batch: Batch) -> np.ndarray:
    """How many users have no number in each column, and in all of them."""
    empty = [
        np.isnan(batch.columns[name][batch.present]).reshape(int(np.sum(batch.present)), -1).all(axis=1)
        for name in names
    ]
    return np.array([np.sum(rows) for rows in (*empty, np.all(empty, axis=0))], np.int64)


def notes(data: object) -> _notes.Notes:
    """The notes of a table; those of arrays are made where they become arrays of JAX."""
    return data.notes if isinstance(data, Table) else ()


def narrowing_notes(names: Sequence[str], have: str, remedy: str) -> _notes.Notes:
    """The note that columns lose digits on their way to a loss; none where JAX computes in 64 bits."""
    return () if jnp.result_type(float) == jnp.float64 else _notes.narrowed_columns(names, have, remedy)


def describe(name: str, table: Table) -> str:
    """The text of a table: public numbers alone."""
    return f"{name}(users={table.users}, columns={list(table.columns)})"


def _slice(part: Columns, start: int, end: int) -> Columns:
    return {name: rows[start:end] for name, rows in part.items()}


def _join(parts: list[Columns]) -> Columns:
    """The rows of all parts, in arrays that a loss cannot change."""
    if len(parts) > 1:
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    else:
        joined = {name: rows[:] for name, rows in parts[0].items()}
    for rows in joined.values():
        rows.flags.writeable = False
    return joined

"""Dask data frames as a table."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, _silence, _user_values
from jaxdpbo.tables import _engine, _people, _table
from jaxdpbo.tables._table import Columns

RANDOM = {"Sample"}  # expressions that may select other rows when a worker computes a partition again


class DaskTable(_engine.EngineTable):
    """A Dask data frame as a table, made by ``dask``."""

    engine = "dask"

    def __init__(self, frame: object, users: int | None, names: list[str], people: _people.People | None) -> None:
        self._frame: Any = frame
        super().__init__(users, names, people)

    def _count(self) -> int:
        return len(self._frame)

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        dask = _checks.extra("dask", "dask", "tables.dask")
        shared, add = dask.delayed(task, pure=False), dask.delayed(_add_frame, pure=False)
        parts = enumerate(self._frame.to_delayed())
        return list(dask.compute(*(add(shared, *part, self._names, self._people) for part in parts)))


def dask(
    frame: object,
    *,
    columns: Sequence[str] | None = None,
    users: int | None = None,
    person: str | None = None,
    max_rows: int | None = None,
) -> DaskTable:
    """Open a Dask data frame as a table, a row for each user. Needs the extra ``dask``.

    A scan computes the frame's partitions where your Dask client computes, and sums each in a worker. Without a run, a
    table gives no guarantee: its rows are NOT private. Dask moves raw rows and raw sums between workers: see the page
    on engines for encryption.

    >>> import dask.dataframe, pandas
    >>> from jaxdpbo import tables
    >>> visits = pandas.DataFrame({"age": [31.0, 54.0, None], "visits": [2, 7, 1]})
    >>> tables.dask(dask.dataframe.from_pandas(visits, npartitions=2))
    dask(users=3, columns=['age', 'visits'])

    Args:
      frame: a ``dask.dataframe.DataFrame``. Its partitions must hold the same rows whenever they are computed.
      columns: the names of the columns to read; all by default. Each holds numbers or Booleans. They become floats; a
        missing value becomes NaN.
      users: the number of users, public. If you leave it out, opening the table counts the rows.
      person: the column with each row's person, integers or texts, if a user has several rows; needs ``users`` and
        ``max_rows``. Columns then have the shape ``(people, max_rows)``, NaN in the places of missing rows.
      max_rows: the most rows of a person to read: the first, sorted by the columns' values in their order.

    Raises:
      TypeError: ``frame``, ``columns`` or ``users`` are of another type.
      ValueError: there is no row or column, a column does not hold numbers, or the frame samples at random.
      tables.TableError: Dask failed to count the rows.
      ImportError: Dask is missing.
    """
    module = _checks.extra("dask.dataframe", "dask", "tables.dask")
    if not isinstance(frame, module.DataFrame):
        raise TypeError(f"frame must be a dask.dataframe.DataFrame, got {type(frame).__name__}")
    return _open(frame, columns, users, _people.check_people(person, max_rows, users))


def _open(frame: Any, columns: Sequence[str] | None, users: int | None, people: _people.People | None) -> DaskTable:
    names = _people.other_names(_table.select_names(columns, list(frame.columns)), people)
    for name in names:
        if frame.dtypes[name].kind not in "biuf":
            raise ValueError(
                f"column {name!r} must hold numbers, got {frame.dtypes[name]}: leave it out by columns=, or encode it"
            )
    random = RANDOM & set(_expressions(frame.expr))
    if random:
        raise ValueError(
            "frame must hold the same rows whenever a worker computes it: write the sample to files, and read these"
        )
    if people is None:
        return DaskTable(frame[names], users, names, None)
    if people.column not in frame.columns or frame.dtypes[people.column].kind not in "iuOT":
        raise ValueError(f"person must name a column of integers or texts, got {people.column!r}")
    return DaskTable(frame[[people.column, *names]].shuffle(on=people.column), users, names, people)


def _expressions(expression: Any) -> Iterator[str]:
    """The names of an expression and of all that it is made of."""
    yield type(expression).__name__
    for inner in expression.dependencies():
        yield from _expressions(inner)


def _add_frame(
    task: _engine.Task, partition: int, frame: Any, names: list[str], people: _people.People | None
) -> _engine.PartitionSum:
    return task(partition, _read(frame, names, people))


def _read(frame: Any, names: list[str], people: _people.People | None) -> Iterator[Columns | _people.Rows]:
    """The columns of a pandas data frame. A generator, so that a failure is the task's."""
    dtype = jnp.result_type(float)
    with _silence.silence():
        columns = {name: _user_values.to_numbers(frame[name]).astype(dtype) for name in names}
        part = columns if people is None else _people.Rows(*_persons(frame[people.column]), columns)
    yield part


def _persons(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """The person of each row, and False for rows without one."""
    whole = column.dtype.kind in "iu"
    return np.asarray(column.fillna(0) if whole else column.astype(str).astype(object)), column.notna().to_numpy()

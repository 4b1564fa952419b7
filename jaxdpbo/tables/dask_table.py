"""Dask data frames as a table."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdpbo import cells, checks, silence
from jaxdpbo.tables import engine as _engine
from jaxdpbo.tables import identity, table
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.hashed_ids import HashedIds
from jaxdpbo.tables.table import Columns

LOOK, PATIENCE = 5.0, 60.0  # seconds between two looks at a cluster, and without a worker
GONE = f"its cluster is closed, or had no worker for {PATIENCE:g} seconds: start a cluster with workers and a client"
RANDOM = {"Sample", "Split"}  # expressions that may select other rows when a worker computes a partition again


class DaskTable(_engine.EngineTable):
    """A Dask data frame as a table, made by ``dask``."""

    engine = "dask"
    pickles = False  # by default its workers are threads

    def __init__(self, frame: object, users: int | None, names: list[str], people: _people.People | None) -> None:
        self._frame: Any = frame
        super().__init__(users, names, people)

    def _count(self) -> int:
        dask = checks.extra("dask", "dask", "tables.dask")
        count = dask.delayed(len, pure=False)
        return sum(_compute([count(part) for part in self._frame.to_delayed()]))

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        dask = checks.extra("dask", "dask", "tables.dask")
        shared, add = dask.delayed(task, pure=False), dask.delayed(_add_frame, pure=False)
        return _compute([add(shared, *part) for part in enumerate(self._frame.to_delayed())])

    def _sums_of_people(self, split: _engine.Split, task: _engine.PeopleTask) -> list[_engine.PartitionSum]:
        """The tasks are the library's own, since a shuffle of Dask may convert values."""
        dask = checks.extra("dask", "dask", "tables.dask")
        count = len(_people.ranges(task.people, _people.WORKER_SLOTS))
        cut = dask.delayed(_split_frame, pure=False, nout=count)
        shared_split, shared_task, add = (dask.delayed(work, pure=False) for work in (split, task, _add_pieces))
        pieces = [cut(shared_split, part, self._names, task.people) for part in self._frame.to_delayed()]
        ranges = enumerate(zip(*pieces, strict=True))
        return _compute([add(shared_task, number, list(rows)) for number, rows in ranges])


def dask(
    frame: object,
    *,
    columns: Sequence[str] | None = None,
    users: int | None = None,
    person: str | HashedIds | None = None,
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
      frame: a ``dask.dataframe.DataFrame``. Its partitions must hold the same rows whenever they are computed. A row
        that the frame holds twice is two users. The files of ``read_parquet`` are compared: a second name of a file is
        refused. Files that you read by ``from_map`` or ``from_delayed``, or before ``persist``, are not seen.
      columns: the names of the columns to read; all by default. Each holds numbers or Booleans. They become floats; a
        missing value becomes NaN, and so does one that is no number, such as a date.
      users: the number of rows, public. If you leave it out, opening the table counts the rows.
      person: see ``parquet``; ``users`` is then the number of people. Each scan moves rows between workers.
      max_rows: see ``parquet``.

    Raises:
      TypeError: an argument is of another type.
      ValueError: there is no row or column, Parquet files declare a column without numbers, or a ``person`` without
        integers, or the frame samples at random, or reads one Parquet file under two names.
      tables.TableError: Dask failed to count the rows.
      ImportError: Dask is missing.
    """
    module = checks.extra("dask.dataframe", "dask", "tables.dask")
    if not isinstance(frame, module.DataFrame):
        raise TypeError(f"frame must be a dask.dataframe.DataFrame, got {type(frame).__name__}")
    return _open(frame, columns, users, _people.check_people(person, max_rows, users, rows_counted=True))


def _open(frame: Any, columns: Sequence[str] | None, users: int | None, people: _people.People | None) -> DaskTable:
    person = [] if people is None else [people.column]
    names = table.select_names(columns, [name for name in frame.columns if name not in person])
    expressions = list(_expressions(frame.expr))
    declared = all(_is_parquet(inner) for inner in expressions if not inner.dependencies())
    if people is not None:
        there = people.column in frame.columns
        kind = frame.dtypes[people.column].kind if there and declared else "i"  # other dtypes may follow from rows
        _people.expect_ids("frame", people, integers=there and kind in "iu", text=there and kind == "O")
    for name in names if declared else []:  # other dtypes may follow from rows
        if frame.dtypes[name].kind not in "biuf":
            raise ValueError(
                f"column {name!r} must hold numbers, got {frame.dtypes[name]}: leave it out by columns=, or encode it"
            )
    identity.expect_files_once("frame", *map(_files, expressions))
    if RANDOM & {type(inner).__name__ for inner in expressions}:
        raise ValueError(
            "frame must hold the same rows whenever a worker computes it: write the sample to files, and read these"
        )
    return DaskTable(frame[[*person, *names]], users, names, people)


def _compute(tasks: list[Any]) -> list[Any]:
    """Compute where Dask would. A cluster that is closed, or has no worker, would keep the caller waiting.

    Raises:
      TableError: the cluster is gone; the name of the class says so, see ``table.call``.
    """
    dask = checks.extra("dask", "dask", "tables.dask")
    client: Any = getattr(dask.base.get_scheduler(collections=tasks), "__self__", None)
    if not hasattr(client, "scheduler_info"):  # threads or processes of this machine
        return list(dask.compute(*tasks))
    futures, seen = client.compute(tasks), time.monotonic()
    while not all(future.done() for future in futures):
        if client.status == "running" and client.scheduler_info()["workers"]:
            seen = time.monotonic()
        elif client.status != "running" or time.monotonic() - seen > PATIENCE:
            raise type(GONE, (table.TableError,), {})
        with contextlib.suppress(TimeoutError):
            checks.extra("distributed", "dask", "tables.dask").wait(futures, timeout=LOOK)
    return client.gather(futures)


def _files(expression: Any) -> list[str]:
    """The files that an expression itself reads, by Dask's own readers of Parquet."""
    read = expression._dataset_info if _is_parquet(expression) else {}
    if "ds" in read:
        return read["ds"].files
    return [part.fragment.path for part in read.get("fragments", ())]  # with filesystem="arrow"


def _is_parquet(expression: Any) -> bool:
    """True if an expression reads Parquet files, which declare their types."""
    return hasattr(type(expression), "_dataset_info")


def _expressions(expression: Any) -> Iterator[Any]:
    """An expression and all that it is made of, each once: expressions share parts."""
    waiting, seen = [expression], set()
    while waiting:
        inner = waiting.pop()
        if inner._name not in seen:
            seen.add(inner._name)
            yield inner
            waiting.extend(inner.dependencies())


def _add_frame(task: _engine.Task, partition: int, frame: Any) -> _engine.PartitionSum:
    return task(partition, _read(frame, list(frame.columns)))


def _split_frame(split: _engine.Split, frame: Any, names: list[str], people: _people.People) -> list[_people.Rows]:
    return split(_read_people(frame, names, people))


def _add_pieces(task: _engine.PeopleTask, number: int, pieces: list[_people.Rows]) -> _engine.PartitionSum:
    return task(number, pieces)


def _read(frame: Any, names: list[str]) -> Iterator[Columns]:
    """The columns of a pandas data frame. A generator, so that a failure is the task's."""
    dtype = jnp.result_type(float)
    with silence.silence():
        columns = {name: cells.real_numbers(frame[name]).astype(dtype) for name in names}
    yield columns


def _read_people(frame: Any, names: list[str], people: _people.People) -> Iterator[_people.Rows]:
    persons = _to_persons(frame[people.column], people)
    for columns in _read(frame, names):
        yield _people.Rows(persons, columns)


def _to_persons(column: Any, people: _people.People) -> np.ndarray:
    """The number of each row's person, -1 for nobody."""
    if people.ids is None:
        return _people.to_persons(cells.real_numbers(column))
    if column.dtype.kind in "iu":  # with a mask for missing ids, or without
        whole = column.fillna(0).to_numpy("uint64" if column.dtype.kind == "u" else "int64")
        slots = people.ids.slots(whole, people.users, exact=False)  # another partition may hold floats
        return np.where(column.isna().to_numpy(), _people.NOBODY, slots)
    return people.ids.slots(column.to_numpy(), people.users, exact=False)

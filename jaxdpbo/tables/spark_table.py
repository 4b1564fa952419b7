"""Spark data frames as a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, silence
from jaxdpbo.tables import arrow, identity, table
from jaxdpbo.tables import engine as _engine
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.hashed_ids import HashedIds
from jaxdpbo.tables.table import Columns

SCHEMA = "partition long, users long, total array<long>, error string"  # of a PartitionSum
RANGE = "range long, person long"  # of a row in a piece
INTEGERS = ("tinyint", "smallint", "int", "bigint")
FILES = " parquet", " orc"  # the ends of plans that read files with declared types
# Operators that may select or place other rows when a worker computes a partition again.
UNSTABLE = {
    "Sample", "Repartition", "RebalancePartitions", "GlobalLimit", "LocalLimit", "Tail", "Offset", "Deduplicate",
    "Window",
}  # fmt: skip


class SparkTable(_engine.EngineTable):
    """A Spark data frame as a table, made by ``spark``."""

    engine = "spark"

    def __init__(self, frame: object, users: int | None, names: list[str], people: _people.People | None) -> None:
        self._frame: Any = frame
        super().__init__(users, names, people)

    def _count(self) -> int:
        return self._frame.count()

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        return _collect(self._frame.mapInArrow(_make_mapper(task, self._names), SCHEMA))

    def _sums_of_people(self, split: _engine.Split, task: _engine.PeopleTask) -> list[_engine.PartitionSum]:
        """Spark groups by the number of a range, which the workers of the library compute."""
        places = "".join(f", column_{place} double" for place in range(len(self._names)))
        pieces = self._frame.mapInArrow(_make_splitter(split, self._names, task.people), f"{RANGE}{places}")
        return _collect(pieces.groupBy("range").applyInArrow(_make_adder(task, self._names), SCHEMA))


def spark(
    frame: object,
    *,
    columns: Sequence[str] | None = None,
    users: int | None = None,
    person: str | HashedIds | None = None,
    max_rows: int | None = None,
) -> SparkTable:
    """Open a Spark data frame as a table, a row for each user. Needs the extra ``spark``.

    A scan is one job: executors sum their partitions, and the driver collects a row of sums for each partition. Without
    a run, a table gives no guarantee: its rows are NOT private. Spark moves raw rows and raw sums between executors:
    see the page on engines for encryption.

    >>> from pyspark.sql import SparkSession
    >>> from jaxdpbo import tables
    >>> session = SparkSession.builder.getOrCreate()
    >>> tables.spark(session.createDataFrame([(31.0, 2), (54.0, 7)], ["age", "visits"]))
    spark(users=2, columns=['age', 'visits'])

    Args:
      frame: a ``pyspark.sql.DataFrame`` of a classic session. Its plan must be deterministic. A row that the frame
        holds twice is two users.
      columns: the names of the columns to read; all by default. Each holds numbers or Booleans. They become floats; a
        missing value becomes NaN, and so does one that is no number, such as a date.
      users: the number of rows, public. If you leave it out, opening the table counts the rows.
      person: see ``parquet``; ``users`` is then the number of people. Each scan moves rows between executors.
      max_rows: see ``parquet``.

    Raises:
      TypeError: an argument is of another type.
      ValueError: there is no row or column, files declare a column without numbers, or a ``person`` without integers;
        or the plan may compute other rows the second time: samples, limits, random functions, a repartition without
        columns, dropped duplicates, windows. Or the frame reads one file under two names, or Spark's workers have no
        jaxdpbo, or other versions, by a job on an invented row.
      tables.TableError: Spark failed to count the rows.
      ImportError: Spark is missing.
    """
    module = checks.extra("pyspark.sql", "spark", "tables.spark")
    if not isinstance(frame, module.DataFrame) or not hasattr(frame, "_jdf"):
        raise TypeError(f"frame must be a DataFrame of a classic Spark session, got {type(frame).__name__}")
    _expect_workers(frame)
    return _open(frame, columns, users, _people.check_people(person, max_rows, users, rows_counted=True))


def _expect_workers(frame: Any) -> None:
    """Raise a ValueError if the workers cannot import the library: ask one, with an invented row, before any scan."""

    def say(batches: Iterable[Any]) -> Iterator[Any]:  # travels by value, also to a worker without the library
        import importlib

        import pyarrow

        for _ in batches:
            try:
                said = importlib.import_module("jaxdpbo.tables.engine").versions()
            except ImportError as error:
                said = f"no {str(error.name).partition('.')[0]}"
            yield pyarrow.RecordBatch.from_arrays([pyarrow.array([said])], names=["said"])

    def ask() -> str:
        return frame.sparkSession.range(1).mapInArrow(say, "said string").collect()[0].said

    own, said = _engine.versions(), silence.catch(ask)
    if isinstance(said, silence.Failed):
        said = f"failed on an invented row ({said.kind})"
    if said != own:
        raise ValueError(
            f"frame must be of a Spark with workers that have {own}; a worker says: {said}. Install the package on "
            "each worker, and set PYSPARK_PYTHON to its Python before you start the session"
        )


def _open(frame: Any, columns: Sequence[str] | None, users: int | None, people: _people.People | None) -> SparkTable:
    person = [] if people is None else [people.column]
    names = table.select_names(columns, [name for name in frame.columns if name not in person])
    types, plan = dict(frame.dtypes), frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    declared = all(leaves.apply(number).toString().rstrip().endswith(FILES) for number in range(leaves.size()))
    if people is not None:
        kind = types.get(people.column)
        integers = kind is not None and (not declared or kind in INTEGERS)
        _people.expect_ids("frame", people, integers=integers, text=kind in ("string", "binary"))
        people = people._replace(exact=declared)
    for name in names if declared else []:  # other types may follow from rows
        if types[name] not in ("boolean", *INTEGERS, "float", "double"):
            raise ValueError(
                f"column {name!r} must hold numbers, got {types[name]}: leave it out by columns=, or cast it to double"
            )
    _expect_same_rows(plan)
    identity.expect_files_once("frame", frame.inputFiles())
    return SparkTable(frame.select(*(f"`{name}`" for name in [*person, *names])), users, names, people)


def _expect_same_rows(plan: Any) -> None:
    """Raise a ValueError if a partition that is computed again may hold other rows."""
    inner = plan.subqueriesAll()
    plans = [plan, *(inner.apply(number) for number in range(inner.size()))]
    unstable = UNSTABLE & {name for plan in plans for name in _operators(plan)}
    if unstable or not all(plan.deterministic() for plan in plans):
        raise ValueError(
            "frame must hold the same rows whenever an executor computes a partition, got "
            f"{', '.join(sorted(unstable)) or 'a random function'}: write the frame to files, and read these"
        )


def _operators(plan: Any) -> Iterator[str]:
    """The names of a plan's operators."""
    yield plan.nodeName()
    children = plan.children()
    for number in range(children.size()):
        yield from _operators(children.apply(number))


def _make_mapper(task: _engine.Task, names: list[str]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Make the function that an executor calls with the record batches of a partition."""

    def read(batches: Iterable[Any]) -> Iterator[Columns]:
        for batch in batches:
            yield arrow.to_columns(batch, names)

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        context = checks.extra("pyspark", "spark", "tables.spark").TaskContext.get()
        yield from _to_arrow(task(context.partitionId(), read(batches))).to_batches()

    return add


def _make_splitter(
    split: _engine.Split, names: list[str], people: _people.People
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Make the function that cuts the record batches of a partition into ranges of people."""

    def cut(batches: Iterable[Any]) -> Iterator[Any]:
        count = len(_people.ranges(people, _people.WORKER_SLOTS))
        nobody = _people.Rows(np.full(count, _people.NOBODY), {name: np.full(count, np.nan) for name in names})
        yield _to_piece(np.arange(count), nobody, names)  # no range is missing, even if nobody in it has a row
        for batch in batches:
            pieces = split(arrow.to_people(part, names, people) for part in [batch])
            numbers = np.repeat(np.arange(count), [len(piece.persons) for piece in pieces])
            yield _to_piece(numbers, _people.join(pieces), names)

    return cut


def _make_adder(task: _engine.PeopleTask, names: list[str]) -> Callable[[tuple[Any, ...], Any], Any]:
    """Make the function that an executor calls with the rows of a range."""

    def add(key: tuple[Any, ...], rows: Any) -> Any:
        (number,) = key
        return _to_arrow(task(number.as_py(), _from_piece(rows, names)))

    return add


def _to_piece(numbers: np.ndarray, rows: _people.Rows, names: list[str]) -> Any:
    """A record batch of rows with the numbers of their ranges; a float32 survives as a double."""
    import pyarrow as pa

    columns = [
        pa.array(column) for column in (numbers, rows.persons, *(np.float64(rows.columns[name]) for name in names))
    ]
    return pa.RecordBatch.from_arrays(columns, names=["range", "person", *map("column_{}".format, range(len(names)))])


def _from_piece(piece: Any, names: list[str]) -> Iterator[_people.Rows]:
    dtype = jnp.result_type(float)
    persons, *columns = (piece.column(place).to_numpy() for place in range(1, len(names) + 2))
    yield _people.Rows(persons, {name: column.astype(dtype) for name, column in zip(names, columns, strict=True)})


def _to_arrow(summed: _engine.PartitionSum) -> Any:
    import pyarrow as pa

    kinds = {"partition": pa.int64(), "users": pa.int64(), "total": pa.list_(pa.int64()), "error": pa.string()}
    columns = [pa.array([value], kind) for value, kind in zip(summed, kinds.values(), strict=True)]
    return pa.table(columns, names=list(kinds))


def _collect(frame: Any) -> list[_engine.PartitionSum]:
    return [_engine.PartitionSum(row.partition, row.users, row.total, row.error) for row in frame.collect()]

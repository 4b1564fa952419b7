"""Spark data frames as a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jaxdpbo import _checks
from jaxdpbo.tables import _arrow, _engine, _people, _table

SCHEMA = "partition long, users long, total array<long>, error string"  # of a PartitionSum
WHOLE = "tinyint", "smallint", "int", "bigint"
# Operators that may select or place other rows when a worker computes a partition again.
UNSTABLE = {
    "Sample",
    "Repartition",
    "RebalancePartitions",
    "GlobalLimit",
    "LocalLimit",
    "Tail",
    "Offset",
    "Deduplicate",
}


class SparkTable(_engine.EngineTable):
    """A Spark data frame as a table, made by ``spark``."""

    engine = "spark"

    def __init__(self, frame: object, users: int | None, names: list[str], people: _people.People | None) -> None:
        self._frame: Any = frame
        super().__init__(users, names, people)

    def _count(self) -> int:
        return self._frame.count()

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        rows = self._frame.mapInArrow(_make_mapper(task, self._names, self._people), SCHEMA).collect()
        return [_engine.PartitionSum(row.partition, row.users, row.total, row.error) for row in rows]


def spark(
    frame: object,
    *,
    columns: Sequence[str] | None = None,
    users: int | None = None,
    person: str | None = None,
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
      frame: a ``pyspark.sql.DataFrame`` of a classic session. Its plan must be deterministic.
      columns: the names of the columns to read; all by default. Each holds numbers or Booleans. They become floats; a
        missing value becomes NaN.
      users: the number of users, public. If you leave it out, opening the table counts the rows.
      person: the column with each row's person, integers or texts, if a user has several rows; needs ``users`` and
        ``max_rows``. Columns then have the shape ``(people, max_rows)``, NaN in the places of missing rows.
      max_rows: the most rows of a person to read: the first, sorted by the columns' values in their order.

    Raises:
      TypeError: ``frame``, ``columns`` or ``users`` are of another type.
      ValueError: there is no row or column, a column does not hold numbers, or the plan may compute other rows the
        second time: samples, limits, random functions, a repartition without columns, dropped duplicates.
      tables.TableError: Spark failed to count the rows.
      ImportError: Spark is missing.
    """
    module = _checks.extra("pyspark.sql", "spark", "tables.spark")
    if not isinstance(frame, module.DataFrame) or not hasattr(frame, "_jdf"):
        raise TypeError(f"frame must be a DataFrame of a classic Spark session, got {type(frame).__name__}")
    return _open(frame, columns, users, _people.check_people(person, max_rows, users))


def _open(frame: Any, columns: Sequence[str] | None, users: int | None, people: _people.People | None) -> SparkTable:
    names = _people.other_names(_table.select_names(columns, frame.columns), people)
    types = dict(frame.dtypes)
    for name in names:
        if types[name] not in ("boolean", "float", "double", *WHOLE):
            raise ValueError(
                f"column {name!r} must hold numbers, got {types[name]}: leave it out by columns=, or cast it to double"
            )
    _expect_same_rows(frame._jdf.queryExecution().analyzed())
    quoted = [f"`{name}`" for name in names]
    if people is None:
        return SparkTable(frame.select(*quoted), users, names, None)
    if types.get(people.column) not in (*WHOLE, "string"):
        raise ValueError(f"person must name a column of integers or texts, got {people.column!r}")
    rows = frame.select(f"`{people.column}`", *quoted).repartition(f"`{people.column}`")
    return SparkTable(rows, users, names, people)


def _expect_same_rows(plan: Any) -> None:
    """Raise a ValueError if a partition that is computed again may hold other rows."""
    unstable = UNSTABLE & set(_operators(plan))
    if unstable or not plan.deterministic():
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


def _make_mapper(
    task: _engine.Task, names: list[str], people: _people.People | None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Make the function that an executor calls with the record batches of a partition."""

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        context = _checks.extra("pyspark", "spark", "tables.spark").TaskContext.get()
        summed = task(context.partitionId(), (_arrow.to_part(batch, names, people) for batch in batches))
        kinds = {"partition": pa.int64(), "users": pa.int64(), "total": pa.list_(pa.int64()), "error": pa.string()}
        columns = [pa.array([value], kind) for value, kind in zip(summed, kinds.values(), strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=list(kinds))

    return add

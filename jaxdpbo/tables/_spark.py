"""Spark data frames as a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from jaxdpbo import _checks
from jaxdpbo.tables import _arrow, _engine, _table
from jaxdpbo.tables._table import Columns

SCHEMA = "partition long, users long, total array<long>, error string"  # of a PartitionSum
# Operators that may select or place other rows when a worker computes a partition again.
UNSTABLE = {
    "Sample", "Repartition", "RebalancePartitions", "GlobalLimit", "LocalLimit", "Tail", "Offset", "Deduplicate",
    "Window",
}  # fmt: skip


class SparkTable(_engine.EngineTable):
    """A Spark data frame as a table, made by ``spark``."""

    engine = "spark"

    def __init__(self, frame: object, users: int | None, names: list[str]) -> None:
        self._frame: Any = frame
        super().__init__(users, names)

    def _count(self) -> int:
        return self._frame.count()

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        rows = self._frame.mapInArrow(_make_mapper(task, self._names), SCHEMA).collect()
        return [_engine.PartitionSum(row.partition, row.users, row.total, row.error) for row in rows]


def spark(frame: object, *, columns: Sequence[str] | None = None, users: int | None = None) -> SparkTable:
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
      users: the number of rows, public. If you leave it out, opening the table counts the rows.

    Raises:
      TypeError: ``frame``, ``columns`` or ``users`` are of another type.
      ValueError: there is no row or column, a column does not hold numbers, or the plan may compute other rows the
        second time: samples, limits, random functions, a repartition without columns, dropped duplicates, windows.
      tables.TableError: Spark failed to count the rows.
      ImportError: Spark is missing.
    """
    module = _checks.extra("pyspark.sql", "spark", "tables.spark")
    if not isinstance(frame, module.DataFrame) or not hasattr(frame, "_jdf"):
        raise TypeError(f"frame must be a DataFrame of a classic Spark session, got {type(frame).__name__}")
    return _open(frame, columns, users)


def _open(frame: Any, columns: Sequence[str] | None, users: int | None) -> SparkTable:
    names = _table.select_names(columns, frame.columns)
    types = dict(frame.dtypes)
    for name in names:
        if types[name] not in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double"):
            raise ValueError(
                f"column {name!r} must hold numbers, got {types[name]}: leave it out by columns=, or cast it to double"
            )
    _expect_same_rows(frame._jdf.queryExecution().analyzed())
    return SparkTable(frame.select(*(f"`{name}`" for name in names)), users, names)


def _expect_same_rows(plan: Any) -> None:
    """Raise a ValueError if a partition that is computed again may hold other rows."""
    inner = plan.subqueriesAll()
    plans = [plan, *(inner.apply(number) for number in range(inner.size()))]
    unstable = UNSTABLE & {name for each in plans for name in _operators(each)}
    if unstable or not all(each.deterministic() for each in plans):
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
            yield _arrow.to_columns(batch, names)

    def add(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa

        context = _checks.extra("pyspark", "spark", "tables.spark").TaskContext.get()
        summed = task(context.partitionId(), read(batches))
        kinds = {"partition": pa.int64(), "users": pa.int64(), "total": pa.list_(pa.int64()), "error": pa.string()}
        columns = [pa.array([value], kind) for value, kind in zip(summed, kinds.values(), strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names=list(kinds))

    return add

"""Ray data sets as a table."""

from collections.abc import Sequence
from typing import Any

from jaxdpbo import _checks
from jaxdpbo.tables import _arrow, _engine, _people, _table


class RayTable(_engine.EngineTable):
    """A Ray data set as a table, made by ``ray``."""

    engine = "ray"

    def __init__(self, dataset: object, users: int | None, names: list[str], people: _people.People | None) -> None:
        """Read the rows into the object store once: tasks that run again then see the same rows."""
        self._blocks = self._run("read", _read_blocks, dataset)
        super().__init__(users, names, people)

    def _count(self) -> int:
        return sum(_rows(self._blocks))

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        ray = _checks.extra("ray", "ray", "tables.ray")
        shared, add = ray.put(task), ray.remote(_add_block)
        blocks = enumerate(self._blocks)
        return ray.get([add.remote(shared, *block, self._names, self._people) for block in blocks])


def ray(
    dataset: object,
    *,
    columns: Sequence[str] | None = None,
    users: int | None = None,
    person: str | None = None,
    max_rows: int | None = None,
) -> RayTable:
    """Open a Ray data set as a table, a row for each user. Needs the extra ``ray``.

    Opening reads the columns into Ray's object store, which spills to disk. A scan sums each block in a task. Without a
    run, a table gives no guarantee: its rows are NOT private. Ray moves raw rows and raw sums between nodes: see the
    page on engines for encryption.

    >>> import ray.data
    >>> from jaxdpbo import tables
    >>> tables.ray(ray.data.from_items([{"age": 31.0, "visits": 2}, {"age": 54.0, "visits": 7}]))
    ray(users=2, columns=['age', 'visits'])

    Args:
      dataset: a ``ray.data.Dataset``.
      columns: the names of the columns to read; all by default. Each holds numbers or Booleans. They become floats; a
        missing value becomes NaN.
      users: the number of users, public. If you leave it out, opening the table counts the rows.
      person: the column with each row's person, integers or texts, if a user has several rows; needs ``users`` and
        ``max_rows``. Columns then have the shape ``(people, max_rows)``, NaN in the places of missing rows.
      max_rows: the most rows of a person to read: the first, sorted by the columns' values in their order.

    Raises:
      TypeError: ``dataset``, ``columns`` or ``users`` are of another type.
      ValueError: there is no row or column, or a column does not hold numbers.
      tables.TableError: Ray failed to read or to count the rows.
      ImportError: Ray is missing.
    """
    module = _checks.extra("ray.data", "ray", "tables.ray")
    if not isinstance(dataset, module.Dataset):
        raise TypeError(f"dataset must be a ray.data.Dataset, got {type(dataset).__name__}")
    return _open(dataset, columns, users, _people.check_people(person, max_rows, users))


def _open(dataset: Any, columns: Sequence[str] | None, users: int | None, people: _people.People | None) -> RayTable:
    types = dict(zip(dataset.schema().names, dataset.schema().types, strict=True))
    names = _people.other_names(_table.select_names(columns, list(types)), people)
    for name in names:
        if _arrow.shape_of("dataset", name, types[name]):
            raise ValueError(f"column {name!r} must hold numbers, got lists: make a column for each place of the list")
    if people is None:
        return RayTable(dataset.select_columns(names), users, names, None)
    _arrow.expect_persons("dataset", people.column, types.get(people.column))
    rows = dataset.select_columns([people.column, *names]).materialize()
    return RayTable(rows.repartition(rows.num_blocks(), keys=[people.column]), users, names, people)


def _read_blocks(dataset: Any) -> list[Any]:
    return dataset.materialize().to_arrow_refs()


def _rows(blocks: list[Any]) -> list[int]:
    ray = _checks.extra("ray", "ray", "tables.ray")
    count = ray.remote(lambda block: block.num_rows)
    return ray.get([count.remote(block) for block in blocks])


def _add_block(
    task: _engine.Task, partition: int, block: Any, names: list[str], people: _people.People | None
) -> _engine.PartitionSum:
    return task(partition, (_arrow.to_part(part, names, people) for part in block.to_batches()))

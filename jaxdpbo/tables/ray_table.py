"""Ray data sets as a table."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from jaxdpbo import checks
from jaxdpbo.tables import arrow, identity, table
from jaxdpbo.tables import engine as _engine
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.hashed_ids import HashedIds
from jaxdpbo.tables.table import Columns

PLAIN = {"ListFiles", "Project"}  # operators that keep declared types


class RayTable(_engine.EngineTable):
    """A Ray data set as a table, made by ``ray``."""

    engine = "ray"

    def __init__(self, dataset: object, users: int | None, names: list[str], people: _people.People | None) -> None:
        """Read the rows into the object store once, not in every scan."""
        self._blocks = self._run("read", _read_blocks, dataset)
        super().__init__(users, names, people)

    def _count(self) -> int:
        return sum(_rows(self._blocks))

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        ray = checks.extra("ray", "ray", "tables.ray")
        shared, add = ray.put(task), ray.remote(_add_block)
        return ray.get([add.remote(shared, number, block, self._names) for number, block in enumerate(self._blocks)])

    def _sums_of_people(self, split: _engine.Split, task: _engine.PeopleTask) -> list[_engine.PartitionSum]:
        """The tasks are the library's own, since Ray's shuffle depends on the types of a block."""
        ray = checks.extra("ray", "ray", "tables.ray")
        count = len(_people.ranges(task.people, _people.WORKER_SLOTS))
        cut, add = ray.remote(_split_block).options(num_returns=count), ray.remote(_add_pieces)
        shared_split, shared_task = ray.put(split), ray.put(task)
        pieces = [cut.remote(shared_split, block, self._names, task.people) for block in self._blocks]
        pieces = [[piece] for piece in pieces] if count == 1 else pieces
        ranges = enumerate(zip(*pieces, strict=True))
        return ray.get([add.remote(shared_task, number, *rows) for number, rows in ranges])


def ray(
    dataset: object,
    *,
    columns: Sequence[str] | None = None,
    users: int | None = None,
    person: str | HashedIds | None = None,
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
      dataset: a ``ray.data.Dataset``. A row that it holds twice is two users.
      columns: the names of the columns to read; all by default. Each holds numbers or Booleans. They become floats; a
        missing value becomes NaN, and so does one that is no number, such as a date.
      users: the number of rows, public. If you leave it out, opening the table counts the rows.
      person: see ``parquet``; ``users`` is then the number of people. Each scan moves rows between workers.
      max_rows: see ``parquet``.

    Raises:
      TypeError: an argument is of another type.
      ValueError: there is no row or column, Parquet files declare a column without numbers, or a ``person`` without
        integers, or the data set samples or shuffles at random, or reads one file under two names.
      tables.TableError: Ray failed to read or to count the rows.
      ImportError: Ray is missing.
    """
    module = checks.extra("ray.data", "ray", "tables.ray")
    if not isinstance(dataset, module.Dataset):
        raise TypeError(f"dataset must be a ray.data.Dataset, got {type(dataset).__name__}")
    return _open(dataset, columns, users, _people.check_people(person, max_rows, users, rows_counted=True))


def _open(dataset: Any, columns: Sequence[str] | None, users: int | None, people: _people.People | None) -> RayTable:
    types = dict(zip(dataset.schema().names, dataset.schema().types, strict=True))
    person = [] if people is None else [people.column]
    names = table.select_names(columns, [name for name in types if name not in person])
    operators = list(_operators(dataset._logical_plan.dag))
    declared = all(
        type(operator).__name__ in PLAIN or re.match("Read.*Parquet", operator.name) for operator in operators
    )
    if people is not None:
        kind = types.get(people.column)
        integers, text = arrow.is_integer(kind), kind is not None and arrow.is_text(kind)
        there = kind is not None and not declared  # other types may follow from rows
        _people.expect_ids("dataset", people, integers=integers or there, text=text)
        people = people._replace(exact=declared)
    if any("random" in operator.name.lower() for operator in operators):
        raise ValueError(
            "dataset must hold the same rows whenever a worker computes it: write the sample to files, and read these"
        )
    for name in names if declared else []:  # other types may follow from rows
        arrow.expect_numbers("dataset", name, types[name])
    for reads in ([dataset.input_files()], [getattr(operator, "source_paths", None) for operator in operators]):
        identity.expect_files_once("dataset", *filter(None, reads))  # each version of Ray knows one of the two
    return RayTable(dataset.select_columns([*person, *names]), users, names, people)


def _read_blocks(dataset: Any) -> list[Any]:
    return dataset.materialize().to_arrow_refs()


def _operators(operator: Any) -> Iterator[Any]:
    """An operator and all that come before."""
    yield operator
    for before in operator.input_dependencies:
        yield from _operators(before)


def _rows(blocks: list[Any]) -> list[int]:
    ray = checks.extra("ray", "ray", "tables.ray")
    count = ray.remote(lambda block: block.num_rows)
    return ray.get([count.remote(block) for block in blocks])


def _add_block(task: _engine.Task, partition: int, block: Any, names: list[str]) -> _engine.PartitionSum:
    return task(partition, _read(block, names))


def _split_block(split: _engine.Split, block: Any, names: list[str], people: _people.People) -> Any:
    pieces = split(arrow.to_people(part, names, people) for part in block.to_batches())
    return pieces if len(pieces) > 1 else pieces[0]  # Ray's num_returns=1 takes the piece itself


def _add_pieces(task: _engine.PeopleTask, number: int, *pieces: _people.Rows) -> _engine.PartitionSum:
    return task(number, pieces)


def _read(block: Any, names: list[str]) -> Iterator[Columns]:
    for part in block.to_batches():
        yield arrow.to_columns(part, names)

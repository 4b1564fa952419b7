"""The part that all engines share: workers sum the rows of partitions, and the driver sums the partitions.

Engines run tasks again after a failure, and sometimes twice at once. A task therefore draws nothing and writes nothing.
The task returns whole numbers, and the driver counts each partition once; a run draws noise on the sum of all.
"""

import functools
import importlib.util
import pickle
import sys
import threading
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, not_private, silence
from jaxdpbo import notes as _notes
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.tables import people as _people
from jaxdpbo.tables import table
from jaxdpbo.tables.table import Columns, Partial, Sum, TableError

LEFT_OUT = "rows of nobody, beyond max_rows of a person, or without a number"
FULL_WIDTH = "compute what you need at full width in a column of the engine, such as end - start"


class PartitionSum(NamedTuple):
    """The sum over the rows of a partition. NOT PRIVATE.

    Attributes:
      partition: the number of the partition.
      users: the number of its rows.
      total: ``(k,)`` as a list, which every engine can carry.
      error: why there is no sum; it quotes no row.
    """

    partition: int
    users: int
    total: list[int]
    error: str = ""


class Task:
    """Sum the rows of a partition, in a worker: a function of the rows alone."""

    def __init__(self, partial: Partial) -> None:
        self._partial, self._x64, self._versions = partial, jnp.result_type(float) == jnp.float64, versions()

    def __call__(self, partition: int, parts: Iterable[Columns]) -> PartitionSum:
        """Return the sum, or the type of any exception: its text may quote rows, and engines log errors."""
        if self._versions != versions():
            return PartitionSum(partition, 0, [], f"the worker has {versions()}, the driver {self._versions}")
        with jax.enable_x64(self._x64):
            summed = silence.catch(lambda: table.add_batches(self._partial, table.batches(parts)))
        if isinstance(summed, silence.Failed):
            return PartitionSum(partition, 0, [], summed.kind)
        return PartitionSum(partition, summed.users, summed.total.tolist() if summed.users else [])


class Split:
    """Cut the rows of a partition into ranges of people, in a worker: a function of the rows alone.

    The library places rows, not the engine: a shuffle of an engine may send equal numbers of another type elsewhere.
    """

    def __init__(self, people: _people.People, names: list[str]) -> None:
        self._people, self._names, self._x64 = people, names, jnp.result_type(float) == jnp.float64

    def __call__(self, parts: Iterable[_people.Rows]) -> list[_people.Rows]:
        """Return the rows of each range, empty ones too, so that a missing range is seen. Errors quote no row."""
        with jax.enable_x64(self._x64):
            failure = "a worker could not split rows by person"
            return table.call(failure, _people.split_rows, parts, self._people, self._names)


class PeopleTask(NamedTuple):
    """Sum the people of a range, in a worker: a ``Task`` with a partition for each range."""

    task: Task
    people: _people.People

    def __call__(self, partition: int, pieces: Iterable[_people.Rows]) -> PartitionSum:
        """Return the sum over all people of the range, those without rows too."""
        first, last = _people.ranges(self.people, _people.WORKER_SLOTS)[partition]

        def group() -> Iterator[Columns]:  # in the task, which hides the text of errors
            yield _people.group_rows(pieces, self.people, first, last)

        return self.task(partition, group())


class EngineTable(table.Table):
    """A table with rows on an engine. Subclasses run a ``Task`` on each partition."""

    engine: str  # the name of the function that opens the table
    pickles: bool = True  # its workers are always other processes

    def __init__(self, users: int | None, names: list[str], people: _people.People | None = None) -> None:
        """Count the rows if the caller gives no number of users.

        Raises:
          TableError: the engine cannot count.
          ValueError: there is no row.
        """
        self._names, self._people = names, people
        self._users = self._run("count the rows of", self._count) if users is None else checks.size("users", users)
        if not self._users:
            raise ValueError("the table must hold one row or more")

    def __repr__(self) -> str:
        """Show names and the number of users."""
        return table.describe(self.engine, self)

    @property
    def users(self) -> int:
        """``n``, as given, or the number of rows when the table was opened."""
        return self._users

    @property
    def columns(self) -> dict[str, tuple[int, ...]]:
        """The shape of a user's row in each column: a number, or a number for each slot of a person."""
        return _people.row_shapes(dict.fromkeys(self._names, ()), self._people)

    @property
    def grouping(self) -> tuple[str, ...]:
        """The column that says which person each row is of."""
        return () if self._people is None else self._people.grouping

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Workers see rows and raw sums, and engines compute a partition again after a failure."""
        of_people = () if self._people is None else self._people.assumptions
        return _assumptions.WIRE, _assumptions.SAME_ROWS, *of_people

    @property
    def notes(self) -> _notes.Notes:
        """That a loss sees 32 bits, for all columns: the types of an engine may have been inferred from rows."""
        return table.narrowing_notes(self._names, "the engine may hold 64 bits", FULL_WIDTH)

    def add(self, partial: Partial) -> Sum:
        """Sum ``partial`` over all batches, see ``Table``."""
        task = Task(partial)
        if self._people is None:
            return add_partitions(self._run("scan", self._sums, task))
        split = Split(self._people, self._names)
        return add_partitions(self._run("scan", self._sums_of_people, split, PeopleTask(task, self._people)))

    def check(self) -> not_private.NotPrivateCheck:
        """NOT PRIVATE: see ``Table.check``; with ``person``, also the rows that no person's slots hold."""
        found = super().check()
        if self._people is None:
            return found
        filled = int(self.add(functools.partial(_count_filled, self._names)).total[0])
        rows = self._run("count the rows of", self._count)
        lost = not_private.Finding("rows", LEFT_OUT, rows - filled, rows)
        return not_private.make_check(rows, [lost], found.findings)

    @abstractmethod
    def _sums(self, task: Task) -> list[PartitionSum]:
        """Run the task on each partition."""

    @abstractmethod
    def _sums_of_people(self, split: Split, task: PeopleTask) -> list[PartitionSum]:
        """Split each partition by ranges of people; run the task on each range, with its pieces of all partitions."""

    @abstractmethod
    def _count(self) -> int:
        """The number of rows."""

    def _run(self, what: str, function: Any, *args: Any) -> Any:
        """Call the engine, see ``table.call``."""
        return table.call(f"{self.engine} could not {what} the table", function, *args)


def _count_filled(names: list[str], batch: table.Batch) -> np.ndarray:
    """How many slots of people hold a row with a number."""
    numbers = np.stack([~np.isnan(batch.columns[name][batch.present]) for name in names])
    return np.array([np.sum(np.any(numbers, axis=0))], np.int64)


def add_partitions(sums: Iterable[PartitionSum]) -> Sum:
    """Sum over partitions.

    Raises:
      TableError: a partition failed, or is there twice. A run compares the number of rows.
    """
    total, users, seen = np.zeros((), np.int64), 0, set()
    for part in sums:
        if part.error:
            raise TableError(f"partition {part.partition} failed in a worker: {part.error}")
        if part.partition in seen:
            raise TableError(f"partition {part.partition} was summed twice")
        seen.add(part.partition)
        if part.users:
            total, users = total + np.asarray(part.total, np.int64), users + part.users
    return Sum(total, users)


def expect_pickled(function: Any, dump: Any, workers: str) -> None:
    """Raise a TypeError, before anything is charged, if a function cannot be pickled for workers."""
    failed = silence.catch(dump, function)
    if isinstance(failed, silence.Failed):
        raise TypeError(
            f"loss must be pickled for {workers}, and cannot be ({failed.kind}): define it as a function of a module, "
            "and open files, locks and connections inside of it"
        )


class PickledOnce:
    """Objects that all scans share. Each process loads one copy, so that JAX compiles a loss once in a worker.

    Functions of a notebook need cloudpickle, which the extras of all engines bring.
    """

    def __init__(self, objects: tuple[Any, ...]) -> None:
        self.objects = objects
        self._content = b""

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as bytes, the same at each pickling."""
        if not self._content:
            name = "cloudpickle" if importlib.util.find_spec("cloudpickle") else "pickle"
            self._content = importlib.import_module(name).dumps(self.objects)
        return _load, (self._content,)


def expect_travels(of: table.Table, functions: PickledOnce) -> None:
    """Raise a TypeError if the workers of a table's engine are other processes, and functions cannot be pickled."""
    if isinstance(of, EngineTable) and of.pickles:
        expect_pickled(functions, PickledOnce.__reduce__, f"the workers of {of.engine}")


_LOADING = threading.Lock()  # two threads of a worker must get the same copy


def _load(content: bytes) -> PickledOnce:
    with _LOADING:
        return _load_once(content)


@functools.lru_cache(maxsize=16)
def _load_once(content: bytes) -> PickledOnce:
    return PickledOnce(pickle.loads(content))


def versions() -> str:
    """What the driver and its workers must have in common."""
    return f"jaxdpbo {sys.modules['jaxdpbo'].__version__} and jax {jax.__version__}"

"""Several rows of a person as one user: a row for each person, with a slot for each of at most ``max_rows`` rows."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxdpbo import _checks
from jaxdpbo.tables import _table
from jaxdpbo.tables._table import Columns, Partial, Sum, TableError


class People(NamedTuple):
    """How rows become users.

    Attributes:
      column: the name of the column with each row's person.
      users: the number of people, public. A person without rows adds nothing.
      max_rows: the largest number of rows of a person that are read.
    """

    column: str
    users: int
    max_rows: int


class Rows(NamedTuple):
    """Some rows, with the person of each.

    Attributes:
      persons: ``(m,)`` integers or texts.
      present: ``(m,)``, False for a row without a person.
      columns: arrays ``(m, ...)``.
    """

    persons: np.ndarray
    present: np.ndarray
    columns: Columns

    def take(self, bucket: int, buckets: int) -> "Rows":
        """The rows of a part of the people."""
        if buckets == 1:
            return self
        taken = bucket_of(self.persons, buckets) == bucket
        columns = {name: column[taken] for name, column in self.columns.items()}
        return Rows(self.persons[taken], self.present[taken], columns)


def check_people(person: str | None, max_rows: int | None, users: int | None) -> People | None:
    """Check the arguments of a table that are about people; None if each row is a user.

    Raises:
      TypeError: an argument is of another type.
      ValueError: ``person`` is given without ``users`` or ``max_rows``, or ``max_rows`` without ``person``.
    """
    if person is None:
        if max_rows is not None:
            raise ValueError("max_rows needs person, the name of the column with each row's person")
        return None
    if not isinstance(person, str):
        raise TypeError(f"person must be the name of a column, got {person!r}")
    if users is None or max_rows is None:
        raise ValueError(
            "person needs users, the public number of people, and max_rows, the most rows read of a person"
        )
    return People(person, _checks.size("users", users), _checks.size("max_rows", max_rows))


def row_shapes(shapes: dict[str, tuple[int, ...]], people: People | None) -> dict[str, tuple[int, ...]]:
    """The shapes of a user's columns, from those of a row."""
    if people is None:
        return dict(shapes)
    return {name: (people.max_rows, *shape) for name, shape in shapes.items()}


def other_names(names: Sequence[str], people: People | None) -> list[str]:
    """The columns without that of the person. Raise a ValueError if there is no other."""
    others = [name for name in names if people is None or name != people.column]
    if not others:
        raise ValueError("columns must name one or more columns beside that of the person")
    return others


def group_rows(rows: Iterable[Rows], people: People) -> Iterator[Columns]:
    """Yield columns ``(people, max_rows, ...)`` of all rows of these people; NaN in slots without a row.

    A person's rows are sorted by their values, column by column, and the first ``max_rows`` are kept: what a person
    adds is a function of this person's rows alone, in any order of the rows and on any engine.
    """
    parts = [part for part in rows if len(part.persons)]
    if not parts:
        return
    present = np.concatenate([part.present for part in parts])
    persons = np.concatenate([part.persons for part in parts])[present]
    if not len(persons):
        return
    columns = {
        name: np.concatenate([part.columns[name] for part in parts])[present] + 0.0  # -0.0 sorts beside 0.0
        for name in parts[0].columns
    }
    _, codes, counts = np.unique(persons, return_inverse=True, return_counts=True)
    keys = [column.reshape(len(codes), -1) for column in columns.values()]
    order = np.lexsort([*np.concatenate(keys, axis=1).T[::-1], codes])
    slots = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = slots < people.max_rows
    where, order = (codes[order][kept], slots[kept]), order[kept]
    grouped = {}
    for name, column in columns.items():
        grouped[name] = np.full((len(counts), people.max_rows, *column.shape[1:]), np.nan, column.dtype)
        grouped[name][where] = column[order]
    yield grouped


def bucket_of(persons: np.ndarray, buckets: int) -> np.ndarray:
    """A number below ``buckets`` for each person, the same in each file."""
    if persons.dtype.kind in "iu":
        hashes = persons.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)  # Fibonacci hashing
    else:
        names, positions = np.unique(persons, return_inverse=True)
        hashes = np.array([zlib.crc32(name.encode()) for name in names], np.uint64)[positions]
    return hashes % np.uint64(buckets)


def add_absent(sum_: Sum, partial: Partial, table: _table.Table, people: People | None) -> Sum:
    """Count people without rows, who add nothing. Raise a TableError if there are more people than users."""
    if people is None:
        return sum_
    if sum_.users > people.users:
        raise TableError(f"a scan found {sum_.users} people, more than the {people.users} users of the table")
    total = sum_.total if sum_.users else partial(_table.make_empty_batch(table))
    return Sum(total, people.users)

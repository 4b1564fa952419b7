"""Several rows of a person as one user: people have numbers or ids, and each ``max_rows`` places for rows."""

import itertools
from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, not_private
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.tables.hashed_ids import NOBODY, HashedIds
from jaxdpbo.tables.table import BATCH, Columns

SLOTS = 256 * BATCH  # rows in memory while the rows of people are put together
WORKER_SLOTS = 64 * BATCH  # the same, of a worker of an engine
LARGEST = 2**53  # to here a float holds a whole number exactly


class People(NamedTuple):
    """How rows become users. All fields are public.

    Attributes:
      column: the name of the column with the number of each row's person, an integer in ``[0, users)``, or the id.
      users: the number of people.
      max_rows: the largest number of rows of a person that are read.
      ids: the hash that makes numbers of ids; None if the column holds numbers.
      exact: whether the column's declared type keeps ids of 64 bits in all parts (``HashedIds.slots``).
    """

    column: str
    users: int
    max_rows: int
    ids: HashedIds | None = None
    exact: bool = False

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee assumes about ids, see ``Guarantee.assumptions``."""
        return () if self.ids is None else (_assumptions.ONE_ID,)

    @property
    def grouping(self) -> tuple[str, ...]:
        """See ``Table.grouping``; the key of a hash is left out, since it may be secret."""
        return self.column, "numbers" if self.ids is None else "ids"


class Rows(NamedTuple):
    """Some rows, with the person of each.

    Attributes:
      persons: int64 ``(m,)``; -1 for a row of nobody.
      columns: arrays ``(m, ...)``.
    """

    persons: np.ndarray
    columns: Columns

    def take(self, chosen: np.ndarray) -> "Rows":
        """Some of the rows, by a mask or by their numbers."""
        return Rows(self.persons[chosen], {name: column[chosen] for name, column in self.columns.items()})


def check_people(
    person: str | HashedIds | None, max_rows: int | None, users: int | None, *, rows_counted: bool = False
) -> People | None:
    """Check the arguments of a table that are about people; None if each row is a user.

    Engines count rows, so they take ``users`` without ``person`` too, as the number of rows (rows_counted).

    Raises:
      TypeError: an argument is of another type.
      ValueError: one of the three is given without the others.
    """
    if person is None:
        if max_rows is not None or not (users is None or rows_counted):
            arguments = "max_rows needs" if rows_counted else "users and max_rows need"
            raise ValueError(f"{arguments} person: without it, each row is a user")
        return None
    ids = person if isinstance(person, HashedIds) else None
    column = person if ids is None else ids.column
    if not isinstance(column, str):
        raise TypeError(f"person must be the name of a column, or tables.hashed(name), got {person!r}")
    if users is None or max_rows is None:
        raise ValueError("person needs users, the number of people, and max_rows, the most rows read of a person")
    return People(column, checks.size("users", users), checks.size("max_rows", max_rows), ids)


def expect_ids(source: str, people: People, *, integers: bool, text: bool) -> None:
    """Raise a ValueError for a column that cannot say whose a row is."""
    if people.ids is None and not integers:
        hint = f": for ids of any kind, give person=tables.hashed({people.column!r})" if text else ""
        raise ValueError(
            f"person must name a column of integers, which {source} does not have as {people.column!r}{hint}"
        )
    if not integers and not text:
        raise ValueError(
            f"person must name a column of integers or text, which {source} does not have as {people.column!r}"
        )


def to_persons(numbers: np.ndarray) -> np.ndarray:
    """The numbers of people as int64; -1 for an element that is no whole number."""
    if numbers.dtype.kind == "i":
        return numbers.astype(np.int64)
    with np.errstate(all="ignore"):
        whole = (np.abs(numbers) < LARGEST) & (numbers == np.floor(numbers))  # False for NaN
        return np.where(whole, numbers, NOBODY).astype(np.int64)


def ranges(people: People, slots: int) -> list[tuple[int, int]]:
    """Cut the people, by their numbers alone, into ranges with about as many slots."""
    size = max(slots // people.max_rows, 1)
    return [(first, min(first + size, people.users)) for first in range(0, people.users, size)]


def split_rows(parts: Iterable[Rows], people: People, names: list[str]) -> list[Rows]:
    """The rows of each range of people, in the order of ``ranges``; at most ``max_rows`` rows of a person."""
    empty = Rows(np.zeros(0, np.int64), {name: np.zeros(0, jnp.result_type(float)) for name in names})
    kept = [part.take((part.persons >= 0) & (part.persons < people.users)) for part in parts]
    rows, _ = _trim(join([empty, *kept]), people.max_rows)  # by person
    firsts = [first for first, _ in ranges(people, WORKER_SLOTS)]
    cuts = [*np.searchsorted(rows.persons, firsts).tolist(), len(rows.persons)]
    return [rows.take(np.arange(start, end)) for start, end in itertools.pairwise(cuts)]


def group_rows(parts: Iterable[Rows], people: People, first: int, last: int) -> Columns:
    """Columns ``(last - first, max_rows, ...)`` with the rows of these people; NaN in slots without a row.

    A person's rows are sorted by their values, column by column, and the first ``max_rows`` are kept: what a slot holds
    is a function of its person's rows alone, in any order of the rows.
    """
    kept: list[Rows] = []
    for part in parts:
        kept.append(part.take((part.persons >= first) & (part.persons < last)))
        if sum(len(rows.persons) for rows in kept) > 2 * SLOTS:  # a person with many rows must not fill the memory
            kept = [_trim(join(kept), people.max_rows)[0]]
    rows, slots = _trim(join(kept), people.max_rows)
    grouped = {}
    for name, column in rows.columns.items():
        grouped[name] = np.full((last - first, people.max_rows, *column.shape[1:]), np.nan, column.dtype)
        grouped[name][rows.persons - first, slots] = column
    return grouped


def join(parts: list[Rows]) -> Rows:
    """The rows of all parts."""
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    return Rows(np.concatenate([part.persons for part in parts]), columns)


def _trim(rows: Rows, max_rows: int) -> tuple[Rows, np.ndarray]:
    """The first ``max_rows`` rows of each person in the order of their values, and the place of each."""
    with np.errstate(all="ignore"):  # a signalling NaN raises a flag
        columns = {name: column + 0.0 for name, column in rows.columns.items()}  # -0.0 sorts beside 0.0
    keys = np.concatenate([np.atleast_2d(column.T) for column in columns.values()])
    rows = Rows(rows.persons, columns).take(np.lexsort([*keys[::-1], rows.persons]))
    _, starts, counts = np.unique(rows.persons, return_index=True, return_counts=True)
    slots = np.arange(len(rows.persons)) - np.repeat(starts, counts)
    kept = slots < max_rows
    return rows.take(kept), slots[kept]


def row_shapes(shapes: dict[str, tuple[int, ...]], people: People | None) -> dict[str, tuple[int, ...]]:
    """The shapes of a user's columns, from those of a row."""
    if people is None:
        return dict(shapes)
    return {name: (people.max_rows, *shape) for name, shape in shapes.items()}


def count_left_out(people: People, held: np.ndarray, rows: int) -> list[not_private.Finding]:
    """The rows and people that a scan leaves out, from the number of rows ``held (users,)`` of each. NOT PRIVATE."""
    outside = "outside of [0, users)" if people.ids is None else "that is missing"
    nobody, beyond = rows - int(np.sum(held)), int(np.sum(np.maximum(held - people.max_rows, 0)))
    return [
        not_private.Finding("rows", f"rows of nobody, with a {people.column!r} {outside}", nobody, rows),
        not_private.Finding("rows", f"rows beyond the first {people.max_rows} of a person", beyond, rows),
        not_private.Finding("people", "people without a row", int(np.sum(held == 0)), people.users),
    ]

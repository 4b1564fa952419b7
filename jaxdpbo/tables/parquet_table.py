"""Parquet files as a table: read in parts, so that memory holds a few parts and never the file."""

import os
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, not_private, silence
from jaxdpbo import notes as _notes
from jaxdpbo.tables import arrow, identity, sources, table
from jaxdpbo.tables import people as _people
from jaxdpbo.tables import spill as spilling
from jaxdpbo.tables.hashed_ids import HashedIds
from jaxdpbo.tables.table import BATCH, Columns, Partial, Sum, TableError, UnreadError

PART = 8 * BATCH  # rows of a read
Files: TypeAlias = dict[str, tuple[Any, ...]]  # rows, bytes, the time of the last change, and what the file is
Source: TypeAlias = str | Path | Sequence[str | Path]


class ParquetTable(table.Table):
    """Parquet files as a table, made by ``parquet``. A pickle holds paths and no rows."""

    def __init__(
        self,
        source: list[str],
        columns: dict[str, tuple[int, ...]],
        files: Files,
        people: _people.People | None,
        read: sources.Sources,
        wide: Sequence[str],
        spill_folder: Path | None = None,
    ) -> None:
        self._spill_folder = spill_folder
        self._spill: spilling.Spill | None = None
        self._source, self._columns, self._files, self._people = source, columns, files, people
        self._sources, self._wide = read, tuple(wide)

    def __repr__(self) -> str:
        """Show names and the number of users."""
        return table.describe("parquet", self)

    @property
    def users(self) -> int:
        """``n``, the number of rows by the files' metadata, or the number of people that you gave."""
        return sum(rows for rows, *_ in self._files.values()) if self._people is None else self._people.users

    @property
    def columns(self) -> dict[str, tuple[int, ...]]:
        """The shape of a user's row in each column."""
        return _people.row_shapes(self._columns, self._people)

    @property
    def definitions(self) -> dict[str, str]:
        """The columns that are computed, or read by a dimension, as text."""
        return self._sources.definitions

    @property
    def grouping(self) -> tuple[str, ...]:
        """The column that says which person each row is of."""
        return () if self._people is None else self._people.grouping

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What ids of people mean."""
        return () if self._people is None else self._people.assumptions

    @property
    def notes(self) -> _notes.Notes:
        """Which columns lie in the files in 64 bits and reach a loss in 32, and that each scan reads files often."""
        said = table.narrowing_notes(self._wide, "the files hold 64 bits", sources.FULL_WIDTH)
        return said + (_notes.many_readings(self._readings) if self._spill_folder is None else ())

    def add(self, partial: Partial) -> Sum:
        """Sum ``partial`` over all batches, see ``Table``."""
        return table.add_batches(partial, table.batches(self._users_parts(self._open())))

    def check(self) -> not_private.NotPrivateCheck:
        """NOT PRIVATE: count the cells that the columns do not foresee, and the rows and people that are left out.

        See ``Table.check``. Reads the files once.
        """
        parts, people = self._raw_parts(self._open()), self._people
        found, rows = not_private.make_check(0), 0
        held = np.zeros(0 if people is None else people.users, np.int64)
        while (read := table.call("a file of the table could not be read", next, parts, None)) is not None:
            part, of_path = read
            found = not_private.make_check(0, found.findings, self._sources.count_odd(part, of_path))
            rows += part.num_rows
            if people is not None:
                persons = arrow.to_persons(part.column(people.column), people)
                known = persons[(persons >= 0) & (persons < people.users)]
                held += np.bincount(known, minlength=people.users)
        left_out = [] if people is None else _people.count_left_out(people, held, rows)
        return not_private.make_check(rows, left_out, found.findings)

    def _open(self) -> Any:
        """The data set of a scan, of the same files as the table. Raise an UnreadError: no row is read yet."""
        try:
            dataset = _dataset(self._source)
            self._expect_same(dataset)
        except TableError as error:
            failure = str(error)
        else:
            return dataset
        raise UnreadError(failure)

    def _users_parts(self, dataset: Any) -> Iterator[Columns]:
        """Parts with a row for each user. People are cut into ranges that fit in memory, a reading for each."""
        if self._people is None:
            yield from self._parts(dataset)
        elif self._spill_folder is not None and self._readings > 1:
            yield from self._open_spill(dataset, self._people, self._spill_folder).read()
        else:
            for first, last in _people.ranges(self._people, _people.SLOTS):
                yield _people.group_rows(self._parts(dataset), self._people, first, last)

    @property
    def _readings(self) -> int:
        """How often a scan reads the files, without a spill."""
        return 1 if self._people is None else len(_people.ranges(self._people, _people.SLOTS))

    def _open_spill(self, dataset: Any, people: _people.People, folder: Path) -> spilling.Spill:
        """The people's rows on disk, written by the first scan of this process."""
        dtype = jnp.result_type(float)
        if self._spill is None or self._spill.dtype != dtype:
            try:
                self._spill = spilling.write_spill(self._parts(dataset), people, folder, dtype)
            except OSError as error:
                failure = f"the rows could not be written to {folder} ({type(error).__name__})"
            else:
                weakref.finalize(self, self._spill.file.close)
                return self._spill
            raise TableError(failure)
        return self._spill

    def __getstate__(self) -> dict[str, Any]:
        """Leave the spill out: it belongs to this process."""
        return self.__dict__ | {"_spill": None}

    def _parts(self, dataset: Any) -> Iterator[Any]:
        """The rows of all files, some at a time. No error of the reader is passed on, since it may quote values."""
        parts = self._read(dataset)
        while (part := table.call("a file of the table could not be read", next, parts, None)) is not None:
            yield part
        self._expect_same(dataset)

    def _read(self, dataset: Any) -> Iterator[Any]:
        """Read each file in its own types: a cast between integers and floats could fail for a single value."""
        for part, of_path in self._raw_parts(dataset):
            if self._people is None:
                yield self._sources.to_columns(part, of_path)
            else:
                yield self._sources.to_people(part, of_path, self._people)

    def _raw_parts(self, dataset: Any) -> Iterator[tuple[Any, dict[str, str | None]]]:
        """Parts of each file in its own types, with the columns that its path names."""
        for fragment in dataset.get_fragments():
            of_path, schema = sources.columns_of_path(fragment.path), fragment.physical_schema
            scanner = fragment.scanner(columns=self._sources.fields(schema), batch_size=PART, batch_readahead=2)
            for part in scanner.to_batches():
                if part.num_rows:
                    yield part, of_path

    def _expect_same(self, dataset: Any) -> None:
        found = _files(dataset)
        if changed := [path for path in {**self._files, **found} if found.get(path) != self._files.get(path)]:
            raise TableError(f"{changed[0]} has changed since the table was opened: open the table again")


def parquet(
    source: Source,
    columns: sources.Selection | None = None,
    *,
    users: int | None = None,
    person: str | HashedIds | None = None,
    max_rows: int | None = None,
    spill: str | Path | None = None,
) -> ParquetTable:
    """Open Parquet files as a table, a row for each user. Needs the extra ``table``.

    A scan reads the columns that you name, in parts: memory holds a few parts, or row groups if these are larger.
    Opening reads the files' metadata alone. Without a run, a table gives no guarantee: its rows are NOT private.

    >>> import pathlib, tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet
    >>> from jaxdpbo import tables
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "visits.parquet"
    >>> pyarrow.parquet.write_table(pa.table({"age": [31.0, 54.0, None], "visits": [2, 7, 1]}), path)
    >>> tables.parquet(path)
    parquet(users=3, columns=['age', 'visits'])

    Give ``columns`` as a dict to compute a column at full width, before it becomes a float, or to read text:

    >>> import pyarrow.compute as pc
    >>> from jaxdpbo import space
    >>> stays = pa.table({"start": [1_700_000_000], "end": [1_700_000_009], "ward": ["east"], "paid": ["1.234,50"]})
    >>> pyarrow.parquet.write_table(stays, path)
    >>> columns = {
    ...     "stay": pc.field("end") - pc.field("start"),
    ...     "ward": space.categorical("west", "east"),
    ...     "paid": space.real(0, 1e6, decimal=",", thousands="."),
    ... }
    >>> tables.parquet(path, columns).add(lambda batch: [int(sum(batch.columns[name])) for name in columns]).total
    array([   9,    1, 1234])

    Args:
      source: a file, a folder of files, a list of files, or an address such as "s3://bucket/folder" that pyarrow opens,
        or a list of addresses of files of one store. Give a store its keys by its variables of the environment, such as
        ``AWS_ACCESS_KEY_ID``, and not in the address. Each file once: on this machine two names of one file are seen by
        device and inode, elsewhere as text. A copy of a file is not seen, and counts its users again.
      columns: the names of the columns to read; by default all that lie in the files. Each holds numbers, decimals,
        Booleans, dates, times, or lists of these of one fixed length. They become floats; a missing value becomes NaN.
        A date or a timestamp counts in seconds since 1970 in UTC, a duration in seconds. The folder ``year=2024`` gives
        its files a column "year", which you must name. Or a dict by name, each value a ``pyarrow.compute.Expression``
        of a row's own columns, where a row that fails is NaN; or a dimension: ``space.categorical`` or a list gives the
        position in the list, and NaN for all that is not listed, ``space.real`` and ``space.integer`` the nearest
        number in the range, of text too if they say how it spells numbers.
      users: with ``person``, the number of people, or of slots for ids (``tables.hashed``), public. Otherwise the
        number of rows is the number of users.
      person: the column with the number of each row's person, an integer in ``[0, users)``, if a user has several
        rows; or ``tables.hashed(column)``, if people have ids of any kind. Rows with other numbers are left out.
        Columns then have the shape ``(people, max_rows, ...)``, NaN in slots without a row. A scan reads the files once
        for each four million slots, or see ``spill``.
      max_rows: with ``person``, the most rows of a person to read: the first, sorted by the columns' values in their
        order.
      spill: for more than four million slots, a folder on a local disk with room for the rows; unused below. The first
        scan then reads the files once, and writes the rows by person to a file without a name, which is gone when the
        process ends, even if it is killed; later scans read this file. The file holds protected rows.

    Raises:
      TypeError: ``source`` or ``columns`` are of another type.
      ValueError: there is no file, row or column; a file lacks a column, or holds another type of values in it; an
        expression does not fit the types; a file has two names, or a folder holds a symbolic link.
      ImportError: pyarrow is missing.
    """
    where = _checked_paths(source)
    try:
        dataset = _dataset(where)
        files = _files(dataset)
    except TableError as error:
        raise ValueError(f"source must be Parquet files: {error}") from None
    people, folder = _people.check_people(person, max_rows, users), spilling.check_folder(spill)
    people = people and people._replace(exact=True)  # each file declares its types
    fragments = list(dataset.get_fragments())
    of_path = sources.columns_of_path(fragments[0].path) if fragments else {}
    named = None if people is None else people.column
    read = sources.check_sources(columns, dataset.schema.names, list(of_path), named)
    if not any(rows for rows, *_ in files.values()):
        raise ValueError("source must hold one row or more")
    kinds = {name: read.kind("the first file", name, dataset.schema, of_path) for name in read.by_name}
    wide: dict[str, None] = {}
    for fragment in fragments:
        _expect_schema(fragment, kinds, people, read)
        wide |= dict.fromkeys(sources.wide_columns(read, fragment.physical_schema))
    shapes = {name: shape for name, (shape, _) in kinds.items()}
    return ParquetTable(where, shapes, files, people, read, list(wide), folder)


def _expect_schema(
    fragment: Any,
    kinds: dict[str, tuple[tuple[int, ...], str]],
    people: _people.People | None,
    read: sources.Sources,
) -> None:
    """Raise a ValueError if a file has other columns than the first."""
    schema, of_path = fragment.physical_schema, sources.columns_of_path(fragment.path)
    for name, (shape, unit) in kinds.items():
        own_shape, own_unit = read.kind(fragment.path, name, schema, of_path)
        if own_shape != shape:
            raise ValueError(f"column {name!r} of {fragment.path} must have the shape {shape}, as in other files")
        if own_unit != unit:
            raise ValueError(f"column {name!r} of {fragment.path} must hold {unit}, as other files, not {own_unit}")
    if people is not None:
        arrow.expect_ids(fragment.path, schema, people)


def _checked_paths(source: Source) -> list[str]:
    paths = [source] if isinstance(source, (str, Path)) else source
    if not isinstance(paths, (list, tuple)) or not paths or not all(isinstance(path, (str, Path)) for path in paths):
        raise TypeError(f"source must be a path, or a list of paths, got {source!r}")
    return [str(path) for path in paths]


def _dataset(source: list[str]) -> Any:
    module = checks.extra("pyarrow.dataset", "table", "tables.parquet")
    for path in filter(None, map(identity.local_path, source)):
        if link := identity.find_link(path):
            raise TableError(f"{link} is a symbolic link, which may lead out of {path} or back into it: list the files")
    opened = silence.catch(_open_dataset, module.dataset, source)
    if isinstance(opened, silence.Failed):
        shown = ", ".join(map(identity.without_secrets, source))
        raise TableError(_find_cause(source) or f"{shown} could not be opened ({opened.kind})")
    return opened


def _open_dataset(dataset: Any, source: list[str]) -> Any:
    """One source as pyarrow opens it; a list of addresses of one object store by its file system."""
    if len(source) == 1:
        return dataset(source[0], format="parquet")
    if any(identity.local_path(address) is not None for address in source):
        return dataset(source, format="parquet")
    module = checks.extra("pyarrow.fs", "table", "tables.parquet")
    (store, first), *others = map(module.FileSystem.from_uri, source)
    if not all(other.equals(store) for other, _ in others):
        raise ValueError("addresses of two stores")
    return dataset([first, *(path for _, path in others)], filesystem=store, format="parquet")


def _find_cause(source: list[str]) -> str:
    """Why files of this machine are no table, by the first file with a fault; "" if none is found."""
    schema_of = checks.extra("pyarrow.parquet", "table", "tables.parquet").read_schema
    files = [path for path in map(identity.local_path, identity.list_files("source", source)) if path is not None]
    for path in sorted(path for path in files if not os.path.basename(path).startswith((".", "_"))):  # as pyarrow reads
        schema = silence.catch(schema_of, path)
        if isinstance(schema, silence.Failed):
            return f"{path} is missing, or no Parquet file: leave it out by a list of the files to read"
        if repeated := [name for name in schema.names if schema.names.count(name) > 1]:
            return f"{path} has two columns {repeated[0]!r}: rename one"
    return ""


def _files(dataset: Any) -> Files:
    """The number of rows of each file, its bytes, the time of its last change, and what it is."""

    def read() -> tuple[Files, str]:
        rows = {}
        infos = dataset.filesystem.get_file_info([path for path, _ in fragments])
        for (path, count), info in zip(fragments, infos, strict=True):
            rows[path] = count, info.size, info.mtime_ns, identity.identify(path)
        return rows, identity.find_repeated(path for path, _ in fragments)

    fragments = []
    for fragment in dataset.get_fragments():
        count = table.call(
            f"{fragment.path} is no Parquet file: leave it out by a list of the files to read",
            lambda fragment=fragment: fragment.metadata.num_rows,
        )
        fragments.append((fragment.path, count))
    files, repeated = table.call("the files could not be looked up", read)
    if repeated:
        raise TableError(f"{repeated}: name it once")
    return files

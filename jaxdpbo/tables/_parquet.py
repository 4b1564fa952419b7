"""Parquet files as a table: read in parts, so that memory holds a few parts and never the file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from jaxdpbo import _checks
from jaxdpbo.tables import _arrow, _table
from jaxdpbo.tables._table import BATCH, Columns, Partial, Sum, TableError

PART = 8 * BATCH  # rows of a read
Files: TypeAlias = dict[str, tuple[int, ...]]  # rows, bytes, and the time of the last change
Source: TypeAlias = str | Path | Sequence[str | Path]


class ParquetTable(_table.Table):
    """Parquet files as a table, made by ``parquet``. A pickle holds paths and no rows."""

    def __init__(self, source: list[str], names: list[str], columns: dict[str, tuple[int, ...]], files: Files) -> None:
        self._source, self._names, self._columns, self._files = source, names, columns, files

    def __repr__(self) -> str:
        """Show names and the number of users."""
        return _table.describe("parquet", self)

    @property
    def users(self) -> int:
        """``n``, the number of rows by the files' metadata."""
        return sum(rows for rows, *_ in self._files.values())

    @property
    def columns(self) -> dict[str, tuple[int, ...]]:
        """The shape of a row in each column."""
        return dict(self._columns)

    def add(self, partial: Partial) -> Sum:
        """Sum ``partial`` over all batches, see ``Table``."""
        return _table.add_batches(partial, _table.batches(self._parts()))

    def _parts(self) -> Iterator[Columns]:
        """The rows of all files, some at a time. No error of the reader is passed on, since it may quote values.

        Each file is read in its own types: a cast between integers and floats could fail for a single value.
        """
        dataset = _dataset(self._source)
        self._expect_same(dataset)
        for fragment in dataset.get_fragments():
            try:
                scanner = fragment.scanner(columns=self._names, batch_size=PART, batch_readahead=2)
                for part in scanner.to_batches():
                    if part.num_rows:
                        yield _arrow.to_columns(part, self._names)
            except Exception as error:
                raise TableError(f"a file of the table could not be read ({type(error).__name__})") from None
        self._expect_same(dataset)

    def _expect_same(self, dataset: Any) -> None:
        if _files(dataset) != self._files:
            raise TableError("a file of the table has changed since the table was opened: open the table again")


def parquet(source: Source, columns: Sequence[str] | None = None) -> ParquetTable:
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

    Args:
      source: a file, a folder of files, a list of files, or an address such as "s3://bucket/folder" that pyarrow opens.
      columns: the names of the columns to read; all by default. Each holds numbers, Booleans, or lists of numbers of
        one fixed length. They become floats; a missing value becomes NaN.

    Raises:
      TypeError: ``source`` or ``columns`` are of another type.
      ValueError: there is no file, row or column; a file lacks a column, or holds another type of values in it.
      ImportError: pyarrow is missing.
    """
    where = _checked_paths(source)
    try:
        found = _dataset(where)
        files = _files(found)
    except TableError as error:
        raise ValueError(f"source must be Parquet files: {error}") from None
    names = _table.select_names(columns, found.schema.names)
    if not any(rows for rows, *_ in files.values()):
        raise ValueError("source must hold one row or more")
    shapes = {name: _arrow.row_shape("the first file", found.schema, name) for name in names}
    for fragment in found.get_fragments():
        for name, shape in shapes.items():
            if _arrow.row_shape(fragment.path, fragment.physical_schema, name) != shape:
                raise ValueError(f"column {name!r} of {fragment.path} must have the shape {shape}, as in other files")
    return ParquetTable(where, names, shapes, files)


def _checked_paths(source: Source) -> list[str]:
    paths = [source] if isinstance(source, (str, Path)) else source
    if not isinstance(paths, (list, tuple)) or not paths or not all(isinstance(path, (str, Path)) for path in paths):
        raise TypeError(f"source must be a path, or a list of paths, got {source!r}")
    return [str(path) for path in paths]


def _dataset(source: list[str]) -> Any:
    module = _checks.extra("pyarrow.dataset", "table", "tables.parquet")
    try:
        return module.dataset(source if len(source) > 1 else source[0], format="parquet")
    except Exception as error:
        raise TableError(f"{', '.join(source)} could not be opened ({type(error).__name__})") from None


def _files(dataset: Any) -> Files:
    """The number of rows, the bytes and the time of the last change of each file."""
    try:
        fragments = list(dataset.get_fragments())
        rows = {fragment.path: fragment.metadata.num_rows for fragment in fragments}
        infos = dataset.filesystem.get_file_info(list(rows))
        files = {info.path: (rows[info.path], info.size, info.mtime_ns) for info in infos}
    except Exception as error:
        raise TableError(f"the metadata of a file could not be read ({type(error).__name__})") from None
    if len(files) < len(fragments):
        raise TableError("a file is named twice")
    return files

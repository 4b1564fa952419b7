"""Rows put together by person once, in files without a name, so that later scans read each person's rows in order.

The files hold protected rows. They have no name in any folder, and the system takes them back when the process ends,
however it ends; other accounts cannot open them.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import files
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.table import Columns, TableError

CHUNK = 2**20  # rows of a bucket that are read at once


class Spill(NamedTuple):
    """The rows of people on disk: for each range of people a place in ``file``, and the shape of each column.

    Attributes:
      file: without a name.
      dtype: of the columns.
      ranges: the first byte of a range, and its columns' shapes.
    """

    file: Any
    dtype: np.dtype[Any]
    ranges: list[tuple[int, dict[str, tuple[int, ...]]]]

    def read(self) -> Iterator[Columns]:
        """The columns ``(people, max_rows, ...)`` of each range, in order."""
        for place, shapes in self.ranges:
            columns, at = {}, place
            for name, shape in shapes.items():
                size = int(np.prod(shape)) * self.dtype.itemsize
                columns[name] = np.frombuffer(_read(self.file.fileno(), size, at), self.dtype).reshape(shape)
                at += size
            yield columns


def _read(descriptor: int, size: int, at: int) -> bytes:
    """Bytes of a file, not by its own position, which two scans at once would share; a call reads 2 GiB at most."""
    parts: list[bytes] = []
    while size:
        part = os.pread(descriptor, size, at)
        if not part:
            raise TableError("the spill ended early: open the table again")
        parts.append(part)
        size, at = size - len(part), at + len(part)
    return b"".join(parts)


def write_spill(parts: Iterable[_people.Rows], people: _people.People, folder: Path, dtype: Any) -> Spill:
    """Read all rows once, and write them by person.

    Rows go to a bucket for each range of people, then each range is put together (``people.group_rows``): the columns
    are those of a scan without a spill, to the bit. The disk holds the rows and the people's slots for a moment.

    Args:
      parts: the rows.
      people: how rows become users.
      folder: where the files lie.
      dtype: of the columns.

    Raises:
      OSError: the folder does not exist, or the disk is full.
    """
    spans = _people.ranges(people, _people.SLOTS)
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
        placed = []
        for (first, last), rows in zip(spans, _fill_buckets(parts, len(spans), spans[0][1], folder), strict=True):
            grouped = _people.group_rows(rows, people, first, last)
            placed.append((file.tell(), {name: column.shape for name, column in grouped.items()}))
            for column in grouped.values():
                np.ascontiguousarray(column, dtype).tofile(file)
        stack.pop_all()  # the holder of the spill closes its file
    return Spill(file, np.dtype(dtype), placed)


def _fill_buckets(
    parts: Iterable[_people.Rows], count: int, size: int, folder: Path
) -> Iterator[Iterator[_people.Rows]]:
    """The rows of each range of ``size`` people; a bucket is closed before the next is read."""
    with ExitStack() as stack:
        buckets = [stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0)) for _ in range(count)]
        record, names = np.dtype([]), []
        for rows in parts:
            names, fields = list(rows.columns), (rows.persons, *rows.columns.values())
            record = np.dtype([("", of.dtype, of.shape[1:]) for of in fields])  # by position: any text names a column
            records = np.empty(len(rows.persons), record)
            for field, column in zip(_names(record), fields, strict=True):
                records[field] = column
            numbers = np.where(rows.persons >= 0, rows.persons // size, count)
            for number in np.unique(numbers[numbers < count]):
                records[numbers == number].tofile(buckets[number])
        for bucket in buckets:
            bucket.seek(0)
            yield _read_bucket(bucket, record, names)
            bucket.close()


def _read_bucket(bucket: Any, record: np.dtype[Any], names: list[str]) -> Iterator[_people.Rows]:
    while True:
        records = np.fromfile(bucket, record, CHUNK)
        persons, *columns = (np.ascontiguousarray(records[field]) for field in _names(record))
        yield _people.Rows(persons, dict(zip(names, columns, strict=True)))
        if len(records) < CHUNK:
            return


def _names(record: np.dtype[Any]) -> tuple[str, ...]:
    return record.names or ()


def check_folder(spill: str | Path | None) -> Path | None:
    """Check the folder of a spill.

    Raises:
      TypeError: it is no path.
      ValueError: it is no folder, or any user may replace files in it.
    """
    if spill is None:
        return None
    if not isinstance(spill, (str, Path)):
        raise TypeError(f"spill must be the path of a folder, got {spill!r}")
    if not Path(spill).is_dir():
        raise ValueError(f"spill must be a folder on this machine, got {str(spill)!r}")
    files.expect_guarded_folder(Path(spill, "rows"))
    return Path(spill)

"""Beam collections as a table."""

import contextlib
import copy
import functools
import json
import os
import pickle
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from jaxdpbo import checks, files, silence
from jaxdpbo.ledger import ledger_file
from jaxdpbo.tables import arrow, identity, table
from jaxdpbo.tables import engine as _engine
from jaxdpbo.tables import people as _people
from jaxdpbo.tables.hashed_ids import HashedIds
from jaxdpbo.tables.table import Columns

SCAN = "jaxdpbo scan"  # the step of a pipeline that holds all others
PLUGIN = "jaxdpbo.tables.beam_worker"
MISSING = b"!"  # before the words of a piece that could not be cut: no pickle begins so
Read: TypeAlias = Callable[[Any], Any]  # from a pipeline to a collection of pyarrow tables


class BeamTable(_engine.EngineTable):
    """A Beam collection as a table, made by ``beam``."""

    engine = "beam"

    def __init__(
        self,
        read: Read,
        users: int | None,
        names: list[str],
        folder: str | None,
        options: object,
        people: _people.People | None,
    ) -> None:
        self._read, self._folder, self._options = read, folder, options
        super().__init__(users, names, people)

    def _count(self) -> int:
        (counted,) = self._sums(_engine.Task(_add_nothing))
        if counted.error:  # an error passes on the name of its class alone
            raise type(counted.error, (table.TableError,), {})
        return counted.users

    def _sums(self, task: _engine.Task) -> list[_engine.PartitionSum]:
        beam = checks.extra("apache_beam", "beam", "tables.beam")
        return self._run_pipeline("sum" >> beam.Map(_make_mapper(task, self._names)))

    def _sums_of_people(self, split: _engine.Split, task: _engine.PeopleTask) -> list[_engine.PartitionSum]:
        beam = checks.extra("apache_beam", "beam", "tables.beam")
        cut = "split" >> beam.FlatMap(_make_splitter(split, self._names, task.people))
        return self._run_pipeline(cut | "group" >> beam.GroupByKey() | "sum" >> beam.Map(_make_adder(task)))

    def _run_pipeline(self, sums: Any) -> list[_engine.PartitionSum]:
        """Run a pipeline. Its result returns through a file, which Beam's runners have in common."""
        beam = checks.extra("apache_beam", "beam", "tables.beam")
        filesystems = checks.extra("apache_beam.io.filesystems", "beam", "tables.beam").FileSystems
        options = checks.extra("apache_beam.options.pipeline_options", "beam", "tables.beam")
        guard_stages(SCAN)
        # A copy: other pipelines with your options keep the texts of their errors
        own: Any = options.PipelineOptions([]) if self._options is None else copy.deepcopy(self._options)
        setup = own.view_as(options.SetupOptions)
        setup.beam_plugins = [*dict.fromkeys([*(setup.beam_plugins or []), PLUGIN])]
        read = self._read

        class Scan(beam.PTransform):
            def expand(self, begin: Any) -> Any:
                total = read(begin.pipeline) | sums | "add" >> beam.CombineGlobally(_add_pairs)
                return total | "write" >> beam.Map(_make_writer(path))

        with _new_folder(filesystems, self._folder) as folder:
            path = filesystems.join(folder, "sum.json")
            with beam.Pipeline(options=own) as pipeline:
                _ = pipeline | SCAN >> Scan()
            users, summed, error = ledger_file.parse_json(_read_sum(path))
        return [_engine.PartitionSum(0, users, summed, error)]


def beam(
    read: Read,
    columns: Sequence[str],
    *,
    users: int | None = None,
    person: str | HashedIds | None = None,
    max_rows: int | None = None,
    folder: str | None = None,
    options: object = None,
) -> BeamTable:
    """Open a Beam collection as a table, a row for each user. Needs the extra ``beam``.

    A scan is one pipeline. Without a run, a table gives no guarantee: its rows are NOT private. Beam moves raw rows and
    raw sums between workers: see the page on engines for encryption. Each scan writes its raw sum to a new folder
    in ``folder``, reads the sum, and deletes the new folder. On a file system with modes only you can read it, and the
    next scan deletes the folder of a process that was killed.

    >>> import pathlib, tempfile
    >>> import apache_beam, pyarrow as pa, pyarrow.parquet
    >>> from jaxdpbo import tables
    >>> path = str(pathlib.Path(tempfile.mkdtemp()) / "visits.parquet")
    >>> pyarrow.parquet.write_table(pa.table({"age": [31.0, 54.0, None], "visits": [2, 7, 1]}), path)
    >>> tables.beam(lambda pipeline: pipeline | apache_beam.io.ReadFromParquetBatched(path), ["age", "visits"])
    beam(users=3, columns=['age', 'visits'])

    Args:
      read: a function from an ``apache_beam.Pipeline`` to a collection of ``pyarrow.Table``, such as
        ``lambda pipeline: pipeline | apache_beam.io.ReadFromParquetBatched("visits/*.parquet")``. Called in each scan;
        each call must read the same rows. A row that the collection holds twice is two users.
      columns: the names of the columns to read. Each holds numbers or Booleans. They become floats; a missing value
        becomes NaN, and so does one that is no number, such as a date.
      users: the number of rows, public. If you leave it out, opening the table counts the rows.
      person: see ``parquet``; ``users`` is then the number of people. Each scan moves rows between workers.
      max_rows: see ``parquet``.
      folder: a private folder that the workers and this process reach, under one user of the system; by default a
        temporary folder of this machine.
      options: ``apache_beam.options.pipeline_options.PipelineOptions``, with the runner; by default the runner
        that Beam chooses on this machine.

    Raises:
      TypeError: an argument is of another type.
      ValueError: there is no row or column, or any user may replace files in ``folder``.
      tables.TableError: Beam failed to count the rows.
      ImportError: Beam is missing.
    """
    module = checks.extra("apache_beam", "beam", "tables.beam")
    if not callable(read) or isinstance(read, module.PTransform):
        raise TypeError(f"read must be a function from a pipeline to a collection, got {type(read).__name__}")
    if folder is not None and not isinstance(folder, str):
        raise TypeError(f"folder must be a path, got {folder!r}")
    if folder is not None and os.path.isdir(local := identity.local_path(folder) or ""):
        files.expect_guarded_folder(Path(local, "sum.json"))
    people = _people.check_people(person, max_rows, users, rows_counted=True)
    names = table.select_names(columns, None)
    if people is not None and people.column in names:
        raise ValueError(f"columns must not name the column of the person, got {people.column!r}")
    return BeamTable(read, users, names, folder, options, people)


@functools.cache
def guard_stages(label: str) -> None:
    """From now on, the stages of this process below a step ``label`` print and log nothing, and fail by a type alone.

    Beam logs, prints and sends the text of an error, and the function ``read`` of a table may raise one that quotes
    rows.
    """
    processor = checks.extra("apache_beam.runners.worker.bundle_processor", "beam", "tables.beam").BundleProcessor
    process = processor.process_bundle

    def process_bundle(self: Any, *args: Any) -> Any:
        parts = self.process_bundle_descriptor.transforms.values()
        if not any(part.unique_name.startswith(label) for part in parts):
            return process(self, *args)
        returned = silence.catch(silence.call, process, self, *args)
        if isinstance(returned, silence.Failed):
            raise type(returned.kind, (table.TableError,), {})("the message is withheld, since it may quote a row")
        return returned

    processor.process_bundle = process_bundle


@contextlib.contextmanager
def _new_folder(filesystems: Any, parent: str | None) -> Iterator[str]:
    """A folder for a raw sum, removed at the end. Others cannot read it on a file system with modes."""
    local = tempfile.gettempdir() if parent is None else identity.local_path(parent)
    if local is not None:
        os.makedirs(local, 0o700, exist_ok=True)
        with files.new_private_folder(local, "jaxdpbo-sum-") as folder:
            yield str(folder)
        return
    remote = filesystems.join(parent, f"jaxdpbo-sum-{secrets.token_hex(16)}")
    filesystems.mkdirs(remote)
    try:
        yield remote
    finally:  # what a failed pipeline leaves holds raw sums
        filesystems.delete([remote])


def _make_writer(path: str) -> Callable[[tuple[int, list[int], str]], None]:
    """Make the function by which a worker writes the sum. Beam may call it twice, on the same sum."""

    def write(total: tuple[int, list[int], str]) -> None:
        content = json.dumps(total).encode()
        if identity.local_path(path) is not None:
            return files.replace(Path(path), content, files.PRIVATE)
        filesystems = checks.extra("apache_beam.io.filesystems", "beam", "tables.beam").FileSystems
        with filesystems.create(path) as file:
            file.write(content)

    return write


def _read_sum(path: str) -> bytes:
    if identity.local_path(path) is not None:
        return files.read_private(path)
    filesystems = checks.extra("apache_beam.io.filesystems", "beam", "tables.beam").FileSystems
    with filesystems.open(path) as file:
        return file.read()


def _add_nothing(batch: table.Batch) -> np.ndarray:
    del batch
    return np.zeros(0, np.int64)


def _make_mapper(task: _engine.Task, names: list[str]) -> Callable[[Any], tuple[int, list[int], str]]:
    """Make the function that a worker calls with a ``pyarrow.Table``. Beam's bundles count each element once."""

    def cut(rows: Any) -> Iterator[Columns]:
        if missing := _missing(rows, names):  # an error travels as the name of its class alone
            raise type(missing, (table.TableError,), {})
        for part in rows.to_batches():
            yield arrow.to_columns(part, names)

    def add(rows: Any) -> tuple[int, list[int], str]:
        return task(0, cut(rows))[1:]

    return add


def _make_splitter(
    split: _engine.Split, names: list[str], people: _people.People
) -> Callable[[Any], list[tuple[int, bytes]]]:
    """Make the function that cuts a ``pyarrow.Table`` into ranges of people."""

    def cut(rows: Any) -> list[tuple[int, bytes]]:
        if missing := _missing(rows, [people.column, *names]):
            return [(0, MISSING + missing.encode())]
        pieces = split(arrow.to_people(part, names, people) for part in rows.to_batches())
        return [(number, pickle.dumps(piece)) for number, piece in enumerate(pieces)]

    return cut


def _make_adder(task: _engine.PeopleTask) -> Callable[[tuple[int, Iterable[bytes]]], tuple[int, list[int], str]]:
    """Make the function that a worker calls with the pieces of a range."""

    def add(pieces: tuple[int, Iterable[bytes]]) -> tuple[int, list[int], str]:
        number, contents = pieces
        return task(number, map(_load_piece, contents))[1:]

    return add


def _load_piece(content: bytes) -> Any:
    if content.startswith(MISSING):
        raise type(content.removeprefix(MISSING).decode(), (table.TableError,), {})
    return pickle.loads(content)


def _missing(rows: Any, names: list[str]) -> str:
    """Which column a table of the collection lacks, in words; "" if it has all. Quotes no name but those asked for."""
    absent = [name for name in names if name not in rows.schema.names]
    return f"a table of the collection has no column {absent[0]!r}" if absent else ""


def _add_pairs(sums: Iterable[tuple[int, list[int], str]]) -> tuple[int, list[int], str]:
    """Sum numbers of users and totals. An associative function, which Beam calls on sums too."""
    users, total, error = 0, np.zeros((), np.int64), ""
    for rows, part, failure in sums:
        users, error = users + rows, error or failure
        if rows:
            total = total + np.asarray(part, np.int64)
    return users, np.atleast_1d(total).tolist() if users else [], error

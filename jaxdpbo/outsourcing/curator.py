"""The curator: the record of all answers, and the answers to queries.

The record holds every returned output, for the curator's eyes only: mode 0600, locked while open. The record identifies
the private data by an HMAC-SHA256, with a key in the file ``<record>.key``, mode 0600. The key is not in the record,
and there is no plain hash, because a reader of the record could then test guesses at the data.
"""

import hashlib
import hmac
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import checks, files
from jaxdpbo.outsourcing.protocol import (
    MAX_QUERIES,
    SCHEMA,
    VERSION,
    Answer,
    ProtocolError,
    RecordInUse,
    expect_schema,
    parse,
    parse_answer,
    parse_integer,
)
from jaxdpbo.outsourcing.released_file import Publication

KEY_BYTES = 32
MAX_REFUSED = 100  # lines of a contact
_START = json.dumps({"schema": SCHEMA, "version": VERSION})[:-1].encode()


class Journal(NamedTuple):
    """The curator's record, open and locked.

    Attributes:
      path: the path of the file.
      descriptor: the file's descriptor.
      header: the first line.
      digest: the SHA-256 of the released file.
      rows: the number ``n`` of rows.
      queries: the total number ``T`` of queries to answer.
      answers: the answers so far; grows.
      failed: the rows with failed evaluations since the record was opened; grows.
    """

    path: Path
    descriptor: int
    header: bytes
    digest: str
    rows: int
    queries: int
    answers: list[Answer]
    failed: set[int]


def frame(*parts: bytes | str | np.ndarray) -> bytes:
    """Join all sources of rows and outputs to ``bytes`` for ``open_journal``. Different parts give different bytes.

    Each part is written with its kind and length, an array with its dtype and shape.

    >>> from jaxdpbo import outsourcing
    >>> outsourcing.frame(b"a", "bc") == outsourcing.frame(b"ab", "c")
    False

    Raises:
      TypeError: a part has another type, or is an array of objects or of named fields.
    """
    return b"".join(f"{len(piece)}:".encode() + piece for part in parts for piece in _pieces(part))


def _pieces(part: bytes | str | np.ndarray) -> tuple[bytes, ...]:
    if isinstance(part, bytes):
        return b"bytes", part
    if isinstance(part, str):
        return b"text", part.encode("utf8", "surrogatepass")
    if isinstance(part, np.ndarray) and part.dtype.kind not in "OV":
        return b"array", f"{part.dtype.str} {part.shape}".encode(), part.tobytes()
    raise TypeError(f"parts must be bytes, str or arrays of numbers, got a {type(part).__name__}")


@contextmanager
def open_journal(path: str | Path, published: Publication, private: bytes, queries: int) -> Iterator[Journal]:
    """Create a record, or open the record of the same released file, private data and number of queries. A context.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import outsourcing, transforms
    >>> config = transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=5.0)
    >>> curated = transforms.curate(None, config, np.zeros((3, 2)))
    >>> path = Path(tempfile.mkdtemp()) / "released.jsonl"
    >>> outsourcing.publish(path, curated)
    >>> published = outsourcing.read_publication(path)
    >>> with outsourcing.open_journal(path.with_name("record.jsonl"), published, b"the rows", 5) as journal:
    ...     print(len(journal.answers))
    0

    Args:
      path: the path of the record, for the curator's eyes only. A new record draws its key to ``<path>.key``.
      published: the released file.
      private: all sources of rows and outputs, to notice a change; ``frame`` joins several sources.
      queries: the number ``T`` of queries, at most 10,000.

    Raises:
      ProtocolError: the record has another released file, other data or another number of queries; its key is missing;
        the record or its key is a symbolic link, belongs to another user or is open to others; or a write failed.
      RecordInUse: another curator has the record open.
      ValueError: ``queries`` is above 10,000.
    """
    path = Path(path)
    if checks.size("queries", queries) > MAX_QUERIES:
        raise ValueError(f"queries must be at most {MAX_QUERIES}, got {queries}")
    with _lock(path) as descriptor:
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read()
        kept, end, torn = content.rpartition(b"\n")
        if not end and torn[: len(_START)] != _START[: len(torn)]:
            raise ProtocolError(f"{path.name} must be a curator's record: give another path, or restore it from a copy")
        header = {
            "schema": SCHEMA,
            "version": VERSION,
            "released": published.digest,
            "private": hmac.new(_key(path, must_exist=bool(end)), private, hashlib.sha256).hexdigest(),
            "queries": int(queries),
        }
        count = len(published.curated.z)
        answers = _read(path, kept, header, count) if end else []
        record = Journal(path, descriptor, _line(header), published.digest, count, int(queries), answers, set())
        if not end:
            _write(record, 0, record.header)
            files.sync_folder(path)
        elif torn:  # an unfinished line of a stopped curator: never sent
            os.ftruncate(descriptor, _end(record))
        yield record


def serve(
    record: Journal, evaluate: Callable[[int], float], lines: Iterable[str], send: Callable[[str], None]
) -> int | None:
    """Send the greeting, then answer queries until the lines end or the modeler sends its answer.

    A row queried before gets the same answer, without another evaluation. The curator does not authenticate ``lines``:
    make sure that only the modeler can write them.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import outsourcing, transforms
    >>> config = transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=5.0)
    >>> path = Path(tempfile.mkdtemp()) / "released.jsonl"
    >>> outsourcing.publish(path, transforms.curate(None, config, np.zeros((3, 2))))
    >>> published = outsourcing.read_publication(path)
    >>> sent = []
    >>> with outsourcing.open_journal(path.with_name("record.jsonl"), published, b"the rows", 5) as journal:
    ...     lines = ['{"query": 1, "row": 2}', '{"answer": 2}']
    ...     answer = outsourcing.serve(journal, lambda row: 0.25, lines, sent.append)
    >>> answer, len(sent)  # a greeting, and the output of row 2
    (2, 2)

    Args:
      record: the record from ``open_journal``.
      evaluate: returns the output of a row. If ``evaluate`` raises, the query is refused without the reason, at no cost
        in queries, for at most ``queries`` rows until the record is opened again.
      lines: the modeler's lines.
      send: sends a line to the modeler, without the newline.

    Returns:
      The modeler's answer, or None if the lines ended first or 100 lines were refused.
    """
    greeting = {
        "schema": SCHEMA,
        "version": VERSION,
        "released": record.digest,
        "rows": record.rows,
        "queries": record.queries,
        "answers": [answer._asdict() for answer in record.answers],
    }
    send(json.dumps(greeting))
    refused = 0
    for line in lines:
        try:
            request = parse(line)
            if set(request) == {"answer"}:
                return parse_integer(request, "answer", 0, record.rows - 1)
            reply = _answer(record, evaluate, request)._asdict()
        except ProtocolError as refusal:
            reply, refused = {"error": str(refusal)}, refused + 1
        send(json.dumps(reply))
        if refused == MAX_REFUSED:
            break
    return None


def _answer(record: Journal, evaluate: Callable[[int], float], request: dict[str, Any]) -> Answer:
    if set(request) != {"query", "row"}:
        raise ProtocolError('a query must be {"query": its number, "row": a row number}')
    due = len(record.answers) + 1
    number = parse_integer(request, "query", 1, record.queries)
    row = parse_integer(request, "row", 0, record.rows - 1)
    if number < due:
        raise ProtocolError(f"query {number} was answered before: the greeting has its answer")
    if number > due:
        raise ProtocolError(f"query must be {due}, the next number, got {number}")
    outputs = {answer.row: answer.output for answer in record.answers}
    answer = Answer(number, row, outputs[row] if row in outputs else _evaluate(record, evaluate, row))
    _write(record, _end(record), _line(answer._asdict()))
    record.answers.append(answer)
    return answer


def _evaluate(record: Journal, evaluate: Callable[[int], float], row: int) -> float | None:
    if row not in record.failed and len(record.failed) >= record.queries:
        raise ProtocolError(f"evaluations of {record.queries} rows failed, the most allowed: restart the curator")
    process = os.getpid()
    try:
        output = float(evaluate(row))
    except Exception:  # the reason may hold private values: chain nothing to it
        output = None
    finally:
        if os.getpid() != process:  # a child forked by the function and still alive would be a second curator
            os._exit(1)
    if output is None:
        record.failed.add(row)  # the failure is sent, and reveals something about the row
        raise ProtocolError(f"the evaluation of row {row} failed: ask again")
    return output if math.isfinite(output) else None


# The file


_open_records: set[int] = set()  # descriptors; a forked child closes them, or would keep the curator's lock


def _close_records() -> None:
    while _open_records:
        os.close(_open_records.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_records)


@contextmanager
def _lock(path: Path) -> Iterator[int]:
    """Open and lock the record; at most one process has its descriptor."""
    import fcntl  # POSIX only, and only for a curator

    try:
        descriptor = files.open_private(path, os.O_RDWR | os.O_CREAT)
    except files.NotPrivate as error:
        raise ProtocolError(str(error)) from None
    _open_records.add(descriptor)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RecordInUse(f"another curator has {path.name} open") from error
        try:
            _expect_in_place(path, descriptor)
            yield descriptor
        finally:
            if descriptor in _open_records:  # not in a forked child, where the number may belong to another file
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        if descriptor in _open_records:
            _open_records.discard(descriptor)
            os.close(descriptor)


def _expect_in_place(path: Path, descriptor: int) -> None:
    """Refuse to write to a file no longer at its path."""
    ours = os.fstat(descriptor)
    try:
        current = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        current = None
    if current is None or (current.st_dev, current.st_ino) != (ours.st_dev, ours.st_ino):
        raise ProtocolError(f"{path.name} was moved, deleted or replaced: put it back and start the curator again")


def _key(path: Path, *, must_exist: bool) -> bytes:
    """Read the key of a record, a file of mode 0600. Draw a key if there is none, unless it ``must_exist``."""
    place = path.with_name(f"{path.name}.key")
    try:
        key = files.read_private(place, KEY_BYTES + 1)
    except files.NotPrivate as error:
        raise ProtocolError(str(error)) from None
    except FileNotFoundError as error:
        if must_exist:
            raise ProtocolError(
                f"{place.name} is missing, and is needed to compare the data with those of {path.name}: restore it "
                "from a copy"
            ) from error
        key = os.urandom(KEY_BYTES)
        files.write_once(place, key, files.PRIVATE)
    if len(key) != KEY_BYTES:
        raise ProtocolError(f"{place.name} must be {KEY_BYTES} bytes long: restore it from a copy")
    return key


def _read(path: Path, kept: bytes, header: dict[str, Any], rows: int) -> list[Answer]:
    """Read the answers in a record; refuse lines not written by a curator."""
    first, *rest = kept.split(b"\n")
    recorded = parse(first.decode(errors="replace"))
    expect_schema(recorded, path.name)
    for name, what in (
        ("released", "the released file"),
        ("private", "the private data, or the source of the outputs,"),
        ("queries", "the number of queries"),
    ):
        if recorded.get(name) != header[name]:
            raise ProtocolError(f"{what} changed since {path.name} was begun")
    if len(rest) > header["queries"]:
        raise ProtocolError(f"{path.name} has {len(rest)} answers to {header['queries']} queries")
    answers = [parse_answer(parse(line.decode(errors="replace")), k, rows) for k, line in enumerate(rest, start=1)]
    if b"".join([_line(header), *(_line(answer._asdict()) for answer in answers)]) != kept + b"\n":
        raise ProtocolError(f"{path.name} was not written by a curator, or was changed since")
    return answers


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _end(record: Journal) -> int:
    """The offset of the next line, computed from the answers to overwrite the rest of a failed write."""
    return len(record.header) + sum(len(_line(answer._asdict())) for answer in record.answers)


def _write(record: Journal, end: int, line: bytes) -> None:
    """Write a line to disk before the answer is sent; remove an incomplete line."""
    _expect_in_place(record.path, record.descriptor)
    try:
        os.ftruncate(record.descriptor, end)
        files.write_all(record.descriptor, line, end)
        os.fsync(record.descriptor)
    except BaseException as error:
        with suppress(OSError):  # if this fails too, the next write or the next curator removes it
            os.ftruncate(record.descriptor, end)
        if isinstance(error, OSError):
            name = record.path.name
            raise ProtocolError(f"{name} could not be written ({error.strerror}): make room and ask again") from error
        raise

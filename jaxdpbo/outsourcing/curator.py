"""The curator: its record, and how it answers.

The record holds every output that was returned, so it is for the curator's eyes only: mode 0600, locked while open.
What it says of the private data is an HMAC-SHA256 of them. Its key stands beside it in ``<record>.key``, mode 0600, and
not in the record: a plain hash would let a reader of the record test guesses at the data.
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

from jaxdpbo import _checks, _files
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
from jaxdpbo.outsourcing.released_file import Published

KEY_BYTES = 32
MAX_REFUSED = 100  # lines of one contact
_START = json.dumps({"schema": SCHEMA, "version": VERSION})[:-1].encode()


class Journal(NamedTuple):
    """The curator's record, open and locked.

    Attributes:
      path: of its file.
      descriptor: of its file.
      header: its first line.
      digest: of the released file.
      rows: ``n``.
      queries: ``T``, to be answered in all.
      answers: so far; grows.
      failed: rows whose evaluation failed since the record was opened; grows.
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
    """One ``bytes`` for ``open_journal`` of all that rows and outputs come from. Different parts give different bytes.

    Each part stands with its kind and length, an array with its dtype and shape.

    Raises:
      TypeError: a part is none of these, or an array of objects or of named fields.
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
def open_journal(path: str | Path, published: Published, private: bytes, queries: int) -> Iterator[Journal]:
    """Begin a record, or go on with one: of the same released file, private data and number of queries. A context.

    Args:
      path: of the record, for the curator's eyes only. Its key is ``<path>.key``, drawn where a record begins.
      published: the released file.
      private: all that rows and outputs come from (``frame`` makes it of several), so that a change is noticed.
      queries: ``T``, at most 10,000.

    Raises:
      ProtocolError: the record is of another released file, other data or another number; its key is gone; the record
        or its key is a symbolic link, belongs to another user or is open to others; or the disk did not take it.
      RecordInUse: another curator has it open.
      ValueError: ``queries`` is above 10,000.
    """
    path = Path(path)
    if _checks.size("queries", queries) > MAX_QUERIES:
        raise ValueError(f"queries must be at most {MAX_QUERIES}, got {queries}")
    with _lock(path) as descriptor:
        with open(descriptor, "rb", closefd=False) as stream:
            content = stream.read()
        kept, end, torn = content.rpartition(b"\n")
        if not end and torn[: len(_START)] != _START[: len(torn)]:
            raise ProtocolError(f"{path.name} is not a record")
        header = {
            "schema": SCHEMA,
            "version": VERSION,
            "released": published.digest,
            "private": hmac.new(_key(path, begun=bool(end)), private, hashlib.sha256).hexdigest(),
            "queries": int(queries),
        }
        count = len(published.curated.z)
        answers = _read(path, kept, header, count) if end else []
        record = Journal(path, descriptor, _line(header), published.digest, count, int(queries), answers, set())
        if not end:
            _write(record, 0, record.header)
            _files.sync_folder(path)
        elif torn:  # a line that was being written when the curator was stopped: it was never sent
            os.ftruncate(descriptor, _end(record))
        yield record


def serve(
    record: Journal, evaluate: Callable[[int], float], lines: Iterable[str], send: Callable[[str], None]
) -> int | None:
    """Greet, then answer queries until the lines end or the modeler says its answer.

    A row that was asked for before is answered as before, without another evaluation. The curator does not authenticate
    ``lines``: make sure that only the modeler can write them.

    Args:
      record: of ``open_journal``.
      evaluate: the output of a row; where it raises, the query is refused, without the reason. That costs no query, for
        at most as many rows as there are queries until the record is opened again.
      lines: what the modeler says.
      send: takes a line without its end.

    Returns:
      The modeler's answer, or None where the lines ended first, or 100 of them were refused.
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
            asked = parse(line)
            if set(asked) == {"answer"}:
                return parse_integer(asked, "answer", 0, record.rows - 1)
            reply = _answer(record, evaluate, asked)._asdict()
        except ProtocolError as refusal:
            reply, refused = {"error": str(refusal)}, refused + 1
        send(json.dumps(reply))
        if refused == MAX_REFUSED:
            break
    return None


def _answer(record: Journal, evaluate: Callable[[int], float], asked: dict[str, Any]) -> Answer:
    if set(asked) != {"query", "row"}:
        raise ProtocolError('a query is {"query": its number, "row": a row number}')
    due = len(record.answers) + 1
    number = parse_integer(asked, "query", 1, record.queries)
    row = parse_integer(asked, "row", 0, record.rows - 1)
    if number < due:
        raise ProtocolError(f"query {number} was answered before: the greeting has its answer")
    if number > due:
        raise ProtocolError(f"query {number} came where {due} was due")
    known = {answer.row: answer.output for answer in record.answers}
    answer = Answer(number, row, known[row] if row in known else _evaluate(record, evaluate, row))
    _write(record, _end(record), _line(answer._asdict()))
    record.answers.append(answer)
    return answer


def _evaluate(record: Journal, evaluate: Callable[[int], float], row: int) -> float | None:
    if row not in record.failed and len(record.failed) >= record.queries:
        raise ProtocolError("as many evaluations failed as there are queries: the curator must be started again")
    process = os.getpid()
    try:
        output = float(evaluate(row))
    except Exception:  # its reason may hold private values, so nothing is chained to it
        output = None
    finally:
        if os.getpid() != process:  # a child that the function forked and did not end would be a second curator
            os._exit(1)
    if output is None:
        record.failed.add(row)  # that it failed was said, and tells of the row
        raise ProtocolError(f"the evaluation of row {row} failed: ask again")
    return output if math.isfinite(output) else None


# The file


_open_records: set[int] = set()  # descriptors: a forked child that outlives the curator would keep its lock


def _close_records() -> None:
    while _open_records:
        os.close(_open_records.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_records)


@contextmanager
def _lock(path: Path) -> Iterator[int]:
    """The record's descriptor; at most one process has it."""
    import fcntl  # POSIX alone has it, and only a curator needs it

    try:
        descriptor = _files.open_private(path, os.O_RDWR | os.O_CREAT)
    except _files.NotPrivate as error:
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
            if descriptor in _open_records:  # not in a forked child, where the number may be another file's by now
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        if descriptor in _open_records:
            _open_records.discard(descriptor)
            os.close(descriptor)


def _expect_in_place(path: Path, descriptor: int) -> None:
    """Refuse to write where nobody would find it."""
    ours = os.fstat(descriptor)
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        found = None
    if found is None or (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino):
        raise ProtocolError(f"{path.name} was moved, deleted or replaced: put it back and start the curator again")


def _key(path: Path, *, begun: bool) -> bytes:
    """Read the record's key, a file of mode 0600. A new key is drawn only if there is no record yet."""
    place = path.with_name(f"{path.name}.key")
    try:
        key = _files.read_private(place, KEY_BYTES + 1)
    except _files.NotPrivate as error:
        raise ProtocolError(str(error)) from None
    except FileNotFoundError as error:
        if begun:
            raise ProtocolError(
                f"{place.name} is gone, and without it nobody can tell whether the data are those of {path.name}: "
                "restore it from a copy"
            ) from error
        key = os.urandom(KEY_BYTES)
        _files.write_once(place, key, _files.PRIVATE)
    if len(key) != KEY_BYTES:
        raise ProtocolError(f"{place.name} must be {KEY_BYTES} bytes long: restore it from a copy")
    return key


def _read(path: Path, kept: bytes, header: dict[str, Any], rows: int) -> list[Answer]:
    """The answers in a record, whose lines must be as a curator writes them."""
    first, *rest = kept.split(b"\n")
    begun = parse(first.decode(errors="replace"))
    expect_schema(begun, path.name)
    for name, said in (
        ("released", "the released file"),
        ("private", "the private data, or what the outputs come from,"),
        ("queries", "the number of queries"),
    ):
        if begun.get(name) != header[name]:
            raise ProtocolError(f"{said} changed since {path.name} was begun")
    if len(rest) > header["queries"]:
        raise ProtocolError(f"{path.name} has {len(rest)} answers to {header['queries']} queries")
    answers = [parse_answer(parse(line.decode(errors="replace")), k, rows) for k, line in enumerate(rest, start=1)]
    if b"".join([_line(header), *(_line(answer._asdict()) for answer in answers)]) != kept + b"\n":
        raise ProtocolError(f"{path.name} was not written by a curator, or was changed since")
    return answers


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _end(record: Journal) -> int:
    """Where the next line begins: from what was answered, so that what a failed write left is written over."""
    return len(record.header) + sum(len(_line(answer._asdict())) for answer in record.answers)


def _write(record: Journal, end: int, line: bytes) -> None:
    """On the disk before anything is said; a line that was not taken in full is cut off again."""
    _expect_in_place(record.path, record.descriptor)
    try:
        os.ftruncate(record.descriptor, end)
        _files.write_all(record.descriptor, line, end)
        os.fsync(record.descriptor)
    except BaseException as error:
        with suppress(OSError):  # if this fails too, the next write or the next curator cuts it off
            os.ftruncate(record.descriptor, end)
        if isinstance(error, OSError):
            name = record.path.name
            raise ProtocolError(f"{name} could not be written ({error.strerror}): make room and ask again") from error
        raise

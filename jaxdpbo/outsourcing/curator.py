"""The curator: its record, and how it answers."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from jaxdpbo import _checks
from jaxdpbo.outsourcing.lines import SCHEMA, VERSION, Answer, Refused, answer_of, expect_schema, parsed, whole
from jaxdpbo.outsourcing.released import Published


class Record(NamedTuple):
    """The curator's memory, open and locked.

    Attributes:
      stream: its file.
      digest: of the released file.
      rows: ``n``.
      queries: ``T``, to be answered in all.
      answers: so far; grows.
    """

    stream: TextIO
    digest: str
    rows: int
    queries: int
    answers: list[Answer]


@contextmanager
def open_record(path: str | Path, published: Published, private: bytes, queries: int) -> Iterator[Record]:
    """Begin a record, or go on with one: of the same released file, private data and number of queries. A context.

    Args:
      path: of the record, for the curator's eyes only.
      published: the released file.
      private: of which the record keeps the SHA-256, to know the same data again.
      queries: ``T``.

    Raises:
      Refused: the record is of another released file, other data or another number; or another curator has it open.
    """
    path = Path(path)
    header = {
        "schema": SCHEMA,
        "version": VERSION,
        "released": published.digest,
        "private": hashlib.sha256(private).hexdigest(),
        "queries": _checks.size("queries", queries),
    }
    with open(path, "a+", opener=lambda name, flags: os.open(name, flags, 0o600)) as stream:
        _lock(stream, path)
        stream.seek(0)
        try:
            text, _, torn = stream.read().rpartition("\n")
        except UnicodeDecodeError as error:
            raise Refused(f"{path.name} is no record") from error
        if torn:  # a line that was being written when the curator was stopped: it was never sent
            stream.truncate(len(text.encode()) + bool(text))
        if not text:
            _append(stream, header)
        told, *lines = text.splitlines() or [json.dumps(header)]
        begun = parsed(told)
        expect_schema(begun, path.name)
        for name, said in (
            ("released", "the released file"),
            ("private", "the private data"),
            ("queries", "the number of queries"),
        ):
            if begun.get(name) != header[name]:
                raise Refused(f"{said} changed since {path.name} was begun")
        count = len(published.curated.z)
        answers = [answer_of(parsed(line), number, count) for number, line in enumerate(lines, start=1)]
        yield Record(stream, published.digest, count, queries, answers)


def serve(
    record: Record, evaluate: Callable[[int], float], lines: Iterable[str], send: Callable[[str], None]
) -> int | None:
    """Greet, then answer queries until the lines end or the modeler says its answer.

    A row that was asked for before is answered as before, without another evaluation.

    Args:
      record: of ``open_record``.
      evaluate: the output of a row; where it raises, the query is refused, without the reason.
      lines: what the modeler says.
      send: takes a line without its end.

    Returns:
      The modeler's answer, or None where the lines ended first.
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
    for line in lines:
        try:
            asked = parsed(line)
            if set(asked) == {"answer"}:
                return whole(asked, "answer", 0, record.rows - 1)
            send(json.dumps(_answered(record, evaluate, asked)._asdict()))
        except Refused as refusal:
            send(json.dumps({"error": str(refusal)}))
    return None


def _answered(record: Record, evaluate: Callable[[int], float], asked: dict[str, Any]) -> Answer:
    if set(asked) != {"query", "row"}:
        raise Refused('a query is {"query": its number, "row": a row number}')
    due = len(record.answers) + 1
    number = whole(asked, "query", 1, record.queries)
    row = whole(asked, "row", 0, record.rows - 1)
    if number < due:
        raise Refused(f"query {number} was answered before: the greeting has its answer")
    if number > due:
        raise Refused(f"query {number} came where {due} was due")
    known = {answer.row: answer.output for answer in record.answers}
    answer = Answer(number, row, known[row] if row in known else _evaluated(evaluate, row))
    _append(record.stream, answer._asdict())
    record.answers.append(answer)
    return answer


def _evaluated(evaluate: Callable[[int], float], row: int) -> float | None:
    try:
        output = float(evaluate(row))
    except Exception as error:
        raise Refused(f"the evaluation of row {row} failed: ask again") from error
    return output if math.isfinite(output) else None


def _append(stream: TextIO, content: dict[str, Any]) -> None:
    """On the disk before anything is said."""
    stream.write(json.dumps(content) + "\n")
    stream.flush()
    os.fsync(stream.fileno())


def _lock(stream: TextIO, path: Path) -> None:
    import fcntl  # POSIX alone has it, and only a curator needs it

    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Refused(f"another curator has {path.name} open") from error

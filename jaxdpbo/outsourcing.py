"""Two parties that never share the rows: a curator who publishes them transformed and answers, a modeler who asks.

Kharkovskii et al. (2020), figure 1. What passes between them is lines of JSON:

==========================  ==========================================================================================
who                         says
==========================  ==========================================================================================
curator, once, in a file    a header (schema, version, transform, its guarantee), then a released row on each line
curator, on each contact    ``{"schema", "version", "released", "rows", "queries", "answers"}``: the file's SHA-256, how
                            many queries it will answer, and every answer so far
modeler                     ``{"query": 8, "row": 123}``: its eighth query
curator                     ``{"query": 8, "row": 123, "output": 0.25}``, or ``{"error": "..."}``
modeler, at the end         ``{"answer": 123}``
==========================  ==========================================================================================

The released rows are drawn once: making them again would spend their budget again, so ``publish`` never overwrites. The
curator's record is the one memory: an answer is on the disk before it is sent, the modeler keeps nothing, and either
may be stopped at any moment. A query that is refused costs nothing. The outputs themselves are protected by nothing.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, laws
from jaxdpbo.algorithms import po_gp_ucb
from jaxdpbo.privacy import guarantee, keys, transforms
from jaxdpbo.types import Query

SCHEMA, VERSION = "jaxdpbo.outsourcing", 1
GREETING = {"schema", "version", "released", "rows", "queries", "answers"}
LONGEST = 2**20  # characters of a line: longer ones are read past, not kept


class Refused(Exception):
    """What the other party sent, or a file, is not what it should be. Says why; nothing was changed."""


class Published(NamedTuple):
    """The released file: what is in it, and the SHA-256 of its bytes."""

    curated: transforms.Curated
    digest: str


class Answer(NamedTuple):
    """One line of the record: ``output`` is None where it was no finite number."""

    query: int
    row: int
    output: float | None


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


class Found(NamedTuple):
    """The modeler's answer: the row of the largest output, that output, and everything it was told."""

    row: int
    output: float
    answers: tuple[Answer, ...]


# The released file


def publish(path: Path, curated: transforms.Curated) -> None:
    """Write what ``curate`` made, once, whole or not at all.

    Raises:
      FileExistsError: there is such a file. A second release of the same rows is a second spend.
    """
    law, projection = curated.metadata.law, curated.metadata.projection
    header = {
        "schema": SCHEMA,
        "version": VERSION,
        "rows": len(curated.z),
        "dimension": curated.z.shape[1],
        "kind": curated.metadata.kind,
        "law": None if law is None else law._asdict(),
        "projection": None if projection is None else np.asarray(projection, float).tolist(),
        "scale": curated.metadata.scale,
        "guarantee": curated.guarantee.to_dict(),
    }
    lines = [json.dumps(header), *(json.dumps(row) for row in np.asarray(curated.z, float).tolist())]
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    with open(unfinished, "x") as stream:
        stream.write("\n".join(lines) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    try:
        os.link(unfinished, path)  # unlike a rename it never replaces
    finally:
        unfinished.unlink()


def read_published(path: Path) -> Published:
    """What ``publish`` wrote.

    Raises:
      Refused: it is not such a file, of another version, or damaged.
    """
    content = path.read_bytes()
    try:
        first, *rest = content.decode().splitlines()
        header = _object(first)
        _expect_schema(header, path.name)
        z = np.array([_vector(line, header["dimension"]) for line in rest])
        if len(z) != header["rows"]:
            raise Refused(f"{path.name} has {len(z)} rows, its header says {header['rows']}")
        law = None if header["law"] is None else laws.from_dict(header["law"])
        projection = None if header["projection"] is None else jnp.asarray(header["projection"])
        metadata = transforms.Metadata(str(header["kind"]), law, projection, float(header["scale"]))
        statement = guarantee.from_dict(header["guarantee"])
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{path.name} is damaged: {error}") from error
    curated = transforms.Curated(jnp.asarray(z, jnp.result_type(float)), metadata, statement)
    return Published(curated, hashlib.sha256(content).hexdigest())


def _vector(line: str, dimension: int) -> list[float]:
    numbers = json.loads(line)
    if len(numbers) != dimension or not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"a row that is not {dimension} finite numbers")
    return numbers


# The curator


@contextmanager
def open_record(path: Path, published: Published, private: bytes, queries: int) -> Iterator[Record]:
    """Begin a record, or go on with one: of the same released file, private data and number of queries. A context.

    Args:
      path: of the record, for the curator's eyes only.
      published: the released file.
      private: of which the record keeps the SHA-256, to know the same data again.
      queries: ``T``.

    Raises:
      Refused: the record is of another released file, other data or another number; or another curator has it open.
    """
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
        whole, _, torn = stream.read().rpartition("\n")
        if torn:  # a line that was being written when the curator was stopped: it was never sent
            stream.truncate(len(whole.encode()) + bool(whole))
        if not whole:
            _append(stream, header)
        told, *lines = whole.splitlines() or [json.dumps(header)]
        begun = _object(told)
        _expect_schema(begun, path.name)
        for name, said in (
            ("released", "the released file"),
            ("private", "the private data"),
            ("queries", "the number of queries"),
        ):
            if begun.get(name) != header[name]:
                raise Refused(f"{said} changed since {path.name} was begun")
        count = len(published.curated.z)
        answers = [_answer(_object(line), number, count) for number, line in enumerate(lines, start=1)]
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
            asked = _object(line)
            if set(asked) == {"answer"}:
                return _whole(asked, "answer", 0, record.rows - 1)
            send(json.dumps(_answered(record, evaluate, asked)._asdict()))
        except Refused as refusal:
            send(json.dumps({"error": str(refusal)}))
    return None


def _answered(record: Record, evaluate: Callable[[int], float], asked: dict[str, Any]) -> Answer:
    if set(asked) != {"query", "row"}:
        raise Refused('a query is {"query": its number, "row": a row number}')
    due = len(record.answers) + 1
    number = _whole(asked, "query", 1, record.queries)
    row = _whole(asked, "row", 0, record.rows - 1)
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


# The modeler


def search(
    published: Published,
    lines: Iterable[str],
    send: Callable[[str], None],
    *,
    key: jax.Array | None = None,
    told: Callable[[Answer], None] | None = None,
    **options: Any,
) -> Found:
    """Ask the curator until it has answered all its queries; what it answered before is learnt first.

    Args:
      published: the released file.
      lines: what the curator says.
      send: takes a line without its end.
      key: of the first row; from the operating system where not given.
      told: called with every answer, those of earlier contacts included.
      options: of ``po_gp_ucb.config``: ``lengthscale``, ``noise_variance`` and what has a default.

    Raises:
      Refused: the curator has another released file or another version, refused a query, or went away.
    """
    replies = iter(lines)
    greeting = _reply(replies)
    _expect_schema(greeting, "the curator")
    if set(greeting) != GREETING:
        raise Refused("the curator's greeting is not one")
    if greeting["released"] != published.digest:
        raise Refused("the released file is not the curator's: it was changed, or is of another search")
    config = po_gp_ucb.config(published.curated, steps=greeting["queries"], **options)
    init_key, ask_key, release_key = jax.random.split(keys.secret_key() if key is None else _checks.key("key", key), 3)
    state = po_gp_ucb.init(init_key, config)
    answers: list[Answer] = []

    def learn(state, answer):
        answers.append(answer)
        if told is not None:
            told(answer)
        row = jnp.asarray([answer.row], jnp.int32)
        query = Query(row[:, None].astype(config.scale.dtype), jnp.ones(1, bool), row)
        output = math.nan if answer.output is None else answer.output
        return _tell(ask_key, config, state, query, jnp.asarray([output], config.scale.dtype))

    count = len(published.curated.z)
    for number, before in enumerate(greeting["answers"], start=1):
        state = learn(state, _answer(before, number, count))
    while len(answers) < config.steps:
        query = _ask(jax.random.fold_in(ask_key, len(answers)), config, state)
        asked = {"query": len(answers) + 1, "row": int(query.rows[0])}
        send(json.dumps(asked))
        answer = _answer(_reply(replies), asked["query"], count)
        if answer.row != asked["row"]:
            raise Refused(f"query {answer.query} asked for row {asked['row']} and was told of row {answer.row}")
        state = learn(state, answer)
    row = int(po_gp_ucb.release(release_key, config, state).row)
    send(json.dumps({"answer": row}))
    output = next(answer.output for answer in answers if answer.row == row)
    return Found(row, math.nan if output is None else output, tuple(answers))


_ask, _tell = jax.jit(po_gp_ucb.ask), jax.jit(lambda *arguments: po_gp_ucb.tell(*arguments)[0])


def _reply(replies: Iterator[str]) -> dict[str, Any]:
    line = next(replies, None)
    if line is None:
        raise Refused("the curator went away: what it answered is in its record, start again to go on")
    reply = _object(line)
    if "error" in reply:
        raise Refused(f"the curator refused: {reply['error']}")
    return reply


# Lines


def lines_of(stream: TextIO) -> Iterator[str]:
    """The lines of a stream; one that is too long comes out empty, one that the stream's end cut off not at all."""
    while line := stream.readline(LONGEST):
        if line.endswith("\n"):
            yield line
            continue
        while (rest := stream.readline(LONGEST)) and not rest.endswith("\n"):
            pass
        if rest:
            yield ""


def sender(stream: TextIO) -> Callable[[str], None]:
    """Writes lines to a stream at once."""

    def send(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return send


def _object(line: str) -> dict[str, Any]:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Refused("a line that is not a JSON object")
    return content


def _answer(content: Any, number: int, rows: int) -> Answer:
    """The answer to query ``number``, or a refusal."""
    try:
        query, row = _whole(content, "query", number, number), _whole(content, "row", 0, rows - 1)
        output = content["output"]
        if output is not None and not (type(output) in (int, float) and math.isfinite(output)):
            raise Refused("an output is a finite number or null")
    except (KeyError, TypeError) as error:
        raise Refused(f"query {number} was answered by something else") from error
    return Answer(query, row, output)


def _whole(content: dict[str, Any], name: str, least: int, most: int) -> int:
    value = content[name]
    if type(value) is not int or not least <= value <= most:
        raise Refused(f"{name} must be a whole number from {least} to {most}")
    return value


def _expect_schema(content: dict[str, Any], who: str) -> None:
    if content.get("schema") != SCHEMA:
        raise Refused(f"{who} does not speak {SCHEMA}")
    if content.get("version") != VERSION:
        raise Refused(f"{who} speaks version {content.get('version')}, this is version {VERSION}")

"""What passes between the parties: lines of JSON, read with suspicion."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

SCHEMA, VERSION = "jaxdpbo.outsourcing", 1
MAX_LINE_LENGTH = 2**20  # characters of a line: longer ones are read past, not kept
MAX_QUERIES = 10_000  # their answers, in one greeting, are shorter than such a line


class ProtocolError(Exception):
    """What the other party sent, or a file, is not what it should be. Says why; nothing was changed."""


class CuratorStopped(ProtocolError):
    """The curator's lines ended before the search did. Every answer is in the curator's record: start it again."""


class RecordInUse(ProtocolError):
    """Another curator has the record open."""


class Answer(NamedTuple):
    """One line of the record: ``output`` is None where it was no finite number."""

    query: int
    row: int
    output: float | None


def read_lines(stream: TextIO) -> Iterator[str]:
    """The lines of a stream; one that is too long comes out empty, one that the stream's end cut off not at all.

    A stream that breaks, or is not UTF-8, has ended.
    """
    with suppress(ConnectionError, UnicodeDecodeError):
        while line := stream.readline(MAX_LINE_LENGTH):
            if line.endswith("\n"):
                yield line
                continue
            while (rest := stream.readline(MAX_LINE_LENGTH)) and not rest.endswith("\n"):
                pass
            if rest:
                yield ""


def sender(stream: TextIO) -> Callable[[str], None]:
    """Writes lines to a stream at once."""

    def send(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return send


def parse(line: str) -> dict[str, Any]:
    """The object that a line is.

    Raises:
      ProtocolError: it is none.
    """
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ProtocolError("a line that is not a JSON object")
    return content


def parse_answer(content: object, number: int, rows: int) -> Answer:
    """The answer to query ``number``, or a refusal."""
    if not isinstance(content, dict):
        raise ProtocolError(f"query {number} was answered by something else")
    try:
        query, row = parse_integer(content, "query", number, number), parse_integer(content, "row", 0, rows - 1)
        output = content["output"]
        if output is not None:
            output = float(output) if type(output) in (int, float) else math.nan
            if not math.isfinite(output):
                raise ProtocolError("an output is a finite number or null")
    except OverflowError as error:
        raise ProtocolError("an output is a finite number or null") from error
    except (KeyError, TypeError) as error:
        raise ProtocolError(f"query {number} was answered by something else") from error
    return Answer(query, row, output)


def parse_integer(content: dict[str, Any], name: str, least: int, most: int) -> int:
    """An integer in ``[least, most]``; anything else is refused."""
    value = content[name]
    if type(value) is not int or not least <= value <= most:
        raise ProtocolError(f"{name} must be an integer from {least} to {most}")
    return value


def expect_schema(content: dict[str, Any], who: str) -> None:
    """Refuse another schema or version."""
    if content.get("schema") != SCHEMA:
        raise ProtocolError(f"{who} does not speak {SCHEMA}")
    if content.get("version") != VERSION:
        raise ProtocolError(f"{who} speaks version {quote(content.get('version'))}, this is version {VERSION}")


def quote(value: object) -> str:
    """What another party or a file says, as one short printable line."""
    text = value if isinstance(value, str) else repr(value)
    return "".join(each if each.isprintable() else "?" for each in text[:200])

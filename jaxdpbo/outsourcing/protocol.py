"""The messages between the parties: lines of JSON, fully checked."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from jaxdpbo.ledger import ledger_file

SCHEMA, VERSION = "jaxdpbo.outsourcing", 1
MAX_LINE_LENGTH = 2**20  # characters; longer lines are skipped
MAX_QUERIES = 10_000  # their answers fit in a greeting of this length


class ProtocolError(Exception):
    """A message of the other party, or a file, is invalid; nothing was changed."""


class CuratorStopped(ProtocolError):
    """The curator's lines ended before the search. The curator's record holds every answer: start the curator again."""


class RecordInUse(ProtocolError):
    """Another curator has the record open."""


class Answer(NamedTuple):
    """A line of the record; ``output`` is None for a result other than a finite number."""

    query: int
    row: int
    output: float | None


def read_lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of a stream: a line too long as an empty line, an unfinished last line not at all.

    A broken stream, or other bytes than UTF-8, end the lines.

    >>> import io
    >>> from jaxdpbo import outsourcing
    >>> [line.strip() for line in outsourcing.read_lines(io.StringIO("one" + chr(10)))]
    ['one']
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
    """Make a function to write lines to a stream without delay.

    >>> import io
    >>> from jaxdpbo import outsourcing
    >>> stream = io.StringIO()
    >>> outsourcing.sender(stream)("one")
    >>> stream.getvalue().strip()
    'one'
    """

    def send(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return send


def parse(line: str) -> dict[str, Any]:
    """Parse a line as a JSON object.

    Raises:
      ProtocolError: the line is no JSON object.
    """
    try:
        content = ledger_file.parse_json(line)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ProtocolError("a line must be a JSON object")
    return content


def parse_answer(content: object, number: int, rows: int) -> Answer:
    """Check the answer to query ``number``; raise ``ProtocolError`` for other content."""
    if not isinstance(content, dict):
        raise ProtocolError(f"the answer to query {number} must hold query, row and output")
    try:
        query, row = parse_integer(content, "query", number, number), parse_integer(content, "row", 0, rows - 1)
        output = content["output"]
        if output is not None:
            output = float(output) if type(output) in (int, float) else math.nan
            if not math.isfinite(output):
                raise ProtocolError("output must be a finite number or null")
    except OverflowError as error:
        raise ProtocolError("output must be a finite number or null") from error
    except (KeyError, TypeError) as error:
        raise ProtocolError(f"the answer to query {number} must hold query, row and output") from error
    return Answer(query, row, output)


def parse_integer(content: dict[str, Any], name: str, least: int, most: int) -> int:
    """Check an integer in ``[least, most]``; raise ``ProtocolError`` for other values."""
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
    """Quote a value of another party or a file as a short printable line."""
    text = value if isinstance(value, str) else repr(value)
    return "".join(character if character.isprintable() else "?" for character in text[:200])

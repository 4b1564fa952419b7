"""The standard streams of a program with a protocol and third-party code.

Three outputs must not mix: the lines of the protocol, public sentences, and the output of third-party code and its
libraries, possibly with private values.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from jaxdpbo import files, outsourcing


class Channel(NamedTuple):
    """A connection: ``lines`` from the other party, ``send`` to it, and ``say`` to standard error and the log."""

    lines: Iterator[str]
    send: Callable[[str], None]
    say: Callable[[str], None]


def take_streams(log: Path, streams: ExitStack) -> Channel:
    """Keep the three standard streams for the protocol and for public sentences.

    Until the process ends, all other code, child processes included, prints to the log and reads nothing. A forked
    child gets no line of the protocol: a child alive after this process would keep the other party waiting.

    Raises:
      OSError: ``log`` is not a private file of this user, or a standard stream is closed.
    """
    requests = streams.enter_context(os.fdopen(os.dup(0), encoding="utf8"))
    answers = os.fdopen(os.dup(1), "w", encoding="utf8")
    streams.callback(_close, answers)
    public = streams.enter_context(_write_what_fits(os.dup(2)))
    written = _open_log(log)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for number, descriptor in enumerate((nothing, written, written)):
        os.dup2(descriptor, number)
    os.close(nothing)
    sys.stdout = sys.stderr = log_stream = _write_what_fits(written)

    def drop_streams():
        for number, stream in enumerate((requests, answers, public)):
            if not stream.closed:
                os.dup2(number, stream.fileno(), inheritable=False)

    os.register_at_fork(after_in_child=drop_streams)

    def say(text):
        for stream in (log_stream, public):
            with suppress(ValueError):  # closed by third-party code
                print(text, file=stream)

    return Channel(outsourcing.read_lines(requests), outsourcing.sender(answers), say)


def _open_log(path: Path) -> int:
    try:
        return files.open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except files.NotPrivate as error:
        raise OSError(f"{path}: {error}") from None


class _Lossy(io.FileIO):
    """A file without write errors: a full disk, or a closed reader, must stop no run."""

    def write(self, data):
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _write_what_fits(descriptor: int) -> io.TextIOWrapper:
    raw = io.BufferedWriter(_Lossy(descriptor, "w"))
    return io.TextIOWrapper(raw, encoding="utf8", errors="backslashreplace", line_buffering=True)


def _close(stream: io.TextIOBase) -> None:
    """Close a stream, even after its reader: the record holds the unsent answers."""
    with suppress(OSError):
        stream.close()

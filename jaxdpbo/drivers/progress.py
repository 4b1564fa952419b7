"""Progress on a terminal: a bar of steps, and a line while a compiled search runs. Neither shows data."""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Any, cast

from jaxdpbo import checks

AUTO = "auto"
PAUSE = 2.0  # seconds before the line


def on_terminal() -> bool:
    """True if standard error is a terminal."""
    try:
        return bool(cast(Any, sys.stderr).isatty())
    except Exception:  # None, closed, or of another type than a file
        return False


def bar(progress: bool | str) -> Any:
    """The bar of tqdm, or None. "auto" shows a bar on a terminal, if tqdm is there.

    Raises:
      ImportError: ``progress`` is True, and the extra is missing.
    """
    if progress == AUTO:
        with contextlib.suppress(ImportError):
            return checks.extra("tqdm", "progress", "progress=True").tqdm if on_terminal() else None
        return None
    return checks.extra("tqdm", "progress", "progress=True").tqdm if progress else None


@contextlib.contextmanager
def waiting(progress: bool | str, text: str) -> Iterator[None]:
    """Show ``text`` on a terminal if the body takes long, and erase the line at the end; not if ``progress`` is False.

    A terminal that fails never ends the body.
    """
    if not progress or not on_terminal():
        yield
        return
    stream, visible = sys.stderr, threading.Event()

    def write(line: str) -> None:
        with contextlib.suppress(Exception):
            stream.write(line)
            stream.flush()

    def show() -> None:
        visible.set()
        write(f"jaxdpbo: {text} ...")

    timer = threading.Timer(PAUSE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if visible.is_set():
            write("\r\033[K")

"""Progress on a terminal: a bar of steps, and a line while a compiled search runs. Neither shows data."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from jaxdpbo import checks, terminal

AUTO = "auto"
PAUSE = 2.0  # seconds before the line


def bar(progress: bool | str) -> Any:
    """The bar of tqdm, or None. "auto" shows a bar on a terminal, if tqdm is there.

    Raises:
      ImportError: ``progress`` is True, and the extra is missing.
    """
    if progress == AUTO:
        with contextlib.suppress(ImportError):
            return checks.extra("tqdm", "progress", "progress=True").tqdm if terminal.is_there() else None
        return None
    return checks.extra("tqdm", "progress", "progress=True").tqdm if progress else None


@contextlib.contextmanager
def waiting(progress: bool | str, text: str) -> Iterator[None]:
    """Show ``text`` on a terminal if the body takes long, and erase the line at the end; not if ``progress`` is False.

    A terminal that fails never ends the body.
    """
    if not progress or not terminal.is_there():
        yield
        return
    visible = threading.Event()

    def show() -> None:
        visible.set()
        terminal.write(f"jaxdpbo: {text} ...")

    timer = threading.Timer(PAUSE, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if visible.is_set():
            terminal.write("\r\033[K")

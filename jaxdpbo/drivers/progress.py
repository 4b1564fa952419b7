"""Progress on a terminal: a bar of steps, a bar or a line for each scan of a table, and a line while a compiled search
runs. None shows data: the number of users and of steps is public.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

from jaxdpbo import checks, logs, terminal

AUTO = "auto"
PAUSE = 2.0  # seconds before the line
WIDTH, ROWS = 80, 24  # of a terminal that does not know its own, where tqdm would print nothing
Count = Callable[[int], None]  # of users read


def bar(progress: bool | str) -> Any:
    """The bar of tqdm, or None. "auto" shows a bar on a terminal, if tqdm is there.

    Raises:
      ImportError: ``progress`` is True, and the extra is missing.
    """
    if progress == AUTO:
        with contextlib.suppress(ImportError):
            return _make_tqdm() if terminal.is_there() else None
        return None
    return _make_tqdm() if progress else None


def _make_tqdm() -> Any:
    tqdm = checks.extra("tqdm", "progress", "progress=True").tqdm
    return tqdm if terminal.width() else functools.partial(tqdm, ncols=WIDTH, nrows=ROWS)


@contextlib.contextmanager
def scanning(progress: bool | str, what: str, users: int) -> Iterator[Count]:
    """Show a scan of a table, and log it: a bar of users, or a line where tqdm is missing.

    Args:
      progress: see ``minimize``.
      what: the scan is for, such as "step 2 of 9".
      users: the number of users of the table.

    Yields:
      A function that counts users as they are read in this process.
    """
    logs.scanned(what, users)  # before: whether a scan ends may follow from a record
    make, shown = bar(progress), None
    if make is not None:
        shown = make(total=users, desc=what, unit="user", unit_scale=True, leave=False)
    elif progress == AUTO and terminal.is_there():
        terminal.write(f"jaxdpbo: {what}: reading {users:,} users\n")
    try:
        yield _ignore if shown is None else shown.update
        if shown is not None:
            shown.update(users - shown.n)  # of users in other processes
    finally:
        if shown is not None:
            shown.close()


def _ignore(users: int) -> None:
    """Count nowhere."""


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

"""Write lines to a terminal, and to nothing else: a file or a pipe gets the output of your program alone.

Also text in a cell of a notebook.
"""

import contextlib
import html
import os
import sys
from typing import Any, cast


def is_there() -> bool:
    """True if standard error is a terminal."""
    try:
        return bool(cast(Any, sys.stderr).isatty())
    except Exception:  # None, closed, or of another type than a file
        return False


def width() -> int:
    """The columns of the terminal; 0 for one that does not know, such as that of a container."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except Exception:  # no terminal
        return 0


def cell(text: str) -> str:
    """HTML of plain text, for ``_repr_html_``: with its lines, wrapped at the edge of the page."""
    return f'<pre style="white-space: pre-wrap">{html.escape(text)}</pre>'


def write(text: str) -> None:
    """Write to standard error. A terminal that fails never ends a run."""
    with contextlib.suppress(Exception):
        sys.stderr.write(text)
        sys.stderr.flush()

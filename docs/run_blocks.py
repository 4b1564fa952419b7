"""Run every Python block of README and of the pages, each one alone: ``python docs/run_blocks.py [PAGE ...]``.

A block is a fence of ``python``, or a cell of a notebook, ``{code-cell}``. Each block runs as a reader pastes it: in an
empty namespace and an empty folder, without the blocks before it. A block after ``<!-- not run: REASON -->`` is listed
with the reason.
"""

import contextlib
import io
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^>]*) -->\n)?```(?:python|\{code-cell\}[^\n]*)\n(?P<options>(?::[^\n]*\n)*)"
    r"(?P<source>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    """A block of a page: its first line, its source, and why it does not run, if it does not."""

    line: int
    source: str
    reason: str | None


def pages() -> list[Path]:
    """README and all pages of the site."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    """All Python blocks of a page."""
    text = path.read_text()
    return [
        Block(text.count("\n", 0, match.start("source")) + 1, match["source"], match["reason"])
        for match in BLOCK.finditer(text)
    ]


def run(path: Path, block: Block) -> None:
    """Run one block alone; a traceback names the page and the line."""
    code = compile("\n" * (block.line - 1) + block.source, str(path), "exec")
    home, printed = Path.cwd(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        os.chdir(folder)
        try:
            exec(code, {"__name__": "__main__"})
        finally:
            os.chdir(home)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def main() -> None:
    os.environ.setdefault("MPLBACKEND", "agg")
    sys.path.insert(0, str(ROOT))
    for path in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        started, found = time.perf_counter(), blocks(path)
        for block in found:
            if block.reason is None:
                run(path, block)
        if found:
            reasons = [f"; line {block.line} not run: {block.reason}" for block in found if block.reason is not None]
            seconds = time.perf_counter() - started
            print(
                f"{path.relative_to(ROOT)}: {len(found) - len(reasons)} blocks, {seconds:.0f} s{''.join(reasons)}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()

"""Run the Python blocks of README and of the pages that are not notebooks, each page in one namespace.

What a block needs and a reader does not stands before it in a comment, ``<!-- run`` and ``-->`` on lines of their own.
A block after ``<!-- not run: REASON -->`` is listed with its reason.
"""

import os
import re
import sys
import tempfile
import time
from pathlib import Path

DOCS = Path(__file__).resolve().parent
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]*) -->\n)?```python\n(?P<shown>.*?)```|<!-- run\n(?P<hidden>.*?)-->", re.DOTALL
)
NOTEBOOK = "file_format: mystnb"


def pages() -> list[Path]:
    found = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [path for path in found if NOTEBOOK not in path.read_text()]


def run(path: Path) -> tuple[int, list[str]]:
    """How many blocks ran, and why others did not."""
    space: dict[str, object] = {"__name__": path.stem}
    count, reasons = 0, []
    text = path.read_text()
    for found in BLOCK.finditer(text):
        if found["reason"]:
            reasons.append(found["reason"])
            continue
        source = found["shown"] if found["shown"] is not None else found["hidden"]
        line = text[: found.start()].count("\n") + 1
        exec(compile("\n" * line + source, str(path), "exec"), space)
        count += found["shown"] is not None
    return count, reasons


def main() -> None:
    sys.path.insert(0, str(DOCS.parent))
    for path in pages():
        started, home = time.perf_counter(), Path.cwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            count, reasons = run(path)
            os.chdir(home)
        if count or reasons:
            said = "".join(f"; not run: {reason}" for reason in reasons)
            print(
                f"{path.relative_to(DOCS.parent)}: {count} blocks, {time.perf_counter() - started:.0f} s{said}",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()

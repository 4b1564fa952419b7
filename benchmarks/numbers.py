"""``scripts/numbers [--check]``: write the figures of README and docs from docs/results.

Put a table between ``<!-- numbers: NAME -->`` and ``<!-- end -->``, on lines of their own. Put a figure of a sentence
between ``<!-- number: NAME -->`` and ``<!-- end -->``. ``--names`` prints all names.
"""

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ.setdefault("JAX_ENABLE_X64", "1")

from benchmarks import report
from benchmarks.tables import BLOCKS, SENTENCES

BLOCK = re.compile(r"<!-- numbers: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
INLINE = re.compile(r"<!-- number: (\w+) -->([^\n]*?)<!-- end -->")


def documents() -> list[Path]:
    docs = report.ROOT / "docs"
    pages = [*docs.glob("*.md"), *docs.glob("results/*.md"), *docs.glob("tutorials/*.md")]
    return [report.ROOT / "README.md", *sorted(pages)]


def fill(text: str) -> str:
    """Fill every marker of a text with its table or figure.

    Raises:
      ValueError: a marker names nothing, or is not closed.
    """
    if text.count("<!-- numbers: ") != len(BLOCK.findall(text)):
        raise ValueError("every '<!-- numbers: NAME -->' needs its '<!-- end -->' and a name of letters")
    if text.count("<!-- number: ") != len(INLINE.findall(text)):
        raise ValueError("every '<!-- number: NAME -->' needs its '<!-- end -->' on its line and a name of letters")

    def value(name: str, functions: Mapping[str, Callable[[], str]]) -> str:
        if name not in functions:
            raise ValueError(f"there is no {name!r}; there are {', '.join(functions)}")
        return functions[name]()

    text = BLOCK.sub(lambda m: f"<!-- numbers: {m[1]} -->\n{value(m[1], BLOCKS)}\n<!-- end -->", text)
    return INLINE.sub(lambda m: f"<!-- number: {m[1]} -->{value(m[1], SENTENCES)}<!-- end -->", text)


def fill_page(path: Path) -> str:
    """Fill a document, with links relative to its own folder."""
    text = fill(path.read_text())
    if path.parent != report.ROOT:
        return text
    return BLOCK.sub(lambda match: match[0].replace("](results/", "](docs/results/"), text)


def differences() -> list[Path]:
    """Documents with a figure that differs from the results."""
    return [path for path in documents() if fill_page(path) != path.read_text()]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/numbers", description="Write the figures of README and docs from docs/results."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a document differs")
    parser.add_argument("--names", action="store_true", help="print the names for markers")
    arguments = parser.parse_args()
    if arguments.names:
        print("tables:", *BLOCKS, "figures in sentences:", *SENTENCES, sep="\n")
        return 0
    wrong = differences()
    if arguments.check:
        print(
            "\n".join(f"{path.name} differs from docs/results: run scripts/numbers" for path in wrong)
            or "all documents agree with docs/results"
        )
        return int(bool(wrong))
    for path in wrong:
        path.write_text(fill_page(path))
        print(f"wrote {path.relative_to(report.ROOT)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

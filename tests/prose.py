"""Plainness of pages and docstrings: words that point back, and words to the reader, per thousand."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

POINTING = ("it", "that", "which", "what", "one", "whose")  # each sends a reader back for its subject
ADDRESS = ("you", "your", "yours")
NO_PROSE = (
    r"(?s)\A---\n.*?\n---\n",  # the head of a notebook
    r"(?s)```.*?```|``[^`]*``|`[^`]*`",  # code
    r"(?s)<!--.*?-->",
    r"\$[^$]*\$",  # formulas
    r"(?<=\])\([^)]*\)",  # where a link leads
    r"(?m)^ *(>>>|\.\.\.) .*$",  # examples
    r"\S*(_|::)\S*",  # names of code outside of backticks
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def words(text: str) -> list[str]:
    """The words of prose of a page or docstring in lower case: no code, formulas, links' targets or comments."""
    for pattern in NO_PROSE:
        text = re.sub(pattern, " ", text)
    return [word.lower() for word in WORD.findall(text)]


def pages(root: Path) -> list[Path]:
    """README and the pages of the site."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md")), *sorted((root / "docs/tutorials").glob("*.md"))]


def docstrings(path: Path) -> str:
    """All docstrings of public things in a module."""
    tree = ast.parse(path.read_text())
    named = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    public = [node for node in named if node.name == "__init__" or not node.name.startswith("_")]
    return "\n\n".join(filter(None, map(ast.get_docstring, [tree, *public])))


def rates(texts: Iterable[str]) -> tuple[int, float, float]:
    """How many words, and of a thousand how many point back, and how many address the reader."""
    all_words = [word for text in texts for word in words(text)]
    count = max(len(all_words), 1)
    pointing, address = (1000 * sum(word in kind for word in all_words) / count for kind in (POINTING, ADDRESS))
    return len(all_words), pointing, address


def print_rates(root: Path) -> None:
    """Each page and module, the most pointing first."""
    named = [(path, path.read_text()) for path in pages(root)]
    named += [(path, docstrings(path)) for path in sorted((root / "jaxdpbo").rglob("*.py"))]
    rows = sorted(((path.relative_to(root), *rates([text])) for path, text in named), key=lambda row: -row[2])
    for name, count, pointing, address in rows:
        print(f"{pointing:6.1f} {address:6.1f} {count:6}  {name}")

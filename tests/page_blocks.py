"""The code blocks of README and of the pages, as ``docs/run_blocks.py`` reads them."""

import ast
import importlib.util
import re
from pathlib import Path

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```$", re.DOTALL | re.MULTILINE)
SOURCE = Path(__file__).parent.parent / "docs" / "run_blocks.py"


def _load():
    spec = importlib.util.spec_from_file_location("run_blocks", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_blocks = _load()


def first_block(page: str, word: str) -> str:
    """The source of the first block of a page that holds a word."""
    path = SOURCE.parent / f"{page}.md"
    return next(block.source for block in run_blocks.blocks(path) if word in block.source)


def all_imports() -> str:
    """The imports of all cells, which ``scripts/docs`` runs."""
    cells = [cell for path in run_blocks.pages() for cell in CELL.findall(path.read_text())]
    nodes = [node for cell in cells for node in ast.walk(ast.parse(cell))]
    return "\n".join(sorted({ast.unparse(node) for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))}))

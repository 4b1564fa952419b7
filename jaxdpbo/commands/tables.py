"""Tables on standard output."""

from collections.abc import Iterable, Sequence
from typing import Any


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with columns as wide as their widest cell, the first column flush left."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))

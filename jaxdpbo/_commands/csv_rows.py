"""Rows of a CSV file that holds private records: a cell decides neither the number of rows nor another cell.

The format: UTF-8, a header, and a row in each line, which ends with LF or CRLF. Commas separate cells. Quotes around a
whole cell are stripped, and two quotes inside are one; commas inside belong to the cell, a line break never does. A
line with another number of cells than the header has, such as an empty line, is a row without values. In a row,
any other quote, a lone CR, a NUL byte and text of another encoding stay in their cell.
"""

import re
from typing import NamedTuple

import numpy as np

FORMAT = (
    "a CSV file in UTF-8 with a header; every line is a row, even where a quote is open; a line with too few or too "
    "many cells is a row without values"
)
CELL = re.compile(r'"((?:[^"]|"")*)"(,|\Z)|([^,]*)(,|\Z)')


class Table(NamedTuple):
    """The text of a file.

    Attributes:
      header: ``k`` names, public.
      cells: text ``(n, k)``; "" where a row has no value.
    """

    header: list[str]
    cells: np.ndarray

    def column(self, name: str) -> int:
        """The place of a column. Raise a ValueError unless the header has the name once.

        It quotes no other name: a file without a header has a row in its place.
        """
        if (count := self.header.count(name)) != 1:
            raise ValueError(f"the table has {'two or more columns' if count else 'no column'} {name!r}")
        return self.header.index(name)


def parse(name: str, content: bytes) -> Table:
    """Parse a file by the rules of this module.

    Raises:
      ValueError: the header is missing or no UTF-8, or holds a lone CR or a NUL, since all is header where no line
        ends with LF. It is public, and not quoted; nothing that a row holds raises.
    """
    header, *lines = content.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n").split(b"\n")
    try:
        names = _split(header.removesuffix(b"\r").decode())
    except UnicodeDecodeError:
        names = [""]
    if names == [""] or any(mark in cell for cell in names for mark in "\r\0"):
        raise ValueError(f"{name} must be a CSV file in UTF-8 with a header and lines that end with LF or CRLF")
    cells = np.full((len(lines), len(names)), "", object)
    for row, line in zip(cells, lines, strict=True):
        values = _split(line.removesuffix(b"\r").decode(errors="replace"))
        if len(values) == len(names):
            row[:] = values
    return Table(names, cells)


def to_numbers(cells: np.ndarray) -> np.ndarray:
    """Convert cells to floats; other text becomes NaN."""
    return np.array([_to_number(cell) for cell in cells], float)


def _split(line: str) -> list[str]:
    if '"' not in line:
        return line.split(",")
    cells, match = [], CELL.match(line)
    while match is not None:
        quoted, comma, plain, other_comma = match.groups()
        cells.append(plain if quoted is None else quoted.replace('""', '"'))
        match = CELL.match(line, match.end()) if comma or other_comma else None
    return cells


def _to_number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan

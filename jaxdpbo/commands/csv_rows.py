"""Rows of a CSV file that holds private records: a cell decides neither the number of rows nor another cell.

The format: UTF-8, a header, and a row in each line, which ends with LF or CRLF. Commas separate cells. Quotes around a
whole cell are stripped, and two quotes inside are one; commas inside belong to the cell, a line break never does. A
line with another number of cells than the header has, such as an empty line, is a row without values. In a row,
any other quote, a lone CR, a NUL byte and text of another encoding stay in their cell.
"""

from typing import NamedTuple

import numpy as np

FORMAT = (
    "a CSV file in UTF-8 with a header; every line is a row, even where a quote is open; a line with too few or too "
    "many cells is a row without values"
)


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
        names = _split(header.removesuffix(b"\r").decode(), len(header))
    except UnicodeDecodeError:
        names = [""]
    if names == [""] or any(mark in cell for cell in names for mark in "\r\0"):
        raise ValueError(f"{name} must be a CSV file in UTF-8 with a header and lines that end with LF or CRLF")
    cells = np.full((len(lines), len(names)), "", object)
    for row, line in zip(cells, lines, strict=True):
        values = _split(line.removesuffix(b"\r").decode(errors="replace"), len(names))
        if len(values) == len(names):
            row[:] = values
    return Table(names, cells)


def _split(line: str, most: int) -> list[str]:
    """The cells of a line, at most one more than ``most``, in time and memory linear in its length."""
    if '"' not in line:
        return line.split(",", most)
    cells: list[str] = []
    end = -1
    while end < len(line) and len(cells) <= most:
        start = end + 1
        if (quote := _closing_quote(line, start)) > 0:
            end = quote + 1
            cells.append(line[start + 1 : quote].replace('""', '"'))
        else:
            comma = line.find(",", start)
            end = comma if comma >= 0 else len(line)
            cells.append(line[start:end])
    return cells


def _closing_quote(line: str, start: int) -> int:
    """The place of the quote that ends a cell in quotes; -1 for any other cell."""
    if not line.startswith('"', start):
        return -1
    quote = line.find('"', start + 1)
    while line.startswith('""', quote):
        quote = line.find('"', quote + 2)
    return quote if line[quote + 1 : quote + 2] in ("", ",") else -1

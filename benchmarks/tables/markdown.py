"""Tables and numbers in Markdown, and reading stored results."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from benchmarks import report


@cache
def load_result(name: str) -> dict[str, Any]:
    """A committed result.

    Raises:
      ValueError: there is none.
    """
    result = report.find_result(name)
    if result is None:
        raise ValueError(f"docs/results has no {name}.json")
    return result


def row_of(name: str, start: str, **fields: Any) -> dict[str, Any]:
    """The one row with this beginning of its name and these fields."""
    rows = [row for row in load_result(name)["rows"] if row["name"].startswith(start)]
    (row,) = [row for row in rows if all(row[field] == value for field, value in fields.items())]
    return row


def table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("|" + "|".join(f" {cell} " if cell != "" else " " for cell in line) + "|" for line in lines)


def time_of(seconds: float, digits: int = 3) -> str:
    """In s or ms, rounded to so many digits."""
    if seconds >= 0.5:
        return f"{figures(seconds, digits)} s"
    return f"{figures(seconds * 1e3, digits)} ms"


def figures(value: float, digits: int = 3) -> str:
    """Rounded to so many digits, without an exponent, thousands apart."""
    rounded = float(f"{value:.{digits - 1}e}")
    places = max(0, digits - len(str(int(abs(rounded)))) if abs(rounded) >= 1 else digits)
    text = f"{rounded:,.{places}f}"
    return text


def noise_of(name: str) -> str:
    return load_result(name)["noise"].partition(":")[0]

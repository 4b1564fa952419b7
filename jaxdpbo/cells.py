"""Cells of tables, each read as a number or as text: one reading for training, scoring, tables and ``check``.

No cell raises, and none decides how another is read: a table reader turns a whole column into text for one cell, so
text that spells a number or a Boolean equals it, and spaces at its ends do not count. A date or a time is no number,
since the text in its place would be none; a day is its text in ISO's form.
"""

import datetime
import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxdpbo import silence, user_values
from jaxdpbo.space import NumberText

BOOLEAN_TEXT = dict.fromkeys(("True", "TRUE", "true"), 1.0) | dict.fromkeys(("False", "FALSE", "false"), 0.0)
MISSING = None  # the code of a value that is missing; other codes are text and floats
DATE = " date "  # the code of other dates and times, which no text has: it would be without the spaces
DAY = 86400  # seconds
DATES = datetime.date, datetime.timedelta, np.datetime64, np.timedelta64
UNLISTED, ABSENT = -1, -2  # in place of a category's position: of another value, and of a missing one
NUMBERS = "biuf"  # kinds of NumPy's dtypes
SPELLINGS = {" ": " \u00a0\u202f", "'": "'\u2019"}  # of a mark between thousands: the spaces and apostrophes in print
MINUS = "\u2212"  # of print
WHOLE = re.compile(r"([-+]?[0-9]{1,999})(?:\.0*)?")  # text of a whole number, as a reader of floats may write it
SIGN = f"[-+{MINUS}]?"


def category_numbers(choices: Sequence[Any], column: Any) -> np.ndarray:
    """The position of each value in ``choices``: ``(n,)``, -1 for others, -2 for missing values.

    Fractions are compared in float32.
    """
    table = {_code(choice): number for number, choice in enumerate(choices)}
    table[MISSING] = ABSENT
    with silence.silence():
        return np.array([table.get(_code(value), UNLISTED) for value in column], np.int32)


def identities(column: Any) -> list[Any]:
    """A value for each cell that is equal for equal cells, to tell people apart by a public column.

    Whole numbers, and text that spells one, keep all digits, which a float would lose. Other text counts as a number if
    it has no exponent, as hexadecimal pseudonyms may: "12e4" is not 120000, and "1234e567" is no infinity.

    Raises:
      ValueError: a cell that is missing or a date.
    """
    with silence.silence():
        codes = [_identity(value) for value in column]
    if MISSING in codes or DATE in codes:
        raise ValueError("each row needs an id, a number or text: the column of people has cells without any")
    return codes


def number_people(column: Any) -> np.ndarray:
    """The number of the person of each row, ``(n,)``, from 0 on in the order of their first rows.

    Raises:
      ValueError: see ``identities``.
    """
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(each, len(numbers)) for each in identities(column)], np.int64)


def real_numbers(column: Any, text: NumberText | None = None) -> np.ndarray:
    """Convert each value to a float64 number: ``(n,)``, NaN for values that are not numbers.

    Args:
      column: values ``(n,)``: an array, a list, or a column of a data frame.
      text: how text spells numbers; None for Python's own spelling.
    """
    with silence.silence():
        if _holds_numbers(column):
            return np.asarray(column, float)
        if getattr(getattr(column, "dtype", None), "kind", "O") in NUMBERS and hasattr(column, "array"):  # of pandas
            return column.to_numpy(float, na_value=np.nan)
        codes = (_number_or_text(value, text) for value in column)
        return np.array([code if isinstance(code, float) else np.nan for code in codes], float)


def frame_numbers(frame: Any) -> np.ndarray:
    """The cells of a data frame of pandas or polars, or a table of Arrow, as numbers ``(n, d)``: ``real_numbers``."""
    if hasattr(frame, "num_columns"):
        columns = [frame.column(place).to_pylist() for place in range(frame.num_columns)]
    elif hasattr(frame, "iloc"):
        columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    else:
        columns = [frame[name] for name in frame.columns]
    empty = np.zeros((len(frame), 0))  # of a frame without columns
    return np.column_stack([empty, *map(real_numbers, columns)])


def are_missing(column: Any) -> np.ndarray:
    """True where a cell holds nothing, ``(n,)``: NaN, None, a blank text, and objects that are no text or number."""
    with silence.silence():
        if _holds_numbers(column):
            return np.isnan(np.asarray(column))
        return np.array([_number_or_text(value, None) is MISSING for value in column], bool)


def check_choices(name: str, choices: Sequence[Any]) -> None:
    """Raise ValueError if two choices have the same code, such as 1 and "1", or if one is missing or a date."""
    codes = [_code(choice) for choice in choices]
    if len(set(codes)) < len(codes) or MISSING in codes or DATE in codes:
        raise ValueError(
            f'{name} must hold choices that differ, none missing or a date: 1, "1", "1.0" and True are the same, '
            f"got {tuple(choices)!r}"
        )


def _holds_numbers(column: Any) -> bool:
    """True for arrays, and columns of a data frame, that hold nothing but NumPy's numbers."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in NUMBERS and not np.ma.isMA(column)


def _code(value: Any) -> str | float | None:
    """A number or text, to compare: fractions in float32, since a column may have that dtype."""
    code = _number_or_text(value, None)
    if isinstance(code, float) and math.isfinite(code) and not code.is_integer():
        return float(np.float32(code))
    return code


def _identity(value: Any) -> str | float | None:
    if type(value) is int or isinstance(value, np.integer):
        return int(value)
    code, text = _number_or_text(value, None), _text(value)
    if not isinstance(code, float) or text is None:
        return code
    if whole := WHOLE.fullmatch(text):
        return int(whole[1])
    spelled = math.isfinite(code) and ("e" not in text.lower() or text in BOOLEAN_TEXT)
    return code if spelled else text


def _number_or_text(value: Any, spelling: NumberText | None) -> str | float | None:
    """A float, text without spaces at its ends (bytes in UTF-8), or a date's text; ``MISSING`` for everything else."""
    text = _text(value)
    if text is not None:
        if text in BOOLEAN_TEXT:
            return BOOLEAN_TEXT[text]
        number = _spelled_number(text, spelling)
        if number is None:
            return text or MISSING
    else:
        number = float(user_values.to_numbers([value], (1,))[0])
        if user_values.is_instance(value, *DATES) and not math.isnan(number):
            return _day(number)
    return MISSING if math.isnan(number) else number


def _text(value: Any) -> str | None:
    """Text without spaces at its ends; None for what is no text. Calls no method of a user's object."""
    if issubclass(type(value), bytes):  # as SciPy reads ARFF files
        return str.strip(bytes.decode(value, errors="replace"))
    return str.strip(value) if issubclass(type(value), str) else None


def _day(seconds: float) -> str:
    """The text of a whole day, as a reader may keep it; ``DATE`` for every other date or time."""
    days, rest = divmod(seconds, DAY)
    return DATE if rest or abs(days) > 2**40 else str(np.datetime64(int(days), "D"))


def _spelled_number(text: str, spelling: NumberText | None) -> float | None:
    """The number that a text spells; None for other text."""
    if spelling is None:
        try:
            return None if user_values.has_underscore(text) else float(text)
        except ValueError:
            return None
    found = _pattern(spelling).fullmatch(text)
    if found is None or len(sign := found["before"] + found["after"]) > 1:
        return None
    whole = "".join(filter(str.isdigit, found["whole"] or "0"))
    magnitude = float(f"{whole}.{found['fraction'] or '0'}{found['power'] or ''}")
    return -magnitude if sign in ("-", MINUS) else magnitude


@functools.lru_cache(maxsize=64)
def _pattern(spelling: NumberText) -> re.Pattern[str]:
    """What a number looks like: strict, since "12.5" without a group of three digits is no 125."""
    unit = r"\s*" + (rf"(?:{re.escape(spelling.unit)}\s*)?" if spelling.unit else "")  # linear: spaces match in one way
    mark = f"[{re.escape(SPELLINGS.get(spelling.thousands, spelling.thousands))}]"
    grouped = f"[0-9]{{1,3}}(?:{mark}[0-9]{{2,3}})*{mark}[0-9]{{3}}|" if spelling.thousands else ""  # lakh: two digits
    number = f"(?P<whole>{grouped}[0-9]+)?(?:{re.escape(spelling.decimal)}(?P<fraction>[0-9]+)?)?"
    signs = f"(?P<before>{SIGN}){unit}(?P<after>{SIGN})"
    return re.compile(f"{signs}(?=[^0-9]?[0-9]){number}(?P<power>[eE][-+]?[0-9]+)?{unit}")

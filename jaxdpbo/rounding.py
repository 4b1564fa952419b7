"""Print privacy numbers: levels and deltas rounded up, lower bounds and budgets left rounded down.

A number that the caller typed with few digits stays as typed: the decimal of its float is rounded, not its bits.
"""

import decimal
import math


def round_up(level: float, digits: int = 4) -> str:
    """Round up to this number of digits, all of them shown.

    >>> from jaxdpbo import rounding
    >>> rounding.round_up(2.00108), rounding.round_up(0.1)
    ('2.002', '0.1000')
    """
    return _fixed(_round(level, digits, decimal.ROUND_CEILING))


def round_down(level: float, digits: int = 4) -> str:
    """Round down to this number of digits, all of them shown."""
    return _fixed(_round(level, digits, decimal.ROUND_FLOOR))


def shorten_up(level: float, digits: int = 6) -> str:
    """Round up to this number of digits, without zeros at the end.

    >>> from jaxdpbo import rounding
    >>> rounding.shorten_up(2.0000001), rounding.shorten_up(1e-5)
    ('2.00001', '1e-05')
    """
    return f"{float(_round(level, digits, decimal.ROUND_CEILING)):.{digits}g}"


def shorten_down(level: float, digits: int = 6) -> str:
    """Round down to this number of digits, without zeros at the end."""
    return f"{float(_round(level, digits, decimal.ROUND_FLOOR)):.{digits}g}"


def _round(level: float, digits: int, direction: str) -> decimal.Decimal:
    number = decimal.Decimal(repr(float(level)))
    if math.isinf(level) or not level:
        return number
    return number.quantize(decimal.Decimal(1).scaleb(number.adjusted() - digits + 1), rounding=direction)


def _fixed(number: decimal.Decimal) -> str:
    return f"{float(number):g}" if number.is_infinite() or not number else f"{number:f}"

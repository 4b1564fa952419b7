"""The numbers of a guarantee in text: levels and deltas rounded up, lower bounds and budgets left rounded down.

A number that the caller typed with few digits stays as typed: the decimal of its float is rounded, not its bits.
"""

import decimal
import math


def round_up(level: float, digits: int = 4) -> str:
    """Round up to this number of digits, all of them shown.

    >>> from jaxdpbo.privacy import _guarantee_text
    >>> _guarantee_text.round_up(2.00108), _guarantee_text.round_up(0.1)
    ('2.002', '0.1000')
    """
    return _fixed(_round(level, digits, decimal.ROUND_CEILING))


def round_down(level: float, digits: int = 4) -> str:
    """Round down to this number of digits, all of them shown."""
    return _fixed(_round(level, digits, decimal.ROUND_FLOOR))


def shorten_up(level: float, digits: int = 6) -> str:
    """Round up to this number of digits, without zeros at the end.

    >>> from jaxdpbo.privacy import _guarantee_text
    >>> _guarantee_text.shorten_up(2.0000001), _guarantee_text.shorten_up(1e-5)
    ('2.00001', '1e-05')
    """
    return f"{float(_round(level, digits, decimal.ROUND_CEILING)):.{digits}g}"


def shorten_down(level: float, digits: int = 6) -> str:
    """Round down to this number of digits, without zeros at the end."""
    return f"{float(_round(level, digits, decimal.ROUND_FLOOR)):.{digits}g}"


def describe_largest(largest: float) -> str:
    """Explain the two epsilons of an ex-post guarantee."""
    return (
        f"This release cost the epsilon above. Before the release was known, a cost of up to {round_up(largest)} was "
        "possible. Keep this guarantee with the release: a copy without its epsilon costs the larger number."
    )


def describe_attained(proved: float, attained: float, delta: float) -> str:
    """Explain the lower bound beside the epsilon of a selection."""
    return (
        f"proved epsilon at delta = {shorten_up(delta)}: {round_up(proved)}. Some selections of runs with this cost "
        f"have an epsilon of at least {round_down(attained)}: no proof that uses only this cost can go below"
    )


def _round(level: float, digits: int, direction: str) -> decimal.Decimal:
    number = decimal.Decimal(repr(float(level)))
    if math.isinf(level) or not level:
        return number
    return number.quantize(decimal.Decimal(1).scaleb(number.adjusted() - digits + 1), rounding=direction)


def _fixed(number: decimal.Decimal) -> str:
    return f"{float(number):g}" if number.is_infinite() or not number else f"{number:f}"

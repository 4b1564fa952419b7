"""Sentences that explain the numbers of a guarantee, each number on its safe side."""

import decimal
import math


def round_up(epsilon: float) -> str:
    """Round ``epsilon`` up to four digits."""
    return _round(epsilon, decimal.ROUND_CEILING)


def describe_largest(largest: float) -> str:
    """Explain the two epsilons of an ex-post guarantee."""
    return (
        "This epsilon is what the release at hand cost; before the release was known, it could have cost up to "
        f"{round_up(largest)}. Keep this guarantee with the release: without its epsilon, the release costs the "
        "larger number."
    )


def describe_attained(proved: float, attained: float) -> str:
    """Explain the lower bound beside the epsilon of a selection."""
    return (
        f"proved: {round_up(proved)}; at least {_round(attained, decimal.ROUND_FLOOR)} is needed by some selections "
        "of runs with this cost"
    )


def _round(epsilon: float, direction: str) -> str:
    if math.isinf(epsilon) or not epsilon:
        return f"{epsilon:g}"
    number = decimal.Decimal(epsilon)
    last = decimal.Decimal(1).scaleb(number.adjusted() - 3)
    return f"{number.quantize(last, rounding=direction):f}"

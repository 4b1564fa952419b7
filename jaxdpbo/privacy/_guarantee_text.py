"""Sentences that explain the numbers of a guarantee, with epsilons rounded up and lower bounds rounded down."""

import decimal
import math


def round_up(epsilon: float) -> str:
    """Round ``epsilon`` up to four digits."""
    return _round(epsilon, decimal.ROUND_CEILING)


def describe_largest(largest: float) -> str:
    """Explain the two epsilons of an ex-post guarantee."""
    return (
        f"This release cost the epsilon above. Before the release was known, a cost of up to {round_up(largest)} was "
        "possible. Keep this guarantee with the release: a copy without its epsilon costs the larger number."
    )


def describe_attained(proved: float, attained: float, delta: float) -> str:
    """Explain the lower bound beside the epsilon of a selection."""
    return (
        f"proved epsilon at delta = {delta:g}: {round_up(proved)}. Some selections of runs with this cost have an "
        f"epsilon of at least {_round(attained, decimal.ROUND_FLOOR)}: no proof that uses only this cost can go below"
    )


def _round(epsilon: float, direction: str) -> str:
    if math.isinf(epsilon) or not epsilon:
        return f"{epsilon:g}"
    number = decimal.Decimal(epsilon)
    last = decimal.Decimal(1).scaleb(number.adjusted() - 3)
    return f"{number.quantize(last, rounding=direction):f}"

"""The requested budget: either ``mu``, or ``epsilon`` and ``delta``. There is no default.

Errors name the arguments as you typed them.
"""

import math
from typing import Any, cast

import numpy as np

from jaxdpbo import accounting, checks, rounding
from jaxdpbo.types import Unchecked

TOTAL_VARIATION = 2.0**-85  # set aside for exact noise: 2^-110 or so for each of up to some 2^25 draws

USUAL_DELTA = 1e-5


class LargeDelta(float):
    """Permit a ``delta`` of ``1 / users`` or more, refused as a plain number.

    Such a ``delta`` protects little: publishing one record, drawn at random from ``n``, is ``(0, 1 / n)``-DP.

    >>> from jaxdpbo import LargeDelta
    >>> LargeDelta(0.1) + 0
    0.1
    """


class BudgetError(ValueError):
    """The noise cannot have this GDP level.

    Attributes:
      end: "least" if ``bound`` is the lowest possible level, "most" if it is the highest.
      bound: the nearest possible level.
      given: the refused level.
      reason: the rest of the message, with ``{}`` in the place of the refused level.
    """

    def __init__(self, end: str, bound: float, given: float, reason: str):
        """Write the message for a caller who typed ``mu``."""
        nearest = (rounding.shorten_up if end == "least" else rounding.shorten_down)(bound, 3)
        super().__init__(f"mu must be at {end} {nearest} {reason.format(f'{given:g}')}")
        self.end, self.bound, self.given, self.reason = end, bound, given, reason


def expect_small_delta(delta: float, users: int) -> None:
    """Refuse a ``delta`` of ``1 / users`` or more, unless it is a ``LargeDelta``.

    Raises:
      ValueError: ``delta`` is too large.
    """
    if float(delta) * users >= 1 and not isinstance(delta, LargeDelta):
        raise ValueError(
            f"delta must be below one over the number of users, 1/{users} = {1 / users:.3g}, got {float(delta):g}: it "
            f"would allow to publish one user's record; write delta=jaxdpbo.LargeDelta({float(delta):g}) if you mean it"
        )


def usual_delta(users: int) -> float:
    """The delta to state an epsilon at if nobody typed a delta: a power of ten below ``1 / users``, at most 1e-5.

    >>> from jaxdpbo.accounting import requested_budget
    >>> requested_budget.usual_delta(500), requested_budget.usual_delta(5_000_000)
    (1e-05, 1e-07)
    """
    return min(USUAL_DELTA, float(f"1e-{len(str(users))}"))


def requested_mu(
    mu: Unchecked = None,
    epsilon: Unchecked = None,
    delta: Unchecked = None,
    *,
    users: int | None = None,
    total_variation: float = TOTAL_VARIATION,
    dtype: Any = np.float64,
) -> float:
    """The GDP level of the requested budget, rounded down to ``dtype``.

    Formal guarantee: a mechanism within ``total_variation`` of a ``mu``-GDP mechanism is ``(epsilon, delta)``-DP for
    the requested ``epsilon`` and ``delta`` (Dong et al. 2022, corollary 2.13).

    >>> from jaxdpbo.accounting import requested_budget
    >>> round(requested_budget.requested_mu(epsilon=3.0, delta=1e-5), 3)
    0.719

    Args:
      mu: the GDP level; ``inf`` for no privacy.
      epsilon: at least zero and finite; with ``delta``, in place of ``mu``.
      delta: in (0, 1). If ``users`` is given, below ``1 / users`` or a ``LargeDelta``. No default.
      users: the number of protected users, if known.
      total_variation: the distance between the mechanism and the ideal mechanism, at most; taken out of ``delta``.
      dtype: float32 or float64, the dtype of the config's level.

    Raises:
      ValueError: both budgets or none, ``epsilon`` or ``delta`` alone, an argument out of range, or a ``delta`` too
        small for ``total_variation``.
      TypeError: an argument is not a real number.
    """
    if mu is not None and (epsilon is not None or delta is not None):
        raise ValueError(f"mu, or epsilon and delta, must be given, not both: got {_quote(mu, epsilon, delta)}")
    if mu is not None:
        return checks.positive("mu", mu, finite=False)
    if epsilon is None and delta is None:
        raise ValueError("mu must be given, or epsilon and delta: a budget has no default")
    if epsilon is None:
        raise ValueError(f"epsilon must be given with delta, got {_quote(mu, epsilon, delta)}")
    if delta is None:
        raise ValueError(
            f"delta must be given with epsilon, got {_quote(mu, epsilon, delta)}: it has no default; choose it well "
            "below one over the number of users"
        )
    typed_delta, epsilon, delta = delta, checks.nonnegative("epsilon", epsilon), checks.probability("delta", delta)
    if users is not None:
        expect_small_delta(cast(float, typed_delta), users)
    reserved = (1.0 + math.exp(min(epsilon, 700.0))) * total_variation
    if reserved > delta / 2:
        raise ValueError(_total_variation_message(epsilon, delta, total_variation))
    least = (delta - reserved) * (1 - 2.0**-30)  # a margin above the rounding error of the reverse conversion
    return checks.round_down(accounting.gdp_mu(epsilon, least), dtype)


def _total_variation_message(epsilon: float, delta: float, total_variation: float) -> str:
    """The error if ``total_variation`` uses up ``delta``, with the ``epsilon`` or the ``delta`` that suffices."""
    because = f"noise from tables is within a total variation of {total_variation:.2g} of ideal noise"
    needed, room = 2 * (1 + math.exp(min(epsilon, 700.0))) * total_variation, delta / (2 * total_variation) - 1
    larger = f"delta must be at least {rounding.shorten_up(needed, 3)}" if needed < 1 else ""
    if room > 1:
        most = f"epsilon must be at most {rounding.shorten_down(math.log(room), 3)} at delta={delta:g}"
        return f"{most}, got {epsilon:g}: {because}" + (f"; or {larger}" if larger else "")
    return f"{larger or 'epsilon must be smaller, and delta larger'}, got {delta:g}: {because}"


def _quote(mu: Unchecked, epsilon: Unchecked, delta: Unchecked) -> str:
    budget = {"mu": mu, "epsilon": epsilon, "delta": delta}
    return ", ".join(f"{name}={value!r}" for name, value in budget.items() if value is not None)

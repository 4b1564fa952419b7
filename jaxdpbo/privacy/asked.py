"""The budget a caller asks for: ``mu``, or ``epsilon`` and ``delta``, one of the two and nothing by default.

Refusals are in the words that the caller typed.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jaxdpbo import _checks
from jaxdpbo.privacy import accounting

Made = TypeVar("Made")
MOST_PARTS = 8  # of a budget, of which each may need more than the others
TOTAL_VARIATION = 2.0**-85  # set aside for exact noise: 2^-110 or so for each of up to some 2^25 draws


class LargeDelta(float):
    """A ``delta`` of one over the number of users or more, which is refused as a plain number.

    A mechanism that publishes the record of one user, drawn at random, is ``(0, 1 / n)``-DP.

    >>> from jaxdpbo import LargeDelta
    >>> LargeDelta(0.1) + 0
    0.1
    """


class BudgetError(ValueError):
    """A GDP level that the noise cannot have.

    Attributes:
      end: "least" or "most", which end of the range ``bound`` is.
      bound: the level that would do.
      given: the level that was given.
      reason: in words, without the numbers.
    """

    def __init__(self, end: str, bound: float, given: float, reason: str):
        """Say all of it, of ``mu``."""
        super().__init__(f"mu must be at {end} {bound:.3g} {reason.format(f'{given:g}')}")
        self.end, self.bound, self.given, self.reason = end, bound, given, reason


def configure(make: Callable[[float], Made], level: float, epsilon: Any = None, delta: Any = None) -> Made:
    """``make(level)``; a ``BudgetError`` becomes a refusal of what was typed, with a number that will do.

    A budget may be divided into parts, which are shares of ``level``, and the first part that is refused names itself
    alone: other levels are tried until one is accepted.

    Args:
      make: of a level; reads no data.
      level: of ``mu_of``.
      epsilon: that was typed, or None where it was ``mu``.
      delta: likewise.

    Raises:
      ValueError: in the caller's words.
    """
    try:
        return make(level)
    except BudgetError as error:
        refused = error
    enough = level * refused.bound / refused.given
    for _ in range(MOST_PARTS):
        try:
            make(enough)
            break
        except BudgetError as error:
            enough *= error.bound / error.given
    factor = 1.01 if refused.end == "least" else 0.99
    if epsilon is None:
        name, bound, typed, at = "mu", enough, level, ""
    else:
        name, bound, typed = "epsilon", accounting.gdp_epsilon(enough, float(delta)), float(epsilon)
        at = f" at delta={float(delta):g}"
    raise ValueError(
        f"{name} must be at {refused.end} {factor * bound:.3g}{at} {refused.reason.format(f'{typed:g}')}"
    ) from None


def expect_small_delta(delta: Any, users: int) -> None:
    """Refuse a ``delta`` of ``1 / users`` or more that is no ``LargeDelta``: the one place that does.

    Raises:
      ValueError: it is as large.
    """
    if float(delta) * users >= 1 and not isinstance(delta, LargeDelta):
        raise ValueError(
            f"delta must be below one over the number of users, 1/{users} = {1 / users:.3g}, got {float(delta):g}: it "
            f"would allow to publish one user's record; write delta=jaxdpbo.LargeDelta({float(delta):g}) if you mean it"
        )


def mu_of(
    mu: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    *,
    users: int | None = None,
    total_variation: float = TOTAL_VARIATION,
    dtype: Any = np.float64,
) -> float:
    """The GDP level that was asked for, rounded down to ``dtype``.

    Formal guarantee: a mechanism within ``total_variation`` of a ``mu``-GDP one is ``(epsilon, delta)``-DP for the
    ``epsilon`` and ``delta`` asked for (Dong et al. 2022, corollary 2.13).

    >>> from jaxdpbo.privacy import asked
    >>> round(asked.mu_of(epsilon=3.0, delta=1e-5), 3)
    0.719

    Args:
      mu: the GDP level; ``inf`` for no privacy.
      epsilon: at least zero and finite; with ``delta``, in place of ``mu``.
      delta: in (0, 1), and with ``users`` below one over their number, or a ``LargeDelta``. It has no default.
      users: of whom the guarantee is asked, where known.
      total_variation: how far the mechanism may be from the ideal one; taken out of ``delta``.
      dtype: float32 or float64, in which the level will be held.

    Raises:
      ValueError: both or neither, ``epsilon`` or ``delta`` alone, one out of range, or a ``delta`` that
        ``total_variation`` leaves nothing of.
      TypeError: not a real number.
    """
    if mu is not None and (epsilon is not None or delta is not None):
        raise ValueError(f"mu, or epsilon and delta, must be given, not both: got {_said(mu, epsilon, delta)}")
    if mu is not None:
        return _checks.positive("mu", mu, finite=False)
    if epsilon is None and delta is None:
        raise ValueError("mu must be given, or epsilon and delta: a budget has no default")
    if epsilon is None:
        raise ValueError(f"epsilon must be given with delta, got {_said(mu, epsilon, delta)}")
    if delta is None:
        raise ValueError(
            f"delta must be given with epsilon, got {_said(mu, epsilon, delta)}: it has no default; choose it well "
            "below one over the number of users"
        )
    asked_delta, epsilon, delta = delta, _checks.nonnegative("epsilon", epsilon), _checks.probability("delta", delta)
    if users is not None:
        expect_small_delta(asked_delta, users)
    kept_back = (1.0 + math.exp(min(epsilon, 700.0))) * total_variation
    if kept_back > delta / 2:
        raise ValueError(_too_much(epsilon, delta, total_variation))
    least = (delta - kept_back) * (1 - 2.0**-30)  # more than converting back can round up
    return _checks.rounded_down(accounting.gdp_mu(epsilon, least), dtype)


def _too_much(epsilon: float, delta: float, total_variation: float) -> str:
    """What to change: ``epsilon`` where some would do at this ``delta``, otherwise ``delta``."""
    because = f"noise from tables is within a total variation of {total_variation:.2g} of ideal noise"
    room = delta / (2 * total_variation) - 1
    if room > 1:
        most = math.floor(100 * math.log(room)) / 100
        return f"epsilon must be at most {most:g} at delta={delta:g}, got {epsilon:g}: {because}"
    return f"delta must be at least {4.1 * total_variation:.2g}, got {delta:g}: {because}"


def _said(mu: Any, epsilon: Any, delta: Any) -> str:
    given = {"mu": mu, "epsilon": epsilon, "delta": delta}
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)

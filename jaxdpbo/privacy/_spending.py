"""Spend the whole of a requested budget: calibrate a config to it, through the composition of its mechanisms."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxdpbo import _checks
from jaxdpbo._types import Unchecked
from jaxdpbo.privacy import _accounting, _guarantee, _requested_budget

Made = TypeVar("Made")
MOST_PARTS = 8  # parts of a budget; each part may refuse another level
TRIALS = 40  # of a level for a pair, at most
CLOSE = 2.0**-12  # of the level sought, relative


class Requested(NamedTuple):
    """The requested budget; made by ``request``.

    Attributes:
      mu: the GDP level: as typed, or implied by the pair.
      epsilon: as typed; None if ``mu`` was typed.
      delta: as typed; None if ``mu`` was typed.
    """

    mu: float
    epsilon: float | None = None
    delta: float | None = None


def request(
    mu: Unchecked = None, epsilon: Unchecked = None, delta: Unchecked = None, *, users: int, dtype: Any = np.float64
) -> Requested:
    """Check the typed arguments, see ``_requested_budget.requested_mu``.

    >>> from jaxdpbo.privacy import _spending
    >>> _spending.request(1.0, users=500)
    Requested(mu=1.0, epsilon=None, delta=None)
    """
    level = _requested_budget.requested_mu(mu, epsilon, delta, users=users, dtype=dtype)
    if epsilon is None or delta is None:
        return Requested(level)
    return Requested(level, _checks.nonnegative("epsilon", epsilon), _checks.probability("delta", delta))


def spend(
    make: Callable[[float], Made],
    state: Callable[[Made], _guarantee.Guarantee],
    requested: Requested,
    *,
    as_gdp: bool = False,
) -> tuple[Made, _guarantee.Guarantee]:
    """Return ``make(level)`` with the largest ``level`` within the requested budget, and its guarantee.

    A pair ``(epsilon, delta)`` implies a GDP level. Choices cost less than by this level: their losses have a bounded
    range. So the level rises until the composed epsilon reaches the requested epsilon, and the guarantee is
    ``(epsilon, delta)``-DP, with the GDP level as ``also`` (``Guarantee.to_dp``). A single choice needs no delta.

    Args:
      make: a function of a level; reads no data.
      state: the guarantee of what ``make`` returns.
      requested: from ``request``.
      as_gdp: keep to the GDP level that the pair implies, and state GDP: for a ledger that adds up GDP levels.

    Raises:
      ValueError: the noise cannot have the level, or its total variation exceeds what ``delta`` sets aside.
    """
    made = configure(make, requested)
    stated = state(made)
    if requested.epsilon is None or requested.delta is None:
        return made, stated
    epsilon, delta = requested.epsilon, requested.delta
    _expect_within(stated, epsilon, delta)
    if as_gdp or stated.notion == "none":
        return made, stated
    if stated.also and stated.also[1] <= epsilon:
        delta = 0.0
    best, stated = made, stated.to_dp(delta)
    if not stated.stages:  # of Gaussian noise alone: the implied level is the whole epsilon
        return best, stated
    low, high = requested.mu, math.inf  # the highest level tried that fits, and the lowest that does not
    for _ in range(TRIALS):
        level = 2 * low if math.isinf(high) else math.sqrt(low * high)
        try:
            made = make(level)
            dearer = state(made).to_dp(delta)
        except _requested_budget.BudgetError:  # exact noise has no such level
            high = level
            continue
        if dearer.level <= epsilon:
            best, stated, low = made, dearer, level
        else:
            high = level
        if high < low * (1 + CLOSE):
            break
    return best, stated


def configure(make: Callable[[float], Made], requested: Requested) -> Made:
    """Return ``make(requested.mu)``; turn a ``BudgetError`` into an error about what was typed, with a usable value.

    A budget may be divided into parts, as shares of the level. A ``BudgetError`` concerns the first refused part only,
    so ``configure`` tries further levels until ``make`` accepts, ``MOST_PARTS`` at most.

    Args:
      make: a function of a level; reads no data.
      requested: from ``request``.

    Raises:
      ValueError: the noise cannot have the level; names ``mu``, or ``epsilon`` and ``delta``.
    """
    level, epsilon, delta = requested
    try:
        return make(level)
    except _requested_budget.BudgetError as error:
        refused = error
    candidate = level * refused.bound / refused.given
    for _ in range(MOST_PARTS):
        try:
            make(candidate)
            break
        except _requested_budget.BudgetError as error:
            candidate *= error.bound / error.given
    factor = 1.01 if refused.end == "least" else 0.99
    if epsilon is None or delta is None:
        name, bound, typed, at = "mu", candidate, level, ""
    else:
        name, bound, typed = "epsilon", _accounting.gdp_epsilon(candidate, delta), epsilon
        at = f" at delta={delta:g}"
    raise ValueError(
        f"{name} must be at {refused.end} {factor * bound:.3g}{at} {refused.reason.format(f'{typed:g}')}"
    ) from None


def _expect_within(stated: _guarantee.Guarantee, epsilon: float, delta: float) -> None:
    """Raise if the guarantee exceeds the requested pair.

    Raises:
      ValueError: noise is drawn so often that its total variation exceeds the amount reserved by ``requested_mu``.
    """
    if stated.notion != "none" and stated.epsilon(delta) > epsilon:
        raise ValueError(
            f"epsilon={epsilon:g} at delta={delta:g} can not be guaranteed for so many draws of noise: "
            f"their total variation is {stated.total_variation:.2g}; raise delta"
        )

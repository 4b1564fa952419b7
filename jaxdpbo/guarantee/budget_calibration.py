"""Calibrate a config to the whole of a requested budget, through the composition of its mechanisms."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxdpbo import accounting, checks
from jaxdpbo.accounting import requested_budget
from jaxdpbo.guarantee import guarantees
from jaxdpbo.types import Unchecked

Config = TypeVar("Config")
MAX_PARTS = 8  # parts of a budget; each part may refuse another level
MAX_TRIALS = 40  # of a level for a pair, at most
LEVEL_TOLERANCE = 2.0**-12


class RequestedBudget(NamedTuple):
    """The requested budget; made by ``check_budget``.

    Attributes:
      mu: the GDP level: as typed, or implied by the pair.
      epsilon: as typed; None if ``mu`` was typed.
      delta: as typed; None if ``mu`` was typed.
      summary_delta: the delta to state an epsilon at, see ``Guarantee``.
    """

    mu: float
    epsilon: float | None = None
    delta: float | None = None
    summary_delta: float | None = None


def check_budget(
    mu: Unchecked = None,
    epsilon: Unchecked = None,
    delta: Unchecked = None,
    *,
    users: int,
    total_variation: float = requested_budget.TOTAL_VARIATION,
    dtype: Any = np.float64,
) -> RequestedBudget:
    """Check the typed arguments, see ``requested_budget.requested_mu``.

    >>> from jaxdpbo.guarantee import budget_calibration
    >>> budget_calibration.check_budget(1.0, users=500)
    RequestedBudget(mu=1.0, epsilon=None, delta=None, summary_delta=1e-05)
    """
    level = requested_budget.requested_mu(mu, epsilon, delta, users=users, total_variation=total_variation, dtype=dtype)
    if epsilon is None or delta is None:
        return RequestedBudget(level, summary_delta=requested_budget.usual_delta(users))
    delta = checks.probability("delta", delta)
    return RequestedBudget(level, checks.nonnegative("epsilon", epsilon), delta, delta)


def calibrate(
    make: Callable[[float], Config],
    privacy: Callable[[Config], guarantees.Guarantee],
    budget: RequestedBudget,
    *,
    as_gdp: bool = False,
) -> tuple[Config, guarantees.Guarantee]:
    """Return ``make(level)`` with the largest ``level`` within the requested budget, and its guarantee.

    A pair ``(epsilon, delta)`` implies a GDP level. A private choice has privacy losses of bounded range, and composes
    to a smaller epsilon than its GDP level implies. So ``level`` rises until the composed epsilon reaches the requested
    epsilon. The guarantee is ``(epsilon, delta)``-DP, with the GDP level as ``also`` (``Guarantee.to_dp``); a single
    choice needs no delta.

    Args:
      make: a function of a level; reads no data.
      privacy: the guarantee of a config.
      budget: from ``check_budget``.
      as_gdp: keep to the GDP level that the pair implies, and state GDP: for a ledger that adds up GDP levels.

    Raises:
      ValueError: the noise cannot have the level, or its total variation exceeds what ``delta`` sets aside.
    """
    config, guarantee = _calibrate(make, privacy, budget, as_gdp=as_gdp)
    return config, replace(guarantee, summary_delta=budget.summary_delta)


def _calibrate(
    make: Callable[[float], Config],
    privacy: Callable[[Config], guarantees.Guarantee],
    budget: RequestedBudget,
    *,
    as_gdp: bool,
) -> tuple[Config, guarantees.Guarantee]:
    config = configure(make, budget)
    guarantee = privacy(config)
    if budget.epsilon is None or budget.delta is None:
        return config, guarantee
    epsilon, delta = budget.epsilon, budget.delta
    _expect_within(guarantee, epsilon, delta)
    if as_gdp or guarantee.notion == "none":
        return config, guarantee
    if guarantee.also and guarantee.also[1] <= epsilon:
        delta = 0.0
    guarantee = guarantee.to_dp(delta)
    if all(kind == "gaussian" for _, kind, _ in guarantee.stages):  # the implied level is the whole epsilon
        return config, guarantee
    # The grid of exact noise rounds each part of a budget, so epsilon need not rise with the level. A config is kept
    # only if its own guarantee is within the budget; where epsilon is not monotone, some budget is left unspent.
    low, high = budget.mu, math.inf  # the highest level tried that fits, and the lowest that does not
    for _ in range(MAX_TRIALS):
        level = 2 * low if math.isinf(high) else math.sqrt(low * high)
        tried = _try_level(make, privacy, level, delta)
        if tried is not None and tried[1].level <= epsilon:
            (config, guarantee), low = tried, level
        else:
            high = level
        if high < low * (1 + LEVEL_TOLERANCE):
            break
    return config, guarantee


def _try_level(
    make: Callable[[float], Config], privacy: Callable[[Config], guarantees.Guarantee], level: float, delta: float
) -> tuple[Config, guarantees.Guarantee] | None:
    """The config and its guarantee; None where exact noise has no such level, or its variation takes all of delta."""
    try:
        config = make(level)
    except requested_budget.BudgetError:
        return None
    proved = privacy(config)
    return None if delta and math.isinf(proved.epsilon(delta)) else (config, proved.to_dp(delta))


def configure(make: Callable[[float], Config], budget: RequestedBudget) -> Config:
    """Return ``make(budget.mu)``; turn a ``BudgetError`` into an error about what was typed, with a usable value.

    A budget may be divided into parts, as shares of the level. A ``BudgetError`` concerns the first refused part only,
    so ``configure`` tries further levels until ``make`` accepts, ``MAX_PARTS`` at most.

    Args:
      make: a function of a level; reads no data.
      budget: from ``check_budget``.

    Raises:
      ValueError: the noise cannot have the level; names ``mu``, or ``epsilon`` and ``delta``.
    """
    level, epsilon, delta, _ = budget
    try:
        return make(level)
    except requested_budget.BudgetError as error:
        refused = error
    candidate = level * refused.bound / refused.given
    for _ in range(MAX_PARTS):
        try:
            make(candidate)
            break
        except requested_budget.BudgetError as error:
            candidate *= error.bound / error.given
    factor = 1.01 if refused.end == "least" else 0.99
    if epsilon is None or delta is None:
        name, bound, typed, at = "mu", candidate, level, ""
    else:
        name, bound, typed = "epsilon", accounting.gdp_epsilon(candidate, delta), epsilon
        at = f" at delta={delta:g}"
    raise ValueError(
        f"{name} must be at {refused.end} {factor * bound:.3g}{at} {refused.reason.format(f'{typed:g}')}"
    ) from None


def _expect_within(guarantee: guarantees.Guarantee, epsilon: float, delta: float) -> None:
    """Raise if the guarantee exceeds the requested pair.

    Raises:
      ValueError: noise is drawn so often that its total variation exceeds the amount reserved by ``requested_mu``.
    """
    if guarantee.notion != "none" and guarantee.epsilon(delta) > epsilon:
        raise ValueError(
            f"epsilon={epsilon:g} at delta={delta:g} can not be guaranteed for so many draws of noise: "
            f"their total variation is {guarantee.total_variation:.2g}; raise delta"
        )

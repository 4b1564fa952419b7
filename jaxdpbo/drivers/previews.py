"""Predict the noise of ``minimize`` before you spend a budget.

Everything here is computed from public numbers; nothing reads the users' losses. NaN losses, a refusal of all users and
a flat loss are facts about the users' records, so no result may report these.
"""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, notes, rounding, sensitivity, terminal
from jaxdpbo import report as reports
from jaxdpbo.accounting import regret
from jaxdpbo.algorithms import dp_gibo, private_choice, private_evaluations
from jaxdpbo.drivers import methods, result
from jaxdpbo.drivers.methods import Search
from jaxdpbo.guarantee import budget_calibration, guarantees, recording
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.noise import choice, clipping, private_mean
from jaxdpbo.space import Space
from jaxdpbo.types import ArrayLike, Bounds

PERCENT = 0.01  # the regret of ``users_for_percent``
TARGET = 0.25  # of noise over the largest gradient: a rule of thumb for ``users_needed``, not a theorem
SUMMED = 1000  # steps in an exact sum; an integral covers the others
ACCUMULATED = 0.1  # initial sum of squares of ``optax.adagrad``


class Preview(NamedTuple):
    """The method and the noise of ``minimize`` with these public numbers.

    Attributes:
      guarantee: the guarantee of the run.
      method: the method, and the public numbers behind its choice.
      evaluations: the number of evaluations of the loss.
      deviation: standard deviation of the noise on a coordinate of a step's mean gradient, in units of the clipping
        norm. This and the next two are None without a descent.
      relative_noise: the norm of a step's noise, root mean square, over ``clip_norm``, the largest mean gradient.
      wander: the distance that noise alone moves a parameter in all steps, over half its side of the box: 1 is
        anywhere.
      loss_noise: the effect of noise on the loss, over the width of ``loss_range``. Of a descent, from the middle of
        the box to a corner; of the last private choice, an upper bound on the expected excess over the best point
        seen; of evaluations, the deviation of each. None without a range, or if the clipping norm is found privately.
      estimate_noise: the standard deviation of the estimate of the loss at the answer; None without an estimate.
      budget: the budget that you typed, "(1, 1e-05)-DP" or "0.3-GDP": the next two hold for every search within it.
      regret_limit: the least regret that any search can promise on all data, for as many candidates as evaluations,
        over the width of the losses' range; see ``accounting.regret``.
      users_for_percent: the number of users below which no search can promise a regret of 1 % of the range.
      users: the number of users ``n``.
      users_needed: ``n`` at which ``relative_noise``, or without a descent ``loss_noise``, would be a quarter.
      helpful: True if the noise behind ``users_needed`` is at most 1.
      terms: what a person who signs must check, by name.
    """

    guarantee: guarantees.Guarantee
    method: str
    evaluations: int
    deviation: float | None
    relative_noise: float | None
    wander: float | None
    loss_noise: float | None
    estimate_noise: float | None
    budget: str
    regret_limit: float
    users_for_percent: int
    users: int
    users_needed: int
    helpful: bool
    terms: tuple[tuple[str, Any], ...]

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the page of what the search will spend, to be signed before it does; the record of the run cites it.

        With a ``path`` that ends in ".html", also write the page and its JSON.

        >>> import numpy as np
        >>> from jaxdpbo import minimize, preview
        >>> def loss(point, data):
        ...     return np.abs(data - point[0])
        >>> asked = {"space": [(0, 1)], "epsilon": 1.0, "delta": 1e-5, "loss_range": (0, 1)}
        >>> signed = preview(users=500, loss=loss, **asked).report()
        >>> run = minimize(loss, np.linspace(0, 1, 500), **asked)
        >>> run.report().against(signed).details["differs from the plan"]
        'in nothing'
        """
        made = reports.plan(result.TITLE, (self.guarantee,), details=dict(self.terms))
        return made if path is None else made.save(path)

    def _repr_html_(self) -> str:
        """The paragraph, for notebooks."""
        return terminal.cell(str(self))

    def __str__(self) -> str:
        """Describe the prediction in a paragraph."""
        sentences = [
            f"{self.evaluations} evaluations for {self.users} users, {self.guarantee.terms}.",
            f"Method {self.method}.",
        ]
        if self.relative_noise is not None and self.wander is not None:
            sentences += [
                f"The noise of a step is {self.relative_noise:.2g} times the largest gradient that clip_norm leaves;",
                f"noise alone moves a parameter by {percent(self.wander)} % of half its side of the box.",
            ]
        if self.loss_noise is not None:
            sentences.append(f"In the loss it is {percent(self.loss_noise)} % of the loss range.")
        if self.estimate_noise is not None:
            sentences.append(f"The estimate of the loss has a standard deviation of {self.estimate_noise:.2g}.")
        sentences.append(
            f"No {self.budget} search can promise a regret below "
            f"{percent(self.regret_limit, rounding.shorten_down)} % of the loss range"
            + (f"; 1 % takes {self.users_for_percent:,} users at least." if self.users_for_percent > 1 else ".")
        )
        for note in notes.few_users(self.users, private=self.guarantee.notion != "none"):
            sentences.append(f"{note.text}.")
        if not self.helpful:
            sentences.append("NOT HELPFUL: expect little more than a random point.")
        if self.users < self.users_needed:
            unit = "the loss range" if self.relative_noise is None else "the largest gradient that clip_norm leaves"
            sentences.append(f"With {self.users_needed} users the noise would fall to a quarter of {unit}.")
        return " ".join(sentences)


def preview(
    *,
    users: int,
    space: Bounds | Space,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    loss_range: ArrayLike | str | None = None,
    search: Search | None = None,
    loss: Callable[..., Any] | None = None,
    ledger: Recording | None = None,
) -> Preview:
    """Predict how large the noise of ``minimize`` with these arguments would be. No data are read, no budget is spent.

    >>> from jaxdpbo import preview
    >>> prediction = preview(users=20, mu=0.3, space=[(0, 6)] * 3)
    >>> prediction.helpful, round(prediction.relative_noise, 1)
    (False, 2.9)
    >>> preview(users=2000, mu=1.0, space=[(0, 6)] * 3).helpful
    True

    Args:
      users: the number of users ``n``.
      space: a box or a ``Space``, see ``minimize``.
      epsilon: the budget, with ``delta``, see ``minimize``.
      delta: in (0, 1); without a default.
      mu: the GDP budget, in place of ``epsilon`` and ``delta``.
      loss_range: ``(low, high)`` of a user's loss, chosen without the data, or "private", see ``minimize``.
      search: as for ``minimize``; ``method="proposed"`` predicts a search with public records.
      loss: as for ``minimize``, for the hash of its code on the page (``report``); it is not called.
      ledger: as for ``minimize``, for the notion of its budget; nothing is charged.

    Raises:
      ValueError: an argument is out of range or has a wrong shape; names the argument.
      TypeError: an argument has the wrong type.
    """
    users = checks.size("users", users)
    budget = budget_calibration.check_budget(mu, epsilon, delta, users=users, dtype=jnp.result_type(float))
    proposed = isinstance(search, Search) and search.method == methods.PROPOSED
    problem = methods.make_problem(
        search, users=users, budget=budget, space=space, loss_range=loss_range, public=proposed
    )
    plan = methods.plan(problem, as_gdp=ledger is not None and recording.notion(ledger) == "gdp")
    guarantee = plan.guarantee
    deviation = relative = wander = None
    if plan.descent is not None:
        deviation = step_deviation(plan.descent)
        relative = deviation * math.sqrt(plan.descent.bounds.shape[1]) / float(_clip_norm(plan.descent))
        wander = _wander(deviation, plan.descent.steps)
    share = _loss_noise(plan, loss_range, deviation)
    counts = relative if relative is not None else share
    assert counts is not None  # a method without a descent needs a range
    evaluations = plan.config.steps * plan.config.batch
    level, text = {"mu": budget.mu}, f"{budget.mu:.12g}-GDP"
    if budget.epsilon is not None and budget.delta is not None:
        level = {"epsilon": budget.epsilon, "delta": budget.delta}
        text = f"({budget.epsilon:.12g}, {budget.delta:.12g})-DP"
    return Preview(
        guarantee=guarantee,
        method=f"{plan.method}: {plan.reason}",
        evaluations=evaluations,
        deviation=deviation,
        relative_noise=relative,
        wander=wander,
        loss_noise=share,
        estimate_noise=None if plan.estimate is None else private_evaluations.deviation(plan.estimate),
        budget=text,
        regret_limit=regret.least_regret(max(2, evaluations), users, **level),
        users_for_percent=regret.users_for_regret(PERCENT, max(2, evaluations), **level),
        users=plan.config.users,
        users_needed=max(1, math.ceil(plan.config.users * counts / TARGET)),
        helpful=counts <= 1,
        terms=plan.terms(loss),
    )


def _loss_noise(plan: methods.Plan, loss_range: Any, deviation: float | None) -> float | None:
    """``loss_noise`` of ``Preview``."""
    if loss_range is None:
        return None
    # If the search finds the range, the noise of evaluations is in units of this range.
    low, high = (-1.0, 1.0) if isinstance(loss_range, str) else checks.interval("loss_range", loss_range)
    means = plan.find(private_evaluations.Config)
    if means is not None:
        return private_mean.loss_deviation(means.noise, low, high) / (high - low)
    if plan.descent is None:
        last = plan.find(private_choice.Config)
        mu = float(last.noise.mu)
        return 0.0 if math.isinf(mu) else math.log(last.end) / choice.choice_sharpness(mu, 1.0, last.users)
    if deviation is None or plan.descent.noise.scale is not None:
        return None
    return deviation * float(plan.descent.gradient_unit) * math.sqrt(plan.descent.bounds.shape[1]) / (high - low)


def step_deviation(config: dp_gibo.Config) -> float:
    """The standard deviation of the noise on a coordinate of the optimizer's gradient in a step; 0 for no noise."""
    noise = config.noise
    if noise.kind == "none":
        return 0.0
    if noise.kind == "exact":
        unit = clipping.grid_step(_clip_norm(config), np.asarray(noise.radius), config.bounds.shape[1])
        return float(unit) * noise.sigma / noise.users
    moved = float(sensitivity.clipped_sum(float(_clip_norm(config))))
    return moved * math.sqrt(noise.steps) / (noise.users * float(noise.mu))


def _clip_norm(config: dp_gibo.Config) -> np.ndarray:
    """The clipping norm in the optimizer's units: 1 in box units, and if the search finds the norm privately."""
    norm, unit = np.asarray(config.clip_norm), np.asarray(config.gradient_unit)
    return norm / unit if config.noise.scale is None else np.ones_like(norm)


def _wander(deviation: float, steps: int) -> float:
    """The distance of AdaGrad's unit steps under noise alone, root mean square; an integral beyond ``SUMMED`` steps."""
    taken = np.arange(1, min(steps, SUMMED) + 1)
    total = float(np.sum(deviation**2 / (ACCUMULATED + taken * deviation**2)))
    if steps > SUMMED:  # the midpoint rule, within 1 / (24 SUMMED^2)
        summed = ACCUMULATED + (SUMMED + 0.5) * deviation**2
        total += math.log1p((steps - SUMMED) * deviation**2 / summed)
    return math.sqrt(total)


def percent(share: float, write: Callable[[float, int], str] = rounding.shorten_up) -> str:
    """A share in percent, with two digits: by default rounded up."""
    return write(float(f"{100 * share:.12g}"), 2)

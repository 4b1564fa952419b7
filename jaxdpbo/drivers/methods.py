"""Choose the method of ``minimize`` and build its config, from public numbers alone.

====================  ===========================================================  =====================================
method                search                                                       needs
====================  ===========================================================  =====================================
"local"               DP-GIBO in box units from the middle: descent along noisy    real dimensions
                      gradients
"start_then_local"    a design and a private choice of the start; DP-GIBO; a       real dimensions, ``loss_range``
                      private choice of the answer
"choice"              a design and a private choice; points near the chosen        ``loss_range``
                      point, and a private choice among all points
"evaluations"         GP-UCB on noisy means; you may publish all of them           ``loss_range``
"in_order"            a design and one private choice: epsilon-DP                  ``loss_range``
"proposed"            a search on public records, for half of the evaluations;     ``loss_range``, public records
                      one private choice among the points that it proposes
"auto"                "proposed" with public records. Otherwise:
                      "local" without a ``loss_range``. With "private": "local",   ``loss_range`` where a dimension is
                      or "evaluations" where a dimension is not real. With two     not real
                      numbers: "in_order" where a dimension is not real, or with
                      few dimensions or steps, otherwise by the sharpness of a
                      private choice and the noise of a gradient. Without noise
                      "start_then_local", or "choice" where a dimension is not real
====================  ===========================================================  =====================================

"in_order" is ``private_search`` with a single round, on a design of its own. To choose among your own candidates, use
``dp_gp_ucb.in_order_config``, a different mechanism.

``noise.choice_sharpness`` measures how well a private choice works. A choice among a few points of a design needs the
fewest users. Descent needs more, and a start and an answer chosen privately need the most.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import arrays, checks
from jaxdpbo import space as spaces
from jaxdpbo.algorithms import dp_gibo, private_estimate
from jaxdpbo.drivers.method_configs import (
    CHOICE,
    CHOICE_SHARE,
    DESCENT_METHODS,
    EVALUATIONS,
    FEW_DIMENSIONS,
    IN_ORDER,
    LOCAL,
    MAKERS,
    METHODS,
    PRIVATE_RANGE_METHODS,
    PROPOSED,
    START,
    Problem,
    add_estimate,
    has_private_range,
)
from jaxdpbo.guarantee import budget_calibration, guarantees
from jaxdpbo.noise import choice
from jaxdpbo.types import Algorithm, ArrayLike, Bounds

AUTO = "auto"
SHARP = 20.0  # least sharpness of a choice for CHOICE_SHARE at which "auto" chooses a start
NOISY = 0.35  # clipping norms: the most noise of a gradient at which "auto" descends without a start
DESCENT_STEPS = 10  # fewest for which "auto" descends: in five a descent lost to one choice, in ten it did not
STEPS = 25


@dataclass(frozen=True, kw_only=True)
class Search:
    """Say how ``minimize`` searches. The defaults work for most losses.

    >>> from jaxdpbo import Search
    >>> Search(method="local", steps=40).method
    'local'

    Attributes:
      method: "auto", "local", "start_then_local", "choice", "evaluations", "in_order" or "proposed", see docs/which.md.
        "auto" chooses by public numbers, and ``Run.method`` names the choice and the reason.
      steps: ``T``, 25 by default. A search evaluates the loss at ``T b`` points at most.
      batch: ``b``, points a step; ``d + 1`` by default.
      start: the point ``(d,)``, or the parameters of a ``Space``, where the search begins; by default the middle.
        "evaluations" and "proposed" ignore this point.
      clip_norm: ``B``, the clipping norm of one user's gradient: the change of a loss over half a side of the box.
        Choose a number without the data. "private" finds ``B`` from the users' gradients in the first step, for 5 % of
        ``mu^2`` (``dp_gibo.config``). By default "private" for "local" with ``loss_range="private"``, or with three
        dimensions or more and enough users for the budget (71 at ``mu = 1``); otherwise a quarter of the width of the
        loss range, or 1 without a range. A number is ignored by methods without a descent.
      estimate_share: the share of ``mu^2``, in [0, 1), spent on a private estimate of the mean loss at the answer. One
        of the steps evaluates the answer, losses are clipped to the loss range, and the release is then a
        ``private_estimate.Release``, with the search's own release in ``inner``.
      noise: "exact", or "float" for research sweeps.
    """

    method: str = AUTO
    steps: int | None = None
    batch: int | None = None
    start: ArrayLike | dict[str, Any] | None = None
    clip_norm: float | str | None = None
    estimate_share: float = 0.0
    noise: str = "exact"


class Task(NamedTuple):
    """The task of a search.

    Attributes:
      users: the number of users ``n``.
      budget: the requested budget.
      space: a box, or a ``Space``.
      loss_range: ``(low, high)``, "private", or None.
      public: whether there are public records.
      table: whether the users' records lie in a table, so that users remember nothing between steps.
    """

    users: int
    budget: budget_calibration.RequestedBudget
    space: Bounds
    loss_range: Any
    public: bool = False
    table: bool = False


class Plan(NamedTuple):
    """The algorithm that ``minimize`` runs, and the reason for its choice.

    Attributes:
      method: of ``METHODS``.
      reason: the reason, from public numbers alone.
      algorithm: with its config.
      config: of ``algorithm``.
      guarantee: of the config, before anything is known about the loss and the key.
      budget: the requested budget.
    """

    method: str
    reason: str
    algorithm: Algorithm
    config: Any
    guarantee: guarantees.Guarantee
    budget: budget_calibration.RequestedBudget

    @property
    def delta(self) -> float | None:
        """The delta to state, see ``Guarantee.to_dp``; None for GDP."""
        if self.guarantee.notion != "dp":
            return None
        return self.budget.delta if self.guarantee.delta else 0.0

    def with_proposals(self, points: np.ndarray) -> "Plan":
        """The plan with these proposals ``(m, d)``, as many as the points of its design."""
        search = replace(self.search, proposals=arrays.to_device(points, self.search.fresh.dtype))
        config = search if self.search is self.config else replace(self.config, inner=search)
        return self._replace(config=config)

    @property
    def search(self) -> Any:
        """The config without the estimate."""
        return self.config.inner if isinstance(self.config, private_estimate.Config) else self.config

    @property
    def descent(self) -> dp_gibo.Config | None:
        """The config of DP-GIBO; None for a method without a descent."""
        inner = getattr(self.search, "inner", self.search)
        return inner if isinstance(inner, dp_gibo.Config) else None

    def search_release(self, release: Any) -> Any:
        """The search's own release, without the estimate."""
        return release.inner if isinstance(release, private_estimate.Release) else release


def plan(search: Search | None, task: Task, *, as_gdp: bool = False) -> Plan:
    """Choose the method by the GDP level of the budget, and build the config that spends all of the budget.

    Args:
      search: the settings.
      task: the task.
      as_gdp: see ``budget_calibration.calibrate``.

    Raises:
      ValueError: the method is unknown or lacks an argument, or an argument is out of range.
      TypeError: an argument has the wrong type.
    """
    if not isinstance(search, Search | None):
        raise TypeError(f"search must be a Search, got {type(search).__name__}")
    search = search or Search()
    checks.one_of("method", search.method, (AUTO, *METHODS))
    bounds, space = spaces.box(task.space)
    box = checks.box("space", bounds)
    share = checks.number("estimate_share", search.estimate_share)
    if not 0 <= share < 1:
        raise ValueError(f"estimate_share must be in [0, 1), got {share:g}")
    whole = Problem(
        users=checks.size("users", task.users),
        mu=task.budget.mu,
        space=bounds if space is None else space,
        box=box,
        loss_range=task.loss_range,
        steps=STEPS if search.steps is None else checks.size("steps", search.steps),
        batch=box.shape[1] + 1 if search.batch is None else checks.size("batch", search.batch),
        clip_norm=search.clip_norm,
        start=_start(space, search.start, box),
        noise=search.noise,
        public=task.public,
        table=task.table,
    )
    real = space is None or bool(np.all(space.real_axes))
    method, reason = _choose(search.method, whole, real)
    _check_needs(method, whole, real)
    if share and (whole.loss_range is None or has_private_range(whole) or whole.steps < 2):
        raise ValueError("estimate_share needs a loss_range of two numbers, and two steps or more")

    def make(level: float) -> tuple[Algorithm, Any]:
        return add_estimate(share, whole._replace(mu=level), MAKERS[method])

    def privacy(made: tuple[Algorithm, Any]) -> guarantees.Guarantee:
        return made[0].privacy(made[1])

    (algorithm, config), guarantee = budget_calibration.calibrate(make, privacy, task.budget, as_gdp=as_gdp)
    return Plan(method, reason, algorithm, config, guarantee, task.budget)


def _choose(method: str, problem: Problem, real: bool) -> tuple[str, str]:
    """The method and the reason, in public numbers."""
    if method != AUTO:
        return method, "as asked for"
    if problem.public:
        return PROPOSED, "public records steer the search"
    if problem.loss_range is None:
        if not real:
            raise ValueError(
                "loss_range must be given where not all dimensions are real, since other dimensions have no "
                "gradient: give loss_range=(low, high) of a user's loss, or 'private'"
            )
        return LOCAL, "no loss_range was given"
    if has_private_range(problem):
        return (LOCAL, "losses are scaled privately") if real else (EVALUATIONS, "not all dimensions are real")
    if math.isinf(problem.mu) and problem.steps >= 3:
        return (START if real else CHOICE), "there is no noise"
    if not real:
        return IN_ORDER, "not all dimensions are real"
    return _choose_for_box(problem)


def _choose_for_box(problem: Problem) -> tuple[str, str]:
    """The method for real dimensions and a range of losses."""
    dimension = problem.box.shape[1]
    if dimension < FEW_DIMENSIONS:
        return IN_ORDER, f"a design covers a box of fewer than {FEW_DIMENSIONS} dimensions"
    if problem.steps < DESCENT_STEPS:
        return IN_ORDER, f"there are fewer than {DESCENT_STEPS} steps for a descent"
    low, high = checks.interval("loss_range", problem.loss_range)
    sharp = choice.choice_sharpness(problem.mu * math.sqrt(CHOICE_SHARE), high - low, problem.users)
    reason = f"a choice for {100 * CHOICE_SHARE:g} % of mu^2 has a sharpness of {sharp:.3g}"
    if sharp >= SHARP:
        return START, reason + f", at least {SHARP:g}"
    reason += f", less than {SHARP:g}"
    noise = 2 * math.sqrt(problem.steps * dimension) / (problem.users * problem.mu)  # of a mean of clipped gradients
    reason += f"; the noise of a gradient is {noise:.2g} clipping norms"
    if noise > NOISY:
        return IN_ORDER, reason + f", more than {NOISY:g}"
    return LOCAL, reason + f", at most {NOISY:g}"


def _check_needs(method: str, problem: Problem, real: bool) -> None:
    """Raise ValueError if the method lacks an argument or cannot use one; ``real``: all dimensions are real."""
    if method != LOCAL and problem.loss_range is None:
        raise ValueError(f"loss_range must be given for method={method!r}")
    if problem.public != (method == PROPOSED):
        raise ValueError(
            f"public must be given for method={PROPOSED!r} and for no other, got method={method!r}"
            + " with public records" * problem.public
        )
    if method not in PRIVATE_RANGE_METHODS and has_private_range(problem):
        raise ValueError(f"loss_range must be two numbers for method={method!r}, got {problem.loss_range!r}")
    if method in DESCENT_METHODS and not real:
        raise ValueError(
            f"method must not be {method!r} where dimensions are not real, since these have no gradient: give "
            "method='in_order', 'choice' or 'evaluations'"
        )
    if method not in DESCENT_METHODS and isinstance(problem.clip_norm, str):
        raise ValueError(f"clip_norm must not be {problem.clip_norm!r} for method={method!r}: it has no gradients")


def _start(space: Any, start: Any, box: np.ndarray) -> np.ndarray | None:
    """The start as a point ``(d,)`` in the box; None for the middle."""
    if start is None:
        return None
    point = space.point(start) if space is not None and isinstance(start, dict) else start
    return checks.inside("start", checks.from_box("start", point, box, checks.middle), box)

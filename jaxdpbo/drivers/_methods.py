"""Choose the method of ``minimize`` and build its config, from public numbers alone.

====================  ===========================================================  =====================================
method                search                                                       needs
====================  ===========================================================  =====================================
"local"               DP-GIBO in box units from the middle: descent along noisy    real dimensions
                      gradients
"start_then_local"    a design and a private choice of the start; DP-GIBO; a       real dimensions, ``loss_range``
                      private choice of the answer
"choice"              a design, then rounds of points near the last private        ``loss_range``
                      choice
"evaluations"         GP-UCB on noisy means; you may publish all of them           ``loss_range``
"in_order"            a design and one private choice: also epsilon-DP             ``loss_range``
"auto"                "local" without a ``loss_range``. With "private": "local",   ``loss_range`` where a dimension is
                      or "evaluations" where a dimension is not real. With two     not real
                      numbers: "choice" where a dimension is not real, otherwise
                      by the sharpness of a private choice
====================  ===========================================================  =====================================

"in_order" is ``private_search`` with a single round, on a design of its own. To choose among your own candidates with a
budget in ``epsilon``, use ``dp_gp_ucb.in_order_config``, a different mechanism.

``privacy.choice_sharpness`` measures how well a private choice works. With few users a choice is hardly better than a
guess, and descent from the middle needs none.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import _checks
from jaxdpbo import _space as spaces
from jaxdpbo._algorithms import dp_gibo, gp_ucb, private_estimate, private_evaluations, private_search
from jaxdpbo._types import Algorithm, ArrayLike, Bounds
from jaxdpbo.privacy import _calibration, _guarantee, _private_scale, _requested_budget
from jaxdpbo.privacy import _choice as choice

LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER = "local", "start_then_local", "choice", "evaluations", "in_order"
DESCENTS = (LOCAL, START)  # along gradients: for real dimensions alone
METHODS: tuple[str, ...] = (LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER)
SCALING = (LOCAL, EVALUATIONS)  # find privately how much losses differ
AUTO = "auto"
SHARP = 50.0  # least sharpness of a choice for CHOICE_SHARE at which "auto" chooses a start
CHOICE_SHARE = 0.1  # of mu^2, for the start, and again for the answer
CLIP_SHARE = 0.25  # of the width of the loss range, after a start: half a side of the box seldom changes a loss more
DESIGN_SHARE = 0.15  # of the steps, for a start
ROUNDS, FIRST_SHARE, LAST_SHARE = 4, 0.4, 0.25  # of "choice": rounds near the chosen point; of steps; of mu^2
MAX_EVALUATIONS = 60  # of "evaluations": more evaluations add noise to each
SCALE_EVALUATIONS = 10  # of these, at most a fifth, compare losses if loss_range="private"
CHOOSES = private_search.make_algorithm()
STARTS = private_search.make_algorithm(dp_gibo.algorithm, dp_gibo.set_start)
EVALUATES = private_evaluations.make_algorithm(gp_ucb.algorithm)
STEPS = 25


@dataclass(frozen=True, kw_only=True)
class Search:
    """Say how ``minimize`` searches. The defaults work for most losses.

    >>> from jaxdpbo import Search
    >>> Search(method="local", steps=40).method
    'local'

    Attributes:
      method: "auto", "local", "start_then_local", "choice", "evaluations" or "in_order", see docs/which.md.
        "auto" chooses by public numbers, and ``Run.method`` names the choice and the reason.
      steps: ``T``, 25 by default. A search evaluates the loss at ``T b`` points at most.
      batch: ``b``, points a step; ``d + 1`` by default.
      start: the point ``(d,)``, or the parameters of a ``Space``, where the search begins; by default the middle.
        "evaluations" has no start, and ignores this point.
      clip_norm: ``B``, the clipping norm of one user's gradient: the change of a loss over half a side of the box.
        Choose a number without the data. "private" finds ``B`` from the users' gradients in the first step, for 5 % of
        ``mu^2`` (``dp_gibo.config``). By default "private" for "local" with enough users for the budget (71 at ``mu =
        1``), otherwise a quarter of the width of the loss range, or 1 without one. A number is ignored by methods
        without a descent.
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
      requested: the budget.
      space: a box, or a ``Space``.
      loss_range: ``(low, high)``, "private", or None.
    """

    users: int
    requested: _requested_budget.Requested
    space: Bounds
    loss_range: Any


class _Problem(NamedTuple):
    """A checked task and the settings of its search."""

    users: int
    mu: float
    space: Any
    box: np.ndarray
    loss_range: Any
    steps: int
    batch: int
    clip_norm: float | str | None
    start: Any
    noise: str


class Plan(NamedTuple):
    """The algorithm that ``minimize`` runs, and the reason for its choice.

    Attributes:
      method: of ``METHODS``.
      reason: the reason, from public numbers alone.
      algorithm: with its config.
      config: of ``algorithm``.
      guarantee: of the config, before anything is known about the loss and the key.
      requested: the budget.
    """

    method: str
    reason: str
    algorithm: Algorithm
    config: Any
    guarantee: _guarantee.Guarantee
    requested: _requested_budget.Requested

    @property
    def delta(self) -> float | None:
        """The delta to state, see ``Guarantee.to_dp``; None for GDP."""
        if self.guarantee.notion != "dp":
            return None
        return self.requested.delta if self.guarantee.delta else 0.0

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
      as_gdp: see ``_requested_budget.spend``.

    Raises:
      ValueError: the method is unknown or lacks an argument, or an argument is out of range.
      TypeError: an argument has the wrong type.
    """
    if not isinstance(search, Search | None):
        raise TypeError(f"search must be a Search, got {type(search).__name__}")
    search = search or Search()
    _checks.one_of("method", search.method, (AUTO, *METHODS))
    bounds, space = spaces.box(task.space)
    box = _checks.box("space", bounds)
    share = _checks.number("estimate_share", search.estimate_share)
    if not 0 <= share < 1:
        raise ValueError(f"estimate_share must be in [0, 1), got {share:g}")
    whole = _Problem(
        users=_checks.size("users", task.users),
        mu=task.requested.mu,
        space=bounds if space is None else space,
        box=box,
        loss_range=task.loss_range,
        steps=STEPS if search.steps is None else _checks.size("steps", search.steps),
        batch=box.shape[1] + 1 if search.batch is None else _checks.size("batch", search.batch),
        clip_norm=search.clip_norm,
        start=_start(space, search.start, box),
        noise=search.noise,
    )
    real = space is None or bool(np.all(space.real_axes))
    method, reason = _choose(search.method, whole, real)
    _check_needs(method, whole, real)
    if share and (whole.loss_range is None or _is_private(whole) or whole.steps < 2):
        raise ValueError("estimate_share needs a loss_range of two numbers, and two steps or more")

    def make(level: float) -> tuple[Algorithm, Any]:
        return _add_estimate(share, whole._replace(mu=level), _MAKERS[method])

    def state(made: tuple[Algorithm, Any]) -> _guarantee.Guarantee:
        return made[0].privacy(made[1])

    (algorithm, config), stated = _requested_budget.spend(make, state, task.requested, as_gdp=as_gdp)
    return Plan(method, reason, algorithm, config, stated, task.requested)


def _choose(method: str, problem: _Problem, real: bool) -> tuple[str, str]:
    """The method and the reason, in public numbers."""
    if method != AUTO:
        return method, "as asked for"
    if problem.loss_range is None:
        if not real:
            raise ValueError(
                "loss_range must be given where not all dimensions are real, since other dimensions have no "
                "gradient: give loss_range=(low, high) of a user's loss, or 'private'"
            )
        return LOCAL, "no loss_range was given"
    if _is_private(problem):
        return (LOCAL, "losses are scaled privately") if real else (EVALUATIONS, "not all dimensions are real")
    if not real:
        return CHOICE, "not all dimensions are real"
    low, high = _checks.interval("loss_range", problem.loss_range)
    if math.isinf(problem.mu):
        return START, "there is no noise"
    sharp = choice.choice_sharpness(problem.mu * math.sqrt(CHOICE_SHARE), high - low, problem.users)
    reason = f"a choice for {100 * CHOICE_SHARE:g} % of mu^2 has a sharpness of {sharp:.3g}, "
    if sharp < SHARP or problem.steps < 3:
        return LOCAL, reason + f"less than {SHARP:g}" * (sharp < SHARP) + "and there are few steps" * (sharp >= SHARP)
    return START, reason + f"at least {SHARP:g}"


def _check_needs(method: str, problem: _Problem, real: bool) -> None:
    """Raise ValueError if the method lacks an argument or cannot use one; ``real``: all dimensions are real."""
    if method != LOCAL and problem.loss_range is None:
        raise ValueError(f"loss_range must be given for method={method!r}")
    if method not in SCALING and _is_private(problem):
        raise ValueError(f"loss_range must be two numbers for method={method!r}, got {problem.loss_range!r}")
    if method in DESCENTS and not real:
        raise ValueError(
            f"method must not be {method!r} where dimensions are not real, since these have no gradient: give "
            "method='choice' or 'evaluations'"
        )
    if method not in DESCENTS and isinstance(problem.clip_norm, str):
        raise ValueError(f"clip_norm must not be {problem.clip_norm!r} for method={method!r}: it has no gradients")


def _is_private(problem: _Problem) -> bool:
    """True if the search finds the scale of the losses privately. Raise a ValueError for other text."""
    return isinstance(problem.loss_range, str) and bool(
        _checks.one_of("loss_range", problem.loss_range, (_private_scale.PRIVATE,))
    )


def _levels(problem: _Problem, shares: list[float]) -> list[float]:
    """The ``mu`` of each share of ``mu^2``."""
    return _calibration.split_levels(problem.mu, shares, jnp.result_type(float))


def _add_estimate(share: float, problem: _Problem, make: Any) -> tuple[Algorithm, Any]:
    """The search that ``make`` makes, with an estimate for a ``share`` of ``mu^2``; 0 for no estimate."""
    if not share:
        return make(problem)
    of_estimate, of_search = _levels(problem, [share, 1 - share])
    algorithm, config = make(problem._replace(mu=of_search, steps=problem.steps - 1))
    estimate = private_estimate.config(
        config, users=problem.users, mu=of_estimate, loss_range=problem.loss_range, noise=problem.noise
    )
    return private_estimate.make_algorithm(algorithm), estimate


def _start(space: Any, start: Any, box: np.ndarray) -> np.ndarray | None:
    """The start as a point ``(d,)`` in the box; None for the middle."""
    if start is None:
        return None
    point = space.point(start) if space is not None and isinstance(start, dict) else start
    return _checks.inside("start", _checks.from_box("start", point, box, _checks.middle), box)


def _local_config(problem: _Problem, usual_norm: float | str) -> dp_gibo.Config:
    """DP-GIBO with defaults that work: coordinate AdaGrad in box units, the mean of the last half of the path."""
    return dp_gibo.config(
        users=problem.users,
        steps=problem.steps,
        mu=problem.mu,
        bounds=problem.space,
        batch=problem.batch,
        clip_norm=usual_norm if problem.clip_norm is None else problem.clip_norm,
        theta0=problem.start,
        optimizer=optax.adagrad,
        output="last_half_mean",
        noise=problem.noise,
    )


def _local(problem: _Problem) -> tuple[Algorithm, Any]:
    enough = problem.users >= _private_scale.users_needed(problem.mu)
    norm = _private_scale.PRIVATE if enough or _is_private(problem) else _usual_norm(problem)
    return dp_gibo.algorithm, _local_config(problem, norm)


def _usual_norm(problem: _Problem) -> float:
    if problem.loss_range is None:
        return 1.0
    low, high = _checks.interval("loss_range", problem.loss_range)
    return CLIP_SHARE * (high - low)


def _start_then_local(problem: _Problem) -> tuple[Algorithm, Any]:
    if problem.steps < 3:
        raise ValueError(f"steps must be at least 3 for method={START!r}, got {problem.steps}")
    first = max(1, round(DESIGN_SHARE * problem.steps))
    of_start, of_answer, of_descent = _levels(problem, [CHOICE_SHARE, CHOICE_SHARE, 1 - 2 * CHOICE_SHARE])
    rest = problem._replace(steps=problem.steps - first - 1, mu=of_descent)
    descent = _local_config(rest, _usual_norm(problem))
    return STARTS, _search(problem, [_design(problem, first)], [of_start, of_answer], descent)


def _choice(problem: _Problem) -> tuple[Algorithm, Any]:
    later = min(ROUNDS, problem.steps - 1)
    first = max(problem.steps - later * max(1, round((1 - FIRST_SHARE) * problem.steps / ROUNDS)), 1)
    steps = (problem.steps - first) // max(later, 1)
    rounds = [_design(problem, problem.steps - later * steps)]
    rounds += [_near(problem, steps, 0.5**number, number) for number in range(1, later + 1)]
    if not later:
        return CHOOSES, _search(problem, rounds, [problem.mu])
    shares = [(1 - LAST_SHARE) / later] * later + [LAST_SHARE]
    return CHOOSES, _search(problem, rounds, _levels(problem, shares))


def _in_order(problem: _Problem) -> tuple[Algorithm, Any]:
    return CHOOSES, _search(problem, [_design(problem, problem.steps)], [problem.mu])


def _evaluations(problem: _Problem) -> tuple[Algorithm, Any]:
    box, design = problem.box, None
    count = min(problem.steps * problem.batch, MAX_EVALUATIONS)
    if _is_private(problem):
        compared = max(2, min(SCALE_EVALUATIONS, count // 5))
        if count <= compared:
            raise ValueError(f"steps times batch must be at least {compared + 1} for loss_range='private', got {count}")
        count, design = count - compared, box[0] + (box[1] - box[0]) * sobol(compared, box.shape[1], 0)
    answer = "best_posterior_mean"
    inner = gp_ucb.config(steps=count, bounds=problem.space, refit_every=20, fit_steps=30, answer=answer)
    return EVALUATES, private_evaluations.config(
        gp_ucb.algorithm,
        inner,
        users=problem.users,
        mu=problem.mu,
        loss_range=problem.loss_range,
        design=design,
        noise=problem.noise,
    )


_MAKERS: dict[str, Any] = dict(zip(METHODS, (_local, _start_then_local, _choice, _evaluations, _in_order), strict=True))


def _search(problem: _Problem, rounds: list[private_search.Round], levels: list[float], inner: Any = None) -> Any:
    return private_search.config(
        users=problem.users,
        bounds=problem.space,
        loss_range=problem.loss_range,
        rounds=rounds,
        choice_mu=_carry(levels, problem.noise),
        batch=problem.batch,
        inner_config=inner,
        noise=problem.noise,
    )


def _carry(levels: list[float], noise: str) -> list[float]:
    """The levels of choices: the grid of exact noise rounds each down, and what is left goes to the next choice."""
    if noise != "exact" or math.inf in levels:
        return levels
    carried, left = [], 0.0
    for mu in levels:
        whole = math.hypot(mu, left)
        carried.append(whole)
        left = math.sqrt(max(whole**2 - choice.level(choice.budget(whole, noise, dtype=float)) ** 2, 0.0))
    return carried


def _design(problem: _Problem, steps: int) -> private_search.Round:
    """A round of the start and points of a Sobol sequence in the box."""
    (low, high), count = problem.box, steps * problem.batch
    start = _checks.middle(problem.box) if problem.start is None else problem.start
    fresh = np.concatenate([start[None], low + (high - low) * sobol(count, len(low), 0)])[:count]
    return private_search.Round(fresh, np.zeros_like(fresh), np.zeros(fresh.shape, bool))


def _near(problem: _Problem, steps: int, reach: float, number: int) -> private_search.Round:
    """A round near the last chosen point: half of the coordinates (at least 1) move by up to ``reach`` half sides."""
    (low, high), count = problem.box, steps * problem.batch
    rng = np.random.default_rng(number)
    offset = reach * (high - low) / 2 * (2 * sobol(count, len(low), number) - 1)
    moved = rng.random(offset.shape) < 0.5
    moved[np.arange(count), rng.integers(0, len(low), count)] = True
    kept = np.ones(offset.shape, bool)
    return private_search.Round(np.broadcast_to(low, offset.shape).copy(), np.where(moved, offset, 0.0), kept)


def sobol(count: int, dimension: int, seed: int) -> np.ndarray:
    """Points ``(count, d)`` of a scrambled Sobol sequence in the unit box; public."""
    from scipy.stats import qmc  # takes as long to import as jaxdpbo

    return qmc.Sobol(dimension, rng=seed).random_base2(max(1, math.ceil(math.log2(count))))[:count]

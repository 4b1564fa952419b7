"""Choose the method of ``minimize`` and build its config, from public numbers alone.

====================  ===========================================================  =====================================
method                search                                                       needs
====================  ===========================================================  =====================================
"local"               DP-GIBO in box units from the middle: descent along noisy    real dimensions
                      gradients
"start_then_local"    a design and a private choice of the start; DP-GIBO along    a real dimension, ``loss_range``
                      the real parameters that exist there; a private choice of
                      the answer
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

A method is a list of phases, see ``MAKERS``. To choose among your own candidates, use ``dp_gp_ucb.in_order_config``, a
different mechanism than "in_order".

``noise.choice_sharpness`` measures how well a private choice works. A choice among a few points of a design needs the
fewest users. Descent needs more, and a start and an answer chosen privately need the most.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import arrays, checks, phases
from jaxdpbo import space as spaces
from jaxdpbo.algorithms import dp_gibo, gp_ucb, private_choice, private_estimate, private_evaluations
from jaxdpbo.guarantee import budget_calibration, guarantees
from jaxdpbo.ledger.fingerprints import fingerprint, fingerprint_code
from jaxdpbo.noise import calibration, choice, private_scale
from jaxdpbo.phases import Phase
from jaxdpbo.types import Algorithm, ArrayLike, Bounds

LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER = "local", "start_then_local", "choice", "evaluations", "in_order"
DESCENT_METHODS = (LOCAL, START)  # along gradients of real parameters
PROPOSED = "proposed"
METHODS: tuple[str, ...] = (LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER, PROPOSED)
PRIVATE_RANGE_METHODS = (LOCAL, EVALUATIONS)  # find privately how much losses differ
CHOICE_SHARE = 0.1  # of mu^2, for the start, and again for the answer
CLIP_SHARE = 0.25  # of the width of the loss range, after a start: half a side of the box seldom changes a loss more
FEW_DIMENSIONS = 3  # with fewer, a design covers the box, and the median user's gradient says little of the mean
DESIGN_SHARE = 0.15  # of the steps, for a start
ROUNDS, FIRST_SHARE, LAST_SHARE = 1, 0.4, 0.25  # of "choice": rounds near the chosen point; of steps; of mu^2
ROUNDS_WITHOUT_NOISE = 4  # each further choice costs a share of the budget, and measured gains do not pay for it
MAX_EVALUATIONS = 60  # of "evaluations": more evaluations add noise to each
SCALE_EVALUATIONS = 10  # of these, at most a fifth, compare losses if loss_range="private"
EVALUATION = Phase(private_evaluations.make_algorithm(gp_ucb.algorithm))
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
        of the steps evaluates the answer, losses are clipped to the loss range, and ``release.loss`` is the estimate.
      noise: "exact", or "float" for research sweeps.
    """

    method: str = AUTO
    steps: int | None = None
    batch: int | None = None
    start: ArrayLike | dict[str, Any] | None = None
    clip_norm: float | str | None = None
    estimate_share: float = 0.0
    noise: str = "exact"


class Problem(NamedTuple):
    """A search to plan, checked; made by ``make_problem``.

    Attributes:
      users: ``n``.
      budget: the requested budget.
      mu: the GDP level to spend on what is planned.
      space: a ``Space``, or a box as given.
      box: ``(2, d)``, its bounds.
      loss_range: ``(low, high)``, "private", or None.
      method: as asked for, of ``METHODS`` or "auto".
      steps: ``T``.
      batch: ``b``.
      clip_norm: as asked for.
      start: ``(d,)``, or None for the middle.
      estimate_share: of ``mu^2``.
      noise: "exact" or "float".
      public: whether there are public records.
      table: whether the users' records lie in a table, so that users remember nothing between steps.
    """

    users: int
    budget: budget_calibration.RequestedBudget
    mu: float
    space: Any
    box: np.ndarray
    loss_range: Any
    method: str
    steps: int
    batch: int
    clip_norm: float | str | None
    start: Any
    estimate_share: float
    noise: str
    public: bool
    table: bool

    @property
    def real(self) -> bool:
        """Whether all dimensions are real."""
        return not isinstance(self.space, spaces.Space) or bool(np.all(self.space.real_axes))

    @property
    def most_real(self) -> int:
        """The most real parameters that exist together."""
        return self.space.most_real if isinstance(self.space, spaces.Space) else self.box.shape[1]


Phases = list[tuple[Phase, Any]]  # with their configs


class Plan(NamedTuple):
    """The algorithm that ``minimize`` runs, and the reason for its choice.

    Attributes:
      method: of ``METHODS``.
      reason: the reason, from public numbers alone.
      algorithm: with its config.
      config: of ``algorithm``.
      guarantee: of the config, before anything is known about the loss and the key.
      problem: what was planned.
      public_rows: how many public records proposed the points; None where none did.
    """

    method: str
    reason: str
    algorithm: Algorithm
    config: Any
    guarantee: guarantees.Guarantee
    problem: Problem
    public_rows: int | None = None

    def terms(self, loss: Callable[..., Any] | None = None) -> tuple[tuple[str, Any], ...]:
        """What a person who signs must check, by name: public numbers, and hashes of functions."""
        problem = self.problem
        sides = ", ".join(f"[{low:.6g}, {high:.6g}]" for low, high in np.asarray(problem.box, float).T)
        space = problem.space if isinstance(problem.space, spaces.Space) else sides
        feasible = space.feasible if isinstance(space, spaces.Space) else None
        terms = {
            "users": problem.users,
            "space": space,
            "SHA-256 of feasible and its values": None if feasible is None else fingerprint(feasible),
            "loss range": problem.loss_range,
            "evaluations": self.config.steps * self.config.batch,
            "method": f"{self.method}: {self.reason}",
            "SHA-256 of the loss's code": None if loss is None else fingerprint_code(loss),
        }
        return tuple((name, value) for name, value in terms.items() if value is not None)

    @property
    def delta(self) -> float | None:
        """The delta to state, see ``Guarantee.to_dp``; None for GDP."""
        if self.guarantee.notion != "dp":
            return None
        return self.problem.budget.delta if self.guarantee.delta else 0.0

    def with_proposals(self, points: np.ndarray, public_rows: int) -> "Plan":
        """The plan with these proposals ``(m, d)`` of so many public records, as many as the points of its design."""
        first, *others = self.config.phases
        proposed = replace(first, proposals=arrays.to_device(points, first.points.dtype))
        return self._replace(config=replace(self.config, phases=(proposed, *others)), public_rows=public_rows)

    @property
    def estimate(self) -> private_evaluations.Config | None:
        """The config of the estimate, the last phase; None without one."""
        return self.config.phases[-1] if self.problem.estimate_share else None

    def find(self, kind: type) -> Any:
        """The config of the search's last phase of this kind, such as ``dp_gibo.Config``; None without one."""
        configs = getattr(self.config, "phases", (self.config,))
        search = configs if self.estimate is None else configs[:-1]
        found = [
            each for phase in search for each in (phase, getattr(phase, "descent", None)) if isinstance(each, kind)
        ]
        return found[-1] if found else None

    @property
    def descent(self) -> dp_gibo.Config | None:
        """The config of DP-GIBO; None for a method without a descent."""
        return self.find(dp_gibo.Config)


def make_problem(
    search: Search | None,
    *,
    users: int,
    budget: budget_calibration.RequestedBudget,
    space: Bounds,
    loss_range: Any,
    public: bool = False,
    table: bool = False,
) -> Problem:
    """Check the settings of a search and what it searches.

    Raises:
      ValueError: an argument is out of range, or the method is unknown.
      TypeError: an argument has the wrong type.
    """
    if not isinstance(search, Search | None):
        raise TypeError(
            f"search must be a Search, got {type(search).__name__}: type search=Search(method=..., steps=...)"
        )
    search = search or Search()
    checks.one_of("method", search.method, (AUTO, *METHODS))
    bounds, named = spaces.box(space)
    box = checks.box("space", bounds)
    share = checks.number("estimate_share", search.estimate_share)
    if not 0 <= share < 1:
        raise ValueError(f"estimate_share must be in [0, 1), got {share:g}")
    return Problem(
        users=checks.size("users", users),
        budget=budget,
        mu=budget.mu,
        space=bounds if named is None else named,
        box=box,
        loss_range=loss_range,
        method=search.method,
        steps=STEPS if search.steps is None else checks.size("steps", search.steps),
        batch=box.shape[1] + 1 if search.batch is None else checks.size("batch", search.batch),
        clip_norm=search.clip_norm,
        start=_start(named, search.start, box),
        estimate_share=share,
        noise=search.noise,
        public=public,
        table=table,
    )


def plan(problem: Problem, *, as_gdp: bool = False) -> Plan:
    """Choose the method by the GDP level of the budget, and build the config that spends all of the budget.

    Args:
      problem: of ``make_problem``.
      as_gdp: see ``budget_calibration.calibrate``.

    Raises:
      ValueError: the method lacks an argument, or cannot use one.
    """
    method, reason = _choose(problem)
    _check_needs(method, problem)
    if problem.estimate_share and (problem.loss_range is None or has_private_range(problem) or problem.steps < 2):
        raise ValueError("estimate_share needs a loss_range of two numbers, and two steps or more")

    def make(level: float) -> tuple[Algorithm, Any]:
        found, configs = zip(*add_estimate(problem._replace(mu=level), MAKERS[method]), strict=True)
        if len(found) == 1 and not found[0].reads_book:
            return found[0].algorithm, configs[0]
        return phases.make_algorithm(*found), phases.config(*configs)

    def privacy(made: tuple[Algorithm, Any]) -> guarantees.Guarantee:
        return made[0].privacy(made[1])

    (algorithm, config), guarantee = budget_calibration.calibrate(make, privacy, problem.budget, as_gdp=as_gdp)
    return Plan(method, reason, algorithm, config, guarantee, problem)


def _choose(problem: Problem) -> tuple[str, str]:
    """The method and the reason, in public numbers."""
    real = problem.real
    if problem.method != AUTO:
        return problem.method, "as asked for"
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


def _check_needs(method: str, problem: Problem) -> None:
    """Raise ValueError if the method lacks an argument or cannot use one."""
    if method != LOCAL and problem.loss_range is None:
        raise ValueError(f"loss_range must be given for method={method!r}")
    if problem.public != (method == PROPOSED):
        raise ValueError(
            f"public must be given for method={PROPOSED!r} and for no other, got method={method!r}"
            + " with public records" * problem.public
        )
    if method not in PRIVATE_RANGE_METHODS and has_private_range(problem):
        raise ValueError(f"loss_range must be two numbers for method={method!r}, got {problem.loss_range!r}")
    if method == LOCAL and isinstance(problem.space, spaces.Space):
        spaces.refuse_branches(
            problem.space, f"method={method!r} has no gradient from branch to branch: {spaces.SEARCHES}"
        )
    if (method == LOCAL and not problem.real) or (method == START and not problem.most_real):
        which = "where dimensions are not real" if method == LOCAL else "where no dimension is real"
        raise ValueError(
            f"method must not be {method!r} {which}, since these have no gradient: give "
            "method='in_order', 'choice' or 'evaluations'"
        )
    if method not in DESCENT_METHODS and isinstance(problem.clip_norm, str):
        raise ValueError(f"clip_norm must not be {problem.clip_norm!r} for method={method!r}: it has no gradients")


def _start(space: Any, start: Any, box: np.ndarray) -> np.ndarray | None:
    """The start as a point ``(d,)`` in the box; None for the middle."""
    if start is None:
        return None
    point = space.point(start) if space is not None and isinstance(start, dict) else start
    inside = checks.inside("start", checks.from_box("start", point, box, checks.middle), box)
    if space is not None and not space.meets(inside):
        raise ValueError(f"start must be feasible and meet the constraints of the space, got {inside.tolist()}")
    return inside


def has_private_range(problem: Problem) -> bool:
    """True if the search finds the scale of the losses privately. Raise a ValueError for other text."""
    return isinstance(problem.loss_range, str) and bool(
        checks.one_of("loss_range", problem.loss_range, (private_scale.PRIVATE,))
    )


def levels(problem: Problem, shares: list[float]) -> list[float]:
    """The ``mu`` of each share of ``mu^2``."""
    return calibration.split_levels(problem.mu, shares, jnp.result_type(float))


def add_estimate(problem: Problem, make: Callable[[Problem], Phases]) -> Phases:
    """The phases that ``make`` makes, and an estimate for its share of ``mu^2``."""
    share = problem.estimate_share
    if not share:
        return make(problem)
    of_estimate, of_search = levels(problem, [share, 1 - share])
    estimate = private_estimate.config(
        users=problem.users,
        mu=of_estimate,
        bounds=problem.space,
        loss_range=problem.loss_range,
        noise=problem.noise,
    )
    return [*make(problem._replace(mu=of_search, steps=problem.steps - 1)), (private_estimate.at_answer, estimate)]


def _expect_steps(method: str, least: int, problem: Problem) -> None:
    """Raise ValueError for fewer steps than the method needs; ``problem`` is without the step of an estimate."""
    own = int(bool(problem.estimate_share))
    if problem.steps < least:
        beside = " beside an estimate" * own
        raise ValueError(
            f"steps must be at least {least + own} for method={method!r}{beside}, got {problem.steps + own}"
        )


def _descent_options(problem: Problem, usual_norm: float | str) -> dict[str, Any]:
    """Defaults of DP-GIBO that work: coordinate AdaGrad in box units, the mean of the last half of the path."""
    return {
        "users": problem.users,
        "steps": problem.steps,
        "mu": problem.mu,
        "batch": problem.batch,
        "clip_norm": usual_norm if problem.clip_norm is None else problem.clip_norm,
        "optimizer": optax.adagrad,
        "output": "last_half_mean",
        "memory": "none" if problem.table else "all",
        "noise": problem.noise,
    }


def _local(problem: Problem) -> Phases:
    """With few users the private scale is mostly noise: a fixed norm then does better."""
    enough = problem.users >= private_scale.users_needed(problem.mu) and problem.box.shape[1] >= FEW_DIMENSIONS
    norm = private_scale.PRIVATE if enough or has_private_range(problem) else _usual_norm(problem)
    options = _descent_options(problem, norm)
    return [(Phase(dp_gibo.algorithm), dp_gibo.config(bounds=problem.space, theta0=problem.start, **options))]


def _usual_norm(problem: Problem) -> float:
    if problem.loss_range is None:
        return 1.0
    low, high = checks.interval("loss_range", problem.loss_range)
    return CLIP_SHARE * (high - low)


def _start_then_local(problem: Problem) -> Phases:
    _expect_steps(START, 3, problem)
    first = max(1, round(DESIGN_SHARE * problem.steps))
    of_start, of_answer, of_descent = levels(problem, [CHOICE_SHARE, CHOICE_SHARE, 1 - 2 * CHOICE_SHARE])
    of_start, of_answer = _carry_remainders([of_start, of_answer], problem.noise)
    rest = problem._replace(steps=problem.steps - first - 1, mu=of_descent)
    options = _descent_options(rest, _usual_norm(problem))
    descent, make = dp_gibo.from_point, dp_gibo.config
    if not problem.real:
        descent, make = dp_gibo.holding, dp_gibo.holding_config
    return [
        (private_choice.design, _design(problem, first, of_start)),
        (descent, make(bounds=problem.space, **options)),
        (private_choice.at_answers, private_choice.answers_config(mu=of_answer, **_of_choices(problem))),
    ]


def _rounds_of_choices(problem: Problem) -> Phases:
    rounds = ROUNDS_WITHOUT_NOISE if math.isinf(problem.mu) else ROUNDS
    later = min(rounds, problem.steps - 1)
    if not later:
        return _in_order(problem)
    first = max(problem.steps - later * max(1, round((1 - FIRST_SHARE) * problem.steps / rounds)), 1)
    steps = (problem.steps - first) // later
    shares = [(1 - LAST_SHARE) / later] * later + [LAST_SHARE]
    of_first, *of_later = _carry_remainders(levels(problem, shares), problem.noise)
    return [
        (private_choice.design, _design(problem, problem.steps - later * steps, of_first)),
        *(
            (private_choice.near, _near(problem, steps, 0.5**number, number, mu))
            for number, mu in enumerate(of_later, start=1)
        ),
    ]


def _in_order(problem: Problem) -> Phases:
    return [(private_choice.design, _design(problem, problem.steps, problem.mu))]


def _proposed(problem: Problem) -> Phases:
    """A choice among points that ``Plan.with_proposals`` replaces: half of the evaluations are on public records."""
    _expect_steps(PROPOSED, 2, problem)
    return _in_order(problem._replace(steps=problem.steps - problem.steps // 2))


def _evaluations(problem: Problem) -> Phases:
    box, design = problem.box, None
    count = min(problem.steps * problem.batch, MAX_EVALUATIONS)
    if has_private_range(problem):
        compared = max(2, min(SCALE_EVALUATIONS, count // 5))
        if count <= compared:
            raise ValueError(f"steps times batch must be at least {compared + 1} for loss_range='private', got {count}")
        count -= compared
        design = box[0] + (box[1] - box[0]) * spaces.spread(problem.space, compared, box.shape[1])
    answer = "best_posterior_mean"
    inner = gp_ucb.config(steps=count, bounds=problem.space, refit_every=20, fit_steps=30, answer=answer)
    means = private_evaluations.config(
        gp_ucb.algorithm,
        inner,
        users=problem.users,
        mu=problem.mu,
        loss_range=problem.loss_range,
        design=design,
        noise=problem.noise,
    )
    return [(EVALUATION, means)]


MAKERS: dict[str, Callable[[Problem], Phases]] = {
    LOCAL: _local,
    START: _start_then_local,
    CHOICE: _rounds_of_choices,
    EVALUATIONS: _evaluations,
    IN_ORDER: _in_order,
    PROPOSED: _proposed,
}


def _of_choices(problem: Problem) -> dict[str, Any]:
    """The settings of every choice."""
    return {
        "users": problem.users,
        "bounds": problem.space,
        "loss_range": problem.loss_range,
        "batch": problem.batch,
        "noise": problem.noise,
    }


def _carry_remainders(levels: list[float], noise: str) -> list[float]:
    """The levels of choices: the grid of exact noise rounds each down, and the remainder goes to the next choice."""
    if noise != "exact" or math.inf in levels:
        return levels
    totals, remainder = [], 0.0
    for mu in levels:
        total = math.hypot(mu, remainder)
        totals.append(total)
        used = choice.level(choice.choice_noise(total, noise, dtype=float))
        remainder = math.sqrt(max(total**2 - used**2, 0.0))
    return totals


def _design(problem: Problem, steps: int, mu: float) -> private_choice.Config:
    """A choice among the start and points of a Sobol sequence in the box."""
    (low, high), count = problem.box, steps * problem.batch
    start = checks.middle(problem.box) if problem.start is None else problem.start
    points = np.concatenate([start[None], low + (high - low) * spaces.spread(problem.space, count, len(low))])[:count]
    return private_choice.design_config(  # points of public records come by ``Plan.with_proposals``
        points=points, mu=mu, proposed=problem.public, **_of_choices(problem)
    )


def _near(problem: Problem, steps: int, reach: float, number: int, mu: float) -> private_choice.Config:
    """Points near the last chosen point: half of the coordinates (at least 1) move by up to ``reach`` half sides."""
    (low, high), count = problem.box, steps * problem.batch
    rng = np.random.default_rng(number)
    offset = reach * (high - low) / 2 * (2 * spaces.sobol(count, len(low), number) - 1)
    moved = rng.random(offset.shape) < 0.5
    moved[np.arange(count), rng.integers(0, len(low), count)] = True
    return private_choice.near_config(
        points=np.where(moved, offset, 0.0), kept=np.ones(offset.shape, bool), mu=mu, **_of_choices(problem)
    )

"""The configs of the methods of ``minimize``, from public numbers alone."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import checks
from jaxdpbo.algorithms import dp_gibo, gp_ucb, private_estimate, private_evaluations, private_search
from jaxdpbo.noise import calibration, choice, private_scale
from jaxdpbo.types import Algorithm

LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER = "local", "start_then_local", "choice", "evaluations", "in_order"
DESCENT_METHODS = (LOCAL, START)  # along gradients: for real dimensions alone
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
CHOICE_ALGORITHM = private_search.make_algorithm()
START_ALGORITHM = private_search.make_algorithm(dp_gibo.algorithm, dp_gibo.set_start)
EVALUATION_ALGORITHM = private_evaluations.make_algorithm(gp_ucb.algorithm)


class Problem(NamedTuple):
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
    public: bool
    table: bool


Make = Callable[[Problem], tuple[Algorithm, Any]]


def has_private_range(problem: Problem) -> bool:
    """True if the search finds the scale of the losses privately. Raise a ValueError for other text."""
    return isinstance(problem.loss_range, str) and bool(
        checks.one_of("loss_range", problem.loss_range, (private_scale.PRIVATE,))
    )


def levels(problem: Problem, shares: list[float]) -> list[float]:
    """The ``mu`` of each share of ``mu^2``."""
    return calibration.split_levels(problem.mu, shares, jnp.result_type(float))


def add_estimate(share: float, problem: Problem, make: Make) -> tuple[Algorithm, Any]:
    """The search that ``make`` makes, with an estimate for a ``share`` of ``mu^2``; 0 for no estimate."""
    if not share:
        return make(problem)
    of_estimate, of_search = levels(problem, [share, 1 - share])
    algorithm, config = make(problem._replace(mu=of_search, steps=problem.steps - 1))
    estimate = private_estimate.config(
        config, users=problem.users, mu=of_estimate, loss_range=problem.loss_range, noise=problem.noise
    )
    return private_estimate.make_algorithm(algorithm), estimate


def _local_config(problem: Problem, usual_norm: float | str) -> dp_gibo.Config:
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
        memory="none" if problem.table else "all",
        noise=problem.noise,
    )


def _local(problem: Problem) -> tuple[Algorithm, Any]:
    """With few users the private scale is mostly noise: a fixed norm then does better."""
    enough = problem.users >= private_scale.users_needed(problem.mu) and problem.box.shape[1] >= FEW_DIMENSIONS
    norm = private_scale.PRIVATE if enough or has_private_range(problem) else _usual_norm(problem)
    return dp_gibo.algorithm, _local_config(problem, norm)


def _usual_norm(problem: Problem) -> float:
    if problem.loss_range is None:
        return 1.0
    low, high = checks.interval("loss_range", problem.loss_range)
    return CLIP_SHARE * (high - low)


def _start_then_local(problem: Problem) -> tuple[Algorithm, Any]:
    if problem.steps < 3:
        raise ValueError(f"steps must be at least 3 for method={START!r}, got {problem.steps}")
    first = max(1, round(DESIGN_SHARE * problem.steps))
    of_start, of_answer, of_descent = levels(problem, [CHOICE_SHARE, CHOICE_SHARE, 1 - 2 * CHOICE_SHARE])
    rest = problem._replace(steps=problem.steps - first - 1, mu=of_descent)
    descent = _local_config(rest, _usual_norm(problem))
    return START_ALGORITHM, _search(problem, [_design(problem, first)], [of_start, of_answer], descent)


def _rounds_of_choices(problem: Problem) -> tuple[Algorithm, Any]:
    rounds = ROUNDS_WITHOUT_NOISE if math.isinf(problem.mu) else ROUNDS
    later = min(rounds, problem.steps - 1)
    first = max(problem.steps - later * max(1, round((1 - FIRST_SHARE) * problem.steps / rounds)), 1)
    steps = (problem.steps - first) // max(later, 1)
    designs = [_design(problem, problem.steps - later * steps)]
    designs += [_near(problem, steps, 0.5**number, number) for number in range(1, later + 1)]
    if not later:
        return CHOICE_ALGORITHM, _search(problem, designs, [problem.mu])
    shares = [(1 - LAST_SHARE) / later] * later + [LAST_SHARE]
    return CHOICE_ALGORITHM, _search(problem, designs, levels(problem, shares))


def _in_order(problem: Problem) -> tuple[Algorithm, Any]:
    return CHOICE_ALGORITHM, _search(problem, [_design(problem, problem.steps)], [problem.mu])


def _proposed(problem: Problem) -> tuple[Algorithm, Any]:
    """A choice among points that ``Plan.with_proposals`` replaces: half of the evaluations are on public records."""
    if problem.steps < 2:
        raise ValueError(f"steps must be at least 2 for method={PROPOSED!r}, got {problem.steps}")
    return _in_order(problem._replace(steps=problem.steps - problem.steps // 2))


def _evaluations(problem: Problem) -> tuple[Algorithm, Any]:
    box, design = problem.box, None
    count = min(problem.steps * problem.batch, MAX_EVALUATIONS)
    if has_private_range(problem):
        compared = max(2, min(SCALE_EVALUATIONS, count // 5))
        if count <= compared:
            raise ValueError(f"steps times batch must be at least {compared + 1} for loss_range='private', got {count}")
        count, design = count - compared, box[0] + (box[1] - box[0]) * sobol(compared, box.shape[1], 0)
    answer = "best_posterior_mean"
    inner = gp_ucb.config(steps=count, bounds=problem.space, refit_every=20, fit_steps=30, answer=answer)
    return EVALUATION_ALGORITHM, private_evaluations.config(
        gp_ucb.algorithm,
        inner,
        users=problem.users,
        mu=problem.mu,
        loss_range=problem.loss_range,
        design=design,
        noise=problem.noise,
    )


MAKERS: dict[str, Make] = {
    LOCAL: _local,
    START: _start_then_local,
    CHOICE: _rounds_of_choices,
    EVALUATIONS: _evaluations,
    IN_ORDER: _in_order,
    PROPOSED: _proposed,
}


def _search(problem: Problem, rounds: list[private_search.Round], levels: list[float], inner: Any = None) -> Any:
    return private_search.config(
        users=problem.users,
        bounds=problem.space,
        loss_range=problem.loss_range,
        rounds=rounds,
        choice_mu=_carry_remainders(levels, problem.noise),
        batch=problem.batch,
        inner_config=inner,
        proposals=rounds[0].fresh if problem.public else None,  # until ``Plan.with_proposals``
        noise=problem.noise,
    )


def _carry_remainders(levels: list[float], noise: str) -> list[float]:
    """The levels of choices: the grid of exact noise rounds each down, and the remainder goes to the next choice."""
    if noise != "exact" or math.inf in levels:
        return levels
    totals, remainder = [], 0.0
    for mu in levels:
        total = math.hypot(mu, remainder)
        totals.append(total)
        used = choice.level(choice.budget(total, noise, dtype=float))
        remainder = math.sqrt(max(total**2 - used**2, 0.0))
    return totals


def _design(problem: Problem, steps: int) -> private_search.Round:
    """A round of the start and points of a Sobol sequence in the box."""
    (low, high), count = problem.box, steps * problem.batch
    start = checks.middle(problem.box) if problem.start is None else problem.start
    fresh = np.concatenate([start[None], low + (high - low) * sobol(count, len(low), 0)])[:count]
    return private_search.Round(fresh, np.zeros_like(fresh), np.zeros(fresh.shape, bool))


def _near(problem: Problem, steps: int, reach: float, number: int) -> private_search.Round:
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

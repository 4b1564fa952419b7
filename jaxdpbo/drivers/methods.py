"""Which search ``minimize`` runs, and with what: chosen by public numbers alone.

====================  ===========================================================  =====================================
method                what it does                                                 needs
====================  ===========================================================  =====================================
"local"               DP-GIBO in box units from the middle: descent along noisy    real dimensions
                      gradients
"start_then_local"    a design and a private choice of the start; DP-GIBO; a       real dimensions, ``loss_range``
                      private choice of the answer
"choice"              a design, then rounds of points near the one chosen          ``loss_range``
                      privately before
"evaluations"         GP-UCB on noisy means, which may all be published            ``loss_range``
"in_order"            a design and one private choice: also epsilon-DP             ``loss_range``
"auto"                "local" without a ``loss_range``; with "private" "local",   ``loss_range`` where a dimension is
                      or "evaluations" where a dimension is not real; "choice"     not real
                      there with two numbers; otherwise by how sharp a choice is
====================  ===========================================================  =====================================

"in_order" is ``private_search`` with one round, on a design of its own. To choose among your own candidates with a
budget in ``epsilon``, use ``dp_gp_ucb.in_order_config``, a different mechanism.

A choice is as sharp as ``choice.sharpness`` says: with few users it is hardly better than a guess, and descent from the
middle does without.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import _checks
from jaxdpbo import space as spaces
from jaxdpbo.algorithms import dp_gibo, gp_ucb, private_estimate, private_evaluations, private_search
from jaxdpbo.privacy import calibration, choice, private_scale
from jaxdpbo.types import Algorithm, Bounds

LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER = "local", "start_then_local", "choice", "evaluations", "in_order"
DESCENTS = (LOCAL, START)  # along gradients: for real dimensions alone
METHODS: tuple[str, ...] = (LOCAL, START, CHOICE, EVALUATIONS, IN_ORDER)
SCALING = (LOCAL, EVALUATIONS)  # find privately how much losses differ
AUTO = "auto"
SHARP = 50.0  # of a choice for CHOICE_SHARE: from here on a start is worth choosing
CHOICE_SHARE = 0.1  # of mu^2, for the start, and again for the answer
CLIP_SHARE = 0.25  # of the width of the loss range: half a side of the box seldom changes a loss by more
DESIGN_SHARE = 0.15  # of the steps, for a start
ROUNDS, FIRST_SHARE, LAST_SHARE = 4, 0.4, 0.25  # of "choice": rounds near the chosen point; of steps; of mu^2
MAX_EVALUATIONS = 60  # of "evaluations": each one more makes all of them noisier
SCALE_EVALUATIONS = 10  # of these, at most a fifth: on which losses are compared where their range is "private"
CHOOSES = private_search.make_algorithm()
STARTS = private_search.make_algorithm(dp_gibo.algorithm, dp_gibo.set_start)
EVALUATES = private_evaluations.make_algorithm(gp_ucb.algorithm)


class MinimizeArguments(NamedTuple):
    """The arguments of ``minimize`` that set its noise and its points.

    Attributes:
      users: ``n``.
      mu: the whole budget.
      bounds: a box, or a ``Space``.
      steps: ``T``, and
      batch: ``b``: every method evaluates ``T b`` points at most.
      clip_norm: ``B``, or "private"; None for ``CLIP_SHARE`` of the width of the range, or 1.
      loss_range: ``(low, high)``, "private", or None.
      theta0: where to start; None for the middle.
      noise: "exact" or "float".
      estimate_share: of ``mu^2``, for a private estimate of the loss at the answer; 0 for none.
    """

    users: int
    mu: float
    bounds: Bounds
    steps: int
    batch: int | None
    clip_norm: float | str | None
    loss_range: Any
    theta0: Any
    noise: str
    estimate_share: float = 0.0


class Plan(NamedTuple):
    """What ``minimize`` runs.

    Attributes:
      method: of ``METHODS``.
      reason: why, in words: public numbers alone.
      algorithm: and
      config: its config.
    """

    method: str
    reason: str
    algorithm: Algorithm
    config: Any

    @property
    def search(self) -> Any:
        """The config without the estimate."""
        return self.config.inner if isinstance(self.config, private_estimate.Config) else self.config

    @property
    def descent(self) -> dp_gibo.Config | None:
        """The config of DP-GIBO, where there is some."""
        inner = getattr(self.search, "inner", self.search)
        return inner if isinstance(inner, dp_gibo.Config) else None

    def search_release(self, release: Any) -> Any:
        """Of a release, what the search released, without the estimate."""
        return release.inner if isinstance(release, private_estimate.Release) else release


def plan(method: str, asked: MinimizeArguments) -> Plan:
    """The search, its config, and why.

    Raises:
      ValueError: an unknown method, or one that needs what was not given; an argument out of range.
      TypeError: an argument of the wrong kind.
    """
    _checks.choice("method", method, (AUTO, *METHODS))
    bounds, space = spaces.box(asked.bounds)
    box = _checks.box("bounds", bounds)
    asked = asked._replace(
        users=_checks.size("users", asked.users),
        mu=_checks.positive("mu", asked.mu, finite=False),
        bounds=bounds if space is None else space,
        steps=_checks.size("steps", asked.steps),
        batch=box.shape[1] + 1 if asked.batch is None else _checks.size("batch", asked.batch),
    )
    real = space is None or bool(np.all(space.real_axes))
    chosen, reason = _choose(method, asked, real)
    _check_needs(chosen, asked, real)
    start = None if asked.theta0 is None else _start(space, asked.theta0)
    share = _checks.number("estimate_share", asked.estimate_share)
    if not 0 <= share < 1:
        raise ValueError(f"estimate_share must be in [0, 1), got {share:g}")
    of_estimate, of_search = _levels(asked, [share, 1 - share]) if share else (0.0, asked.mu)
    search = asked._replace(theta0=start, mu=of_search, steps=asked.steps - bool(share))
    if share and (asked.loss_range is None or _is_private(asked) or not search.steps):
        raise ValueError("estimate_share needs a loss_range of two numbers, and two steps or more")
    algorithm, config = _MAKERS[chosen](search, box)
    return Plan(chosen, reason, *_add_estimate(asked, of_estimate, algorithm, config))


def _choose(method: str, asked: MinimizeArguments, real: bool) -> tuple[str, str]:
    """The method, and by which public numbers."""
    if method != AUTO:
        return method, "as asked for"
    if asked.loss_range is None:
        if not real:
            raise ValueError(
                "loss_range must be given where not all dimensions are real, since there is no gradient along the "
                "others: give loss_range=(low, high) of a user's loss, or 'private'"
            )
        return LOCAL, "no loss_range was given"
    if _is_private(asked):
        return (LOCAL, "losses are scaled privately") if real else (EVALUATIONS, "not all dimensions are real")
    if not real:
        return CHOICE, "not all dimensions are real"
    low, high = _checks.interval("loss_range", asked.loss_range)
    if math.isinf(asked.mu):
        return START, "there is no noise"
    sharp = choice.sharpness(asked.mu * math.sqrt(CHOICE_SHARE), high - low, asked.users)
    said = f"a choice for {100 * CHOICE_SHARE:g} % of mu^2 has a sharpness of {sharp:.3g}, "
    if sharp < SHARP or asked.steps < 3:
        return LOCAL, said + f"less than {SHARP:g}" * (sharp < SHARP) + "and there are few steps" * (sharp >= SHARP)
    return START, said + f"at least {SHARP:g}"


def _check_needs(method: str, asked: MinimizeArguments, real: bool) -> None:
    """Raise ValueError if the method lacks an argument or cannot use one; ``real``: all dimensions are real."""
    if method != LOCAL and asked.loss_range is None:
        raise ValueError(f"loss_range must be given for method={method!r}")
    if method not in SCALING and _is_private(asked):
        raise ValueError(f"loss_range must be two numbers for method={method!r}, got {asked.loss_range!r}")
    if method in DESCENTS and not real:
        raise ValueError(
            f"method must not be {method!r} where dimensions are not real: there is no gradient along them"
        )
    if method not in DESCENTS and isinstance(asked.clip_norm, str):
        raise ValueError(f"clip_norm must not be {asked.clip_norm!r} for method={method!r}, which has no gradients")


def _is_private(asked: MinimizeArguments) -> bool:
    """Whether the scale of the losses is to be found; other text is refused."""
    return isinstance(asked.loss_range, str) and bool(
        _checks.choice("loss_range", asked.loss_range, (private_scale.PRIVATE,))
    )


def _levels(asked: MinimizeArguments, shares: list[float]) -> list[float]:
    """Of ``mu^2``."""
    return calibration.split_levels(asked.mu, shares, jnp.result_type(float))


def _add_estimate(asked: MinimizeArguments, level: float, algorithm: Algorithm, config: Any) -> tuple[Algorithm, Any]:
    """With the estimate, where one is asked for."""
    if not level:
        return algorithm, config
    estimate = private_estimate.config(
        config, users=asked.users, mu=level, loss_range=asked.loss_range, noise=asked.noise
    )
    return private_estimate.make_algorithm(algorithm), estimate


def _start(space: Any, theta0: Any) -> Any:
    return space.point(theta0) if space is not None and isinstance(theta0, dict) else theta0


def local_config(asked: MinimizeArguments) -> dp_gibo.Config:
    """DP-GIBO with defaults that work: coordinate AdaGrad in box units, the mean of the last half of the path."""
    return dp_gibo.config(
        users=asked.users,
        steps=asked.steps,
        mu=asked.mu,
        bounds=asked.bounds,
        batch=asked.batch,
        clip_norm=_clip_norm(asked),
        theta0=asked.theta0,
        optimizer=optax.adagrad,
        output="last_half_mean",
        noise=asked.noise,
    )


def _clip_norm(asked: MinimizeArguments) -> float | str:
    if asked.clip_norm is not None:
        return asked.clip_norm
    if asked.loss_range is None:
        return 1.0
    if _is_private(asked):
        return private_scale.PRIVATE
    low, high = _checks.interval("loss_range", asked.loss_range)
    return CLIP_SHARE * (high - low)


def _local(asked: MinimizeArguments, box: np.ndarray) -> tuple[Algorithm, Any]:
    del box
    return dp_gibo.algorithm, local_config(asked)


def _start_then_local(asked: MinimizeArguments, box: np.ndarray) -> tuple[Algorithm, Any]:
    if asked.steps < 3:
        raise ValueError(f"steps must be at least 3 for method={START!r}, got {asked.steps}")
    first = max(1, round(DESIGN_SHARE * asked.steps))
    of_start, of_answer, of_descent = _levels(asked, [CHOICE_SHARE, CHOICE_SHARE, 1 - 2 * CHOICE_SHARE])
    rest = asked._replace(steps=asked.steps - first - 1, mu=of_descent)
    return STARTS, _search(asked, [_design(asked, box, first)], [of_start, of_answer], local_config(rest))


def _choice(asked: MinimizeArguments, box: np.ndarray) -> tuple[Algorithm, Any]:
    later = min(ROUNDS, asked.steps - 1)
    first = max(asked.steps - later * max(1, round((1 - FIRST_SHARE) * asked.steps / ROUNDS)), 1)
    each = (asked.steps - first) // max(later, 1)
    rounds = [_design(asked, box, asked.steps - later * each)]
    rounds += [_near(asked, box, each, 0.5**number, number) for number in range(1, later + 1)]
    if not later:
        return CHOOSES, _search(asked, rounds, [asked.mu])
    shares = [(1 - LAST_SHARE) / later] * later + [LAST_SHARE]
    return CHOOSES, _search(asked, rounds, _levels(asked, shares))


def _in_order(asked: MinimizeArguments, box: np.ndarray) -> tuple[Algorithm, Any]:
    return CHOOSES, _search(asked, [_design(asked, box, asked.steps)], [asked.mu])


def _evaluations(asked: MinimizeArguments, box: np.ndarray) -> tuple[Algorithm, Any]:
    count, design = min(asked.steps * (asked.batch or 1), MAX_EVALUATIONS), None
    if _is_private(asked):
        compared = max(2, min(SCALE_EVALUATIONS, count // 5))
        if count <= compared:
            raise ValueError(f"steps times batch must be at least {compared + 1} for loss_range='private', got {count}")
        count, design = count - compared, box[0] + (box[1] - box[0]) * sobol(compared, box.shape[1], 0)
    answer = "best_posterior_mean"
    inner = gp_ucb.config(steps=count, bounds=asked.bounds, refit_every=20, fit_steps=30, answer=answer)
    return EVALUATES, private_evaluations.config(
        gp_ucb.algorithm,
        inner,
        users=asked.users,
        mu=asked.mu,
        loss_range=asked.loss_range,
        design=design,
        noise=asked.noise,
    )


_MAKERS: dict[str, Any] = dict(zip(METHODS, (_local, _start_then_local, _choice, _evaluations, _in_order), strict=True))


def _search(
    asked: MinimizeArguments, rounds: list[private_search.Round], levels: list[float], inner: Any = None
) -> Any:
    return private_search.config(
        users=asked.users,
        bounds=asked.bounds,
        loss_range=asked.loss_range,
        rounds=rounds,
        choice_mu=levels,
        batch=asked.batch or 1,
        inner_config=inner,
        noise=asked.noise,
    )


def _design(asked: MinimizeArguments, box: np.ndarray, steps: int) -> private_search.Round:
    """The start, and points of a Sobol sequence in the box."""
    (low, high), count = box, steps * (asked.batch or 1)
    start = _checks.inside("theta0", _checks.from_box("theta0", asked.theta0, box, _checks.middle), box)
    fresh = np.concatenate([start[None], low + (high - low) * sobol(count, len(low), 0)])[:count]
    return private_search.Round(fresh, np.zeros_like(fresh), np.zeros(fresh.shape, bool))


def _near(asked: MinimizeArguments, box: np.ndarray, steps: int, reach: float, number: int) -> private_search.Round:
    """Points around the one chosen last: half of the coordinates, one at least, move by up to ``reach`` half sides."""
    (low, high), count = box, steps * (asked.batch or 1)
    rng = np.random.default_rng(number)
    offset = reach * (high - low) / 2 * (2 * sobol(count, len(low), number) - 1)
    moved = rng.random(offset.shape) < 0.5
    moved[np.arange(count), rng.integers(0, len(low), count)] = True
    kept = np.ones(offset.shape, bool)
    return private_search.Round(np.broadcast_to(low, offset.shape).copy(), np.where(moved, offset, 0.0), kept)


def sobol(count: int, dimension: int, seed: int) -> np.ndarray:
    """Points ``(count, d)`` of a scrambled Sobol sequence in the unit box; public."""
    from scipy.stats import qmc  # as long to import as this package, so where it is used

    return qmc.Sobol(dimension, rng=seed).random_base2(max(1, math.ceil(math.log2(count))))[:count]

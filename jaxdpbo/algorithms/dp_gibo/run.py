"""How a run of DP-GIBO goes: state, queries, and the one place where it pays."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.algorithms.dp_gibo.configs import Config
from jaxdpbo.privacy import calibration, clipping, guarantee, private_mean
from jaxdpbo.surrogate import descent, gp, gradient, gradient_design
from jaxdpbo.types import Algorithm, Query, State


class Public(NamedTuple):
    """Released, or independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      clip_norm: ``()``, as found privately, 0 until then; None where it is given.
      theta: ``(d,)``, the iterate; it, ``points`` and ``path`` are in the units of the search.
      optimizer: the optax state: a function of privatised gradients.
      points: ``(m, d)`` evaluated points, ``m = T b``; with memory "none" 0 rows, with "recent" a ring of those
        remembered and of one batch more.
      mask: ``(m,)``.
      used: ``()`` rows used; with memory "recent" the row of the ring that the next batch takes.
      whitening: ``(m, m)`` of the evaluated points with memory "all", otherwise None.
      path: ``(T + 1, d)``: theta0 and every iterate after it; rows beyond ``step`` are zero.
      trace: ``(T,)``, what each step left unknown of its gradient: Tr(grad k_{D_t}(theta_t, theta_t) grad^T).
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    clip_norm: jax.Array | None
    theta: jax.Array
    optimizer: Any
    points: jax.Array
    mask: jax.Array
    used: jax.Array
    whitening: jax.Array | None
    path: jax.Array
    trace: jax.Array


class Private(NamedTuple):
    """Raw: ``losses (m, n)``, every user's loss at every evaluated point."""

    losses: jax.Array


class Info(NamedTuple):
    """Diagnostics of one step. NOT PRIVATE, save the two flags: never publish it.

    Attributes:
      mean_loss: ``(b,)`` over users, at each point of the query.
      gradient: ``(d,)``, the mean clipped gradient before noise.
      clipped_share: ``()``, of the users.
      nonfinite_users: ``()``, how many counted as zero because their gradient was not finite.
      batch_capped: ``()``, Algorithm 2 wanted more than ``batch`` points: the trace is still above the tolerance.
      factorisation_failed: ``()``, the covariance of the evaluated points could not be factored.
    """

    mean_loss: jax.Array
    gradient: jax.Array
    clipped_share: jax.Array
    nonfinite_users: jax.Array
    batch_capped: jax.Array
    factorisation_failed: jax.Array


class Release(NamedTuple):
    """What may be published.

    Attributes:
      point: ``(d,)``, the answer.
      path: ``(T + 1, d)``, theta0 and every iterate; covered by the same guarantee, as is the rest.
      trace: ``(T,)``, see ``Public``: the bias of step ``t`` is at most an RKHS norm times its square root.
      clip_norm: ``()``, as found privately; None where it is given.
      params: ``point`` by name, where a ``Space`` was searched, filled in by the drivers.
    """

    point: jax.Array
    path: jax.Array
    trace: jax.Array
    clip_norm: jax.Array | None
    params: dict[str, Any] | None = None


def init(key: jax.Array, config: Config) -> State:
    """The state before the first step; ``key`` is unused."""
    del key
    dtype, (dimension,) = config.theta0.dtype, config.theta0.shape
    capacity = _capacity(config)
    nothing = gp.empty(capacity, dimension, dtype)
    start = config.to_search(config.theta0[None])[0]
    public = Public(
        step=jnp.zeros((), jnp.int32),
        budget=calibration.noise_settings(config.budget, config.clip_norm),
        clip_norm=None if config.budget.scale is None else config.clip_norm,
        theta=start,
        optimizer=config.optimizer(config.step_size).init(start),
        points=nothing.points,
        mask=nothing.mask,
        used=nothing.used,
        whitening=nothing.whitening if config.memory == "all" else None,
        path=jnp.zeros((config.steps + 1, dimension), dtype).at[0].set(start),
        trace=jnp.zeros(config.steps, dtype),
    )
    return State(public, Private(jnp.zeros((capacity, config.users), dtype)))


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """The batch that lowers the trace most (Algorithm 1, line 4), or the smallest that lowers it enough (Algorithm 2).

    Reads ``state.public`` only; ``key`` is unused.
    """
    del key
    public = state.public
    sizes = {"batch": config.batch, "polish_steps": config.polish_steps}

    def design(factorization: gp.Factorization) -> tuple[jax.Array, jax.Array]:
        known = config.surrogate, factorization, public.theta, config.searched
        if config.adaptive:
            return gradient_design.smallest(*known, config.tolerance, **sizes)
        return gradient_design.fixed(*known, **sizes)

    points, mask = _staged(config, _recall(config, public)[0], design)
    return Query(config.to_parameters(points), mask)


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """One private step: Algorithm 1, lines 5 to 8. Here the budget is paid: ``mu / sqrt(T)`` a step.

    Formal guarantee: ``mu / sqrt(T)``-GDP for the new iterate given the earlier ones, replace-one on users
    (Lemma 3.1; ``sensitivity.clipped_sum``), whatever the losses are.

    ==============================  =====================================================================
    case                            result
    ==============================  =====================================================================
    ``state.public.step == T``      the state unchanged: nothing more is released
    begun with other noise          likewise: the guarantee is of one budget
    another optimizer or box        the run goes on: they act on released values
    another kernel                  the run goes on: gradients are clipped, whatever the kernel infers
    a user's loss NaN or infinite   that user counts as the zero gradient while the loss is remembered
    values at masked points         ignored
    ``mu = inf``                    no noise: the non-private algorithm
    ==============================  =====================================================================

    Args:
      key: for the noise; used once.
      config: see ``config``.
      state: before the step.
      query: what was asked.
      values: ``(b, n)``, every user's loss at every point.

    Returns:
      The state after the step, and raw diagnostics.

    Raises:
      ValueError: ``values`` is not ``(b, n)``, at trace time.
    """
    if values.shape != (config.batch, config.users):
        raise ValueError(f"values must have shape {(config.batch, config.users)}, got {values.shape}")
    public, losses = state.public, state.private.losses
    points = config.to_search(query.points)
    settings = calibration.noise_settings(config.budget, config.clip_norm)
    active = (public.step < config.steps) & calibration.same_noise(public.budget, settings)
    known, kept = _recall(config, public)
    losses_now = gp.masked(query.mask, values.astype(losses.dtype))
    noise_key, clip_norm = private_mean.clip_norm(
        key, config.budget, config.clip_norm, public.step, public.clip_norm,
        lambda: clipping.l2_norms(gradient.of_each(config.surrogate, points, query.mask, public.theta, losses_now)),
    )  # fmt: skip

    if config.memory != "none":
        losses = gp.write(losses, losses_now, public.used, active)
    in_place = config.memory in (
        "all",
        "recent",
    )  # no copy of the losses: with many users it would be the largest array
    memory = losses if in_place else jnp.concatenate([state.private.losses[kept], losses_now])

    def estimate(known: gp.Factorization) -> tuple[Any, ...]:
        rows = gp.extension(config.surrogate, known, points, query.mask)
        extended = gp.extend(known, points, query.mask, rows)
        weights = gradient.weights(config.surrogate, extended, public.theta)
        trace = gradient.gradient_information(config.surrogate, extended, public.theta)
        padding = ((0, 0), (0, room - rows.shape[1]))
        if config.memory == "recent":  # from the oldest first to as the ring lies
            weights = jnp.roll(weights, public.used + config.batch, axis=0)
        total = clipping.clipped_sum(weights, memory, clip_norm, calibration.grid(config.budget))
        return jnp.pad(rows, padding), trace, total

    room = known.points.shape[0]
    rows, trace, (total, clipped, nonfinite) = _staged(config, known, estimate)
    noisy, mean = private_mean.of_vectors(noise_key, config.budget, total, clip_norm)
    theta, optimizer = descent.move(
        config.optimizer,
        config.step_size,
        config.searched,
        noisy / config.gradient_unit,
        public.optimizer,
        public.theta,
    )

    advance = partial(jax.tree.map, lambda new, old: jnp.where(active, new, old))
    after = public._replace(
        step=advance(public.step + 1, public.step),
        clip_norm=None if public.clip_norm is None else advance(clip_norm, public.clip_norm),
        theta=advance(theta, public.theta),
        optimizer=advance(optimizer, public.optimizer),
        path=gp.write(public.path, theta[None], public.step + 1, active),
        trace=gp.write(public.trace, trace[None], public.step, active),
    )
    if config.memory == "all":
        after = after._replace(**gp.extend(known, points, query.mask, rows, when=active)._asdict())
    elif config.memory != "none":
        after = after._replace(
            points=gp.write(public.points, points, public.used, active),
            mask=gp.write(public.mask, query.mask, public.used, active),
            used=advance(_next(config, public.used), public.used),
        )
    info = Info(
        mean_loss=jnp.mean(losses_now, axis=1),
        gradient=mean,
        clipped_share=clipped / config.users,
        nonfinite_users=nonfinite,
        batch_capped=config.adaptive & jnp.all(query.mask) & (trace > config.tolerance),
        factorisation_failed=active & ~jnp.all(jnp.isfinite(rows)),
    )
    return State(after, Private(losses)), info


def release(key: jax.Array, config: Config, state: State) -> Release:
    """The answer, the path and the traces: post-processing of what ``tell`` released; ``key`` is unused."""
    del key
    public = state.public
    answer = descent.answer(public.path, public.step, config.output)
    path = config.to_parameters(public.path)
    return Release(config.to_parameters(answer[None])[0], path, public.trace, public.clip_norm)


def privacy(config: Config) -> guarantee.Guarantee:
    """``mu``-GDP for replace-one on the users (Lemma 3.1), of everything in ``Release``; none at ``mu = inf``.

    Raises:
      ValueError: a stacked config; take one.
    """
    return calibration.statement(config.budget, guarantee.USERS)


algorithm = Algorithm(init, ask, tell, release, privacy)


def started_at(config: Config, state: State, theta0: jax.Array) -> State:
    """A state in which no step was taken, with another start ``(d,)``: public, or released before."""
    theta = config.to_search(theta0[None])[0]
    public = state.public._replace(
        theta=theta,
        optimizer=config.optimizer(config.step_size).init(theta),
        path=state.public.path.at[0].set(theta),
    )
    return State(public, state.private)


def _capacity(config: Config) -> int:
    """Rows of the buffers."""
    if config.memory == "none":
        return 0
    longest = config.steps * config.batch
    return longest if config.memory != "recent" else min(longest, config.remembered + config.batch)


def _next(config: Config, used: jax.Array) -> jax.Array:
    """The row after a batch: of a ring the first again after the last."""
    return used + config.batch if config.memory != "recent" else (used + config.batch) % _capacity(config)


def _staged(config: Config, factorization: gp.Factorization, function: Callable[[gp.Factorization], Any]) -> Any:
    """``function`` of the posterior, on no more rows than it needs where the memory grows."""
    return gp.staged(factorization, config.batch, function) if config.memory == "all" else function(factorization)


def _recall(config: Config, public: Public) -> tuple[gp.Factorization, jax.Array]:
    """The posterior a step starts from, with room for a batch, and the rows of the buffer it holds."""
    if config.memory == "all":
        assert public.whitening is not None
        rows = jnp.arange(public.points.shape[0])
        return gp.Factorization(public.points, public.mask, public.whitening, public.used), rows
    if config.memory == "recent":  # all but the batch that the next one is written over
        room = public.points.shape[0]
        rows = (public.used + config.batch + jnp.arange(room - config.batch, dtype=jnp.int32)) % room
    else:
        kept = min(config.remembered, public.points.shape[0])
        rows = gp.nearest(config.surrogate, public.points, public.mask, public.theta, kept)
    return gp.room_for(config.surrogate, public.points[rows], public.mask[rows], config.batch), rows

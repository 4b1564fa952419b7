"""Steps of DP-GIBO: state, queries, and the public arithmetic of a step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.algorithms.dp_gibo import contribution
from jaxdpbo.algorithms.dp_gibo.configs import Config
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.noise import calibration, guard, private_mean, totals
from jaxdpbo.phases import Phase
from jaxdpbo.surrogate import descent, gp, gradient_design
from jaxdpbo.surrogate import gradient as _gradient
from jaxdpbo.types import Algorithm, Info, Query, State


class PublicState(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      noise: all noise settings at the start of the run.
      clip_norm: ``()``, found privately, 0 before; None if you set a clip norm.
      theta: ``(d,)``, the iterate, in the units of the search, as are ``points`` and ``path``.
      optimizer: the optax state: a function of privatised gradients.
      points: ``(m, d)`` evaluated points, ``m = T b``; with memory "none" 0 rows, with "recent" a ring buffer of the
        remembered points and one batch more.
      mask: ``(m,)``.
      used: ``()`` rows used; with memory "recent" the row of the ring buffer for the next batch.
      whitening: ``(m, m)`` of the evaluated points with memory "all", otherwise None.
      path: ``(T + 1, d)``: theta0 and every later iterate; rows beyond ``step`` are zero.
      trace: ``(T,)``, remaining uncertainty of each step's gradient: Tr(grad k_{D_t}(theta_t, theta_t) grad^T).
    """

    step: jax.Array
    noise: calibration.NoiseSettings
    clip_norm: jax.Array | None
    theta: jax.Array
    optimizer: Any
    points: jax.Array
    mask: jax.Array
    used: jax.Array
    whitening: jax.Array | None
    path: jax.Array
    trace: jax.Array


class Release(NamedTuple):
    """Everything you may publish; one guarantee covers all of it.

    Attributes:
      point: ``(d,)``, the answer.
      path: ``(T + 1, d)``, theta0 and every iterate.
      trace: ``(T,)``, see ``PublicState``: the bias of step ``t`` is at most an RKHS norm times its square root.
      clip_norm: ``()``, found privately; None if you set a clip norm.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    path: jax.Array
    trace: jax.Array
    clip_norm: jax.Array | None
    params: dict[str, Any] | None = None


def init(key: jax.Array, config: Config) -> State:
    """Make the state before the first step; ``key`` is unused."""
    del key
    dtype, (dimension,) = config.theta0.dtype, config.theta0.shape
    capacity = config.capacity
    nothing = gp.empty(capacity, dimension, dtype)
    start = config.to_search(config.theta0[None])[0]
    public = PublicState(
        step=jnp.zeros((), jnp.int32),
        noise=_settings(config),
        clip_norm=None if config.noise.scale is None else config.clip_norm,
        theta=start,
        optimizer=config.optimizer(config.step_size).init(start),
        points=nothing.points,
        mask=nothing.mask,
        used=nothing.used,
        whitening=nothing.whitening if config.memory == "all" else None,
        path=jnp.zeros((config.steps + 1, dimension), dtype).at[0].set(start),
        trace=jnp.zeros(config.steps, dtype),
    )
    return State(public)


class Local(NamedTuple):
    """Inputs of ``tell``: ``points (b, d)`` in search units, whitening ``rows (b, m)``, and the new ``trace ()``."""

    points: jax.Array
    rows: jax.Array
    trace: jax.Array


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Propose the batch of lowest trace (Algorithm 1, line 4), or the smallest of low enough trace (Algorithm 2).

    Also compute the weights that turn losses, new and remembered, into gradients (line 5). Reads ``state.public`` only;
    ``key`` is unused.
    """
    del key
    public = state.public
    posterior, kept = _recall(config, public)
    room, sizes = len(posterior.points), {"batch": config.batch, "polish_steps": config.polish_steps}

    def design(factorization: gp.Factorization) -> tuple[jax.Array, ...]:
        problem = config.surrogate, factorization, public.theta, config.search_bounds
        if config.adaptive:
            points, mask = gradient_design.propose_fewest(*problem, config.tolerance, **sizes)
        else:
            points, mask = gradient_design.propose_batch(*problem, **sizes)
        points = config.to_parameters(points)
        return points, mask, *_condition(config, public, factorization, room, points, mask)

    points, mask, *conditioned = _apply_to_stage(config, posterior, design)
    return _make_query(config, public, kept, points, mask, *conditioned)


def remask(config: Config, state: State, query: Query, mask: jax.Array) -> Query:
    """Replace the ``mask (b,)`` of a query and recompute its weights, to evaluate fewer points."""
    public = state.public
    posterior, kept = _recall(config, public)

    def condition(factorization: gp.Factorization) -> tuple[jax.Array, ...]:
        return _condition(config, public, factorization, len(posterior.points), query.points, mask)

    remade = _make_query(config, public, kept, query.points, mask, *_apply_to_stage(config, posterior, condition))
    return remade._replace(survey=query.survey, active=query.active)


def tell(config: Config, state: State, query: Query, released: totals.UserSum) -> State:
    """Take one step along the noisy mean gradient: Algorithm 1, line 9.

    ==============================  =====================================================================
    case                            result
    ==============================  =====================================================================
    after T, or with other noise    the state unchanged, see ``noise.guard``
    another optimizer or box        the run goes on: they act on released values
    another kernel                  the run goes on: gradients are clipped for any kernel
    ==============================  =====================================================================
    """
    public, local, clip_norm = state.public, query.local, contribution.current_clip_norm(config, query)
    noisy = private_mean.mean_of_vectors(config.noise, released, clip_norm)
    if config.noise.scale is not None:
        noisy = noisy / clip_norm  # gradients in units of the clip norm: no other unit is known
    theta, optimizer = descent.move(
        config.optimizer,
        config.step_size,
        config.search_bounds,
        noisy / config.gradient_unit,
        public.optimizer,
        public.theta,
    )
    after = public._replace(
        step=public.step + 1,
        clip_norm=None if public.clip_norm is None else clip_norm,
        theta=theta,
        optimizer=optimizer,
        path=gp.write(public.path, theta[None], public.step + 1),
        trace=gp.write(public.trace, local.trace[None], public.step),
    )
    if config.memory == "all":
        posterior, _ = _recall(config, public)
        after = after._replace(**gp.extend(posterior, local.points, query.mask, local.rows)._asdict())
    elif config.memory != "none":
        after = after._replace(
            points=gp.write(public.points, local.points, public.used),
            mask=gp.write(public.mask, query.mask, public.used),
            used=_next(config, public.used),
        )
    return State(after)


def inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    """Compute diagnostics of one step. NOT PRIVATE, except the two flags.

    ``mean_loss (b,)`` over users, at each point of the query; ``gradient (d,)``, the mean clipped gradient before
    noise; ``clipped_share ()`` of users; ``nonfinite_users ()``, the number counted as zero because their gradient was
    not finite; ``batch_capped ()``: Algorithm 2 needed more than ``batch`` points, the trace is still too large.
    """
    facts, local = total.facts, query.local
    unnoised = private_mean.skip_noise(config.noise, total.whole)
    clip_norm = contribution.current_clip_norm(config, query)
    raw = {
        "mean_loss": facts["losses"] / config.users,
        "gradient": private_mean.mean_of_vectors(config.noise, unnoised, clip_norm),
        "clipped_share": facts["clipped"] / config.users,
        "nonfinite_users": facts["nonfinite"],
        "batch_capped": config.adaptive & jnp.all(query.mask) & (local.trace > config.tolerance),
    }
    return Info(raw, query.active & ~jnp.all(jnp.isfinite(local.rows)))


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the answer, the path and the traces: post-processing of the releases of ``perturb``; ``key`` is unused."""
    del key
    public = state.public
    answer = descent.answer(public.path, public.step, config.output)
    path = config.to_parameters(public.path)
    return Release(config.to_parameters(answer[None])[0], path, public.trace, public.clip_norm)


def privacy(config: Config) -> guarantees.Guarantee:
    """``mu``-GDP for replace-one on the users (Lemma 3.1), for everything in ``Release``; no guarantee at ``mu = inf``.

    Raises:
      ValueError: a stacked config; pass a single config.
    """
    return composed_guarantee.gdp_guarantee(config.noise, guarantees.USERS)


def _settings(config: Config) -> calibration.NoiseSettings:
    return calibration.noise_settings(config.noise, config.clip_norm)


_steps = Algorithm(
    init, ask, tell, release, privacy, contribute=contribution.contribute, perturb=contribution.perturb,
    inform=inform, remember=contribution.remember, survey=contribution.survey, refine=contribution.refine,
)  # fmt: skip
algorithm = guard.guard_noise(_steps, _settings)


def set_start(config: Config, state: State, theta0: jax.Array) -> State:
    """Replace the start of a state without steps by ``theta0 (d,)``, public or released before.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import dp_gibo
    >>> config = dp_gibo.config(users=50, steps=3, mu=1.0, bounds=[(0, 6)])
    >>> state = dp_gibo.algorithm.init(jax.random.key(0), config)
    >>> float(dp_gibo.set_start(config, state, jnp.array([1.5])).public.path[0, 0])  # in box units, from -1 to 1
    -0.5
    """
    theta = config.to_search(theta0[None])[0]
    public = state.public._replace(
        theta=theta,
        optimizer=config.optimizer(config.step_size).init(theta),
        path=state.public.path.at[0].set(theta),
    )
    return State(public)


def _start_at_point(config: Config, state: State, releases: list[Any]) -> State:
    """Begin at the point of the phase before."""
    return set_start(config, state, releases[-1].point)


from_point = Phase(algorithm, start=_start_at_point)


def _make_query(
    config: Config, public: PublicState, kept: jax.Array, points: jax.Array, mask: jax.Array, *conditioned: jax.Array
) -> Query:
    """Make a query from points and the results of ``_condition``."""
    searched, rows, trace, weights, fresh = conditioned
    finds = public.clip_norm is not None
    broadcast = contribution.Broadcast(
        weights=weights,
        fresh=fresh if finds else None,
        clip_norm=config.clip_norm if public.clip_norm is None else public.clip_norm,
        used=public.used,
        kept=kept if config.memory == "nearest" else None,
    )
    survey = public.step == 0 if finds else None
    return Query(points, mask, broadcast=broadcast, local=Local(searched, rows, trace), survey=survey)


def _condition(
    config: Config, public: PublicState, posterior: gp.Factorization, room: int, points: jax.Array, mask: jax.Array
) -> tuple[jax.Array, ...]:
    """Condition on a query's points.

    Returns their positions in search units, the rows ``(b, room)`` that extend the whitening, the remaining trace, the
    weights ``(room, d)`` of all losses, and those of the query's own losses.
    """
    searched = config.to_search(points)
    rows = gp.extension(config.surrogate, posterior, searched, mask)
    extended = gp.extend(posterior, searched, mask, rows)
    weights = _gradient.weights(config.surrogate, extended, public.theta)
    trace = _gradient.gradient_information(config.surrogate, extended, public.theta)
    fresh = jax.lax.dynamic_slice_in_dim(weights, posterior.used, config.batch)
    if config.memory == "recent":  # from oldest first to the order of the ring buffer
        weights = jnp.roll(weights, public.used + config.batch, axis=0)
    missing = room - len(weights)
    return searched, jnp.pad(rows, ((0, 0), (0, missing))), trace, jnp.pad(weights, ((0, missing), (0, 0))), fresh


def _next(config: Config, used: jax.Array) -> jax.Array:
    """Row after a batch; a ring buffer wraps around."""
    return used + config.batch if config.memory != "recent" else (used + config.batch) % config.capacity


def _apply_to_stage(
    config: Config, factorization: gp.Factorization, function: Callable[[gp.Factorization], Any]
) -> Any:
    """Apply ``function`` to the posterior, on no more rows than necessary where the memory grows."""
    return (
        gp.apply_to_stage(factorization, config.batch, function) if config.memory == "all" else function(factorization)
    )


def _recall(config: Config, public: PublicState) -> tuple[gp.Factorization, jax.Array]:
    """Return the posterior at the start of a step, with room for a batch, and the buffer rows in it."""
    if config.memory == "all":
        assert public.whitening is not None
        rows = jnp.arange(public.points.shape[0])
        return gp.Factorization(public.points, public.mask, public.whitening, public.used), rows
    if config.memory == "recent":  # all but the batch that the next batch overwrites
        room = public.points.shape[0]
        rows = (public.used + config.batch + jnp.arange(room - config.batch, dtype=jnp.int32)) % room
    else:
        kept = min(config.remembered, public.points.shape[0])
        rows = gp.nearest(config.surrogate, public.points, public.mask, public.theta, kept)
    return gp.room_for(config.surrogate, public.points[rows], public.mask[rows], config.batch), rows

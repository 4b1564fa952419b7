"""DP-GIBO: local Bayesian optimisation by privatised gradient posteriors, for many parameters.

Getoar Sopa, Juraj Marusic, Marco Avella-Medina and John P. Cunningham (2025), "Scalable differentially private
Bayesian optimization". Algorithm 1 (fixed batch), Algorithm 2 (``tolerance``: the smallest batch that leaves the
trace under it), noisy observations (section 3.4: ``noise_variance`` enters every solve).

Notation: ``n`` users, ``T`` steps, ``b`` evaluations a step, ``d`` parameters, ``B`` the clip norm, ``D`` the points
evaluated so far, ``theta`` the iterate. Each step evaluates every user's loss at ``b`` points near ``theta``,
forms every user's posterior-mean gradient at ``theta``, clips each to norm ``B``, and moves along their mean plus
Gaussian noise of standard deviation ``2 B sqrt(T) / (n mu)``.

The convergence bounds of theorems 3.2 and 3.3 and corollaries 3.4 and 3.6 are in ``jaxdpbo.theory.dp_gibo``.
Theorem B.2 (any suboptimality, for a stationary kernel and searching a finite cover first, at
``T = Omega(d^(d+1))``) is existential and has no counterpart in code.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxdpbo import _checks
from jaxdpbo.privacy import calibration, clipping, guarantee, private_mean, private_scale
from jaxdpbo.surrogate import descent, gp, gradient, gradient_design, kernels
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Kernel, KernelParams, Query, State

MEMORIES = ("all", "nearest", "none")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """What a run needs before it starts; made by ``config``. All of it is public.

    Traced (a sweep over these compiles once): the numbers of ``budget``, ``clip_norm ()``, ``step_size (d,)``,
    ``tolerance ()``, the numbers of ``model``, ``bounds (2, d)``, ``theta0 (d,)``. The rest is static. ``budget`` holds
    ``n`` and ``T`` too: see ``privacy.calibration``.
    """

    budget: calibration.Budget
    clip_norm: jax.Array
    step_size: jax.Array
    tolerance: jax.Array
    model: gp.Model
    bounds: jax.Array
    theta0: jax.Array
    batch: int = field(metadata={"static": True})
    neighbours: int = field(metadata={"static": True})
    memory: str = field(metadata={"static": True})
    optimizer: Callable[..., optax.GradientTransformation] = field(metadata={"static": True})
    adaptive: bool = field(metadata={"static": True})
    output: str = field(metadata={"static": True})
    polish_steps: int = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """``T``."""
        return self.budget.steps


def config(
    *,
    users: int,
    steps: int,
    mu: float,
    bounds: Bounds,
    batch: int | None = None,
    clip_norm: float | str = 1.0,
    theta0: ArrayLike | None = None,
    step_size: ArrayLike | None = None,
    optimizer: Callable[..., optax.GradientTransformation] = optax.sgd,
    output: str = "last",
    kernel: Kernel = kernels.rbf,
    kernel_params: KernelParams = None,
    noise_variance: float = 1e-4,
    tolerance: float | None = None,
    memory: str = "all",
    neighbours: int = 0,
    noise: str = "exact",
    polish_steps: int = 16,
    allow_incomplete_gradient: bool = False,
) -> Config:
    """Check a configuration and make its leaves canonical. The defaults are Algorithm 1 as published.

    Every argument must be chosen without looking at the users' losses; the guarantee says so.

    Args:
      users: ``n``, how many losses the objective returns; taken to be public.
      steps: ``T``.
      mu: the total GDP budget; ``inf`` is exactly the non-private algorithm.
      bounds: ``(2, d)``, lower and upper; iterates and evaluations stay inside. Infinite sides are allowed where
        ``step_size``, ``theta0`` and ``kernel_params`` are given.
      batch: ``b``, evaluations a step; with ``tolerance``, the cap. ``d + 1`` where not given.
      clip_norm: ``B``, the bound on one user's gradient. Noise grows with it, bias shrinks. "private" finds it in the
        first step, from the median of their norms, for 5 % of ``mu^2``; the optimizer gets gradients in units of it.
      theta0: where to start; the middle of the box where not given.
      step_size: one number or ``(d,)``, passed to ``optimizer``; the half-width of the box where not given.
      optimizer: an optax factory called as ``optimizer(step_size)``, such as ``optax.sgd``, ``optax.adagrad`` (which
        begins its sum of squares at 0.1, the published rule at 0: plain descent while gradients stay under that).
      output: what ``release`` names ``point``: "last", the last iterate, or "last_half_mean", the mean of the
        second half of the path. Both are post-processing.
      kernel: of the surrogate, from ``jaxdpbo.surrogate.kernels``.
      kernel_params: its numbers; for a stationary kernel, the half-width of the box as lengthscales where not given.
      noise_variance: of one observation (section 3.4). Under ``gp.jitter(dtype) k(x, x)`` it is raised to that.
      tolerance: Algorithm 2's epsilon, on the trace of the gradient's covariance.
      memory: which earlier points a step uses: "all", the ``neighbours`` "nearest" in correlation, or "none".
      neighbours: for "nearest".
      noise: "exact", on an integer grid; "float", faster, for research sweeps; or "none" (only with ``mu = inf``).
      polish_steps: gradient steps on the acquisition after the best structured start.
      allow_incomplete_gradient: permit memory "none" with fewer than ``d + 1`` points, which can not determine a
        gradient.

    Raises:
      ValueError: a number out of range, a wrong shape, bounds reversed, ``theta0`` outside; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gibo
    >>> chosen = dp_gibo.config(users=500, steps=5, mu=1.0, bounds=[(0, 6)] * 3)
    >>> dp_gibo.algorithm.privacy(chosen).level <= 1.0
    True
    """
    limits = _checks.box("bounds", bounds, finite=False)
    dimension = limits.shape[1]
    start = _checks.inside("theta0", _checks.from_box("theta0", theta0, limits, _checks.middle), limits)
    sizes = _checks.step_size(step_size, limits)
    if kernel_params is None:
        lengthscale = _checks.from_box("kernel_params", None, limits, _checks.half_width)
        kernel_params = kernels.stationary(lengthscale, dimension)
    kernels.check(kernel, kernel_params, dimension)
    _checks.optimizer("optimizer", optimizer, dimension)

    points = dimension + 1 if batch is None else _checks.size("batch", batch)
    _checks.choice("memory", memory, MEMORIES)
    incomplete = _checks.flag("allow_incomplete_gradient", allow_incomplete_gradient)
    if memory == "none" and points < dimension + 1 and not incomplete:
        raise ValueError(
            f"batch must be at least d + 1 = {dimension + 1} with memory='none', got {points}: fewer points can "
            "not determine a gradient (allow_incomplete_gradient=True permits it)"
        )
    neighbours = _checks.size("neighbours", neighbours, minimum=1 if memory == "nearest" else 0)
    if memory != "nearest" and neighbours:
        raise ValueError(f"neighbours must be 0 unless memory='nearest', got {neighbours}")
    dtype = jnp.result_type(float)
    leaf = partial(jnp.asarray, dtype=dtype)
    return Config(
        budget=calibration.budget(
            mu, noise, users=users, steps=steps, dimension=dimension, dtype=dtype, find_scale=isinstance(clip_norm, str)
        ),
        clip_norm=leaf(private_scale.clip_norm(clip_norm, dtype)),
        step_size=leaf(sizes),
        tolerance=leaf(0.0 if tolerance is None else _checks.positive("tolerance", tolerance, dtype=dtype)),
        model=gp.Model(kernel, kernel_params, leaf(_checks.positive("noise_variance", noise_variance, dtype=dtype))),
        bounds=leaf(limits),
        theta0=leaf(start),
        batch=points,
        neighbours=neighbours,
        memory=memory,
        optimizer=optimizer,
        adaptive=tolerance is not None,
        output=_checks.choice("output", output, descent.OUTPUTS),
        polish_steps=_checks.size("polish_steps", polish_steps, minimum=0),
    )


class Public(NamedTuple):
    """Released, or independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      clip_norm: ``()``, as found privately, 0 until then; None where it is given.
      theta: ``(d,)``, the iterate.
      optimizer: the optax state: a function of privatised gradients.
      points: ``(m, d)`` evaluated points, ``m = T b`` (0 rows with memory "none").
      mask: ``(m,)``.
      used: ``()`` rows used.
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
    """

    point: jax.Array
    path: jax.Array
    trace: jax.Array
    clip_norm: jax.Array | None


def init(key: jax.Array, config: Config) -> State:
    """The state before the first step; ``key`` is unused."""
    del key
    dtype, (dimension,) = config.theta0.dtype, config.theta0.shape
    capacity = 0 if config.memory == "none" else config.steps * config.batch
    nothing = gp.empty(capacity, dimension, dtype)
    public = Public(
        step=jnp.zeros((), jnp.int32),
        budget=calibration.noise_settings(config.budget, config.clip_norm),
        clip_norm=None if config.budget.scale is None else config.clip_norm,
        theta=config.theta0,
        optimizer=config.optimizer(config.step_size).init(config.theta0),
        points=nothing.points,
        mask=nothing.mask,
        used=nothing.used,
        whitening=nothing.whitening if config.memory == "all" else None,
        path=jnp.zeros((config.steps + 1, dimension), dtype).at[0].set(config.theta0),
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
        known = config.model, factorization, public.theta, config.bounds
        if config.adaptive:
            return gradient_design.smallest(*known, config.tolerance, **sizes)
        return gradient_design.fixed(*known, **sizes)

    return Query(*_staged(config, _recall(config, public)[0], design))


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
    settings = calibration.noise_settings(config.budget, config.clip_norm)
    active = (public.step < config.steps) & calibration.same_noise(public.budget, settings)
    known, kept = _recall(config, public)
    losses_now = gp.masked(query.mask, values.astype(losses.dtype))
    noise_key, clip_norm = private_mean.clip_norm(
        key, config.budget, config.clip_norm, public.step, public.clip_norm,
        lambda: clipping.l2_norms(gradient.of_each(config.model, *query[:2], public.theta, losses_now)),
    )  # fmt: skip

    if config.memory != "none":
        losses = gp.write(losses, losses_now, public.used, active)
    memory = losses if config.memory == "all" else jnp.concatenate([state.private.losses[kept], losses_now])

    def estimate(known: gp.Factorization) -> tuple[Any, ...]:
        rows = gp.extension(config.model, known, query.points, query.mask)
        extended = gp.extend(known, query.points, query.mask, rows)
        weights = gradient.weights(config.model, extended, public.theta)
        trace = gradient.gradient_information(config.model, extended, public.theta)
        padding = ((0, 0), (0, room - rows.shape[1]))
        total = clipping.clipped_sum(weights, memory, clip_norm, calibration.grid(config.budget))
        return jnp.pad(rows, padding), trace, total

    room = known.points.shape[0]
    rows, trace, (total, clipped, nonfinite) = _staged(config, known, estimate)
    noisy, mean = private_mean.of_vectors(noise_key, config.budget, total, clip_norm)
    theta, optimizer = descent.move(
        config.optimizer, config.step_size, config.bounds, noisy, public.optimizer, public.theta
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
        after = after._replace(**gp.extend(known, query.points, query.mask, rows, when=active)._asdict())
    elif config.memory == "nearest":
        after = after._replace(
            points=gp.write(public.points, query.points, public.used, active),
            mask=gp.write(public.mask, query.mask, public.used, active),
            used=advance(public.used + config.batch, public.used),
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
    return Release(answer, public.path, public.trace, public.clip_norm)


def privacy(config: Config) -> guarantee.Guarantee:
    """``mu``-GDP for replace-one on the users (Lemma 3.1), of everything in ``Release``; none at ``mu = inf``.

    Raises:
      ValueError: a stacked config; take one.
    """
    return calibration.statement(config.budget, guarantee.USERS)


algorithm = Algorithm(init, ask, tell, release, privacy)


def _staged(config: Config, factorization: gp.Factorization, function: Callable[[gp.Factorization], Any]) -> Any:
    """``function`` of the posterior, on no more rows than it needs where the memory grows."""
    return gp.staged(factorization, config.batch, function) if config.memory == "all" else function(factorization)


def _recall(config: Config, public: Public) -> tuple[gp.Factorization, jax.Array]:
    """The posterior a step starts from, with room for a batch, and the rows of the buffer it holds."""
    if config.memory == "all":
        assert public.whitening is not None
        rows = jnp.arange(public.points.shape[0])
        return gp.Factorization(public.points, public.mask, public.whitening, public.used), rows
    kept = min(config.neighbours, public.points.shape[0])
    rows = gp.nearest(config.model, public.points, public.mask, public.theta, kept)
    return gp.room_for(config.model, public.points[rows], public.mask[rows], config.batch), rows

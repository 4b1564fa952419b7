"""DP-GD: gradient descent along the privatised mean of every user's true gradient.

The baseline of Sopa et al. (2025) for DP-GIBO in example 4.2 (there "noisy gradient descent", after Bassily, Smith and
Thakurta 2014): Algorithm 1 with each user's gradient known instead of inferred, the same clip and the same noise. The
loss must be differentiable.

Notation: ``n`` users, ``T`` steps, ``d`` parameters, ``B`` the clip norm, ``theta`` the iterate. Each step takes every
user's gradient at ``theta``, clips it to norm ``B``, and moves along the mean plus Gaussian noise of standard deviation
``2 B sqrt(T) / (n mu)``.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxdpbo import arrays, checks, namespace, types
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.noise import calibration, clipping, guard, private_mean, private_scale, totals, wide_integers
from jaxdpbo.separable import ByPerson
from jaxdpbo.surrogate import descent
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Info, Memory, Objective, Query, State

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "config",
    "gradient_objective",
]
__dir__ = namespace.list_public(__name__)


@functools.cache
def gradient_objective(loss: Objective) -> Objective:
    """Make the objective of DP-GD, ``(point, data) -> gradients (d, n)``, from ``(point (d,), data) -> losses (n,)``.

    Takes ``d`` directional derivatives at once. The same loss gives the same function, so nothing recompiles: define
    the loss once. With ``by_person``, differentiate the losses of each person's rows.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import dp_gd
    >>> objective = dp_gd.gradient_objective(lambda point, data: (data - point[0]) ** 2)
    >>> objective(jnp.array([1.0]), jnp.array([3.0, 0.0])).tolist()
    [[-4.0, 2.0]]
    """
    if isinstance(loss, ByPerson):
        return loss.replace_objective(gradient_objective(loss.rows))

    def gradients(point: Any, data: Any) -> jax.Array:
        point = jnp.asarray(point)

        def along(direction):
            return jax.jvp(lambda at: loss(at, data), (point,), (direction,))[1]

        return jax.vmap(along)(jnp.eye(point.shape[0], dtype=point.dtype))

    return gradients


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of a run; made by ``config``. All of it is public.

    Traced: the numbers of ``noise``, ``clip_norm ()``, ``step_size (d,)``, ``bounds (2, d)``, ``theta0 (d,)``. The
    rest is static. ``noise`` holds ``n`` and ``T`` too: see ``noise.calibration``.
    """

    noise: calibration.SumNoise
    clip_norm: jax.Array
    step_size: jax.Array
    bounds: jax.Array
    theta0: jax.Array
    optimizer: Callable[..., optax.GradientTransformation] = field(metadata={"static": True})
    output: str = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """Number of users ``n``."""
        return self.noise.users

    @property
    def steps(self) -> int:
        """Number of steps ``T``."""
        return self.noise.steps

    @property
    def space(self) -> None:
        """None: the objective gets points."""
        return


def config(
    *,
    users: int,
    steps: int,
    mu: float,
    bounds: Bounds,
    clip_norm: float | str = 1.0,
    theta0: ArrayLike | None = None,
    step_size: ArrayLike | None = None,
    optimizer: Callable[..., optax.GradientTransformation] = optax.sgd,
    output: str = "last",
    noise: str = "exact",
) -> Config:
    """Check a configuration and make its leaves canonical.

    Choose every argument without looking at the users' gradients: the guarantee assumes this.

    Args:
      users: ``n``, the number of gradients returned by the objective; taken to be public.
      steps: ``T``.
      mu: the total GDP budget; ``inf`` is exactly descent along clipped gradients.
      bounds: ``(2, d)``, lower and upper; iterates stay inside. Infinite sides are allowed if you pass ``step_size``
        and ``theta0``.
      clip_norm: ``B``, the bound on one user's gradient, or "private": see ``dp_gibo.config``.
      theta0: the start; default: the middle of the box.
      step_size: a number or ``(d,)``, passed to ``optimizer``; default: the half-width of the box.
      optimizer: an optax factory called as ``optimizer(step_size)``, such as ``optax.sgd``, ``optax.adagrad``.
      output: the ``point`` of ``release``: "last", the last iterate, or "last_half_mean", the mean of the second half
        of the path. Both are post-processing.
      noise: "exact", on an integer grid; "float", faster, for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range, a wrong shape, bounds reversed, ``theta0`` outside; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gd
    >>> chosen = dp_gd.config(users=500, steps=5, mu=1.0, bounds=[(0, 6)] * 3)
    >>> dp_gd.algorithm.privacy(chosen).level <= 1.0
    True
    """
    limits = checks.box("bounds", bounds, finite=False)
    start = checks.inside("theta0", checks.from_box("theta0", theta0, limits, checks.middle), limits)
    sizes = checks.step_size(step_size, limits)
    checks.optimizer("optimizer", optimizer, limits.shape[1])
    dtype = jnp.result_type(float)

    def leaf(value: Any) -> jax.Array:
        return arrays.to_device(value, dtype)

    return Config(
        noise=calibration.sum_noise(
            mu,
            noise,
            users=users,
            steps=steps,
            dimension=limits.shape[1],
            dtype=dtype,
            find_scale=isinstance(clip_norm, str),
        ),
        clip_norm=leaf(private_scale.clip_norm(clip_norm, dtype)),
        step_size=leaf(sizes),
        bounds=leaf(limits),
        theta0=leaf(start),
        optimizer=optimizer,
        output=checks.one_of("output", output, descent.OUTPUTS),
    )


class PublicState(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      noise: all noise settings at the start of the run.
      clip_norm: ``()``, found privately, 0 before; None if you set a clip norm.
      theta: ``(d,)``, the iterate.
      optimizer: the optax state: a function of privatised gradients.
      path: ``(T + 1, d)``: theta0 and every later iterate; rows beyond ``step`` are zero.
    """

    step: jax.Array
    noise: calibration.NoiseSettings
    clip_norm: jax.Array | None
    theta: jax.Array
    optimizer: Any
    path: jax.Array


class Release(NamedTuple):
    """Everything you may publish.

    Attributes:
      point: ``(d,)``, the answer.
      path: ``(T + 1, d)``, theta0 and every iterate; covered by the same guarantee.
      clip_norm: ``()``, found privately, and covered too; None if you set a clip norm.
    """

    point: jax.Array
    path: jax.Array
    clip_norm: jax.Array | None


def init(key: jax.Array, config: Config) -> State:
    """Make the state before the first step; nothing raw is kept. ``key`` is unused."""
    del key
    path = jnp.zeros((config.steps + 1, config.theta0.shape[0]), config.theta0.dtype)
    public = PublicState(
        step=jnp.zeros((), jnp.int32),
        noise=_settings(config),
        clip_norm=None if config.noise.scale is None else config.clip_norm,
        theta=config.theta0,
        optimizer=config.optimizer(config.step_size).init(config.theta0),
        path=path.at[0].set(config.theta0),
    )
    return State(public)


class Broadcast(NamedTuple):
    """Public inputs of ``contribute``: the ``clip_norm ()``."""

    clip_norm: jax.Array


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Query the iterate. Reads ``state.public`` only; ``key`` is unused."""
    del key
    public = state.public
    is_private = public.clip_norm is not None
    return Query(
        public.theta[None],
        jnp.ones(1, bool),
        broadcast=Broadcast(public.clip_norm if is_private else config.clip_norm),
        survey=public.step == 0 if is_private else None,
    )


def contribute(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, Memory]:
    """Clip each user's gradient, and sum.

    =================================  ==================================================
    case                               result
    =================================  ==================================================
    a user's gradient NaN or infinite  that user counts as zero
    values at a masked point           every user counts as zero
    =================================  ==================================================

    Args:
      config: see ``config``.
      query: from ``ask``.
      memory: ``()``.
      values: ``(1, d, s)``, the users' gradients at the iterate.
      present: ``(s,)``, False at padding columns, which belong to no user.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    gradients, clip_norm = _gradients(config, query, values, present), _clip_norm(config, query)
    total, clipped, nonfinite = clipping.sum_clipped_vectors(config.noise, gradients, clip_norm, present)
    return totals.UserTotal(total, {"clipped": clipped, "nonfinite": nonfinite}), memory


def survey(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> wide_integers.Wide:
    """Count the gradients of norm at most each power of two: ``private_scale.count_differences``."""
    del memory
    return private_scale.count_differences(clipping.l2_norms(_gradients(config, query, values, present)), present)


def refine(key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    """Find the clip norm by noisy counts: ``private_scale.level(noise.scale)``-GDP. Other steps keep the norm."""
    assert config.noise.scale is not None
    assert query.survey is not None
    norm = private_scale.median_of_counts(key, config.noise.scale, whole, config.users, config.clip_norm.dtype)
    norm = jnp.where(query.survey, private_scale.FACTOR * norm, query.broadcast.clip_norm)
    return query._replace(broadcast=query.broadcast._replace(clip_norm=norm))


def perturb(key: jax.Array, config: Config, query: Query, whole: totals.UserSum) -> totals.UserSum:
    """Add noise to the sum. This function spends the budget: ``mu / sqrt(T)`` a step.

    Formal guarantee: ``mu / sqrt(T)``-GDP given the earlier iterates, replace-one on users
    (``sensitivity.clipped_sum``), for any gradients; no noise at ``mu = inf``.
    """
    return private_mean.perturb_vectors(key, config.noise, whole, _clip_norm(config, query))


def tell(config: Config, state: State, query: Query, released: totals.UserSum) -> State:
    """Take one step along the noisy mean gradient.

    =================================  ==================================================
    case                               result
    =================================  ==================================================
    after step T, or with other noise  the state unchanged, see ``noise.guard``
    another optimizer, box             the run goes on: they act on released values
    =================================  ==================================================
    """
    public, clip_norm = state.public, _clip_norm(config, query)
    noisy = private_mean.mean_of_vectors(config.noise, released, clip_norm)
    if config.noise.scale is not None:
        noisy = noisy / clip_norm  # gradients in units of the clip norm: no other unit is known
    theta, optimizer = descent.move(
        config.optimizer, config.step_size, config.bounds, noisy, public.optimizer, public.theta
    )
    after = PublicState(
        step=public.step + 1,
        noise=public.noise,
        clip_norm=None if public.clip_norm is None else clip_norm,
        theta=theta,
        optimizer=optimizer,
        path=public.path.at[public.step + 1].set(theta),
    )
    return State(after)


def inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    """Compute diagnostics of one step. NOT PRIVATE.

    ``gradient (d,)``, the mean clipped gradient before noise; ``clipped_share ()`` of users; ``nonfinite_users ()``,
    the number counted as zero because their gradient was not finite.
    """
    raw = private_mean.skip_noise(config.noise, total.whole)
    mean = private_mean.mean_of_vectors(config.noise, raw, _clip_norm(config, query))
    clipped, nonfinite = total.facts["clipped"], total.facts["nonfinite"]
    return Info({"gradient": mean, "clipped_share": clipped / config.users, "nonfinite_users": nonfinite})


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the answer and the path: post-processing of the releases of ``perturb``; ``key`` is unused."""
    del key
    public = state.public
    return Release(descent.answer(public.path, public.step, config.output), public.path, public.clip_norm)


def privacy(config: Config) -> guarantees.Guarantee:
    """``mu``-GDP for replace-one on the users, for everything in ``Release``; no guarantee at ``mu = inf``.

    Raises:
      ValueError: a stacked config; pass a single config.
    """
    return composed_guarantee.gdp_guarantee(config.noise, guarantees.USERS)


def _settings(config: Config) -> calibration.NoiseSettings:
    return calibration.noise_settings(config.noise, config.clip_norm)


_steps = Algorithm(
    init, ask, tell, release, privacy, contribute=contribute, perturb=perturb, inform=inform, survey=survey,
    refine=refine,
)  # fmt: skip
algorithm = guard.guard_noise(_steps, _settings)


def _clip_norm(config: Config, query: Query) -> jax.Array:
    """Clip norm ``B ()``: the config's, unless found privately."""
    return config.clip_norm if config.noise.scale is None else query.broadcast.clip_norm


def _gradients(config: Config, query: Query, values: jax.Array, present: jax.Array | None) -> jax.Array:
    types.check_values(values, 1, len(config.theta0), present=present)
    return jnp.where(query.mask[0], values[0].astype(config.theta0.dtype), 0)

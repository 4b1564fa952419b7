"""DP-GD: gradient descent along the privatised mean of every user's true gradient.

The baseline that Sopa et al. (2025) set beside DP-GIBO in example 4.2 (there "noisy gradient descent", after Bassily,
Smith and Thakurta 2014): Algorithm 1 with each user's gradient known instead of inferred, the same clip and the same
noise. It needs a loss that can be differentiated.

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

from jaxdpbo import _checks
from jaxdpbo.privacy import calibration, clipping, guarantee, private_mean, private_scale
from jaxdpbo.privacy.separable import ByPerson
from jaxdpbo.surrogate import descent
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Objective, Query, State


@functools.cache
def gradients_of(loss: Objective) -> Objective:
    """The objective of DP-GD: from ``(point (d,), data) -> losses (n,)`` to ``(point, data) -> gradients (d, n)``.

    By ``d`` directional derivatives, taken at once. The same loss gives the same function, so nothing recompiles:
    define the loss once. Of ``by_person``: each person's rows' gradients, likewise.
    """
    if isinstance(loss, ByPerson):
        return loss.of(gradients_of(loss.rows))

    def gradients(point: Any, data: Any) -> jax.Array:
        point = jnp.asarray(point)

        def along(direction):
            return jax.jvp(lambda at: loss(at, data), (point,), (direction,))[1]

        return jax.vmap(along)(jnp.eye(point.shape[0], dtype=point.dtype))

    return gradients


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """What a run needs before it starts; made by ``config``. All of it is public.

    Traced: the numbers of ``budget``, ``clip_norm ()``, ``step_size (d,)``, ``bounds (2, d)``, ``theta0 (d,)``. The
    rest is static. ``budget`` holds ``n`` and ``T`` too: see ``privacy.calibration``.
    """

    budget: calibration.Budget
    clip_norm: jax.Array
    step_size: jax.Array
    bounds: jax.Array
    theta0: jax.Array
    optimizer: Callable[..., optax.GradientTransformation] = field(metadata={"static": True})
    output: str = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """``n``."""
        return self.budget.users

    @property
    def steps(self) -> int:
        """``T``."""
        return self.budget.steps

    @property
    def space(self) -> None:
        """The objective gets points."""
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

    Every argument must be chosen without looking at the users' gradients; the guarantee says so.

    Args:
      users: ``n``, how many gradients the objective returns; taken to be public.
      steps: ``T``.
      mu: the total GDP budget; ``inf`` is exactly descent along clipped gradients.
      bounds: ``(2, d)``, lower and upper; iterates stay inside. Infinite sides are allowed where ``step_size`` and
        ``theta0`` are given.
      clip_norm: ``B``, the bound on one user's gradient, or "private": see ``dp_gibo.config``.
      theta0: where to start; the middle of the box where not given.
      step_size: one number or ``(d,)``, passed to ``optimizer``; the half-width of the box where not given.
      optimizer: an optax factory called as ``optimizer(step_size)``, such as ``optax.sgd``, ``optax.adagrad``.
      output: what ``release`` names ``point``: "last", the last iterate, or "last_half_mean", the mean of the
        second half of the path. Both are post-processing.
      noise: "exact", on an integer grid; "float", faster, for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range, a wrong shape, bounds reversed, ``theta0`` outside; names the argument.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import dp_gd
    >>> chosen = dp_gd.config(users=500, steps=5, mu=1.0, bounds=[(0, 6)] * 3)
    >>> dp_gd.algorithm.privacy(chosen).level <= 1.0
    True
    """
    limits = _checks.box("bounds", bounds, finite=False)
    start = _checks.inside("theta0", _checks.from_box("theta0", theta0, limits, _checks.middle), limits)
    sizes = _checks.step_size(step_size, limits)
    _checks.optimizer("optimizer", optimizer, limits.shape[1])
    dtype = jnp.result_type(float)

    def leaf(value: Any) -> jax.Array:
        return jnp.asarray(value, dtype)

    return Config(
        budget=calibration.budget(
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
        output=_checks.choice("output", output, descent.OUTPUTS),
    )


class Public(NamedTuple):
    """Released, or independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      clip_norm: ``()``, as found privately, 0 until then; None where it is given.
      theta: ``(d,)``, the iterate.
      optimizer: the optax state: a function of privatised gradients.
      path: ``(T + 1, d)``: theta0 and every iterate after it; rows beyond ``step`` are zero.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    clip_norm: jax.Array | None
    theta: jax.Array
    optimizer: Any
    path: jax.Array


class Info(NamedTuple):
    """NOT PRIVATE: raw data of one step.

    Attributes:
      gradient: ``(d,)``, the mean clipped gradient before noise.
      clipped_share: ``()``, the share of users whose gradient was clipped.
      nonfinite_users: ``()``, how many users counted as zero because their gradient was not finite.
      factorisation_failed: None: there is no covariance.
    """

    gradient: jax.Array
    clipped_share: jax.Array
    nonfinite_users: jax.Array
    factorisation_failed: None


class Release(NamedTuple):
    """What may be published.

    Attributes:
      point: ``(d,)``, the answer.
      path: ``(T + 1, d)``, theta0 and every iterate; covered by the same guarantee.
      clip_norm: ``()``, as found privately; None where it is given. Covered too.
    """

    point: jax.Array
    path: jax.Array
    clip_norm: jax.Array | None


def init(key: jax.Array, config: Config) -> State:
    """The state before the first step; nothing raw is ever kept. ``key`` is unused."""
    del key
    path = jnp.zeros((config.steps + 1, config.theta0.shape[0]), config.theta0.dtype)
    public = Public(
        step=jnp.zeros((), jnp.int32),
        budget=calibration.noise_settings(config.budget, config.clip_norm),
        clip_norm=None if config.budget.scale is None else config.clip_norm,
        theta=config.theta0,
        optimizer=config.optimizer(config.step_size).init(config.theta0),
        path=path.at[0].set(config.theta0),
    )
    return State(public, None)


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """The iterate. Reads ``state.public`` only; ``key`` is unused."""
    del key, config
    return Query(state.public.theta[None], jnp.ones(1, bool))


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """One private step. Here the budget is paid: ``mu / sqrt(T)`` a step.

    Formal guarantee: ``mu / sqrt(T)``-GDP for the new iterate given the earlier ones, replace-one on users
    (``sensitivity.clipped_sum``), whatever the gradients are.

    =================================  ==================================================
    case                               result
    =================================  ==================================================
    ``state.public.step == T``         the state unchanged: nothing more is released
    begun with other noise             likewise: the guarantee is of one budget
    another optimizer, box             the run goes on: they act on what was released
    a user's gradient NaN or infinite  that user counts as zero
    values at a masked point           every user counts as zero; the noise is added
    ``mu = inf``                       no noise
    =================================  ==================================================

    Args:
      key: for the noise; used once.
      config: see ``config``.
      state: before the step.
      query: what was asked.
      values: ``(1, d, n)``, every user's gradient at the iterate.

    Returns:
      The state after the step, and raw diagnostics.

    Raises:
      ValueError: ``values`` is not ``(1, d, n)``, at trace time.
    """
    wanted = (1, config.theta0.shape[0], config.users)
    if values.shape != wanted:
        raise ValueError(f"values must have shape {wanted}, got {values.shape}")
    public = state.public
    settings = calibration.noise_settings(config.budget, config.clip_norm)
    active = (public.step < config.steps) & calibration.same_noise(public.budget, settings)
    gradients = jnp.where(query.mask[0], values[0].astype(public.theta.dtype), 0)
    noise_key, clip_norm = private_mean.clip_norm(
        key, config.budget, config.clip_norm, public.step, public.clip_norm,
        lambda: clipping.l2_norms(gradients),
    )  # fmt: skip
    total, clipped, nonfinite = clipping.summed(gradients, clip_norm, calibration.grid(config.budget))
    noisy, mean = private_mean.of_vectors(noise_key, config.budget, total, clip_norm)
    theta, optimizer = descent.move(
        config.optimizer, config.step_size, config.bounds, noisy, public.optimizer, public.theta
    )
    after = Public(
        step=public.step + 1,
        budget=public.budget,
        clip_norm=None if public.clip_norm is None else clip_norm,
        theta=theta,
        optimizer=optimizer,
        path=public.path.at[public.step + 1].set(theta),
    )
    after = jax.tree.map(lambda new, old: jnp.where(active, new, old), after, public)
    info = Info(mean, clipped / config.users, nonfinite, None)
    return State(after, None), info


def release(key: jax.Array, config: Config, state: State) -> Release:
    """The answer and the path: post-processing of what ``tell`` released; ``key`` is unused."""
    del key
    public = state.public
    return Release(descent.answer(public.path, public.step, config.output), public.path, public.clip_norm)


def privacy(config: Config) -> guarantee.Guarantee:
    """``mu``-GDP for replace-one on the users, of everything in ``Release``; none at ``mu = inf``.

    Raises:
      ValueError: a stacked config; take one.
    """
    return calibration.statement(config.budget, guarantee.USERS)


algorithm = Algorithm(init, ask, tell, release, privacy)

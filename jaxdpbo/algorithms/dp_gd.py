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

from jaxdpbo import _arrays, _checks, types
from jaxdpbo.privacy import calibration, clipping, guarantee, private_mean, private_scale, totals, wide_integers
from jaxdpbo.privacy.separable import ByPerson
from jaxdpbo.surrogate import descent
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Memory, Objective, Query, State


@functools.cache
def gradient_objective(loss: Objective) -> Objective:
    """The objective of DP-GD: from ``(point (d,), data) -> losses (n,)`` to ``(point, data) -> gradients (d, n)``.

    By ``d`` directional derivatives, taken at once. The same loss gives the same function, so nothing recompiles:
    define the loss once. Of ``by_person``: each person's rows' gradients, likewise.
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
    """What a run needs before it starts; made by ``config``. All of it is public.

    Traced: the numbers of ``budget``, ``clip_norm ()``, ``step_size (d,)``, ``bounds (2, d)``, ``theta0 (d,)``. The
    rest is static. ``budget`` holds ``n`` and ``T`` too: see ``privacy.calibration``.
    """

    budget: calibration.SumBudget
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
        return _arrays.to_device(value, dtype)

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
    """The state before the first step; nothing raw is kept. ``key`` is unused."""
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
    return State(public)


class Work(NamedTuple):
    """What users need to know: the ``clip_norm ()``, and whether a step is left: ``active ()``."""

    clip_norm: jax.Array
    active: jax.Array


class Facts(NamedTuple):
    """Sums over users, raw: how many were ``clipped ()``, and how many counted as zero, ``nonfinite ()``."""

    clipped: jax.Array
    nonfinite: jax.Array


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """The iterate. Reads ``state.public`` only; ``key`` is unused."""
    del key
    public = state.public
    active, found = _active(config, public), public.clip_norm is not None
    return Query(
        public.theta[None],
        jnp.ones(1, bool),
        work=Work(public.clip_norm if found else config.clip_norm, active),
        survey=active & (public.step == 0) if found else None,
    )


def contribute(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.Total, Memory]:
    """Each user's clipped gradient, and their sum.

    =================================  ==================================================
    case                               result
    =================================  ==================================================
    a user's gradient NaN or infinite  that user counts as zero
    values at a masked point           every user counts as zero
    a query after step T               zero
    =================================  ==================================================

    Args:
      config: see ``config``.
      query: what was asked.
      memory: ``()``.
      values: ``(1, d, s)``, the users' gradients at the iterate.
      present: ``(s,)``, False at columns that stand for nobody.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    gradients, radius = _gradients(config, query, values, present), calibration.grid(config.budget)
    total, clipped, nonfinite = clipping.clip_and_sum(gradients, _clip_norm(config, query), radius, present)
    return totals.Total(totals.only_if(query.work.active, total), Facts(clipped, nonfinite)), memory


def survey(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> wide_integers.Wide:
    """How many gradients are at most as long as each power of two: ``private_scale.count``."""
    del memory
    return private_scale.count(clipping.l2_norms(_gradients(config, query, values, present)), present)


def refine(key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    """Find the clip norm by noisy counts: ``private_scale.level(budget.scale)``-GDP. In other steps it stays."""
    assert config.budget.scale is not None
    assert query.survey is not None
    norm = private_scale.median_of_counts(key, config.budget.scale, whole, config.users, config.clip_norm.dtype)
    norm = jnp.where(query.survey, private_scale.FACTOR * norm, query.work.clip_norm)
    return query._replace(work=query.work._replace(clip_norm=norm))


def perturb(key: jax.Array, config: Config, query: Query, whole: totals.Sum) -> totals.Sum:
    """The noisy sum. Here the budget is paid: ``mu / sqrt(T)`` a step.

    Formal guarantee: ``mu / sqrt(T)``-GDP given the earlier iterates, replace-one on users
    (``sensitivity.clipped_sum``), whatever the gradients are; no noise at ``mu = inf``. Zeros after step T.
    """
    released = private_mean.perturb_vectors(key, config.budget, whole, _clip_norm(config, query))
    return totals.only_if(query.work.active, released)


def tell(config: Config, state: State, query: Query, released: totals.Sum) -> State:
    """One step along the noisy mean gradient.

    =================================  ==================================================
    case                               result
    =================================  ==================================================
    ``state.public.step == T``         the state unchanged: nothing more is released
    begun with other noise             likewise: the guarantee is of one budget
    another optimizer, box             the run goes on: they act on what was released
    =================================  ==================================================
    """
    public, clip_norm = state.public, _clip_norm(config, query)
    noisy = private_mean.mean_of_vectors(config.budget, released, clip_norm)
    if config.budget.scale is not None:
        noisy = noisy / clip_norm  # who could not state it knows no other unit
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
    active = _active(config, public)
    return State(jax.tree.map(lambda new, old: jnp.where(active, new, old), after, public))


def inform(config: Config, query: Query, total: totals.Total) -> Info:
    """Diagnostics of one step. NOT PRIVATE."""
    raw = private_mean.skip_noise(config.budget, total.whole)
    mean = private_mean.mean_of_vectors(config.budget, raw, _clip_norm(config, query))
    return Info(mean, total.facts.clipped / config.users, total.facts.nonfinite, None)


def release(key: jax.Array, config: Config, state: State) -> Release:
    """The answer and the path: post-processing of what ``perturb`` released; ``key`` is unused."""
    del key
    public = state.public
    return Release(descent.answer(public.path, public.step, config.output), public.path, public.clip_norm)


def privacy(config: Config) -> guarantee.Guarantee:
    """``mu``-GDP for replace-one on the users, of everything in ``Release``; none at ``mu = inf``.

    Raises:
      ValueError: a stacked config; take one.
    """
    return calibration.statement(config.budget, guarantee.USERS)


algorithm = Algorithm(
    init, ask, tell, release, privacy, contribute=contribute, perturb=perturb, inform=inform, survey=survey,
    refine=refine,
)  # fmt: skip


def _active(config: Config, public: Public) -> jax.Array:
    """Whether a step is left, under the budget that the run was begun with."""
    settings = calibration.noise_settings(config.budget, config.clip_norm)
    return (public.step < config.steps) & calibration.same_noise(public.budget, settings)


def _clip_norm(config: Config, query: Query) -> jax.Array:
    """``B ()``: the config's, unless it is found privately."""
    return config.clip_norm if config.budget.scale is None else query.work.clip_norm


def _gradients(config: Config, query: Query, values: jax.Array, present: jax.Array | None) -> jax.Array:
    types.check_values(values, 1, len(config.theta0), present=present)
    return jnp.where(query.mask[0], values[0].astype(config.theta0.dtype), 0)

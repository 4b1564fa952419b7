"""Steps of private evaluations: state, queries, sums over users, and the only place where a run spends its budget."""

from functools import lru_cache
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxdpbo import types
from jaxdpbo.algorithms.private_evaluations.configs import Config
from jaxdpbo.guarantee import composed_guarantee, guarantees
from jaxdpbo.noise import calibration, guard, private_mean, private_scale, totals, wide_integers
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Info, Memory, Query, State


class PublicState(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      noise: all noise settings at the start of the run.
      inner: the whole state of the inner algorithm, its "private" part included: it received released values only.
      points: ``(T b, d)`` evaluated so far.
      values: ``(T b,)`` released mean losses; NaN where nothing was evaluated, and on a design.
      high: ``()``, the end of the range found privately, 0 before; None if you set a range.
    """

    step: jax.Array
    noise: calibration.NoiseSettings
    inner: Any
    points: jax.Array
    values: jax.Array
    high: jax.Array | None


class UserMemory(NamedTuple):
    """Raw memory of users on the design.

    ``reference (s,)`` is the loss at the first point, and ``largest (s,)`` the largest difference from it.
    """

    reference: jax.Array
    largest: jax.Array


class Broadcast(NamedTuple):
    """Public inputs of ``contribute``.

    Attributes:
      step: ``()``.
      learning: ``()``, whether the means are released: not on a design.
      designing: ``()``, whether the points belong to the design.
      finding: ``()``, whether the points are the last of the design: the range is found after this step.
      high: ``()``, the end of the range; 0 before it is found.
    """

    step: jax.Array
    learning: jax.Array
    designing: jax.Array
    finding: jax.Array
    high: jax.Array


class EvaluationTotal(NamedTuple):
    """Sums over users: ``means (b,)``, see ``private_mean.sum_clipped_losses``, and on a design ``counts (81,)`` of
    largest differences, otherwise None.
    """

    means: totals.UserSum
    counts: wide_integers.Wide | None


class NoisyEvaluation(NamedTuple):
    """Releases of a step.

    Attributes:
      means: ``(b,)``, see ``private_mean.perturb_losses``.
      high: ``()``, the end of the range, found now or before; None if you set a range.
      key: of the inner ``tell``, for the starts of a fit. Public randomness, used for nothing else.
    """

    means: totals.UserSum
    high: jax.Array | None
    key: jax.Array


class Release(NamedTuple):
    """Everything you may publish.

    Attributes:
      point: ``(d,)``, the inner algorithm's answer.
      row: ``()``, the candidate's row, if the inner algorithm searches a finite set; otherwise None.
      points: ``(T b, d)``, every point evaluated, except those of a design.
      values: ``(T b,)``, every released mean loss; NaN where nothing was evaluated.
      high: ``()``, the end of the range found privately; None if you set a range.
      params: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    row: jax.Array | None
    points: jax.Array
    values: jax.Array
    high: jax.Array | None
    params: dict[str, Any] | None = None


@lru_cache
def make_algorithm(inner: Algorithm) -> Algorithm:
    """Run ``inner`` on released values only. Cached by inner algorithm, so runs are not compiled twice.

    Formal guarantee: ``mu``-GDP, replace-one, for the answer and for all points and values together.

    Its ``contribute`` takes ``values (b, s)``, users' losses:

    ==========================================  ======================================================
    case                                        result
    ==========================================  ======================================================
    after step T, or with other noise           the state unchanged, see ``noise.guard``
    another inner config of the same sizes      the run goes on: it acts on released values
    the steps on a design                       release the range alone, after the last
    a loss outside the range                    counts as the end of the range
    a loss NaN or infinite                      counts as the upper end of the range, the worst
    a masked point                              not released: the mask passes on to the inner algorithm
    an inner algorithm with a ``contribute``    refused: no user's loss would reach it
    one with a flag ``factorisation_failed``    refused at trace time: nothing passes the flag on
    ==========================================  ======================================================

    >>> from jaxdpbo import private_evaluations, random_search
    >>> private_evaluations.make_algorithm(random_search.algorithm).contribute is not None
    True
    """
    if inner.contribute is not None:
        raise ValueError("inner must be an algorithm that takes one value a point, such as gp_ucb.algorithm")

    def init(key, config):
        within = inner.init(key, config.inner)
        dimension = jax.eval_shape(lambda: inner.ask(key, config.inner, within)).points.shape[1]
        count, dtype = config.steps * config.batch, config.low.dtype
        public = PublicState(
            step=jnp.zeros((), jnp.int32),
            noise=_settings(config),
            inner=within,
            points=jnp.zeros((count, dimension), dtype),
            values=jnp.full(count, jnp.nan, dtype),
            high=None if config.design is None else config.high,
        )
        return State(public)

    def ask(key, config, state):
        public = state.public
        query = inner.ask(key, config.inner, public.inner)
        high = config.high if public.high is None else public.high
        designing = public.step < config.design_steps
        finding = public.step == config.design_steps - 1
        query = query._replace(broadcast=Broadcast(public.step, ~designing, designing, finding, high))
        if config.design is None:
            return query
        start = jnp.minimum(public.step * config.batch, len(config.design) - config.batch)
        points = jax.lax.dynamic_slice_in_dim(config.design, start, config.batch)
        return query._replace(points=jnp.where(designing, points, query.points), mask=query.mask | designing)

    def tell(config, state, query, released):
        public = state.public
        learning = query.broadcast.learning
        means = private_mean.mean_of_losses(config.noise, released.means, *_range(config, query))
        inner_values = -means if config.inner.users is None else means[:, None]
        within, info = inner.tell(released.key, config.inner, public.inner, query, inner_values)
        if info.factorisation_failed is not None:
            raise ValueError("inner must be an algorithm without a flag on its points (factorisation_failed)")
        start = jnp.minimum(public.step, config.steps - 1) * config.batch
        after = PublicState(
            step=public.step + 1,
            noise=public.noise,
            inner=jax.tree.map(lambda new, old: jnp.where(learning, new, old), within, public.inner),
            points=gp.write(public.points, query.points, start),
            values=gp.write(public.values, jnp.where(query.mask & learning, means, jnp.nan), start),
            high=None if public.high is None else released.high,
        )
        return State(after)

    def release(key, config, state):
        answer = inner.release(key, config.inner, state.public.inner)
        public, first = state.public, config.design_steps * config.batch
        return Release(answer.point, answer.row, public.points[first:], public.values[first:], public.high)

    steps = Algorithm(
        init, ask, tell, release, privacy, contribute=contribute, perturb=perturb, inform=inform, remember=remember,
        history=history,
    )  # fmt: skip
    return guard.guard_noise(steps, _settings)


def remember(config: Config, users: int) -> Memory:
    """Make the memory on a design, before any loss; otherwise ``()``."""
    nothing = jnp.zeros(users, config.low.dtype)
    return () if config.design is None else UserMemory(nothing, nothing)


def history(config: Config, state: State, query: Query) -> tuple[Query, ...]:
    """The whole design where the range is found, and its first step afterwards; before, nothing adds up."""
    del state
    broadcast = query.broadcast
    if config.design is None:
        return (query,)
    if broadcast.designing and not broadcast.finding:
        return ()
    no, yes = jnp.zeros((), bool), jnp.ones((), bool)
    designed = broadcast._replace(learning=no, designing=yes, finding=no)
    earlier = []
    for step in range(int(broadcast.step) if broadcast.finding else 1):
        points = config.design[step * config.batch : (step + 1) * config.batch]
        at_step = designed._replace(step=jnp.asarray(step, broadcast.step.dtype))
        earlier.append(query._replace(points=points, mask=jnp.ones_like(query.mask), broadcast=at_step))
    return (*earlier, query)


def contribute(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, Memory]:
    """Sum each user's clipped losses; after the last step on a design, also count the largest difference of each user.

    Args:
      config: see ``config``.
      query: from ``ask``.
      memory: of ``remember``, for the same users.
      values: ``(b, s)``, the users' losses.
      present: ``(s,)``, False at padding columns, which belong to no user.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    types.check_values(values, config.batch, memory=memory, present=present)
    values, counts = values.astype(config.low.dtype), None
    if config.design is not None:
        memory = _update_memory(cast(UserMemory, memory), query, values)
        counts = jax.lax.cond(
            query.broadcast.finding,
            lambda: private_scale.count_differences(memory.largest, present),
            lambda: totals.make_zeros(private_scale.count_differences, memory.largest),
        )
        values = values - memory.reference[None]
    means, clipped = private_mean.sum_clipped_losses(config.noise, values, *_range(config, query), present)
    whole = EvaluationTotal(totals.only_if(query.broadcast.learning, means), counts)
    return totals.UserTotal(whole, {"clipped": clipped}), memory


def perturb(key: jax.Array, config: Config, query: Query, whole: EvaluationTotal) -> NoisyEvaluation:
    """Return the noisy means, and after a design the range. This function spends the budget: see ``privacy``."""
    noise_key, inner_key = jax.random.split(key)
    high, scale = None, config.noise.scale
    if scale is not None:
        noise_key, scale_key = jax.random.split(noise_key)
        dtype = config.low.dtype

        counts = whole.counts
        assert counts is not None

        def find_range():
            norm = private_scale.median_of_counts(scale_key, scale, counts, config.users, dtype)
            return private_scale.FACTOR * norm

        high = jax.lax.cond(query.broadcast.finding, find_range, lambda: query.broadcast.high)
    means = private_mean.perturb_losses(noise_key, config.noise, whole.means, *_range(config, query))
    return NoisyEvaluation(totals.only_if(query.broadcast.learning, means), high, inner_key)


def inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    """Compute diagnostics of one step. NOT PRIVATE.

    ``mean_loss (b,)`` over users, clipped, before the noise; ``clipped (b,)``, the number of users with a clipped loss.
    """
    raw = private_mean.skip_noise(config.noise, total.whole.means)
    means = private_mean.mean_of_losses(config.noise, raw, *_range(config, query))
    return Info({"mean_loss": means, "clipped": total.facts["clipped"]})


def privacy(config: Config) -> guarantees.Guarantee:
    """Guarantee of all evaluations together: GDP, see ``composed_guarantee.gdp_guarantee``."""
    return composed_guarantee.gdp_guarantee(config.noise, guarantees.USERS)


def _settings(config: Config) -> calibration.NoiseSettings:
    designed = () if config.design is None else (jnp.asarray(config.design_steps, config.low.dtype),)
    return calibration.noise_settings(config.noise, config.low, config.high, *designed)


def _range(config: Config, query: Query) -> tuple[jax.Array, jax.Array]:
    """Range for clipping losses; before it is found, an arbitrary range, since no mean is released."""
    if config.design is None:
        return config.low, config.high
    high = jnp.where(query.broadcast.high > 0, query.broadcast.high, 1)
    return -high, high


def _update_memory(memory: UserMemory, query: Query, values: jax.Array) -> UserMemory:
    """Update the memory with losses ``(b, s)`` on the design."""
    designing = query.active & query.broadcast.designing
    reference = jnp.where(designing & (query.broadcast.step == 0), values[0], memory.reference)
    largest = jnp.maximum(memory.largest, private_scale.largest_differences(values, reference))  # NaN stays
    return UserMemory(reference, jnp.where(designing, largest, memory.largest))

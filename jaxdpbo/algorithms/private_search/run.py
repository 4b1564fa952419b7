"""The search: state, ask, tell, and what it releases."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.algorithms.private_search.configs import DESIGN_CHOICE, LAST_CHOICE, Config
from jaxdpbo.privacy import accounting, calibration, choice, guarantee
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Query, State


class Public(NamedTuple):
    """Released, or independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      inner: the inner algorithm's; ``()`` where there is none.
      points: ``(m, d)``, asked for so far, and
      evaluated: ``(m,)``, whether they were: an inner algorithm may mask some.
      chosen: ``(k,)``, the row of them that each choice was of, 0 where it was not made.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    points: jax.Array
    evaluated: jax.Array
    chosen: jax.Array


class Private(NamedTuple):
    """Raw: ``losses (m, n)``, and the inner algorithm's."""

    losses: jax.Array
    inner: Any


class Info(NamedTuple):
    """NOT PRIVATE. ``mean_loss (b,)`` over users; ``factorisation_failed``: the inner algorithm's."""

    mean_loss: jax.Array
    factorisation_failed: jax.Array | None


class Release(NamedTuple):
    """What may be published; all of it is covered by the guarantee.

    Attributes:
      point: ``(d,)``, chosen last.
      start: ``(d,)``, chosen in the designs: ``point``, where there is no inner algorithm.
      path: ``(T + 1, d)``, the inner algorithm's; None where there is none.
      points: ``(m, d)``, all that were evaluated.
      params: ``point`` by name, where a ``Space`` was searched, filled in by the drivers.
    """

    point: jax.Array
    start: jax.Array
    path: jax.Array | None
    points: jax.Array
    params: dict[str, Any] | None = None


@lru_cache
def algorithm_of(inner: Algorithm | None = None, started_at: Callable[..., State] | None = None) -> Algorithm:
    """The algorithm; ``started_at(config, state, point)`` moves an inner state in which no step was taken.

    Formal guarantee: GDP, replace-one, of all choices and the inner algorithm together.

    ==========================================  ==============================================================
    case                                        result
    ==========================================  ==============================================================
    ``state.public.step == T``                  the state unchanged: nothing more is released
    begun with other noise or rounds            likewise: the guarantee is of one budget
    a loss NaN or infinite                      ``choice.row``; in the inner algorithm, what that says
    a masked point                              is never chosen: the favoured one is in its place
    an inner algorithm without GDP at each step refused by ``init`` and ``privacy``
    ``mu = inf``                                the best point evaluated: not private
    ==========================================  ==============================================================
    """
    if (inner is None) != (started_at is None):
        raise ValueError("started_at must be given with an inner algorithm, and with no other")

    def begun(key, config):
        return State((), ()) if inner is None else inner.init(key, config.inner)

    def within(state):
        return State(state.public.inner, state.private.inner)

    def init(key, config):
        inside = begun(key, config)
        count, dimension, dtype = config.steps * config.batch, config.bounds.shape[1], config.width.dtype
        public = Public(
            step=jnp.zeros((), jnp.int32),
            budget=_settings(config, inside.public),
            inner=inside.public,
            points=jnp.zeros((count, dimension), dtype),
            evaluated=jnp.zeros(count, bool),
            chosen=jnp.zeros(len(config.choices), jnp.int32),
        )
        return State(public, Private(jnp.zeros((count, config.users), dtype), inside.private))

    def ask(key, config, state):
        def answers():
            assert inner is not None
            released, everywhere = inner.release(key, config.inner, within(state)), jnp.ones(config.batch, bool)
            return Query(_answers(released.point, released.path, config.batch), everywhere)

        designed = partial(_designed, config, state.public)
        if inner is None:
            return designed()
        phases = designed, partial(inner.ask, key, config.inner, within(state)), answers
        return jax.lax.switch(_phase(config, state.public.step), phases)

    def tell(key, config, state, query, values):
        if values.shape != (config.batch, config.users):
            raise ValueError(f"values must have shape {(config.batch, config.users)}, got {values.shape}")
        choice_key, inner_key = jax.random.split(key)
        public, private, inside = state.public, state.private, within(state)
        settings = _settings(config, begun(key, config).public)
        active = (public.step < config.steps) & calibration.same_noise(public.budget, settings)
        first = jnp.minimum(public.step, config.steps - 1) * config.batch
        values = values.astype(private.losses.dtype)
        losses = gp.write(private.losses, jnp.where(query.mask[:, None], values, jnp.inf), first, active)
        public = public._replace(
            points=gp.write(public.points, query.points, first, active),
            evaluated=gp.write(public.evaluated, query.mask, first, active),
        )
        chosen = _chosen(choice_key, config, public, losses, active)
        failed = None
        if inner is not None and started_at is not None:
            inside, failed = jax.lax.cond(
                active & (_phase(config, public.step) == 1),
                partial(_told, inner, inner_key, config, inside, query, values),
                partial(_untold, inner, inner_key, config, inside, query, values),
            )
            start = started_at(config.inner, inside, public.points[chosen[len(config.rounds) - 1]])
            moved = active & (public.step == config.design_steps - 1)
            inside = jax.tree.map(lambda new, old: jnp.where(moved, new, old), start, inside)
        step = jnp.where(active, public.step + 1, public.step)
        after = public._replace(step=step, inner=inside.public, chosen=chosen)
        return State(after, Private(losses, inside.private)), Info(jnp.mean(values, axis=1), failed)

    def release(key, config, state):
        public = state.public
        point, start = public.points[public.chosen[-1]], public.points[public.chosen[len(config.rounds) - 1]]
        path = None if inner is None else inner.release(key, config.inner, within(state)).path
        return Release(point, start, path, public.points)

    def privacy(config):
        return _statement(config, None if inner is None else inner.privacy(config.inner))

    return Algorithm(init, ask, tell, release, privacy)


def _phase(config: Config, step: jax.Array) -> jax.Array:
    """0 in the designs, 1 in the inner algorithm, 2 on its answers."""
    return (step >= config.design_steps).astype(jnp.int32) + (step >= config.steps - 1).astype(jnp.int32)


def _designed(config: Config, public: Public) -> Query:
    """The next points of the designs, some near the point chosen last."""
    first = jnp.minimum(public.step * config.batch, sum(config.rounds) - config.batch)
    fresh, offset, kept = (
        jax.lax.dynamic_slice_in_dim(rows, first, config.batch) for rows in (config.fresh, config.offset, config.kept)
    )
    made = jnp.sum(first >= jnp.asarray(np.cumsum(config.rounds), jnp.int32), dtype=jnp.int32)  # choices, so far
    near = public.points[public.chosen[jnp.maximum(made - 1, 0)]][None] + offset
    inside = jnp.clip(near, config.bounds[:1], config.bounds[1:])
    return Query(jnp.where(kept, inside, fresh), jnp.ones(config.batch, bool))


def _answers(point: jax.Array, path: jax.Array, batch: int) -> jax.Array:
    """What may be the answer ``(b, d)``: ``point``, and the means of ever more of the last of ``path (T + 1, d)``."""
    length = path.shape[0]
    counts = [max(1, round((length - 1) * i / max(batch - 1, 1))) for i in range(batch - 1)]
    weights = np.array([np.arange(length) >= length - count for count in counts], float).reshape(batch - 1, length)
    means = jnp.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1), path.dtype) @ path
    return jnp.concatenate([point[None], means])


def _chosen(key: jax.Array, config: Config, public: Public, losses: jax.Array, active: jax.Array) -> jax.Array:
    """The rows chosen ``(k,)``, with what this step chooses; all choices have steps of their own."""
    found = public.chosen
    ends = [int(end) for end in np.cumsum(config.rounds)]
    if config.inner is not None:
        ends.append(config.steps * config.batch)
    for number, (end, budget) in enumerate(zip(ends, config.choices, strict=True)):
        if number == 0:
            favoured = jnp.zeros((), jnp.int32)
        elif number < len(config.rounds):
            favoured = public.chosen[number - 1]
        else:
            favoured = jnp.asarray(end - config.batch, jnp.int32)
        row = jax.lax.cond(
            active & (public.step == end // config.batch - 1),
            partial(_row, key, config, public, losses, end, budget, favoured),
            lambda number=number: public.chosen[number],
        )
        found = found.at[number].set(row)
    return found


def _row(key, config, public, losses, end, budget, favoured):
    """One choice among the first ``end`` points; the favoured one stands for one that was masked."""
    row = choice.row(key, budget, losses[:end], config.width, favoured)
    return jnp.where(public.evaluated[row], row, favoured)


def _told(inner, key, config, inside, query, values):
    after, said = inner.tell(key, config.inner, inside, query, values)
    return after, said.factorisation_failed


def _untold(*given):
    like = jax.eval_shape(lambda: _told(*given))[1]
    return given[3], None if like is None else jnp.zeros(like.shape, like.dtype)


def _settings(config: Config, inner: Any) -> calibration.NoiseSettings:
    """All that sets the noise of all choices, and of the inner algorithm."""

    def counts(*values: Any) -> jax.Array:
        return jnp.stack([jnp.asarray(value, jnp.int32) for value in values])

    own = calibration.NoiseSettings(
        mu=jnp.stack([each.mu for each in config.choices]),
        radius=counts(*(each.units for each in config.choices)),
        sigma=counts(*(each.digits for each in config.choices)),
        noise=counts(*(calibration.NOISES.index(each.noise) for each in config.choices)),
        users=counts(config.users),
        steps=counts(config.steps, *config.rounds),
        releases=counts(config.batch),
        clip=config.width[None],
    )
    if not inner:
        return own
    if not isinstance(inner.budget, calibration.NoiseSettings):
        raise ValueError("inner must be an algorithm that pays for every step, such as dp_gibo.algorithm")
    return calibration.joined(own, inner.budget)


def _statement(config: Config, inner: guarantee.Guarantee | None) -> guarantee.Guarantee:
    """All parts together; none where one of them has none."""
    if config.width.ndim:
        raise ValueError(f"privacy takes one config, got a width of shape {config.width.shape}")
    if inner is not None:
        guarantee.expect_gdp("inner", inner)
    if config.noise == "none" or (inner is not None and inner.notion == "none"):
        return guarantee.no_guarantee(guarantee.USERS, "mu is infinite: no noise was added")
    levels = [choice.level(each) for each in config.choices]
    parts = [(DESIGN_CHOICE, accounting.composed_mu(*levels[: len(config.rounds)]))]
    if inner is not None:
        parts += [*calibration.statement_parts(config.inner, inner), (LAST_CHOICE, levels[-1])]
    exact = config.noise == "exact"
    assumptions = (
        guarantee.RANDOM_BITS if exact else guarantee.IDEAL_NOISE,
        guarantee.PUBLIC_CONFIG,
        guarantee.SEPARABLE_LOSSES,
    )
    found = guarantee.guarantee(
        "gdp", accounting.composed_mu(*(level for _, level in parts)), "replace_one", guarantee.USERS,
        assumptions=assumptions,
        total_variation=len(levels) * choice.TOTAL_VARIATION * exact + (inner.total_variation if inner else 0.0),
        parts=parts if len(parts) > 1 else (),
        also=("dp", choice.pure_level(config.choices[0])) if len(levels) == 1 else None,
    )  # fmt: skip
    return found if inner is None else found.assuming(*inner.assumptions)

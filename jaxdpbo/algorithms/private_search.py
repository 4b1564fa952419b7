"""Private search: points of a public design, a private choice among them, and what is near the chosen one.

What is released is which point was chosen, by the exponential mechanism on the users' losses (``privacy.choice``). That
is sharp where there are thousands of users, needs no gradient, and takes any point: whole numbers and categories too.
``algorithm_of(inner)`` makes an ``Algorithm``:

1. each round evaluates points of its design, in the first anywhere in the box, later around the point chosen last,
   and chooses one of all points evaluated so far;
2. an inner algorithm that can be started anywhere, such as DP-GIBO, goes on from there (None: there is none);
3. its answer and means of the ends of its path are evaluated, and the last choice is among all points.

Notation: ``m`` points in all, ``b`` in a step, ``n`` users, ``d`` parameters.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks
from jaxdpbo import space as spaces
from jaxdpbo.privacy import accounting, calibration, choice, guarantee
from jaxdpbo.space import Space
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Query, State

DESIGN_CHOICE, LAST_CHOICE = "the choice in a design", "the choice of the answer"  # parts of a guarantee


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``.

    Traced: ``choices``, a budget for each round and, with an ``inner`` config, one for the answer; ``width ()``;
    ``bounds (2, d)``; of all rounds ``fresh``, ``offset`` and ``kept``, ``(m, d)``: a point has the coordinates of
    ``fresh`` where ``kept`` is False, otherwise those of the point chosen last plus ``offset``. Static: ``batch``, and
    how many points each round has.
    """

    inner: Any
    choices: tuple[choice.Budget, ...]
    width: jax.Array
    bounds: jax.Array
    fresh: jax.Array
    offset: jax.Array
    kept: jax.Array
    users: int = field(metadata={"static": True})
    batch: int = field(metadata={"static": True})
    rounds: tuple[int, ...] = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})

    @property
    def noise(self) -> str:
        """Of ``calibration.NOISES``."""
        return self.choices[0].noise

    @property
    def design_steps(self) -> int:
        """Of all rounds."""
        return sum(self.rounds) // self.batch

    @property
    def steps(self) -> int:
        """``T``: the rounds, the inner algorithm, and one on its answer."""
        return self.design_steps + (0 if self.inner is None else self.inner.steps + 1)


class Round(NamedTuple):
    """Points of one round, ``(q, d)`` each: ``fresh``, or where ``kept`` those of the chosen point plus ``offset``."""

    fresh: np.ndarray
    offset: np.ndarray
    kept: np.ndarray


def config(
    *,
    users: int,
    bounds: Bounds,
    loss_range: ArrayLike,
    rounds: Sequence[Round],
    choice_mu: Sequence[float],
    batch: int,
    inner_config: Any = None,
    noise: str = "exact",
) -> Config:
    """Check a configuration.

    Args:
      users: ``n``, public.
      bounds: ``(2, d)``, finite, or a ``Space``.
      loss_range: ``(low, high)``, chosen without the users' data: differences between a user's losses count up to its
        width. A narrower one is sharper, and wrong where few users lose much and many win a little.
      rounds: of points; the first keeps none, and its first point has half of the prior. Later choices give it to the
        point chosen last, and the last one to the inner algorithm's answer.
      choice_mu: the GDP budget of each round's choice, and with an ``inner_config`` that of the answer's.
      batch: ``b``, a divisor of every round's count, and the inner algorithm's own.
      inner_config: of the inner algorithm, of the same users.
      noise: "exact", or "float", for research sweeps; or "none" (only with budgets of inf).

    Raises:
      ValueError: a number out of range, a wrong shape.
      TypeError: an argument of the wrong kind.

    >>> import numpy as np
    >>> from jaxdpbo import private_search
    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> design = private_search.Round(corners, 0 * corners, np.zeros((4, 2), bool))
    >>> box = {"low": [0, 0], "high": [1, 1]}
    >>> options = {"users": 500, "bounds": box, "loss_range": (0, 1), "batch": 2}
    >>> chosen = private_search.config(rounds=[design], choice_mu=[0.5], **options)
    >>> chosen.steps, private_search.algorithm_of().privacy(chosen).level <= 0.5
    (2, True)
    """
    bounds, space = spaces.box(bounds)
    box, batch, users = _checks.box("bounds", bounds), _checks.size("batch", batch), _checks.size("users", users)
    low, high = _checks.interval("loss_range", loss_range)
    designs = [_round(each, box, batch) for each in rounds]
    if not designs or np.any(designs[0].kept):
        raise ValueError("rounds must be one or more, of which the first keeps nothing")
    if len(choice_mu) != len(designs) + (inner_config is not None):
        raise ValueError(f"choice_mu must be one number a choice, got {len(choice_mu)} for {len(designs)} rounds")
    if inner_config is not None and (inner_config.users, inner_config.batch) != (users, batch):
        raise ValueError(
            f"inner_config must be of {users} users and {batch} points a step, got {inner_config.users} and "
            f"{inner_config.batch}"
        )
    dtype = jnp.result_type(float)
    levels = [_checks.positive("choice_mu", mu, finite=False, dtype=dtype) for mu in choice_mu]
    kind = (
        "none" if noise == "exact" and np.all(np.isinf(levels)) else _checks.choice("noise", noise, calibration.NOISES)
    )
    return Config(
        inner=inner_config,
        choices=tuple(choice.budget(mu, kind, users=users, dtype=dtype) for mu in levels),
        width=jnp.asarray(high - low, dtype),
        bounds=jnp.asarray(box, dtype),
        fresh=jnp.asarray(np.concatenate([each.fresh for each in designs]), dtype),
        offset=jnp.asarray(np.concatenate([each.offset for each in designs]), dtype),
        kept=jnp.asarray(np.concatenate([each.kept for each in designs])),
        users=users,
        batch=batch,
        rounds=tuple(len(each.fresh) for each in designs),
        space=space,
    )


def _round(value: Round, box: np.ndarray, batch: int) -> Round:
    fresh, offset, kept = (
        _checks.rows("rounds", value.fresh),
        _checks.rows("rounds", value.offset),
        np.asarray(value.kept),
    )
    if fresh.shape != offset.shape or fresh.shape != kept.shape or fresh.shape[1] != box.shape[1] or len(fresh) % batch:
        raise ValueError(
            f"rounds must have points of {box.shape[1]} numbers, a multiple of {batch}, all of one shape, got "
            f"{fresh.shape}, {offset.shape} and {kept.shape}"
        )
    if kept.dtype != bool:
        raise TypeError(f"rounds must say True or False for what is kept, got {kept.dtype}")
    _checks.inside("rounds", np.where(kept, box[0], fresh), box)
    return Round(fresh, offset, kept)


class Public(NamedTuple):
    """Released, or independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      budget: all that sets the noise, as the run was begun.
      inner: the inner algorithm's; ``()`` where there is none.
      points: ``(m, d)``, evaluated so far.
      chosen: ``(k,)``, the row of them that each choice was of, 0 where it was not made.
    """

    step: jax.Array
    budget: calibration.NoiseSettings
    inner: Any
    points: jax.Array
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
    a masked point                              is never chosen but by ``e^-66``
    ``mu = inf``                                the best point evaluated: not private
    ==========================================  ==============================================================
    """

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
        points = gp.write(public.points, query.points, first, active)
        chosen = _chosen(choice_key, config, public, losses, active)
        failed = None
        if inner is not None and started_at is not None:
            inside, failed = jax.lax.cond(
                active & (_phase(config, public.step) == 1),
                partial(_told, inner, inner_key, config, inside, query, values),
                partial(_untold, inner, inner_key, config, inside, query, values),
            )
            start = started_at(config.inner, inside, points[chosen[len(config.rounds) - 1]])
            moved = active & (public.step == config.design_steps - 1)
            inside = jax.tree.map(lambda new, old: jnp.where(moved, new, old), start, inside)
        step = jnp.where(active, public.step + 1, public.step)
        after = Public(step, public.budget, inside.public, points, chosen)
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
            lambda end=end, budget=budget, favoured=favoured: choice.row(
                key, budget, losses[:end], config.width, favoured
            ),
            lambda number=number: public.chosen[number],
        )
        found = found.at[number].set(row)
    return found


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
        noise=counts(calibration.NOISES.index(config.noise)),
        users=counts(config.users),
        steps=counts(config.steps, *config.rounds),
        releases=counts(config.batch),
        clip=config.width[None],
    )
    if not inner:
        return own
    return calibration.joined(own, inner.budget)


def _statement(config: Config, inner: guarantee.Guarantee | None) -> guarantee.Guarantee:
    """All parts together; none where one of them has none."""
    if config.width.ndim:
        raise ValueError(f"privacy takes one config, got a width of shape {config.width.shape}")
    if config.noise == "none" or (inner is not None and inner.notion == "none"):
        return guarantee.no_guarantee(guarantee.USERS, "mu is infinite: no noise was added")
    levels = [choice.level(each) for each in config.choices]
    parts = [(DESIGN_CHOICE, accounting.composed_mu(*levels[: len(config.rounds)]))]
    if inner is not None:
        parts += [(calibration.RELEASES, inner.level), (LAST_CHOICE, levels[-1])]
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

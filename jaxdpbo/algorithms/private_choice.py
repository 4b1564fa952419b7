"""Evaluate public points, then choose one privately, by the exponential mechanism on the users' losses.

The release is the row of the chosen point (``noise.choice``). The choice is accurate with thousands of users, needs no
gradient, and takes any point: whole numbers and categories too. It is among all points that a plan has evaluated so
far, so a choice is a phase of a plan (``jaxdpbo.phases``):

==============  =========================================================================================
phase           points
==============  =========================================================================================
``design``      those of the config, anywhere in the box
``near``        around the point chosen last
``at_answers``  the answer of a descent, and means of ends of its path
==============  =========================================================================================

Notation: ``q`` points of the phase, ``b`` in a step, ``m`` in the book at its end, ``n`` users, ``d`` parameters.
"""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, namespace
from jaxdpbo import space as spaces
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees
from jaxdpbo.ledger import fingerprints
from jaxdpbo.noise import calibration, totals
from jaxdpbo.noise import choice as _choice
from jaxdpbo.phases import Phase
from jaxdpbo.space import Space
from jaxdpbo.types import LEFT_OUT, Algorithm, ArrayLike, Bounds, Info, Query, State

__all__ = [
    "Config",
    "Release",
    "answers_config",
    "at_answers",
    "design",
    "design_config",
    "near",
    "near_config",
]
__dir__ = namespace.list_public(__name__)

DESIGN_CHOICE, LAST_CHOICE = "the choice in a design", "the choice of the answer"  # names of parts of a guarantee
MOST = 2**16  # points of a choice


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``design_config``, ``near_config`` or ``answers_config``.

    Traced: the ``noise`` of the choice; ``width ()``; ``bounds (2, d)``; ``points (q, d)``; of ``near`` also ``kept
    (q, d)``, True at coordinates of the point chosen last, to which the coordinates of ``points`` are then added.
    ``proposals (q, d)`` of public records, or None, are evaluated in the place of ``points``: a ledger's fingerprint
    leaves them out, since a search on public records may not repeat to the last bit. Static: ``users``, ``batch``, the
    number of points of the plan ``before`` the phase, and the ``mechanism``, the phase's part of a guarantee.
    """

    noise: _choice.ChoiceNoise
    width: jax.Array
    bounds: jax.Array
    points: jax.Array
    kept: jax.Array | None
    users: int = field(metadata={"static": True})
    batch: int = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})
    mechanism: str = field(metadata={"static": True})
    before: int = field(metadata={"static": True})
    proposals: jax.Array | None = field(metadata={LEFT_OUT: True})

    @property
    def steps(self) -> int:
        """Number of steps ``T`` of the phase."""
        return len(self.points) // self.batch

    @property
    def end(self) -> int:
        """Number of points ``m`` to choose from."""
        return self.before + len(self.points)

    def after(self, points: int) -> "Config":
        """The config of a phase after so many points of a plan.

        Raises:
          ValueError: too many points for a choice.
        """
        placed = replace(self, before=points)
        if placed.end >= MOST:
            raise ValueError(f"points must be fewer than {MOST:,}, got {placed.end} until the end of a choice")
        return placed


def design_config(
    *,
    users: int,
    bounds: Bounds,
    loss_range: ArrayLike,
    points: ArrayLike,
    mu: float,
    batch: int,
    proposed: bool = False,
    noise: str = "exact",
) -> Config:
    """Check the configuration of ``design``, the first phase of a plan.

    Args:
      users: ``n``, public.
      bounds: ``(2, d)``, finite, or a ``Space``.
      loss_range: ``(low, high)``, chosen without the users' data: differences between a user's losses count up to its
        width. A narrower range gives more accurate choices, and wrong choices where few users lose much and many win a
        little.
      points: ``(q, d)``. Half of the prior of the choice goes to the first.
      mu: the GDP budget of the choice; ``inf`` for no privacy.
      batch: ``b``, a divisor of ``q``.
      proposed: True if public records proposed the points; the guarantee then says so.
      noise: "exact", or "float", for research sweeps; or "none" (only with a budget of inf).

    Raises:
      ValueError: a number out of range, a wrong shape.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import phases, private_choice
    >>> corners = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> options = {"users": 500, "bounds": {"low": [0, 0], "high": [1, 1]}, "loss_range": (0, 1), "batch": 2}
    >>> config = phases.config(private_choice.design_config(points=corners, mu=0.5, **options))
    >>> config.steps, phases.make_algorithm(private_choice.design).privacy(config).level <= 0.5
    (2, True)
    """
    box, _ = spaces.box(bounds)
    inside = checks.inside("points", checks.rows("points", points), checks.box("bounds", box))
    return _make(
        users=users, bounds=bounds, loss_range=loss_range, points=inside, mu=mu, batch=batch, noise=noise,
        proposals=inside if checks.flag("proposed", proposed) else None,
    )  # fmt: skip


def near_config(
    *,
    users: int,
    bounds: Bounds,
    loss_range: ArrayLike,
    points: ArrayLike,
    kept: ArrayLike,
    mu: float,
    batch: int,
    noise: str = "exact",
) -> Config:
    """Check the configuration of ``near``, a phase after another choice; that point has half of the prior of this one.

    Args:
      users: see ``design_config``.
      bounds: see ``design_config``.
      loss_range: see ``design_config``.
      points: ``(q, d)``: the numbers added to the point chosen last where ``kept``, and coordinates elsewhere.
      kept: ``(q, d)``, booleans.
      mu: see ``design_config``.
      batch: see ``design_config``.
      noise: see ``design_config``.

    Raises:
      ValueError: a number out of range, a wrong shape.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import private_choice
    >>> options = {"users": 500, "bounds": {"low": [0, 0], "high": [1, 1]}, "loss_range": (0, 1), "batch": 2}
    >>> near = private_choice.near_config(points=[[0.1, 0.0], [-0.1, 0.0]], kept=[[True] * 2] * 2, mu=0.5, **options)
    >>> near.steps
    1
    """
    box, _ = spaces.box(bounds)
    box, rows, flags = checks.box("bounds", box), checks.rows("points", points), np.asarray(kept)
    if flags.dtype != bool:
        raise TypeError(f"kept must be booleans, got {flags.dtype}")
    if flags.shape != rows.shape:
        raise ValueError(f"kept must have the shape of points, {rows.shape}, got {flags.shape}")
    checks.inside("points", np.where(flags, box[0], rows), box)
    return _make(
        users=users, bounds=bounds, loss_range=loss_range, points=rows, mu=mu, batch=batch, noise=noise, kept=flags
    )


def answers_config(
    *, users: int, bounds: Bounds, loss_range: ArrayLike, mu: float, batch: int, noise: str = "exact"
) -> Config:
    """Check the configuration of ``at_answers``, a phase of one step after a descent.

    Half of the prior of the choice goes to the descent's own answer.

    Args:
      users: see ``design_config``.
      bounds: see ``design_config``.
      loss_range: see ``design_config``.
      mu: see ``design_config``.
      batch: ``b``, the number of candidates.
      noise: see ``design_config``.

    Raises:
      ValueError: a number out of range, a wrong shape.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import private_choice
    >>> options = {"users": 500, "bounds": {"low": [0, 0], "high": [1, 1]}, "loss_range": (0, 1)}
    >>> private_choice.answers_config(mu=0.5, batch=4, **options).points.shape
    (4, 2)
    """
    box, _ = spaces.box(bounds)
    nowhere = np.zeros((checks.size("batch", batch), checks.box("bounds", box).shape[1]))
    return _make(
        users=users, bounds=bounds, loss_range=loss_range, points=nowhere, mu=mu, batch=batch, noise=noise,
        mechanism=LAST_CHOICE,
    )  # fmt: skip


def _make(
    *, users: int, bounds: Bounds, loss_range: ArrayLike, points: np.ndarray, mu: float, batch: int, noise: str,
    kept: np.ndarray | None = None, proposals: np.ndarray | None = None, mechanism: str = DESIGN_CHOICE,
) -> Config:  # fmt: skip
    bounds, space = spaces.box(bounds)
    box, batch = checks.box("bounds", bounds), checks.size("batch", batch)
    dtype = jnp.result_type(float)
    low, high = checks.interval("loss_range", loss_range, dtype)
    if not len(points) or points.shape[1] != box.shape[1] or len(points) % batch:
        raise ValueError(
            f"points must be of {box.shape[1]} numbers each, a multiple of {batch} points, got shape {points.shape}"
        )
    mu = checks.positive("mu", mu, finite=False)
    kind = checks.one_of("noise", noise, calibration.NOISES)
    return Config(
        noise=_choice.choice_noise(mu, "none" if np.isinf(mu) else kind, dtype=dtype),
        width=arrays.to_device(high - low, dtype),
        bounds=arrays.to_device(box, dtype),
        points=arrays.to_device(points, dtype),
        kept=None if kept is None else arrays.to_device(kept),
        users=checks.size("users", users),
        batch=batch,
        space=space,
        mechanism=mechanism,
        before=0,
        proposals=None if proposals is None else arrays.to_device(proposals, dtype),
    ).after(0)


class PublicState(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      noise: all noise settings at the start of the run.
      points: ``(q, d)``, to evaluate.
      favoured: ``()``, the row of the book with half of the prior.
      row: ``()``, chosen; ``favoured`` before the choice.
      book: a ``phases.Book`` while the plan lends it.
    """

    step: jax.Array
    noise: calibration.NoiseSettings
    points: jax.Array
    favoured: jax.Array
    row: jax.Array
    book: Any


class Broadcast(NamedTuple):
    """Public inputs of ``contribute`` and ``perturb``: ``choosing ()``, True in the last step; ``favoured ()``."""

    choosing: jax.Array
    favoured: jax.Array


class Release(NamedTuple):
    """Everything you may publish; the guarantee covers all of it.

    Attributes:
      point: ``(d,)``, chosen.
      row: ``()``, its row in the book.
      points: ``(m, d)``, all points to choose from.
    """

    point: jax.Array
    row: jax.Array
    points: jax.Array


def _init(key: jax.Array, config: Config) -> State:
    del key
    first = jnp.asarray(config.before, jnp.int32)
    points = config.points if config.proposals is None else config.proposals
    return State(PublicState(jnp.zeros((), jnp.int32), _settings(config), points, first, first, None))


def _ask(key: jax.Array, config: Config, state: State) -> Query:
    del key
    public = state.public
    points = jax.lax.dynamic_slice_in_dim(public.points, public.step * config.batch, config.batch)
    return Query(
        points, jnp.ones(config.batch, bool), broadcast=Broadcast(public.step == config.steps - 1, public.favoured)
    )


def _history(config: Config, state: State, query: Query) -> tuple[Query, ...]:
    """Nothing adds up but at the choice."""
    del config, state
    return (query,) if query.broadcast.choosing else ()


def _contribute(
    config: Config, query: Query, book: jax.Array, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, tuple[()]]:
    """Sum each user's relative losses at the end of the phase.

    A loss that is not finite counts as documented in ``choice.choose_row``.
    """
    del values  # in the book

    def add() -> totals.UserSum:
        return _choice.sum_losses(config.noise, book[: config.end], config.width, present)

    whole = jax.lax.cond(query.broadcast.choosing, add, lambda: totals.make_zeros(add))
    return totals.UserTotal(whole, {}), ()


def _perturb(key: jax.Array, config: Config, query: Query, whole: totals.UserSum) -> jax.Array:
    """Choose the row at the end of the phase; 0 before.

    Formal guarantee: ``choice.level`` and ``choice.pure_level`` of ``config.noise``, replace-one.
    """

    def draw() -> jax.Array:
        return _choice.draw(key, config.noise, whole, query.broadcast.favoured)

    return jax.lax.cond(query.broadcast.choosing, draw, lambda: jnp.zeros((), jnp.int32))


def _tell(config: Config, state: State, query: Query, released: jax.Array) -> State:
    del config
    public = state.public
    row = jnp.where(public.book.evaluated[released], released, public.favoured)  # never a masked point
    return State(public._replace(step=public.step + 1, row=jnp.where(query.broadcast.choosing, row, public.row)))


def _inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    del config, query
    return Info(total.facts)


def _release(key: jax.Array, config: Config, state: State) -> Release:
    del key
    public = state.public
    return Release(public.book.points[public.row], public.row, public.book.points[: config.end])


def _settings(config: Config) -> calibration.NoiseSettings:
    def counts(*values: Any) -> jax.Array:
        return jnp.stack([jnp.asarray(value, jnp.int32) for value in values])

    noise = config.noise
    return calibration.NoiseSettings(
        mu=noise.mu[None],
        radius=counts(noise.units),
        sigma=counts(noise.digits),
        kind=counts(calibration.NOISES.index(noise.kind)),
        users=counts(config.users),
        steps=jnp.concatenate([counts(config.steps, config.before), _checksum(config)]),
        releases=counts(config.batch),
        clip=config.width[None],
    )


def _checksum(config: Config) -> jax.Array:
    """Of the proposals: a run must not go on with others."""
    if config.proposals is None:
        return jnp.zeros(0, jnp.int32)
    return jax.lax.bitcast_convert_type(fingerprints.checksum(config.proposals, "proposals"), jnp.int32)


def _privacy(config: Config) -> guarantees.Guarantee:
    if config.width.ndim:
        raise ValueError(f"privacy takes one config, got a width of shape {config.width.shape}")
    more = () if config.proposals is None else (assumptions.PUBLIC_RECORDS,)
    return composed_guarantee.choice_guarantee(config.mechanism, config.noise, guarantees.USERS, more)


def _start_near(config: Config, state: State, releases: list[Any]) -> State:
    """Points around the point chosen last."""
    public, last = state.public, releases[-1]
    assert config.kept is not None
    points = jnp.clip(last.point[None] + public.points, config.bounds[:1], config.bounds[1:])
    moved = jnp.where(config.kept, points, public.points)
    return State(public._replace(points=moved, favoured=last.row, row=last.row))


def _start_at_answers(config: Config, state: State, releases: list[Any]) -> State:
    """The answer ``point (d,)`` of a descent, and the means of growing ends of its ``path (T + 1, d)``."""
    point, path = releases[-1].point, releases[-1].path
    length = path.shape[0]
    counts = [max(1, round((length - 1) * i / max(config.batch - 1, 1))) for i in range(config.batch - 1)]
    weights = np.array([np.arange(length) >= length - count for count in counts], float).reshape(-1, length)
    means = jnp.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1), path.dtype) @ path
    return State(state.public._replace(points=jnp.concatenate([point[None], means])))


_steps = Algorithm(
    _init, _ask, _tell, _release, _privacy, contribute=_contribute, perturb=_perturb, inform=_inform, history=_history
)
design = Phase(_steps, reads_book=True)
near = Phase(_steps, start=_start_near, reads_book=True)
at_answers = Phase(_steps, start=_start_at_answers, reads_book=True)

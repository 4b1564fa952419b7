"""DP-GIBO along the real parameters that exist at a released point; all other coordinates are held.

In a ``Space`` with whole numbers, categories or branches, a loss has a gradient along real parameters alone, and a
branch decides which of them exist. So a phase of a plan descends from the point that was chosen before, in the box of
its real parameters, as ``run`` does in any box. Where a branch has fewer than another, the coordinates that are left
over reach no loss.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import space as spaces
from jaxdpbo.algorithms.dp_gibo import configs, run
from jaxdpbo.guarantee import guarantees
from jaxdpbo.noise import calibration, totals, wide_integers
from jaxdpbo.phases import Phase
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, Bounds, Info, Memory, Query, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``holding_config``: the ``descent`` in the box of the real parameters, and the static ``space``."""

    descent: configs.Config
    space: Space = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """Number of users ``n``."""
        return self.descent.users

    @property
    def steps(self) -> int:
        """Number of steps ``T``."""
        return self.descent.steps

    @property
    def batch(self) -> int:
        """Evaluations a step ``b``."""
        return self.descent.batch


def holding_config(*, bounds: Bounds, **options: Any) -> Config:
    """Check the configuration of ``holding``, a phase after a choice.

    Args:
      bounds: a ``Space`` with a real parameter or more.
      options: of ``config``, but ``theta0``. The descent has as many parameters as the branch with the most real ones,
        each in box units.

    Raises:
      ValueError: no parameter of the space is real; see ``config``.
      TypeError: no ``Space``; see ``config``.

    >>> from jaxdpbo import dp_gibo, space
    >>> tree = {"model": space.branches({"svm": {"C": space.real(0.1, 10)}, "tree": {"depth": [2, 4]}})}
    >>> dp_gibo.holding_config(bounds=tree, users=500, steps=5, mu=1.0).descent.bounds.shape
    (2, 1)
    """
    _, space = spaces.box(bounds)
    if space is None:
        raise TypeError("bounds must be a Space: in a box all parameters are real, so give dp_gibo.from_point")
    count = space.most_real
    if not count:
        raise ValueError("bounds must have a real parameter: a descent has no gradient along others")
    return Config(configs.config(bounds={"low": [0.0] * count, "high": [1.0] * count}, **options), space)


class PublicState(NamedTuple):
    """Released values: the point ``held (d,)``, and the public state of the ``descent`` from there."""

    held: jax.Array
    descent: run.PublicState

    @property
    def step(self) -> jax.Array:
        """``()`` steps taken."""
        return self.descent.step

    @property
    def noise(self) -> calibration.NoiseSettings:
        """All noise settings at the start of the run."""
        return self.descent.noise


class Release(NamedTuple):
    """Everything you may publish; one guarantee covers all of it.

    Attributes:
      point: ``(d,)``, the answer.
      path: ``(T + 1, d)``, the start and every iterate.
      descent: the release in the box of the real parameters.
    """

    point: jax.Array
    path: jax.Array
    descent: run.Release


def _init(key: jax.Array, config: Config) -> State:
    state = run.algorithm.init(key, config.descent)
    middle = jnp.full(len(config.space.names), 0.5, config.descent.theta0.dtype)
    return State(PublicState(middle, state.public))


def _ask(key: jax.Array, config: Config, state: State) -> Query:
    query = run.algorithm.ask(key, config.descent, State(state.public.descent))
    return query._replace(points=_embed(config, state.public.held, query.points))


def _tell(config: Config, state: State, query: Query, released: totals.UserSum) -> State:
    after = run.algorithm.tell(config.descent, State(state.public.descent), query, released)
    return State(state.public._replace(descent=after.public))


def _contribute(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, Memory]:
    assert run.algorithm.contribute is not None
    return run.algorithm.contribute(config.descent, query, memory, values, present)


def _perturb(key: jax.Array, config: Config, query: Query, whole: totals.UserSum) -> totals.UserSum:
    assert run.algorithm.perturb is not None
    return run.algorithm.perturb(key, config.descent, query, whole)


def _survey(
    config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> wide_integers.Wide:
    assert run.algorithm.survey is not None
    return run.algorithm.survey(config.descent, query, memory, values, present)


def _refine(key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    assert run.algorithm.refine is not None
    return run.algorithm.refine(key, config.descent, query, whole)


def _remember(config: Config, users: int) -> Memory:
    return run.algorithm.remember(config.descent, users)


def _inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    return run.algorithm.inform(config.descent, query, total)


def _release(key: jax.Array, config: Config, state: State) -> Release:
    found = run.algorithm.release(key, config.descent, State(state.public.descent))
    path = _embed(config, state.public.held, found.path)
    return Release(_embed(config, state.public.held, found.point[None])[0], path, found)


def _privacy(config: Config) -> guarantees.Guarantee:
    """Of the descent: which coordinates it has follows from the point, which was released before."""
    return run.algorithm.privacy(config.descent)


def _start(config: Config, state: State, releases: list[Any]) -> State:
    """Begin at the real parameters of the point of the phase before, and hold its other coordinates."""
    held = releases[-1].point
    real, column = _real(config, held)
    start = jnp.full_like(config.descent.theta0, 0.5).at[jnp.where(real, column, held.size)].set(held, mode="drop")
    descent = run.set_start(config.descent, State(state.public.descent), start)
    return State(PublicState(held, descent.public))


def _real(config: Config, held: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mask ``(d,)`` of the real parameters at a point, and each one's column ``(d,)`` in the descent."""
    real = config.space.real_at(held)
    return real, jnp.cumsum(real) - 1


def _embed(config: Config, held: jax.Array, points: jax.Array) -> jax.Array:
    """Points ``(k, d)`` of the space from those ``(k, m)`` of the descent."""
    real, column = _real(config, held)
    return jnp.where(real, points[:, jnp.maximum(column, 0)], held)


_steps = Algorithm(
    _init, _ask, _tell, _release, _privacy, contribute=_contribute, perturb=_perturb, inform=_inform,
    remember=_remember, survey=_survey, refine=_refine,
)  # fmt: skip
holding = Phase(_steps, start=_start)

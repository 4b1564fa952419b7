"""Random search: evaluate uniform points, keep the best mean loss. A baseline WITHOUT privacy."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import arrays, checks, namespace
from jaxdpbo import space as spaces
from jaxdpbo.guarantee import guarantees
from jaxdpbo.space import Space
from jaxdpbo.surrogate import preprocessing
from jaxdpbo.types import Algorithm, Bounds, Info, Query, State

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "config",
]
__dir__ = namespace.list_public(__name__)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``: traced ``bounds (2, d)``; static ``users``, ``steps``, ``batch``, ``space``."""

    bounds: jax.Array
    users: int = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    batch: int = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})


def config(*, users: int, steps: int, bounds: Bounds, batch: int = 1) -> Config:
    """Check a configuration: ``steps`` batches of ``batch`` uniform points in ``bounds``, ``(2, d)`` or a ``Space``.

    Raises:
      ValueError: a size below 1, or bounds reversed, infinite or of a wrong shape.

    >>> from jaxdpbo import random_search
    >>> chosen = random_search.config(users=3, steps=2, bounds=[(0, 1)])
    >>> random_search.algorithm.privacy(chosen).notion
    'none'
    """
    bounds, space = spaces.box(bounds)
    return Config(
        bounds=arrays.to_device(checks.box("bounds", bounds), jnp.result_type(float)),
        users=checks.size("users", users),
        steps=checks.size("steps", steps),
        batch=checks.size("batch", batch),
        space=space,
    )


class PublicState(NamedTuple):
    """``step ()``: steps taken; ``noise``: None, since nothing is spent."""

    step: jax.Array
    noise: None


class Raw(NamedTuple):
    """Raw: the best ``point (d,)`` so far and its mean ``loss ()``."""

    point: jax.Array
    loss: jax.Array


class Release(NamedTuple):
    """``point (d,)``, chosen on raw losses: carries no privacy guarantee. ``row`` is None: there are no candidates.

    ``params``: ``point`` by name, if you searched a ``Space``; filled in by the drivers.
    """

    point: jax.Array
    row: None
    params: dict[str, Any] | None = None


def init(key: jax.Array, config: Config) -> State:
    """Make the initial state: no evaluations, the middle of the box as the best point. ``key`` is unused."""
    del key
    dtype = config.bounds.dtype
    return State(
        PublicState(jnp.zeros((), jnp.int32), None),
        Raw(jnp.mean(config.bounds, axis=0), jnp.full((), jnp.inf, dtype)),
    )


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Draw uniform points in the box."""
    del state
    lower, upper = config.bounds
    shape = (config.batch, lower.shape[0])
    points = jax.random.uniform(key, shape, lower.dtype, minval=lower[None], maxval=upper[None])
    return Query(points, jnp.ones(config.batch, bool))


def tell(key: jax.Array, config: Config, state: State, query: Query, values: jax.Array) -> tuple[State, Info]:
    """Keep the point of least mean loss, over users with a finite loss. ``key`` is unused.

    ``Info`` holds, raw, the ``mean_loss (b,)`` over users at each point, inf where no user's loss was finite.

    Raises:
      ValueError: ``values`` is not ``(b, n)``, at trace time.
    """
    del key
    if values.shape != (config.batch, config.users):
        raise ValueError(f"values must have shape {(config.batch, config.users)}, got {values.shape}")
    means = preprocessing.finite_mean_loss(values.astype(config.bounds.dtype), query.mask)
    best = jnp.argmin(means)
    better = (means[best] < state.raw.loss) & (state.public.step < config.steps)
    raw = Raw(
        jnp.where(better, query.points[best], state.raw.point),
        jnp.where(better, means[best], state.raw.loss),
    )
    return State(PublicState(jnp.minimum(state.public.step + 1, config.steps), None), raw), Info({"mean_loss": means})


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the best point evaluated: NOT private. ``key`` is unused."""
    del key, config
    return Release(state.raw.point, None)


def privacy(config: Config) -> guarantees.Guarantee:
    """No guarantee, with the reason."""
    del config
    return guarantees.no_guarantee(guarantees.USERS, "the point is chosen by comparing raw mean losses")


algorithm = Algorithm(init, ask, tell, release, privacy)

"""An inner algorithm that does not search: every step evaluates the point of its state, which a caller may move."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.guarantee import guarantees
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, Info, Query, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PointConfig:
    """The first ``point (d,)`` and its ``bounds (2, d)``, traced; ``steps`` and ``space``, static."""

    point: jax.Array
    bounds: jax.Array
    steps: int = field(metadata={"static": True})
    space: Space | None = field(default=None, metadata={"static": True})

    @property
    def users(self) -> None:
        """None: one value a point, the released mean."""
        return


class PointState(NamedTuple):
    """The steps taken; no noise; the ``point (d,)`` to evaluate."""

    step: jax.Array
    noise: None
    point: jax.Array


class PointRelease(NamedTuple):
    """The ``point (d,)``; it is no row of a finite set."""

    point: jax.Array
    row: None = None


def _init(key: jax.Array, config: PointConfig) -> State:
    del key
    return State(PointState(jnp.zeros((), jnp.int32), None, config.point))


def _ask(key: jax.Array, config: PointConfig, state: State) -> Query:
    del key, config
    return Query(state.public.point[None], jnp.ones(1, bool))


def _tell(key: jax.Array, config: PointConfig, state: State, query: Query, values: Any) -> tuple[State, Info]:
    del key, config, query, values
    return State(state.public._replace(step=state.public.step + 1)), Info({})


def _release(key: jax.Array, config: PointConfig, state: State) -> PointRelease:
    del key, config
    return PointRelease(state.public.point)


def _privacy(config: PointConfig) -> guarantees.Guarantee:
    del config
    return guarantees.no_guarantee(guarantees.USERS, "no user's value is noised here")


one_point = Algorithm(_init, _ask, _tell, _release, _privacy)

"""The guard of a run: after step ``T``, or under other noise than at its start, no user's value moves anything.

A guarantee is of ``T`` releases under one budget. The guard stands inside of the functions of an algorithm, and not in
a driver, so no loop of yours can go round it.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo.noise import calibration, totals
from jaxdpbo.types import Algorithm, Config, Memory, Query, State


def guard_noise(algorithm: Algorithm, noise_settings: Callable[[Any], calibration.NoiseSettings]) -> Algorithm:
    """Make the algorithm that releases nothing after step ``T``, nor under other noise than at the start.

    ``ask`` says in ``query.active`` whether a step is left. Without one, the total of ``contribute`` and the result of
    ``perturb`` are zeros, and ``tell`` returns the state unchanged. ``contribute`` leaves the users' memory alone where
    ``query.active`` is False, by itself: a guard around the memory would copy it.

    Args:
      algorithm: with ``contribute``.
      noise_settings: ``(config) -> NoiseSettings``: of the config alone, as in ``State.public.noise``.
    """
    inner_contribute, inner_perturb = algorithm.contribute, algorithm.perturb
    assert inner_contribute is not None
    assert inner_perturb is not None

    def is_active(config: Config, state: State) -> jax.Array:
        same = calibration.same_noise(state.public.noise, noise_settings(config))
        return (state.public.step < config.steps) & same

    @functools.wraps(algorithm.ask)
    def ask(key: jax.Array, config: Config, state: State) -> Query:
        query, active = algorithm.ask(key, config, state), is_active(config, state)
        return query._replace(active=active, survey=None if query.survey is None else query.survey & active)

    @functools.wraps(inner_contribute)
    def contribute(
        config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
    ) -> tuple[totals.UserTotal, Memory]:
        total, memory = inner_contribute(config, query, memory, values, present)
        return total._replace(whole=totals.only_if(query.active, total.whole)), memory

    @functools.wraps(inner_perturb)
    def perturb(key: jax.Array, config: Config, query: Query, whole: Any) -> Any:
        return totals.only_if(query.active, inner_perturb(key, config, query, whole))

    @functools.wraps(algorithm.tell)
    def tell(config: Config, state: State, query: Query, released: Any) -> State:
        after = algorithm.tell(config, state, query, released)
        active = query.active & is_active(config, state)  # the query's own flag, and again: a query may be kept
        return State(jax.tree.map(lambda new, old: jnp.where(active, new, old), after.public, state.public))

    return algorithm._replace(ask=ask, contribute=contribute, perturb=perturb, tell=tell)

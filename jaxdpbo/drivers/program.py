"""A run as a pure function, for programs of any kind."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import space as spaces
from jaxdpbo.drivers import mesh, result
from jaxdpbo.types import Algorithm, Config, Data, Objective, State


def scan(
    algorithm: Algorithm, objective: Objective, key: jax.Array, config: Config, data: Data
) -> tuple[Any, State, Any]:
    """The pure function inside ``run_scan``: a whole run, for ``jax.jit``, ``jax.vmap`` and ``jax.lax.map`` over keys,
    configs and data. Traced data that are sharded lie on axes of kind ``Auto``.

    Returns:
      ``(release, state, info)``. Only the release may be published; ``info`` has a leading axis of steps.
    """
    init_key, loop_key, release_key = jax.random.split(key, 3)
    start = algorithm.init(init_key, config)
    state, info = steps(algorithm, objective, loop_key, config, data, start, jnp.arange(config.steps))
    return algorithm.release(release_key, config, state), state, info


def steps(
    algorithm: Algorithm,
    objective: Objective,
    key: jax.Array,
    config: Config,
    data: Data,
    state: State,
    times: jax.Array,
) -> tuple[State, Any]:
    """The steps ``times (t,)`` of a run, from the state before them; ``key`` is that of all steps of the run."""

    def step(state, t):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(key, t))
        query = algorithm.ask(ask_key, config, state)
        values = _at_each(objective, query.points, data, config.space)
        result.expect_no_mean("objective", values.shape[1:], config.users)
        state, info = algorithm.tell(tell_key, config, state, query, values)
        return state, result.complete(info)

    return jax.lax.scan(step, state, times)


def _at_each(objective: Objective, points: jax.Array, data: Any, space: Any) -> jax.Array:
    """The values at each of ``points (b, d)``: one after the other on a CPU, together elsewhere.

    Not for speed: a batched LAPACK call of jaxlib 0.10.2 waits for tasks on the pool of threads that it occupies, so
    that as many calls as the pool has threads (two host devices, or two independent factorisations) wait for ever.
    """

    def at(point):
        try:
            returned = objective(spaces.place(space, point), data)
        except Exception as error:
            error.add_note(f"the objective was traced at a point of shape {point.shape}")
            raise
        said = f"objective must return an array of real numbers, got {type(returned).__name__}"
        try:
            values = jnp.asarray(returned)
        except (TypeError, ValueError):
            pass
        else:
            if not jnp.iscomplexobj(values):
                return values
            said = f"objective must return real numbers, got {values.dtype}"
        raise TypeError(said)

    on_cpu = mesh.local_devices()[0].platform == "cpu"
    return jax.lax.map(at, points) if on_cpu else jax.vmap(at)(points)

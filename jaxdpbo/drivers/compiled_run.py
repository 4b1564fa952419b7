"""A run as a pure function, for programs of any kind; and one step of any algorithm."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import space as spaces
from jaxdpbo import types
from jaxdpbo.drivers import result, sharding
from jaxdpbo.privacy import totals
from jaxdpbo.types import Algorithm, Config, Data, Memory, Objective, Query


def begin(algorithm: Algorithm, key: jax.Array, config: Config) -> result.Snapshot:
    """Before the first step."""
    users = config.users
    memory = () if algorithm.contribute is None or users is None else algorithm.remember(config, users)
    return result.Snapshot(algorithm.init(key, config), memory)


def learn(
    algorithm: Algorithm, key: jax.Array, config: Config, before: result.Snapshot, query: Query, values: jax.Array
) -> tuple[result.Snapshot, Any]:
    """The rest of a step once its ``query`` is evaluated, and its ``Info``: what users add up to, noised, and told."""
    state, memory = before
    if algorithm.contribute is None:
        state, info = algorithm.tell(key, config, state, query, values)
        return result.Snapshot(state, memory), info
    assert algorithm.perturb is not None
    total, refined, memory, key = _total(algorithm, key, config, memory, query, values)
    released = algorithm.perturb(key, config, refined, total.whole)
    after = algorithm.tell(config, state, refined, released)
    return result.Snapshot(after, memory), algorithm.inform(config, refined, total)


def recall(algorithm: Algorithm, config: Config, memory: Memory, query: Query, values: jax.Array) -> Memory:
    """The memory after a step that was told before: nothing is drawn, and no total is returned."""
    return contribute(algorithm, config, query, memory, values)[1]


def contribute(
    algorithm: Algorithm, config: Config, query: Query, memory: Memory, values: jax.Array
) -> tuple[totals.Total, Memory]:
    """``algorithm.contribute`` of all users."""
    given = algorithm.contribute
    assert given is not None
    return sharding.sum_over_users(lambda public, own: given(*public, *own), (config, query), (memory, values))


def _total(
    algorithm: Algorithm, key: jax.Array, config: Config, memory: Memory, query: Query, values: jax.Array
) -> tuple[totals.Total, Query, Memory, jax.Array]:
    """The total of all users, the query it is of, their memory, and the key for the noise."""
    types.check_values(values, *jnp.shape(values)[:-1], users=config.users)
    if query.survey is not None:
        key, refine_key = jax.random.split(key)

        def refine() -> Query:
            survey = algorithm.survey
            if survey is None or algorithm.refine is None:
                raise TypeError("an algorithm whose queries have a survey must have the functions survey and refine")
            counted, _ = sharding.sum_over_users(
                lambda public, own: (survey(*public, *own), ()), (config, query), (memory, values)
            )
            return algorithm.refine(refine_key, config, query, counted)

        query = jax.lax.cond(query.survey, refine, lambda: query)
    total, memory = contribute(algorithm, config, query, memory, values)
    return total, query, memory, key


def pure_run(
    algorithm: Algorithm, objective: Objective, key: jax.Array, config: Config, data: Data
) -> tuple[Any, result.Snapshot, Any]:
    """The pure function inside ``run_scan``: a whole run, for ``jax.jit``, ``jax.vmap`` and ``jax.lax.map`` over keys,
    configs and data. Traced data that are sharded lie on axes of kind ``Auto``.

    Returns:
      ``(release, snapshot, info)``. Only the release may be published; ``info`` has a leading axis of steps.
    """
    init_key, loop_key, release_key = jax.random.split(key, 3)
    start = begin(algorithm, init_key, config)
    end, info = run_steps(algorithm, objective, loop_key, config, data, start, jnp.arange(config.steps))
    return algorithm.release(release_key, config, end.state), end, info


def run_steps(
    algorithm: Algorithm,
    objective: Objective,
    key: jax.Array,
    config: Config,
    data: Data,
    before: result.Snapshot,
    times: jax.Array,
) -> tuple[result.Snapshot, Any]:
    """The steps ``times (t,)`` of a run, from where it stood; ``key`` is that of all steps of the run."""

    def step(before, t):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(key, t))
        query = algorithm.ask(ask_key, config, before.state)
        values = _map_points(objective, query.points, data, config.space)
        result.expect_no_mean("objective", values.shape[1:], config.users)
        after, info = learn(algorithm, tell_key, config, before, query, values)
        return after, result.check_info(info)

    return jax.lax.scan(step, before, times)


def _map_points(objective: Objective, points: jax.Array, data: Any, space: Any) -> jax.Array:
    """The values at each of ``points (b, d)``: one after the other on a CPU, together elsewhere.

    Not for speed: a batched LAPACK call of jaxlib 0.10.2 waits for tasks on the pool of threads that it occupies, so
    that as many calls as the pool has threads (two host devices, or two independent factorisations) wait for ever.
    """

    def evaluate(point):
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

    on_cpu = sharding.local_devices()[0].platform == "cpu"
    return jax.lax.map(evaluate, points) if on_cpu else jax.vmap(evaluate)(points)

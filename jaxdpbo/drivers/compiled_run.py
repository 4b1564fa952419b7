"""A whole run as a pure function, and a single step of any algorithm."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import space as spaces
from jaxdpbo import types
from jaxdpbo.drivers import result, sharding
from jaxdpbo.noise import totals
from jaxdpbo.types import Algorithm, Config, Data, Memory, Objective, Query, State


def begin(algorithm: Algorithm, key: jax.Array, config: Config) -> result.Snapshot:
    """The snapshot before the first step."""
    users = config.users
    memory = () if algorithm.contribute is None or users is None else algorithm.remember(config, users)
    return result.Snapshot(algorithm.init(key, config), memory)


def learn(
    algorithm: Algorithm, key: jax.Array, config: Config, before: result.Snapshot, query: Query, values: jax.Array
) -> tuple[result.Snapshot, Any]:
    """Finish a step after its ``query`` was evaluated: sum over users, add noise, update the state; return ``Info``."""
    state, memory = before
    if algorithm.contribute is None:
        state, info = algorithm.tell(key, config, state, query, values)
        return result.Snapshot(state, memory), info
    released, refined, memory, info = perturb_total(algorithm, key, config, memory, query, values)
    return result.Snapshot(algorithm.tell(config, state, refined, released), memory), info


def finish(
    algorithm: Algorithm, key: jax.Array, config: Config, state: State, query: Query, total: totals.UserTotal
) -> tuple[State, Any]:
    """Add noise to the total of all users, once, and tell the state; return ``Info``."""
    released, info = _perturb(algorithm, key, config, query, total)
    return algorithm.tell(config, state, query, released), info


def perturb_total(
    algorithm: Algorithm, key: jax.Array, config: Config, memory: Memory, query: Query, values: jax.Array
) -> tuple[Any, Query, Memory, Any]:
    """What a step releases, with the (refined) query that ``tell`` gets, the users' memory and the ``Info``."""
    total, refined, memory, key = _total(algorithm, key, config, memory, query, values)
    released, info = _perturb(algorithm, key, config, refined, total)
    return released, refined, memory, info


def _perturb(
    algorithm: Algorithm, key: jax.Array, config: Config, query: Query, total: totals.UserTotal
) -> tuple[Any, Any]:
    assert algorithm.perturb is not None
    return algorithm.perturb(key, config, query, total.whole), algorithm.inform(config, query, total)


def recall(algorithm: Algorithm, config: Config, memory: Memory, query: Query, values: jax.Array) -> Memory:
    """The memory after a step on record, without drawing noise or returning a total."""
    return contribute(algorithm, config, query, memory, values)[1]


def contribute(
    algorithm: Algorithm, config: Config, query: Query, memory: Memory, values: jax.Array
) -> tuple[totals.UserTotal, Memory]:
    """Sum ``algorithm.contribute`` over all users."""
    function = algorithm.contribute
    assert function is not None
    return sharding.sum_over_users(lambda public, own: function(*public, *own), (config, query), (memory, values))


def _total(
    algorithm: Algorithm, key: jax.Array, config: Config, memory: Memory, query: Query, values: jax.Array
) -> tuple[totals.UserTotal, Query, Memory, jax.Array]:
    """The total of all users, its (refined) query, the users' memory, and the key for the noise."""
    types.check_values(values, *jnp.shape(values)[:-1], users=config.users)
    if query.survey is not None:
        # In every step, with a survey or not: the program alone knows which, and no key may serve two draws.
        key, refine_key = jax.random.split(key)

        def refine() -> Query:
            survey = algorithm.survey
            if survey is None or algorithm.refine is None:
                raise TypeError("an algorithm with a survey in its queries must have the functions survey and refine")
            counted, _ = sharding.sum_over_users(
                lambda public, own: (survey(*public, *own), ()), (config, query), (memory, values)
            )
            return algorithm.refine(refine_key, config, query, counted)

        query = jax.lax.cond(query.survey, refine, lambda: query)
    total, memory = contribute(algorithm, config, query, memory, values)
    return total, query, memory, key


def pure_run(
    algorithm: Algorithm, objective: Objective, data: Data, config: Config, key: jax.Array
) -> tuple[Any, result.Snapshot, Any]:
    """Run an algorithm as a pure function: for ``jax.jit``, ``jax.vmap`` and ``jax.lax.map`` over keys, configs, data.

    ``run_scan`` compiles this function. To spread runs over devices, shard their keys or data along a mesh with axes of
    kind ``Auto``: ``jax.make_mesh(shape, names, axis_types=(jax.sharding.AxisType.Auto,))``. The default kind is not.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import drivers, random_search
    >>> def losses(point, data):
    ...     return jnp.square(data - point[0])
    >>> config = random_search.config(users=3, steps=2, batch=1, bounds=[(0.0, 1.0)])
    >>> def point(key):
    ...     return drivers.pure_run(random_search.algorithm, losses, jnp.ones(3), config, key)[0].point
    >>> jax.vmap(point)(jax.random.split(jax.random.key(0), 4)).shape
    (4, 1)

    Returns:
      ``(release, snapshot, info)``. Only the release may be published; ``info`` has a leading axis of steps.

    Raises:
      ValueError: data, config or key lie on a mesh of another kind, and JAX cannot trace the run there.
    """
    init_key, loop_key, release_key = jax.random.split(key, 3)
    try:
        start = begin(algorithm, init_key, config)
        end, info = run_steps(algorithm, objective, data, config, loop_key, start, jnp.arange(config.steps))
        return algorithm.release(release_key, config, end.state), end, info
    except Exception as error:
        sharding.refuse_explicit_axes((data, config, key), error)
        raise


def run_steps(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    config: Config,
    key: jax.Array,
    before: result.Snapshot,
    times: jax.Array,
) -> tuple[result.Snapshot, Any]:
    """Run the steps ``times (t,)`` from a snapshot; all steps of a run share ``key``."""

    def step(before, t):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(key, t))
        query = algorithm.ask(ask_key, config, before.state)
        values = map_points(objective, query.points, data, config.space)
        result.expect_no_mean("objective", values.shape[1:], config.users)
        after, info = learn(algorithm, tell_key, config, before, query, values)
        return after, result.check_info(info)

    return jax.lax.scan(step, before, times)


def map_points(objective: Objective, points: jax.Array, data: Any, space: Any) -> jax.Array:
    """The values at each of ``points (b, d)``: in a loop on a CPU, vectorised elsewhere.

    The loop avoids a deadlock. A batched LAPACK call of jaxlib 0.10.2 waits for tasks on the thread pool occupied by
    the call. As many calls as the pool has threads (two host devices, or two factorisations) wait for ever.
    """

    def evaluate(point):
        try:
            returned = objective(spaces.place(space, point), data)
        except Exception as error:
            error.add_note(f"the objective was traced at a point of shape {point.shape}")
            raise
        message = f"objective must return an array of real numbers, got {type(returned).__name__}"
        try:
            values = jnp.asarray(returned)
        except (TypeError, ValueError):
            pass
        else:
            if not jnp.iscomplexobj(values):
                return values
            message = f"objective must return real numbers, got {values.dtype}"
        raise TypeError(message)

    on_cpu = sharding.local_devices()[0].platform == "cpu"
    return jax.lax.map(evaluate, points) if on_cpu else jax.vmap(evaluate)(points)

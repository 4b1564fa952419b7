"""A whole run in one compiled program."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo.drivers import runs
from jaxdpbo.types import Algorithm, Objective, State


def run_scan(
    algorithm: Algorithm,
    objective: Objective,
    data: Any,
    config: Any,
    *,
    key: jax.Array | None = None,
    diagnostics: bool = False,
) -> runs.Run:
    """A whole run in one compiled program.

    Compiles once for each algorithm, objective and set of static sizes: budgets, step sizes, clip norms, bounds, data
    and keys are arguments.

    Args:
      algorithm: such as ``jaxdpbo.dp_gibo.algorithm``.
      objective: traceable ``(point (d,), data) -> values``, written for one point; for DP-GIBO and random search
        ``values (n,)`` are the users' losses. Define it once: each fresh lambda is one more compilation.
      data: any pytree of arrays.
      config: of the algorithm's ``config(...)``.
      key: a typed key for tests and sweeps; from the operating system where not given.
      diagnostics: also return the raw state and per-step ``Info``. Not private.

    Raises:
      TypeError: ``key`` is not a typed key.
      ValueError: the objective's values do not have the shape the algorithm wants.
      RunInterrupted: the covariance of the evaluated points, a public quantity, could not be factored.
    """
    statement = algorithm.privacy(config)
    key, statement = runs.key_and_guarantee(key, statement)
    data = jax.tree.map(jnp.asarray, data)
    released, state, info = _scan(algorithm, objective, key, config, data)
    runs.raise_on_failed_factorisation(info, state)
    return runs.Run(released, statement, runs.Diagnostics(state, info) if diagnostics else None)


def scan(algorithm: Algorithm, objective: Objective, key: jax.Array, config: Any, data: Any) -> tuple[Any, State, Any]:
    """The pure function inside ``run_scan``: a whole run, for ``jax.jit``, ``jax.vmap`` and ``jax.lax.map`` over keys,
    configs and data.

    Returns:
      ``(release, state, info)``. Only the release may be published; ``info`` has a leading axis of steps.
    """
    init_key, loop_key, release_key = jax.random.split(key, 3)

    def step(state, t):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(loop_key, t))
        query = algorithm.ask(ask_key, config, state)
        values = _at_each(objective, query.points, data)
        return algorithm.tell(tell_key, config, state, query, values)

    state, info = jax.lax.scan(step, algorithm.init(init_key, config), jnp.arange(config.steps))
    return algorithm.release(release_key, config, state), state, info


def _at_each(objective: Objective, points: jax.Array, data: Any) -> jax.Array:
    """The values at each of ``points (b, d)``: one after the other on a CPU, together elsewhere.

    Not for speed: a batched LAPACK call of jaxlib 0.10.2 waits for tasks on the pool of threads that it occupies, so
    that as many calls as the pool has threads (two host devices, or two independent factorisations) wait for ever.
    """

    def at(point):
        return objective(point, data)

    return jax.lax.map(at, points) if jax.default_backend() == "cpu" else jax.vmap(at)(points)


_scan = jax.jit(scan, static_argnames=("algorithm", "objective"))

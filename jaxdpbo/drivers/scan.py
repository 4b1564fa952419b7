"""A whole run in one compiled program."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import space as spaces
from jaxdpbo.drivers import checkpoints, mesh, result, separation
from jaxdpbo.privacy import charges, keys
from jaxdpbo.types import Algorithm, Config, Data, Objective, State, Tree


def run_scan(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    config: Config,
    *,
    user_axes: Tree = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    recording: charges.Recording | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """A whole run in one compiled program.

    Compiles once for each algorithm, objective and set of static sizes: budgets, step sizes, clip norms, bounds, data
    and keys are arguments.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import random_search, run_scan
    >>> def losses(point, data):
    ...     return jnp.square(data - point[0])
    >>> config = random_search.config(users=3, steps=2, batch=1, bounds=[(0.0, 1.0)])
    >>> run = run_scan(random_search.algorithm, losses, jnp.array([0.1, 0.5, 0.9]), config)
    >>> run.release.point.shape, run.guarantee.notion
    ((1,), 'none')

    Args:
      algorithm: such as ``jaxdpbo.dp_gibo.algorithm``.
      objective: traceable ``(point (d,), data) -> values``, written for one point; for DP-GIBO and random search
        ``values (n,)`` are the users' losses. Define it once: each fresh lambda is one more compilation.
      data: any pytree of arrays; sharded by user over several devices, the run is spread over them (``drivers.mesh``).
      config: of the algorithm's ``config(...)``.
      user_axes: which axis of each leaf of ``data`` counts users: a prefix of its tree as for ``jax.vmap``, None for
        public leaves. Given, the traced objective is checked to keep users apart (``privacy.separable``), and the
        guarantee assumes that no more; so it is for a ``per_user`` objective.
      key: a typed key for tests and sweeps; from the operating system where not given.
      insecure_key: permit one of a generator without a security claim, such as ``jax.random.key(0)``, though the noise
        is exact; the guarantee says so.
      recording: ``Recording(path, run)``: charge the run to a ledger (``privacy.ledger``) before it begins. What was
        released under its name is given out again. A run that fails, or is killed, has spent its charge: ``run_loop``
        is the one that goes on. No ``key`` may be given.
      diagnostics: also return the raw state and per-step ``Info``. Not private. None for a release given out again.

    Raises:
      ledger.LedgerError: the budget does not suffice, or the name stands for another run or one that failed.
      TypeError: ``key`` is not a typed key, or of such a generator.
      ValueError: the objective's values do not have the shape the algorithm wants; ``key`` with a recording; data
        sharded along another axis than the users', or on record over several processes.
      separable.NotSeparable: with ``user_axes``, or of a ``per_user`` objective: the line that may mix users.
      RuntimeError: under jit, vmap, grad or another trace: ``scan`` is the function to call there.
      RunInterrupted: the covariance of the evaluated points, a public quantity, could not be factored.
    """
    result.expect_host("run_scan", key)
    statement = result.statement_of(algorithm, objective, config)
    objective, data = separation.shown(objective, data, user_axes)
    statement = separation.rests_on(statement, objective)
    if recording is not None and key is not None:
        raise ValueError("key must not be given with a recording: a run on record draws from the operating system")
    data = result.arrays(data)
    devices = mesh.of(data)
    if recording is not None:
        mesh.expect_one_process("a run on record", data)
    key, statement = keys.for_release(key, statement, insecure_key)
    key, (statement,) = mesh.agreed(devices, key, statement)
    if recording is not None:
        recording = charges.located(recording)
        with mesh.over(devices):  # refuses before it costs
            like, _, _ = _scan.eval_shape(algorithm, objective, key, config, data)
        charged = checkpoints.begin_once(recording, algorithm, config, statement)
        done = checkpoints.given_out(charged, like)
        if done is not None:
            return result.Run(result.named(done, config), statement)
    with mesh.over(devices):
        released, state, info = _scan(algorithm, objective, key, config, data)
    result.raise_on_failed_factorisation(info, state if recording is None else None)
    if recording is not None:
        released = checkpoints.give_out(recording, released)
    diagnosed = result.Diagnostics(state, info) if diagnostics else None
    return result.Run(result.named(released, config), statement, diagnosed)


def scan(
    algorithm: Algorithm, objective: Objective, key: jax.Array, config: Config, data: Data
) -> tuple[Any, State, Any]:
    """The pure function inside ``run_scan``: a whole run, for ``jax.jit``, ``jax.vmap`` and ``jax.lax.map`` over keys,
    configs and data.

    Returns:
      ``(release, state, info)``. Only the release may be published; ``info`` has a leading axis of steps.
    """
    init_key, loop_key, release_key = jax.random.split(key, 3)

    def step(state, t):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(loop_key, t))
        query = algorithm.ask(ask_key, config, state)
        values = _at_each(objective, query.points, data, config.space)
        state, info = algorithm.tell(tell_key, config, state, query, values)
        return state, result.complete(info)

    state, info = jax.lax.scan(step, algorithm.init(init_key, config), jnp.arange(config.steps))
    return algorithm.release(release_key, config, state), state, info


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

    return jax.lax.map(at, points) if jax.default_backend() == "cpu" else jax.vmap(at)(points)


_scan = jax.jit(scan, static_argnames=("algorithm", "objective"))

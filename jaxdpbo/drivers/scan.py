"""A whole run in one compiled program."""

from pathlib import Path

import jax

from jaxdpbo import _silence
from jaxdpbo.drivers import checkpoint as checkpoints
from jaxdpbo.drivers import compiled_run, recorded_run, result, separability, sharding
from jaxdpbo.privacy import guarantee, keys, ledger
from jaxdpbo.privacy import recording as recordings
from jaxdpbo.types import Algorithm, Config, Data, Objective, Tree


@_silence.debug_checks_off()
def run_scan(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    config: Config,
    *,
    user_axes: Tree = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    recording: recordings.Recording | None = None,
    checkpoint: str | Path | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """A whole run in one compiled program; the release is NumPy arrays, floats as float64, as every driver's.

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
      data: any pytree of arrays, without lists; arrays of objects or texts become float64, and what is no number NaN.
        Sharded by user over several devices, the run is spread over them (``drivers.sharding``).
      config: of the algorithm's ``config(...)``.
      user_axes: which axis of each leaf of ``data`` counts users: a prefix of its tree as for ``jax.vmap``, None for
        public leaves. Given, the traced objective is checked to keep users apart (``privacy.separable``), and the
        guarantee assumes that no more; so it is for a ``per_user`` objective.
      key: a typed key for tests and sweeps; from the operating system where not given.
      insecure_key: permit one of a generator without a security claim, such as ``jax.random.key(0)``, though the noise
        is exact; the guarantee says so.
      recording: ``Recording(path, run)``: charge the run to a ledger (``privacy.ledger``) before it begins. What was
        released under its name is given out again. A run that fails, or is killed, has spent its charge, unless it has
        a ``checkpoint``. No ``key`` may be given.
      checkpoint: a file for a long run, written after every twentieth of the steps and deleted at the end: the same
        call, made again after the process was killed, goes on from there to the same release. It is as secret as the
        data and the key, both of which it holds (``drivers.checkpoint``).
      diagnostics: also return the raw state and per-step ``Info``. Not private. None for a release given out again.

    Raises:
      ledger.LedgerError: the budget does not suffice, or the name stands for another run or one that failed, and
        whose checkpoint is gone.
      TypeError: ``key`` is not a typed key, or of such a generator.
      ValueError: the objective's values do not have the shape the algorithm wants; ``key`` with a recording; data
        sharded along another axis than the users', or on record over several processes; a ``checkpoint`` that is of
        another run or of other devices, or open to others, or of a program that calls Python or foreign code.
      separable.NotSeparable: with ``user_axes``, or of a ``per_user`` objective: the line that may mix users.
      RuntimeError: under jit, vmap, grad or another trace: ``pure_run`` is the function to call there.
      RunInterrupted: the covariance of the evaluated points, a public quantity, could not be factored.
    """
    result.expect_host("run_scan", key)
    statement = result.state_guarantee(algorithm, objective, config)
    objective, data = separability.prepare_objective(objective, data, user_axes)
    statement = separability.update_assumptions(statement, objective)
    if recording is not None and key is not None:
        raise ValueError("key must not be given with a recording: a run on record draws from the operating system")
    data = result.to_arrays(data)
    devices = sharding.find_mesh(data)
    if recording is not None or checkpoint is not None:
        sharding.expect_one_process("a run on record, or with a checkpoint,", data)
    drawn = key is None
    key, statement = keys.for_release(key, statement, insecure_key)
    key, (statement,) = sharding.share_keys(data, key, statement)
    key, config = sharding.move_to_mesh(devices, (key, config))
    begun = None
    if checkpoint is not None:
        statement = statement.assuming(guarantee.KEY_SECRET)
        with sharding.use_mesh(devices):
            begun = checkpoints.begin(checkpoint, algorithm, objective, key, config, data, drawn=drawn)
    if recording is not None:
        recording = recordings.check_recording(recording)
        with sharding.use_mesh(devices):  # refuses before it costs
            like, _, _ = _scan.eval_shape(algorithm, objective, key, config, data)
        done = recorded_run.load_release(_charge(recording, algorithm, config, statement, begun), like)
        if done is not None:
            return result.Run(result.name_params(result.to_numpy(done), config), statement)
    with sharding.use_mesh(devices):
        if begun is None:
            released, end, info = _scan(algorithm, objective, key, config, data)
        else:
            released, end, info = checkpoints.finish(begun, algorithm, objective, config, data)
    result.raise_on_failed_factorisation(info, end if recording is None else None)
    released = sharding.gather_release(devices, released)
    if recording is not None:
        released = recorded_run.store_release(recording, released)
    if begun is not None:
        checkpoints.delete(begun)
    diagnosed = result.Diagnostics(end.state, end.memory, info) if diagnostics else None
    return result.Run(result.name_params(result.to_numpy(released), config), statement, diagnosed)


def _charge(
    recording: recordings.Recording,
    algorithm: Algorithm,
    config: Config,
    statement: guarantee.Guarantee,
    begun: checkpoints.CheckpointedRun | None,
) -> ledger.Charge:
    if begun is None:
        return recorded_run.begin_once(recording, algorithm, config, statement)
    try:
        charged = recorded_run.begin_with_file(recording, algorithm, config, statement, begun.name)
    except (ValueError, ledger.LedgerError):  # refused. After all else, a full disk say, another call may run on it
        if begun.fresh:
            checkpoints.delete(begun)
        raise
    if charged.release is not None:
        checkpoints.delete(begun)
    return charged


_scan = jax.jit(compiled_run.pure_run, static_argnames=("algorithm", "objective"))

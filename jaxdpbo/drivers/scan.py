"""Run an algorithm in a single compiled program."""

from pathlib import Path

import jax

from jaxdpbo import logs, silence
from jaxdpbo import notes as _notes
from jaxdpbo.drivers import checkpoint as checkpoints
from jaxdpbo.drivers import compiled_run, recorded_run, result, separability, sharding
from jaxdpbo.drivers.execution import Execution, check_execution
from jaxdpbo.guarantee import assumptions, guarantees, release_key
from jaxdpbo.guarantee.recording import Recording, check_recording
from jaxdpbo.ledger.ledger_file import Charge, LedgerError
from jaxdpbo.types import Algorithm, Config, Data, Objective, Tree


@silence.numeric_checks_off()
def run_scan(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    config: Config,
    *,
    user_axes: Tree = None,
    delta: float | None = None,
    ledger: Recording | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    checkpoint: str | Path | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """Run an algorithm in one compiled program. The release holds NumPy arrays, with floats as float64.

    JAX compiles once for each algorithm, objective and set of static sizes. Budgets, step sizes, clipping norms,
    bounds, data and keys are arguments of the compiled program.

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
      objective: traceable ``(point (d,), data) -> values``, written for one point. For DP-GIBO and random search
        ``values (n,)`` are the users' losses. Define the objective once: each fresh lambda is compiled again.
      data: any pytree of arrays, without lists. Arrays of objects or texts become float64, with NaN for every element
        other than a number. If the users of ``data`` are sharded over several devices, the run uses all of these.
      config: from the algorithm's ``config(...)``.
      user_axes: the axis of users in each leaf of ``data``: a prefix of its tree as for ``jax.vmap``, with None
        for public leaves. The driver then checks the traced objective for operations that mix users
        (``separable.check_separable``), and the guarantee drops the assumption of separable losses. An objective of
        ``per_user`` is checked without this argument.
      delta: in [0, 1): state the guarantee of a GDP algorithm as ``(epsilon, delta)``-DP, for a ledger of notion "dp";
        see ``Guarantee.to_dp``. None keeps the notion of the algorithm.
      ledger: ``Recording(path, run)``: charge the run to a ledger (``ledger``) before the run begins. A second
        call with the same ``Recording`` returns the first release. A run that fails, or is killed, has spent its
        charge, unless you gave a ``checkpoint``. You may give no ``key``.
      key: see ``minimize``.
      insecure_key: see ``minimize``.
      checkpoint: see ``minimize``.
      diagnostics: see ``minimize``.

    Raises:
      ledger.LedgerError: the budget does not suffice, or the ledger holds another run of this name, or a failed run
        without a checkpoint.
      TypeError: ``key`` is not a typed key, or its generator has no security claim.
      ValueError: the objective's values do not have the algorithm's shape; a ``key`` with a ledger; data
        sharded along another axis than the users'; data on several processes with a ledger; a ``checkpoint`` of
        another run or other devices, with open permissions, or of a program that calls Python or foreign code.
      separable.NotSeparable: the objective may mix users; names the line.
      RuntimeError: under jit, vmap, grad or another trace. Call ``pure_run`` there.
      RunInterrupted: the covariance of the evaluated points, a public quantity, could not be factored.
    """
    run = check_execution(key=key, insecure_key=insecure_key, checkpoint=checkpoint, diagnostics=diagnostics)
    result.expect_host("run_scan", key)
    guarantee = result.state_guarantee(algorithm, objective, config, delta)
    prepared = separability.prepare_objective(objective, data, user_axes)
    return scan_prepared(algorithm, prepared.to_arrays(), config, guarantee, ledger, run)


@silence.numeric_checks_off()
def scan_prepared(
    algorithm: Algorithm,
    prepared: separability.Prepared,
    config: Config,
    guarantee: guarantees.Guarantee,
    ledger: Recording | None,
    run: Execution,
) -> result.Run:
    """Run in one compiled program: ``run_scan``, with its arguments checked and its data in JAX arrays."""
    (objective, data, data_notes), key, checkpoint = prepared, run.key, run.checkpoint
    guarantee = separability.update_assumptions(guarantee, objective)
    if ledger is not None and key is not None:
        raise ValueError("key must not be given with a ledger: the operating system then draws the key")
    devices = sharding.find_mesh(data)
    if ledger is not None or checkpoint is not None:
        sharding.expect_one_process("a run with a ledger or a checkpoint", data)
    drawn = key is None
    key, guarantee = release_key.for_release(key, guarantee, run.insecure_key)
    key, (guarantee,) = sharding.share_keys(data, key, guarantee)
    key, config = sharding.move_to_mesh(devices, (key, config))
    checkpointed, charge, notes = None, None, data_notes
    if checkpoint is not None:
        guarantee = guarantee.assuming(assumptions.KEY_SECRET)
        with sharding.use_mesh(devices):
            checkpointed = checkpoints.begin_checkpoint(
                checkpoint, algorithm, objective, data, config, key, drawn=drawn
            )
    if ledger is not None:
        ledger = check_recording(ledger)
        with sharding.use_mesh(devices):  # a failed trace costs nothing
            like, _, _ = _scan.eval_shape(algorithm, objective, data, config, key)
        subject = recorded_run.make_subject(objective, data, config.users)
        charge = _charge(ledger, algorithm, config, guarantee, subject, checkpointed)
        stored = recorded_run.load_release(charge, like)
        notes = subject.notes(charge) + data_notes
        if stored is not None:
            return result.Run(result.name_params(result.to_numpy(stored), config), guarantee, notes=_notes.show(notes))
    with sharding.use_mesh(devices):
        if checkpointed is None:
            released, end, info = _scan(algorithm, objective, data, config, key)
        else:
            released, end, info = checkpoints.finish(checkpointed, algorithm, objective, data, config)
    result.raise_on_failed_factorisation(info, end if ledger is None else None)
    released = sharding.gather_release(devices, released)
    if ledger is not None:
        assert charge is not None
        released = recorded_run.record_release(ledger, charge.hash, released)
    else:
        logs.released(f"of {config.steps} steps")
    if checkpointed is not None:
        checkpoints.delete(checkpointed)
    diagnosed = result.Diagnostics(end.state, end.memory, info) if run.diagnostics else None
    return result.Run(result.name_params(result.to_numpy(released), config), guarantee, diagnosed, _notes.show(notes))


def _charge(
    recording: Recording,
    algorithm: Algorithm,
    config: Config,
    guarantee: guarantees.Guarantee,
    subject: recorded_run.Subject,
    checkpointed: checkpoints.CheckpointedRun | None,
) -> Charge:
    if checkpointed is None:
        return recorded_run.begin_once(recording, algorithm, config, guarantee, subject)
    try:
        charge = recorded_run.begin_with_file(recording, algorithm, config, guarantee, subject, checkpointed.name)
    except (ValueError, LedgerError):  # after other failures, such as a full disk, a call may resume from the file
        if checkpointed.fresh:
            checkpoints.delete(checkpointed)
        raise
    if charge.release is not None:
        checkpoints.delete(checkpointed)
    return charge


_scan = jax.jit(compiled_run.pure_run, static_argnames=("algorithm", "objective"))

"""Run an algorithm around any Python callable: step by step, resumable, with batches evaluated by an executor."""

from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import logs, separable, silence
from jaxdpbo import notes as _notes
from jaxdpbo import space as spaces
from jaxdpbo.drivers import compiled_steps, recorded_run, result, separability, sharding
from jaxdpbo.drivers import progress as _progress
from jaxdpbo.drivers.execution import AUTO, Execution, check_execution, refuse_options
from jaxdpbo.drivers.users import Users, make_users
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.guarantee import release_key as _release_key
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.ledger.ledger_file import LedgerError
from jaxdpbo.noise import calibration
from jaxdpbo.tables import table
from jaxdpbo.types import Algorithm, Config, Data, Objective, Tree

REFUSALS = LedgerError, result.ObjectiveError, separable.NotSeparable  # stop a run; their messages say what to do


@silence.numeric_checks_off()
def run_loop(
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
    traceable: bool | str = AUTO,
    executor: Executor | None = None,
    progress: bool | str = AUTO,
    resume: result.Snapshot | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """Run an algorithm around any Python callable, or on a table.

    The objective gets NumPy float64 points and is never traced, except on a table if JAX can trace it.

    With the same key, the path is that of ``run_scan`` on the same objective, up to rounding. The release holds NumPy
    arrays, with floats as float64.

    >>> import numpy as np
    >>> from jaxdpbo import random_search, run_loop
    >>> def losses(point, data):
    ...     return np.square(data - point[0])
    >>> config = random_search.config(users=3, steps=2, batch=1, bounds=[(0.0, 1.0)])
    >>> run = run_loop(random_search.algorithm, losses, np.array([0.1, 0.5, 0.9]), config)
    >>> type(run.release.point[0]).__name__
    'float64'

    Args:
      algorithm: such as ``jaxdpbo.dp_gibo.algorithm``.
      objective: ``(point (d,), data) -> values``, one point at a time; masked points are not evaluated. The driver
        silences prints, warnings and logs of the objective, since these may quote records. A value other than a
        real number counts as NaN.
      data: passed to the objective untouched. Or a ``tables.Table``: the objective then gets the columns of a batch,
        and an algorithm with exact noise adds up all batches in each step. A failed scan raises ``RunInterrupted``.
      config: from the algorithm's ``config(...)``.
      user_axes: as for ``run_scan``, for an objective that JAX can trace.
      delta: in [0, 1): state the guarantee of a GDP algorithm as ``(epsilon, delta)``-DP, for a ledger of notion "dp";
        see ``Guarantee.to_dp``. None keeps the notion of the algorithm.
      ledger: ``Recording(path, run)``: charge the whole run to a ledger (``ledger``) before the first step.
        If the process is killed, or the objective raises, make the same call again: the driver returns the release if
        there is one, and otherwise resumes after the recorded steps and evaluates their points again. A failure after
        the noise of a step is drawn and before the step is recorded ends the run. You may give neither ``key`` nor
        ``resume``.
      key: see ``minimize``. To resume on the same data with the same noise, give the same key again.
      insecure_key: see ``minimize``.
      traceable: see ``minimize``; on a table alone.
      executor: see ``minimize``; not on a table. An executor does not change the path, and stays open at the end.
      progress: see ``minimize``.
      resume: see ``minimize``.
      diagnostics: see ``minimize``; not on a table. Diagnostics are of the steps of this call.

    Raises:
      TypeError: ``key`` is not a typed key, or its generator has no security claim.
      ValueError: the ``resume`` snapshot does not belong to ``config``; ``key`` or ``resume`` with a ledger; data on
        several processes; an option without effect on these data.
      ImportError: the extra that ``progress`` needs is missing.
      ObjectiveError: the first values are not real numbers of the shape that the algorithm needs; nothing was drawn.
      separable.NotSeparable: see ``run_scan``; nothing was drawn.
      ledger.LedgerError: the budget does not suffice, the ledger holds another run of this name, the run ended while
        noise was drawn, or another process works on the run.
      RunInterrupted: the objective raised (Ctrl-C included) or returned values of another shape later, or the
        covariance of the evaluated points could not be factored.
    """
    run = check_execution(
        key=key, insecure_key=insecure_key, traceable=traceable, executor=executor, progress=progress, resume=resume,
        diagnostics=diagnostics,
    )  # fmt: skip
    if not isinstance(data, table.Table):
        refuse_options("run_loop", run, "traceable", on="arrays")
    refuse_on_table("run_loop", data, run)
    guarantee = result.state_guarantee(algorithm, objective, config, delta)
    sharding.expect_one_process("run_loop", data)
    prepared = separability.prepare_objective(objective, data, user_axes)
    return loop_prepared(algorithm, prepared, config, guarantee, ledger, run)


def refuse_on_table(driver: str, data: Data, run: Execution) -> None:
    """Refuse options without effect on a table."""
    if isinstance(data, table.Table):
        refuse_options(driver, run, "executor", "checkpoint", "diagnostics", on="a table")


@silence.numeric_checks_off()
def loop_prepared(
    algorithm: Algorithm,
    prepared: separability.Prepared,
    config: Config,
    guarantee: guarantees.Guarantee,
    ledger: Recording | None,
    run: Execution,
) -> result.Run:
    """Run step by step: ``run_loop``, with its arguments checked."""
    objective, data, data_notes = prepared
    guarantee = separability.update_assumptions(
        guarantee, objective, traced=run.resume is None
    )  # steps before may be unchecked
    bar = _progress.bar(run.progress)  # raises early
    if ledger is not None and (run.key is not None or run.resume is not None):
        raise ValueError("key and resume must not be given with a ledger: the same call resumes from the ledger")
    key, guarantee = _release_key.for_release(run.key, guarantee, run.insecure_key)
    init_key, loop_key, release_key = compiled_steps.run_keys(key)
    users = make_users(algorithm, objective, data, config, run)
    if not isinstance(data, table.Table):  # ``users`` has traced the objective of a table
        separability.expect_separable(
            objective, lambda: spaces.place(config.space, np.zeros(result.dimension(config))), data
        )
    guarantee = guarantee.assuming(*users.assumptions)
    bar = None if isinstance(data, table.Table) else bar  # a table shows a bar of each scan
    fresh = users.begin(init_key)
    start = fresh if run.resume is None else run.resume
    _check_snapshot(start, fresh)
    setup = _Setup(
        algorithm, users, config, bar, loop_key, release_key, run.diagnostics, data_notes + table.notes(data)
    )
    if ledger is not None:
        subject = recorded_run.make_subject(objective, data, config.users)
        return _run_on_record(setup, guarantee, start, ledger, subject)
    if step := int(start.state.public.step):  # the source of the keys of earlier steps is unknown
        logs.resumed(f"step {step + 1} of {config.steps}")
        guarantee = guarantee.assuming(assumptions.KEY_SECRET)
    return _run_plain(setup, guarantee, start)


class _Setup(NamedTuple):
    """The constants of a run, and the users that evaluate its queries."""

    algorithm: Algorithm
    users: Users
    config: Config
    bar: Any  # of tqdm, or None
    loop_key: jax.Array
    release_key: jax.Array
    diagnostics: bool
    notes: _notes.Notes  # of the data's declared types


def _run_plain(setup: _Setup, guarantee: guarantees.Guarantee, before: result.Snapshot) -> result.Run:
    """Ask, evaluate and learn, from a snapshot to the last step; then release."""
    algorithm, config, users, infos = setup.algorithm, setup.config, setup.users, []
    for t in _steps(setup, before):
        ask_key, tell_key = compiled_steps.step_keys(setup.loop_key, t)
        try:
            query = compiled_steps.ask(algorithm, ask_key, config, before.state)
            values = users.evaluate(tell_key, before, query)
            after, info = users.learn(tell_key, before, query, values)
        except (*REFUSALS, result.RunInterrupted):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise _interruption(t, config, error, before) from error
        result.raise_on_failed_factorisation(info, before)
        before = after
        infos.append(info)
    info = _stack(infos)
    released = compiled_steps.release(algorithm, setup.release_key, config, before.state)
    logs.released(f"of {config.steps} steps")
    return _finish(setup, guarantee, released, before, info)


def _run_on_record(
    setup: _Setup,
    guarantee: guarantees.Guarantee,
    before: result.Snapshot,
    recording: Recording,
    subject: recorded_run.Subject,
) -> result.Run:
    """Charge the run, replay recorded steps, draw and record the others, and store the release before returning it.

    Public states come from the record. The users' memory and the raw state are not on record: if the algorithm has
    either, recorded steps are evaluated again.
    """
    algorithm, config, users, infos = setup.algorithm, setup.config, setup.users, []
    like = jax.eval_shape(algorithm.release, setup.release_key, config, before.state)
    record = recorded_run.begin_record(recording, algorithm, config, guarantee, before.state.public, subject)
    stored = recorded_run.load_release(record, like)
    if stored is not None:
        return _finish(setup, guarantee, stored, notes=record.notes)
    _check_recorded(recording, record, before.state.public.noise)
    for t in _steps(setup, before):
        ask_key, tell_key = compiled_steps.step_keys(setup.loop_key, t)
        replayed = t < len(record.publics)
        if replayed and not jax.tree.leaves((before.state.raw, before.memory)):  # the record holds all of the step
            before = _replay_step(before, record.publics[t])
            continue
        try:
            query = compiled_steps.ask(algorithm, ask_key, config, before.state)
            values = users.evaluate(tell_key, before, query)
            if replayed and algorithm.contribute is not None:  # users remember again; released, so no noise is drawn
                memory = users.recall(before, query, values)
                before = _replay_step(before._replace(memory=memory), record.publics[t])
                continue
            if not replayed:  # on disk before any noise is drawn: a crash from here on ends the run
                record = recorded_run.note_step(record, f"step {t}")
            after, info = users.learn(tell_key, before, query, values)
            result.raise_on_failed_factorisation(info, None)
            if replayed:  # raw values are learnt again, without noise; what is public comes from the record
                after = _replay_step(after, record.publics[t])
            else:
                record = recorded_run.store_state(record, before.state.public if t else None, after.state.public)
        except (*REFUSALS, result.RunInterrupted):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise _interruption(t, config, error) from error
        before = after
        infos.append(info)
    info = _stack(infos)
    recorded_run.note_step(record, "the release")
    released = compiled_steps.release(algorithm, setup.release_key, config, before.state)
    released = recorded_run.record_release(record.journal.recording, record.journal.charge, released)
    return _finish(setup, guarantee, released, before, info, record.notes)


def _replay_step(before: result.Snapshot, public: Any) -> result.Snapshot:
    """The snapshot after a step, with its public state from the record."""
    return before._replace(state=before.state._replace(public=public))


def _interruption(
    t: int, config: Config, error: BaseException, before: result.Snapshot | None = None
) -> result.RunInterrupted:
    """Build the error for a run stopped at step ``t``: resume from the snapshot ``before``, or from the record."""
    advice = "" if before is None else " with resume=error.snapshot"
    message = f"stopped at step {t} of {config.steps} on {type(error).__name__}; to resume, make the same call{advice}"
    return result.RunInterrupted(message, before, t)


def _check_snapshot(snapshot: result.Snapshot, fresh: result.Snapshot) -> None:
    """Raise a ValueError if ``snapshot`` has other shapes, or other noise, than a ``fresh`` one of this config."""
    if jax.tree.map(_shape_and_dtype, snapshot) != jax.tree.map(_shape_and_dtype, fresh):
        raise ValueError("resume must be a snapshot of a run with this config: its shapes differ")
    resumed, noise = snapshot.state.public.noise, fresh.state.public.noise
    if noise is not None and (changed := calibration.describe_noise_change(resumed, noise)):
        raise ValueError(f"resume must be a snapshot of a run with the noise of this config, got {changed}")


def _check_recorded(recording: Recording, record: recorded_run.RecordedRun, noise: Any) -> None:
    """Raise a LedgerError if the recorded steps are of other noise settings, such as other proposals."""
    changed = noise is not None and record.publics and calibration.describe_noise_change(record.publics[0].noise, noise)
    if changed:
        raise LedgerError(
            f"{recording.path}: run {recording.run!r} took {len(record.publics)} steps with other settings, such as "
            f"other points of public records, got {changed}: give your model a fixed seed, or another run name"
        )


def _stack(infos: list[Any]) -> Any:
    """Stack the ``Info`` of all steps along a leading axis; None for no steps."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *infos) if infos else None  # jnp compiles each shape


def _finish(
    setup: _Setup,
    guarantee: guarantees.Guarantee,
    released: Any,
    end: result.Snapshot | None = None,
    info: Any = None,
    notes: _notes.Notes = (),
) -> result.Run:
    """Build the ``Run``. A release read from the record has no ``end``, so it has no diagnostics."""
    diagnostics = result.Diagnostics(end.state, end.memory, info) if setup.diagnostics and end is not None else None
    named = result.name_params(result.to_numpy(released), setup.config)
    return result.Run(named, guarantee, diagnostics, _notes.show(notes + setup.notes))


def _steps(setup: _Setup, before: result.Snapshot) -> Iterable[int]:
    """The steps left after a snapshot, with a progress bar if requested."""
    start = int(before.state.public.step)
    steps = range(start, setup.config.steps)
    return steps if setup.bar is None else setup.bar(steps, initial=start, total=setup.config.steps, unit="step")


def _shape_and_dtype(leaf: Any) -> tuple[Any, ...]:
    return jnp.shape(leaf), jnp.result_type(leaf)

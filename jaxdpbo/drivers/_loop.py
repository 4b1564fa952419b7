"""Run an algorithm around any Python callable: step by step, resumable, with batches evaluated by an executor."""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _silence, _user_values
from jaxdpbo import _space as spaces
from jaxdpbo._types import Algorithm, Config, Data, Objective, Query, Tree
from jaxdpbo.drivers import _compiled_run, _progress, _recorded_run, _result, _separability, _sharding
from jaxdpbo.drivers._execution import Execution, check_execution
from jaxdpbo.privacy import _calibration, _guarantee, _keys, _separable
from jaxdpbo.privacy._ledger import LedgerError
from jaxdpbo.privacy._recording import Recording

REFUSALS = LedgerError, _result.ObjectiveError, _separable.NotSeparable  # stop a run; their messages say what to do


@_silence.debug_checks_off()
def run_loop(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    config: Config,
    *,
    user_axes: Tree = None,
    delta: float | None = None,
    ledger: Recording | None = None,
    run: Execution | None = None,
) -> _result.Run:
    """Run an algorithm around any Python callable. The objective gets NumPy float64 points and is never traced.

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
      data: passed to the objective untouched.
      config: from the algorithm's ``config(...)``.
      user_axes: as for ``run_scan``, for an objective that JAX can trace.
      delta: in [0, 1): state the guarantee of a GDP algorithm as ``(epsilon, delta)``-DP, for a ledger of notion "dp";
        see ``Guarantee.to_dp``. None keeps the notion of the algorithm.
      ledger: ``Recording(path, run)``: charge the whole run to a ledger (``ledger``) before the first step.
        If the process is killed, or the objective raises, make the same call again: the driver returns the release if
        there is one, and otherwise resumes after the recorded steps and evaluates their points again. A failure after
        the noise of a step is drawn and before the step is recorded ends the run. You may give neither ``key`` nor
        ``resume``.
      run: ``Execution(key, insecure_key, executor, progress, resume, diagnostics)``. To resume on the same data with
        the same noise, give the same key again. An executor does not change the path, and stays open at the end.
        Diagnostics are of the steps of this call, and None for a release from the ledger.

    Raises:
      TypeError: ``key`` is not a typed key, or its generator has no security claim.
      ValueError: the ``resume`` snapshot does not belong to ``config``; ``key`` or ``resume`` with a ledger; data on
        several processes; an option of ``run`` for compiled programs.
      ImportError: the extra that ``progress`` needs is missing.
      ObjectiveError: the first values are not real numbers of the shape that the algorithm needs; nothing was drawn.
      separable.NotSeparable: see ``run_scan``; nothing was drawn.
      ledger.LedgerError: the budget does not suffice, the ledger holds another run of this name, the run ended while
        noise was drawn, or another process works on the run.
      RunInterrupted: the objective raised (Ctrl-C included) or returned values of another shape later, or the
        covariance of the evaluated points could not be factored.
    """
    usable = "key", "insecure_key", "executor", "progress", "resume", "diagnostics"
    run = check_execution("run_loop", run, *usable)
    statement = _result.state_guarantee(algorithm, objective, config, delta)
    _sharding.expect_one_process("run_loop", data)
    objective, data = _separability.prepare_objective(objective, data, user_axes)
    statement = _separability.update_assumptions(
        statement, objective, shown=run.resume is None
    )  # steps before may be unchecked
    bar = _progress.bar(run.progress)
    if ledger is not None and (run.key is not None or run.resume is not None):
        raise ValueError("key and resume must not be given with a ledger: the same call resumes from the ledger")
    key, statement = _keys.for_release(run.key, statement, run.insecure_key)
    init_key, loop_key, release_key = run_keys(key)
    fresh: _result.Snapshot = begin(algorithm, init_key, config)
    start = fresh if run.resume is None else run.resume
    _check_snapshot(start, fresh)
    setup = _Setup(algorithm, objective, data, config, run.executor, bar, loop_key, release_key, run.diagnostics)
    if ledger is not None:
        return _run_on_record(setup, statement, start, ledger)
    if int(start.state.public.step):  # the source of the keys of earlier steps is unknown
        statement = statement.assuming(_guarantee.KEY_SECRET)
    return _run_plain(setup, statement, start)


class _Setup(NamedTuple):
    """The constants of a run."""

    algorithm: Algorithm
    objective: Objective
    data: Any
    config: Config
    executor: Executor | None
    bar: Any  # of tqdm, or None
    loop_key: jax.Array
    release_key: jax.Array
    diagnostics: bool


def _run_plain(setup: _Setup, statement: _guarantee.Guarantee, before: _result.Snapshot) -> _result.Run:
    """Ask, evaluate and learn, from a snapshot to the last step; then release."""
    algorithm, config, infos, shape = setup.algorithm, setup.config, [], None
    for t in _steps(setup, before):
        ask_key, tell_key = step_keys(setup.loop_key, t)
        try:
            query = ask(algorithm, ask_key, config, before.state)
            check = None if infos else partial(_check_first, setup, tell_key, before, query)
            values, shape = _evaluate(setup, query, shape, check)
            after, info = learn(algorithm, tell_key, config, before, query, values)
        except REFUSALS:
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise _interruption(t, config, error, before) from error
        _result.raise_on_failed_factorisation(info, before)
        before = after
        infos.append(info)
    info = _stack(infos)
    released = release(algorithm, setup.release_key, config, before.state)
    return _finish(setup, statement, released, before, info)


def _run_on_record(
    setup: _Setup, statement: _guarantee.Guarantee, before: _result.Snapshot, recording: Recording
) -> _result.Run:
    """Charge the run, replay recorded steps, draw and record the others, and store the release before returning it.

    Public states come from the record. The users' memory and the raw state are not on record: if the algorithm has
    either, recorded steps are evaluated again.
    """
    algorithm, config, infos, shape = setup.algorithm, setup.config, [], None
    like = jax.eval_shape(algorithm.release, setup.release_key, config, before.state)
    record = _recorded_run.begin_record(recording, algorithm, config, statement, before.state.public)
    stored = _recorded_run.load_release(record, like)
    if stored is not None:
        return _finish(setup, statement, stored)
    _check_recorded(recording, record, before.state.public.budget)
    for t in _steps(setup, before):
        ask_key, tell_key = step_keys(setup.loop_key, t)
        replayed = t < len(record.publics)
        if replayed and not jax.tree.leaves((before.state.raw, before.memory)):
            before = _replay_step(before, record.publics[t])
            continue
        try:
            query = ask(algorithm, ask_key, config, before.state)
            check = None if infos else partial(_check_first, setup, tell_key, before, query)
            values, shape = _evaluate(setup, query, shape, check)
            if replayed and algorithm.contribute is not None:  # a released step draws no noise again
                memory = recall(algorithm, config, before.memory, query, values)
                before = _replay_step(before._replace(memory=memory), record.publics[t])
                continue
            if not replayed:
                record = _recorded_run.note_step(record, f"step {t}")
            after, info = learn(algorithm, tell_key, config, before, query, values)
            _result.raise_on_failed_factorisation(info, None)
            if replayed:
                after = _replay_step(after, record.publics[t])
            else:
                record = _recorded_run.store_state(record, before.state.public if t else None, after.state.public)
        except (*REFUSALS, _result.RunInterrupted):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise _interruption(t, config, error) from error
        before = after
        infos.append(info)
    info = _stack(infos)
    _recorded_run.note_step(record, "the release")
    released = release(algorithm, setup.release_key, config, before.state)
    released = _recorded_run.record_release(record.recording, released)
    return _finish(setup, statement, released, before, info)


def _replay_step(before: _result.Snapshot, public: Any) -> _result.Snapshot:
    """The snapshot after a step, with its public state from the record."""
    return before._replace(state=before.state._replace(public=public))


def _interruption(
    t: int, config: Config, error: BaseException, before: _result.Snapshot | None = None
) -> _result.RunInterrupted:
    """Build the error for a run stopped at step ``t``: resume from the snapshot ``before``, or from the record."""
    advice = "" if before is None else " with resume=error.snapshot added to its Execution"
    message = f"stopped at step {t} of {config.steps} on {type(error).__name__}; to resume, make the same call{advice}"
    return _result.RunInterrupted(message, before, t)


# Each is compiled whole: outside of jit, JAX compiles every operation separately.
run_keys = jax.jit(lambda key: tuple(jax.random.split(key, 3)))
step_keys = jax.jit(lambda loop_key, t: tuple(jax.random.split(jax.random.fold_in(loop_key, t))))
begin = jax.jit(_compiled_run.begin, static_argnums=0)
ask = jax.jit(lambda algorithm, key, config, state: algorithm.ask(key, config, state), static_argnums=0)
learn = jax.jit(_compiled_run.learn, static_argnums=0)
recall = jax.jit(_compiled_run.recall, static_argnums=0)
release = jax.jit(lambda algorithm, key, config, state: algorithm.release(key, config, state), static_argnums=0)


def _check_snapshot(snapshot: _result.Snapshot, fresh: _result.Snapshot) -> None:
    """Raise a ValueError if ``snapshot`` has other shapes, or other noise, than a ``fresh`` one of this config."""
    if jax.tree.map(_shape_and_dtype, snapshot) != jax.tree.map(_shape_and_dtype, fresh):
        raise ValueError("resume must be a snapshot of a run with this config: its shapes differ")
    resumed_budget, budget = snapshot.state.public.budget, fresh.state.public.budget
    if budget is not None and (changed := _calibration.describe_noise_change(resumed_budget, budget)):
        raise ValueError(f"resume must be a snapshot of a run with the noise of this config, got {changed}")


def _check_recorded(recording: Recording, record: _recorded_run.RecordedRun, budget: Any) -> None:
    """Raise a LedgerError if the recorded steps are of other noise settings, such as other proposals."""
    changed = (
        budget is not None and record.publics and _calibration.describe_noise_change(record.publics[0].budget, budget)
    )
    if changed:
        raise LedgerError(
            f"{recording.path}: run {recording.run!r} took {len(record.publics)} steps with other settings, such as "
            f"other points of public records, got {changed}: give your model a fixed seed, or another run name"
        )


def _evaluate(
    setup: _Setup, query: Query, shape: tuple[int, ...] | None, check: Callable[[Any], tuple[int, ...] | None] | None
) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """Evaluate the query's points: return values ``(b, ...)``, with zeros at masked points, and ``shape``.

    Args:
      setup: the constants of the run.
      query: the query of this step.
      shape: the shape of the values at a point, if known.
      check: receives the first value before the next point is evaluated, and returns ``shape``.
    """
    objective, data, config, executor = setup.objective, setup.data, setup.config, setup.executor
    points, mask, dtype = np.asarray(query.points, np.float64), np.asarray(query.mask), query.points.dtype
    rows = np.flatnonzero(mask)
    places = [spaces.place(config.space, point) for point in points[rows]]
    raw = (
        _evaluate_points(executor, objective, places, data)
        if executor
        else (_call(objective, place, data) for place in places)
    )
    losses = []
    for value in raw:
        if check is not None and not losses:
            shape = check(value)
        losses.append(_user_values.to_losses("objective", value, shape, dtype))
    shapes = {value.shape for value in losses} or {() if config.users is None else (config.users,)}
    if len(shapes) > 1:
        raise ValueError(f"objective must return values of one shape, got {sorted(shapes)}")
    values = np.zeros((len(points), *shapes.pop()), dtype)
    for row, value in zip(rows, losses, strict=True):
        values[row] = value
    return values, shape


def _check_first(
    setup: _Setup, key: jax.Array, before: _result.Snapshot, query: Query, returned: Any
) -> tuple[int] | None:
    """Check the first value: return ``(n,)`` if the objective gives a loss per user, otherwise None.

    Raises:
      ObjectiveError: the algorithm cannot use values of this shape.
      TypeError: ``Info`` lacks a field.
    """
    users = None if setup.config.users is None else (setup.config.users,)
    listed = not isinstance(returned, (np.ndarray, jax.Array)) or not _user_values.is_numeric(returned)
    expected = users if users and listed and _takes(setup, key, before, query, users) else None
    try:
        shape = _user_values.to_losses("objective", returned, expected, query.points.dtype).shape
        _result.check_info(_shape_of_info(setup, key, before, query, shape))
    except _result.ObjectiveError:
        raise
    except ValueError as error:
        raise _result.ObjectiveError(str(error)) from None
    return users if shape == users else None


def _takes(setup: _Setup, key: jax.Array, before: _result.Snapshot, query: Query, shape: tuple[int]) -> bool:
    try:
        _shape_of_info(setup, key, before, query, shape)
    except _result.ObjectiveError:
        return False
    return True


def _shape_of_info(
    setup: _Setup, key: jax.Array, before: _result.Snapshot, query: Query, shape: tuple[int, ...]
) -> Any:
    """The shapes of ``Info`` for values of a shape. Raise an ObjectiveError if the algorithm cannot use this shape."""
    values = jax.ShapeDtypeStruct((len(query.points), *shape), query.points.dtype)
    try:
        _result.expect_no_mean("objective", shape, setup.config.users)
        _, info = learn.eval_shape(setup.algorithm, key, setup.config, before, query, values)
    except (TypeError, ValueError) as error:
        raise _result.ObjectiveError(f"objective must not return values of shape {shape}: {error}") from None
    return info


def _stack(infos: list[Any]) -> Any:
    """Stack the ``Info`` of all steps along a leading axis; None for no steps."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *infos) if infos else None  # jnp compiles each shape


def _finish(
    setup: _Setup,
    statement: _guarantee.Guarantee,
    released: Any,
    end: _result.Snapshot | None = None,
    info: Any = None,
) -> _result.Run:
    """Build the ``Run``. A release read from the record has no ``end``, so it has no diagnostics."""
    diagnostics = _result.Diagnostics(end.state, end.memory, info) if setup.diagnostics and end is not None else None
    return _result.Run(_result.name_params(_result.to_numpy(released), setup.config), statement, diagnostics)


def _call(objective: Objective, point: Any, data: Any) -> Any:
    """Evaluate the objective in silence, in the thread or process that the executor chose."""
    return _silence.call(objective, point, data)


def _evaluate_points(executor: Executor, objective: Objective, points: list[Any], data: Any) -> list[Any]:
    """Values in the order of the points. If a point fails, waiting evaluations are cancelled."""
    futures = [executor.submit(_call, objective, point, data) for point in points]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def _steps(setup: _Setup, before: _result.Snapshot) -> Iterable[int]:
    """The steps left after a snapshot, with a progress bar if requested."""
    start = int(before.state.public.step)
    steps = range(start, setup.config.steps)
    return steps if setup.bar is None else setup.bar(steps, initial=start, total=setup.config.steps, unit="step")


def _shape_and_dtype(leaf: Any) -> tuple[Any, ...]:
    return jnp.shape(leaf), jnp.result_type(leaf)

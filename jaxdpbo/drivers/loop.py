"""A run around any Python callable: step by step, resumable, a batch at once through an executor."""

from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, _values
from jaxdpbo import space as spaces
from jaxdpbo.drivers import checkpoints, mesh, result, separation
from jaxdpbo.privacy import calibration, charges, guarantee, keys, ledger, separable
from jaxdpbo.types import Algorithm, Config, Data, Objective, Query, State, Tree


def run_loop(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    config: Config,
    *,
    user_axes: Tree = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    state: State | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    recording: charges.Recording | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """A run around any Python callable: the objective gets NumPy float64 points and is never traced.

    Given the same key, the same path as ``run_scan`` on the same objective, up to rounding. What is released is of the
    kind that the objective gets: NumPy arrays, floats as float64.

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
      objective: ``(point (d,), data) -> values``, one point at a time; masked points are not evaluated.
      data: passed on untouched.
      config: of the algorithm's ``config(...)``.
      user_axes: as for ``run_scan``, of an objective that JAX can trace.
      key: a typed key for tests and sweeps; from the operating system where not given. To resume a run on the same
        data with the same noise, pass the same key.
      insecure_key: permit one of a generator without a security claim, see ``run_scan``.
      state: of a ``RunInterrupted``, to go on from there. Each state once: going on from it a second time under another
        key spends the steps that were left a second time.
      executor: evaluates the points of a batch at once: threads, processes or a cluster's own. Values are placed by
        point, so the path is the same as without one. A process pool pickles ``objective`` and ``data`` for every
        point: pass what finds the data rather than the data. Left open at the end.
      progress: show a bar of steps; needs the ``progress`` extra. It counts, and shows nothing of the data.
      recording: ``Recording(path, run)``: charge the whole run to a ledger (``privacy.ledger``) before its first step.
        A process that is killed, or whose objective raised, may call again: what was released is given out again,
        otherwise the run goes on after the steps on record, evaluating their points again. Only a failure between the
        line that says that a step is drawn and the line that holds it ends the run (``drivers.checkpoints``). Keys are
        the operating system's: neither ``key`` nor ``state`` may be given.
      diagnostics: also return the raw state and per-step ``Info`` of the steps taken here. Not private. None where a
        release is given out again.

    Raises:
      TypeError: ``key`` is not a typed key, or of such a generator.
      ValueError: ``state`` does not belong to ``config``; ``key`` or ``state`` with a recording; data that lie on
        several processes.
      ImportError: the extra that ``progress`` needs is missing.
      ObjectiveError: the first values are not real numbers of the shape that the algorithm wants; nothing was drawn.
      separable.NotSeparable: see ``run_scan``; nothing was drawn.
      ledger.LedgerError: the budget does not suffice, the name stands for another run or one that ended while it drew,
        or another process goes on with it.
      RunInterrupted: the objective raised (Ctrl-C included) or returned values of another shape later, or the
        covariance of the evaluated points could not be factored.
    """
    statement, checkpoint = result.statement_of(algorithm, objective, config), None
    mesh.expect_one_process("run_loop", data)
    objective, data = separation.shown(objective, data, user_axes)
    statement = separation.rests_on(statement, objective, shown=state is None)  # steps before may be unchecked
    count = _checks.extra("tqdm", "progress", "progress=True").tqdm if progress else None
    if not isinstance(state, State | None):
        raise TypeError(f"state must be of a RunInterrupted, got {type(state).__name__}")
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(f"executor must be one of concurrent.futures, got {type(executor).__name__}")
    if recording is not None and (key is not None or state is not None):
        raise ValueError("key and state must not be given with a recording: the record says how a run goes on")
    key, statement = keys.for_release(key, statement, insecure_key)
    init_key, loop_key, release_key = run_keys(key)
    fresh: State = init(algorithm, init_key, config)
    current = fresh if state is None else state
    if jax.tree.map(_shape_and_dtype, current) != jax.tree.map(_shape_and_dtype, fresh):
        raise ValueError("state must come from a run with this config: its shapes differ")
    begun, budget = current.public.budget, fresh.public.budget
    if budget is not None and (changed := calibration.changed_noise(begun, budget)):
        raise ValueError(f"state must come from a run with the noise of this config, got {changed}")

    publics, infos = (), []
    if recording is not None:
        like = jax.eval_shape(algorithm.release, release_key, config, fresh)
        checkpoint = checkpoints.begin(recording, algorithm, config, statement, fresh.public)
        done = checkpoints.given_out(checkpoint, like)
        if done is not None:
            return _finished(done, config, statement)
        publics = checkpoint.publics
    start = int(current.public.step)
    if start:  # nobody can say any more where the keys of the earlier steps came from
        statement = statement.assuming(guarantee.KEY_SECRET)
    for t in _steps(start, config.steps, count):
        ask_key, tell_key = step_keys(loop_key, t)
        if t < len(publics) and not jax.tree.leaves(current.private):
            current = current._replace(public=publics[t])
            continue
        try:
            query = ask(algorithm, ask_key, config, current)
            first = partial(_expect_values, algorithm, tell_key, config, current, query) if not infos else None
            values = _evaluate(objective, query, data, config, executor, first)
            if checkpoint is not None and t >= len(publics):
                checkpoint = checkpoints.about_to_draw(checkpoint, f"step {t}")
            after, info = tell(algorithm, tell_key, config, current, query, values)
            if t < len(publics):
                after = after._replace(public=publics[t])  # the noise drawn just now was never seen
            elif checkpoint is not None:
                checkpoint = checkpoints.keep(checkpoint, current.public if t else None, after.public)
        except (ledger.LedgerError, result.ObjectiveError, separable.NotSeparable):
            raise
        except (Exception, KeyboardInterrupt) as error:
            said = f"stopped at step {t} of {config.steps} on {type(error).__name__}; the same call "
            if checkpoint is None:
                raise result.RunInterrupted(f"{said}with state=error.state goes on from there", current, t) from error
            raise result.RunInterrupted(f"{said}goes on, or says why it cannot", step=t) from error
        current = after
        infos.append(info)
    info = jax.tree.map(lambda *leaves: np.stack(leaves), *infos) if infos else None  # jnp: a program for each shape
    result.raise_on_failed_factorisation(info, current if checkpoint is None else None)
    if checkpoint is not None:
        checkpoints.about_to_draw(checkpoint, "the release")
    released = release(algorithm, release_key, config, current)
    if checkpoint is not None:
        released = checkpoints.give_out(checkpoint.recording, released)
    return _finished(released, config, statement, result.Diagnostics(current, info) if diagnostics else None)


# Each of these is one program: what runs outside of one is compiled operation by operation.
run_keys = jax.jit(lambda key: tuple(jax.random.split(key, 3)))
step_keys = jax.jit(lambda loop_key, t: tuple(jax.random.split(jax.random.fold_in(loop_key, t))))
init = jax.jit(lambda algorithm, key, config: algorithm.init(key, config), static_argnums=0)
ask = jax.jit(lambda algorithm, key, config, state: algorithm.ask(key, config, state), static_argnums=0)
tell = jax.jit(
    lambda algorithm, key, config, state, query, values: algorithm.tell(key, config, state, query, values),
    static_argnums=0,
)
release = jax.jit(lambda algorithm, key, config, state: algorithm.release(key, config, state), static_argnums=0)


def _evaluate(
    objective: Objective,
    query: Query,
    data: Any,
    config: Config,
    executor: Executor | None,
    first: Callable[[Any], None] | None,
) -> np.ndarray:
    """Values ``(b, ...)`` at the query's points; zeros at masked ones, which are not evaluated.

    ``first`` gets what was returned first, before another point is evaluated.
    """
    points, mask, dtype = np.asarray(query.points, np.float64), np.asarray(query.mask), query.points.dtype
    rows = np.flatnonzero(mask)
    places = [spaces.place(config.space, point) for point in points[rows]]
    raw = _at_once(executor, objective, places, data) if executor else (objective(each, data) for each in places)
    found = []
    for value in raw:
        if first is not None and not found:
            first(value)
        found.append(_values.of_users("objective", value, dtype))
    shapes = {value.shape for value in found} or {() if config.users is None else (config.users,)}
    if len(shapes) > 1:
        raise ValueError(f"objective must return values of one shape, got {sorted(shapes)}")
    values = np.zeros((len(points), *shapes.pop()), dtype)
    for row, value in zip(rows, found, strict=True):
        values[row] = value
    return values


def _expect_values(
    algorithm: Algorithm, key: jax.Array, config: Any, state: State, query: Query, returned: Any
) -> None:
    """Nothing where ``tell`` takes such values and gives a whole ``Info``; its shapes alone are asked."""
    try:
        shape = _values.of_users("objective", returned, query.points.dtype).shape
    except TypeError as error:
        raise result.ObjectiveError(str(error)) from None
    values = jax.ShapeDtypeStruct((len(query.points), *shape), query.points.dtype)
    try:
        _, info = tell.eval_shape(algorithm, key, config, state, query, values)
    except (TypeError, ValueError) as error:
        raise result.ObjectiveError(f"objective must not return values of shape {shape}: {error}") from None
    result.complete(info)


def _finished(released: Any, config: Config, statement: guarantee.Guarantee, *diagnosed: Any) -> result.Run:
    return result.Run(result.named(_as_numpy(released), config), statement, *diagnosed)


def _as_numpy(released: Any) -> Any:
    """What a Python objective gets: NumPy, floats as float64."""
    return jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float64 if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf.dtype), released
    )


def _at_once(executor: Executor, objective: Objective, points: list[Any], data: Any) -> list[Any]:
    """Values in the order of the points; where one fails, what has not begun is cancelled."""
    futures = [executor.submit(objective, point, data) for point in points]
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def _steps(start: int, stop: int, bar: Any) -> Any:
    steps = range(start, stop)
    return steps if bar is None else bar(steps, initial=start, total=stop, unit="step")


def _shape_and_dtype(leaf: Any) -> tuple[Any, ...]:
    return jnp.shape(leaf), jnp.result_type(leaf)

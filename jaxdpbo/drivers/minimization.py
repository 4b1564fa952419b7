"""Private minimisation in one call, with defaults that work."""

from concurrent.futures import BrokenExecutor, Executor
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import checks, notes, separable, user_values
from jaxdpbo import space as spaces
from jaxdpbo.drivers import methods, public_search, result, separability, sharding
from jaxdpbo.drivers import progress as _progress
from jaxdpbo.drivers.execution import AUTO, Execution, check_execution, is_set
from jaxdpbo.drivers.loop import loop_prepared, refuse_on_table
from jaxdpbo.drivers.methods import Search
from jaxdpbo.drivers.release_notes import plan_notes
from jaxdpbo.drivers.scan import scan_prepared
from jaxdpbo.guarantee import budget_calibration, guarantees, recording
from jaxdpbo.guarantee.recording import Recording
from jaxdpbo.noise import keys
from jaxdpbo.space import Space
from jaxdpbo.tables import table
from jaxdpbo.types import ArrayLike, Bounds, Data, Objective, Tree

NOT_OF_LOSS = table.TableError, BrokenExecutor  # a reader, an engine or a worker failed, and not the loss
STEPWISE = "executor", "progress", "resume"  # options for steps from Python
BRANCH = ", those of its branch alone"


SPELLINGS = {
    "bounds": "space=",
    "x0": "search=Search(start=...)",
    "n_iter": "search=Search(steps=...)",
    "n_trials": "search=Search(steps=...)",
    "maxiter": "search=Search(steps=...)",
    "seed": "no seed, which would tell the noise; key= is for tests",
    "random_state": "no seed, which would tell the noise; key= is for tests",
    "n_users": "users=",
}  # as other libraries spell them


def _advise(name: str, value: object) -> str:
    """What to type in place of an argument that ``minimize`` does not take."""
    del value
    if name in SPELLINGS:
        return f"type {SPELLINGS[name]}"
    of_search = name in {option.name for option in fields(Search)}
    return f"type search=Search({name}=...)" if of_search else "see help(jaxdpbo.minimize) for its arguments"


@checks.refuse_others("minimize", _advise)
def minimize(
    loss: Objective,
    data: Data,
    space: Bounds | Space,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mu: float | None = None,
    loss_range: ArrayLike | str | None = None,
    users: int | None = None,
    user_axes: Tree = None,
    public: Data | None = None,
    search: Search | None = None,
    ledger: Recording | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    traceable: bool | str = AUTO,
    executor: Executor | None = None,
    progress: bool | str = AUTO,
    resume: result.Snapshot | None = None,
    checkpoint: str | Path | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """Minimise the mean loss of all users over a box or a ``Space``, with differential privacy for each user.

    >>> import numpy as np
    >>> from jaxdpbo import Search, minimize
    >>> def loss(point, data):
    ...     return np.abs(data - point).sum(axis=1)
    >>> run = minimize(loss, np.full((500, 1), 2.0), [(0, 6)], epsilon=3, delta=1e-5, search=Search(steps=4, batch=2))
    >>> run.release.point.shape, run.guarantee.epsilon(delta=1e-5) <= 3
    ((1,), True)

    Formal guarantee: ``(epsilon, delta)``-DP with the GDP level as ``also`` if you give ``epsilon``; with ``mu``, or a
    ledger that adds up GDP levels, ``mu``-GDP; replace-one, for the users with evaluated losses.
    ``Run.guarantee`` states it, with its assumptions. NaN and infinite losses are permitted: the
    algorithm's clipping gives their value.

    The descent of "local" differs from Algorithm 1 as published (``dp_gibo.config(box_units=False)`` with ``run_scan``
    or ``run_loop``): it scales the box to ``[-1, 1]^d``, updates by coordinate AdaGrad with half a side as step, and
    answers with the mean of the last half of the path.

    Args:
      loss: ``(point (d,), data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone. With a
        ``Space`` the loss gets a dict of parameters in place of the point. Wrap the loss of one user in ``per_user``.
      data: the users' records: a pytree of arrays, without lists. Arrays of objects or texts become float64, with NaN
        for every element other than a number. With ``traceable=False`` any object, passed untouched. Or a
        ``tables.Table``, such as Parquet files: the loss then gets the columns of a batch.
      space: a ``Space``; a dict of dimensions by name, or a list of such dicts, a branch each; or a finite box: pairs
        ``[(low, high), ...]`` or, unless ``d`` is 2, rows ``(2, d)``; for any ``d`` ``{"low": (d,), "high": (d,)}`` or
        ``scipy.optimize.Bounds``.
      epsilon: the budget, with ``delta``. The guarantee's epsilon at ``delta`` is at most this number.
      delta: in (0, 1); without a default. Must be below ``1 / users``, unless you pass a ``LargeDelta``.
      mu: the GDP budget, in place of ``epsilon`` and ``delta``; ``inf`` for no noise.
      loss_range: ``(low, high)`` of a user's loss, chosen without the users' data; required by all methods but
        "local". A private choice counts differences between a user's losses up to this width. "private", for methods
        "local" and "evaluations", finds how much losses differ, for 5 % of ``mu^2``.
      users: the number of users ``n``; by default taken from ``by_person`` or ``blocks``, or the common leading length
        of all leaves of ``data``.
      user_axes: the axis of users in each leaf of ``data``, see ``run_scan``.
      public: records that need no protection, any number ``m``, for ``loss(point, public) -> losses (m,)``. Half of the
        steps evaluate their exact mean loss; a Gaussian process then proposes the points of the other steps, and one
        private choice among these points spends the budget, less any ``estimate_share``. Needs a ``loss_range`` of two
        numbers, two steps, and a loss other than ``by_person`` or ``blocks``. The guarantee names these records as an
        assumption, and a note says if they are fewer than 12. An exception of the loss on these records is raised
        unchanged, before anything is spent.
      search: ``Search(...)``: method, steps, start and the like.
      ledger: ``Recording(path, run)``: charge the run to a ledger before the run begins, see ``run_loop``.
      key: a typed key for tests and sweeps, which adds an assumption to the guarantee. By default the operating system
        draws a key.
      insecure_key: permit a key of a generator without a security claim, such as ``jax.random.key(0)``, though the
        noise is exact. The guarantee then names the generator.
      traceable: True compiles the whole run, or the sum over a batch of a table, into a single program. False calls the
        loss from Python, step by step. "auto" compiles if JAX can trace the loss. JAX traces ``data`` by shapes and
        dtypes alone, so the choice never depends on their values. Say False for a loss with side effects.
      executor: evaluates the points of a batch at once: threads, processes or a cluster's own. A process pool pickles
        loss and data for every point, so pass a path to the data rather than the data. Not on a table.
      progress: show a bar of steps, or of users in each scan of a table, which shows nothing of the data. "auto" shows
        a bar on a terminal alone, without the ``progress`` extra a line for each scan, and a line while a compiled
        search runs. True needs the extra, and calls the loss from Python.
      resume: the ``snapshot`` of a ``RunInterrupted``. Make the same call again to resume from there; this adds an
        assumption. Use each snapshot once: resuming twice under two keys spends the remaining steps twice.
      checkpoint: a file for a long compiled run, written after every twentieth of the steps and deleted at the end.
        After a crash, make the same call again to resume. The file holds the data and the key, so keep it as secret as
        the data; this adds an assumption. Not on a table.
      diagnostics: also return the raw state and per-step info, which are NOT private; None for a release from the
        ledger. Not on a table.

    Returns:
      ``Run(release, guarantee)``. ``release.point (d,)`` is the answer in NumPy float64, and ``release.params`` its
      parameters in a ``Space``. ``method`` names the method and the reason for the choice. ``notes`` warn of too few
      users, and if what was released is no different from noise, see ``drivers.release_notes``.

    Raises:
      ValueError: an argument is out of range or has a wrong shape; names the argument.
      TypeError: an argument has the wrong type.
      ledger.LedgerError: see ``run_loop``.
      RunInterrupted: see ``run_loop``. An exception of the loss before the first step is raised unchanged if JAX could
        not trace the loss.
    """
    run = check_execution(
        key=key, insecure_key=insecure_key, traceable=traceable, executor=executor, progress=progress, resume=resume,
        checkpoint=checkpoint, diagnostics=diagnostics,
    )  # fmt: skip
    refuse_on_table("minimize", data, run)
    if key is None:
        keys.refuse_trace("the key of a run")
    checks.takes_two("loss", loss, "point", "data")
    _check_tracing(run)
    original = data
    in_table = isinstance(data, table.Table)
    if run.traceable and not in_table:
        data = user_values.to_data(data)
    prepared = separability.prepare_objective(loss, data, user_axes)
    count = count_users(users, prepared)
    if public is not None and not in_table:
        separable.expect_apart(public, original, count)
    protected = prepared.count_protected(count)
    budget = budget_calibration.check_budget(mu, epsilon, delta, users=protected, dtype=jnp.result_type(float))
    as_gdp = ledger is not None and recording.notion(ledger) == "gdp"
    problem = methods.make_problem(
        search,
        users=count,
        budget=budget,
        space=space,
        loss_range=loss_range,
        public=public is not None,
        table=in_table,
    )
    plan = methods.plan(problem, as_gdp=as_gdp)
    if public is not None and not (ledger is not None and recording.is_released(ledger)):
        plan = public_search.propose(plan, prepared.objective, public, executor=executor, progress=run.progress)
    terms = plan.terms(loss)  # before the charge, as all that may fail
    finished = _run_plan(plan, prepared, ledger, run)
    guarantee = replace(finished.guarantee, summary_delta=budget.summary_delta)
    private, blocks = plan.guarantee.notion != "none", isinstance(prepared.objective, separable.Blocks)
    said = finished.notes + notes.few_users(count, private=private, blocks=blocks)
    said += plan_notes(plan, finished.release)
    method = f"{plan.method}: {plan.reason}"
    return finished._replace(guarantee=guarantee, notes=notes.show(said), method=method, terms=terms)


def _check_tracing(run: Execution) -> None:
    """Refuse options that exclude each other.

    Raises:
      ValueError: an option needs steps from Python, and another needs a compiled program.
    """
    stepwise = _stepwise_options(run)
    if stepwise and (run.traceable is True or run.checkpoint is not None):
        compiled = "traceable=True" if run.checkpoint is None else "checkpoint"
        raise ValueError(
            f"{', '.join(stepwise)} must not be given with {compiled}: a compiled program has no steps; give "
            "traceable=False" + " and ledger= to resume" * (run.checkpoint is not None)
        )
    if run.checkpoint is not None and not run.traceable:
        raise ValueError("checkpoint must not be given with traceable=False: give ledger= to resume a run from Python")


def _run_plan(
    plan: methods.Plan, prepared: separability.Prepared, ledger: Recording | None, run: Execution
) -> result.Run:
    """Run a plan in a compiled program, or from Python if the loss cannot be traced or ``run`` asks for steps.

    Raises:
      ValueError: the caller asked for a compiled program, and JAX cannot trace the learner of ``blocks``.
    """
    if isinstance(prepared.data, table.Table):
        return _run_in_python(plan, prepared, ledger, run, tried=bool(run.traceable))
    must = run.traceable is True or run.checkpoint is not None
    # blocks turn every failure, tracing included, into a loss
    opaque = isinstance(prepared.objective, separable.Blocks) and not prepared.objective.traceable
    if must and opaque:
        option = "checkpoint" if run.checkpoint is not None else "traceable"
        raise ValueError(f"{option} needs a learner that JAX can trace: give blocks(..., traceable=True)")
    trying = must or (run.traceable == AUTO and not _stepwise_options(run) and not opaque)
    traced = to_traceable(prepared, plan.config, must=must) if trying else None
    if traced is not None:
        result.expect_host("minimize", run.key)
        with _progress.waiting(run.progress, "compiling and running the search"):
            return scan_prepared(plan.algorithm, traced, plan.config, _guarantee(plan, traced), ledger, run)
    return _run_in_python(plan, prepared, ledger, run, tried=trying)


def _guarantee(plan: methods.Plan, prepared: separability.Prepared) -> guarantees.Guarantee:
    return result.state_guarantee(plan.algorithm, prepared.objective, plan.config, plan.delta)


def _stepwise_options(run: Execution) -> list[str]:
    """The names of the options that ask for steps from Python."""
    return [name for name in STEPWISE if is_set(run, name) and getattr(run, name)]


def count_users(users: int | None, prepared: separability.Prepared) -> int:
    """The number of users: as given, of ``by_person`` or ``blocks``, or the leading length of all leaves."""
    loss, data, _ = prepared
    if users is not None:
        return checks.size("users", users)
    if isinstance(data, table.Table):
        return data.users
    if isinstance(loss, separable.ByPerson):
        return loss.persons
    if isinstance(loss, separable.Blocks):
        return loss.count
    if isinstance(data, (str, Path)):
        raise TypeError("data must be users' records, not a path: type tables.parquet(path) for files of Parquet")
    leading = {tuple(getattr(leaf, "shape", ()))[:1] for leaf in user_values.leaves(data)}
    if len(leading) != 1 or leading == {()}:
        lengths = ", ".join(sorted(str(length[0]) if length else "none" for length in leading)) or "no arrays"
        raise ValueError(
            f"users must be given where the leaves of data share no leading length, got {lengths}: type users=n, or "
            "pass arrays with an entry for each user"
        )
    return checks.size("users", max(shape[0] for shape in leading if shape))


def to_traceable(prepared: separability.Prepared, config: Any, *, must: bool) -> separability.Prepared | None:
    """The data as JAX arrays, or None if JAX cannot trace the loss. Reads types and shapes alone.

    Raises:
      ValueError: the loss returns another shape than ``(n,)``.
      TypeError: the loss returns complex numbers.
      Exception: any exception of the loss, if the loss must be traced.
    """
    if not must and not all(map(user_values.is_numeric, jax.tree.leaves(prepared.data))):
        return None
    loss, arrays, _ = traced = prepared.to_arrays()
    point = jax.ShapeDtypeStruct((result.dimension(config),), jnp.result_type(float))
    try:
        returned = jax.eval_shape(lambda point, data: loss(spaces.place(config.space, point), data), point, arrays)
    except Exception as error:  # any kind: scikit-learn refuses a tracer with a ValueError
        if not must:
            return None
        error.add_note(_describe_call(config))
        raise
    shape, dtype = getattr(returned, "shape", None), getattr(returned, "dtype", None)
    if dtype is None and not must:
        return None
    if shape is not None:
        result.expect_no_mean("loss", shape, config.users)
    if dtype is None or shape != (config.users,):
        raise ValueError(f"loss must return losses of shape ({config.users},), got {shape}")
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"loss must return real losses, got {dtype}")
    return traced


def _run_in_python(
    plan: methods.Plan, prepared: separability.Prepared, ledger: Recording | None, run: Execution, *, tried: bool
) -> result.Run:
    """``run_loop``. If tracing was tried before, an exception of the loss in the first step is raised unchanged."""
    try:
        sharding.expect_one_process("minimize", prepared.data)
        return loop_prepared(plan.algorithm, prepared, plan.config, _guarantee(plan, prepared), ledger, run)
    except result.ObjectiveError as error:
        if not str(error).startswith("objective must"):  # of the loss itself
            raise
        raise result.ObjectiveError(str(error).replace("objective", "loss", 1)) from None
    except result.RunInterrupted as error:
        failed = error.__cause__
        if not tried or error.step != 0 or not isinstance(failed, Exception):
            raise
    if not isinstance(failed, NOT_OF_LOSS):
        failed.add_note(_describe_call(plan.config))
    raise failed from None


def _describe_call(config: Any) -> str:
    if config.space is not None:
        names = (key for key in dict.fromkeys((*config.space.keys, *(each.key for each in config.space.fixed))) if key)
        return f"the loss was called with a dict of {', '.join(map(repr, names))}" + BRANCH * config.space.branched
    return (
        f"the loss was called with a point of shape ({result.dimension(config)},): one number for each side of the box"
    )

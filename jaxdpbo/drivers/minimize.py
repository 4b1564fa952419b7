"""The one call most users need: private minimisation over a box, with defaults that work."""

from concurrent.futures import Executor
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import _checks, _user_values
from jaxdpbo import space as spaces
from jaxdpbo.drivers import methods, result, separability
from jaxdpbo.drivers.loop import run_loop
from jaxdpbo.drivers.preview import path_note
from jaxdpbo.drivers.scan import run_scan
from jaxdpbo.privacy import guarantee, keys, recording, requested_budget
from jaxdpbo.privacy.separable import Blocks, ByPerson
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, ArrayLike, Bounds, Data, Objective, Tree


def minimize(
    objective: Objective,
    data: Data,
    bounds: Bounds | Space,
    *,
    method: str = "auto",
    loss_range: ArrayLike | str | None = None,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    users: int | None = None,
    user_axes: Tree = None,
    steps: int = 25,
    batch: int | None = None,
    clip_norm: float | str | None = None,
    theta0: ArrayLike | None = None,
    estimate_share: float = 0.0,
    noise: str = "exact",
    key: jax.Array | None = None,
    insecure_key: bool = False,
    traceable: bool | str = "auto",
    snapshot: result.Snapshot | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    recording: recording.Recording | None = None,
    diagnostics: bool = False,
) -> result.Run:
    """Minimise the mean of per-user losses over a box or a ``Space``, ``mu``-GDP for the users.

    ``method`` says how, see ``drivers.methods``; where not given it is chosen by public numbers, and the result says
    by which. Its descent is not quite Algorithm 1 as published (which is ``dp_gibo.config(box_units=False)``, and
    ``run_scan`` or ``run_loop``): it sees the box as ``[-1, 1]^d``, its update is coordinate AdaGrad with half a side
    as step, and its answer the mean of the last half of the path.

    >>> import numpy as np
    >>> from jaxdpbo import minimize
    >>> def loss(point, data):
    ...     return np.abs(data - point).sum(axis=1)
    >>> run = minimize(loss, np.full((500, 1), 2.0), [(0, 6)], epsilon=3, delta=1e-5, steps=4, batch=2)
    >>> run.release.point.shape, run.guarantee.epsilon(delta=1e-5) <= 3
    ((1,), True)

    Args:
      objective: ``(point (d,), data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone. Of a
        ``Space`` it gets a dict of parameters instead of the point.
      data: what the objective needs: a pytree of arrays, without lists. Arrays of objects or texts become float64, and
        NaN where an element is no number. With ``traceable=False`` anything, passed on untouched.
      bounds: a ``Space``, or a dict of its dimensions by name; or finite, in a spelling of ``_checks.box``: pairs
        ``[(low, high), ...]`` or rows ``(2, d)`` where ``d`` is not 2, ``{"low": (d,), "high": (d,)}`` or
        ``scipy.optimize.Bounds`` for any ``d``.
      method: "auto", "local", "start_then_local", "choice", "evaluations" or "in_order".
      loss_range: ``(low, high)`` of a user's loss, chosen without the users' data; needed for all methods but "local".
        A private choice counts the differences between a user's losses up to its width. "private", of methods "local"
        and "evaluations": how much losses differ is found first, for 5 % of ``mu^2``.
      mu: the total GDP budget; ``inf`` for none. Needed, or ``epsilon`` and ``delta``.
      epsilon: with ``delta``, in place of ``mu``: the largest ``mu`` that implies both, rounded down. What the
        guarantee states at ``delta`` is at most this.
      delta: in (0, 1); it has no default. One over ``users`` or more is refused, unless it is a ``LargeDelta``.
      users: ``n``; where not given, that of ``by_person``, or the leading length that all leaves of ``data`` share.
      user_axes: which axis of each leaf of ``data`` counts users, see ``run_scan``: the objective is checked to keep
        them apart, and the guarantee assumes that no more. For an objective that JAX can trace.
      steps: ``T``; the objective is evaluated ``T b`` times at most.
      batch: ``b``; ``d + 1`` where not given.
      clip_norm: ``B``, the bound on one user's gradient, the change of a loss over half a side of the box, chosen
        without the data. Where not given, a quarter of the width of ``loss_range``, or 1 without one. "private" finds
        it from the users' gradients in the first step, for 5 % of ``mu^2`` (``dp_gibo.config``): where the scale of
        the losses is unknown.
      theta0: where to start, ``(d,)`` or parameters of the ``Space``; the middle of the box where not given.
      estimate_share: of ``mu^2``, spent on the mean loss at the answer: one step of ``steps`` evaluates it, clipped to
        ``loss_range``, and the release is then a ``private_estimate.Release``, whose ``inner`` is the search's.
      noise: "exact", or "float" for research sweeps.
      key: for tests; from the operating system where not given.
      insecure_key: permit a key of a generator without a security claim, see ``run_scan``.
      traceable: True runs one compiled program (``run_scan``); False calls the objective from Python (``run_loop``);
        "auto" the first if JAX can trace the objective. It is traced by shapes and dtypes alone, so the choice depends
        on code and shapes and never on what ``data`` hold. Say False for an objective with side effects.
      snapshot: of a ``RunInterrupted``, to go on from there with the same arguments; only from Python.
      executor: evaluates the points of a batch at once, see ``run_loop``; only from Python.
      progress: show a bar of steps; only from Python.
      recording: ``Recording(path, run)``: charge the run to a ledger before it begins, see ``run_loop``.
      diagnostics: also return raw state and info. Not private.

    Returns:
      ``Run(release, guarantee)``: ``release.point (d,)`` is the answer, NumPy float64, and of a ``Space``
      ``release.params`` its parameters. ``method`` says which method ran, and why. ``note``
      says where the released path is no different from noise, see ``preview.path_note``.

    Raises:
      ValueError: an argument out of range or of a wrong shape; names it.
      TypeError: an argument of the wrong kind.
      ledger.LedgerError: see ``run_loop``.
      RunInterrupted: see ``run_loop``. With "auto", what an objective that JAX can not trace raises before the first
        step is raised as it is.
    """
    if key is None:
        keys.refuse_trace("the key of a run")
    if not callable(objective):
        raise TypeError(f"objective must be a function of a point and data, got {type(objective).__name__}")
    from_python = progress or snapshot is not None or executor is not None
    auto = isinstance(traceable, str) and traceable == "auto"
    must = not auto and _checks.flag("traceable", traceable)
    if must and from_python:
        raise ValueError("progress, snapshot and executor need traceable=False: one compiled program has no steps")
    if auto or must:
        data = _user_values.to_data(data)
    objective, data = separability.prepare_objective(objective, data, user_axes)
    count = _users(users, objective, data)
    level = requested_budget.requested_mu(mu, epsilon, delta, users=count, dtype=jnp.result_type(float))
    wanted = methods.MinimizeArguments(
        count, level, bounds, steps, batch, clip_norm, loss_range, theta0, noise, estimate_share
    )
    plan = requested_budget.configure(lambda mu: methods.plan(method, wanted._replace(mu=mu)), level, epsilon, delta)
    guarantee.expect_budget(plan.algorithm.privacy(plan.config), epsilon, delta)
    shared = {"key": key, "insecure_key": insecure_key, "recording": recording, "diagnostics": diagnostics}
    stepwise = {"snapshot": snapshot, "executor": executor, "progress": progress}
    trace = must or (auto and not from_python)
    run = _run_plan(plan, objective, data, trace=trace, must=must, shared=shared, stepwise=stepwise)
    note = "" if plan.descent is None else path_note(plan.search_release(run.release).path, plan.descent)
    return run._replace(note=note, method=f"{plan.method}: {plan.reason}")


def _run_plan(
    plan: methods.Plan,
    objective: Objective,
    data: Any,
    *,
    trace: bool,
    must: bool,
    shared: dict[str, Any],
    stepwise: dict[str, Any],
) -> result.Run:
    """Run a plan in one compiled program, or from Python where the objective cannot, or should not, be traced.

    Args:
      plan: from ``methods.plan``.
      objective: as for ``minimize``.
      data: likewise.
      trace: try to trace the objective.
      must: raise where it cannot be traced.
      shared: options of both drivers.
      stepwise: options of ``run_loop`` alone.

    Raises:
      ValueError: ``must``, and blocks of a learner that cannot be traced.
    """
    cut = isinstance(objective, Blocks) and not objective.traceable  # what fails, tracing included, is a loss there
    if must and cut:
        raise ValueError("traceable must not be True for blocks of a learner that is not: blocks(..., traceable=True)")
    trying = trace and not cut
    traced = _to_traceable(objective, data, plan.config, must=must) if trying else None
    if traced is not None:
        return run_scan(plan.algorithm, objective, traced, plan.config, **shared)
    return _run_in_python(plan.algorithm, objective, data, plan.config, tried=trying, **shared, **stepwise)


def _users(users: int | None, objective: Objective, data: Any) -> int:
    """``n``, given, the objective's own, or the leading length of all leaves."""
    if users is not None:
        return _checks.size("users", users)
    if isinstance(objective, ByPerson):
        return objective.persons
    if isinstance(objective, Blocks):
        return objective.count
    leading = {tuple(getattr(leaf, "shape", ()))[:1] for leaf in _user_values.leaves(data)}
    if len(leading) != 1 or leading == {()}:
        found = ", ".join(sorted(str(length[0]) if length else "none" for length in leading)) or "no arrays"
        raise ValueError(f"users must be given where the leaves of data share no leading length, got {found}")
    return _checks.size("users", max(shape[0] for shape in leading if shape))


def _to_traceable(objective: Objective, data: Any, config: Any, *, must: bool) -> Any:
    """``data`` as JAX arrays, or None where JAX can not trace the objective. Reads kinds and shapes alone.

    Raises:
      ValueError: the objective returns another shape than ``(n,)``.
      TypeError: it returns complex numbers; or whatever it raises, where it must be traced.
    """
    if not must and not all(map(_user_values.is_numeric, jax.tree.leaves(data))):
        return None
    arrays = result.to_arrays(data)
    point = jax.ShapeDtypeStruct((_dimension(config),), jnp.result_type(float))
    try:
        returned = jax.eval_shape(lambda point, data: objective(spaces.place(config.space, point), data), point, arrays)
    except Exception as error:  # not JAX's own alone: scikit-learn refuses a tracer with a ValueError
        if not must:
            return None
        error.add_note(_describe_call(config))
        raise
    shape, dtype = getattr(returned, "shape", None), getattr(returned, "dtype", None)
    if dtype is None and not must:
        return None
    if shape is not None:
        result.expect_no_mean("objective", shape, config.users)
    if dtype is None or shape != (config.users,):
        raise ValueError(f"objective must return losses of shape ({config.users},), got {shape}")
    if jnp.issubdtype(dtype, jnp.complexfloating):
        raise TypeError(f"objective must return real losses, got {dtype}")
    return arrays


def _run_in_python(
    algorithm: Algorithm, objective: Objective, data: Any, config: Any, *, tried: bool, **options: Any
) -> result.Run:
    """``run_loop``; where tracing was tried before, what the objective raises at once is raised as it is."""
    try:
        return run_loop(algorithm, objective, data, config, **options)
    except result.RunInterrupted as error:
        failed = error.__cause__
        if not tried or error.step != 0 or not isinstance(failed, Exception):
            raise
    failed.add_note(_describe_call(config))
    raise failed from None


def _describe_call(config: Any) -> str:
    if config.space is not None:
        return f"the objective was called with a dict of {', '.join(map(repr, config.space.names))}"
    return f"the objective was called with a point of shape ({_dimension(config)},): one number a side of bounds"


def _dimension(config: Any) -> int:
    """``d``; of private evaluations, and with an estimate, it is the inner algorithm that has a box."""
    while not hasattr(config, "bounds"):
        config = config.inner
    return config.bounds.shape[1]

"""Run an algorithm on an objective: inside one compiled program, or around any Python callable.

A driver checks and converts once, then passes clean arrays on. The keys of step ``t`` come from
``fold_in(key, t)``, so a run resumed from a state draws the keys it would have drawn.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import _checks
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.privacy import guarantee, keys
from jaxdpbo.types import Algorithm, Objective, Query, State


class Diagnostics(NamedTuple):
    """Raw: ``state`` at the end and ``info`` with a leading axis of steps. NOT PRIVATE: never publish it."""

    state: State
    info: Any


class Run(NamedTuple):
    """What a run returns: all that may be published, and under which guarantee.

    ``diagnostics`` is None unless asked for; with it this tuple prints and pickles private arrays.
    """

    release: Any
    guarantee: guarantee.Guarantee
    diagnostics: Diagnostics | None = None


class RunInterrupted(RuntimeError):
    """A run stopped on an exception, which is its ``__cause__``; ``state`` is where it stood.

    ``run_loop(..., state=error.state)`` goes on from there. The state is raw, so it is kept out of ``repr``, ``str``
    and pickles of this exception.
    """

    def __init__(self, message: str, state: State | None = None):
        """``message`` says at which step; ``state`` is the state before it."""
        super().__init__(message)
        self.state = state

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message alone."""
        return type(self), self.args


def run_scan(
    algorithm: Algorithm,
    objective: Objective,
    data: Any,
    config: Any,
    *,
    key: jax.Array | None = None,
    diagnostics: bool = False,
) -> Run:
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
    key, statement = _key_and_guarantee(key, statement)
    data = jax.tree.map(jnp.asarray, data)
    released, state, info = _scan(algorithm, objective, key, config, data)
    _raise_on_failed_factorisation(info, state)
    return Run(released, statement, Diagnostics(state, info) if diagnostics else None)


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
        values = jax.vmap(objective, in_axes=(0, None))(query.points, data)
        return algorithm.tell(tell_key, config, state, query, values)

    state, info = jax.lax.scan(step, algorithm.init(init_key, config), jnp.arange(config.steps))
    return algorithm.release(release_key, config, state), state, info


_scan = jax.jit(scan, static_argnames=("algorithm", "objective"))


def run_loop(
    algorithm: Algorithm,
    objective: Objective,
    data: Any,
    config: Any,
    *,
    key: jax.Array | None = None,
    state: State | None = None,
    progress: bool = False,
    diagnostics: bool = False,
) -> Run:
    """A run around any Python callable: the objective sees NumPy points and is never traced.

    Given the same key, the same path as ``run_scan`` on the same objective, up to rounding.

    Args:
      algorithm: such as ``jaxdpbo.dp_gibo.algorithm``.
      objective: ``(point (d,), data) -> values``, one point at a time; masked points are not evaluated.
      data: passed on untouched.
      config: of the algorithm's ``config(...)``.
      key: a typed key for tests and sweeps; from the operating system where not given. To resume a run on the same
        data with the same noise, pass the same key.
      state: of a ``RunInterrupted``, to go on from there. Each state once: going on from it a second time under another
        key spends the steps that were left a second time.
      progress: show a bar of steps; needs the ``progress`` extra. It counts, and shows nothing of the data.
      diagnostics: also return the raw state and per-step ``Info`` of the steps taken here. Not private.

    Raises:
      TypeError: ``key`` is not a typed key.
      ValueError: ``state`` does not belong to ``config``.
      RunInterrupted: the objective raised (Ctrl-C included) or returned values of a wrong shape, or the covariance of
        the evaluated points could not be factored.
    """
    statement = algorithm.privacy(config)
    key, statement = _key_and_guarantee(key, statement)
    init_key, loop_key, release_key = jax.random.split(key, 3)
    fresh: State = _init(algorithm, init_key, config)
    current = fresh if state is None else state
    if jax.tree.map(_shape_and_dtype, current) != jax.tree.map(_shape_and_dtype, fresh):
        raise ValueError("state must come from a run with this config: its shapes differ")
    if getattr(current.public, "budget", None) != getattr(fresh.public, "budget", None):
        raise ValueError(
            f"state must come from a run with this config: it was begun with a budget of {current.public.budget}"
        )

    infos = []
    start = int(current.public.step)
    if start:  # nobody can say any more where the keys of the earlier steps came from
        statement = statement.assuming(guarantee.KEY_SECRET)
    for t in _count(start, config.steps, progress):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(loop_key, t))
        try:
            query = _ask(algorithm, ask_key, config, current)
            values = _evaluate(objective, query, data, config.users)
            current, info = _tell(algorithm, tell_key, config, current, query, values)
        except (Exception, KeyboardInterrupt) as error:
            raise RunInterrupted(
                f"stopped at step {t} of {config.steps} on {type(error).__name__}; "
                "the same call with state=error.state goes on from there",
                current,
            ) from error
        infos.append(info)
    info = jax.tree.map(lambda *leaves: jnp.stack(leaves), *infos) if infos else None
    released = _release(algorithm, release_key, config, current)
    _raise_on_failed_factorisation(info, current)
    return Run(released, statement, Diagnostics(current, info) if diagnostics else None)


_init = jax.jit(lambda algorithm, key, config: algorithm.init(key, config), static_argnums=0)
_ask = jax.jit(lambda algorithm, key, config, state: algorithm.ask(key, config, state), static_argnums=0)
_tell = jax.jit(
    lambda algorithm, key, config, state, query, values: algorithm.tell(key, config, state, query, values),
    static_argnums=0,
)
_release = jax.jit(lambda algorithm, key, config, state: algorithm.release(key, config, state), static_argnums=0)


def _evaluate(objective: Objective, query: Query, data: Any, users: int) -> np.ndarray:
    """Values ``(b, ...)`` at the query's points; zeros at masked ones, which are not evaluated."""
    points, mask = np.asarray(query.points), np.asarray(query.mask)
    found = {row: _real(objective(points[row], data), points.dtype) for row in np.flatnonzero(mask)}
    shapes = {value.shape for value in found.values()} or {(users,)}
    if len(shapes) > 1:
        raise ValueError(f"objective must return values of one shape, got {sorted(shapes)}")
    values = np.zeros((len(points), *shapes.pop()), points.dtype)
    for row, value in found.items():
        values[row] = value
    return values


def _real(values: Any, dtype: Any) -> np.ndarray:
    """An array; NumPy's own complaint would quote the values, which are private."""
    try:
        return np.asarray(values, dtype)
    except (TypeError, ValueError):
        raise TypeError("objective must return an array of real numbers") from None


def _count(start: int, stop: int, progress: bool) -> Any:
    if not progress:
        return range(start, stop)
    from tqdm import tqdm  # an extra: imported where it is used

    return tqdm(range(start, stop), initial=start, total=stop, unit="step")


def _key_and_guarantee(key: jax.Array | None, statement: guarantee.Guarantee) -> tuple[jax.Array, guarantee.Guarantee]:
    """A key that was passed in protects only while nobody else knows it, and the guarantee says so."""
    if key is None:
        return keys.secret_key(), statement
    return _checks.key("key", key), statement.assuming(guarantee.KEY_SECRET)


def _shape_and_dtype(leaf: Any) -> tuple[Any, ...]:
    return jnp.shape(leaf), jnp.result_type(leaf)


def _raise_on_failed_factorisation(info: Any, state: State) -> None:
    """A flag on public points, where an algorithm has one; the users' gradients then counted as zero."""
    failed = getattr(info, "factorisation_failed", None)
    if failed is not None and bool(jnp.any(failed)):
        raise RunInterrupted(
            "the covariance of the evaluated points could not be factored: raise noise_variance or use float64",
            state,
        )


def minimize(
    objective: Objective,
    data: Any,
    bounds: Any,
    *,
    mu: float,
    users: int | None = None,
    steps: int = 25,
    batch: int | None = None,
    clip_norm: float = 1.0,
    theta0: Any = None,
    key: jax.Array | None = None,
    traceable: bool = True,
    state: State | None = None,
    progress: bool = False,
    diagnostics: bool = False,
) -> Run:
    """Minimise the mean of per-user losses over a box by DP-GIBO, ``mu``-GDP for the users.

    Not quite Algorithm 1 as published (which is ``dp_gibo.config`` with its defaults, and ``run_scan`` or
    ``run_loop``): the update is coordinate AdaGrad with the half-width of the box as step, and the answer is the mean
    of the last half of the path. Both are post-processing of the same privatised gradients.

    Args:
      objective: ``(point (d,), data) -> losses (n,)``; entry ``i`` must depend on user ``i``'s record alone.
      data: what the objective needs: a pytree of arrays, or anything where ``traceable`` is False.
      bounds: ``(2, d)``, lower and upper, finite.
      mu: the total GDP budget; ``inf`` for none.
      users: ``n``; needed where ``traceable`` is False, otherwise read off the objective's shape.
      steps: ``T``; the objective is evaluated ``T b`` times.
      batch: ``b``; ``d + 1`` where not given.
      clip_norm: ``B``, the bound on one user's gradient, chosen without the data.
      theta0: where to start; the middle of the box where not given.
      key: for tests; from the operating system where not given.
      traceable: True runs one compiled program (``run_scan``); False calls the objective from Python (``run_loop``).
      state: of a ``RunInterrupted``, to go on from there with the same arguments; only with ``traceable=False``.
      progress: show a bar of steps; only with ``traceable=False``.
      diagnostics: also return raw state and info. Not private.

    Returns:
      ``Run(release, guarantee)``: ``release.point (d,)`` is the answer.

    Raises:
      ValueError: an argument out of range or of a wrong shape; names it.
      TypeError: an argument of the wrong kind.
      RunInterrupted: see ``run_loop``.
    """
    box = _checks.box("bounds", bounds)
    if traceable:
        if progress or state is not None:
            raise ValueError("progress and state need traceable=False: one compiled program has no steps to show")
        data = jax.tree.map(jnp.asarray, data)
        point = jax.ShapeDtypeStruct((box.shape[1],), jnp.result_type(float))
        shape = jax.eval_shape(objective, point, data).shape
        if len(shape) != 1 or users not in (None, *shape):
            raise ValueError(f"objective must return losses of shape ({users or 'n'},), got {shape}")
        users = shape[0]
    if users is None:
        raise ValueError("users must be given where traceable is False, got None")
    config = dp_gibo.config(
        users=users,
        steps=steps,
        mu=mu,
        bounds=box,
        batch=batch,
        clip_norm=clip_norm,
        theta0=theta0,
        optimizer=optax.adagrad,
        output="last_half_mean",
    )
    if traceable:
        return run_scan(dp_gibo.algorithm, objective, data, config, key=key, diagnostics=diagnostics)
    return run_loop(
        dp_gibo.algorithm, objective, data, config, key=key, state=state, progress=progress, diagnostics=diagnostics
    )

"""The one call most users need: private minimisation over a box, with defaults that work."""

from concurrent.futures import Executor
from pathlib import Path

import jax
import jax.numpy as jnp
import optax

from jaxdpbo import _checks
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.drivers import result
from jaxdpbo.drivers.loop import run_loop
from jaxdpbo.drivers.scan import run_scan
from jaxdpbo.privacy import keys
from jaxdpbo.types import ArrayLike, Data, Objective, State


def minimize(
    objective: Objective,
    data: Data,
    bounds: ArrayLike,
    *,
    mu: float,
    users: int | None = None,
    steps: int = 25,
    batch: int | None = None,
    clip_norm: float = 1.0,
    theta0: ArrayLike | None = None,
    noise: str = "exact",
    key: jax.Array | None = None,
    insecure_key: bool = False,
    traceable: bool = True,
    state: State | None = None,
    executor: Executor | None = None,
    progress: bool = False,
    ledger: str | Path | None = None,
    run: str | None = None,
    diagnostics: bool = False,
) -> result.Run:
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
      noise: "exact", or "float" for research sweeps.
      key: for tests; from the operating system where not given.
      insecure_key: permit a key of a generator without a security claim, see ``run_scan``.
      traceable: True runs one compiled program (``run_scan``); False calls the objective from Python (``run_loop``).
      state: of a ``RunInterrupted``, to go on from there with the same arguments; only with ``traceable=False``.
      executor: evaluates the points of a batch at once, see ``run_loop``; only with ``traceable=False``.
      progress: show a bar of steps; only with ``traceable=False``.
      ledger: charge the run there before it begins, see ``run_loop`` and ``privacy.ledger``.
      run: its name in the ledger, and of this data.
      diagnostics: also return raw state and info. Not private.

    Returns:
      ``Run(release, guarantee)``: ``release.point (d,)`` is the answer.

    Raises:
      ValueError: an argument out of range or of a wrong shape; names it.
      TypeError: an argument of the wrong kind.
      ledger.LedgerError: see ``run_loop``.
      RunInterrupted: see ``run_loop``.
    """
    if key is None:
        keys.refuse_trace("the key of a run")
    box = _checks.box("bounds", bounds)
    if traceable:
        if progress or state is not None or executor is not None:
            raise ValueError("progress, state and executor need traceable=False: one compiled program has no steps")
        if not callable(objective):
            raise TypeError(f"objective must be a function of a point and data, got {type(objective).__name__}")
        data = result.arrays(data)
        point = jax.ShapeDtypeStruct((box.shape[1],), jnp.result_type(float))
        shape = getattr(jax.eval_shape(objective, point, data), "shape", None)
        if shape is None or len(shape) != 1 or (users is not None and _checks.size("users", users) != shape[0]):
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
        noise=noise,
    )
    if traceable:
        return run_scan(
            dp_gibo.algorithm,
            objective,
            data,
            config,
            key=key,
            insecure_key=insecure_key,
            ledger=ledger,
            run=run,
            diagnostics=diagnostics,
        )
    return run_loop(
        dp_gibo.algorithm,
        objective,
        data,
        config,
        key=key,
        insecure_key=insecure_key,
        state=state,
        executor=executor,
        progress=progress,
        ledger=ledger,
        run=run,
        diagnostics=diagnostics,
    )

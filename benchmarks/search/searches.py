"""The searches that are compared, on equal numbers of evaluations: ``loss_of`` runs one, once.

What counts is the mean loss of the answer over the same users that steered the search, without noise.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.search.cells import Cell
from benchmarks.search.problems import PROBLEMS, Problem
from jaxdpbo import Execution, Search, Space, dp_gibo, minimize
from jaxdpbo.drivers import _methods, run_loop, run_scan

DEFAULT, RANDOM, BEFORE, UNTUNED = "minimize", "random search", "Algorithm 1's units", "default parameters"
FREE = (RANDOM, UNTUNED)  # without noise, so the same for every mu


def names(problem: Problem) -> list[str]:
    """Those that can search it."""
    real = not isinstance(problem.searched, Space)
    found = [RANDOM, DEFAULT] + [BEFORE] * real + [UNTUNED] * (problem.default is not None)
    methods = [name for name in _methods.METHODS if name != _methods.PROPOSED]  # no public records
    return found + [name for name in methods if real or name not in _methods.DESCENT_METHODS]


def timed(cell: Cell) -> dict[str, Any]:
    """One run."""
    started = time.perf_counter()
    loss, method = loss_of(PROBLEMS[cell.problem], cell.search, cell.mu, cell.seed)
    return {"loss": loss, "method": method, "seconds": round(time.perf_counter() - started, 2)}


def loss_of(problem: Problem, search: str, mu: float, seed: int) -> tuple[float, str]:
    """The mean loss of one run's answer, and which method ran."""
    data = problem.draw(seed)
    if search == UNTUNED:
        return float(np.mean(problem.loss(problem.default, data))), ""
    if search == RANDOM:
        return _random(problem, data, seed), ""
    noise, key = "exact" if math.isinf(mu) else "float", jax.random.key(seed)
    if search == BEFORE:
        drive: Callable[..., Any] = run_scan if problem.traceable else run_loop
        config = _before(problem, mu, noise)
        seeded = Execution(key=key, insecure_key=True)
        point = drive(dp_gibo.algorithm, problem.loss, data, config, run=seeded).release.point
        return _mean(problem, point, data), ""
    run = minimize(
        problem.loss,
        data,
        problem.searched if isinstance(problem.searched, Space) else _bounds(problem),
        mu=mu,
        users=problem.users,
        loss_range=problem.loss_range,
        search=Search(method=_methods.AUTO if search == DEFAULT else search, steps=problem.steps, noise=noise),
        run=Execution(key=key, insecure_key=True, traceable=problem.traceable),
    )
    where = run.release.params if isinstance(problem.searched, Space) else run.release.point
    return _mean(problem, where, data), run.method


def _bounds(problem: Problem) -> dict[str, np.ndarray]:
    return {"low": problem.box[0], "high": problem.box[1]}


def _before(problem: Problem, mu: float, noise: str) -> dp_gibo.Config:
    """What ``minimize`` was before it had methods: kernel, clip norm and design in the parameters' own units."""
    return dp_gibo.config(
        users=problem.users,
        steps=problem.steps,
        mu=mu,
        bounds=_bounds(problem),
        clip_norm=1.0,
        optimizer=optax.adagrad,
        output="last_half_mean",
        box_units=False,
        noise=noise,
    )


def _random(problem: Problem, data: Any, seed: int) -> float:
    """Of uniform points, the least mean loss."""
    low, high = problem.box
    points = low + (high - low) * np.random.default_rng([seed, 1]).random((problem.evaluations, problem.dimension))
    if problem.traceable:
        return float(np.nanmin(_means(problem.loss, jnp.asarray(points), data)))
    places = map(problem.searched.params, points) if isinstance(problem.searched, Space) else points
    return float(np.nanmin([_mean(problem, place, data) for place in places]))


def _mean(problem: Problem, where: Any, data: Any) -> float:
    return float(np.mean(problem.loss(where, data)))


@partial(jax.jit, static_argnums=0)
def _means(loss: Callable[..., Any], points: jax.Array, data: Any) -> jax.Array:
    return jax.lax.map(lambda point: jnp.mean(loss(point, data)), points)

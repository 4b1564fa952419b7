"""Our side of ``scripts/bench log_ei``: LogEI and qLogEI from the pieces of ``surrogate``, or GP-UCB in batches."""

import functools
import math
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import log_ei_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import gp_ucb, kernels, run_loop, surrogate

SEARCH = surrogate.BoxSearch(raw_samples=2048, num_restarts=10, ascent_steps=300)
FIT_STEPS, NORMALS = 100, 128
# Modes and spreads of BoTorch's priors. The functions have no noise, but a model with fitted noise may stay smooth
# where a function has ripples, as Ackley's has.
LENGTH, SPREAD = math.exp(2**0.5 - 3), 3**0.5  # of lengthscales, in roots of the dimension
NOISE, NOISE_SPREAD = math.exp(-5), 1.0


def run(function: str, seed: int, evaluations: int, batch: int, method: str = "log_ei") -> dict[str, Any]:
    """One run: its seconds, compilation included where there is any, and the values evaluated."""
    start = time.perf_counter()
    steps = (evaluations - problem.INITIAL) // batch
    search = _run_gp_ucb if method == "gp_ucb" else _run_log_ei
    values = search(function, seed, steps, batch)
    return {"seconds": time.perf_counter() - start, "values": values}


def _run_log_ei(function: str, seed: int, steps: int, batch: int) -> list[float]:
    known = problem.initial_points(function, seed)
    values = [problem.value(function, point) for point in known]
    count, dimension = len(known) + steps * batch, known.shape[1]
    points, utilities, mask = np.zeros((count, dimension)), np.zeros(count), np.zeros(count, bool)
    points[: len(known)], utilities[: len(known)], mask[: len(known)] = known, -np.array(values), True
    length = LENGTH * dimension**0.5
    params = kernels.stationary_params([length] * dimension, dimension)
    first = surrogate.GPModel(kernels.matern52, params, jnp.asarray(NOISE))
    for step in range(steps):
        key = jax.random.fold_in(jax.random.key(seed), step)
        proposed = _propose(key, first, points, utilities, mask, batch)
        at = slice(len(known) + step * batch, len(known) + (step + 1) * batch)
        found = [problem.value(function, point) for point in np.asarray(proposed)]
        points[at], utilities[at], mask[at] = proposed, -np.array(found), True
        values += found
    return values


@functools.partial(jax.jit, static_argnames="batch")
def _propose(key, first, points, utilities, mask, batch):
    """The next points ``(q, d)``, by a model that is fitted anew from the modes of the priors."""
    fit_key, search_key, normal_key = jax.random.split(key, 3)
    values = surrogate.standardize(utilities, mask)
    priors = {
        "lengthscale": (jnp.log(first.params.lengthscale), SPREAD),
        "noise_variance": (math.log(NOISE), NOISE_SPREAD),
    }
    model = surrogate.fit(fit_key, first, points, values, mask, num_restarts=1, steps=FIT_STEPS, priors=priors)
    factorization = surrogate.condition(model, points, mask)
    best, dimension = jnp.max(jnp.where(mask, values, -jnp.inf)), points.shape[1]
    incumbent = points[jnp.argmax(jnp.where(mask, values, -jnp.inf))]
    normals = jax.random.normal(normal_key, (NORMALS, batch))

    def single(candidates):
        return surrogate.log_expected_improvement(*surrogate.predict(model, factorization, values, candidates), best)

    def joint(candidates):
        def gain(together):
            posterior = surrogate.joint_posterior(model, factorization, values, together.reshape(batch, dimension))
            return surrogate.q_log_expected_improvement(*posterior, best, normals)

        return jax.vmap(gain)(candidates)

    low, high = jnp.zeros(batch * dimension), jnp.ones(batch * dimension)
    start = jnp.tile(incumbent, batch)
    found, _ = surrogate.search_box(
        search_key, single if batch == 1 else joint, low, high, incumbent=start, search=SEARCH
    )
    return found.reshape(batch, dimension)


def _run_gp_ucb(function: str, seed: int, steps: int, batch: int) -> list[float]:
    """With the library's defaults, after steps at the same first points."""
    from jaxdpbo.drivers import compiled_steps
    from jaxdpbo.types import Query

    known, values = problem.initial_points(function, seed), []
    warm = len(known) // batch
    config = gp_ucb.config(
        steps=warm + steps, batch=batch, bounds={"low": [0.0] * known.shape[1], "high": [1.0] * known.shape[1]},
        kernel=kernels.matern52, refit_every=5,
    )  # fmt: skip

    def utility(point, _):
        values.append(problem.value(function, np.asarray(point)))
        return -values[-1]

    key = jax.random.key(seed)
    snapshot = compiled_steps.begin(gp_ucb.algorithm, key, config)
    for points in known.reshape(warm, batch, -1):
        query = Query(jnp.asarray(points), jnp.ones(batch, bool))
        found = jnp.array([utility(point, None) for point in points])
        snapshot, _ = compiled_steps.learn(gp_ucb.algorithm, key, config, snapshot, query, found)
    run_loop(gp_ucb.algorithm, utility, None, config, key=key, resume=snapshot)
    return values


if __name__ == "__main__":
    serve(run)

"""Our side of ``scripts/bench gp_ucb``: the function is called from Python, step by step."""

import time

import jax
import numpy as np

from benchmarks.speed import gp_ucb_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import gp_ucb, kernels
from jaxdpbo.drivers import compiled_steps, loop
from jaxdpbo.types import Query


def run(function: str, seed: int, evaluations: int) -> dict:
    """One run: its seconds, compilation included where there is any, and the values evaluated."""
    start = time.perf_counter()
    sought, key = problem.function(function), jax.random.key(seed)
    config = gp_ucb.config(
        steps=evaluations,
        bounds={"low": sought.lower, "high": sought.upper},
        kernel=kernels.matern52,
        refit_every=problem.REFIT_EVERY,
    )
    values = []

    def utility(point, _):
        values.append(sought.value(point))
        return -values[-1]

    snapshot = compiled_steps.begin(gp_ucb.algorithm, key, config)
    for point in problem.initial_points(function, seed):
        query = Query(point[None], np.ones(1, bool))
        value = np.array([utility(point, None)])
        snapshot, _ = compiled_steps.learn(gp_ucb.algorithm, key, config, snapshot, query, value)
    loop.run_loop(gp_ucb.algorithm, utility, None, config, key=key, resume=snapshot)
    return {"seconds": time.perf_counter() - start, "values": values}


if __name__ == "__main__":
    serve(run)

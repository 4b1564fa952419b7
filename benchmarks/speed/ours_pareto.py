"""Our side of ``scripts/bench dpareto``: the whole search in one program."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import pareto_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import dpareto, drivers


def oracle(point, data):
    """Epsilon, which falls with the first coordinate, and an error that rises with it."""
    squared = jnp.sum(jnp.square(point[1:] - data))
    log_epsilon, logit = problem.log_epsilon_and_logit(point, squared)
    return jnp.stack([jnp.exp(log_epsilon), jax.nn.sigmoid(logit)])


def run(seed: int, proposals: int) -> dict:
    """One search: seconds, its hypervolume, and whether the values are the problem's."""
    start = time.perf_counter()
    config = dpareto.config(
        bounds=np.stack([np.zeros(problem.DIMENSION), np.ones(problem.DIMENSION)]),
        initial_design=problem.seeds(seed),
        proposals=proposals,
        reference=problem.REFERENCE,
    )
    best = jnp.asarray(problem.BEST[1:])
    done = drivers.run_scan(dpareto.algorithm, oracle, best, config, key=jax.random.key(seed))
    values = np.asarray(jax.block_until_ready(done.release.values))
    seconds = time.perf_counter() - start
    expected = np.array([problem.objectives(point) for point in np.asarray(done.release.points)])
    return {
        "seconds": seconds,
        "volume": problem.volume(values),
        "largest_difference": float(np.abs(values / expected - 1).max()),
    }


if __name__ == "__main__":
    serve(run)

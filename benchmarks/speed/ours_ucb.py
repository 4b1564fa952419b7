"""Our side of ``scripts/bench dp_gp_ucb``."""

import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import ucb_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import dp_gp_ucb, drivers, kernels


def config() -> dp_gp_ucb.Config:
    return dp_gp_ucb.finite_config(
        noise="float",
        steps=problem.STEPS,
        epsilon=1.0,
        delta=problem.DELTA,
        correlation=0.99,
        candidates=problem.candidates(),
        noise_variance=problem.NOISE_VARIANCE,
        release="both",
        kernel_params=kernels.stationary_params(problem.LENGTHSCALE, problem.DIMENSION),
    )


def utility(point, data):
    candidates, table = data
    return table[jnp.argmin(jnp.sum(jnp.square(candidates - point[None]), axis=1))]


def run(inputs, shared):
    (key, table), (config, candidates) = inputs, shared
    release, end, _ = drivers.pure_run(dp_gp_ucb.algorithm, utility, (candidates, table), config, key)
    return release, end.state.raw.utilities


def sweep(first: int, seeds: int, policy: str | None = None) -> dict:
    """Seeds ``first ..``: seconds of the sweep with its configuration (its sensitivities included), and values seen."""
    tables = jnp.asarray([problem.utilities(seed) for seed in range(first, first + seeds)])
    start = time.perf_counter()
    keys = jax.vmap(jax.random.key)(jnp.arange(first, first + seeds))
    shared = config(), jnp.asarray(problem.candidates())
    _, values = jax.block_until_ready(drivers.distribute(run, (keys, tables), shared, policy=policy))
    return {"seconds": time.perf_counter() - start, "values": np.asarray(values).tolist()}


if __name__ == "__main__":
    serve(sweep)

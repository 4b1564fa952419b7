"""Our side of ``scripts/bench users``: one run of DP-GIBO on very many users.

It has a process of its own, so that the peak of memory is that run's.
"""

import resource
import time

import jax
import jax.numpy as jnp

from benchmarks.speed.users_problem import DIMENSION, SETTINGS
from benchmarks.speed.worker import serve
from jaxdpbo import dp_gibo, run_scan

KEY = jax.random.key(0)


def loss(point, records):
    """Of records ``(d, n)``, a coordinate at a time: XLA's CPU backend takes 25 times as long to sum over an axis."""
    squares = sum(jnp.square(records[number] - point[number]) for number in range(DIMENSION))
    return jnp.sqrt(1 + squares) - 1


def run(users: int, steps: int, memory: str, remembered: int, repeats: int) -> dict:
    """Seconds of a run, cold and warm, and of reading what it must read once; the peak of memory in GiB."""
    records = 1.0 + jax.random.normal(jax.random.key(1), (DIMENSION, users), jnp.float32)
    config = dp_gibo.config(
        users=users, steps=steps, memory=memory, remembered=remembered, bounds=[(-3.0, 3.0)] * DIMENSION, **SETTINGS
    )
    times = [_seconds(_run, records, config) for _ in range(1 + repeats)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    capacity = {"all": steps * config.batch, "none": 0, "recent": remembered}[memory]
    seen = 0  # columns of one number for each user: the records for each point, and all losses in memory
    for step in range(steps):
        seen += config.batch * (DIMENSION + 1) + min(step * config.batch, capacity)
    block = jnp.ones((DIMENSION, users), jnp.float32)
    total = jax.jit(jnp.sum)
    _seconds(total, block)
    once = min(_seconds(total, block) for _ in range(5)) / DIMENSION
    return {"cold": times[0], "warm": sorted(times[1:])[repeats // 2], "reading": once * seen, "peak_gib": peak}


def _run(records, config):
    return run_scan(dp_gibo.algorithm, loss, records, config, key=KEY, insecure_key=True).release.point


def _seconds(function, *arguments) -> float:
    started = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - started


if __name__ == "__main__":
    serve(run)

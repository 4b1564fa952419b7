"""Our side of ``scripts/bench streamed``: DP-GD on users who come in shards, by a loop over ``contribute``."""

import resource
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import streamed_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import dp_gd, secret_key
from jaxdpbo.noise import totals
from jaxdpbo.types import Query, State

DATA = jax.random.key(0)
ALGORITHM = dp_gd.algorithm


def gradients(theta: jax.Array, shard: jax.Array) -> jax.Array:
    """Of one shard ``(1, d, s)``: the same users in every step."""
    shape = problem.DIMENSION, problem.SHARD
    records = 0.25 + 0.5 * jax.random.normal(jax.random.fold_in(DATA, shard), shape, jnp.float32)
    return (theta[:, None] - records)[None]


@jax.jit
def add_shard(config: dp_gd.Config, query: Query, total: totals.UserTotal, shard: jax.Array) -> totals.UserTotal:
    """The total with one shard more; of the last only as many users as there are."""
    assert ALGORITHM.contribute is not None
    present = shard * problem.SHARD + jnp.arange(problem.SHARD) < config.users
    shard_total, _ = ALGORITHM.contribute(config, query, (), gradients(query.points[0], shard), present)
    return totals.add(total, shard_total)


@jax.jit
def draw_shard(theta: jax.Array, seen: jax.Array, shard: jax.Array) -> jax.Array:
    """The users of a shard alone, and one sum of them."""
    return seen + jnp.sum(gradients(theta, shard))


@jax.jit
def take_step(key: jax.Array, config: dp_gd.Config, state: State, query: Query, total: totals.UserTotal) -> State:
    """The noise, once, and the step."""
    assert ALGORITHM.perturb is not None
    return ALGORITHM.tell(config, state, query, ALGORITHM.perturb(key, config, query, total.whole))


def run(users: int) -> dict:
    """Seconds of a step and of drawing the same users, both warm; the peak of memory, bits of a sum, and the answer."""
    box = {"low": [-1.0] * problem.DIMENSION, "high": [1.0] * problem.DIMENSION}
    options = {"steps": problem.STEPS, "mu": problem.MU, "clip_norm": problem.CLIP_NORM, "bounds": box}
    config, shards = dp_gd.config(users=users, **options), range(-(-users // problem.SHARD))
    state = ALGORITHM.init(DATA, config)
    assert ALGORITHM.contribute is not None
    query, nothing = ALGORITHM.ask(DATA, config, state), jnp.zeros((1, problem.DIMENSION, 1), jnp.float32)
    nobody, _ = totals.make_zeros(ALGORITHM.contribute, config, query, (), nothing)
    jax.block_until_ready(take_step(secret_key(), config, state, query, add_shard(config, query, nobody, jnp.int32(0))))
    jax.block_until_ready(draw_shard(query.points[0], jnp.float32(0), jnp.int32(0)))  # all is compiled

    started, bits = time.perf_counter(), 0
    for _ in range(problem.STEPS):
        query, total = ALGORITHM.ask(DATA, config, state), nobody
        for shard in shards:
            total = add_shard(config, query, total, jnp.int32(shard))
        low, high = (np.asarray(word).astype(object) for word in total.whole)
        bits = max(bits, *(abs(int(number)).bit_length() for number in high * 2**32 + low))
        state = jax.block_until_ready(take_step(secret_key(), config, state, query, total))
    step = (time.perf_counter() - started) / problem.STEPS

    started, seen = time.perf_counter(), jnp.float32(0)
    for shard in shards:
        seen = draw_shard(query.points[0], seen, jnp.int32(shard))
    jax.block_until_ready(seen)
    return {
        "step": step,
        "drawing": time.perf_counter() - started,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "bits": bits,
        "point": np.asarray(state.public.theta, float).tolist(),
    }


if __name__ == "__main__":
    serve(run)

"""Our side of ``scripts/bench po_gp_ucb``: the modeler, the same with its posterior recomputed, and the ceiling."""

import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.sharding import Mesh, PartitionSpec

from benchmarks.speed import outsourced_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import drivers, kernels, po_gp_ucb, transforms
from jaxdpbo.guarantee import guarantees
from jaxdpbo.surrogate import beta_of_candidates, box_search


@cache
def config(count: int) -> po_gp_ucb.Config:
    z = jnp.asarray(problem.rows(count))
    metadata = transforms.Metadata("random_projection", None, None, 1.0)
    statement = guarantees.no_guarantee(transforms.ROWS, transforms.PROJECTED)
    return po_gp_ucb.config(
        transforms.CuratedRows(z, metadata, statement),
        steps=problem.STEPS,
        lengthscale=problem.LENGTHSCALE,
        noise_variance=problem.NOISE_VARIANCE,
        delta=problem.DELTA,
    )


def output(point, data):
    return data[jnp.asarray(point[0], int)]


def incremental_picks(inputs, config):
    """The library's modeler, but for the first row, which the problem says."""
    start, table = inputs
    algorithm = po_gp_ucb.algorithm
    key = jax.random.key(0)  # the rest is not random

    def step(state, t):
        query = algorithm.ask(key, config, state)
        row = jnp.where(t == 0, start.astype(jnp.int32), query.rows[0])[None]
        query = query._replace(points=row[:, None].astype(table.dtype), rows=row)
        state, _ = algorithm.tell(key, config, state, query, output(query.points[0], table)[None])
        return state, row[0]

    return jax.lax.scan(step, algorithm.init(key, config), jnp.arange(config.steps))[1]


def recomputed_picks(inputs, config):
    """The same picks as the textbook has them: a factorisation and a solve for every row at each step."""
    start, table = inputs
    z, params, noise = config.released, config.model.params, config.model.noise_variance
    slots = jnp.arange(config.steps)

    def step(carry, t):
        rows, values = carry
        seen = slots < t
        here = z[rows]
        pairs = seen[:, None] & seen[None]
        covariance = jnp.where(pairs, kernels.gram(kernels.rbf, params, here, here), 0.0)
        factor = jnp.linalg.cholesky(covariance + jnp.diag(jnp.where(seen, noise, 1.0)))
        cross = jnp.where(seen[:, None], kernels.gram(kernels.rbf, params, here, z), 0.0)
        whitened = solve_triangular(factor, cross, lower=True)
        mean = solve_triangular(factor, jnp.where(seen, values, 0.0), lower=True) @ whitened
        variance = jnp.maximum(1.0 - jnp.sum(jnp.square(whitened), axis=0), 0.0)
        beta = beta_of_candidates(t + 1, len(z), config.delta)
        best, _ = box_search.first_of_largest(mean + jnp.sqrt(beta * variance))
        row = jnp.where(t == 0, start.astype(jnp.int32), best)
        return (rows.at[t].set(row), values.at[t].set(table[row])), row

    empty = jnp.zeros(config.steps, jnp.int32), jnp.zeros(config.steps, table.dtype)
    return jax.lax.scan(step, empty, slots)[1]


PLANS = {"incremental": incremental_picks, "recomputed": recomputed_picks}


def sweep(plan: str, count: int, first: int, runs: int, policy: str | None = None) -> dict:
    """Seeds ``first ..`` over ``count`` rows: seconds, and the rows each run asked for."""
    seeds = range(first, first + runs)
    tables = jnp.asarray(np.stack([problem.outputs(count, seed) for seed in seeds]))
    num_restarts = jnp.asarray([problem.first_row(count, seed) for seed in seeds])
    shared = config(count)
    start = time.perf_counter()
    picks = drivers.distribute(PLANS[plan], (num_restarts, tables), shared, policy=policy)
    jax.block_until_ready(picks)
    return {"seconds": time.perf_counter() - start, "picks": np.asarray(picks).tolist()}


def stream(megabytes: int) -> dict:
    """Seconds and bytes of reading a large array once, a share on each device, as the sweep has it."""
    devices = jax.local_devices()
    length = megabytes * 2**20 // 8 // len(devices) * len(devices)
    mesh = Mesh(np.asarray(devices), ("runs",))
    spec = PartitionSpec("runs")
    block = jax.device_put(jnp.ones(length), jax.sharding.NamedSharding(mesh, spec))
    read = jax.jit(jax.shard_map(lambda part: jnp.max(part)[None], mesh=mesh, in_specs=spec, out_specs=spec))
    jax.block_until_ready(read(block))
    start = time.perf_counter()
    jax.block_until_ready(read(block))
    return {"seconds": time.perf_counter() - start, "bytes": block.nbytes}


if __name__ == "__main__":
    serve(sweep, stream)

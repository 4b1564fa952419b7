"""Our side of ``scripts/bench tables``: DP-GIBO on Parquet files, and NumPy's sums of the same columns."""

import resource
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.speed import table_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import Search, minimize, tables

NAMES = [f"x{number}" for number in range(problem.COLUMNS)]
PART = 2**20


def write(folder: str, users: int) -> float:
    """Write the files, and return their size in GiB."""
    rows_per_file = users // problem.FILES
    for number in range(problem.FILES):
        rng, path = np.random.default_rng(number), Path(folder) / f"{number:03}.parquet"
        with pq.ParquetWriter(path, pa.schema([(name, pa.float32()) for name in NAMES]), compression="none") as writer:
            for start in range(0, rows_per_file, PART):
                rows = 0.3 + rng.standard_normal((problem.COLUMNS, min(PART, rows_per_file - start)), np.float32)
                writer.write_table(pa.table(dict(zip(NAMES, rows, strict=True))))
    return sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**30


def loss(point, batch):
    """A loss for each user of a batch."""
    rows = jnp.stack([batch[name] for name in NAMES])
    return jnp.minimum(jnp.sum(jnp.abs(rows - point[:, None]), axis=0), problem.HIGH)


def search(folder: str, steps: int) -> dict:
    """Seconds of a search of some steps, its point and its epsilon, and the peak of memory so far."""
    return search_table(tables.parquet(folder), steps)


def search_table(table: tables.Table, steps: int) -> dict:
    """The search on a table that is open."""
    started = time.perf_counter()
    run = minimize(
        loss, table, [(-2, 2)] * problem.COLUMNS, epsilon=problem.EPSILON, delta=problem.DELTA,
        search=Search(method="local", steps=steps, clip_norm=problem.HIGH / 4), loss_range=(0, problem.HIGH),
        progress=False,
    )  # fmt: skip
    return {
        "seconds": time.perf_counter() - started,
        "point": run.release.point.tolist(),
        "epsilon": run.guarantee.epsilon(problem.DELTA),
        "users": table.users,
        "peak_gib": peak_gib(),
    }


def numpy_sums(folder: str) -> dict:
    """Seconds of reading the same columns with pyarrow and summing each with NumPy."""
    import pyarrow.dataset

    started, sums = time.perf_counter(), np.zeros(problem.COLUMNS)
    for part in pyarrow.dataset.dataset(folder, format="parquet").to_batches(batch_size=2**17, fragment_readahead=1):
        sums += [np.sum(part.column(name).to_numpy(), dtype=float) for name in NAMES]
    return {"seconds": time.perf_counter() - started, "sums": sums.tolist()}


def peak_gib() -> float:
    """The peak of memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    serve(write, search, numpy_sums)

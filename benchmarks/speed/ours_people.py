"""Our side of ``scripts/bench people``: DP-GIBO on rows put together by person, and pyarrow's group-by of the same."""

import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.speed import people_problem as problem
from benchmarks.speed.ours_tables import peak_gib
from benchmarks.speed.worker import serve
from jaxdpbo import Search, minimize, tables

KEY = bytes(range(16))  # of the slots: the bench protects nobody
IDS = np.int64(0x2545F4914F6CDD1D)  # odd: each person has another id, anywhere in 64 bits
PART = 2**20


def write(folder: str, share: int) -> float:
    """Write one part in ``share`` of the rows, in an order without people, and return the files' size in GiB."""
    for number in range(problem.FILES):
        rng, path = np.random.default_rng(number), Path(folder) / f"{number:03}.parquet"
        schema = pa.schema([("patient", pa.int64()), ("a", pa.float32()), ("b", pa.float32())])
        with pq.ParquetWriter(path, schema, compression="none") as writer:
            rows = problem.ROWS // problem.FILES // share
            for start in range(0, rows, PART):
                count = min(PART, rows - start)
                numbers = 0.3 + rng.standard_normal((2, count), np.float32)
                with np.errstate(over="ignore"):
                    ids = rng.integers(0, problem.PEOPLE // share, count) * IDS
                writer.write_table(pa.table({"patient": ids, "a": numbers[0], "b": numbers[1]}))
    return sum(path.stat().st_size for path in Path(folder).iterdir()) / 2**30


def loss(point, batch):
    """A loss for each person: the mean over the rows that they have."""
    distances = jnp.abs(batch["a"] - point[0]) + jnp.abs(batch["b"] - point[1])
    there = jnp.isfinite(distances)
    mean = jnp.sum(jnp.where(there, distances, 0), axis=1) / jnp.maximum(jnp.sum(there, axis=1), 1)
    return jnp.minimum(mean, problem.HIGH)


def search(folder: str, share: int, spill: str, steps: int) -> dict:
    """Seconds of a first and of a second search of some steps, and the peak of memory so far."""
    table = tables.parquet(
        folder, ["a", "b"], users=problem.SLOTS // share, person=tables.hashed("patient", key=KEY),
        max_rows=problem.MAX_ROWS, spill=spill,
    )  # fmt: skip
    times = []
    for _ in range(2):  # the first search writes the spill, and compiles
        started = time.perf_counter()
        run = minimize(
            loss, table, {"low": [-2, -2], "high": [2, 2]}, epsilon=problem.EPSILON, delta=problem.DELTA,
            search=Search(method="local", steps=steps, clip_norm=problem.HIGH / 4), loss_range=(0, problem.HIGH),
            progress=False,
        )  # fmt: skip
        times.append(time.perf_counter() - started)
    return {"first": times[0], "seconds": times[1], "point": run.release.point.tolist(), "peak_gib": peak_gib()}


def group_by(folder: str) -> dict:
    """Seconds of pyarrow's exact sums by id, of the same files."""
    import pyarrow.dataset

    started = time.perf_counter()
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table(columns=["patient", "a", "b"])
    people = table.group_by("patient").aggregate([("a", "sum"), ("b", "sum")]).num_rows
    return {"seconds": time.perf_counter() - started, "people": people, "peak_gib": peak_gib()}


if __name__ == "__main__":
    serve(write, search, group_by)

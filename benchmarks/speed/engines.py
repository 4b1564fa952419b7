"""``scripts/bench engines``: a scan by each engine beside NumPy's sums of the same columns in the same process."""

import tempfile

from benchmarks.speed import rows, table_problem, tables
from benchmarks.speed.worker import Worker

USERS = 10**7
REPEATS = 3
ENGINES = ("parquet", "dask", "ray", "spark", "beam")
MODULE = "benchmarks.speed.ours_engines"


def main(quick: bool) -> None:
    users, steps = USERS // (10 if quick else 1), table_problem.STEPS
    results = []
    with tempfile.TemporaryDirectory() as folder:
        with Worker("benchmarks.speed.ours_tables", JAX_ENABLE_X64="0") as writer:
            writer("write", folder=folder, users=users)
        for engine in ENGINES:
            with Worker(MODULE, JAX_ENABLE_X64="0") as worker:
                assert worker("start", engine=engine, folder=folder) == users
                first = worker("search", steps=steps)["seconds"]  # compiles, in each worker
                scans, sums = [], []
                for _ in range(1 if quick else REPEATS):
                    scans.append(worker("search", steps=steps)["seconds"] / steps)
                    sums.append(worker("numpy_sums", folder=folder)["seconds"])
            results.append(tables.scan_row(f"{engine}: a scan", users, scans, sums, first, engine=engine))
    rows.finish("engines", results, quick)

"""``scripts/bench tables``: scans of Parquet files by DP-GIBO, beside NumPy's sums of the same columns."""

import statistics
import tempfile

from benchmarks.speed import rows, table_problem
from benchmarks.speed.worker import Worker

REPEATS = 3


def main(quick: bool) -> None:
    users, steps = table_problem.USERS // (100 if quick else 1), table_problem.STEPS
    results = []
    with tempfile.TemporaryDirectory() as folder, Worker("benchmarks.speed.ours_tables", JAX_ENABLE_X64="0") as worker:
        size = worker("write", folder=folder, users=users)
        with Worker("benchmarks.speed.ours_tables", JAX_ENABLE_X64="0") as reader:
            first = reader("search", folder=folder, steps=steps)  # compiles
            scans, sums, seen = [], [], first
            for _ in range(1 if quick else REPEATS):
                seen = reader("search", folder=folder, steps=steps)
                scans.append(seen["seconds"] / steps)
                sums.append(reader("numpy_sums", folder=folder)["seconds"])
        scan, numpy = statistics.median(scans), statistics.median(sums)
        compile_s = max(first["seconds"] - steps * scan, 0.0)
        name = f"a scan of {users:,} users, {table_problem.COLUMNS} columns"
        results.append(
            rows.row(
                name,
                scan,
                numpy,
                "NumPy's sums of the columns",
                scan / numpy,
                compile_s,
                "float32",
                users=users,
                gib=round(size, 2),
                peak_gib=round(seen["peak_gib"], 2),
                users_a_second=round(users / scan),
                points=table_problem.COLUMNS + 1,
                epsilon=seen["epsilon"],
                point=seen["point"],
            )
        )
    rows.finish("tables", results, quick)

"""``scripts/bench tables``: scans of Parquet files by DP-GIBO, beside NumPy's sums of the same columns."""

import statistics
import tempfile
from typing import Any

from benchmarks.speed import rows, table_problem
from benchmarks.speed.worker import Worker

REPEATS = 3


def main(quick: bool) -> None:
    users, steps = table_problem.USERS // (100 if quick else 1), table_problem.STEPS
    with tempfile.TemporaryDirectory() as folder, Worker("benchmarks.speed.ours_tables", JAX_ENABLE_X64="0") as worker:
        size = worker("write", folder=folder, users=users)
        with Worker("benchmarks.speed.ours_tables", JAX_ENABLE_X64="0") as reader:
            first = reader("search", folder=folder, steps=steps)  # compiles
            scans, sums, seen = [], [], first
            for _ in range(1 if quick else REPEATS):
                seen = reader("search", folder=folder, steps=steps)
                scans.append(seen["seconds"] / steps)
                sums.append(reader("numpy_sums", folder=folder)["seconds"])
    row = scan_row(
        "a scan", users, scans, sums, first["seconds"], gib=round(size, 2), peak_gib=round(seen["peak_gib"], 2),
        points=table_problem.COLUMNS + 1, epsilon=seen["epsilon"], point=seen["point"],
    )  # fmt: skip
    rows.finish("tables", [row], quick)


def scan_row(name: str, users: int, scans: list[float], sums: list[float], first: float, **more: Any) -> dict[str, Any]:
    """Seconds of scans beside those of NumPy's sums; ``first``: of a whole search, compilation included."""
    scan, numpy = statistics.median(scans), statistics.median(sums)
    return rows.row(
        f"{name} of {users:,} users, {table_problem.COLUMNS} columns", scan, numpy, "NumPy's sums of the columns",
        ratio=scan / numpy, compile_s=max(first - table_problem.STEPS * scan, 0.0), dtype="float32",
        users=users, users_a_second=round(users / scan), **more,
    )  # fmt: skip

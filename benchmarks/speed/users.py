"""``scripts/bench users``: DP-GIBO on ten million users, its memory, and its time compared with one reading.

A step evaluates eleven points, each of which reads all records, and multiplies the losses in memory by the weights.
"""

from tqdm import tqdm

from benchmarks.speed import rows, users_problem
from benchmarks.speed.worker import Worker

OURS = "benchmarks.speed.ours_users"
ONCE = "reading once"


def main(quick: bool) -> None:
    shrunk, repeats, results = (100, 1, []) if quick else (1, 3, [])
    for users, steps, memory, remembered in tqdm(users_problem.RUNS, unit="run"):
        users //= shrunk
        with Worker(OURS, JAX_ENABLE_X64="0") as worker:
            seen = worker("run", users=users, steps=steps, memory=memory, remembered=remembered, repeats=repeats)
        seconds = seen["warm"] / steps
        results.append(
            rows.row(
                f"a step of {steps}, {users:,} users, memory {memory!r}",
                seconds,
                seen["reading"] / steps,
                ONCE,
                ratio=seen["warm"] / seen["reading"],
                compile_s=seen["cold"] - seen["warm"],
                dtype="float32",
                users=users,
                steps=steps,
                memory=memory,
                remembered=remembered,
                peak_gib=round(seen["peak_gib"], 2),
            )
        )
    rows.finish("users", results, quick)

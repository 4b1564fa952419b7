"""``scripts/bench streamed``: DP-GD with exact noise on a billion users, with one shard in memory at a time."""

from benchmarks.speed import rows, streamed_problem
from benchmarks.speed.worker import Worker


def main(quick: bool) -> None:
    users = streamed_problem.USERS // (100 if quick else 1)
    with Worker("benchmarks.speed.ours_streamed", JAX_ENABLE_X64="0") as worker:
        seen = worker("run", users=users)
    name, ratio = f"a step of {streamed_problem.STEPS}, {users:,} users", seen["step"] / seen["drawing"]
    row = rows.row(
        name, seen["step"], seen["drawing"], "drawing the users", ratio=ratio, dtype="float32",
        users=users, peak_gib=round(seen["peak_gib"], 2), bits=seen["bits"], point=seen["point"],
    )  # fmt: skip
    rows.finish("streamed", [row], quick)

"""``scripts/bench people``: scans of rows put together by person, beside pyarrow's exact group-by of the same files."""

import statistics
import tempfile

from benchmarks.speed import people_problem, rows
from benchmarks.speed.worker import Worker

OURS, REPEATS = "benchmarks.speed.ours_people", 3


def main(quick: bool) -> None:
    """Ours with a spill, in a process of its own, and the peer in another, alternating."""
    share, steps = 50 if quick else 1, people_problem.STEPS
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as spill:
        with Worker(OURS, JAX_ENABLE_X64="0") as writer:
            size = writer("write", folder=folder, share=share)
        spilled, peers = [], []
        for _ in range(1 if quick else REPEATS):
            with Worker(OURS, JAX_ENABLE_X64="0") as ours:
                spilled.append(ours("search", folder=folder, share=share, spill=spill, steps=steps))
            with Worker(OURS, JAX_ENABLE_X64="0") as peer:
                peers.append(peer("group_by", folder=folder))
    scan = statistics.median(run["seconds"] / steps for run in spilled)
    peer = statistics.median(run["seconds"] for run in peers)
    count = people_problem.ROWS // share
    row = rows.row(
        f"a scan of {count:,} rows of {peers[0]['people']:,} people", scan, peer, "pyarrow's group-by of the files",
        ratio=scan / peer, compile_s=None, dtype="float32", rows=count, people=peers[0]["people"],
        gib=round(size, 2), first_s=round(statistics.median(run["first"] for run in spilled), 1),
        peak_gib=round(max(run["peak_gib"] for run in spilled), 2),
        peer_peak_gib=round(max(run["peak_gib"] for run in peers), 2),
    )  # fmt: skip
    rows.finish("people", [row], quick)

"""``scripts/bench dpareto``: 16 seeds and 256 proposals with a free oracle, compared with the same loop on BoTorch.

The peer proposes fewer settings, since later steps cost more. The ratio compares equal numbers of proposals; the sides
alternate.
"""

import statistics

from tqdm import tqdm

from benchmarks.speed import pareto_problem as problem
from benchmarks.speed import rows
from benchmarks.speed.worker import Worker

OURS, PEER = "benchmarks.speed.ours_pareto", "benchmarks.speed.botorch_pareto"
THREADS = (1, 2)


def main(quick: bool) -> None:
    few, many, seeds = (4, 8, 1) if quick else (64, problem.PROPOSALS, 5)
    with Worker(OURS) as ours, Worker(PEER) as peer:
        compiled = {count: ours("run", seed=100, proposals=count)["seconds"] for count in (few, many)}
        peer("run", seed=100, proposals=2, threads=2)
        short, long, peers = [], [], {threads: [] for threads in THREADS}
        for seed in tqdm(range(seeds), unit="seed"):
            short.append(ours("run", seed=seed, proposals=few))
            long.append(ours("run", seed=seed, proposals=many))
            for threads in THREADS:
                peers[threads].append(peer("run", seed=seed, proposals=few, threads=threads))
        versions = ours("version"), peer("version")
    faster, peer_s = rows.faster(peers)
    first, all_of = rows.median(short), rows.median(long)
    volumes = [run["volume"] for run in long]
    rows.finish(
        "dpareto",
        [
            rows.row(
                f"{problem.SEEDS} seeds and {few} proposals, d={problem.DIMENSION}",
                first,
                peer_s,
                f"{versions[1]}, analytic EHVI, {faster} thread(s)",
                compile_s=compiled[few] - first,
                ours=versions[0],
                peer_seconds={str(threads): rows.seconds(runs) for threads, runs in peers.items()},
                hypervolume={
                    "ours": [run["volume"] for run in short],
                    "peer": [run["volume"] for run in peers[faster]],
                },
            ),
            rows.row(
                f"{problem.SEEDS} seeds and {many} proposals",
                all_of,
                first,
                f"{few} proposals, ours",
                ratio=all_of / first,
                compile_s=compiled[many] - all_of,
                seconds=rows.seconds(long),
                hypervolume=volumes,
                spread_of_hypervolume=(max(volumes) - min(volumes)) / statistics.mean(volumes),
                largest_difference_of_values=max(run["largest_difference"] for run in long),
            ),
        ],
        quick,
    )

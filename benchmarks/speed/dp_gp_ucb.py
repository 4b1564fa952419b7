"""``scripts/bench dp_gp_ucb``: a sweep of 100 seeds compared with the same loop on scikit-learn.

The sides alternate. Ours runs on two host devices; the peer runs with one BLAS thread and with two, and the faster time
counts. Both see the same values, so their picks are compared as well, up to the first step at which the peer's two best
scores are closer than 1e-9: beyond this step rounding decides.
"""

import statistics

from tqdm import tqdm

from benchmarks.speed import rows
from benchmarks.speed import ucb_problem as problem
from benchmarks.speed.dp_gibo import TWO
from benchmarks.speed.worker import Worker

OURS, PEER = "benchmarks.speed.ours_ucb", "benchmarks.speed.sklearn_ucb"
THREADS = {
    f"{count} thread(s)": {"OPENBLAS_NUM_THREADS": str(count), "OMP_NUM_THREADS": str(count)} for count in (1, 2)
}


def main(quick: bool) -> None:
    rounds, seeds = (2, 10) if quick else (5, 100)
    with Worker(OURS, **TWO) as ours:
        peers = {name: Worker(PEER, **environment) for name, environment in THREADS.items()}
        first = ours("sweep", first=10_000, seeds=seeds, policy="shard")["seconds"]
        for peer in peers.values():
            peer("run", seed=10_000)
        swept, runs = [], {name: [] for name in peers}
        share = seeds // rounds
        for turn in tqdm(range(rounds), unit="round"):
            swept.append(ours("sweep", first=0, seeds=seeds, policy="shard"))
            for seed in range(turn * share, (turn + 1) * share):
                for name, peer in peers.items():
                    runs[name].append(peer("run", seed=seed))
        versions = ours("version"), peers[next(iter(peers))]("version")
        for peer in peers.values():
            peer.__exit__()
    medians = {name: statistics.median(run["seconds"] for run in peer_runs) for name, peer_runs in runs.items()}
    faster = min(medians, key=medians.__getitem__)
    seconds = statistics.median(sweep["seconds"] for sweep in swept) / seeds
    equal, close = rows.count_equal_runs(swept[0]["values"], runs[faster], "values")
    row = rows.row(
        f"one run of a sweep of {seeds} seeds",
        seconds,
        medians[faster],
        f"{versions[1]}, {faster}",
        medians[faster] / seconds,
        first - seconds * seeds,
        "float64",
        problem=f"c={problem.CANDIDATES}, d={problem.DIMENSION}, T={problem.STEPS}",
        ours=versions[0],
        same_picks=f"{equal} of {len(runs[faster])} seeds, {close} of the others after a tie within {rows.CLOSE:g}",
        peer_seconds={name: [run["seconds"] for run in peer_runs] for name, peer_runs in runs.items()},
        ours_seconds=[sweep["seconds"] for sweep in swept],
    )
    rows.finish("dp_gp_ucb", [row], quick)

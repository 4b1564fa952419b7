"""``scripts/bench po_gp_ucb``: the modeler of an outsourced search, recomputation, memory and scikit-learn.

Ours runs on two host devices, and so does a posterior recomputed at every step. Scikit-learn has one BLAS thread or
two, and the faster time counts. All sides begin with the same row, so their picks are compared too, up to the first
step at which the peer's two best scores are closer than 1e-9: beyond this step rounding decides.
"""

import statistics

from tqdm import tqdm

from benchmarks.speed import outsourced_problem as problem
from benchmarks.speed import rows
from benchmarks.speed.dp_gibo import TWO
from benchmarks.speed.dp_gp_ucb import THREADS
from benchmarks.speed.worker import Worker

OURS, PEER = "benchmarks.speed.ours_outsourced", "benchmarks.speed.sklearn_outsourced"
MEGABYTES = 1024


def main(quick: bool) -> None:
    rows.finish("po_gp_ucb", [*compare_with_ceilings(quick), *compare_with_sklearn(quick)], quick)


def compare_with_ceilings(quick: bool) -> list[dict]:
    """Runs of a sweep, per run, beside the recomputed posterior and beside the time to read what a step must read."""
    count, runs, few, rounds = (4000, 4, 2, 2) if quick else (36_000, 50, 6, 7)
    swept, again, read = [], [], []
    with Worker(OURS, **TWO) as ours:
        first = ours("sweep", plan="incremental", count=count, first=100, runs=runs, policy="shard")["seconds"]
        ours("sweep", plan="recomputed", count=count, first=100, runs=few, policy="shard")
        ours("stream", megabytes=MEGABYTES)
        for _ in tqdm(range(rounds), unit="round"):
            read.append(ours("stream", megabytes=MEGABYTES))
            swept.append(ours("sweep", plan="incremental", count=count, first=0, runs=runs, policy="shard"))
            again.append(ours("sweep", plan="recomputed", count=count, first=0, runs=few, policy="shard"))
        every = ours("sweep", plan="recomputed", count=count, first=0, runs=runs, policy="shard")["picks"]
        version = ours("version")
    seconds = statistics.median(sweep["seconds"] for sweep in swept) / runs
    peer = statistics.median(sweep["seconds"] for sweep in again) / few
    rate = statistics.median(reading["bytes"] / reading["seconds"] for reading in read)
    # Float64: the whitened rows so far, each once a step; the rows of Z once a step; the new whitened row, written.
    needed = 8 * count * (sum(range(problem.STEPS)) + problem.STEPS * problem.DIMENSION + problem.STEPS)
    equal = sum(a == b for a, b in zip(swept[0]["picks"], every, strict=True))
    sizes = f"n={count}, r={problem.DIMENSION}, T={problem.STEPS}"
    return [
        rows.row(
            f"one run of a sweep of {runs}, {sizes}",
            seconds,
            peer,
            "the posterior recomputed at every step",
            peer / seconds,
            first - seconds * runs,
            "float64",
            ours=version,
            same_picks=f"{equal} of {runs} runs",
            ours_seconds=[sweep["seconds"] for sweep in swept],
            peer_seconds=[sweep["seconds"] for sweep in again],
        ),
        rows.row(
            f"the same, {needed / 1e6:.0f} MB read or written",
            seconds,
            needed / rate,
            f"ceiling (reading on all cores, {rate / 1e9:.1f} GB/s)",
            needed / rate / seconds,
            None,
            "float64",
            note="above 1 where a part of them stays in a cache",
            gb_per_s=[reading["bytes"] / reading["seconds"] / 1e9 for reading in read],
        ),
    ]


def compare_with_sklearn(quick: bool) -> list[dict]:
    """The same loop on ``GaussianProcessRegressor``, interleaved."""
    count, runs, rounds = (2000, 4, 2) if quick else (10_000, 50, 10)
    share = runs // rounds
    with Worker(OURS, **TWO) as ours:
        peers = {name: Worker(PEER, **environment) for name, environment in THREADS.items()}
        first = ours("sweep", plan="incremental", count=count, first=100, runs=runs, policy="shard")["seconds"]
        for peer in peers.values():
            peer("run", count=count, seed=100)
        swept, seen = [], {name: [] for name in peers}
        for turn in tqdm(range(rounds), unit="round"):
            swept.append(ours("sweep", plan="incremental", count=count, first=0, runs=runs, policy="shard"))
            for seed in range(turn * share, (turn + 1) * share):
                for name, peer in peers.items():
                    seen[name].append(peer("run", count=count, seed=seed))
        versions = ours("version"), peers[next(iter(peers))]("version")
        for peer in peers.values():
            peer.__exit__()
    medians = {name: statistics.median(run["seconds"] for run in peer_runs) for name, peer_runs in seen.items()}
    faster = min(medians, key=medians.__getitem__)
    seconds = statistics.median(sweep["seconds"] for sweep in swept) / runs
    equal, close = rows.count_equal_runs(swept[0]["picks"], seen[faster], "picks")
    return [
        rows.row(
            f"one run of a sweep of {runs}, n={count}, r={problem.DIMENSION}, T={problem.STEPS}",
            seconds,
            medians[faster],
            f"{versions[1]}, {faster}",
            medians[faster] / seconds,
            first - seconds * runs,
            "float64",
            ours=versions[0],
            same_picks=f"{equal} of {len(seen[faster])} runs, {close} of the others after a tie within {rows.CLOSE:g}",
            peer_seconds={name: [run["seconds"] for run in peer_runs] for name, peer_runs in seen.items()},
            ours_seconds=[sweep["seconds"] for sweep in swept],
        )
    ]

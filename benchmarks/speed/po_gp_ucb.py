"""``scripts/bench po_gp_ucb``: the modeler of an outsourced search, recomputation, memory and scikit-learn.

Ours runs on two host devices, and so does a posterior recomputed at every step. Scikit-learn has one BLAS thread or
two, and the faster time counts. All sides begin with the same row, so their picks are compared too, up to the first
step at which the peer's two best scores are closer than 1e-9: beyond this step rounding decides.
"""

import statistics

from tqdm import tqdm

from benchmarks.speed import outsourced_problem as problem
from benchmarks.speed import rows, sweeps
from benchmarks.speed.sweeps import TWO
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
    seconds, peer = rows.median(swept) / runs, rows.median(again) / few
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
            compile_s=first - seconds * runs,
            ours=version,
            same_picks=f"{equal} of {runs} runs",
            ours_seconds=rows.seconds(swept),
            peer_seconds=rows.seconds(again),
        ),
        rows.row(
            f"the same, {needed / 1e6:.0f} MB read or written",
            seconds,
            needed / rate,
            f"ceiling (reading on all cores, {rate / 1e9:.1f} GB/s)",
            note="above 1 where a part of them stays in a cache",
            gb_per_s=[reading["bytes"] / reading["seconds"] / 1e9 for reading in read],
        ),
    ]


def compare_with_sklearn(quick: bool) -> list[dict]:
    """The same loop on ``GaussianProcessRegressor``, interleaved."""
    count, runs, rounds = (2000, 4, 2) if quick else (10_000, 50, 10)
    row = sweeps.compare(
        OURS, PEER, "picks", "runs", f", n={count}, r={problem.DIMENSION}, T={problem.STEPS}",
        runs=runs, rounds=rounds, warming=100, run={"count": count},
        sweep={"plan": "incremental", "count": count, "runs": runs, "policy": "shard"},
    )  # fmt: skip
    return [row]

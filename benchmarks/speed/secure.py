"""``scripts/bench secure``: the cost of exact noise and ChaCha20 keys in a sweep of DP-GIBO and in one draw.

The peer is our own floating-point noise with JAX's default keys, on the problem of ``scripts/bench dp_gibo``,
alternating in the same process on two host devices.
"""

from tqdm import tqdm

from benchmarks.speed import gibo_problem as problem
from benchmarks.speed import rows
from benchmarks.speed.dp_gibo import OURS
from benchmarks.speed.sweeps import TWO
from benchmarks.speed.worker import Worker

SIDES = {  # noise, generator
    "float, threefry": ("float", "fry"),
    "exact, threefry": ("exact", "fry"),
    "float, ChaCha20": ("float", "chacha20"),
    "exact, ChaCha20": ("exact", "chacha20"),
}
PEER = "float, threefry"


def main(quick: bool) -> None:
    rounds, seeds, repeats = (2, 4, 20) if quick else (5, 40, 200)
    with Worker(OURS, **TWO) as ours:

        def run_sweep(side, first):
            noise, generator = SIDES[side]
            return ours("sweep", first=first, seeds=seeds, policy="shard", noise=noise, generator=generator)

        cold = {side: run_sweep(side, 10_000)["seconds"] for side in SIDES}
        seen = {side: [] for side in SIDES}
        for _ in tqdm(range(rounds), unit="round"):
            for side in SIDES:
                seen[side].append(run_sweep(side, 0))
        draws = {count: ours("draws", count=count, repeats=repeats) for count in (problem.DIMENSION, 1000)}
        version = ours("version")
    medians = {side: rows.median(runs) / seeds for side, runs in seen.items()}
    results = [
        rows.row(
            f"one run of a sweep of {seeds} seeds: {side}",
            medians[side],
            medians[PEER],
            PEER,
            ratio=medians[side] / medians[PEER],
            compile_s=cold[side] - medians[side] * seeds,
            final_loss=rows.spread(seen[side][0]["loss"]),
            ours=version,
            ours_seconds=rows.seconds(seen[side]),
        )
        for side in SIDES
    ]
    for count, times in draws.items():
        base = times["float Gaussian, threefry"]
        results += [
            rows.row(f"{count} draws: {name}", seconds, base, "float Gaussian, threefry", ratio=seconds / base)
            for name, seconds in times.items()
        ]
    rows.finish("secure", results, quick)

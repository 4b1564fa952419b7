"""``scripts/bench dp_sgd``: DP-SGD over a search's settings compared with padding, Opacus and noise in floats.

The first figure is useful examples a second over the paper's mix of settings, compared with padding every batch. Then
come one training compared with Opacus, and one with exact noise compared with one with noise in floats.
"""

import statistics

from tqdm import tqdm

from benchmarks.speed import rows
from benchmarks.speed import sgd_problem as problem
from benchmarks.speed.sweeps import TWO
from benchmarks.speed.worker import Worker

OURS, PEER = "benchmarks.speed.ours_sgd", "benchmarks.speed.opacus_sgd"
LOTS, THREADS = (32, 128, 512), (1, 2)
HIDDEN = 1000  # units of a perceptron on MNIST's pixels


def main(quick: bool) -> None:
    settings, epochs, rounds = (4, 1, 1) if quick else (64, 4, 5)
    with Worker(OURS, **TWO) as ours, Worker(OURS, **TWO) as padded:
        plans = {"ours": (ours, False), "padded": (padded, True)}
        asked = {"settings": settings, "most_epochs": epochs, "policy": "shard"}
        first = {name: worker("sweep", seed=100, padded=pad, **asked) for name, (worker, pad) in plans.items()}
        runs = {name: [] for name in plans}
        for turn in tqdm(range(rounds), unit="round"):
            for name, (worker, pad) in plans.items():
                runs[name].append(worker("sweep", seed=turn, padded=pad, **asked))
        version = ours("version")
    rates = {
        name: statistics.median(run["examples"] / run["seconds"] for run in side_runs)
        for name, side_runs in runs.items()
    }
    seconds = {name: rows.median(side_runs) for name, side_runs in runs.items()}
    compiled = first["ours"]["seconds"] - seconds["ours"] * first["ours"]["examples"] / runs["ours"][0]["examples"]
    rows.finish(
        "dp_sgd",
        [
            *compare_with_opacus(quick),
            *compare_with_float_noise(quick),
            rows.row(
                f"{settings} settings of table 4, {problem.REPEATS} repeats, n={problem.RECORDS}, d={problem.FEATURES}",
                seconds["ours"],
                seconds["padded"],
                f"every batch padded to {problem.LARGEST}",
                ratio=rates["ours"] / rates["padded"],
                compile_s=compiled,
                dtype="float32",
                ours=version,
                useful_examples_per_second={name: f"{rate / 1e6:.2f} million" for name, rate in rates.items()},
                large_compilations={name: run["compilations"] for name, run in first.items()},
                later_compilations={
                    name: sum(run["compilations"] for run in side_runs) for name, side_runs in runs.items()
                },
            ),
        ],
        quick,
    )


def compare_with_opacus(quick: bool) -> list[dict]:
    """One training for each batch, interleaved; the peer with the better number of threads."""
    steps, rounds = (50, 1) if quick else (1000, 5)
    results = []
    with Worker(OURS) as ours, Worker(PEER) as peer:
        compiled = ours("train", batch=LOTS[0], steps=steps, seed=0)["seconds"]
        for batch in tqdm(LOTS, unit="batch"):
            asked = {"batch": batch, "steps": steps}
            own, others = [], {threads: [] for threads in THREADS}
            peer("train", seed=0, threads=THREADS[0], batch=batch, steps=10)
            for seed in range(1, rounds + 1):
                own.append(ours("train", seed=seed, **asked))
                for threads in THREADS:
                    others[threads].append(peer("train", seed=seed, threads=threads, **asked))
            seconds = rows.median(own)
            faster, peer_s = rows.faster(others)
            results.append(
                rows.row(
                    f"{steps} steps of batch {batch}, one training",
                    seconds,
                    peer_s,
                    f"{peer('version')}, {faster} thread(s)",
                    compile_s=compiled - seconds if batch == LOTS[0] else None,
                    dtype="float32",
                    ours=ours("version"),
                    accuracy={
                        "ours": statistics.median(run["accuracy"] for run in own),
                        "peer": statistics.median(run["accuracy"] for run in others[faster]),
                    },
                )
            )
    return results


def compare_with_float_noise(quick: bool) -> list[dict]:
    """One training for each batch, and of a perceptron, with exact noise and with noise in floats, interleaved."""
    rounds, results = (1 if quick else 5), []
    plans = [(batch, 50 if quick else 1000, 0) for batch in LOTS] + [(LOTS[-1], 2 if quick else 20, HIDDEN)]
    with Worker(OURS, **TWO) as ours:
        for batch, steps, hidden in tqdm(plans, unit="training"):
            runs = {"exact": [], "float": []}
            first = {}
            for turn in range(rounds + 1):
                for noise, noise_runs in runs.items():
                    run = ours("train", batch=batch, steps=steps, hidden=hidden, noise=noise, seed=turn)
                    first.setdefault(noise, run)
                    if run is not first[noise]:
                        noise_runs.append(run)
            seconds = {noise: rows.median(noise_runs) for noise, noise_runs in runs.items()}
            model = f"{HIDDEN} hidden units" if hidden else "logistic regression"
            results.append(
                rows.row(
                    f"exact noise: {steps} steps of batch {batch}, {model}",
                    seconds["exact"],
                    seconds["float"],
                    "noise in floats",
                    ratio=seconds["exact"] / seconds["float"],
                    compile_s=first["exact"]["seconds"] - seconds["exact"],
                    dtype="float32",
                    ours=ours("version"),
                    accuracy={
                        noise: statistics.median(run["accuracy"] for run in noise_runs)
                        for noise, noise_runs in runs.items()
                    },
                )
            )
    return results

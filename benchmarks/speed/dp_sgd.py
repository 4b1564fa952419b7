"""``scripts/bench dp_sgd``: useful examples a second over the paper's mix of settings, beside padding every lot."""

import statistics

from tqdm import tqdm

from benchmarks.speed import rows
from benchmarks.speed import sgd_problem as problem
from benchmarks.speed.dp_gibo import TWO
from benchmarks.speed.worker import Worker

OURS = "benchmarks.speed.ours_sgd"


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
    rates = {name: statistics.median(run["examples"] / run["seconds"] for run in of) for name, of in runs.items()}
    seconds = {name: statistics.median(run["seconds"] for run in of) for name, of in runs.items()}
    compiled = first["ours"]["seconds"] - seconds["ours"] * first["ours"]["examples"] / runs["ours"][0]["examples"]
    rows.finish(
        "dp_sgd",
        [
            rows.row(
                f"{settings} settings of table 4, {problem.REPEATS} repeats, n={problem.RECORDS}, d={problem.FEATURES}",
                seconds["ours"],
                seconds["padded"],
                f"every lot padded to {problem.LARGEST}",
                rates["ours"] / rates["padded"],
                compiled,
                "float32",
                ours=version,
                useful_examples_per_second={name: f"{rate / 1e6:.2f} million" for name, rate in rates.items()},
                large_compilations={name: one["compilations"] for name, one in first.items()},
                later_compilations={name: sum(run["compilations"] for run in of) for name, of in runs.items()},
            )
        ],
        quick,
    )

"""``scripts/bench gp_ucb``: GP-UCB on a box compared with Optuna's ``GPSampler`` and BoTorch, on four functions.

The script measures the seconds of a warm suggestion, the regret of the best point evaluated, over seeds, and a whole
first run in a new process, with compilation and without imports. All sides evaluate equally many points; the first
points are drawn and the same for all. Ours has the library's defaults and refits every 5 evaluations. BoTorch does the
same, and on fewer seeds refits at every step, as Optuna always does. Seconds a suggestion are the seconds of a whole
run over its suggestions: the model, the acquisition and the function, a matter of microseconds. A peer's regret comes
from runs with one thread; its time is the faster of one thread and two on the seeds with both.
"""

import statistics
from contextlib import ExitStack
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.reproductions import common
from benchmarks.speed import gp_ucb_problem as problem
from benchmarks.speed import rows
from benchmarks.speed.sweeps import THREADS
from benchmarks.speed.worker import Worker

OURS = "benchmarks.speed.ours_gp_ucb"
OPTUNA, BOTORCH = "benchmarks.speed.optuna_gp_ucb", "benchmarks.speed.botorch_gp_ucb"
PEERS = {  # module, arguments, and how many of the seeds, where not all
    "Optuna": (OPTUNA, {}, None),
    "BoTorch": (BOTORCH, {"refit_every": problem.REFIT_EVERY}, None),
    "BoTorch, refit at every step": (BOTORCH, {"refit_every": 1}, 10),
}
FIRST_SEED, SEEDS, WARMING = 9100, 20, 9000
TIMED = 3  # seeds that the peers run with both counts of threads
ONE, *_ = THREADS
COLD = ("Branin", "Hartmann-6")  # the fewest and the most parameters


def main(quick: bool) -> None:
    names = COLD if quick else problem.NAMES
    evaluations, seeds, timed, processes = (12, 2, 1, 1) if quick else (problem.EVALUATIONS, SEEDS, TIMED, 3)
    with ExitStack() as stack:
        ours = stack.enter_context(Worker(OURS))
        workers = {
            (module, threads): stack.enter_context(Worker(module, **environment))
            for module in (OPTUNA, BOTORCH)
            for threads, environment in THREADS.items()
        }
        firsts, runs = _warm_runs(ours, workers, names, evaluations, seeds, timed)
        versions = {module: worker("version") for (module, _), worker in workers.items()} | {OURS: ours("version")}
    suggestions = evaluations - problem.INITIAL
    results = [
        _row(name, peer, runs[name], firsts[name], suggestions, timed, versions) for name in names for peer in PEERS
    ]
    used = f"{FIRST_SEED} to {FIRST_SEED + seeds - 1}; warming {WARMING}"
    rows.finish("gp_ucb", results + _cold_rows(evaluations, processes, results), quick, seeds=used)


def _warm_runs(
    ours: Any, workers: Any, names: tuple[str, ...], evaluations: int, seeds: int, timed: int
) -> tuple[dict[str, float], dict[str, Any]]:
    """Of each function the seconds of our first run, and what all sides found, seed by seed, interleaved."""
    sides = [
        (peer, threads, workers[module, threads], arguments, timed if threads != ONE else most or seeds)
        for peer, (module, arguments, most) in PEERS.items()
        for threads in THREADS
    ]
    firsts, runs = (
        {},
        {name: {side: [] for side in ("ours", *((entry[0], entry[1]) for entry in sides))} for name in names},
    )
    for name in names:
        firsts[name] = ours("run", function=name, seed=WARMING, evaluations=evaluations)["seconds"]
        for _, _, worker, arguments, _ in sides:
            worker("run", function=name, seed=WARMING, evaluations=problem.INITIAL + 1, **arguments)
    for seed, name in tqdm([(seed, name) for seed in range(seeds) for name in names], unit="seed of a function"):
        asked = {"function": name, "seed": FIRST_SEED + seed, "evaluations": evaluations}
        runs[name]["ours"].append(ours("run", **asked))
        for peer, threads, worker, arguments, most in sides:
            if seed < most:
                runs[name][peer, threads].append(worker("run", **asked, **arguments))
    return firsts, runs


def _row(
    name: str, peer: str, runs: Any, first: float, suggestions: int, timed: int, versions: dict[str, str]
) -> dict[str, Any]:
    """One function beside one peer: seconds a suggestion, and regrets."""
    seconds = {side: [run["seconds"] / suggestions for run in side_runs] for side, side_runs in runs.items()}
    by_threads = {threads: statistics.median(seconds[peer, threads][:timed]) for threads in THREADS}
    faster = min(by_threads, key=by_threads.__getitem__)
    ours_s, peer_s = statistics.median(seconds["ours"]), statistics.median(seconds[peer, faster])
    regrets = {
        "ours": [problem.regret(name, run["values"]) for run in runs["ours"]],
        "peer": [problem.regret(name, run["values"]) for run in runs[peer, ONE]],
    }
    count = len(regrets["peer"])
    return rows.row(
        f"a suggestion, {name}",
        ours_s,
        peer_s,
        peer,
        compile_s=first - ours_s * suggestions,
        ours=versions[OURS],
        version=f"{versions[PEERS[peer][0]]}, {faster}",
        threads=faster,
        peer_seconds={threads: seconds[peer, threads] for threads in THREADS},
        ours_seconds=seconds["ours"],
        seeds=[FIRST_SEED, FIRST_SEED + count],
        regret=regrets,
        quartiles={side: np.percentile(values, (25, 50, 75)).tolist() for side, values in regrets.items()},
        paired=common.paired_difference(np.array(regrets["ours"][:count]), np.array(regrets["peer"])),
    )


def _cold_rows(evaluations: int, processes: int, warm: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A whole first run, each in a process of its own, without a compilation cache; threads as they were faster."""
    results = []
    for name in COLD:
        threads = {row["peer"]: row["more"]["threads"] for row in warm if row["name"].endswith(f" {name}")}
        seconds = {side: [] for side in ("ours", *PEERS)}
        for turn in tqdm(range(processes), unit="round of new processes"):
            asked = {"function": name, "seed": FIRST_SEED + turn, "evaluations": evaluations}
            with Worker(OURS) as worker:
                seconds["ours"].append(worker("run", **asked)["seconds"])
            for peer, (module, arguments, _) in PEERS.items():
                with Worker(module, **THREADS[threads[peer]]) as worker:
                    seconds[peer].append(worker("run", **asked, **arguments)["seconds"])
        medians = {side: statistics.median(values) for side, values in seconds.items()}
        results += [
            rows.row(
                f"a first run, {name}", medians["ours"], medians[peer], peer, threads=threads[peer],
                ours_seconds=seconds["ours"], peer_seconds={threads[peer]: seconds[peer]},
            )
            for peer in PEERS
        ]  # fmt: skip
    return results

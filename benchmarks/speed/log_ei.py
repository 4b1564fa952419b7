"""``scripts/bench log_ei``: LogEI and qLogEI from our pieces, and GP-UCB in batches, beside BoTorch's LogEI and qLogEI.

On four functions, with one point a step and four, over seeds: the regret of the best point evaluated after equally many
evaluations, from the same first points, and the seconds of a whole run. The sides take turns, in processes that are
warm; a first run is also timed in a new process, compilation included. All sides refit at every step, except GP-UCB,
which refits every 5. The peer's time is the faster of one thread and two on the seeds with both, and its regret is from
runs with one. A file in results/bench/log_ei keeps each function and batch for the same commit: a run that was stopped
goes on.
"""

import statistics
from contextlib import ExitStack
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.speed import log_ei_problem as problem
from benchmarks.speed import rows
from benchmarks.speed.sweeps import THREADS
from benchmarks.speed.worker import Worker

OURS, PEER = "benchmarks.speed.ours_log_ei", "benchmarks.speed.botorch_log_ei"
METHODS = {"LogEI": "log_ei", "GP-UCB": "gp_ucb"}
FIRST_SEED, SEEDS, WARMING, TIMED = 9400, 20, 9200, 3  # our model was chosen on seeds from 9100 on
ONE, *_ = THREADS
COLD = ("Branin", "Ackley-10")  # the fewest and the most parameters


def main(quick: bool) -> None:
    names, seeds = (COLD[:1], 2) if quick else (problem.NAMES, SEEDS)
    evaluations = problem.INITIAL + 8 if quick else problem.EVALUATIONS
    with ExitStack() as stack:
        ours = stack.enter_context(Worker(OURS))
        peers = {threads: stack.enter_context(Worker(PEER, **given)) for threads, given in THREADS.items()}
        versions = ours("version"), peers[ONE]("version")
        sides = ours, peers, evaluations, seeds, versions
        found = [row for name in names for batch in problem.BATCHES for row in _kept_rows(name, batch, *sides)]
    used = f"{FIRST_SEED} to {FIRST_SEED + seeds - 1}; warming {WARMING}"
    rows.finish("log_ei", found + _cold_rows(names, evaluations, 1 if quick else 3), quick, seeds=used)


def _kept_rows(name: str, batch: int, ours: Any, peers: Any, evaluations: int, seeds: int, versions: Any) -> Any:
    """``_rows``, or what a run that was stopped kept of them."""
    path = report.folder("bench", "log_ei") / f"{name}-{batch}-{evaluations}-{seeds}.json"
    return report.keep(path, lambda: _rows(name, batch, ours, peers, evaluations, seeds, versions))


def _rows(
    name: str, batch: int, ours: Any, peers: Any, evaluations: int, seeds: int, versions: tuple[str, str]
) -> list[dict[str, Any]]:
    """One function and batch: each of our methods beside the peer, seed by seed, interleaved."""
    asked = {"function": name, "evaluations": evaluations, "batch": batch}
    firsts = {label: ours("run", seed=WARMING, method=method, **asked)["seconds"] for label, method in METHODS.items()}
    for peer in peers.values():
        peer("run", seed=WARMING, **asked | {"evaluations": problem.INITIAL + batch})
    mine, theirs = {label: [] for label in METHODS}, {threads: [] for threads in THREADS}
    for seed in tqdm(range(FIRST_SEED, FIRST_SEED + seeds), desc=f"{name}, q = {batch}", unit="seed"):
        for label, method in METHODS.items():
            mine[label].append(ours("run", seed=seed, method=method, **asked))
        for threads, peer in peers.items():
            if threads == ONE or seed < FIRST_SEED + TIMED:
                theirs[threads].append(peer("run", seed=seed, **asked))
    timed = {threads: runs[:TIMED] for threads, runs in theirs.items()}
    threads, peer_s = rows.faster(timed)
    peer_regrets = [problem.regret(name, run["values"]) for run in theirs[ONE]]
    made = []
    for label, runs in mine.items():
        ours_s = rows.median(runs)
        regrets = {"ours": [problem.regret(name, run["values"]) for run in runs], "peer": peer_regrets}
        made.append(
            rows.row(
                f"{label}, {name}, q = {batch}", ours_s, peer_s, "BoTorch", compile_s=firsts[label] - ours_s,
                ours=versions[0], version=f"{versions[1]}, {threads}", evaluations=evaluations,
                seeds=[FIRST_SEED, FIRST_SEED + seeds], regret=regrets,
                quartiles={side: np.percentile(values, (25, 50, 75)).tolist() for side, values in regrets.items()},
                paired=common.paired_difference(np.array(regrets["ours"]), np.array(regrets["peer"])),
            )
        )  # fmt: skip
    return made


def _cold_rows(names: tuple[str, ...], evaluations: int, processes: int) -> list[dict[str, Any]]:
    """A whole first run of LogEI, each in a process of its own, without a compilation cache."""
    made = []
    for name in [each for each in COLD if each in names]:
        for batch in problem.BATCHES:
            asked = {"function": name, "evaluations": evaluations, "batch": batch}
            seconds: dict[str, list[float]] = {OURS: [], PEER: []}
            for turn in range(processes):
                for module, found in seconds.items():
                    environment = THREADS[ONE] if module == PEER else {}
                    with Worker(module, **environment) as worker:
                        found.append(worker("run", seed=FIRST_SEED + turn, **asked)["seconds"])
            ours_s, peer_s = (statistics.median(found) for found in seconds.values())
            made.append(rows.row(f"a first run, {name}, q = {batch}", ours_s, peer_s, "BoTorch", seconds=seconds))
    return made

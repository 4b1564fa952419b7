"""``scripts/bench commits --against PATH``: this checkout compared with another, such as a clone of the last commit.

Both run the same measurements in their own processes, alternating. The figures are medians and peaks of memory. Use the
result in the closing note of a change, not on a page.
"""

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import report
from benchmarks.speed.worker import Worker

HERE = Path(__file__).parents[2]
GIBO, GP_UCB, USERS = (f"benchmarks.speed.ours_{name}" for name in ("gibo", "gp_ucb", "users"))
MANY = {"users": 1_000_000, "steps": 25, "repeats": 3}
Measure = Callable[[Worker, int], dict[str, float]]


def _gibo(noise: str, policy: str = "map") -> Measure:
    def measure(worker: Worker, turn: int) -> dict[str, float]:
        taken = worker("sweep", first=turn, seeds=4, noise=noise, policy=policy)["seconds"] / 4
        return {"seconds": taken, "peak MB": worker("peak_memory")}

    return measure


def _gp_ucb(name: str) -> Measure:
    def measure(worker: Worker, turn: int) -> dict[str, float]:
        return {"seconds": worker("run", function=name, seed=9100 + turn, evaluations=50)["seconds"]}

    return measure


def _users(memory: str, remembered: int = 0) -> Measure:
    def measure(worker: Worker, turn: int) -> dict[str, float]:
        del turn
        seen = worker("run", **MANY, memory=memory, remembered=remembered)
        return {"seconds": seen["warm"], "compile": seen["cold"] - seen["warm"], "peak GiB": seen["peak_gib"]}

    return measure


WARM: dict[str, tuple[str, dict[str, str], Measure]] = {  # the first turn compiles and does not count
    "dp_gibo, 4,500 users, a run, float": (GIBO, {"JAX_ENABLE_X64": "1"}, _gibo("float")),
    "dp_gibo, 4,500 users, a run, exact": (GIBO, {"JAX_ENABLE_X64": "1"}, _gibo("exact")),
    "gp_ucb, Branin, a run": (GP_UCB, {"JAX_ENABLE_X64": "1"}, _gp_ucb("Branin")),
    "gp_ucb, Hartmann-6, a run": (GP_UCB, {"JAX_ENABLE_X64": "1"}, _gp_ucb("Hartmann-6")),
}
FRESH: dict[str, tuple[str, dict[str, str], Measure]] = {  # a process for each turn
    f"dp_gibo, 1,000,000 users, memory {memory!r}": (USERS, {"JAX_ENABLE_X64": "0"}, _users(memory, remembered))
    for memory, remembered in (("all", 0), ("recent", 33), ("none", 0))
}


def main(quick: bool, against: Path) -> None:
    sides = {"here": HERE, "there": against.absolute()}
    turns = 2 if quick else 7
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, (module, environment, measure) in tqdm(WARM.items(), unit="measurement"):
        workers = {side: Worker(module, folder, **environment) for side, folder in sides.items()}
        for worker in workers.values():
            measure(worker, 1000)
        runs[name] = {side: [] for side in sides}
        for turn in range(turns):
            for side, worker in _alternate_sides(workers, turn):
                runs[name][side].append(measure(worker, turn))
        for worker in workers.values():
            worker.__exit__()
    for name, (module, environment, measure) in tqdm(FRESH.items(), unit="measurement"):
        runs[name] = {side: [] for side in sides}
        for turn in range(1 if quick else 3):
            for side, folder in _alternate_sides(sides, turn):
                with Worker(module, folder, **environment) as worker:
                    runs[name][side].append(measure(worker, turn))
    lines = [
        (name, what, *(f"{median[side]:.4g}" for side in sides), f"{median['here'] / median['there']:.3f}")
        for name, by_side in runs.items()
        for what in by_side["here"][0]
        for median in [{side: statistics.median(run[what] for run in by_side[side]) for side in sides}]
    ]
    report.print_table(("what", "of", "here", "there", "here / there"), lines)


def _alternate_sides(pair: dict[str, Any], turn: int) -> Iterator[tuple[str, Any]]:
    """Each side first in every second turn."""
    items = list(pair.items())
    yield from items[:: -1 if turn % 2 else 1]

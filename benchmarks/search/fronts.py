"""``scripts/bench fronts``: a front for publication compared with DPareto's, which may not be published, in minutes.

The task is logistic regression on Adult by DP-SGD. The unprotected search is that of
``scripts/reproduce avent table2``: 16 and 256 settings, with raw errors on the records that judge all ways. The script
judges a front by the error, on those records, of the model that the front shows as best within an epsilon for one
training.
"""

import os
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import searches, tasks
from benchmarks.search import cells, tunings
from jaxdpbo import accounting, tuning
from jaxdpbo.training import spaces

FIRST_SEED, SEEDS, EPSILONS = 9800, 10, (1.0, 2.0, 4.0, 8.0)
PROBLEM, TASK = "adult", "LogReg+SGD"
PRIVATE, UNPROTECTED = "may be published", "unprotected"
SEARCH = SimpleNamespace(seeds=16, proposals=256, reference=(10.0, 0.999))
WITHIN = (0.05, 0.1, 0.3, 1.0, 4.0)


def main(quick: bool) -> None:
    seeds, epsilons = (1, (2.0,)) if quick else (SEEDS, EPSILONS)
    ways = [(PRIVATE, epsilon) for epsilon in epsilons] + ([] if quick else [(UNPROTECTED, np.inf)])
    all_cells = [cells.Cell(PROBLEM, *way, FIRST_SEED + seed) for seed in range(seeds) for way in ways]
    runs = cells.run("fronts", all_cells, measure_front)
    results = [_row(way, [runs[cells.Cell(PROBLEM, *way, FIRST_SEED + seed)] for seed in range(seeds)]) for way in ways]
    report.print_table(
        ("front", "epsilon of all", "trainings", *(f"within {epsilon:g}" for epsilon in WITHIN)),
        [
            (row["way"], f"{row['epsilon of all']:.4g}", f"{row['trainings']:.0f}",
             *("" if least is None else f"{least:.4f}" for least in row["least error"]))
            for row in results
        ],
    )  # fmt: skip
    report.write_bench(
        "fronts",
        {"fronts": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + seeds],
        noise="exact",
        dtype="float32",
        printed={"unprotected": vars(SEARCH) | {"noise": "float"}},
        chosen={
            "delta": tunings.DELTA,
            "settings": tunings.settings_of(PROBLEM),
            "levels, of epsilon": list(tuning.front.LEVELS),
        },
        figures={"fronts": _picture(results)},
    )


def measure_front(cell: cells.Cell) -> dict[str, Any]:
    """Epsilons of a front's trainings, errors as released, as measured on the validation rows, and on the test rows."""
    return _unprotected_front(cell.seed) if cell.search == UNPROTECTED else _private_front(cell)


def _private_front(cell: cells.Cell) -> dict[str, Any]:
    training, rows, test = tunings.problem(cell.problem)
    rows, validation = tuning.fitting.split_rows(rows, None)
    key, settings = jax.random.key(cell.seed), tunings.settings_of(cell.problem)
    options = {"epsilon": cell.budget, "delta": tunings.DELTA, "validation": validation}
    result = tuning.private_front(training, rows, settings, **options, key=key, insecure_key=True)
    chosen = np.flatnonzero(result.front)
    return {
        "epsilon of all": max(guarantee.epsilon(delta=tunings.DELTA) for guarantee in result.guarantees),
        "trainings": len(result.errors),
        "epsilons": result.epsilons[chosen].tolist(),
        "released": result.errors[chosen].tolist(),
        "measured": [tunings.error_of(training, result.models[number], validation) for number in chosen],
        "test": [tunings.error_of(training, result.models[number], test) for number in chosen],
    }


def _unprotected_front(seed: int) -> dict[str, Any]:
    task = tasks.task(TASK, tunings.DELTA)
    seeds = spaces.random_settings(task.space, SEARCH.seeds, seed)
    run = searches.search(task, seeds, SEARCH.proposals, 1, SEARCH.reference, seed)
    settings, values = np.asarray(run.release.points), np.asarray(run.release.values)
    front = values[searches.front_of(values)]
    return {
        "epsilon of all": accounting.compose_epsilon(tasks.trainings_of(task, settings), tunings.DELTA),
        "trainings": len(values),
        "epsilons": front[:, 0].tolist(),
        "released": front[:, 1].tolist(),
        "measured": front[:, 1].tolist(),
        "test": front[:, 1].tolist(),
    }


def _row(way: tuple[str, float], runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; None where no seed's front has a point so low."""
    least = [[_least_error(run, epsilon) for run in runs] for epsilon in WITHIN]
    apart = np.concatenate([np.subtract(run["released"], run["measured"]) for run in runs])
    return {
        "way": way[0] + (f", epsilon = {way[1]:g}" if way[0] == PRIVATE else ""),
        "epsilon of all": float(np.median([run["epsilon of all"] for run in runs])),
        "trainings": float(np.mean([run["trainings"] for run in runs])),
        "least error": [float(np.mean(errors)) if None not in errors else None for errors in least],
        "released less measured": {"mean": float(apart.mean()), "deviation": float(np.sqrt(np.mean(apart**2)))},
        "seconds a run": float(np.median([run["seconds"] for run in runs])),
        "first": {name: runs[0][name] for name in ("epsilons", "released", "test")},
    }


def _least_error(run: dict[str, Any], epsilon: float) -> float | None:
    """On the test rows, of the training that the front shows as best within ``epsilon``."""
    inside = [number for number, cost in enumerate(run["epsilons"]) if cost <= epsilon * (1 + 1e-9)]
    return run["test"][min(inside, key=lambda number: run["released"][number])] if inside else None


def _picture(results: list[dict[str, Any]]) -> Any:
    figure, (axis,) = common.panels(1)
    for number, row in enumerate(results):
        epsilons, released, test = (np.array(row["first"][name]) for name in ("epsilons", "released", "test"))
        order, colour = np.argsort(epsilons), "0.5" if row["way"] == UNPROTECTED else f"C{number}"
        axis.step(epsilons[order], test[order], where="post", color=colour, label=row["way"])
        if row["way"] != UNPROTECTED:
            axis.plot(epsilons[order], released[order], "o", color=colour, markersize=4)
    axis.set(xscale="log", xlim=(1e-2, 10), ylim=(0.12, 0.26), xlabel="epsilon of one training", ylabel="error")
    axis.legend(title="lines: test error; dots: as released", frameon=False, fontsize=8)
    return figure

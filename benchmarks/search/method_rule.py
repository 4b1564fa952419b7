"""``scripts/bench method_rule``: the methods of ``minimize`` on development seeds, around the ends of its rules.

The seeds are not those of ``scripts/bench search``, which verifies the rule. A difference counts as it does there. A
run replaces the results of its problems alone, and each problem names its commit.
"""

import os
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np

from benchmarks import report
from benchmarks.search import cells, minimize, searches
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import DEVELOPMENT, PROBLEMS

FIRST_SEED, SEEDS = 8600, 6
IN_ORDER, ROUNDS = "in_order", (1, 2, 4)
SPACES = ("svm", "elastic_net", "ridership", "perceptron", "ranking", "boosting", "forest")
BOXES = {  # budgets on both sides of the rule's thresholds
    "svr_ridership_700": ("epsilon 0.12", "epsilon 0.25", "epsilon 0.5", "epsilon 1"),
    "gp_simulated": ("epsilon 0.06", "epsilon 0.12", "epsilon 0.25", "epsilon 0.5"),
    "gp_slices": ("epsilon 1", "epsilon 2"),
    "svr_diabetes": ("epsilon 1.5", "epsilon 3"),
    "gp_pixels": ("epsilon 0.5", "epsilon 1"),
    **dict.fromkeys(
        ("gp_houses", "gp_ridership", "gp_covertype", "svr_houses"), ("epsilon 0.38", "epsilon 0.69", "epsilon 1")
    ),
    "gp_cancer": ("epsilon 1", "epsilon 1.9"),
}
DESCENTS = ("start_then_local", "local")
ALL = PROBLEMS | DEVELOPMENT


def adaptive_name(rounds: int) -> str:
    """The name of a design and ``rounds`` of points near the last choice."""
    return f"choice, {rounds} near"


NEAR = {adaptive_name(rounds): rounds for rounds in ROUNDS}


def main(quick: bool, *, problems: list[str] | None = None, seeds: int | None = None) -> None:
    count = seeds or (2 if quick else SEEDS)
    compared = {name: ((minimize.FIRST, "mu inf"), (*NEAR, searches.RANDOM)) for name in SPACES}
    compared |= {name: (budgets, DESCENTS) for name, budgets in BOXES.items()}
    chosen = problems or (["elastic_net"] if quick else list(compared))
    all_cells = [
        cells.Cell(name, search, budget, FIRST_SEED + seed)
        for name in chosen
        for seed in range(count)
        for budget in compared[name][0]
        for search in (IN_ORDER, *compared[name][1])
    ]
    runs = cells.run("method_rule", all_cells, run_cell)
    measured = {
        name: _compare_searches(runs, name, budgets, (IN_ORDER, *others), range(FIRST_SEED, FIRST_SEED + count))
        for name, (budgets, others) in compared.items()
        if name in chosen
    }
    _show(measured)
    before = {} if quick else report.find_result("bench_method_rule") or {}
    results = before.get("problems", {}) | measured
    commits = before.get("commits", dict.fromkeys(results, before.get("commit"))) | dict.fromkeys(chosen, report.COMMIT)
    report.write_bench(
        "method_rule",
        {
            "problems": {name: results[name] for name in compared if name in results},
            "commits": {name: commits[name] for name in compared if name in results},
        },
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + count],
        noise="exact",
        dtype="float64",
        chosen={"delta of every epsilon": 1e-5, "rounds near the last choice": ROUNDS},
    )


def run_cell(cell: cells.Cell) -> dict[str, Any]:
    """One run."""
    problem, budget = ALL[cell.problem], Budget.parse(cell.budget)
    if cell.search in NEAR:
        data = problem.draw(cell.seed)
        run = searches.run_minimize(problem, data, "choice", budget.arguments, cell.seed, rounds=NEAR[cell.search])
        loss = problem.mean(run.release.point if problem.is_box else run.release.params, data)
    else:
        loss, _ = searches.loss_of(problem, cell.search, budget, cell.seed)
    return {"loss": loss}


def _compare_searches(
    runs: dict[cells.Cell, dict[str, Any]], name: str, budgets: Sequence[str], names: Sequence[str], seeds: range
) -> dict[str, Any]:
    """Mean losses by budget and search, and the difference of each from the first search."""
    losses = {
        budget: {
            search: np.array([runs[cells.Cell(name, search, budget, seed)]["loss"] for seed in seeds])
            for search in names
        }
        for budget in budgets
    }
    means = [float(np.mean(values)) for row in losses.values() for values in row.values()]
    scale = max(means) - min(means)
    return {
        budget: {
            search: {"mean": np.mean(values), "paired": minimize.compare_losses(values, row[names[0]], scale)}
            for search, values in row.items()
        }
        for budget, row in losses.items()
    }


def _show(results: dict[str, Any]) -> None:
    """A line for each problem, budget and search."""
    rows = [
        (ALL[name].title, budget, search, f"{result['mean']:.4f}", result["paired"]["verdict"])
        for name, row in results.items()
        for budget, by_search in row.items()
        for search, result in by_search.items()
    ]
    report.print_table(("problem", "budget", "search", "mean loss", f"beside {IN_ORDER}"), rows, flush=(0, 1, 2, 4))

"""``scripts/bench search``: the losses of ``minimize`` and of its rivals, private and not, in hours.

Every search has equally many evaluations of a problem, and the same seeds: differences are paired. The command replaces
only the results of its problems and budgets. It keeps committed runs on other seeds if the current code finds the same
losses on the first seeds, and each result names the commits of all its runs.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np
import scipy.stats

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import cells, searches
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import PROBLEMS

FIRST_SEED, SEEDS = 8100, 20
FIRST_SEEDS = {"svr_ridership_700": 8200, "gp_pixels": 8200}  # the rule was changed after the first seeds were seen
FIRST, *_ = BUDGETS = ("epsilon 1", "mu 1", "mu inf")
FEWER = 10  # seeds at the other budgets: all at 20 is more than a night
SAME = 1e-6  # relative: committed losses have seven digits
CHECKED = 2  # first seeds: if the current code finds the committed losses there, the committed losses of others stay
QUICK = ("logistic", "gp_diabetes", "elastic_net")
RIVALS = tuple(name for name in searches.NAMES if name != searches.DEFAULT)
WORSE = 0.01  # of the losses' range between default parameters and the best known: a smaller difference does not count


def main(
    quick: bool,
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    budgets: Sequence[str] | None = None,
    seeds: int | None = None,
) -> None:
    chosen = list(problems or (QUICK if quick else PROBLEMS))
    asked = tuple(Budget.parse(label).label for label in budgets or ((FIRST,) if quick else BUDGETS))
    most = seeds or (2 if quick else SEEDS)
    if unknown := set(chosen) - PROBLEMS.keys():
        raise SystemExit(f"problems are {', '.join(PROBLEMS)}, got {', '.join(sorted(unknown))}")
    methods = tuple(methods or searches.NAMES)
    before = {} if quick else (report.find_result("bench_search") or {}).get("problems", {})
    all_cells = dict.fromkeys(
        _cell(name, search, budget, seed)
        for budget in asked
        for seed in range(most)
        for name in chosen
        for search in _searches_of(name, methods)
        if seed < seeds_of(budget, most)
    )
    print(f"{len(chosen)} problems, {most} seeds, {', '.join(asked)}")

    def run_cells(missing: Iterable[cells.Cell]) -> dict[cells.Cell, dict[str, Any]]:
        return cells.run("cells", list(missing), searches.run_cell)

    runs = run_cells(cell for cell in all_cells if _number(cell) < CHECKED)
    old_runs = {cell: run for cell, run in _unchanged_runs(before, runs) if cell in all_cells}
    runs = old_runs | runs
    runs |= run_cells(cell for cell in all_cells if cell not in runs)
    measured = {name: _new_results(runs, name, methods, asked, most) for name in chosen}
    tables = {
        name: _row(name, before.get(name), measured.get(name)) for name in PROBLEMS if {name} & {*before, *chosen}
    }
    levels = list(
        dict.fromkeys(
            budget for budget in (*BUDGETS, *asked) if any(budget in row["losses"] for row in tables.values())
        )
    )
    _show(tables, levels)
    report.write_bench(
        "search",
        {"problems": tables, "totals": _totals(tables)},
        quick=quick,
        seeds={
            name: [row["first seed"], row["first seed"] + max(row["seeds"].values())] for name, row in tables.items()
        },
        noise="exact",
        dtype="float64",
        chosen={"searches": list(methods), "budgets": levels, "delta of every epsilon": 1e-5, "defaults": "all"},
        figures={"search": _picture(tables, levels[0])},
    )


def seeds_of(budget: str, most: int) -> int:
    """How many of the first seeds every problem is run on at a budget."""
    return most if budget == FIRST else min(most, FEWER)


def _searches_of(name: str, methods: Sequence[str]) -> list[str]:
    return [search for search in methods if search in searches.names(PROBLEMS[name])]


def _cell(name: str, search: str, budget: str, seed: int) -> cells.Cell:
    """Searches without noise do not depend on the budget, so they run once."""
    first = FIRST_SEEDS.get(name, FIRST_SEED)
    return cells.Cell(name, search, "mu inf" if search in searches.FREE else budget, first + seed)


def _unchanged_runs(
    before: dict[str, Any], new_runs: dict[cells.Cell, Any]
) -> Iterator[tuple[cells.Cell, dict[str, Any]]]:
    """Yield committed runs on other seeds, if the first seeds have the same losses in ``new_runs``.

    The check is by problem and budget; the searches without noise, which have no budget, are one group.
    """
    for name, row in before.items():
        if row["first seed"] != FIRST_SEEDS.get(name, FIRST_SEED):
            continue
        groups: dict[tuple[bool, str], dict[cells.Cell, dict[str, Any]]] = {}
        for budget, by_search in reversed(row["losses"].items()):  # the first budget has most seeds
            for search, losses in by_search.items():
                for seed, loss in enumerate(losses):
                    cell = _cell(name, search, budget, seed)
                    group = groups.setdefault((search in searches.FREE, cell.budget), {})
                    group[cell] = _committed_run(row, budget, search, loss)
        for (free, budget), runs in groups.items():
            first = [cell for cell in runs if _number(cell) < CHECKED]
            if any(cell not in new_runs for cell in first):
                continue
            if all(np.isclose(new_runs[cell]["loss"], runs[cell]["loss"], rtol=SAME, atol=0) for cell in first):
                yield from ((cell, run) for cell, run in runs.items() if cell not in new_runs)
            else:
                print(f"{name}, {'without noise' if free else budget}: new losses, so all seeds are measured")


def _committed_run(row: dict[str, Any], budget: str, search: str, loss: float) -> dict[str, Any]:
    """A committed run as ``searches.run_cell`` reports runs, with its commits."""
    seconds, method = row["seconds a run"][search], row["method"][budget] if search == searches.DEFAULT else ""
    return {"loss": loss, "method": method, "seconds": seconds, "commits": row["commits"][budget]}


def _number(cell: cells.Cell) -> int:
    """The place of a cell's seed among the seeds of its problem."""
    return cell.seed - FIRST_SEEDS.get(cell.problem, FIRST_SEED)


def _new_results(
    run_by_cell: Any, name: str, methods: Sequence[str], budgets: Sequence[str], most: int
) -> dict[str, Any]:
    """Losses, method and commits by budget, and seconds."""
    seconds = {}
    for search in _searches_of(name, methods):
        own_runs = [run for cell, run in run_by_cell.items() if cell[:2] == (name, search)]
        new = [run["seconds"] for run in own_runs if "commits" not in run]
        seconds[search] = float(np.median(new or [run["seconds"] for run in own_runs]))
    runs = {
        budget: {
            search: [run_by_cell[_cell(name, search, budget, seed)] for seed in range(seeds_of(budget, most))]
            for search in _searches_of(name, methods)
        }
        for budget in budgets
    }
    commits = {
        budget: dict.fromkeys(
            commit for group in by_search.values() for run in group for commit in run.get("commits", [report.COMMIT])
        )
        for budget, by_search in runs.items()
    }
    return {
        "first seed": FIRST_SEEDS.get(name, FIRST_SEED),
        "commits": {
            budget: sorted(hashes, key=lambda commit: commit == report.COMMIT) for budget, hashes in commits.items()
        },
        "method": {
            cell.budget: run["method"] for cell, run in run_by_cell.items() if cell[:2] == (name, searches.DEFAULT)
        },
        "losses": {
            budget: {search: [run["loss"] for run in group] for search, group in by_search.items()}
            for budget, by_search in runs.items()
        },
        "seconds a run": seconds,
    }


def _row(name: str, before: dict[str, Any] | None, measured: dict[str, Any] | None) -> dict[str, Any]:
    """Merge new results of a problem with its committed results at other budgets, unless the seeds have changed."""
    stays = before is not None and (measured is None or before["first seed"] == measured["first seed"])
    parts = [part for part in (before if stays else None, measured) if part is not None]
    by_budget = {field: dict(_merge(part[field] for part in parts)) for field in ("commits", "method", "losses")}
    losses = {
        budget: {search: np.array(values) for search, values in by_search.items()}
        for budget, by_search in by_budget["losses"].items()
    }
    means = {
        budget: {search: np.mean(values) for search, values in by_search.items()}
        for budget, by_search in losses.items()
    }
    best = min(mean for by_search in means.values() for mean in by_search.values())
    scale = max(0.0, max(by_search.get(searches.UNTUNED, best) for by_search in means.values()) - best)
    problem = PROBLEMS[name]
    return by_budget | {
        "title": problem.title,
        "users": problem.users,
        "dimensions": problem.dimension,
        "evaluations": problem.evaluations,
        "first seed": parts[-1]["first seed"],
        "default less best known": scale,
        "seeds": {budget: len(by_search[searches.DEFAULT]) for budget, by_search in losses.items()},
        "mean": means,
        "seconds a run": _merge(part["seconds a run"] for part in parts),
        "paired": {
            budget: {
                f"{own} - {rival}": compare_losses(by_search[own], by_search[rival], scale)
                for own in (searches.DEFAULT, searches.PUBLIC)
                for rival in RIVALS
                if own != rival and own in by_search and rival in by_search
            }
            for budget, by_search in losses.items()
        },
    }


def _merge(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Later entries replace earlier ones."""
    return {name: value for part in parts for name, value in part.items()}


def compare_losses(first: np.ndarray, second: np.ndarray, scale: float) -> dict[str, Any]:
    """The paired difference, with its 95 % t interval.

    "Worse", or "better": the interval excludes 0, and the mean exceeds ``WORSE`` of the scale.
    """
    apart = first - second
    middle, count = float(np.mean(apart)), len(apart)
    reach = 0.0 if count < 2 else float(scipy.stats.t.ppf(0.975, count - 1) * np.std(apart, ddof=1) / count**0.5)
    clear = abs(middle) > max(reach, WORSE * scale)
    verdict = "no different" if not clear else "better" if middle < 0 else "worse"
    return {"mean difference": middle, "95%": [middle - reach, middle + reach], "of": count, "verdict": verdict}


def _totals(tables: dict[str, Any]) -> dict[str, Any]:
    """How many problems each comparison wins and loses, by budget."""
    totals: dict[str, Any] = {}
    for row in tables.values():
        for budget, pairs in row["paired"].items():
            for pair, result in pairs.items():
                counts = totals.setdefault(budget, {}).setdefault(pair, {"better": 0, "worse": 0, "no different": 0})
                counts[result["verdict"]] += 1
    return totals


def _show(tables: dict[str, Any], budgets: Sequence[str]) -> None:
    for budget in budgets:
        rows = []
        for row in tables.values():
            means = ", ".join(f"{search} {mean:.4f}" for search, mean in row["mean"].get(budget, {}).items())
            rows.append((row["title"], row["method"].get(budget, "").partition(":")[0], means))
        print(f"\nmean loss of the answer at {budget}")
        report.print_table(("problem", "method", "means"), rows, flush=(0, 1, 2))
        for pair, counts in _totals(tables)[budget].items():
            print(f"{pair}: " + ", ".join(f"{verdict} {count}" for verdict, count in counts.items()))


def _picture(tables: dict[str, Any], budget: str) -> Any:
    """Box plots of the mean losses of each search, a panel for each problem."""
    columns = 3
    figure, axes = common.panels(-(-len(tables) // columns), columns, squeeze=False)
    for axis, row in zip(axes.ravel(), tables.values(), strict=False):
        losses = row["losses"].get(budget, {})
        names = [name for name in losses if name not in (searches.UNTUNED, searches.PICK)]
        axis.boxplot([losses[name] for name in names], orientation="horizontal", tick_labels=names)
        axis.set(title=row["title"], xlabel="mean loss")
    for axis in axes.ravel()[len(tables) :]:
        axis.set_visible(False)
    figure.tight_layout()
    return figure

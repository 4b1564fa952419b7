"""``scripts/bench search``: the losses of the default search, random search without privacy and others, in hours.

Every search has equally many evaluations of a problem, and the same seeds: differences are paired.
"""

import math
import os
import time
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import cells, searches
from benchmarks.search.problems import PROBLEMS
from jaxdpbo import Space
from jaxdpbo.privacy._accounting import gdp

FIRST_SEED, SEEDS = 8000, 20
BUDGETS = (0.5, 1.0, 2.0, math.inf)
LEVEL = 1.0  # at which the table compares
FEWER = 10  # seeds at the other budgets, and of the slow: all at 20 is more than a night
FULL_SIZE = "svr_ridership"  # at ``LEVEL`` alone
SLOW = (FULL_SIZE, "svr_ridership_700")
EPSILON_ONE = gdp.gdp_mu(1.0, 1e-5)  # the mu of epsilon = 1 at delta = 1e-5: for the models that people tune
QUICK = ("logistic", "gp_diabetes", "boosting")
PAIRS = {
    "minimize - random search": (searches.DEFAULT, searches.RANDOM),
    "minimize - before": (searches.DEFAULT, searches.BEFORE),
    "minimize - default parameters": (searches.DEFAULT, searches.UNTUNED),
}


def main(
    quick: bool,
    *,
    problems: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    budgets: Sequence[float] | None = None,
    seeds: int | None = None,
) -> None:
    started = time.perf_counter()
    chosen = list(problems or (QUICK if quick else PROBLEMS))
    asked = tuple(budgets or ((LEVEL,) if quick else BUDGETS))
    most = seeds or (2 if quick else SEEDS)
    if unknown := set(chosen) - PROBLEMS.keys():
        raise SystemExit(f"problems are {', '.join(PROBLEMS)}, got {', '.join(sorted(unknown))}")
    methods = tuple(methods or (searches.RANDOM, searches.DEFAULT, searches.BEFORE, searches.UNTUNED))
    folder = report.folder("search")
    levels = {name: budgets_of(name, asked, every=not (quick or budgets)) for name in chosen}
    wanted = [
        _cell(name, search, mu, seed)
        for seed in range(most)
        for name in chosen
        for mu in levels[name]
        for search in _compared_on(name, methods)
        if seed < seeds_of(name, mu, most)
    ]
    wanted = list(dict.fromkeys(wanted))
    print(f"{len(chosen)} problems, seeds {FIRST_SEED} to {FIRST_SEED + most - 1}, mu {', '.join(map(str, asked))}")
    found = cells.run(folder / "cells.jsonl", wanted, folder / "programs", searches.timed)
    losses = {name: _losses(found, name, methods, levels[name], most) for name in chosen}
    tables = {name: _row(found, name, losses[name], levels[name]) for name in chosen}
    _show(tables)
    report.write_bench(
        "search",
        common.plain({"problems": tables, "totals": _totals(tables)}),
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + most],
        noise="float",
        dtype="float64",
        chosen={
            "methods": list(methods),
            "mu": [f"{mu:g}" for mu in asked],
            "mu of epsilon = 1 at delta = 1e-5": f"{EPSILON_ONE:g}",
            "defaults": "nothing tuned",
        },
        started=started,
        figures={"search": _picture(tables)},
    )


def budgets_of(name: str, asked: tuple[float, ...], *, every: bool) -> tuple[float, ...]:
    """Of a problem: models with a ``Space`` are searched at an epsilon of 1 too."""
    if every and name == FULL_SIZE:
        return (LEVEL,)
    return tuple(sorted({*asked, EPSILON_ONE})) if every and isinstance(PROBLEMS[name].searched, Space) else asked


def seeds_of(name: str, mu: float, most: int) -> int:
    """How many of the first seeds a problem is run on at a budget."""
    return most if mu in (LEVEL, EPSILON_ONE) and name not in SLOW else min(most, FEWER)


def _compared_on(name: str, methods: Sequence[str]) -> list[str]:
    """At the full size of figure 3 the search as it was takes 40 minutes a run: figure 3 itself compares with it."""
    left_out = {searches.BEFORE} if name == FULL_SIZE else set()
    return [search for search in methods if search in searches.names(PROBLEMS[name]) and search not in left_out]


def _cell(name: str, search: str, mu: float, seed: int) -> cells.Cell:
    """What has no noise is the same for every mu."""
    return cells.Cell(name, search, math.inf if search in searches.FREE else mu, FIRST_SEED + seed)


def _losses(
    found: dict[cells.Cell, Any], name: str, methods: Sequence[str], budgets: Sequence[float], most: int
) -> dict[str, list[np.ndarray]]:
    """Of each search, at each budget, of each seed."""
    return {
        search: [
            np.array([found[_cell(name, search, mu, seed)]["loss"] for seed in range(seeds_of(name, mu, most))])
            for mu in budgets
        ]
        for search in _compared_on(name, methods)
    }


def _row(found: Any, name: str, losses: dict[str, list[np.ndarray]], budgets: Sequence[float]) -> dict[str, Any]:
    problem = PROBLEMS[name]
    ran = {
        f"{mu:g}": said["method"]
        for mu in budgets
        for cell, said in found.items()
        if cell[:3] == (name, searches.DEFAULT, mu)
    }
    pairs = {
        said: {f"{mu:g}": _compared(losses[a][i], losses[b][i]) for i, mu in enumerate(budgets)}
        for said, (a, b) in PAIRS.items()
        if a in losses and b in losses
    }
    return {
        "title": problem.title,
        "users": problem.users,
        "dimensions": problem.dimension,
        "evaluations": problem.evaluations,
        "method": ran,
        "budgets": [f"{mu:g}" for mu in budgets],
        "seeds": [len(values) for values in losses[searches.RANDOM]],
        "losses": losses,
        "mean": {search: [np.mean(values) for values in each] for search, each in losses.items()},
        "seconds a run": {
            search: float(np.median([said["seconds"] for cell, said in found.items() if cell[:2] == (name, search)]))
            for search in losses
        },
        "paired": pairs,
    }


def _compared(first: np.ndarray, second: np.ndarray) -> dict[str, Any]:
    said = common.compared(first, second)
    low, high = said["95%"]
    return said | {"verdict": "better" if high < 0 else "worse" if low > 0 else "no different"}


def _totals(tables: dict[str, Any]) -> dict[str, Any]:
    """How many problems each comparison wins and loses, by mu."""
    totals: dict[str, Any] = {}
    for row in tables.values():
        for pair, by_mu in row["paired"].items():
            for mu, said in by_mu.items():
                counts = totals.setdefault(pair, {}).setdefault(mu, {"better": 0, "worse": 0, "no different": 0})
                counts[said["verdict"]] += 1
    return totals


def _show(tables: dict[str, Any]) -> None:
    for mu in dict.fromkeys(mu for row in tables.values() for mu in row["budgets"]):
        rows = []
        for row in (row for row in tables.values() if mu in row["budgets"]):
            i = row["budgets"].index(mu)
            means = ", ".join(f"{search} {values[i]:.4f}" for search, values in row["mean"].items())
            said = [common.sentence(row["paired"][pair][mu]) if pair in row["paired"] else "" for pair in PAIRS]
            rows.append((row["title"], row["method"].get(mu, "").partition(":")[0], means, *said))
        width = max(map(len, rows))
        header = ("problem", "method", "means", *PAIRS)[:width]
        print(f"\nmean loss of the answer at mu = {mu}; paired differences with 95 % bootstrap intervals")
        report.print_table(header, [row + ("",) * (width - len(row)) for row in rows], flush=(0, 1, 2))
    for pair, by_mu in _totals(tables).items():
        print(f"\n{pair}: " + "; ".join(f"mu = {mu}: {counts}" for mu, counts in by_mu.items()))


def _picture(tables: dict[str, Any]) -> Any:
    columns = 3
    figure, axes = common.panels(-(-len(tables) // columns), columns, squeeze=False)
    for axis, row in zip(axes.ravel(), tables.values(), strict=False):
        for colour, (search, values) in zip(("C1", "C0", "C7", "C2"), row["losses"].items(), strict=False):
            axis.plot(row["mean"][search], color=colour, label=search)
            ends = [list(map(end, values)) for end in (np.min, np.max)]
            axis.fill_between(range(len(values)), *ends, color=colour, alpha=0.13, linewidth=0)
        axis.set(title=row["title"], xlabel="mu", xticks=range(len(row["budgets"])), xticklabels=row["budgets"])
    for axis in axes.ravel()[len(tables) :]:
        axis.set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure

"""``scripts/bench private_tuning``: test errors of models tuned AND trained under one epsilon, in hours."""

import os
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np
from scipy import stats

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import cells, tunings

FIRST_SEED, SEEDS, FEWER = 9500, 20, 10
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
FIRST = "adult", (1.0, 2.0, 4.0)  # with all seeds: all else would be more than a night
REFUSED = {("mnist", 8.0)}  # 25,450 parameters: what their exact noise is from ideal noise, times e^8, is above delta


def main(
    quick: bool, *, seeds: int | None = None, problems: Any = None, methods: Any = None, budgets: Any = None
) -> None:
    most = seeds or (1 if quick else SEEDS)
    names = tuple(problems or (tunings.PROBLEMS[:1] if quick else tunings.PROBLEMS))
    asked, epsilons = tuple(methods or tunings.METHODS), tuple(map(float, budgets or ((2.0,) if quick else EPSILONS)))
    all_cells = [
        cells.Cell(name, method, epsilon, FIRST_SEED + seed)
        for seed in range(most)
        for name in names
        for epsilon in budgets_of(name, epsilons)
        for method in asked
        if seed < seeds_of(name, epsilon, most)
    ]
    runs = cells.run("private_tuning", all_cells, tunings.errors)
    results = {name: _row(runs, name, asked, budgets_of(name, epsilons), most) for name in names}
    _show(results)
    report.write_bench(
        "private_tuning",
        {"problems": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + most],
        noise="exact",
        dtype="float32",
        chosen={
            "epsilons": [f"{epsilon:g}" for epsilon in epsilons],
            "delta": tunings.DELTA,
            "settings": {name: tunings.settings_of(name) for name in names},
            "default": tunings.USUAL,
        },
        figures={"private_tuning": _picture(results)},
    )


def budgets_of(name: str, epsilons: tuple[float, ...]) -> tuple[float, ...]:
    """Those that ``tune_and_train`` takes."""
    return tuple(epsilon for epsilon in epsilons if (name, epsilon) not in REFUSED)


def seeds_of(name: str, epsilon: float, most: int) -> int:
    """How many of the first seeds a problem is run on at a budget."""
    return most if name == FIRST[0] and epsilon in FIRST[1] else min(most, FEWER)


def _row(runs: Any, name: str, methods: tuple[str, ...], epsilons: tuple[float, ...], most: int) -> dict[str, Any]:
    errors = {
        method: [
            np.array([
                runs[cells.Cell(name, method, epsilon, FIRST_SEED + seed)]["error"]
                for seed in range(seeds_of(name, epsilon, most))
            ])
            for epsilon in epsilons
        ]
        for method in methods
    }  # fmt: skip
    return {
        "epsilons": [f"{epsilon:g}" for epsilon in epsilons],
        "seeds": [seeds_of(name, epsilon, most) for epsilon in epsilons],
        "errors": errors,
        "mean": {method: [np.mean(values) for values in by_epsilon] for method, by_epsilon in errors.items()},
        "seconds a run": {
            method: float(np.median([run["seconds"] for cell, run in runs.items() if cell[:2] == (name, method)]))
            for method in methods
        },
        "paired": {
            method: [
                common.paired_difference(*pair) for pair in zip(errors[method], errors[tunings.DEFAULT], strict=True)
            ]
            for method in methods
            if method != tunings.DEFAULT and tunings.DEFAULT in methods
        },
    }


def _show(results: dict[str, Any]) -> None:
    for name, result in results.items():
        print(f"\n{name}: mean test error; difference from the default setting with 95 % intervals (Student's t)\n")
        rows = []
        for method, means in result["mean"].items():
            paired = [common.sentence(pair) for pair in result["paired"].get(method, [])] or [""] * len(means)
            texts = [f"{mean:.4f} {words}" for mean, words in zip(means, paired, strict=True)]
            rows.append((method, *texts, f"{result['seconds a run'][method]:.0f} s"))
        heads = [
            f"epsilon = {epsilon}, {count} seeds"
            for epsilon, count in zip(result["epsilons"], result["seeds"], strict=True)
        ]
        report.print_table(("method", *heads, "a run"), rows)


def _picture(results: dict[str, Any]) -> Any:
    columns = min(2, len(results))
    figure, axes = common.panels(-(-len(results) // columns), columns, squeeze=False, layout="constrained")
    for axis, (name, result) in zip(axes.ravel(), results.items(), strict=False):
        at = [float(epsilon) for epsilon in result["epsilons"]]
        for number, (method, means) in enumerate(result["mean"].items()):
            axis.plot(at, means, color=f"C{number}", label=method, marker=".")
            spread = [
                stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else 0.0
                for values in result["errors"][method]
            ]
            low, high = np.subtract(means, spread), np.add(means, spread)
            axis.fill_between(at, low, high, color=f"C{number}", alpha=0.13, linewidth=0)
        axis.set(title=name, xlabel="epsilon", ylabel="test error", xscale="log")
        axis.set_xticks(at, labels=result["epsilons"])
        axis.minorticks_off()
    for axis in axes.ravel()[len(results) :]:
        axis.set_visible(False)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside right upper")
    return figure

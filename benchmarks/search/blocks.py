"""``scripts/bench blocks``: the best number of blocks for a search, and carrying settings from blocks to all rows.

Regret is a difference of losses on held-out rows, of the learner fitted to all rows: with the chosen setting, minus
with the best setting. Regret is an expectation over the private choice, which has no other randomness.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import block_losses, cells
from benchmarks.search.block_losses import COUNTS, LEARNERS, LEVELS, ROWS, Learner, counts
from jaxdpbo.integrations.sklearn import scaling

FIRST_SEED, SEEDS = 9800, 10
EXPONENTS = tuple(
    np.arange(-1.0, 1.01, 0.25).tolist()
)  # of rows of all over rows of a block, by which a value is multiplied
QUICK = ("adult, 3,000 rows",)
USUAL = 100  # blocks, that others are compared with


def main(quick: bool, *, seeds: int | None = None) -> None:
    names, learners = (QUICK, ("ridge regression", "decision tree")) if quick else (tuple(ROWS), tuple(LEARNERS))
    most = seeds or (2 if quick else SEEDS)
    all_cells = [
        cells.Cell(name, learner, np.inf, FIRST_SEED + seed)
        for seed in range(most)
        for learner in learners
        for name in names
    ]
    runs = cells.run("blocks", all_cells, block_losses.measure_learner)
    of_cells = {cell: regret(LEARNERS[cell.search], runs[cell]) for cell in all_cells}
    regrets = {
        (name, learner): np.array(
            [split_regret for cell, split_regret in of_cells.items() if cell[:2] == (name, learner)]
        )
        for name in names
        for learner in learners
    }
    results = {
        "exponents": {
            learner: {
                "parameter": LEARNERS[learner].parameter,
                "carried by": shipped_exponent(LEARNERS[learner]),
                "best": best_exponent([regret_by_exponent(regrets[name, learner]) for name in names]),
                "data": {name: regret_by_exponent(regrets[name, learner]) for name in names},
            }
            for learner in learners
        },
        "counts": {
            name: regret_by_count(counts(name), {learner: regrets[name, learner] for learner in learners})
            for name in names
        },
        "seconds a run": {
            learner: float(np.median([runs[cell]["seconds"] for cell in all_cells if cell.search == learner]))
            for learner in learners
        },
    }
    _show(results)
    report.write_bench(
        "blocks",
        results,
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + most],
        noise="none",
        dtype="float64",
        chosen={
            "blocks": list(COUNTS),
            "mu": [f"{mu:g}" for mu in LEVELS],
            "exponents": list(EXPONENTS),
            "rows, and held out": {name: list(ROWS[name]) for name in names},
        },
        figures={"blocks": _picture(results)},
    )


def regret(learner: Learner, run: dict[str, Any]) -> np.ndarray:
    """Of one split: ``(counts, levels, exponents + 1)``; the last is of a setting drawn at random, not carried."""
    values, losses = np.log(np.asarray(run["values"], float)), np.asarray(run["losses"])
    regrets = np.empty((len(run["blocks"]), len(LEVELS), len(EXPONENTS) + 1))
    for i, k in enumerate(run["blocks"]):
        entry = run["blocks"][k]
        ratio = np.log(run["rows"] / entry["rows"])
        carried = np.log(learner.searched)[:, None] + ratio * np.array([*EXPONENTS, 0.0])
        after = np.interp(carried, values, losses)  # beyond the ends: the end's
        regrets[i] = np.asarray(entry["law"]) @ after - losses.min()
        regrets[i, :, -1] = after[:, -1].mean() - losses.min()
    return regrets


def regret_by_exponent(regrets: np.ndarray) -> dict[str, Any]:
    """Mean regret over all counts without noise, which would tell where the searched range lies; what 0 changes."""
    mean_regrets = regrets[:, :, LEVELS.index(np.inf), :-1].mean(axis=1)  # (seeds, exponents)
    unchanged = mean_regrets[:, EXPONENTS.index(0.0)]
    return {
        "random": regrets[..., -1].mean(),
        "regret": mean_regrets.mean(axis=0),
        "paired": [_paired_difference(value, unchanged) for value in mean_regrets.T],
    }


def best_exponent(of_data: Sequence[dict[str, Any]]) -> float:
    """The exponent of least mean share of a random setting's regret, of those that are better than 0 on all data."""
    better = [
        all(row["paired"][i] and row["paired"][i]["95%"][1] < 0 for row in of_data) for i in range(len(EXPONENTS))
    ]
    means = np.mean([row["regret"] / row["random"] for row in of_data], axis=0)
    return EXPONENTS[int(np.argmin(np.where(better, means, np.inf)))] if any(better) else 0.0


def regret_by_count(tried: list[int], regrets: dict[str, np.ndarray]) -> dict[str, Any]:
    """Mean over learners of regret, each as a share of a random setting's, carried as ``PrivateSearchCV`` does."""
    shares = [
        values[..., EXPONENTS.index(shipped_exponent(LEARNERS[name]))] / values[..., -1].mean()
        for name, values in regrets.items()
    ]
    mean = np.mean(shares, axis=0)  # (seeds, counts, levels)
    return {
        f"{mu:g}": {
            "regret": mean[..., j].mean(axis=0),
            "paired": [_paired_difference(value, mean[:, tried.index(USUAL), j]) for value in mean[..., j].T],
        }
        for j, mu in enumerate(LEVELS)
    }


def _paired_difference(first: np.ndarray, second: np.ndarray) -> dict[str, Any] | None:
    return None if np.array_equal(first, second) else common.paired_difference(first, second)


def shipped_exponent(learner: Learner) -> float:
    """The exponent that ``PrivateSearchCV`` carries its parameter by."""
    return scaling.find_exponent(learner.estimator, learner.parameter, {})


def _show(results: dict[str, Any]) -> None:
    print(
        "\nmean regret without noise by exponent, and its difference from that of 0 with 95 % intervals (Student's t)\n"
    )
    rows = [
        (learner, name, f"{row['random']:.4f}", *_cells(row, 4))
        for learner, result in results["exponents"].items()
        for name, row in result["data"].items()
    ]
    report.print_table(("learner", "data", "random", *(f"{exponent:g}" for exponent in EXPONENTS)), rows, flush=(0, 1))
    for name, by_mu in results["counts"].items():
        print(f"\n{name}: mean over learners of regret, 1 a random setting's, by mu and number of blocks\n")
        report.print_table(("mu", *map(str, counts(name))), [(mu, *_cells(row, 3)) for mu, row in by_mu.items()])


def _cells(row: dict[str, Any], digits: int) -> list[str]:
    return [
        f"{regret:.{digits}f}" + (f" ({pair['95%'][0]:+.{digits}f} to {pair['95%'][1]:+.{digits}f})" if pair else "")
        for regret, pair in zip(row["regret"], row["paired"], strict=True)
    ]


def _picture(results: dict[str, Any]) -> Any:
    figure, axes = common.panels(2, len(results["counts"]), squeeze=False)
    for (upper, lower), name in zip(axes.T, results["counts"], strict=True):
        for mu, row in results["counts"][name].items():
            upper.plot(counts(name), row["regret"], "o-", label=f"mu = {mu}")
        upper.set(title=name, xlabel="blocks", ylabel="regret, 1 a random setting's", xscale="log", xticks=COUNTS)
        upper.set_xticklabels(COUNTS)
        for learner, result in results["exponents"].items():
            row = result["data"][name]
            lower.plot(EXPONENTS, row["regret"] / row["random"], "o-", label=f"{learner}: {result['parameter']}")
        lower.set(xlabel="exponent", ylabel="regret without noise", yscale="log", ylim=(1e-3, None))
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)
    return figure

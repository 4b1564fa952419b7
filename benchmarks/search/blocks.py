"""``scripts/bench blocks``: the best number of blocks for a search, and carrying settings from blocks to all rows.

Regret is a difference of losses on held-out rows, of the learner fitted to all rows: with the chosen setting, minus
with the best setting. Regret is an expectation over the private choice, which has no other randomness.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import block_losses, cells
from benchmarks.search.block_losses import COUNTS, LEARNERS, LEVELS, ROWS, Learner, counts
from jaxdpbo.integrations.sklearn import _scaling

FIRST_SEED, SEEDS = 9800, 10
EXPONENTS = tuple(
    np.arange(-1.0, 1.01, 0.25).tolist()
)  # of rows of all over rows of a block, by which a value is multiplied
QUICK = ("adult, 3,000 rows",)
USUAL = 100  # blocks, that others are compared with


def main(quick: bool, *, seeds: int | None = None) -> None:
    started = time.perf_counter()
    names, learners = (QUICK, ("ridge regression", "decision tree")) if quick else (tuple(ROWS), tuple(LEARNERS))
    most = seeds or (2 if quick else SEEDS)
    folder = report.folder("search")
    wanted = [
        cells.Cell(name, learner, np.inf, FIRST_SEED + seed)
        for seed in range(most)
        for learner in learners
        for name in names
    ]
    found = cells.run(folder / "blocks.jsonl", wanted, folder / "programs", block_losses.measured)
    of_cells = {cell: regret(LEARNERS[cell.search], found[cell]) for cell in wanted}
    regrets = {
        (name, learner): np.array([of for cell, of in of_cells.items() if cell[:2] == (name, learner)])
        for name in names
        for learner in learners
    }
    results = {
        "exponents": {
            learner: {
                "parameter": LEARNERS[learner].parameter,
                "carried by": shipped(LEARNERS[learner]),
                "best": best([by_exponent(regrets[name, learner]) for name in names]),
                "data": {name: by_exponent(regrets[name, learner]) for name in names},
            }
            for learner in learners
        },
        "counts": {
            name: by_count(counts(name), {learner: regrets[name, learner] for learner in learners}) for name in names
        },
        "seconds a run": {
            learner: float(np.median([found[cell]["seconds"] for cell in wanted if cell.search == learner]))
            for learner in learners
        },
    }
    _show(results)
    report.write_bench(
        "blocks",
        common.plain(results),
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
        started=started,
        figures={"blocks": _picture(results)},
    )


def regret(learner: Learner, said: dict[str, Any]) -> np.ndarray:
    """Of one split: ``(counts, levels, exponents + 1)``; the last is of a setting drawn at random, not carried."""
    values, losses = np.log(np.asarray(said["values"], float)), np.asarray(said["losses"])
    found = np.empty((len(said["blocks"]), len(LEVELS), len(EXPONENTS) + 1))
    for i, k in enumerate(said["blocks"]):
        of = said["blocks"][k]
        ratio = np.log(said["rows"] / of["rows"])
        carried = np.log(learner.searched)[:, None] + ratio * np.array([*EXPONENTS, 0.0])
        after = np.interp(carried, values, losses)  # beyond the ends: the end's
        found[i] = np.asarray(of["law"]) @ after - losses.min()
        found[i, :, -1] = after[:, -1].mean() - losses.min()
    return found


def by_exponent(of: np.ndarray) -> dict[str, Any]:
    """Mean regret over all counts without noise, which would tell where the searched range lies; what 0 changes."""
    each = of[:, :, LEVELS.index(np.inf), :-1].mean(axis=1)  # (seeds, exponents)
    unchanged = each[:, EXPONENTS.index(0.0)]
    return {
        "random": of[..., -1].mean(),
        "regret": each.mean(axis=0),
        "paired": [_compared(value, unchanged) for value in each.T],
    }


def best(of_data: Sequence[dict[str, Any]]) -> float:
    """The exponent of least mean share of a random setting's regret, of those that are better than 0 on all data."""
    better = [all(of["paired"][i] and of["paired"][i]["95%"][1] < 0 for of in of_data) for i in range(len(EXPONENTS))]
    means = np.mean([of["regret"] / of["random"] for of in of_data], axis=0)
    return EXPONENTS[int(np.argmin(np.where(better, means, np.inf)))] if any(better) else 0.0


def by_count(tried: list[int], one: dict[str, np.ndarray]) -> dict[str, Any]:
    """Mean over learners of regret, each as a share of a random setting's, carried as ``PrivateSearchCV`` does."""
    shares = [of[..., EXPONENTS.index(shipped(LEARNERS[name]))] / of[..., -1].mean() for name, of in one.items()]
    mean = np.mean(shares, axis=0)  # (seeds, counts, levels)
    return {
        f"{mu:g}": {
            "regret": mean[..., j].mean(axis=0),
            "paired": [_compared(value, mean[:, tried.index(USUAL), j]) for value in mean[..., j].T],
        }
        for j, mu in enumerate(LEVELS)
    }


def _compared(first: np.ndarray, second: np.ndarray) -> dict[str, Any] | None:
    return None if np.array_equal(first, second) else common.compared(first, second)


def shipped(learner: Learner) -> float:
    """The exponent that ``PrivateSearchCV`` carries its parameter by."""
    return _scaling.find_exponent(learner.estimator, learner.parameter)


def _show(results: dict[str, Any]) -> None:
    print(
        "\nmean regret without noise by exponent, and its difference from that of 0 with 95 % intervals (Student's t)\n"
    )
    rows = [
        (learner, name, f"{of['random']:.4f}", *_cells(of, 4))
        for learner, one in results["exponents"].items()
        for name, of in one["data"].items()
    ]
    report.print_table(("learner", "data", "random", *(f"{exponent:g}" for exponent in EXPONENTS)), rows, flush=(0, 1))
    for name, one in results["counts"].items():
        print(f"\n{name}: mean over learners of regret, 1 a random setting's, by mu and number of blocks\n")
        report.print_table(("mu", *map(str, counts(name))), [(mu, *_cells(of, 3)) for mu, of in one.items()])


def _cells(of: dict[str, Any], digits: int) -> list[str]:
    return [
        f"{regret:.{digits}f}" + (f" ({pair['95%'][0]:+.{digits}f} to {pair['95%'][1]:+.{digits}f})" if pair else "")
        for regret, pair in zip(of["regret"], of["paired"], strict=True)
    ]


def _picture(results: dict[str, Any]) -> Any:
    figure, axes = common.panels(2, len(results["counts"]), squeeze=False)
    for (upper, lower), name in zip(axes.T, results["counts"], strict=True):
        for mu, of in results["counts"][name].items():
            upper.plot(counts(name), of["regret"], "o-", label=f"mu = {mu}")
        upper.set(title=name, xlabel="blocks", ylabel="regret, 1 a random setting's", xscale="log", xticks=COUNTS)
        upper.set_xticklabels(COUNTS)
        for learner, one in results["exponents"].items():
            of = one["data"][name]
            lower.plot(EXPONENTS, of["regret"] / of["random"], "o-", label=f"{learner}: {one['parameter']}")
        lower.set(xlabel="exponent", ylabel="regret without noise", yscale="log", ylim=(1e-3, None))
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.legend(*axes[1, 0].get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=4)
    return figure

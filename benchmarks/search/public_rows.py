"""``scripts/bench public_rows``: other ways to propose points by public rows, on development seeds, beside the default.

===================  =================================================================================================
the default          half of the candidates anywhere in the box, half around the best points
a trust region       all candidates in a box around the best point, which doubles after 3 batches that find a better
                     point and halves after 3 that do not (Eriksson et al. 2019)
three restarts       three searches of a third of the evaluations each, and a third of the proposals of each
===================  =================================================================================================
"""

import os
from collections.abc import Callable
from typing import Any
from unittest import mock

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np

from benchmarks import report
from benchmarks.search import cells, minimize, searches
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import PROBLEMS
from jaxdpbo.drivers import proposals as _proposals

FIRST_SEED, SEEDS = 8600, 6
WIDE = ("svr_ridership_700", "gp_slices", "svr_diabetes", "gp_diabetes")  # boxes of 10 parameters or more
BUDGETS = ("epsilon 1", "mu inf")
REGION, RESTARTS = "a trust region", "three restarts"
FIRST_SIDE, WIDEST, PATIENCE = 0.8, 1.6, 3  # of the region, in sides of the box; batches in a row
PARTS = 3
propose, candidates = _proposals.propose, _proposals._candidates


def main(quick: bool, *, problems: list[str] | None = None, seeds: int | None = None) -> None:
    count = seeds or (2 if quick else SEEDS)
    chosen = problems or (["gp_diabetes"] if quick else list(WIDE))
    names = (searches.PUBLIC, REGION, RESTARTS)
    all_cells = [
        cells.Cell(name, search, budget, FIRST_SEED + seed)
        for name in chosen
        for seed in range(count)
        for budget in BUDGETS
        for search in names
    ]
    runs = cells.run("public_rows", all_cells, run_cell)
    seeds_run = range(FIRST_SEED, FIRST_SEED + count)
    results = {name: minimize.compare_searches(runs, name, BUDGETS, names, seeds_run) for name in chosen}
    minimize.show_comparison(results, PROBLEMS, "the default")
    report.write_bench(
        "public_rows",
        {"problems": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + count],
        noise="exact",
        dtype="float64",
        chosen={"first side": FIRST_SIDE, "batches in a row": PATIENCE, "restarts": PARTS},
    )


def run_cell(cell: cells.Cell) -> dict[str, Any]:
    """One run."""
    patches: dict[str, dict[str, Callable[..., Any]]] = {
        searches.PUBLIC: {},
        REGION: {"_candidates": _Region()},
        RESTARTS: {"propose": _propose_with_restarts},
    }
    with mock.patch.multiple(_proposals, **patches[cell.search]) if patches[cell.search] else mock.MagicMock():
        loss, _ = searches.loss_of(PROBLEMS[cell.problem], searches.PUBLIC, Budget.parse(cell.budget), cell.seed)
    return {"loss": loss}


class _Region:
    """Candidates in a box around the point of the least posterior mean."""

    def __init__(self) -> None:
        self.side, self.seen, self.better, self.worse = FIRST_SIDE, 0, 0, 0

    def __call__(
        self, box: Any, points: np.ndarray, surrogate: Any, rng: np.random.Generator, *, num_uniform: int
    ) -> np.ndarray:
        del num_uniform
        means = surrogate.predict(box.to_features(points)[0])[0]
        best = int(np.argmin(means))
        improved, self.seen = best >= self.seen, len(points)  # the best is of the last batch
        self.better, self.worse = (self.better + 1, 0) if improved else (0, self.worse + 1)
        if self.better == PATIENCE:
            self.side, self.better = min(2 * self.side, WIDEST), 0
        if self.worse == PATIENCE:
            self.side, self.worse = self.side / 2, 0
        offsets = self.side * (rng.random((_proposals.POOL, box.dimension)) - 0.5)
        moved = rng.random(offsets.shape) < min(1.0, 20 / box.dimension)
        return box.snap(np.clip(points[best] + np.where(moved, offsets, 0.0), 0.0, 1.0))


def _propose_with_restarts(evaluate: Any, box: Any, evaluations: int, proposals: int, design: np.ndarray) -> np.ndarray:
    parts = np.array_split(np.arange(len(design)), PARTS)
    counts = [len(part) for part in np.array_split(np.arange(proposals), PARTS)]
    return np.concatenate(
        [
            propose(evaluate, box, max(2, evaluations // PARTS), count, design[part])
            for part, count in zip(parts, counts, strict=True)
        ]
    )

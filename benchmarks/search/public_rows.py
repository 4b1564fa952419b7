"""``scripts/bench public_rows``: how to use public rows: expected losses of a private choice, on development seeds.

No noise is drawn. The exponential mechanism takes each proposal with a known chance, so a number is an expectation over
the noise, and only the rows differ between seeds. All ways have equally many evaluations in all.

======================  ==============================================================================================
the default             half of the evaluations on public rows; a third of the proposals spread over the box
near alone              no proposal spread over the box
two thirds spread
a quarter on public     of the evaluations, so the choice is among more proposals
a trust region          all candidates in a box around the best point, which doubles after 3 batches that find a better
                        point and halves after 3 that do not (Eriksson et al. 2019)
three restarts          three searches of a third of the evaluations each, and a third of the proposals of each
4 rows, 12 rows         the default, where so few public rows measure; also with near alone, and two thirds spread
no public rows          a choice in a design of all evaluations
======================  ==============================================================================================
"""

import math
import os
from typing import Any, NamedTuple
from unittest import mock

os.environ.setdefault("JAX_ENABLE_X64", "1")

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import block_losses, cells
from benchmarks.search.budgets import Budget
from benchmarks.search.problems import DEVELOPMENT, PROBLEMS, Problem, training_rows
from jaxdpbo import space as spaces
from jaxdpbo.drivers import proposals as _proposals

FIRST_SEED, SEEDS = 8600, 6
ALL = PROBLEMS | DEVELOPMENT
CHOSEN = (
    "svr_diabetes", "gp_diabetes", "gp_slices", "logistic", "svm", "elastic_net", "ridership", *DEVELOPMENT,
)  # fmt: skip
BUDGETS = ("epsilon 0.3", "epsilon 1", "epsilon 3")
FIRST_SIDE, WIDEST, PATIENCE = 0.8, 1.6, 3  # of the region, in sides of the box; batches in a row
PARTS = 3
propose = _proposals.propose


def main(quick: bool, *, problems: list[str] | None = None, seeds: int | None = None) -> None:
    count = seeds or (2 if quick else SEEDS)
    chosen = problems or (["gp_diabetes"] if quick else list(CHOSEN))
    all_cells = {
        (name, way, seed): cells.Cell(name, way, 0, FIRST_SEED + seed)
        for seed in range(count)
        for name in chosen
        for way in (*WAYS, WITHOUT)
        if _has_way(name, way)
    }
    runs = cells.run("public_rows", list(all_cells.values()), run_cell)
    results = {}
    for name in chosen:
        found = {
            way: [runs[all_cells[name, way, seed]] for seed in range(count)]
            for way in (*WAYS, WITHOUT)
            if _has_way(name, way)
        }
        best = np.min([[run["least"] for run in of_way] for of_way in found.values()], axis=0)
        usual = np.array([run["usual"] for run in found[WITHOUT]])
        results[name] = {
            budget: common.compare_with(
                DEFAULT,
                {
                    way: (100 * (np.array([run["losses"][budget] for run in of_way]) - best) / (usual - best)).tolist()
                    for way, of_way in found.items()
                },
            )
            for budget in BUDGETS
        }
    report.print_table(("way", *BUDGETS), _mean_rows(results))
    report.write_bench(
        "public_rows",
        {"problems": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + count],
        noise="exact",
        dtype="float64",
        chosen={"first side": FIRST_SIDE, "batches in a row": PATIENCE, "restarts": PARTS},
    )


def _mean_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """Percent of the way from the best known loss to the mean of a design, over the problems with all ways."""
    compared = [row for name, row in results.items() if all(_has_way(name, way) for way in WAYS)]
    return [
        (way, *(f"{np.mean([row[budget][way]['mean'] for row in compared]):.1f}" for budget in BUDGETS))
        for way in (*WAYS, WITHOUT)
        if compared
    ]


def _has_way(name: str, way: str) -> bool:
    """Rows can be left out only of problems in which each row stands alone."""
    return way == WITHOUT or WAYS[way].rows is None or ALL[name].public is training_rows


def run_cell(cell: cells.Cell) -> dict[str, Any]:
    """The expected loss at each budget, and what normalises it."""
    problem = ALL[cell.problem]
    data = problem.draw(cell.seed)
    points = _design(problem) if cell.search == WITHOUT else _propose(problem, data, WAYS[cell.search])
    low, high = problem.box
    losses = np.stack([problem.losses(problem.place(low + (high - low) * point), data) for point in points])
    means, width = losses.mean(axis=1), problem.loss_range[1] - problem.loss_range[0]
    found = {}
    for label in BUDGETS:
        chances = block_losses.law(losses, width, Budget.parse(label).range, favours_first=True)
        found[label] = float(chances @ means)
    return {"losses": found, "least": float(means.min()), "usual": float(means.mean())}


def _design(problem: Problem) -> np.ndarray:
    """The start and points of a Sobol sequence, as ``minimize`` has without public rows."""
    space, count = None if problem.is_box else problem.searched, problem.evaluations
    middle = np.full((1, problem.dimension), 0.5)
    return np.concatenate([middle, spaces.spread(space, count - 1, problem.dimension)])


def _propose(problem: Problem, data: Any, way: "_Way") -> np.ndarray:
    assert problem.public is not None
    public, space = problem.public(data), None if problem.is_box else problem.searched
    if way.rows is not None:
        few = slice(way.rows)
        public = public._replace(validation=public.validation[few], validation_targets=public.validation_targets[few])
    (low, high), batch = problem.box, problem.dimension + 1
    on_public = math.floor(way.share * problem.steps) * batch

    def evaluate(points: np.ndarray) -> np.ndarray:
        return np.array([problem.mean(problem.place(low + (high - low) * point), public) for point in points])

    design = spaces.spread(space, on_public, problem.dimension)
    box = _proposals.Box(problem.dimension, space)
    patched = {name: made() for name, made in way.patches.items()}
    with mock.patch.multiple(_proposals, **patched) if patched else mock.MagicMock():
        return _proposals.propose(evaluate, box, on_public, problem.evaluations - on_public, design)


class _Way(NamedTuple):
    """How public rows are used.

    Attributes:
      patches: what a name of ``proposals`` stands for, made anew for each run.
      share: of the evaluations, on public rows.
      rows: that measure; None for all.
    """

    patches: dict[str, Any]
    share: float = 0.5
    rows: int | None = None


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


DEFAULT, WITHOUT = "the default", "no public rows"
NEAR, SPREAD = {"SPREAD_SHARE": lambda: 0.0}, {"SPREAD_SHARE": lambda: 2 / 3}
WAYS = {
    DEFAULT: _Way({}),
    "near alone": _Way(NEAR),
    "two thirds spread": _Way(SPREAD),
    "a quarter on public": _Way({}, 0.25),
    "a trust region": _Way({"_candidates": _Region}),
    "three restarts": _Way({"propose": lambda: _propose_with_restarts}),
} | {
    f"{rows} rows{also}": _Way(patches, rows=rows)
    for rows in (4, 12)
    for also, patches in {"": {}, ", near alone": NEAR, ", two thirds spread": SPREAD}.items()
}

"""``scripts/bench sklearn``: ``PrivateSearchCV`` at an epsilon of 1 compared with defaults, on held-out rows.

The rows of the search are halved, as by default: both models are fitted to the training half, and the other half is
private. The noise has a seed, so that you can repeat a run.
"""

import os
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import numpy as np

from benchmarks import report
from benchmarks.papers import classification, datasets
from benchmarks.reproductions import common
from benchmarks.search import cells
from jaxdpbo import space

FIRST_SEED, SEEDS = 9000, 20
EPSILON, DELTA = 1.0, 1e-5
SEARCH = "PrivateSearchCV"
ROWS = {"adult": (20_000, 10_000), "breast_cancer": (400, 169)}  # of the search, and held out
SPACE = {
    "min_samples_leaf": space.integer(1, 50, log=True),
    "max_depth": space.integer(2, 30),
    "max_features": space.real(0.02, 1.0, log=True),
}


def main(quick: bool, *, seeds: int | None = None) -> None:
    seeds = seeds or (2 if quick else SEEDS)
    names = ["breast_cancer"] if quick else list(ROWS)
    all_cells = [cells.Cell(name, SEARCH, EPSILON, FIRST_SEED + seed) for seed in range(seeds) for name in names]
    runs = cells.run("held_out", all_cells, measure_losses)
    results: dict[str, Any] = {}
    for name in names:
        own_runs = [runs[cell] for cell in all_cells if cell.problem == name]
        losses = {
            which: np.array([run[which] for run in own_runs]) for which in ("private", "default", "accuracy", "before")
        }
        results[name] = {
            "rows": ROWS[name],
            "losses": losses,
            "paired": common.paired_difference(losses["private"], losses["default"]),
            "params": [run["params"] for run in own_runs],
            "method": own_runs[0]["method"],
        }
    rows = []
    for name, result in results.items():
        means = [f"{result['losses'][which].mean():.4f}" for which in ("default", "private", "before", "accuracy")]
        rows.append((name, *means[:2], common.sentence(result["paired"]), *means[2:]))
    report.print_table(("records", "default", SEARCH, "difference (95 %)", "accuracy, default", SEARCH), rows)
    report.write_bench(
        "sklearn",
        {"data": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + seeds],
        noise="exact",
        dtype="float64",
        chosen={"epsilon": EPSILON, "delta": DELTA, "n_iter": 60},
    )


def measure_losses(cell: cells.Cell) -> dict[str, Any]:
    """Mean log losses of held-out records, each at most 4, and accuracies; of one split and one search."""
    from sklearn.base import clone
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import ShuffleSplit

    from jaxdpbo.integrations.sklearn import LOSSES, PrivateSearchCV, splits
    from jaxdpbo.integrations.sklearn import losses as _losses

    features, labels = _records(cell.problem)
    rows, held_out = ROWS[cell.problem]
    order = np.random.default_rng(cell.seed).permutation(len(labels))[: rows + held_out]
    (X, y), (others, truth) = ((features[part], labels[part]) for part in (order[:rows], order[rows:]))
    cv = ShuffleSplit(1, test_size=0.5, random_state=cell.seed)
    model = RandomForestClassifier(n_estimators=100, random_state=cell.seed)
    seeded = {"key": jax.random.key(cell.seed), "insecure_key": True}
    options = {"n_iter": 60, "cv": cv, "refit": "train", **seeded}
    search = PrivateSearchCV(model, SPACE, epsilon=EPSILON, delta=DELTA, **options).fit(X, y)
    train = splits.single_split(cv, rows, None, {}, again=False).train
    usual = clone(model).fit(X[train], y[train])
    high = LOSSES["log_loss"].range[1]

    def loss(fitted: Any) -> float:
        return float(np.mean(np.minimum(_losses.record_losses("log_loss", fitted, others, truth), high)))

    return {
        "private": loss(search.best_estimator_),
        "default": loss(usual),
        "accuracy": float(search.score(others, truth)),
        "before": float(usual.score(others, truth)),
        "params": search.best_params_,
        "method": search.method_,
    }


def _records(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "adult":
        (features, labels), _, _, _ = classification.load("adult", seed=0)
        return features, labels
    dataset = datasets.load(name)
    return dataset.features, dataset.targets

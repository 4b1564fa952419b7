"""``scripts/bench private_tuning``: test errors of models that were tuned AND trained under one epsilon.

Every method may try the same settings. "not counted" tunes without noise and pays for the training alone, as many
papers do; "oracle" looks at the test records. Neither is private: they say what there is to be gained. "selection, by
Renyi" is the same selection with as much noise as the published bound asks for (Papernot and Steinke 2022, of the worst
setting, by dp-accounting).
"""

import os
import time
from functools import lru_cache
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import dp_accounting
import jax
import numpy as np
from dp_accounting import rdp

from benchmarks import fingerprint, report
from benchmarks.reproductions import common
from benchmarks.search import cells
from jaxdpbo import accounting, tuning
from jaxdpbo.privacy.accounting import stage
from jaxdpbo.problems import classification, datasets
from jaxdpbo.training import models
from jaxdpbo.tuning import training as trainings

ENTRY = "benchmarks.search.private_tuning"
FIRST_SEED, SEEDS = 9500, 20
EPSILONS, DELTA = (0.5, 1.0, 2.0, 4.0, 8.0), 1e-5
PROBLEMS = ("adult", "covertype", "mnist", "ridership")
DEFAULT, RANDOM, RENYI, CHEAT, ORACLE = (
    "default setting", "random setting", "selection, by Renyi", "not counted", "oracle",
)  # fmt: skip
METHODS = (DEFAULT, RANDOM, *tuning.tune.ROUTES, RENYI, CHEAT, ORACLE)
SETTINGS = 12  # that may be tried, drawn once for each problem
USUAL = {"learning_rate": 0.1, "batch": 256, "epochs": 10, "clip_norm": 1.0}
HELD_OUT = 0.2  # by "not counted", to tune on, and by a selection
MOST_RIDES = 30.0  # thousands a day: a public scale for the targets


def main(
    quick: bool, *, seeds: int | None = None, problems: Any = None, methods: Any = None, budgets: Any = None
) -> None:
    started = time.perf_counter()
    seeds = seeds or (1 if quick else SEEDS)
    names, asked = tuple(problems or (PROBLEMS[:1] if quick else PROBLEMS)), tuple(methods or METHODS)
    epsilons = tuple(budgets or ((2.0,) if quick else EPSILONS))
    folder, code = report.folder("search"), fingerprint.digest(ENTRY)
    wanted = [
        cells.Cell(name, method, epsilon, FIRST_SEED + seed)
        for seed in range(seeds)
        for name in names
        for epsilon in epsilons
        for method in asked
    ]
    found = cells.run(folder / "private_tuning.jsonl", wanted, code, folder / "programs", errors)
    results: dict[str, Any] = {}
    for name in names:
        of = {
            method: np.array(
                [
                    [found[cells.Cell(name, method, epsilon, FIRST_SEED + seed)]["error"] for seed in range(seeds)]
                    for epsilon in epsilons
                ]
            )
            for method in asked
        }
        results[name] = {
            "errors": of,
            "mean": {method: errors.mean(axis=1) for method, errors in of.items()},
            "seconds a run": {method: _seconds(found, name, method) for method in asked},
            "paired": {
                method: {f"{epsilon:g}": common.compared(of[method][i], of[DEFAULT][i])
                         for i, epsilon in enumerate(epsilons)}
                for method in asked if method != DEFAULT and DEFAULT in asked
            },
        }  # fmt: skip
    _show(results, epsilons)
    stem = "bench_private_tuning" + "_quick" * quick
    report.write_result(
        report.folder("bench") / f"{stem}.json",
        common.plain({"problems": results}),
        entry=ENTRY,
        seeds=[FIRST_SEED, FIRST_SEED + seeds],
        noise="exact",
        dtype="float32",
        settings={
            "printed in the paper": {},
            "chosen here": {
                "epsilons": list(epsilons),
                "delta": DELTA,
                "settings": {name: settings_of(name) for name in names},
                "default": USUAL,
            },
        },
        started=started,
    )
    report.save_figure(_picture(results, epsilons), report.folder("bench") / f"{stem}.png")


def _seconds(found: dict[cells.Cell, dict[str, Any]], name: str, method: str) -> float:
    return float(np.median([said["seconds"] for cell, said in found.items() if cell[:2] == (name, method)]))


def errors(cell: cells.Cell) -> dict[str, Any]:
    """The test error of one model."""
    started = time.perf_counter()
    training, rows, test = problem(cell.problem)
    settings, key, rng = settings_of(cell.problem), jax.random.key(cell.seed), np.random.default_rng(cell.seed)
    setting: Any = USUAL
    if cell.search in (*tuning.tune.ROUTES, RENYI):
        route, epsilon = (cell.search, cell.mu) if cell.search != RENYI else ("selection", renyi(cell.problem, cell.mu))
        tuned = tuning.tune_and_train(
            training, rows, settings, epsilon=epsilon, delta=DELTA, route=route, key=key, insecure_key=True
        )
        setting, error = tuned.setting, _error(training, tuned.model, test)
    elif cell.search in (CHEAT, ORACLE):
        order = rng.permutation(len(rows[1]))
        cut = round(HELD_OUT * len(order)) if cell.search == CHEAT else 0
        kept, measured = [tuple(leaf[part] for leaf in rows) for part in (order[cut:], order[:cut])]
        tried = [_fitted(training, each, cell.mu, kept, key) for each in settings]
        by = [_error(training, model, measured if cell.search == CHEAT else test) for model in tried]
        setting = settings[int(np.argmin(by))]
        error = _error(training, tried[int(np.argmin(by))], test)
    else:
        setting = USUAL if cell.search == DEFAULT else settings[rng.integers(len(settings))]
        error = _error(training, _fitted(training, setting, cell.mu, rows, key), test)
    return {"error": error, "setting": setting, "seconds": round(time.perf_counter() - started, 2)}


@lru_cache(maxsize=1)
def problem(name: str) -> tuple[tuning.DPSGD, Any, Any]:
    """Training, rows to learn from, rows to be judged by."""
    if name in ("covertype", "ridership"):
        dataset = datasets.load({"covertype": "covtype", "ridership": "chicago"}[name])
        order = np.random.default_rng(0).permutation(len(dataset.targets))
        features = (dataset.features - dataset.features.mean(axis=0)) / np.maximum(dataset.features.std(axis=0), 1e-9)
        last = np.asarray(dataset.targets == np.unique(dataset.targets)[-1], int)
        targets = last if name == "covertype" else (dataset.targets / MOST_RIDES).astype(np.float32)
        cut = len(order) // 5
        parts = [(features[part], targets[part]) for part in (order[cut:], order[:cut])]
        classes = 2
    else:
        rows, test, classes, _ = classification.load(name, seed=0, test=1000 if name == "mnist" else None)
        parts = [rows, test]
    rows, test = (tuple(map(np.asarray, (features.astype(np.float32), targets))) for features, targets in parts)
    width = rows[0].shape[1]
    binary = models.regression(width) if name == "ridership" else models.logistic_regression(width)
    return tuning.DPSGD(binary if classes == 2 else models.mlp(width, (32,), classes)), rows, test


@lru_cache(maxsize=32)
def renyi(name: str, epsilon: float) -> float:
    """What our accounting says of a selection that costs ``epsilon`` by the published one, of either set of rows."""
    training, rows, _ = problem(name)
    users = round(HELD_OUT * len(rows[1]))
    records = len(rows[1]) - users
    law = accounting.repetitions(0.0, tuning._by_selection.MEAN_RUNS)

    def published(asked_for: float, of: list[int]) -> list[float]:
        asked = tuning._routes.Asked(training, tuple(settings_of(name)), asked_for, DELTA, None, None, True, "worst")
        level, _, costs = tuning._by_selection.calibrated(asked, records, law)
        runs = [stage.gaussian(level), *costs]
        return [_published(stage.selection(law, runs[number])) for number in of]

    every = list(range(SETTINGS + 1))
    first = published(epsilon / 2, every)
    worst = sorted({0, int(np.argmax(first))})  # mostly the same at all budgets; all are looked at again in the end
    low, high = 0.02 * epsilon, epsilon
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if max(published(middle, worst)) <= epsilon else (low, middle)
    while max(published(low, every)) > epsilon:
        low *= 0.98
    return low


def _published(selected: stage.Stage) -> float:
    """By Renyi divergences; which relation its events are meant for, ``to_dp_event`` says."""
    sampled = selected.arguments[1][0] == "sampled_gaussian"
    relation = dp_accounting.NeighboringRelation["REPLACE_ONE" if sampled else "ADD_OR_REMOVE_ONE"]
    accountant = rdp.RdpAccountant(neighboring_relation=relation)
    accountant.compose(accounting.total([selected], DELTA).to_dp_event())
    return float(accountant.get_epsilon(DELTA))


def settings_of(name: str) -> list[dict[str, Any]]:
    """The same for every seed: a public list."""
    rng = np.random.default_rng(PROBLEMS.index(name))
    return [
        {
            "learning_rate": round(float(np.exp(rng.uniform(np.log(0.02), np.log(10)))), 4),
            "batch": int(rng.choice([128, 256, 512])),
            "epochs": int(rng.choice([5, 10, 20])),
            "clip_norm": round(float(np.exp(rng.uniform(np.log(0.1), np.log(2)))), 4),
        }
        for _ in range(SETTINGS)
    ]


def _fitted(training: tuning.DPSGD, setting: Any, epsilon: float, rows: Any, key: jax.Array) -> Any:
    return training.fit(setting, _noise(training, tuple(setting.items()), len(rows[1]), epsilon), rows, key)


@lru_cache(maxsize=1000)
def _noise(training: tuning.DPSGD, setting: Any, records: int, epsilon: float) -> float:
    return trainings.noise_for(training, dict(setting), records, epsilon, DELTA)


def _error(training: tuning.DPSGD, model: Any, rows: Any) -> float:
    return 1.0 if model is None else float(np.mean(training.losses(model, rows)))


def _show(results: dict[str, Any], epsilons: tuple[float, ...]) -> None:
    for name, one in results.items():
        print(f"\n{name}: mean test error; difference from the default setting with 95 % bootstrap intervals\n")
        rows = []
        for method, means in one["mean"].items():
            paired = one["paired"].get(method, {})
            said = [f"{means[i]:.4f} {common.sentence(paired[f'{epsilon:g}']) if paired else ''}"
                    for i, epsilon in enumerate(epsilons)]  # fmt: skip
            rows.append((method, *said, f"{one['seconds a run'][method]:.0f} s"))
        report.print_table(("method", *(f"epsilon = {epsilon:g}" for epsilon in epsilons), "a run"), rows)


def _picture(results: dict[str, Any], epsilons: tuple[float, ...]) -> Any:
    figure, axes = common.panels(1, len(results), squeeze=False)
    for axis, (name, one) in zip(axes.ravel(), results.items(), strict=True):
        for number, (method, values) in enumerate(one["errors"].items()):
            common.band(axis, values.T, f"C{number}", method, np.asarray(epsilons), mean=True)
        axis.set(title=name, xlabel="epsilon", ylabel="test error", xscale="log")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure

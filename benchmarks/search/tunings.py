"""The ways to a model that are compared on one budget: ``errors`` takes one, once.

Every method may try the same settings. "not counted" tunes without noise and pays for the training alone, as many
papers do; "oracle" looks at the test records. Neither is private: they say what there is to be gained. "selection, by
Renyi" is the same selection with as much noise as the published bound asks for (Papernot and Steinke 2022, of the worst
setting, by dp-accounting).
"""

from functools import lru_cache
from typing import Any

import dp_accounting
import jax
import numpy as np
from dp_accounting import rdp

from benchmarks import tuning_peers
from benchmarks.papers import classification, datasets
from benchmarks.search import cells
from benchmarks.tuning_peers.trainings import DPSGD
from jaxdpbo import accounting, tuning
from jaxdpbo.accounting import stage
from jaxdpbo.training import models
from jaxdpbo.tuning import training as trainings

DELTA = 1e-5
PROBLEMS = ("adult", "covertype", "mnist", "ridership")
DEFAULT, RANDOM, RENYI, CHEAT, ORACLE = (
    "default setting", "random setting", "selection, by Renyi", "not counted", "oracle",
)  # fmt: skip
SELECTION = "selection"
METHODS = (DEFAULT, RANDOM, SELECTION, *tuning_peers.ROUTES, RENYI, CHEAT, ORACLE)
SETTINGS = 12  # that may be tried, drawn once for each problem
USUAL = {"learning_rate": 0.1, "batch": 256, "epochs": 10, "clip_norm": 1.0}
HELD_OUT = 0.2  # by "not counted", to tune on, and by a selection
MOST_RIDES = 30.0  # thousands a day: a public scale for the targets


def errors(cell: cells.Cell) -> dict[str, Any]:
    """The test error of one model."""
    training, rows, test = problem(cell.problem)
    settings, key, rng = settings_of(cell.problem), jax.random.key(cell.seed), np.random.default_rng(cell.seed)
    setting: Any = USUAL
    if cell.search in (SELECTION, *tuning_peers.ROUTES, RENYI):
        epsilon = renyi_epsilon(cell.problem, cell.budget) if cell.search == RENYI else cell.budget
        budget = {"epsilon": epsilon, "delta": DELTA, "key": key, "insecure_key": True}
        if cell.search in tuning_peers.ROUTES:
            tuned = tuning_peers.tune_and_train(training, rows, settings, route=cell.search, **budget)
        else:
            tuned = tuning.tune_and_train(training, rows, settings, **budget)
        setting, error = tuned.setting, error_of(training, tuned.model, test)
    elif cell.search in (CHEAT, ORACLE):
        order = rng.permutation(len(rows[1]))
        cut = round(HELD_OUT * len(order)) if cell.search == CHEAT else 0
        train, measured = [tuple(leaf[part] for leaf in rows) for part in (order[cut:], order[:cut])]
        tried = [fit_model(training, candidate, cell.budget, train, key) for candidate in settings]
        by = [error_of(training, model, measured if cell.search == CHEAT else test) for model in tried]
        setting = settings[int(np.argmin(by))]
        error = error_of(training, tried[int(np.argmin(by))], test)
    else:
        setting = USUAL if cell.search == DEFAULT else settings[rng.integers(len(settings))]
        error = error_of(training, fit_model(training, setting, cell.budget, rows, key), test)
    return {"error": error, "setting": setting}


@lru_cache(maxsize=1)
def problem(name: str) -> tuple[DPSGD, Any, Any]:
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
    model = binary if classes == 2 else models.mlp(width, (32,), classes)
    return DPSGD(model, classes=None if name == "ridership" else range(classes)), rows, test


@lru_cache(maxsize=32)
def renyi_epsilon(name: str, epsilon: float) -> float:
    """What our accounting says of a selection that costs ``epsilon`` by the published one, of either set of rows."""
    training, rows, _ = problem(name)
    users = round(HELD_OUT * len(rows[1]))
    records = len(rows[1]) - users
    law = accounting.repetitions(tuning.joint_tuning.ETA, tuning.joint_tuning.MEAN_RUNS)

    def published_epsilons(asked_for: float, numbers: list[int]) -> list[float]:
        asked = tuning.fitting.TuningArguments(
            training, tuple(settings_of(name)), asked_for, DELTA, None, None, True, "worst"
        )
        level, _, costs = tuning.joint_tuning._calibrate(asked, records, law)
        runs = [stage.gaussian_stage(level), *costs]
        return [_published_epsilon(stage.selection_stage(law, runs[number])) for number in numbers]

    every = list(range(SETTINGS + 1))
    first = published_epsilons(epsilon / 2, every)
    worst = sorted({0, int(np.argmax(first))})  # mostly the same at all budgets; all are looked at again in the end
    low, high = 0.02 * epsilon, epsilon
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if max(published_epsilons(middle, worst)) <= epsilon else (low, middle)
    while max(published_epsilons(low, every)) > epsilon:
        low *= 0.98
    return low


def _published_epsilon(selected: stage.Stage) -> float:
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


def fit_model(training: tuning.DPSGD, setting: Any, epsilon: float, rows: Any, key: jax.Array) -> Any:
    return training.fit(setting, _noise(training, tuple(setting.items()), len(rows[1]), epsilon), rows, key)


@lru_cache(maxsize=1000)
def _noise(training: tuning.DPSGD, setting: Any, records: int, epsilon: float) -> float:
    return trainings.noise_for(training, dict(setting), records, epsilon, DELTA)


def error_of(training: tuning.DPSGD, model: Any, rows: Any) -> float:
    return 1.0 if model is None else float(np.mean(training.losses(model, rows)))

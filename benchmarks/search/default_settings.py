"""``scripts/bench default_settings``: the default settings of the private models chosen anew, in an hour.

Every setting of a grid is trained on development tables, at the noise that a search of four settings leaves for one
run. The list is chosen greedily: each next setting lowers the mean regret most, if the best of the list is taken for
each table and epsilon. A regret is 0 for the best setting of the grid and 1 for the error without features.
"""

import itertools
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import mixed_tables
from jaxdpbo import accounting, cells
from jaxdpbo.integrations.sklearn import columns, layered_training
from jaxdpbo.tuning import fitting
from jaxdpbo.tuning import training as _training

CLASSIFICATIONS, REGRESSIONS = ("loans", "covertype", "digits"), ("houses", "ridership")
EPSILONS, DELTA, SEEDS, LISTED = (1.0, 2.0), 1e-5, 2, 4
ETA, MEAN = 3.0, 24.0  # of the number of runs
TEST_SHARE, TRAIN_SHARE = 0.2, 0.8  # of the rows, and of the others
HIDDEN, BATCHES, EPOCHS = ((), (32,)), (20, 50), (5, 20)
STEPS = {False: (0.1, 0.3, 1.0, 3.0), True: (0.003, 0.01, 0.03, 0.1)}  # learning rate times clipping norm
NORMS = {False: (0.3, 1.0), True: (0.03, 0.1, 0.3)}


def main(quick: bool) -> None:
    chosen, regrets = {}, {}
    for regression, names in ((False, CLASSIFICATIONS), (True, REGRESSIONS)):
        settings = grid(regression)[:: 11 if quick else 1]
        problems = [*itertools.product(names[:1] if quick else names, EPSILONS)]
        errors = np.array(
            [errors_of(name, epsilon, settings, quick) for name, epsilon in tqdm(problems, unit="problem")]
        )
        relative = relative_regrets(errors[:, :-1], errors[:, -1])
        kind = "regression" if regression else "classification"
        order = choose_greedily(relative, LISTED)
        chosen[kind] = [settings[number] for number in order]
        regrets[kind] = [float(np.mean(np.min(relative[:, order[: count + 1]], axis=1))) for count in range(len(order))]
        rows = [(str(setting), f"{regret:.3f}") for setting, regret in zip(chosen[kind], regrets[kind], strict=True)]
        report.print_table((kind, "mean regret of the list so far"), rows)
    report.write_bench(
        "default_settings",
        {"chosen": chosen, "regrets": regrets},
        quick=quick,
        seeds=[0, SEEDS],
        noise="exact",
        dtype="float32",
        chosen={"epsilons": EPSILONS, "delta": DELTA, "tables": [*CLASSIFICATIONS, *REGRESSIONS]},
    )


def grid(regression: bool) -> list[tuple[Any, ...]]:
    """Rows in the form of ``layered_training.CLASSIFIER_SETTINGS``."""
    axes = HIDDEN, STEPS[regression], BATCHES, EPOCHS, NORMS[regression]
    return [
        (hidden, step / norm, batches, epochs, norm) for hidden, step, batches, epochs, norm in itertools.product(*axes)
    ]


def errors_of(name: str, epsilon: float, settings: list[tuple[Any, ...]], quick: bool) -> list[float]:
    """Mean test errors of the settings, and of the best constant."""
    table = mixed_tables.load(name)
    X, y, width = encode(table)
    classes = len(table.classes) if table.classes else 0
    training = layered_training.LayeredDPSGD(width, classes)
    law = accounting.repetitions(ETA, MEAN)
    errors = []
    for seed in range(1 if quick else SEEDS):
        order = np.random.default_rng(seed).permutation(len(y))
        test, others = np.split(order, [int(TEST_SHARE * len(order))])
        train = others[: int(TRAIN_SHARE * len(others))]
        run_epsilon = accounting.gdp_epsilon(fitting.largest_mu(law, epsilon, 0.9 * DELTA), DELTA / MEAN)
        row = []
        for line in settings:
            setting = layered_training.make_setting(line, len(train))
            noise = _training.noise_for(training, setting, len(train), run_epsilon, DELTA / MEAN)
            model = training.fit(setting, noise, (X[train], y[train]), jax.random.key(seed))
            row.append(np.mean(training.losses(model, (X[test], y[test]))))
        constant = np.bincount(y[train]).argmax() if classes else np.mean(y[train])
        row.append(np.mean(y[test] != constant) if classes else np.mean((y[test] - constant) ** 2))
        errors.append(row)
    return np.mean(errors, axis=0).tolist()


def encode(table: mixed_tables.Table) -> tuple[np.ndarray, np.ndarray, int]:
    """Features, labels and the number of features, as the estimators encode them."""
    encoding = columns.make_encoding(table.columns, list(table.frame.columns))
    X = columns.encode(encoding, [np.asarray(table.frame[name]) for name in table.frame.columns])
    if table.classes:
        return X, cells.category_numbers(table.classes, table.labels), encoding.width
    low, high = table.target_range
    return X, np.clip((table.labels - low) / (high - low), 0, 1).astype(np.float32) - np.float32(0.5), encoding.width


def relative_regrets(errors: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """``(problems, settings)``: 0 for the best setting of a problem, 1 for the best constant."""
    best = np.min(errors, axis=1, keepdims=True)
    return (errors - best) / np.maximum(constants[:, None] - best, 1e-9)


def choose_greedily(regrets: np.ndarray, count: int) -> list[int]:
    """Numbers of settings: each next one lowers the mean over problems of the least regret most."""
    chosen: list[int] = []
    for _ in range(min(count, regrets.shape[1])):
        others = [number for number in range(regrets.shape[1]) if number not in chosen]
        chosen.append(min(others, key=lambda number: np.mean(np.min(regrets[:, [*chosen, number]], axis=1))))
    return chosen

"""``scripts/bench repetitions``: errors of a private selection by distribution of its number of runs, in minutes.

Every setting is trained a few times with the noise for a distribution; the results of selections are then drawn from
these trainings thousands of times. The seeds differ from those of ``scripts/bench private_tuning``.
"""

import os
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.search import tunings
from jaxdpbo import accounting, tuning

FIRST_SEED, TRAININGS, SELECTIONS = 9700, 5, 20_000
QUICK, PROBLEMS = ("ridership",), ("adult", "covertype", "ridership")  # of MNIST it takes an hour
EPSILONS = (1.0, 4.0)
LAWS = ((0.0, 8.0), (0.0, 24.0), (1.0, 8.0), (1.0, 24.0), (3.0, 16.0), (3.0, 24.0), (3.0, 32.0), (10.0, 24.0))
LONGEST = 2000  # runs of a selection


def main(quick: bool) -> None:
    names = QUICK if quick else PROBLEMS
    epsilons, trainings = (EPSILONS[:1], 1) if quick else (EPSILONS, TRAININGS)
    results = {
        name: {f"{epsilon:g}": _row(name, epsilon, trainings) for epsilon in epsilons}
        for name in tqdm(names, unit="problem")
    }
    _show(results)
    report.write_bench(
        "repetitions",
        {"problems": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + trainings],
        noise="exact",
        dtype="float32",
        chosen={
            "laws (eta, mean)": [list(law) for law in LAWS],
            "epsilons": [f"{epsilon:g}" for epsilon in epsilons],
            "delta": tunings.DELTA,
            "selections": SELECTIONS,
        },
    )


def _row(name: str, epsilon: float, trainings: int) -> dict[str, Any]:
    """The mean test error of the default setting, and of each law's selection."""
    training, rows, test = tunings.problem(name)
    usual = [
        tunings.error_of(training, tunings.fit_model(training, tunings.USUAL, epsilon, rows, key), test)
        for key in map(jax.random.key, range(FIRST_SEED, FIRST_SEED + trainings))
    ]
    return {
        "default": np.mean(usual),
        "laws": [_measure_selection(name, epsilon, accounting.repetitions(*law), trainings) for law in LAWS],
    }


def _measure_selection(name: str, epsilon: float, law: accounting.Repetitions, trainings: int) -> dict[str, float]:
    training, rows, test = tunings.problem(name)
    settings = tuple(tunings.settings_of(name))
    train, scored = tuning.fitting.split_rows(rows, None)
    asked = tuning.fitting.TuningArguments(training, settings, epsilon, tunings.DELTA, None, None, True, "worst")
    level, noises, _ = tuning.joint_tuning._calibrate(asked, len(train[1]), law)
    scores, errors = np.empty((2, len(settings), trainings))
    for number, (setting, noise) in enumerate(zip(settings, noises, strict=True)):
        for seed in range(trainings):
            key = jax.random.fold_in(jax.random.key(FIRST_SEED + seed), number)
            model = training.fit(setting, noise, train, key)
            scores[number, seed] = np.mean(training.losses(model, scored))
            errors[number, seed] = tunings.error_of(training, model, test)
    rng = np.random.default_rng(FIRST_SEED)
    chances = accounting.repetition_probabilities(law, LONGEST)
    chosen_errors = []
    for runs in 1 + rng.choice(LONGEST, SELECTIONS, p=chances / chances.sum()):
        drawn = rng.integers(len(settings), size=runs), rng.integers(trainings, size=runs)
        chosen_errors.append(errors[drawn][np.argmin(scores[drawn] + rng.normal(size=runs) / (len(scored[1]) * level))])
    return {"eta": law.eta, "mean": law.mean, "one run": float(chances[0]), "error": float(np.mean(chosen_errors))}


def _show(results: dict[str, Any]) -> None:
    rows = []
    for name, by_epsilon in results.items():
        for epsilon, result in by_epsilon.items():
            rows.append((name, epsilon, f"{result['default']:.4f}", *(f"{law['error']:.4f}" for law in result["laws"])))
    print("\nmean test error of the model that a selection returns, by eta and mean of the number of runs")
    report.print_table(("data", "epsilon", "default setting", *(f"{eta:g}, {mean:g}" for eta, mean in LAWS)), rows)

"""``scripts/bench least_epsilon``: which epsilon reaches an error, and what finding out costs, in half an hour.

The error asked for is the mean noised error of ``tune_and_train`` at an epsilon of 1. Distributions of the number of
runs are compared on trainings that are run once and drawn from thousands of times. ``least_epsilon`` then runs with its
defaults on other seeds. Two rivals run beside it on the same seeds; the third is drawn from the trainings:

======================  ==========================================================================================
fixed                   ``tune_and_train`` at an epsilon of 1, known in advance
in turn                 ``tune_and_train`` at the epsilons of the list, until one reaches the error; they add up
factor 2                the search with the noise that the factor of Ghazi et al. (2025) asks for, eta 0, mean 80
======================  ==========================================================================================
"""

import os
import time
from functools import lru_cache
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.search import tunings
from jaxdpbo import accounting, tuning
from jaxdpbo import accounting as _accounting

FIRST_SEED, SEEDS, TRAININGS, SELECTIONS = 9800, 20, 5, 5000
QUICK, PROBLEMS = ("covertype",), ("adult", "covertype")
LEVELS = tuning.least_epsilon_search.EPSILONS
FIXED = 1.0  # the epsilon of the error asked for
LAWS = ((0.0, 20.0), (0.0, 80.0), (0.5, 40.0), (1.0, 24.0), (1.0, 80.0), (1.0, 150.0), (3.0, 80.0), (3.0, 150.0))
LONGEST = 5000  # runs of a selection


def main(quick: bool) -> None:
    names, laws = (QUICK, LAWS[-2:]) if quick else (PROBLEMS, LAWS)
    trainings, seeds = (1, 2) if quick else (TRAININGS, SEEDS)
    results: dict[str, Any] = {}
    for name in names:
        target = _target_error(name, trainings)
        results[name] = {
            "error asked for": target,
            "laws": [_draw_selections(name, law, target, trainings) for law in tqdm(laws, unit="law", desc=name)],
            "factor 2": _draw_selections(name, (0.0, 80.0), target, trainings, factor=2.0),
            "runs": [_runs(name, target, seed) for seed in tqdm(range(seeds), unit="seed", desc=name)],
        }
        results[name]["summary"] = _summary(results[name]["runs"])
    _show(results)
    report.write_bench(
        "least_epsilon",
        {"problems": results},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + seeds],
        noise="exact",
        dtype="float32",
        chosen={"epsilons": list(LEVELS), "delta": tunings.DELTA, "settings": tunings.SETTINGS, "fixed": FIXED},
        figures={"least_epsilon": _picture(results)},
    )


@lru_cache(maxsize=4)
def _parts(name: str) -> tuple[Any, Any, Any, Any]:
    """Training, rows to train on, rows to score on, rows to be judged by."""
    training, rows, test = tunings.problem(name)
    return training, *tuning.fitting.split_rows(rows, None), test


def _arguments(name: str, epsilon: float) -> tuning.fitting.TuningArguments:
    settings = tuple(tunings.settings_of(name))
    return tuning.fitting.TuningArguments(_parts(name)[0], settings, epsilon, tunings.DELTA, None, None, True, "worst")


def _train_pool(name: str, noises: list[float], trainings: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores without noise, and test errors, ``(settings, trainings)``, of trainings at these noises."""
    training, train, scored, test = _parts(name)
    scores, errors = np.empty((2, len(noises), trainings))
    for number, (setting, noise) in enumerate(zip(tunings.settings_of(name), noises, strict=True)):
        for seed in range(trainings):
            model = training.fit(setting, noise, train, jax.random.fold_in(jax.random.key(FIRST_SEED + seed), number))
            scores[number, seed] = np.mean(training.losses(model, scored))
            errors[number, seed] = tunings.error_of(training, model, test)
    return scores, errors


def _target_error(name: str, trainings: int) -> float:
    """The mean noised error of a selection at the fixed epsilon."""
    law = accounting.repetitions(tuning.joint_tuning.ETA, tuning.joint_tuning.MEAN_RUNS)
    _, train, scored, _ = _parts(name)
    level, noises, _ = tuning.joint_tuning._calibrate(_arguments(name, FIXED), len(train[1]), law)
    scores, _ = _train_pool(name, noises, trainings)
    rng, errors = np.random.default_rng(FIRST_SEED), []
    for runs in _counts(law, rng):
        drawn = rng.integers(len(scores), size=runs), rng.integers(trainings, size=runs)
        errors.append(np.min(scores[drawn] + rng.normal(size=runs) / (len(scored[1]) * level)))
    return float(np.mean(errors))


def _counts(law: accounting.Repetitions, rng: np.random.Generator) -> np.ndarray:
    """Numbers of runs of ``SELECTIONS`` selections."""
    chances = _accounting.repetition_probabilities(law, LONGEST)
    return 1 + rng.choice(LONGEST, SELECTIONS, p=chances / chances.sum())


def _draw_selections(
    name: str, law: tuple[float, float], target: float, trainings: int, factor: float | None = None
) -> dict[str, Any]:
    """Selections over levels, drawn from a pool of trainings; with a factor, each costs that multiple of one run."""
    repeated = accounting.repetitions(*law)
    _, train, scored, _ = _parts(name)
    asked = _arguments(name, LEVELS[-1])
    plan = tuning.least_epsilon_search._plan(asked, LEVELS, repeated, len(train[1]), len(scored[1]), FIXED)
    noises, paid, nothing = plan.noises, plan.costs.epsilons, plan.costs.nothing
    if factor is not None:
        noises = [
            tuning.fitting.noises(asked, len(train[1]), level / factor, tunings.DELTA / repeated.mean)
            for level in LEVELS
        ]
        paid, nothing = LEVELS, LEVELS[-1]
    pool = [_train_pool(name, of_level, trainings) for of_level in noises]
    scores, errors = (np.stack([pair[part] for pair in pool]) for part in (0, 1))
    deviation = 1 / (len(scored[1]) * tuning.fitting.largest_mu(repeated, FIXED, tunings.DELTA))
    rng, left = np.random.default_rng(FIRST_SEED), []
    for runs in _counts(repeated, rng):
        levels, settings, which = (rng.integers(count, size=runs) for count in scores.shape)
        noised = scores[levels, settings, which] + deviation * rng.normal(size=runs)
        passed = np.flatnonzero(noised <= target)
        if len(passed) == 0:
            left.append((False, nothing, np.nan))
            continue
        best = passed[np.lexsort((noised[passed], levels[passed]))[0]]
        left.append((True, paid[levels[best]], errors[levels[best], settings[best], which[best]]))
    reached, costs, tested = map(np.array, zip(*left, strict=True))
    return {
        "eta": law[0],
        "mean": law[1],
        "reached": np.mean(reached),
        "paid, median": np.median(costs),
        "paid, mean": np.mean(costs),
        "test error": np.nanmean(tested) if np.any(reached) else np.nan,
    }


def _runs(name: str, target: float, seed: int) -> dict[str, Any]:
    """``least_epsilon`` as users call it, and its rivals, with one seed."""
    training, rows, test = tunings.problem(name)
    settings = tunings.settings_of(name)
    keys = [jax.random.fold_in(jax.random.key(FIRST_SEED + 100 + seed), number) for number in range(2 + len(LEVELS))]
    began = time.perf_counter()
    result = tuning.least_epsilon(
        training, rows, settings, error=target, delta=tunings.DELTA, key=keys[0], insecure_key=True
    )
    seconds = time.perf_counter() - began
    fixed = _tune(name, FIXED, keys[1])
    spent, reached, tested = 0.0, False, np.nan
    for level, key in zip(LEVELS, keys[2:], strict=True):
        tried = _tune(name, level, key)
        spent += level
        if tried.error <= target:
            reached, tested = True, tunings.error_of(training, tried.model, test)
            break
    error = tunings.error_of(training, result.model, test) if result.reached else np.nan
    return {
        "least_epsilon": {"reached": result.reached, "paid": result.epsilon, "test error": error, "seconds": seconds},
        "fixed": {
            "reached": fixed.error <= target,
            "paid": FIXED,
            "test error": tunings.error_of(training, fixed.model, test),
        },
        "in turn": {"reached": reached, "paid": spent, "test error": tested},
    }


def _tune(name: str, epsilon: float, key: jax.Array) -> tuning.TuningResult:
    training, rows, _ = tunings.problem(name)
    options = {"delta": tunings.DELTA, "key": key, "insecure_key": True}
    return tuning.tune_and_train(training, rows, tunings.settings_of(name), epsilon=epsilon, **options)


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    summary = {}
    for way in runs[0]:
        paid = [run[way]["paid"] for run in runs]
        tested = [run[way]["test error"] for run in runs if run[way]["reached"]]
        summary[way] = {
            "reached": np.mean([run[way]["reached"] for run in runs]),
            "paid, median": np.median(paid),
            "paid, mean": np.mean(paid),
            "test error": np.mean(tested) if tested else np.nan,
        }
    reached = [run for run in runs if run["least_epsilon"]["reached"]]
    pairs = [[run[way]["test error"] for run in reached] for way in ("least_epsilon", "fixed")]
    return summary | {"test error, least_epsilon - fixed": common.paired_difference(*map(np.array, pairs))}


def _show(results: dict[str, Any]) -> None:
    for name, result in results.items():
        print(f"\n{name}: error asked for {result['error asked for']:.4f}")
        rows = [(f"eta {law['eta']:g}, mean {law['mean']:g}", law) for law in result["laws"]]
        rows += [("factor 2", result["factor 2"])]
        rows += [(way, summary) for way, summary in result["summary"].items() if "reached" in summary]
        report.print_table(
            ("way", "reached", "paid, median", "paid, mean", "test error"),
            [
                (way, f"{numbers['reached']:.2f}", *(f"{numbers[kind]:.3g}" for kind in ("paid, median", "paid, mean")),
                 f"{numbers['test error']:.4f}")
                for way, numbers in rows
            ],
        )  # fmt: skip


def _picture(results: dict[str, Any]) -> Any:
    figure, axes = common.panels(1, len(results), squeeze=False, layout="constrained")
    for axis, (name, result) in zip(axes.ravel(), results.items(), strict=True):
        for level in LEVELS:
            axis.axvline(level, color="0.85", linewidth=0.8, zorder=0)
        axis.axhline(result["error asked for"], color="0.3", linewidth=0.8, linestyle="--", label="error asked for")
        for number, way in enumerate(("least_epsilon", "in turn", "fixed")):
            points = [run[way] for run in result["runs"] if run[way]["reached"]]
            paid, tested = [point["paid"] for point in points], [point["test error"] for point in points]
            face = "none" if way == "fixed" else f"C{number}"  # "fixed" lies on one of the levels
            axis.scatter(paid, tested, edgecolors=f"C{number}", facecolors=face, label=way, s=18)
        axis.set(title=name, xlabel="epsilon paid", ylabel="test error", xscale="log")
        axis.set_xticks(LEVELS, [f"{level:g}" for level in LEVELS])
        axis.minorticks_off()
    axes[0, 0].legend(frameon=False, fontsize=8)
    return figure

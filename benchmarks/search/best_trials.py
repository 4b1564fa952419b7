"""``scripts/bench best_trials``: the trial that ``PrivateStudy.best()`` answers, beside that of least noised value.

Twenty trials at random of a study in which a category decides whether a real or a whole number exists. The table shows
the exact mean loss of the answer above the least of all trials, and in how many studies the answer is a trial within
one deviation of the noise of the least. Losses were chosen by hand, so that the difference between trials is of the
size of the noise or far above it.
"""

from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import report

FIRST_SEED, SEEDS = 7800, 20
TRIALS, DELTA = 20, 1e-7
USERS = {"50,000 users, epsilon 3": (50_000, 3.0), "5,000 users, epsilon 1": (5_000, 1.0)}


def main(quick: bool) -> None:
    numbers = range(FIRST_SEED, FIRST_SEED + (2 if quick else SEEDS))
    results = {name: [_measure(seed, *case) for seed in tqdm(numbers, desc=name)] for name, case in USERS.items()}
    summary = {
        name: {
            "deviation": found[0]["deviation"],
            "regret of best()": float(np.mean([each["best"] for each in found])),
            "regret of the least noised value": float(np.mean([each["least noised"] for each in found])),
            "within a deviation": sum(each["best"] <= each["deviation"] for each in found),
            "least noised within a deviation": sum(each["least noised"] <= each["deviation"] for each in found),
            "of": len(found),
        }
        for name, found in results.items()
    }
    report.print_table(
        ("study", "noise", "regret of best()", "of the least noised value", "best() within the noise", "least noised"),
        [
            (name, f"{row['deviation']:.4f}", f"{row['regret of best()']:.4f}")
            + (f"{row['regret of the least noised value']:.4f}", f"{row['within a deviation']} of {row['of']}")
            + (f"{row['least noised within a deviation']} of {row['of']}",)
            for name, row in summary.items()
        ],
    )
    report.write_bench(
        "best_trials",
        {"studies": results, "summary": summary},
        quick=quick,
        seeds=[numbers.start, numbers.stop],
        noise="exact",
        dtype="float32",
        chosen={"trials": TRIALS, "delta": DELTA},
    )


def suggest(trial: Any) -> dict[str, Any]:
    if trial.suggest_categorical("kind", ["real", "whole"]) == "real":
        return {"kind": "real", "x": trial.suggest_float("x", 0, 1)}
    return {"kind": "whole", "depth": trial.suggest_int("depth", 1, 9)}


def losses_of(params: dict[str, Any], records: np.ndarray) -> np.ndarray:
    """Least at x of 0.9; depths lie between."""
    if params["kind"] == "real":
        return np.abs(records - params["x"]) / 2
    return np.clip(0.2 + 0.03 * params["depth"] + (records - 0.9), 0, 1)


def _measure(seed: int, users: int, epsilon: float) -> dict[str, float]:
    """How far the exact losses of two answers are above the least of all trials."""
    import optuna

    from jaxdpbo.integrations.optuna import private_study

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    records = np.clip(np.random.default_rng(seed).normal(0.9, 0.1, users), 0, 1)
    study = private_study(
        optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed)), suggest, losses_of, records,
        users=users, evaluations=TRIALS, loss_range=(0, 1), epsilon=epsilon, delta=DELTA,
    )  # fmt: skip
    study.optimize()

    def exact(params: dict[str, Any]) -> float:
        kind = {"kind": params["kind"]}
        return float(np.mean(losses_of(kind | params, records)))

    tried = [exact(trial.params) for trial in study.study.trials]
    least = min(tried)
    return {
        "best": exact(study.best().params) - least,
        "least noised": exact(study.study.best_trial.params) - least,
        "deviation": float(study.deviation),
    }

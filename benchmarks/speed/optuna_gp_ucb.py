"""A peer of ``scripts/bench gp_ucb``: Optuna's ``GPSampler``, refitted at every step."""

import time
import warnings

import numpy as np
import optuna

from benchmarks.speed import gp_ucb_problem as problem
from benchmarks.speed.worker import serve

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore")


def run(function: str, seed: int, evaluations: int) -> dict:
    """One run: its seconds and the values evaluated."""
    start = time.perf_counter()
    sought = problem.function(function)
    sampler = optuna.samplers.GPSampler(
        seed=seed,
        n_startup_trials=problem.INITIAL,
        deterministic_objective=True,  # as the functions are
    )
    study = optuna.create_study(sampler=sampler)
    sides = enumerate(zip(sought.lower, sought.upper, strict=True))
    box = {f"x{i}": optuna.distributions.FloatDistribution(low, high) for i, (low, high) in sides}
    values = []
    for point in problem.initial_points(function, seed):
        values.append(sought.value(point))
        params = dict(zip(box, point.tolist(), strict=True))
        study.add_trial(optuna.trial.create_trial(params=params, distributions=box, value=values[-1]))
    for _ in range(problem.INITIAL, evaluations):
        trial = study.ask(box)
        values.append(sought.value(np.array([trial.params[name] for name in box])))
        study.tell(trial, values[-1])
    return {"seconds": time.perf_counter() - start, "values": values}


if __name__ == "__main__":
    serve(run, version=f"Optuna {optuna.__version__}")

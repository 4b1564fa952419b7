"""The peer of ``scripts/bench dp_gp_ucb``: GP-UCB over candidates on scikit-learn, fixed hyper-parameters."""

import time

import numpy as np
import sklearn
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from benchmarks.speed import ucb_problem as problem
from benchmarks.speed.worker import serve


def run(seed: int) -> dict:
    """One run: seconds, the values seen, and by how much the best candidate beat the second at each step."""
    candidates, utilities = problem.candidates(), problem.utilities(seed)
    start = time.perf_counter()
    regressor = GaussianProcessRegressor(
        Matern(length_scale=problem.LENGTHSCALE, nu=2.5), alpha=problem.NOISE_VARIANCE, optimizer=None
    )
    rows, margins = [], []
    mean, deviation = np.zeros(len(candidates)), np.ones(len(candidates))
    for t in range(1, problem.STEPS + 1):
        heights = mean + np.sqrt(problem.width(t)) * deviation
        rows.append(int(np.argmax(heights)))
        margins.append(heights)
        regressor.fit(candidates[rows], utilities[rows])
        mean, deviation = regressor.predict(candidates, return_std=True)
    seconds = time.perf_counter() - start
    best, second = np.sort(margins, axis=1)[:, :-3:-1].T
    return {"seconds": seconds, "values": utilities[rows].tolist(), "margins": (best - second).tolist()}


if __name__ == "__main__":
    serve(run, version=f"scikit-learn {sklearn.__version__}")

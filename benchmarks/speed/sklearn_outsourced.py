"""The peer of ``scripts/bench po_gp_ucb``: the modeler's loop on scikit-learn, fixed hyper-parameters."""

import time

import numpy as np
import sklearn
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from benchmarks.speed import outsourced_problem as problem
from benchmarks.speed.worker import serve


def run(count: int, seed: int) -> dict:
    """One run over ``count`` rows: seconds, the rows asked for, and by how much each beat the second best."""
    z, outputs = problem.rows(count), problem.outputs(count, seed)
    start = time.perf_counter()
    regressor = GaussianProcessRegressor(
        RBF(length_scale=problem.LENGTHSCALE), alpha=problem.NOISE_VARIANCE, optimizer=None
    )
    picks, heights = [problem.first_row(count, seed)], [np.zeros(count)]
    for t in range(2, problem.STEPS + 1):
        regressor.fit(z[picks], outputs[picks])
        mean, deviation = regressor.predict(z, return_std=True)
        heights.append(mean + np.sqrt(problem.width(t, count)) * deviation)
        picks.append(int(np.argmax(heights[-1])))
    seconds = time.perf_counter() - start
    best, second = np.sort(heights[1:], axis=1)[:, :-3:-1].T
    return {"seconds": seconds, "picks": picks, "margins": [0.0, *(best - second).tolist()]}


if __name__ == "__main__":
    serve(run, version=f"scikit-learn {sklearn.__version__}")

"""A peer of ``scripts/bench log_ei``: LogEI and qLogEI on BoTorch, with its defaults."""

import time
import warnings

import botorch
import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood

from benchmarks.speed import log_ei_problem as problem
from benchmarks.speed.worker import serve

torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore")


def run(function: str, seed: int, evaluations: int, batch: int) -> dict:
    """One run: its seconds and the values evaluated, refitted at every step."""
    start = time.perf_counter()
    torch.manual_seed(seed)
    points = problem.initial_points(function, seed)
    values = [problem.value(function, point) for point in points]
    cube = torch.stack([torch.zeros(points.shape[1]), torch.ones(points.shape[1])])
    while len(values) < evaluations:
        x, y = torch.as_tensor(points), -torch.as_tensor(values)[:, None]
        model = SingleTaskGP(x, y, outcome_transform=Standardize(1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        best = y.max()
        if batch == 1:
            acquisition = LogExpectedImprovement(model, best_f=best)
        else:
            sampler = SobolQMCNormalSampler(torch.Size([128]), seed=seed)
            acquisition = qLogExpectedImprovement(model, best_f=best, sampler=sampler)
        candidates, _ = optimize_acqf(acquisition, bounds=cube, q=batch, num_restarts=10, raw_samples=512)
        points = np.vstack([points, candidates.numpy()])
        values += [problem.value(function, point) for point in candidates.numpy()]
    return {"seconds": time.perf_counter() - start, "values": values}


if __name__ == "__main__":
    serve(run, version=f"BoTorch {botorch.__version__}")

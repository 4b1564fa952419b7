"""The peer of ``scripts/bench dpareto``: the same loop on BoTorch, analytic EHVI, both processes refitted."""

import time
import warnings

import botorch
import numpy as np
import torch
from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.optim import optimize_acqf
from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning
from gpytorch.mlls import SumMarginalLogLikelihood

from benchmarks.speed import pareto_problem as problem
from benchmarks.speed.worker import serve

torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore")
CLIP = 1e-4


def transform_values(values: np.ndarray) -> np.ndarray:
    """``-log epsilon`` and ``-logit error``, which BoTorch maximises."""
    error = np.clip(values[..., 1], CLIP, 1 - CLIP)
    return -np.stack([np.log(values[..., 0]), np.log(error) - np.log1p(-error)], axis=-1)


def run(seed: int, proposals: int, threads: int) -> dict:
    """One search: seconds of the run, of each step, and its hypervolume."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    points = problem.seeds(seed)
    values = np.array([problem.objectives(point) for point in points])
    reference = torch.as_tensor(transform_values(np.array(problem.REFERENCE)))
    box = torch.stack([torch.zeros(problem.DIMENSION), torch.ones(problem.DIMENSION)])
    steps = []
    for _ in range(proposals):
        start = time.perf_counter()
        x, y = torch.as_tensor(points), torch.as_tensor(transform_values(values))
        model = ModelListGP(*(SingleTaskGP(x, y[:, i : i + 1], outcome_transform=Standardize(1)) for i in (0, 1)))
        fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
        partitioning = FastNondominatedPartitioning(ref_point=reference, Y=y)
        acquisition = ExpectedHypervolumeImprovement(model, ref_point=reference.tolist(), partitioning=partitioning)
        candidate, _ = optimize_acqf(acquisition, bounds=box, q=1, num_restarts=10, raw_samples=512)
        point = candidate[0].cpu().numpy()
        steps.append(time.perf_counter() - start)
        points = np.vstack([points, point])
        values = np.vstack([values, problem.objectives(point)])
    return {"seconds": sum(steps), "steps": steps, "volume": problem.volume(values)}


if __name__ == "__main__":
    serve(run, version=f"BoTorch {botorch.__version__}")

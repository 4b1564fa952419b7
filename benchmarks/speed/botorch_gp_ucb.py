"""A peer of ``scripts/bench gp_ucb``: the same loop on BoTorch, with the same schedule of ``beta``."""

import math
import time
import warnings

import botorch
import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from benchmarks.speed import gp_ucb_problem as problem
from benchmarks.speed.worker import serve

torch.set_default_dtype(torch.float64)
warnings.simplefilter("ignore")


def run(function: str, seed: int, evaluations: int, refit_every: int) -> dict:
    """One run: its seconds and the values evaluated. The model sees the unit cube, as BoTorch's priors expect."""
    start = time.perf_counter()
    torch.manual_seed(seed)
    sought = problem.function(function)
    lower, upper = np.array(sought.lower), np.array(sought.upper)
    points = (problem.initial_points(function, seed) - lower) / (upper - lower)
    values = [sought.value(lower + (upper - lower) * point) for point in points]
    cube, model = torch.stack([torch.zeros(len(lower)), torch.ones(len(lower))]), None
    for step in range(problem.INITIAL, evaluations):
        due = model is None or step % refit_every == 0
        model = _model(points, values, None if due else model)
        acquisition = UpperConfidenceBound(model, beta=0.2 * len(lower) * math.log(2 * (step + 1)))
        candidate, _ = optimize_acqf(acquisition, bounds=cube, q=1, num_restarts=10, raw_samples=512)
        points = np.vstack([points, candidate.numpy()])
        values.append(sought.value(lower + (upper - lower) * points[-1]))
    return {"seconds": time.perf_counter() - start, "values": values}


def _model(points: np.ndarray, values: list[float], before: SingleTaskGP | None) -> SingleTaskGP:
    """Fitted anew, or on more values with the numbers of the one before."""
    x, y = torch.as_tensor(points), -torch.as_tensor(values)[:, None]
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=x.shape[1], use_rbf_kernel=False)  # Matern 5/2
    parts = {"covar_module": kernel}
    if before is not None:
        parts = {part: getattr(before, part) for part in ("covar_module", "mean_module", "likelihood")}
    model = SingleTaskGP(x, y, outcome_transform=Standardize(1), **parts)
    if before is None:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


if __name__ == "__main__":
    serve(run, version=f"BoTorch {botorch.__version__}")

"""The peer of ``scripts/bench dp_gibo``: DP-GIBO as a BoTorch user would write it, and no slower than they could.

An acquisition function for ``optimize_acqf`` with its usual 5 restarts (batched) and 64 raw samples, the batch of ``b``
points optimised jointly; all earlier points are used, their covariance is factored once a step and shared by every
user, and only the block of the new points is factored inside the acquisition. Gradients by autograd, L-BFGS-B by SciPy,
as BoTorch does. Same kernel, noise variance (the only jitter), clip, noise and AdaGrad as ours.
"""

import math
import time
import warnings

import botorch
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf

from benchmarks.speed import gibo_problem as problem
from benchmarks.speed.worker import serve

warnings.filterwarnings("ignore")  # L-BFGS-B's iteration limit, BoTorch's advice on scaling


def gram(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The squared-exponential kernel with unit lengthscales: ``(..., p, d), (..., q, d) -> (..., p, q)``."""
    squared = x.square().sum(-1)[..., :, None] + y.square().sum(-1)[..., None, :] - 2 * x @ y.mT
    return torch.exp(-0.5 * squared.clamp_min(0))


class GradientInformation(AcquisitionFunction):
    """``Tr(C S^-1 C^T)``: by how much a batch lowers the trace of the gradient's covariance at ``theta``."""

    def __init__(self, theta: torch.Tensor, observed: torch.Tensor, noise_variance: float):
        super().__init__(model=None)
        self.theta, self.observed, self.noise_variance = theta, observed, noise_variance
        self.factor = torch.linalg.cholesky(gram(observed, observed) + noise_variance * torch.eye(len(observed)))
        self.half = torch.linalg.solve_triangular(self.factor, self.cross(observed), upper=False)  # (m, d)

    def cross(self, points: torch.Tensor) -> torch.Tensor:
        """``grad_theta k(theta, points)``, transposed: ``(..., p, d)``."""
        return gram(points, self.theta[None]) * (points - self.theta)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        solved = torch.linalg.solve_triangular(self.factor, gram(self.observed, X), upper=False)
        cross = self.cross(X) - solved.mT @ self.half
        block = gram(X, X) + self.noise_variance * torch.eye(X.shape[-2]) - solved.mT @ solved
        return torch.linalg.solve_triangular(torch.linalg.cholesky(block), cross, upper=False).square().sum((-2, -1))


def run(seed: int, threads: int) -> dict:
    """One run: seconds, the final mean loss, and the mean trace on the way."""
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    data = torch.as_tensor(problem.records())
    start = time.perf_counter()
    mu, clip_norm, noise_variance = (problem.SETTINGS[name] for name in ("mu", "clip_norm", "noise_variance"))
    deviation = 2 * clip_norm * math.sqrt(problem.STEPS) / (problem.USERS * mu)
    reach, half_width = problem.SETTINGS["lengthscale"], problem.SETTINGS["half_width"]
    theta = torch.nn.Parameter(torch.zeros(problem.DIMENSION))
    optimizer = torch.optim.Adagrad([theta], lr=problem.SETTINGS["step_size"], initial_accumulator_value=0.1, eps=1e-7)
    points, losses = torch.zeros(0, problem.DIMENSION), torch.zeros(0, problem.USERS)
    traces = []
    for _ in range(problem.STEPS):
        centre = theta.detach().clone()
        # Farther than a lengthscale a point tells nothing, and raw samples there leave L-BFGS-B without a slope.
        near = torch.stack([centre - reach, centre + reach]).clamp(-half_width, half_width)
        acquisition = GradientInformation(centre, points, noise_variance)
        new, _ = optimize_acqf(acquisition, near, q=problem.BATCH, num_restarts=5, raw_samples=64)
        points, losses = torch.cat([points, new]), torch.cat([losses, loss(new[:, None], data)])
        posterior = GradientInformation(centre, points, noise_variance)
        traces.append(problem.DIMENSION - float(posterior.half.square().sum()))
        weights = torch.linalg.solve_triangular(posterior.factor.mT, posterior.half, upper=True)
        gradients = weights.T @ losses  # (d, n)
        gradients = gradients * (clip_norm / gradients.norm(dim=0)).clamp_max(1)
        theta.grad = gradients.mean(1) + deviation * torch.randn(problem.DIMENSION)
        optimizer.step()
        with torch.no_grad():
            theta.clamp_(-half_width, half_width)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "loss": float(loss(theta.detach(), data).mean()), "trace": sum(traces) / len(traces)}


def loss(point: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    return (1 + (data - point).square().sum(-1)).sqrt() - 1


if __name__ == "__main__":
    serve(run, version=f"BoTorch {botorch.__version__}, PyTorch {torch.__version__}")

"""The peer of ``scripts/bench dp_sgd``: Opacus, on the same logistic regression, from Python a step at a time.

Its batches are drawn with replacement here, which costs less than the batches of either accountant.
"""

import time
import warnings
from functools import cache

import numpy as np
import opacus
import torch
from opacus.optimizers import DPOptimizer

from benchmarks.speed import sgd_problem as problem
from benchmarks.speed.worker import serve

warnings.filterwarnings("ignore", "Full backward hook")  # said of every model whose input needs no gradient


@cache
def records():
    features, labels = problem.records()
    return torch.from_numpy(features), torch.from_numpy(labels.astype(np.float32))


def train(batch: int, steps: int, seed: int, threads: int) -> dict:
    """Seconds of one training, and its accuracy on what it was trained on."""
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    features, labels = records()
    linear = torch.nn.Linear(problem.FEATURES, 1)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    model = opacus.GradSampleModule(linear)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=problem.LEARNING_RATE),
        noise_multiplier=2 * problem.NOISE_MULTIPLIER,  # of the clip norm, not of twice that
        max_grad_norm=problem.CLIP_NORM,
        expected_batch_size=batch,
    )
    loss = torch.nn.BCEWithLogitsLoss()
    start = time.perf_counter()
    for _ in range(steps):
        rows = torch.randint(problem.RECORDS, (batch,))
        optimizer.zero_grad()
        loss(model(features[rows])[:, 0], labels[rows]).backward()
        optimizer.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        accuracy = float(((linear(features)[:, 0] > 0) == (labels > 0)).float().mean())
    return {"seconds": seconds, "accuracy": accuracy}


if __name__ == "__main__":
    serve(train, version=f"Opacus {opacus.__version__}, torch {torch.__version__}")

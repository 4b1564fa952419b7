"""What ``scripts/bench gpu`` times: each row prepares a call on the default device, and runs it."""

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import gpu_problem as problem
from benchmarks.speed import ours_pareto, ours_sgd
from benchmarks.speed.ours_gibo import loss
from jaxdpbo import dp_gibo, drivers
from jaxdpbo.noise import clipping


class Timed(NamedTuple):
    """A row: ``prepare()`` moves what is needed to the default device and returns the call to time."""

    name: str
    prepare: Callable[[], Callable[[], Any]]
    double: bool = False


def timings(quick: bool) -> Iterator[Timed]:
    """The shorter ones first, so that they are measured even if the time ends."""
    few, many = (
        [Timed(f"a sweep of DP-GIBO, {seeds:,} seeds", lambda seeds=seeds: sweep(seeds)) for seeds in of]
        for of in zip(problem.SWEEPS[quick], strict=True)
    )
    first, second = (
        [Timed(f"clipped gradients of {users:,} users", lambda users=users: gradients(users)) for users in of]
        for of in zip(problem.GRADIENTS[quick], strict=True)
    )
    yield from (*few, *first)
    settings = problem.SETTINGS[quick]
    yield Timed(
        f"DP-SGD, {settings} setting(s) of {ours_sgd.problem.REPEATS} trainings", lambda: training(settings, quick)
    )
    yield Timed(f"DPareto, {problem.FRONT[quick]} proposals", lambda: front(problem.FRONT[quick]), double=True)
    yield from (*many, *second)


def sweep(seeds: int) -> Callable[[], Any]:
    swept = problem.SWEPT
    data = jnp.asarray(np.random.default_rng(0).normal(1.0, 1.0, (swept.users, swept.dimension)))
    bounds = [(-3.0, 3.0)] * swept.dimension
    config = dp_gibo.config(users=swept.users, steps=swept.steps, mu=1.0, step_size=0.5, bounds=bounds)
    execution = {"key": jax.random.key(0)}
    return lambda: drivers.sweep(dp_gibo.algorithm, loss, data, config, seeds=seeds, **execution).release.point


def gradients(users: int) -> Callable[[], Any]:
    weights = jax.random.normal(jax.random.key(0), (problem.POINTS, problem.DIMENSION), jnp.float32)
    losses = jax.block_until_ready(jax.random.normal(jax.random.key(1), (problem.POINTS, users), jnp.float32))
    total = jax.jit(clipping.weighted_clipped_sum)
    return lambda: total(weights, losses, jnp.float32(1.0), jnp.int32(problem.RADIUS))


def training(settings: int, padded: bool) -> Callable[[], Any]:
    """``padded``: with one loop to compile, for a batch of any size."""
    ours_sgd.records.cache_clear()  # from another device
    return lambda: ours_sgd.sweep(settings=settings, seed=0, most_epochs=1, padded=padded)


def front(proposals: int) -> Callable[[], Any]:
    return lambda: ours_pareto.run(0, proposals)


def botorch_unavailable() -> str:
    """Why there is no peer on this GPU; empty where there is."""
    if importlib.util.find_spec("botorch") is None:
        return "BoTorch is not installed"
    import torch

    return "" if torch.cuda.is_available() else "PyTorch sees no GPU"


def botorch_front(proposals: int) -> tuple[float, str]:
    """Seconds of the same search on BoTorch on the GPU, and its version."""
    import torch

    from benchmarks.speed import botorch_pareto as peer

    torch.set_default_device("cuda")
    peer.run(0, 2, threads=1)  # what a first call sets up
    return peer.run(0, proposals, threads=1)["seconds"], f"BoTorch {peer.botorch.__version__}"

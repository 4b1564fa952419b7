"""Every algorithm in one table: the protocol suite runs over it, and a new algorithm is one more row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdpbo.algorithms import dp_gibo, random_search
from jaxdpbo.types import Algorithm

USERS, STEPS, DIMENSION = 6, 3, 2
BOUNDS = np.array([[-2.0, -1.0], [2.0, 3.0]])


class Case(NamedTuple):
    """``config(scale)``: same static sizes, other numbers; ``private``: it claims a guarantee."""

    algorithm: Algorithm
    config: Callable[[float], Any]
    private: bool


def loss(point, data):
    """Per-user losses ``(n,)`` that touch only ``data[i]``."""
    return jnp.sum(jnp.square(data - point[None]), axis=1) * 0.2


def records(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(USERS, DIMENSION))


def _gibo(**static):
    def config(scale: float):
        return dp_gibo.config(
            users=USERS, steps=STEPS, bounds=BOUNDS * scale, mu=scale, step_size=0.3 * scale, clip_norm=0.5 * scale,
            noise_variance=1e-4 * scale, polish_steps=2, **({"batch": 3} | static),
        )  # fmt: skip

    return config


def _random(scale: float):
    return random_search.config(users=USERS, steps=STEPS, batch=2, bounds=BOUNDS * scale)


CASES = {
    "dp_gibo": Case(dp_gibo.algorithm, _gibo(), True),
    "dp_gibo, few points": Case(dp_gibo.algorithm, _gibo(batch=1, output="last_half_mean"), True),
    "dp_gibo, adaptive": Case(dp_gibo.algorithm, _gibo(tolerance=0.05), True),
    "dp_gibo, nearest": Case(dp_gibo.algorithm, _gibo(memory="nearest", neighbours=2), True),
    "dp_gibo, none": Case(dp_gibo.algorithm, _gibo(memory="none"), True),
    "random_search": Case(random_search.algorithm, _random, False),
}

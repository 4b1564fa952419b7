"""Every algorithm in one table: the protocol suite runs over it, and a new algorithm is one more row."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxdpbo.algorithms import dp_gd, dp_gibo, gp_ucb, random_search
from jaxdpbo.types import Algorithm, Objective

USERS, STEPS, DIMENSION = 6, 3, 2
BOUNDS = np.array([[-2.0, -1.0], [2.0, 3.0]])


def loss(point, data):
    """Per-user losses ``(n,)`` that touch only ``data[i]``."""
    return jnp.sum(jnp.square(data - point[None]), axis=1) * 0.2


def utility(point, data):
    """One number ``()``, to be maximised."""
    return -jnp.mean(loss(point, data))


class Case(NamedTuple):
    """``config(scale)``: same static sizes, other numbers.

    ``private``: it claims a guarantee. ``draws``: two keys give two answers. ``shape``: of the values at one point.
    """

    algorithm: Algorithm
    config: Callable[[float], Any]
    private: bool
    draws: bool = True
    objective: Objective = loss
    shape: tuple[int, ...] = (USERS,)


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


def _ucb(**static):
    box = {} if "candidates" in static else {"bounds": BOUNDS}

    def config(scale: float):
        places = {name: value * scale for name, value in static.items() if name == "candidates"}
        boxes = {name: value * scale for name, value in box.items()}
        options = {"steps": STEPS, "noise_variance": 1e-3 * scale, "scatter": 8, "starts": 1, "climb_steps": 1}
        return gp_ucb.config(**(options | static | places | boxes))

    return config


def _gradient(scale: float):
    return dp_gd.config(
        users=USERS, steps=STEPS, bounds=BOUNDS * scale, mu=scale, step_size=0.3 * scale, clip_norm=0.5 * scale
    )


CANDIDATES = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * np.random.default_rng(5).uniform(size=(9, DIMENSION))
SCALAR = {"objective": utility, "shape": ()}
CASES = {
    "dp_gibo": Case(dp_gibo.algorithm, _gibo(), True),
    "dp_gibo, few points": Case(dp_gibo.algorithm, _gibo(batch=1, output="last_half_mean"), True),
    "dp_gibo, adaptive": Case(dp_gibo.algorithm, _gibo(tolerance=0.05), True),
    "dp_gibo, nearest": Case(dp_gibo.algorithm, _gibo(memory="nearest", neighbours=2), True),
    "dp_gibo, none": Case(dp_gibo.algorithm, _gibo(memory="none"), True),
    "dp_gd": Case(dp_gd.algorithm, _gradient, True, objective=dp_gd.gradients_of(loss), shape=(DIMENSION, USERS)),
    "gp_ucb, box": Case(gp_ucb.algorithm, _ucb(), False, False, **SCALAR),
    "gp_ucb, box, users, refit": Case(gp_ucb.algorithm, _ucb(users=USERS, refit_every=2, fit_steps=1), False, False),
    "gp_ucb, candidates": Case(gp_ucb.algorithm, _ucb(candidates=CANDIDATES), False, False, **SCALAR),
    "random_search": Case(random_search.algorithm, _random, False),
}

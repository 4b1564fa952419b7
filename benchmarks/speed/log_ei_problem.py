"""The problems of ``scripts/bench log_ei``: four functions to be minimised over a box, without noise. NumPy only."""

import math

import numpy as np

from benchmarks.speed import gp_ucb_problem
from benchmarks.speed.gp_ucb_problem import Function

NAMES = ("Branin", "Hartmann-6", "Ackley-10", "Cosine-8")
EVALUATIONS, INITIAL = 60, 20  # of all sides: the first ones are drawn, the same for all
BATCHES = (1, 4)  # points a step
REFIT_EVERY = 1  # steps, on all sides
ACKLEY_SIDE = 32.768


def ackley(x: np.ndarray) -> float:
    near = -20 * math.exp(-0.2 * math.sqrt(float(np.mean(np.square(x)))))
    return near - math.exp(float(np.mean(np.cos(2 * math.pi * x)))) + 20 + math.e


def cosine(x: np.ndarray) -> float:
    return float(np.sum(np.square(x)) - 0.1 * np.sum(np.cos(5 * math.pi * x)))


def function(name: str) -> Function:
    own = {
        "Ackley-10": Function(ackley, 0.0, (-ACKLEY_SIDE,) * 10, (ACKLEY_SIDE,) * 10),
        "Cosine-8": Function(cosine, -0.8, (-1.0,) * 8, (1.0,) * 8),
    }
    return own[name] if name in own else gp_ucb_problem.function(name)


def initial_points(name: str, seed: int) -> np.ndarray:
    """``(INITIAL, d)``, uniform in the unit cube: a seed's first evaluations, on every side."""
    return np.random.default_rng([seed, NAMES.index(name)]).uniform(size=(INITIAL, len(function(name).lower)))


def value(name: str, unit: np.ndarray) -> float:
    """The function at a point of the unit cube."""
    sought = function(name)
    lower, upper = np.array(sought.lower), np.array(sought.upper)
    return sought.value(lower + (upper - lower) * unit)


def regret(name: str, values: list[float]) -> float:
    """Of the best value evaluated."""
    return min(values) - function(name).smallest

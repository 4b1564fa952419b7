"""The problems of ``scripts/bench gp_ucb``: four functions to be minimised over a box, without noise. NumPy only."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

NAMES = ("Branin", "Hartmann-3", "Rosenbrock-4", "Hartmann-6")  # d = 2, 3, 4, 6
EVALUATIONS, INITIAL = 50, 10  # of all sides: the first ones are drawn, the same for all
REFIT_EVERY = 5  # evaluations, of ours and of BoTorch where it does not refit at every one
HARTMANN_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
HARTMANN_3 = (
    ((3.0, 10.0, 30.0), (0.1, 10.0, 35.0), (3.0, 10.0, 30.0), (0.1, 10.0, 35.0)),
    ((3689, 1170, 2673), (4699, 4387, 7470), (1091, 8732, 5547), (381, 5743, 8828)),
)
HARTMANN_6 = (
    (
        (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
        (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
        (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
        (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
    ),
    (
        (1312, 1696, 5569, 124, 8283, 5886),
        (2329, 4135, 8307, 3736, 1004, 9991),
        (2348, 1451, 3522, 2883, 3047, 6650),
        (4047, 8828, 8732, 5743, 1091, 381),
    ),
)
HARTMANN_PLACES_PER_UNIT = 1e4


class Function(NamedTuple):
    """``value (d,) -> float``, its smallest value in the box, and the box's corners ``(d,)``."""

    value: Callable[[np.ndarray], float]
    smallest: float
    lower: tuple[float, ...]
    upper: tuple[float, ...]


def branin(x: np.ndarray) -> float:
    bowl = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return float(bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10)


def hartmann_3(x: np.ndarray) -> float:
    return _hartmann(x, *HARTMANN_3)


def hartmann_6(x: np.ndarray) -> float:
    return _hartmann(x, *HARTMANN_6)


def rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def function(name: str) -> Function:
    return {
        "Branin": Function(branin, 0.397887357729738, (-5.0, 0.0), (10.0, 15.0)),
        "Hartmann-3": Function(hartmann_3, -3.862779787332663, (0.0,) * 3, (1.0,) * 3),
        "Rosenbrock-4": Function(rosenbrock, 0.0, (-5.0,) * 4, (10.0,) * 4),
        "Hartmann-6": Function(hartmann_6, -3.322368011415515, (0.0,) * 6, (1.0,) * 6),
    }[name]


def initial_points(name: str, seed: int) -> np.ndarray:
    """``(INITIAL, d)``, uniform in the box: a seed's first evaluations, on every side."""
    lower, upper = (np.array(corner) for corner in function(name)[2:])
    return np.random.default_rng([seed, NAMES.index(name)]).uniform(lower, upper, (INITIAL, len(lower)))


def regret(name: str, values: list[float]) -> float:
    """Of the best value evaluated."""
    return min(values) - function(name).smallest


def _hartmann(x: np.ndarray, scales: tuple, places: tuple) -> float:
    far = np.sum(np.array(scales) * (x - np.array(places) / HARTMANN_PLACES_PER_UNIT) ** 2, axis=1)
    return -float(np.dot(HARTMANN_WEIGHTS, np.exp(-far)))

"""A free oracle of privacy and utility over five hyper-parameters in the unit cube. NumPy and plain arithmetic."""

import math

import numpy as np

DIMENSION, SEEDS, PROPOSALS = 5, 16, 256
REFERENCE = (10.0, 0.999)
BEST = (0.5, 0.3, 0.6, 0.5, 0.4)  # the first is the trade-off; the others have a best value


def log_epsilon_and_logit(unit, squared):
    """From a point of coordinates, and the squared distance of the last four from their best: two smooth trends."""
    noise, lost = unit[0], squared
    log_epsilon = 3.0 - 6.0 * noise + 1.2 * lost
    return log_epsilon, -2.2 + 3.4 * noise * noise + 2.5 * lost


def objectives(unit: np.ndarray) -> tuple[float, float]:
    """Epsilon and error."""
    squared = float(np.sum((unit[1:] - np.array(BEST[1:])) ** 2))
    log_epsilon, logit = log_epsilon_and_logit(unit, squared)
    return math.exp(log_epsilon), 1 / (1 + math.exp(-logit))


def seeds(seed: int) -> np.ndarray:
    """``(16, 5)`` uniform."""
    return np.random.default_rng([seed, 4]).uniform(size=(SEEDS, DIMENSION))


def volume(values: np.ndarray) -> float:
    """Between the front of ``values (k, 2)`` and the reference."""
    inside = values[np.all(values < REFERENCE, axis=1)]
    inside, total, lowest = inside[np.argsort(inside[:, 0])], 0.0, REFERENCE[1]
    for epsilon, error in inside:
        if error < lowest:
            total += (REFERENCE[0] - epsilon) * (lowest - error)
            lowest = error
    return total

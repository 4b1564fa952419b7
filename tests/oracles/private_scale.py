"""What a noisy bisection finds, outcome by outcome: each path through it, and how likely it is."""

import numpy as np
from scipy.special import ndtr


def probabilities(numbers: np.ndarray, deviation: float, low: int = -40, high: int = 40) -> dict[int, float]:
    """Of each exponent, for noise of this ``deviation`` on every count; the rounding of integers left out."""
    found: dict[int, float] = {}

    def walk(low, high, chance, left):
        if left == 0:
            found[high] = found.get(high, 0.0) + chance
            return
        middle = (low + high) // 2
        counted = sum(number <= 2.0**middle for number in numbers)
        enough = ndtr((counted - len(numbers) / 2) / deviation)
        walk(low, middle, chance * enough, left - 1)
        walk(min(middle + 1, high), high, chance * (1 - enough), left - 1)

    walk(low, high, 1.0, 7)
    return found

"""What attacks attain on Gaussian noise and choices, by NumPy and SciPy alone, apart from the package's accounting.

The draws themselves are priced by ``jaxdpbo.testing.draw_costs``, which shares no code with the accounting either.
"""

import numpy as np
from scipy.stats import norm


def delta_of(level, epsilon, total_variation=0.0):
    """The least delta of a mechanism of that Gaussian level, of which each world is that far from the ideal one.

    Dong et al. 2022, corollary 1. An event of the real world ``x`` has at most ``P(ideal x) + tv``, and
    ``P(ideal y) <= P(real y) + tv``, which ``e^epsilon`` multiplies: ``(1 + e^epsilon) tv`` together.
    """
    grown = np.exp(epsilon)
    ideal = norm.cdf(level / 2 - epsilon / level) - grown * norm.cdf(-level / 2 - epsilon / level)
    return float(ideal + (1 + grown) * total_variation)


def epsilon_at(level, delta):
    """The epsilon at which a Gaussian level has a delta."""
    low, high = 0.0, 200.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(level, middle) > delta else (low, middle)
    return high


def attained_epsilon(level, etas, delta, step=2.0**-10):
    """The largest epsilon at ``delta`` that an adaptive attack shows of choices of these ranges and a Gaussian level.

    In every choice the attacker takes the pair of log-ratios ``up`` and ``up - eta`` that is worst for what is left
    (Dong, Durfee and Rogers 2020). On a lattice that holds every ``up``, nothing is interpolated.
    """
    spans = [int(eta / step + 1e-9) for eta in etas]
    first, last = -sum(spans), int(8 * (level + 1) / step) + 2 * sum(spans)
    epsilons = step * np.arange(first, last + 1)
    if level:
        deltas = norm.cdf(level / 2 - epsilons / level) - np.exp(epsilons) * norm.cdf(-level / 2 - epsilons / level)
    else:
        deltas = np.maximum(0.0, -np.expm1(epsilons))
    for span in spans:
        ups = step * np.arange(1, span)
        chances = np.expm1(span * step - ups) / (np.exp(span * step - ups) - np.exp(-ups))
        inside = len(deltas) - 2 * span
        worst = np.zeros(inside)
        for up, chance in enumerate(chances, start=1):  # the loss is up, or up - span
            lower, higher = deltas[span - up :][:inside], deltas[2 * span - up :][:inside]
            worst = np.maximum(worst, chance * lower + (1 - chance) * higher)
        deltas, epsilons = worst, epsilons[span : span + inside]
    return float(np.max(epsilons[deltas > delta], initial=0.0))

"""DP-SGD with batches without replacement by enumeration: every batch, every choice of gradients, and plain
integration.

A mixture is ``(weights, means)`` of normals of deviation 1.
"""

import itertools
import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def step_profile(rate: float, z: float, epsilon: float) -> float:
    """``sup delta`` of one step at ``epsilon >= 0``: all other gradients are at one end, the record's at both."""
    far = 1 / z + 12

    def surplus(x):
        above = (1 - rate) * norm.pdf(x) + rate * norm.pdf(x - 1 / z)
        return max(above - math.exp(epsilon) * norm.pdf(x), 0.0)

    kink = z * math.log1p(math.expm1(epsilon) / rate) + 0.5 / z
    return sum(quad(surplus, low, high, limit=200, epsabs=1e-13)[0] for low, high in ((-12, kink), (kink, kink + far)))


def renyi(rate: float, z: float, order: float) -> float:
    """``log E_Q (P / Q)^a / (a - 1)`` of the pair that dominates a step, from its densities."""
    mu = 1 / z

    def loss(w):
        return math.log1p(rate * math.expm1(mu * w - mu * mu / 2))

    def tilted(w):
        return norm.pdf(w) * (math.exp(order * loss(w)) + math.exp((1 - order) * loss(w)))

    atom = (1 - rate) * (2 * norm.cdf(mu / 2) - 1)
    return math.log(quad(tilted, mu / 2, order * mu + 14, limit=400)[0] + atom) / (order - 1)


def choices(records: int, batch: int, z: float, values: tuple[float, ...] = (-1.0, 0.0, 1.0)):
    """Every pair of mixtures that one step on neighbouring data sets can be; clip norm 1, record 0 is replaced."""
    batches = list(itertools.combinations(range(records), batch))
    unit = z * 2 / batch  # the noise's deviation
    for own, other, *rest in itertools.product(values, repeat=records + 1):
        pair = []
        for first in (own, other):
            gradients = np.array([first, *rest])
            means = np.array([gradients[list(one)].mean() for one in batches]) / unit
            pair.append((np.full(len(batches), 1 / len(batches)), means))
        yield tuple(pair)


def composed_delta(pairs, epsilon: float, nodes: int = 1201) -> float:
    """``int max(P - e^epsilon Q, 0)`` of one or two independent steps, by the trapezoidal rule."""
    ends = [max(abs(mean).max() for _, mean in pair) + 9 for pair in pairs]
    axes = [np.linspace(-end, end, nodes) for end in ends]
    first, second = (
        [
            sum(w * norm.pdf(axis - m) for w, m in zip(*pair[side], strict=True))
            for pair, axis in zip(pairs, axes, strict=True)
        ]
        for side in (0, 1)
    )
    joint = [one[0] if len(one) == 1 else np.multiply.outer(*one) for one in (first, second)]
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    return float(np.maximum(joint[0] - math.exp(epsilon) * joint[1], 0).sum() * cell)

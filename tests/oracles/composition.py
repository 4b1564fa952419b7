"""Compositions by enumeration: finite pairs outcome by outcome, and Gaussian ones by plain integration.

A pair is two probability vectors; a profile is a function of ``epsilon``, any sign.
"""

import math
from itertools import product

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def hockey_stick(first, second, epsilon: float) -> float:
    """``sum max(0, P - e^epsilon Q)``."""
    return float(np.sum(np.maximum(np.asarray(first) - math.exp(epsilon) * np.asarray(second), 0.0)))


def either(first, second, epsilon: float) -> float:
    """The larger of both directions."""
    return max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))


def composed(pairs) -> tuple[np.ndarray, np.ndarray]:
    """The product of pairs, every outcome of all of them."""
    first, second = np.ones(1), np.ones(1)
    for p, q in pairs:
        first, second = np.multiply.outer(first, p).ravel(), np.multiply.outer(second, q).ravel()
    return first, second


def chosen(pair, options) -> tuple[np.ndarray, np.ndarray]:
    """A pair and then the option of the same place as its outcome."""
    p, q = pair
    first = np.concatenate([p[place] * np.asarray(option[0]) for place, option in enumerate(options)])
    second = np.concatenate([q[place] * np.asarray(option[1]) for place, option in enumerate(options)])
    return first, second


def response(epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Randomised response: the pair that dominates all of pure ``epsilon``."""
    yes = 1 / (1 + math.exp(-epsilon))
    return np.array([yes, 1 - yes]), np.array([1 - yes, yes])


def responses(epsilon: float, times: int, level: float) -> float:
    """``delta`` at ``level`` of ``times`` randomised responses (Kairouz, Oh and Viswanath 2015, theorem 3.3)."""
    found = 0.0
    for heads in range(times + 1):
        above = math.exp(heads * epsilon) - math.exp(level + (times - heads) * epsilon)
        found += math.comb(times, heads) * max(above, 0.0)
    return found / (1 + math.exp(epsilon)) ** times


def gaussian(mu: float, epsilon: float) -> float:
    """Of ``N(mu, 1)`` and ``N(0, 1)``, any sign of ``epsilon``."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


def gaussian_after(mu: float, pairs, epsilon: float) -> float:
    """A Gaussian mechanism and finite pairs: the mean over their outcomes."""
    first, second = composed(pairs)
    return sum(p * gaussian(mu, epsilon - math.log(p / q)) for p, q in zip(first, second, strict=True))


def gaussian_after_steps(mu: float, rate: float, z: float, steps: int, epsilon: float, nodes: int = 400) -> float:
    """A Gaussian mechanism, and steps of the sampled Gaussian's symmetric pair by a lattice of its losses.

    The pair: an atom at 0, and ``+-log(1 + q (e^t - 1))``, ``t = w / z - 1 / (2 z^2)``, at places ``w > 1 / (2 z)``.
    """
    edges = np.linspace(0.5 / z, 1 / z + 8.5, nodes + 1)
    w = (edges[1:] + edges[:-1]) / 2
    width = edges[1] - edges[0]
    loss = np.log1p(rate * np.expm1(w / z - 0.5 / z**2))
    above, below = ((1 - rate) * norm.pdf(w) + rate * norm.pdf(w - 1 / z)) * width, norm.pdf(w) * width
    atom = (1 - rate) * (2 * norm.cdf(0.5 / z) - 1)
    losses, masses = np.concatenate([loss, -loss, [0.0]]), np.concatenate([above, below, [atom]])
    found = 0.0
    for places in product(range(len(losses)), repeat=steps - 1):
        known = sum(losses[place] for place in places)
        mass = math.prod(masses[place] for place in places)
        left = epsilon - known - losses
        values = norm.cdf(mu / 2 - left / mu) - np.exp(left) * norm.cdf(-mu / 2 - left / mu)
        found += mass * float(masses @ values)
    return found


def range_profile(eta: float, epsilon: float, count: int = 20_001) -> float:
    """The largest over binary pairs whose log-ratios are ``t`` and ``t - eta``, both directions."""
    t = np.linspace(0, eta, count)[1:-1]
    q = -np.expm1(t - eta) / (np.exp(t) - np.exp(t - eta))
    p = q * np.exp(t)
    factor = math.exp(epsilon)
    ways = [np.maximum(a - factor * b, 0) + np.maximum((1 - a) - factor * (1 - b), 0) for a, b in ((p, q), (q, p))]
    return float(np.max(ways))


def laplace_twice(scale: float, epsilon: float) -> float:
    """Two Laplace mechanisms of sensitivity 1: for an add-or-remove profile that is not the Gaussian's."""

    def density(x, at):
        return math.exp(-abs(x - at) / scale) / (2 * scale)

    def inner(x):
        loss = (abs(x) - abs(x - 1)) / scale
        left = epsilon - loss
        bound = 1 / scale
        if left >= bound:
            return 0.0
        if left <= -bound:
            return -math.expm1(left)
        return -math.expm1((left - bound) / 2)

    return quad(lambda x: density(x, 1) * inner(x), -40 * scale, 1 + 40 * scale, points=[0, 1], limit=400)[0]

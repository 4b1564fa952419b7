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


def bin_of(rate: float, z: float, left: float, right: float) -> tuple[float, float]:
    """Of the losses between two places: the mass, and the integral of ``1 - e^(l - L)``, ``l`` the loss at the left."""
    mu = 1 / z

    def density(w):
        return (1 - rate) * norm.pdf(w) + rate * norm.pdf(w - mu)

    def moved(w):
        return density(w) * -math.expm1(loss_at(rate, mu, left) - loss_at(rate, mu, w))

    return tuple(quad(f, left, right, epsabs=0, epsrel=1e-13, limit=200)[0] for f in (density, moved))


def loss_at(rate: float, mu: float, w: float) -> float:
    """Of the pair that dominates a step."""
    return math.log1p(rate * math.expm1(mu * w - mu * mu / 2))


def deviation(rate: float, z: float) -> float:
    """Of one step's loss."""
    mu = 1 / z
    first, second = (
        quad(
            lambda w, power=power: (
                loss_at(rate, mu, w) ** power
                * ((1 - rate + (-1) ** power) * norm.pdf(w) + rate * norm.pdf(w - mu))
            ),
            mu / 2, mu + 12, limit=500, points=[mu], epsabs=0, epsrel=1e-11,
        )[0]
        for power in (1, 2)
    )  # fmt: skip
    return math.sqrt(second - first**2)


def epsilon_on_grid(rate: float, z: float, steps: int, step: float, delta: float) -> float:
    """Of so many steps, each loss split between its neighbours on the grid; all losses added, nothing cut off."""
    mu = 1 / z
    count = math.ceil(loss_at(rate, mu, mu + 9) / step)
    places = [mu / 2 + math.log1p(math.expm1(step * k) / rate) / mu for k in range(count + 1)]
    positive = np.zeros(count + 1)
    for k in range(count):
        mass, moved = bin_of(rate, z, places[k], places[k + 1])
        positive[k + 1] += moved / -math.expm1(-step)
        positive[k] += mass - moved / -math.expm1(-step)
    negative = positive * np.exp(-step * np.arange(count + 1))
    middle = positive[0] + negative[0] + (1 - rate) * (2 * norm.cdf(mu / 2) - 1)
    total, centre = summed([(np.concatenate([negative[:0:-1], [middle], positive[1:]]), steps)])
    losses = step * (np.arange(len(total)) - centre)
    low, high = 0.0, losses[-1]
    while high - low > 1e-12 * high:
        half = (low + high) / 2
        above = losses > half
        left = total[above] @ -np.expm1(half - losses[above])
        low, high = (half, high) if left > delta else (low, half)
    return high


def summed(parts) -> tuple[np.ndarray, int]:
    """The masses of a sum of independent losses, ``times`` of each, on the whole grid that it can reach; its middle."""
    reach = sum(times * (len(mass) // 2) for mass, times in parts)
    transform = 1.0
    for mass, times in parts:
        half = len(mass) // 2
        circle = np.zeros(2 * reach + 1)
        np.add.at(circle, np.arange(-half, half + 1), mass)
        transform = transform * np.fft.fft(circle) ** times
    return np.fft.fftshift(np.fft.ifft(transform).real), reach

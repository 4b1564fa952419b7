"""DP-SGD with batches of fixed size: every step a fresh uniform ``m`` of ``n`` records, without replacement.
Replace-one.

A step adds ``N(0, (z D)^2 I)`` to the mean of the batch's clipped gradients, whose sensitivity is ``D = 2 L / m``; ``q
= m / n``. For all neighbours and all that was released before, its privacy profile is at most

  ``h(a) = q G(1 + (a - 1) / q)`` for ``a >= 1``, ``1 - a + a h(1 / a)`` below,  ``a = e^epsilon``,

with ``G`` the Gaussian mechanism's (Balle, Barthe and Gaboardi 2018: advanced joint convexity, and a coupling of
batches that differ by one record). A pair of distributions with that profile dominates the step, and ``T`` such pairs
dominate ``T`` adaptive steps (Zhu, Dong and Wang 2022, theorem 10). Their losses are added by FFT on a grid, every
rounding upwards (Doroshenko et al. 2022, connecting the dots), or bounded by the pair's Renyi divergence.

This is an upper bound, the best that the profile of one step allows; no data set need attain it over many steps. The
figure for Poisson sampling at the same ``z`` is smaller and bounds nothing here.

Assumed: batches are drawn anew at every step and never released; ``n``, ``m``, ``T`` and ``z`` are chosen without the
data; nothing else is released.

Notation: ``mu = 1 / z``; the loss of the pair is 0, or ``+-L(w)``, ``L = log(1 + q (e^t - 1))``, ``t = mu w - mu^2/2``,
at places ``w > mu / 2``.
"""

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from jaxdpbo import _checks
from jaxdpbo.privacy.accounting import gdp, renyi

TRUNCATED = 1e-12  # of delta, at most, spent on what the grid leaves out
GRID_SHARE = 0.1  # the grid's step, in standard deviations of a step's loss: epsilon is then at most 0.15 % too large
MAX_POINTS = 2**22  # points of a convolution
MIN_NOISE_MULTIPLIER = 1e-3  # a multiplier under which grids and integrals would be too long
MAX_EPSILON = 600.0  # epsilon beyond which the grid is coarse and the Renyi bound is near

Vector = renyi.Vector


class Bound(NamedTuple):
    """``epsilon``, and by which argument: "profile", "renyi", "gaussian" or "union"."""

    epsilon: float
    by: str


def sampled_gaussian_epsilon(*, rate: float, noise_multiplier: float, steps: int, delta: float) -> Bound:
    """The smallest proved ``epsilon`` of ``steps`` steps; inf where nothing is proved.

    Args:
      rate: ``q = m / n``, in [0, 1].
      noise_multiplier: ``z``, the noise's standard deviation over the sensitivity ``2 L / m``; at least 0.
      steps: ``T``, at least 0.
      delta: of the statement.

    Raises:
      ValueError: a number out of range.
    """
    rate, z = _checks.fraction("rate", rate), _checks.nonnegative("noise_multiplier", noise_multiplier)
    steps, delta = _checks.size("steps", steps, minimum=0), _checks.probability("delta", delta)
    if rate == 0 or steps == 0:
        return Bound(0.0, "union")
    if z == 0:
        return Bound(math.inf, "gaussian")
    if rate == 1:
        return Bound(gdp.gdp_epsilon(math.sqrt(steps) / z, delta), "gaussian")
    if steps * rate * scipy.special.erf(1.0 / (z * math.sqrt(8.0))) <= delta:
        return Bound(0.0, "union")
    if (
        z < MIN_NOISE_MULTIPLIER
    ):  # the profile grows with the rate (G is convex and falls to 0), and at rate 1 it is the Gaussian's
        return Bound(gdp.gdp_epsilon(math.sqrt(steps) / z, delta), "gaussian")
    by_profile = profile_epsilon(rate, z, steps, delta)
    if by_profile <= MAX_EPSILON:
        return Bound(by_profile, "profile")
    return min(Bound(by_profile, "profile"), Bound(renyi.pair_epsilon(rate, z, steps, delta), "renyi"))


def composed_epsilon(trainings: Sequence[tuple[float, float, int]], delta: float) -> float:
    """Of several trainings on the same records, all published. inf where nothing is proved.

    Holds if the settings, and which of the trainings are published, did not depend on the records: their Renyi
    divergences add up at every order, and the least over orders is returned. For a search, which chooses by what it
    measured, it is what one must at least expect, and no guarantee: a proof needs an order and a budget fixed before
    (Feldman and Zrnic 2021).

    Args:
      trainings: ``(rate, noise_multiplier, steps)`` of each.
      delta: of the statement.

    Raises:
      ValueError: a number out of range.
    """
    delta, orders = _checks.probability("delta", delta), renyi.ORDERS
    total = np.zeros(len(orders))
    if not isinstance(trainings, Sequence) or any(np.shape(one) != (3,) for one in trainings):
        raise TypeError("trainings must be a sequence of (rate, noise_multiplier, steps)")
    for rate, noise_multiplier, steps in trainings:
        rate, z = _checks.fraction("rate", rate), _checks.nonnegative("noise_multiplier", noise_multiplier)
        steps = _checks.size("steps", steps, minimum=0)
        if rate > 0 and steps > 0:
            total += np.inf if z < MIN_NOISE_MULTIPLIER else steps * renyi.pair_divergences(rate, z)
    return renyi.epsilon_of(orders, total, delta) if np.any(total > 0) else 0.0


def profile_epsilon(rate: float, z: float, steps: int, delta: float, share: float = GRID_SHARE) -> float:
    """By convolution on a grid of step ``share`` standard deviations; inf where it would be too long or too coarse."""
    slack = min(TRUNCATED, 1e-4 * delta)
    if slack / steps < sys.float_info.min:  # of a delta among the least floats
        return math.inf
    step = share * _deviation(rate, z)
    mass, infinite = _on_grid(rate, z, step, slack / steps)
    low, high = _window(mass, step, steps, slack)
    length = 2 ** math.ceil(math.log2((high - low) / step + 4))
    rounding = 1e-16 * (length + 16 * steps)
    if length > MAX_POINTS or delta < 1e3 * (slack + rounding):
        return math.inf
    half = len(mass) // 2
    wrapped = np.bincount(np.arange(-half, half + 1) % length, mass, minlength=length)
    total = np.fft.irfft(np.fft.rfft(wrapped) ** steps, length)
    first = math.floor(low / step)
    losses = np.arange(first, first + length)
    lost = -math.expm1(steps * math.log1p(-infinite)) + slack + rounding
    return _epsilon_of(np.maximum(total[losses % length], 0.0), losses * step, delta - lost)


def _epsilon_of(mass: Vector, losses: Vector, delta: float) -> float:
    """The ``epsilon >= 0`` at which ``sum_{l > epsilon} mass (1 - e^(epsilon - l))`` is ``delta``; rounded up."""
    if delta <= 0:
        return math.inf
    positive = losses > 0
    mass, losses = mass[positive], losses[positive]
    above = np.cumsum(mass[::-1])[::-1]
    scaled = np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
    # Between two losses the sum is above - e^epsilon scaled, of the upper one; at a loss it is that of the next.
    at_loss = np.append(above - np.exp(np.minimum(losses, 700.0)) * scaled, 0.0)
    if above.size == 0 or above[0] - scaled[0] <= delta:
        return 0.0
    upper = int(np.argmax(at_loss <= delta))
    if upper == len(losses) or losses[upper] > MAX_EPSILON:
        return math.inf
    return float(min(losses[upper], math.log((above[upper] - delta) / scaled[upper]) * (1 + 1e-12) + 1e-15))


def _place(rate: float, mu: float, loss: Vector) -> Vector:
    """Where a loss is attained: the inverse of ``renyi.loss``."""
    small, large = np.minimum(loss, 30.0), np.maximum(loss, 1.0)
    t = np.where(
        loss < 30, np.log1p(np.expm1(small) / rate), large + np.log1p(-(1 - rate) * np.exp(-large)) - math.log(rate)
    )
    return mu / 2 + t / mu


def _densities(rate: float, mu: float, w: Vector) -> tuple[Vector, Vector]:
    """Of the losses ``+L(w)`` and ``-L(w)``."""
    below, above = renyi.normal_density(w), renyi.normal_density(w - mu)
    return (1 - rate) * below + rate * above, below


def _deviation(rate: float, z: float) -> float:
    """The standard deviation of one step's loss."""
    mu = 1 / z
    w, weights = renyi.panels(np.linspace(mu / 2, mu + 9, 65))
    loss, (positive, negative) = renyi.loss(rate, mu, w), _densities(rate, mu, w)
    mean = np.sum(weights * loss * (positive - negative))
    return math.sqrt(max(np.sum(weights * loss**2 * (positive + negative)) - mean**2, 1e-300))


def _on_grid(rate: float, z: float, step: float, tail: float) -> tuple[Vector, float]:
    """One step's losses on ``-K step ... K step``, and the mass at infinity: each loss split between its neighbours so
    that the profile is that of the grid points joined by straight lines in ``a``.
    """
    mu = 1 / z
    far = mu - scipy.special.ndtri(tail)
    count = math.ceil(float(renyi.loss(rate, mu, np.array(far))) / step)
    edges = _place(rate, mu, step * np.arange(count + 1))
    edges[0] = mu / 2
    pieces = np.maximum(np.ceil(np.diff(edges) / 0.5), 1).astype(int)  # of a bin too wide for eight nodes
    bins = np.repeat(np.arange(count), pieces)
    place = np.arange(len(bins)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    left = edges[bins] + place * (np.diff(edges) / pieces)[bins]
    w, weights = renyi.panels(np.append(left, edges[-1]))
    weights = weights * _densities(rate, mu, w)[0]
    up = np.expm1(-(renyi.loss(rate, mu, w) - step * bins[:, None])) / math.expm1(-step)
    positive = np.zeros(count + 1)
    positive[1:] += np.bincount(bins, np.sum(weights * up, axis=1), count)
    positive[:-1] += np.bincount(bins, np.sum(weights * (1 - up), axis=1), count)
    negative = np.exp(-step * np.arange(count + 1)) * positive
    at_zero = positive[0] + negative[0] + (1 - rate) * scipy.special.erf(mu / math.sqrt(8.0))
    negative[-1] += scipy.special.ndtr(-edges[-1])
    mass = np.concatenate([negative[:0:-1], [at_zero], positive[1:]])
    infinite = (1 - rate) * scipy.special.ndtr(-edges[-1]) + rate * scipy.special.ndtr(mu - edges[-1])
    return mass, float(infinite + max(1.0 - mass.sum() - infinite, 0.0))


def _window(mass: Vector, step: float, steps: int, slack: float) -> tuple[float, float]:
    """Outside of which ``slack`` of the sum of ``steps`` losses lies, on either side: Chernoff's bound."""
    reach = step * (len(mass) // 2)
    losses = np.linspace(-reach, reach, len(mass))
    variance = float(mass @ losses**2)
    scale = math.sqrt(2 * math.log(1 / slack) / (steps * variance))
    tilts = scale * np.geomspace(0.02, 5.0, 24)
    with np.errstate(divide="ignore"):
        logs = np.log(mass)
    ends = []
    for sign in (1.0, -1.0):
        moments = renyi.log_sum(logs[None, :] + sign * tilts[:, None] * losses[None, :])
        ends.append(float(np.min((steps * moments - math.log(slack)) / tilts)))
    return max(-ends[1], -steps * reach), min(ends[0], steps * reach)

"""Sums of privacy losses on a grid, by FFT, with every rounding upwards (Doroshenko et al. 2022, connecting the dots).

A pair of distributions is held as the masses of its loss under the first, on ``-K step ... K step``, and the mass at
infinity. Pairs are symmetric: their profiles satisfy ``h(a) = 1 - a + a h(1 / a)``, ``a = e^epsilon``.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from jaxdpbo.accounting import renyi

TRUNCATED = 1e-12  # largest part of delta spent on losses outside the grid
MAX_POINTS = 2**22  # points of a convolution
MAX_EPSILON = 600.0  # beyond this epsilon the grid is coarse and the Renyi bound close
LARGEST = 700.0  # largest exponent passed to exp
FAINT = 1e-20  # magnitude below which a frequency of a sum is left out
TILTS = np.geomspace(0.02, 5.0, 24)  # exponents in Chernoff's bound, in units of the best for Gaussian losses
BLOCK = 4096  # losses in a block of exponentials
ABOVE = 1 + 1e-12  # factor above the rounding errors of a profile's functions

Vector = renyi.Vector
Profile = Callable[[float], float]


class Part(NamedTuple):
    """Losses to add ``times`` times: masses ``(2 K + 1,)`` and the mass at infinity."""

    mass: Vector
    infinite: float
    times: int = 1


class LossSum(NamedTuple):
    """Masses of a sum's positive losses, these losses, and the delta lost to infinity, truncation and rounding."""

    mass: Vector
    losses: Vector
    lost: float


def add_losses(parts: Sequence[Part], step: float, slack: float, delta: float) -> LossSum | None:
    """Return the sum of all parts' losses; None if too long, too coarse for ``delta``, or all of the sum is lost."""
    if any(part.infinite >= 1 for part in parts):
        return None
    count = sum(part.times for part in parts)
    kept = sum(part.times * math.log1p(-part.infinite) for part in parts)
    if kept <= math.log(2 * slack):  # less mass than the window may leave out
        return None
    low, high = _window(parts, step, slack)
    least = math.ceil((high - low) / step + 4)
    # Bound the errors by those of a transform of the next power of two, and add the faint frequencies left out.
    whole = 2 ** math.ceil(math.log2(least))
    rounding = 1e-16 * (whole + 16 * count) + FAINT * whole
    if whole > MAX_POINTS or delta < 1e3 * (slack + rounding):
        return None
    length = int(scipy.fft.next_fast_len(least, real=True))
    transforms = [_power(scipy.fft.rfft(_wrap(part.mass, length)), part.times) for part in parts]
    total = scipy.fft.irfft(functools.reduce(np.multiply, transforms), length)
    lost = -math.expm1(kept) + slack + rounding
    start = math.floor(low / step)
    first, end = max(start, 1), start + length
    mass = total[first:end] if end <= length else np.roll(total, -first)
    return LossSum(np.maximum(mass, 0.0), step * np.arange(first, end), lost)


def _wrap(mass: Vector, length: int) -> Vector:
    """Wrap masses onto a circle of ``length`` points, the loss 0 first."""
    half = len(mass) // 2
    if len(mass) > length:
        return np.asarray(np.bincount(np.arange(-half, half + 1) % length, mass), float)
    circle = np.zeros(length)
    circle[: half + 1] = mass[half:]
    circle[length - half :] = mass[:half]
    return circle


def _power(transform: NDArray[np.complexfloating[Any]], times: int) -> NDArray[np.complexfloating[Any]]:
    """Return ``transform ** times``, 0 where below ``FAINT``: many smooth losses leave few frequencies."""
    kept = np.flatnonzero(np.abs(transform) > FAINT ** (1 / times))
    square, power = transform[kept], np.ones(len(kept), transform.dtype)
    while times:  # NumPy's power takes a logarithm, of every frequency
        if times & 1:
            power *= square
        times >>= 1
        if times:
            square *= square
    result = np.zeros_like(transform)
    result[kept] = power
    return result


def _window(parts: Sequence[Part], step: float, slack: float) -> tuple[float, float]:
    """Return two ends outside which at most ``slack`` of the sum of losses lies, on either side: Chernoff's bound."""
    halves = [len(part.mass) // 2 for part in parts]
    furthest = step * sum(part.times * half for part, half in zip(parts, halves, strict=True))
    squares = [np.square(step * np.arange(-half, half + 1)) for half in halves]
    variance = sum(part.times * float(part.mass @ square) for part, square in zip(parts, squares, strict=True))
    if variance == 0:
        return -furthest, furthest
    tilts = math.sqrt(2 * math.log(1 / slack) / variance) * TILTS
    moments = sum(part.times * _log_moments(part.mass, step, tilts) for part in parts)
    above, below = np.min((moments - math.log(slack)) / tilts, axis=1).tolist()
    return max(-below, -furthest), min(above, furthest)


def _log_moments(mass: Vector, step: float, tilts: Vector) -> Vector:
    """Return ``log E e^(t L)`` and ``log E e^(-t L)``, ``(2, tilts)``, of losses on a symmetric grid."""
    half = len(mass) // 2
    sides = np.stack([mass[half + 1 :], mass[:half][::-1]])
    near = int(np.searchsorted(tilts, LARGEST / 2 / (step * max(half, 1))))
    moments = np.full((2, near), mass[half])
    for first in range(0, half, BLOCK):
        block = sides[:, first : first + BLOCK]
        losses = step * np.arange(first + 1, first + 1 + block.shape[1])
        factors = np.exp(losses[:, None] * tilts[:near])
        moments += block @ factors + (block @ (1 / factors))[::-1]
    moments = np.log(moments)
    if near == len(tilts):
        return moments
    losses = step * np.arange(-half, half + 1)
    with np.errstate(divide="ignore"):
        far = [[renyi.log_sum(np.log(side) + tilt * losses) for tilt in tilts[near:]] for side in (mass, mass[::-1])]
    return np.concatenate([moments, np.array(far)], axis=1)


def find_epsilon(mass: Vector, losses: Vector, delta: float) -> float:
    """Return the ``epsilon >= 0`` at which ``sum_{l > epsilon} mass (1 - e^(epsilon - l))`` is ``delta``, rounded up.

    ``losses`` are positive and increasing.
    """
    if delta <= 0:
        return math.inf
    above = np.cumsum(mass[::-1])[::-1]
    scaled = np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
    if above.size == 0 or above[0] - scaled[0] <= delta:
        return 0.0
    # Between two losses the sum is above - e^epsilon scaled at the upper loss; at a loss, at the next loss.
    lower, upper = -1, len(losses)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        beyond = above[middle] - np.exp(min(losses[middle], LARGEST)) * scaled[middle]
        lower, upper = (lower, middle) if beyond <= delta else (middle, upper)
    if upper == len(losses) or losses[upper] > MAX_EPSILON:
        return math.inf
    return float(min(losses[upper], math.log((above[upper] - delta) / scaled[upper]) * (1 + 1e-12) + 1e-15))


def make_profile(sum_of_losses: LossSum) -> Profile:
    """Return the profile ``epsilon -> delta`` of a sum, linear in ``a`` between two losses."""
    losses = sum_of_losses.losses
    above = np.append(np.cumsum(sum_of_losses.mass[::-1])[::-1], 0.0)
    scaled = np.append(np.cumsum((sum_of_losses.mass * np.exp(-losses))[::-1])[::-1], 0.0)

    def profile(epsilon: float) -> float:
        upper = int(np.searchsorted(losses, epsilon, side="right"))
        beyond = float(above[upper] - math.exp(min(epsilon, LARGEST)) * scaled[upper])
        return min(1.0, max(beyond, 0.0) * ABOVE + sum_of_losses.lost)

    return profile


def clamp_profile(profile: Profile) -> Profile:
    """Replace a profile's values outside [0, 1], NaN included, by 1."""

    def clamp(epsilon: float) -> float:
        delta = float(profile(epsilon))
        return delta if 0 <= delta <= 1 else 1.0

    return clamp


def first_below(profile: Profile, delta: float) -> float:
    """Return an ``epsilon``, close to the least, with profile at most ``delta``; inf if the search finds none."""
    if not delta >= 0:
        return math.inf
    if profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while profile(high) > delta:
        low, high = high, 2 * high
        if high > LARGEST:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return high


def chords(epsilons: Vector, deltas: Vector) -> Profile:
    """Return the profile through ``deltas`` at increasing ``epsilons`` from 0: linear in ``a`` between, at most 1.

    The result bounds every profile below ``deltas`` at ``epsilons``, as profiles are convex and nonincreasing in ``a``.
    """
    bounds = np.minimum.accumulate(np.where((deltas >= 0) & (deltas <= 1), deltas, 1.0))

    def profile(epsilon: float) -> float:
        upper = int(np.searchsorted(epsilons, epsilon, side="right"))
        if upper == len(epsilons):
            return float(bounds[-1])
        share = math.expm1(epsilon - epsilons[upper - 1]) / math.expm1(epsilons[upper] - epsilons[upper - 1])
        return min(1.0, float(bounds[upper - 1] + share * (bounds[upper] - bounds[upper - 1])) * ABOVE)

    return profile


def from_profile(profile: Profile, step: float, tail: float, most: int) -> Part | None:
    """Build the pair of the largest profile under ``profile`` at ``0, stride, 2 stride ...`` steps, linear between.

    Use at most ``most`` points. The rest of the profile at the last point becomes mass at infinity, with up to ``tail``
    for the truncation. Return None if the profile reaches too far for the grid.
    """
    floor = profile(MAX_EPSILON)
    reach = first_below(profile, floor + tail)
    if reach > MAX_EPSILON or reach / step > MAX_POINTS / 4:
        return None
    stride = max(1, math.ceil(reach / step / most))
    count = max(1, math.ceil(reach / step / stride))
    if step * stride * count > LARGEST:
        return None
    epsilons = step * stride * np.arange(count + 1)
    return _dots(epsilons, np.array([profile(float(epsilon)) for epsilon in epsilons]), stride)


def _dots(epsilons: Vector, bounds: Vector, stride: int) -> Part:
    """Build the pair under ``bounds``: the lower convex envelope in ``a`` of the bounds and of symmetry's bound at 1.

    A pair with (epsilon, delta)-DP in both directions has a total variation of at most ``(a - 1 + 2 delta) / (a + 1)``:
    the chord from ``1 / a`` to ``a``.
    """
    a = np.exp(epsilons)
    h = np.minimum.accumulate(np.minimum(bounds * ABOVE, 1.0))
    h[0] = min(h[0], float(np.min((np.expm1(epsilons) + 2 * h) / (a + 1))) * ABOVE)
    vertices = _hull(a, h)
    places, h = a[vertices], h[vertices]
    lengths = np.diff(places)
    slopes = np.append(np.diff(h) / lengths, 0.0)
    second = np.maximum(np.diff(slopes), 0.0)  # masses under the second distribution, from the first vertex on
    mass = np.zeros(2 * (len(a) - 1) * stride + 1)
    middle = len(mass) // 2
    at = stride * vertices[1:]
    mass[middle + at] = places[1:] * second
    mass[middle - at] = second
    mass[middle] = max(1 - h[0] + 2 * slopes[0], 0.0)
    # A mass errs by a few roundings of the adjacent slopes, and delta by at most the errors of all masses together.
    rounding = 1e-15 * float(np.sum(places * np.abs(slopes)))
    return Part(mass, min(1.0, float(h[-1]) + rounding))


def _hull(a: Vector, h: Vector) -> np.ndarray:
    """Return the indices of the points on the lower convex envelope."""
    kept: list[int] = []
    x, y = a.tolist(), h.tolist()
    for new in range(len(x)):
        while len(kept) > 1:
            last, before = kept[-1], kept[-2]
            if (y[last] - y[before]) / (x[last] - x[before]) < (y[new] - y[last]) / (x[new] - x[last]):
                break
            kept.pop()
        kept.append(new)
    return np.array(kept)

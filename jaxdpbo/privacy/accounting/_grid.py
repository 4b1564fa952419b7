"""Sums of privacy losses on a grid, by FFT, every rounding upwards (Doroshenko et al. 2022, connecting the dots).

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

from jaxdpbo.privacy.accounting import renyi

TRUNCATED = 1e-12  # of delta, at most, spent on what the grid leaves out
MAX_POINTS = 2**22  # points of a convolution
MAX_EPSILON = 600.0  # epsilon beyond which the grid is coarse and the Renyi bound is near
LARGEST = 700.0  # of an exponent
FAINT = 1e-20  # of a frequency of a sum that is left out
TILTS = np.geomspace(0.02, 5.0, 24)  # of Chernoff's bound, in units of the best for Gaussian losses
BLOCK = 4096  # losses whose exponentials are taken at once
ABOVE = 1 + 1e-12  # beyond the errors of the functions that profiles are made of

Vector = renyi.Vector
Profile = Callable[[float], float]


class Part(NamedTuple):
    """Losses that are added ``times`` times: masses ``(2 K + 1,)`` and the mass at infinity."""

    mass: Vector
    infinite: float
    times: int = 1


class Sum(NamedTuple):
    """Masses of a sum's positive losses, these losses, and of delta what infinity, truncation and rounding take."""

    mass: Vector
    losses: Vector
    lost: float


def add_losses(parts: Sequence[Part], step: float, slack: float, delta: float) -> Sum | None:
    """The sum of all parts' losses; None where it would be too long, too coarse for ``delta``, or all of it is lost."""
    if any(part.infinite >= 1 for part in parts):
        return None
    count = sum(part.times for part in parts)
    kept = sum(part.times * math.log1p(-part.infinite) for part in parts)
    if kept <= math.log(2 * slack):  # less than the window may leave out
        return None
    low, high = _window(parts, step, slack)
    least = math.ceil((high - low) / step + 4)
    # Of a transform of the next power of two, whose errors are no smaller; and what faint frequencies may add.
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
    return Sum(np.maximum(mass, 0.0), step * np.arange(first, end), lost)


def _wrap(mass: Vector, length: int) -> Vector:
    """On a circle of so many points, the loss 0 first."""
    half = len(mass) // 2
    if len(mass) > length:
        return np.asarray(np.bincount(np.arange(-half, half + 1) % length, mass), float)
    found = np.zeros(length)
    found[: half + 1] = mass[half:]
    found[length - half :] = mass[:half]
    return found


def _power(transform: NDArray[np.complexfloating[Any]], times: int) -> NDArray[np.complexfloating[Any]]:
    """``transform ** times``, 0 where that is below ``FAINT``: of many smooth losses few frequencies are left."""
    kept = np.flatnonzero(np.abs(transform) > FAINT ** (1 / times))
    square, power = transform[kept], np.ones(len(kept), transform.dtype)
    while times:  # NumPy's power takes a logarithm, of every frequency
        if times & 1:
            power *= square
        times >>= 1
        if times:
            square *= square
    found = np.zeros_like(transform)
    found[kept] = power
    return found


def _window(parts: Sequence[Part], step: float, slack: float) -> tuple[float, float]:
    """Outside of which ``slack`` of the sum of losses lies, on either side: Chernoff's bound."""
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
    """``log E e^(t L)`` and ``log E e^(-t L)``, ``(2, tilts)``, of losses on a symmetric grid."""
    half = len(mass) // 2
    sides = np.stack([mass[half + 1 :], mass[:half][::-1]])
    near = int(np.searchsorted(tilts, LARGEST / 2 / (step * max(half, 1))))
    found = np.full((2, near), mass[half])
    for first in range(0, half, BLOCK):
        some = sides[:, first : first + BLOCK]
        losses = step * np.arange(first + 1, first + 1 + some.shape[1])
        factors = np.exp(losses[:, None] * tilts[:near])
        found += some @ factors + (some @ (1 / factors))[::-1]
    found = np.log(found)
    if near == len(tilts):
        return found
    losses = step * np.arange(-half, half + 1)
    with np.errstate(divide="ignore"):
        far = [[renyi.log_sum(np.log(side) + tilt * losses) for tilt in tilts[near:]] for side in (mass, mass[::-1])]
    return np.concatenate([found, np.array(far)], axis=1)


def find_epsilon(mass: Vector, losses: Vector, delta: float) -> float:
    """The ``epsilon >= 0`` at which ``sum_{l > epsilon} mass (1 - e^(epsilon - l))`` is ``delta``; rounded up.

    Of positive losses that rise.
    """
    if delta <= 0:
        return math.inf
    above = np.cumsum(mass[::-1])[::-1]
    scaled = np.cumsum((mass * np.exp(-losses))[::-1])[::-1]
    if above.size == 0 or above[0] - scaled[0] <= delta:
        return 0.0
    # Between two losses the sum is above - e^epsilon scaled, of the upper one; at a loss it is that of the next.
    lower, upper = -1, len(losses)
    while upper - lower > 1:
        middle = (lower + upper) // 2
        beyond = above[middle] - np.exp(min(losses[middle], LARGEST)) * scaled[middle]
        lower, upper = (lower, middle) if beyond <= delta else (middle, upper)
    if upper == len(losses) or losses[upper] > MAX_EPSILON:
        return math.inf
    return float(min(losses[upper], math.log((above[upper] - delta) / scaled[upper]) * (1 + 1e-12) + 1e-15))


def make_profile(found: Sum) -> Profile:
    """``epsilon -> delta`` of a sum: between two losses it is straight in ``a``."""
    losses = found.losses
    above = np.append(np.cumsum(found.mass[::-1])[::-1], 0.0)
    scaled = np.append(np.cumsum((found.mass * np.exp(-losses))[::-1])[::-1], 0.0)

    def profile(epsilon: float) -> float:
        upper = int(np.searchsorted(losses, epsilon, side="right"))
        beyond = float(above[upper] - math.exp(min(epsilon, LARGEST)) * scaled[upper])
        return min(1.0, max(beyond, 0.0) * ABOVE + found.lost)

    return profile


def clamp_profile(profile: Profile) -> Profile:
    """1 where a profile says nothing: NaN, or no probability."""

    def clamp(epsilon: float) -> float:
        delta = float(profile(epsilon))
        return delta if 0 <= delta <= 1 else 1.0

    return clamp


def first_below(profile: Profile, delta: float) -> float:
    """An ``epsilon`` at which the profile is at most ``delta``, close to the least; inf where none is found."""
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
    """The profile through ``deltas`` at ``epsilons``, which begin at 0 and rise: straight in ``a`` between, 1 at most.

    It bounds every profile that lies under ``deltas`` at ``epsilons``, as profiles are convex in ``a`` and fall.
    """
    known = np.minimum.accumulate(np.where((deltas >= 0) & (deltas <= 1), deltas, 1.0))

    def profile(epsilon: float) -> float:
        upper = int(np.searchsorted(epsilons, epsilon, side="right"))
        if upper == len(epsilons):
            return float(known[-1])
        share = math.expm1(epsilon - epsilons[upper - 1]) / math.expm1(epsilons[upper] - epsilons[upper - 1])
        return min(1.0, float(known[upper - 1] + share * (known[upper] - known[upper - 1])) * ABOVE)

    return profile


def from_profile(profile: Profile, step: float, tail: float, most: int) -> Part | None:
    """The pair of the largest profile under ``profile`` at ``0, stride, 2 stride ...`` steps, joined by straight lines.

    At most ``most`` points; what is left of the profile at the last is mass at infinity, of which ``tail`` may be for
    the truncation. None where the profile reaches too far for the grid.
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
    return _dots(epsilons, np.array([profile(float(each)) for each in epsilons]), stride)


def _dots(epsilons: Vector, bounds: Vector, stride: int) -> Part:
    """The pair under ``bounds``: the lower convex envelope in ``a`` of all that they and symmetry say.

    A pair that is (epsilon, delta)-DP in both directions is ``(a - 1 + 2 delta) / (a + 1)`` apart in total variation:
    the chord from ``1 / a`` to ``a``.
    """
    a = np.exp(epsilons)
    h = np.minimum.accumulate(np.minimum(bounds * ABOVE, 1.0))
    h[0] = min(h[0], float(np.min((np.expm1(epsilons) + 2 * h) / (a + 1))) * ABOVE)
    vertices = _hull(a, h)
    places, h = a[vertices], h[vertices]
    lengths = np.diff(places)
    slopes = np.append(np.diff(h) / lengths, 0.0)
    second = np.maximum(np.diff(slopes), 0.0)  # of the losses under the second distribution, from the first vertex on
    mass = np.zeros(2 * (len(a) - 1) * stride + 1)
    middle = len(mass) // 2
    at = stride * vertices[1:]
    mass[middle + at] = places[1:] * second
    mass[middle - at] = second
    mass[middle] = max(1 - h[0] + 2 * slopes[0], 0.0)
    # A mass is wrong by a few roundings of the slopes beside it, and delta by no more than all masses together.
    rounding = 1e-15 * float(np.sum(places * np.abs(slopes)))
    return Part(mass, min(1.0, float(h[-1]) + rounding))


def _hull(a: Vector, h: Vector) -> np.ndarray:
    """Which points are on the lower convex envelope."""
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

"""DP-SGD with fixed-size batches, replace-one: each step a fresh uniform ``m`` of ``n`` records without replacement.

A step adds ``N(0, (z D)^2 I)`` to the mean of the batch's clipped gradients, of sensitivity ``D = 2 L / m``;
``q = m / n``. For all neighbours and all earlier releases, the step's privacy profile is at most

  ``h(a) = q G(1 + (a - 1) / q)`` for ``a >= 1``, ``1 - a + a h(1 / a)`` below,  ``a = e^epsilon``,

with ``G`` the Gaussian mechanism's (Balle, Barthe and Gaboardi 2018: advanced joint convexity, and a coupling of
batches that differ by a record). A pair of distributions with this profile dominates the step, and ``T`` such pairs
dominate ``T`` adaptive steps (Zhu, Dong and Wang 2022, theorem 10). Their losses are added by FFT on a grid, every
rounding upwards (Doroshenko et al. 2022, connecting the dots), or bounded by the pair's Renyi divergence.

This is an upper bound, the best from the profile of a single step; no data set need attain the bound over many steps.
The figure for Poisson sampling at the same ``z`` is smaller and bounds nothing here.

Assumed: batches are drawn anew at every step and never released; ``n``, ``m``, ``T`` and ``z`` are chosen without the
data; nothing else is released.

Notation: ``mu = 1 / z``; the loss of the pair is 0, or ``+-L(w)``, ``L = log(1 + q (e^t - 1))``, ``t = mu w - mu^2/2``,
at places ``w > mu / 2``.
"""

import math
import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from jaxdpbo import checks
from jaxdpbo.accounting import gdp, renyi
from jaxdpbo.accounting import grid as _grid

TRUNCATED, MAX_EPSILON = _grid.TRUNCATED, _grid.MAX_EPSILON
GRID_SHARE = 0.1  # grid step, in standard deviations of a step's loss: makes epsilon at most 0.15 % too large
BROAD, NARROW = 0.5, 0.01  # bin widths: too wide for eight nodes; narrow enough for three, but for 1e-16
MOST_POINTS = 4 * _grid.MAX_POINTS  # of a step's losses, in memory
MIN_NOISE_MULTIPLIER = 1e-3  # below this multiplier grids and integrals would be too long

Vector = renyi.Vector


class Bound(NamedTuple):
    """An ``epsilon`` and the argument that gives this bound: "profile", "renyi", "gaussian" or "union"."""

    epsilon: float
    by: str


def sampled_gaussian_epsilon(*, rate: float, noise_multiplier: float, steps: int, delta: float) -> Bound:
    """Return the smallest proved ``epsilon`` of ``steps`` steps; inf where nothing is proved.

    >>> from jaxdpbo import accounting
    >>> bound = accounting.sampled_gaussian_epsilon(rate=0.01, noise_multiplier=1.0, steps=100, delta=1e-5)
    >>> round(bound.epsilon, 2)
    0.77

    Args:
      rate: ``q = m / n``, in [0, 1].
      noise_multiplier: ``z``, the noise's standard deviation over the sensitivity ``2 L / m``; at least 0.
      steps: ``T``, at least 0.
      delta: of the guarantee.

    Raises:
      ValueError: a number out of range.
    """
    rate, z = checks.fraction("rate", rate), checks.nonnegative("noise_multiplier", noise_multiplier)
    return _bound(rate, z, checks.size("steps", steps, minimum=0), checks.probability("delta", delta))


def sampled_gaussian_epsilons(
    *, rates: ArrayLike, noise_multipliers: ArrayLike, steps: ArrayLike, delta: float
) -> NDArray[np.float64]:
    """Return ``(k,)`` epsilons by ``sampled_gaussian_epsilon``, for each of ``k`` settings: a whole search in a call.

    Equal settings are accounted for once, the rest in turn: each has a grid and a transform of its own length.

    Args:
      rates: ``(k,)``.
      noise_multipliers: ``(k,)``.
      steps: ``(k,)``, whole numbers.
      delta: of every guarantee.

    Raises:
      ValueError: vectors of different lengths, a number out of range.
      TypeError: steps that are not whole numbers.

    >>> from jaxdpbo import accounting
    >>> settings = {"rates": [0.01, 0.02], "noise_multipliers": [1.0, 1.0], "steps": [100, 100]}
    >>> accounting.sampled_gaussian_epsilons(**settings, delta=1e-5).round(2).tolist()
    [0.77, 1.54]
    """
    q, delta = checks.vector("rates", rates), checks.probability("delta", delta)
    z = checks.vector("noise_multipliers", noise_multipliers, len(q))
    if np.any((q < 0) | (q > 1)):
        raise ValueError(f"rates must lie in [0, 1], got {q}")
    if np.any(z < 0):
        raise ValueError(f"noise_multipliers must be at least zero, got {z}")
    checks.vector("steps", steps, len(q))
    counts = [checks.size("steps", entry, minimum=0) for entry in np.asarray(steps).tolist()]
    settings = list(zip(q.tolist(), z.tolist(), counts, strict=True))
    epsilons = {entry: _bound(*entry, delta).epsilon for entry in set(settings)}
    return np.array([epsilons[entry] for entry in settings])


def _bound(rate: float, z: float, steps: int, delta: float) -> Bound:
    if rate == 0 or steps == 0:
        return Bound(0.0, "union")
    if z == 0:
        return Bound(math.inf, "gaussian")
    if rate == 1:
        return Bound(gdp.gdp_epsilon(math.sqrt(steps) / z, delta), "gaussian")
    if steps * rate * scipy.special.erf(1.0 / (z * math.sqrt(8.0))) * _grid.ABOVE <= delta:
        return Bound(0.0, "union")
    if (
        z < MIN_NOISE_MULTIPLIER
    ):  # the profile grows with the rate (G is convex and falls to 0), up to the Gaussian's at rate 1
        return Bound(gdp.gdp_epsilon(math.sqrt(steps) / z, delta), "gaussian")
    by_profile = profile_epsilon(rate, z, steps, delta)
    if by_profile <= MAX_EPSILON:
        return Bound(by_profile, "profile")
    return min(
        Bound(by_profile, "profile"),
        Bound(renyi.pair_epsilon(rate, z, steps, delta), "renyi"),
        Bound(gdp.gdp_epsilon(math.sqrt(steps) / z, delta), "gaussian"),
    )


def sampled_gaussian_profile(*, rate: float, noise_multiplier: float, steps: int) -> _grid.Profile:
    """Return the whole profile ``epsilon -> delta`` of ``steps`` steps, replace-one, for use in a selection.

    The least of four bounds is taken: by the grid (no delta under some 1e-10), by Renyi divergences, the Gaussian's and
    the union's.

    Raises:
      ValueError: a number out of range.

    >>> from jaxdpbo import accounting
    >>> profile = accounting.sampled_gaussian_profile(rate=0.01, noise_multiplier=1.0, steps=100)
    >>> round(profile(0.5), 6)
    0.000258
    """
    rate, z = checks.fraction("rate", rate), checks.nonnegative("noise_multiplier", noise_multiplier)
    steps = checks.size("steps", steps, minimum=0)
    if rate == 0 or steps == 0:
        return lambda epsilon: 0.0
    whole = math.inf if z == 0 else math.sqrt(steps) / z
    if rate == 1 or z < MIN_NOISE_MULTIPLIER:
        return lambda epsilon: gdp.gdp_delta(whole, epsilon)
    union = min(1.0, steps * step_delta(rate, z, 0.0) * _grid.ABOVE)
    if union <= TRUNCATED:
        return lambda epsilon: union
    step = GRID_SHARE * deviation(rate, z)
    parts = [discretise_loss(rate, z, step, TRUNCATED / steps, steps)] if fits(rate, z, step) else []
    sum_of_losses = _grid.add_losses(parts, step, TRUNCATED, 1.0) if parts else None
    by_grid = _grid.make_profile(sum_of_losses) if sum_of_losses is not None else lambda epsilon: 1.0
    divergences = steps * renyi.pair_divergences(rate, z)

    def profile(epsilon: float) -> float:
        return min(
            union,
            by_grid(epsilon),
            renyi.renyi_delta(renyi.ORDERS, divergences, epsilon),
            gdp.gdp_delta(whole, epsilon),
        )

    return profile


def fits(rate: float, z: float, step: float) -> bool:
    """Return whether a step's losses fit this grid: they reach far with little noise."""
    return float(renyi.privacy_loss(rate, 1 / z, np.array(1 / z + 10))) <= min(
        _grid.MAX_POINTS / 8 * step, 10 * MAX_EPSILON
    )


def step_delta(rate: float, z: float, epsilon: float) -> float:
    """Return ``h`` of a single step: ``q G(1 + (a - 1) / q)``, ``epsilon >= 0``."""
    if epsilon < 30:
        return rate * gdp.gdp_delta(1 / z, math.log1p(math.expm1(epsilon) / rate))
    return rate * gdp.gdp_delta(1 / z, epsilon + math.log1p(-(1 - rate) * math.exp(-epsilon)) - math.log(rate))


def compose_epsilon(trainings: Sequence[tuple[float, float, int]], delta: float) -> float:
    """Return the ``epsilon`` of several published trainings on the same records; inf where nothing is proved.

    The bound holds if the settings, and the choice of published trainings, did not depend on the records: Renyi
    divergences add up at every order, and the least over orders is returned. For a search, with choices that depend on
    measurements, expect at least this epsilon, without guarantee: a proof needs an order and a budget fixed in advance
    (Feldman and Zrnic 2021).

    >>> from jaxdpbo import accounting
    >>> round(accounting.compose_epsilon([(0.1, 1.0, 10), (0.1, 2.0, 10)], 1e-5), 3)
    3.597

    Args:
      trainings: ``(rate, noise_multiplier, steps)`` of each.
      delta: of the guarantee.

    Raises:
      ValueError: a number out of range.
    """
    delta, orders = checks.probability("delta", delta), renyi.ORDERS
    total = np.zeros(len(orders))
    if not isinstance(trainings, Sequence) or any(np.shape(training) != (3,) for training in trainings):
        raise TypeError(f"trainings must be a sequence of (rate, noise_multiplier, steps), got {trainings!r:.80}")
    for rate, noise_multiplier, steps in trainings:
        rate, z = checks.fraction("rate", rate), checks.nonnegative("noise_multiplier", noise_multiplier)
        steps = checks.size("steps", steps, minimum=0)
        if rate > 0 and steps > 0:
            total += np.inf if z < MIN_NOISE_MULTIPLIER else steps * renyi.pair_divergences(rate, z)
    return renyi.renyi_epsilon(orders, total, delta) if np.any(total > 0) else 0.0


@lru_cache(maxsize=4096)  # a search over many seeds repeats the same noise
def profile_epsilon(rate: float, z: float, steps: int, delta: float, share: float = GRID_SHARE) -> float:
    """Return ``epsilon`` by convolution, grid step ``share`` standard deviations; inf if too long or too coarse."""
    slack = min(TRUNCATED, 1e-4 * delta)
    if slack / steps < sys.float_info.min:  # delta is among the smallest floats
        return math.inf
    step = share * deviation(rate, z)
    if _points(rate, z, step, slack / steps) > MOST_POINTS:
        return math.inf
    sum_of_losses = _grid.add_losses([discretise_loss(rate, z, step, slack / steps, steps)], step, slack, delta)
    return (
        math.inf
        if sum_of_losses is None
        else _grid.find_epsilon(sum_of_losses.mass, sum_of_losses.losses, delta - sum_of_losses.lost)
    )


def _place(rate: float, mu: float, loss: Vector) -> Vector:
    """Return the places of increasing losses: the inverse of ``renyi.privacy_loss``."""
    first = int(np.searchsorted(loss, 30.0))
    t = np.empty(len(loss))
    t[:first] = np.log1p(np.expm1(loss[:first]) / rate)
    t[first:] = loss[first:] + np.log1p(-(1 - rate) * np.exp(-loss[first:])) - math.log(rate)
    return mu / 2 + t / mu


@lru_cache(maxsize=4096)
def deviation(rate: float, z: float) -> float:
    """Return the standard deviation of a single step's loss."""
    mu = 1 / z
    reach = mu / 2 + 9
    w = mu / 2 + reach * _PLACES
    loss, below, above = renyi.privacy_loss(rate, mu, w), np.exp(-0.5 * w**2), rate * np.exp(-0.5 * (w - mu) ** 2)
    weighted = reach * _SHARES * loss
    mean, square = weighted @ (above - rate * below), weighted * loss @ (above + (2 - rate) * below)
    return math.sqrt(max(float(square - mean**2), 1e-300))


_PLACES, _SHARES = (values.ravel() for values in renyi.panels(np.linspace(0.0, 1.0, 65)))
_SHARES /= math.sqrt(2 * math.pi)


def _points(rate: float, z: float, step: float, tail: float) -> int:
    """Return the points of a step's positive losses: many at a small rate, at which most losses are tiny."""
    far = 1 / z - scipy.special.ndtri(tail)
    return math.ceil(float(renyi.privacy_loss(rate, 1 / z, np.array(far))) / step)


def discretise_loss(rate: float, z: float, step: float, tail: float, steps: int) -> _grid.Part:
    """Place a step's losses on ``-K step ... K step``, and the mass at infinity.

    Each loss is split between its neighbours: the profile joins the grid points by straight lines in ``a``.
    """
    mu, count = 1 / z, _points(rate, z, step, tail)
    grid = step * np.arange(count + 1)
    edges = _place(rate, mu, grid)
    edges[0] = mu / 2
    mass, up = _masses(rate, mu, edges)
    up = np.minimum(up / -math.expm1(-step), mass)
    positive = np.append(0.0, up)
    positive[:-1] += mass - up
    negative = np.exp(-grid) * positive
    at_zero = positive[0] + negative[0] + (1 - rate) * scipy.special.erf(mu / math.sqrt(8.0))
    negative[-1] += scipy.special.ndtr(-edges[-1])
    mass = np.concatenate([negative[:0:-1], [at_zero], positive[1:]])
    infinite = (1 - rate) * scipy.special.ndtr(-edges[-1]) + rate * scipy.special.ndtr(mu - edges[-1])
    return _grid.Part(mass, float(infinite + max(1.0 - mass.sum() - infinite, 0.0)), steps)


def _masses(rate: float, mu: float, edges: Vector) -> Vector:
    """Return, between consecutive edges, the mass and the integral of ``1 - e^(l - L)``, ``l`` the least, ``(2, k)``.

    Each bin is narrower than the bin before, as ``L`` is convex.
    """
    widths = np.diff(edges)
    broad, wide = (int(np.count_nonzero(widths > least)) for least in (BROAD, NARROW * min(1.0, 3 / mu)))
    masses = np.empty((2, len(widths)))
    if broad:
        pieces = np.ceil(widths[:broad] / BROAD).astype(int)
        bins = np.repeat(np.arange(broad), pieces)
        part = (widths[:broad] / pieces)[bins]
        since = part * (np.arange(len(bins)) - np.repeat(np.cumsum(pieces) - pieces, pieces))
        integrals = _integrals(rate, mu, edges[bins] + since, part, since, _EIGHT)
        masses[:, :broad] = [np.bincount(bins, integral) for integral in integrals]
    if wide > broad:
        masses[:, broad:wide] = _integrals(rate, mu, edges[broad:wide], widths[broad:wide], 0.0, _EIGHT)
    if wide < len(widths):
        masses[:, wide:] = _integrals(rate, mu, edges[wide:-1], widths[wide:], 0.0, _THREE)
    return masses


def _integrals(rate: float, mu: float, left: Vector, widths: Vector, since: Vector | float, rule: Vector) -> Vector:
    """Compute ``_masses`` between ``left`` and ``left + widths``, for bins that begin ``since`` before ``left``."""
    nodes, weights = rule
    x = nodes[:, None] * widths
    w = left + x
    below, above = np.exp(-0.5 * w**2), rate * np.exp(-0.5 * (w - mu) ** 2)
    # e^L - e^l is rate (e^t - e^u), with u the t of l: nothing cancels, unlike in the difference of two losses.
    integrals = weights @ ((1 - rate) * below + above), -(weights @ (above * np.expm1(-mu * (x + since))))
    return widths / math.sqrt(2 * math.pi) * integrals


_EIGHT, _THREE = (np.array(renyi.rule(nodes)) for nodes in (8, 3))

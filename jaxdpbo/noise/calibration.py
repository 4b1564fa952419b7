"""Noise for a budget: its checks, its integers on the grid of exact noise, and its guarantee.

Exact noise is fixed on the integers; a budget sets the number of integers by which one user may move a statistic, so a
sweep of budgets compiles once. The guarantee is derived from this number: the requested ``mu`` or ``epsilon`` is its
upper bound, not its source.

Sums over users have Gaussian noise of a fixed ``sigma`` (GDP), and each user's contribution is clipped to an integer
``radius``: ``sensitivity.integer_sum``. Scores and single values have geometric or Laplace noise of a
fixed ``rate`` (pure DP but for a total variation of 2^-100 or so), and their sensitivity becomes ``units`` of the grid.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import accounting, arrays, checks, rounding
from jaxdpbo import sensitivity as _sensitivity
from jaxdpbo.accounting import requested_budget
from jaxdpbo.noise import private_scale
from jaxdpbo.types import DTypeLike

NOISES = ("exact", "float", "none")
SIGMAS = (4096, 65536)  # the second if the first leaves a user too few grid points
RATES = Fraction(1, 2**6), Fraction(1, 2**12), Fraction(1, 2**16)  # the first that leaves a sensitivity enough units
MIN_UNITS, MAX_UNITS = 100, 2**22  # units; a larger budget gets no more
MAX_RADIUS = 2**16  # upper end of radii and dimensions: the guard counts squares in 32 bits
FINE_RADIUS = 64  # a smaller radius would leave up to 2 % of epsilon unspent: take the larger sigma
MIN_RADIUS = 32  # times sqrt(d): smaller radii would lose more than 4 % to rounding


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SumNoise:
    """A config's settings for the noise of sums over users; made by ``sum_noise``.

    Attributes:
      mu: ``()``, traced: the GDP budget of all releases together, less that of ``scale``.
      radius: ``()``, traced: of one user's integers; 0 unless ``kind`` is "exact".
      kind: of ``NOISES``; "exact" at ``mu = inf`` becomes "none".
      sigma: of the integers' noise; 0 unless ``kind`` is "exact".
      users: ``n``, public.
      steps: ``T``, of the run.
      releases: sums released in each step.
      dimension: numbers in each sum.
      scale: of a clip norm or a range found privately before the first release; otherwise None.
    """

    mu: jax.Array
    radius: jax.Array
    kind: str = field(metadata={"static": True})
    sigma: int = field(metadata={"static": True})
    users: int = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    releases: int = field(metadata={"static": True})
    dimension: int = field(metadata={"static": True})
    scale: private_scale.ScaleNoise | None = None


def sum_noise(
    mu: float,
    noise: str,
    *,
    users: int,
    steps: int,
    dimension: int,
    releases: int = 1,
    dtype: DTypeLike,
    find_scale: bool = False,
) -> SumNoise:
    """Make the noise of ``steps`` times ``releases`` sums of ``users`` vectors of ``dimension`` numbers.

    ``find_scale`` reserves a share, ``private_scale.SHARE`` of ``mu^2``, for finding the clip norm or the range before
    the first sum.

    Raises:
      ValueError: ``mu`` not positive, finite with ``noise="none"``, or out of reach of exact noise; a number that is no
        size.
      TypeError: a size that is no whole number.
    """
    users, steps = checks.size("users", users), checks.size("steps", steps)
    typed = checks.positive("mu", mu, finite=False)
    mu = checks.positive("mu", mu, finite=False, dtype=dtype)
    if checks.one_of("noise", noise, NOISES) == "none" and mu != math.inf:
        raise ValueError(f"mu must be inf with noise='none', got {mu}")
    radius = sigma = 0
    if noise == "exact" and mu == math.inf:
        noise = "none"
    scale = None
    if checks.flag("find_scale", find_scale):
        first, mu = split_levels(mu, (private_scale.SHARE, 1 - private_scale.SHARE), dtype)
        typed, scale = mu, private_scale.scale_noise(first, noise, dtype=dtype)
    if noise == "exact":
        share = 1.0 if scale is None else math.sqrt(1 - private_scale.SHARE)
        radius, sigma = _grid_noise(min(typed, mu), dimension, steps * releases, share)
    return SumNoise(
        mu=arrays.to_device(mu, dtype),
        radius=arrays.to_device(radius, jnp.int32),
        kind=noise,
        sigma=sigma,
        users=users,
        steps=steps,
        releases=releases,
        dimension=dimension,
        scale=scale,
    )


def split_levels(mu: float, shares: Sequence[float], dtype: DTypeLike) -> list[float]:
    """Split ``mu`` into levels that ``dtype`` holds, by shares of ``mu^2``: together ``mu`` at most."""
    if mu == math.inf:
        return [mu] * len(shares)
    levels = [checks.round_down(mu * math.sqrt(share), dtype) for share in shares]
    while accounting.compose_gdp_rounded_up(*levels) > mu:
        levels[-1] = float(np.nextafter(np.asarray(levels[-1], dtype), np.zeros((), dtype)))
    return levels


def grid(noise: SumNoise) -> jax.Array | None:
    """Return the radius for quantising sums; None without a grid."""
    return noise.radius if noise.kind == "exact" else None


class NoiseSettings(NamedTuple):
    """Everything that sets a run's noise and one user's move: a run must not resume under other settings.

    Attributes:
      mu: ``()``, the budget.
      radius: ``()``, and ``sigma ()``: of exact noise, otherwise 0.
      kind: ``()``, the row of ``NOISES``.
      users: ``()``, or ``(2,)``, two words of 31 bits, for a number too large for a word.
      steps: ``()``, and ``releases ()``, the sums released in each.
      clip: ``(1,)``, the clip norm, or ``(2,)``, the range of a loss. If found privately, zeros, followed by the budget
        of that search and the units of one user.
    """

    mu: jax.Array
    radius: jax.Array
    sigma: jax.Array
    kind: jax.Array
    users: jax.Array
    steps: jax.Array
    releases: jax.Array
    clip: jax.Array


def noise_settings(noise: SumNoise, *clip: jax.Array) -> NoiseSettings:
    """Return the settings of the noise and one user's bound: the clip norm, or the two ends of the range."""
    scale = noise.scale

    def count(value: int) -> jax.Array:
        return jnp.asarray(value, jnp.int32)

    return NoiseSettings(
        mu=noise.mu,
        radius=noise.radius,
        sigma=count(noise.sigma),
        kind=count(NOISES.index(noise.kind)),
        users=jnp.asarray(noise.users if noise.users < 2**31 else divmod(noise.users, 2**31), jnp.int32),
        steps=count(noise.steps),
        releases=count(noise.releases),
        clip=jnp.stack(clip if scale is None else [*clip, scale.mu, scale.units.astype(scale.mu.dtype)]),
    )


def join_settings(first: NoiseSettings, second: NoiseSettings) -> NoiseSettings:
    """Join the settings of two parts of a run."""
    return jax.tree.map(lambda *both: jnp.concatenate([jnp.atleast_1d(setting) for setting in both]), first, second)


def same_noise(earlier: tuple[jax.Array, ...], current: tuple[jax.Array, ...]) -> jax.Array:
    """Return whether two ``NoiseSettings``, or two other tuples, are equal, dtypes and shapes included: ``()``."""
    pairs = list(zip(earlier, current, strict=True))
    if any(old.dtype != new.dtype or old.shape != new.shape for old, new in pairs):
        return jnp.zeros((), bool)
    return jnp.all(jnp.stack([jnp.all(old == new) for old, new in pairs]))


def describe_noise_change(earlier: tuple[jax.Array, ...], current: tuple[jax.Array, ...]) -> str:
    """Describe the differences by name and value, on the host; "" without any."""
    pairs = zip(getattr(current, "_fields", ()), map(np.asarray, earlier), map(np.asarray, current), strict=True)
    return ", ".join(
        f"{name} {new.tolist()} after {old.tolist()}"
        for name, old, new in pairs
        if old.dtype != new.dtype or old.shape != new.shape or np.any(old != new)
    )


class Units(NamedTuple):
    """Grid units of a sensitivity: ``units ()`` traced, ``rate`` static. ``units`` is 0 if nothing is released."""

    units: jax.Array
    rate: Fraction


def units(name: str, epsilon: float, moves: int) -> Units:
    """Return the grid units of a sensitivity if a release costs ``moves units rate``, at most ``epsilon``.

    ``moves`` is ``sensitivity.between_scores(1)`` for a choice among scores, and 1 for a single value.

    Raises:
      ValueError: ``epsilon`` so small that the grid would be too coarse.
    """
    if epsilon == 0:
        return Units(jnp.zeros((), jnp.int32), RATES[0])
    for rate in RATES:
        count = math.floor(Fraction(epsilon) / (moves * rate))
        if count >= MIN_UNITS:
            return Units(jnp.asarray(min(count, MAX_UNITS), jnp.int32), rate)
    smallest = rounding.shorten_up(float(MIN_UNITS * moves * RATES[-1]), 3)
    raise ValueError(
        f"{name} must be at least {smallest} with exact noise, got {epsilon:g} (noise='float' has no grid)"
    )


def quantise_scores(scores: jax.Array, units: jax.Array, sensitivity: jax.Array) -> jax.Array:
    """Round scores to ``int32``: a move of ``sensitivity`` becomes at most ``units``; scores not finite are least.

    Rounding down keeps a shift of whole units a shift. Two or four units are kept back for rounding down and for the
    rounding of the product, so integers end at 2^30, in float32 at 2^24; scores beyond count as the end. Include the
    rounding of ``scores`` themselves in ``sensitivity``.
    """
    step, end = grid_unit(units, sensitivity), _end(scores.dtype)
    scaled = jnp.where(jnp.isfinite(scores), jnp.floor(scores / step), -end)
    return jnp.clip(scaled, -end, end).astype(jnp.int32)


def grid_unit(units: jax.Array, sensitivity: jax.Array) -> jax.Array:
    """Return the score that a unit of ``quantise_scores`` stands for."""
    kept_back = 2 if sensitivity.dtype == jnp.float64 else 4
    return sensitivity / (units - kept_back).astype(sensitivity.dtype)


def _end(dtype: Any) -> float:
    return 2.0**30 if dtype == jnp.float64 else 2.0**24


def _grid_noise(mu: float, dimension: int, releases: int, share: float) -> tuple[int, int]:
    """Return radius and sigma, or raise with a budget that works; ``mu`` is a ``share`` of the requested level."""
    if dimension >= MAX_RADIUS:
        raise ValueError(
            f"dimensions must be fewer than {MAX_RADIUS} for exact noise, got {dimension} (noise='float' has no grid)"
        )
    least, radius, sigma = MIN_RADIUS * math.sqrt(dimension), 0, 0
    for sigma in SIGMAS:
        radius = _sensitivity.largest_radius(accounting.largest_distance(mu, sigma, releases))
        if radius >= max(least, FINE_RADIUS):
            break
    if radius < least:
        smallest = (
            accounting.rounded_gaussian_mu(_sensitivity.integer_sum(math.ceil(least)), SIGMAS[-1], releases) / share
        )
        raise requested_budget.BudgetError(
            "least",
            1.005 * smallest,
            mu / share,
            f"for exact noise on {releases} sums in {dimension} dimensions, got {{}}: with less, rounding costs more "
            "than 4 % (noise='float' has no grid)",
        )
    if radius >= MAX_RADIUS:
        largest = accounting.rounded_gaussian_mu(_sensitivity.integer_sum(MAX_RADIUS - 1), sigma, releases) / share
        raise requested_budget.BudgetError(
            "most",
            0.995 * largest,
            mu / share,
            f"for exact noise on {releases} sums in {dimension} dimensions, got {{}}; noise='none' with mu=inf is no "
            "noise",
        )
    return radius, sigma

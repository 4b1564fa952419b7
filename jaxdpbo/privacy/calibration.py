"""Budgets on the grid of exact noise: how they are checked, what they become, and what they guarantee.

Exact noise is fixed on the integers; what a budget sets is how many of them one user may move a statistic by, so that a
sweep of budgets compiles once. The guarantee is derived from that number: the ``mu`` or ``epsilon`` asked for is its
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

from jaxdpbo import _checks
from jaxdpbo.privacy import accounting, guarantee, private_scale, requested_budget, sensitivity
from jaxdpbo.privacy.mechanisms import tables
from jaxdpbo.types import DTypeLike

NOISES = ("exact", "float", "none")
SIGMAS = (4096, 65536)  # the second where the first would leave a user too few grid points
RATES = Fraction(1, 2**6), Fraction(1, 2**12), Fraction(1, 2**16)  # the first that leaves a sensitivity enough units
MIN_UNITS, MAX_UNITS = 100, 2**22  # units; a larger budget gets no more
MAX_RADIUS = 2**16  # radii below, and dimensions: the guard counts squares in 32 bits
FIND_SCALE, RELEASES, SEARCH = "the scale of the clip", "the noisy means", "the search"  # parts of a guarantee
MIN_RADIUS = 32  # times sqrt(d): radii below would lose more than 4 % to rounding


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SumBudget:
    """The part of a config that sets the noise of sums over users; made by ``budget``.

    Attributes:
      mu: ``()``, traced: the GDP budget of all releases together, less that of ``scale``.
      radius: ``()``, traced: of one user's integers; 0 unless ``noise`` is "exact".
      noise: of ``NOISES``; "exact" at ``mu = inf`` becomes "none".
      sigma: of the integers' noise; 0 unless ``noise`` is "exact".
      users: ``n``, public.
      steps: ``T``, of the run.
      releases: sums released in each step.
      dimension: numbers in each sum.
      scale: of the clip norm or the range where it is found privately before the first release; otherwise None.
    """

    mu: jax.Array
    radius: jax.Array
    noise: str = field(metadata={"static": True})
    sigma: int = field(metadata={"static": True})
    users: int = field(metadata={"static": True})
    steps: int = field(metadata={"static": True})
    releases: int = field(metadata={"static": True})
    dimension: int = field(metadata={"static": True})
    scale: private_scale.ScaleBudget | None = None


def budget(
    mu: float,
    noise: str,
    *,
    users: int,
    steps: int,
    dimension: int,
    releases: int = 1,
    dtype: DTypeLike,
    find_scale: bool = False,
) -> SumBudget:
    """A checked budget for ``steps`` times ``releases`` sums of ``users`` vectors of ``dimension`` numbers.

    With ``find_scale`` a share of it, ``private_scale.SHARE`` of ``mu^2``, is kept for finding the clip norm or the
    range before the first of them.

    Raises:
      ValueError: ``mu`` not positive, finite with ``noise="none"``, or not within what exact noise can do; a number
        that is no size.
      TypeError: one that is no whole number.
    """
    users, steps = _checks.size("users", users), _checks.size("steps", steps)
    typed = _checks.positive("mu", mu, finite=False)
    mu = _checks.positive("mu", mu, finite=False, dtype=dtype)
    if _checks.choice("noise", noise, NOISES) == "none" and mu != math.inf:
        raise ValueError(f"mu must be inf with noise='none', got {mu}")
    radius = sigma = 0
    if noise == "exact" and mu == math.inf:
        noise = "none"
    scale = None
    if _checks.flag("find_scale", find_scale):
        first, mu = split_levels(mu, (private_scale.SHARE, 1 - private_scale.SHARE), dtype)
        typed, scale = mu, private_scale.budget(first, noise, dtype=dtype)
    if noise == "exact":
        share = 1.0 if scale is None else math.sqrt(1 - private_scale.SHARE)
        radius, sigma = _grid_noise(min(typed, mu), dimension, steps * releases, share)
    return SumBudget(
        mu=jnp.asarray(mu, dtype),
        radius=jnp.asarray(radius, jnp.int32),
        noise=noise,
        sigma=sigma,
        users=users,
        steps=steps,
        releases=releases,
        dimension=dimension,
        scale=scale,
    )


def split_levels(mu: float, shares: Sequence[float], dtype: DTypeLike) -> list[float]:
    """Levels that ``dtype`` holds, one for each share of ``mu^2``: together they are ``mu`` at most."""
    if mu == math.inf:
        return [mu] * len(shares)
    levels = [_checks.round_down(mu * math.sqrt(share), dtype) for share in shares]
    while accounting.compose_gdp_rounded_up(*levels) > mu:
        levels[-1] = float(np.nextafter(np.asarray(levels[-1], dtype), np.zeros((), dtype)))
    return levels


def grid(budget: SumBudget) -> jax.Array | None:
    """The radius that sums are quantised with; None where they are not."""
    return budget.radius if budget.noise == "exact" else None


class NoiseSettings(NamedTuple):
    """All that sets the noise of a run and what one user can move: a run must not go on under another.

    Attributes:
      mu: ``()``, the budget.
      radius: ``()``, and ``sigma ()``: of exact noise, otherwise 0.
      noise: ``()``, the row of ``NOISES``.
      users: ``()``, or ``(2,)``, two words of 31 bits, where one does not hold them.
      steps: ``()``, and ``releases ()``, the sums released in each.
      clip: ``(1,)``, the clip norm, or ``(2,)``, the range of a loss. Where it is found privately zeros, and behind
        them the budget of that and what one user counts for.
    """

    mu: jax.Array
    radius: jax.Array
    sigma: jax.Array
    noise: jax.Array
    users: jax.Array
    steps: jax.Array
    releases: jax.Array
    clip: jax.Array


def noise_settings(budget: SumBudget, *clip: jax.Array) -> NoiseSettings:
    """Of a budget, and what bounds one user's part: the clip norm, or the two ends of the range."""
    scale = budget.scale

    def count(value: int) -> jax.Array:
        return jnp.asarray(value, jnp.int32)

    return NoiseSettings(
        mu=budget.mu,
        radius=budget.radius,
        sigma=count(budget.sigma),
        noise=count(NOISES.index(budget.noise)),
        users=jnp.asarray(budget.users if budget.users < 2**31 else divmod(budget.users, 2**31), jnp.int32),
        steps=count(budget.steps),
        releases=count(budget.releases),
        clip=jnp.stack(clip if scale is None else [*clip, scale.mu, scale.units.astype(scale.mu.dtype)]),
    )


def join_settings(first: NoiseSettings, second: NoiseSettings) -> NoiseSettings:
    """Of two parts of one run."""
    return jax.tree.map(lambda *both: jnp.concatenate([jnp.atleast_1d(each) for each in both]), first, second)


def same_noise(begun: tuple[jax.Array, ...], current: tuple[jax.Array, ...]) -> jax.Array:
    """Whether two ``NoiseSettings``, or two others of one kind, are equal, dtypes and shapes included: ``()``."""
    pairs = list(zip(begun, current, strict=True))
    if any(old.dtype != new.dtype or old.shape != new.shape for old, new in pairs):
        return jnp.zeros((), bool)
    return jnp.all(jnp.stack([jnp.all(old == new) for old, new in pairs]))


def describe_noise_change(begun: tuple[jax.Array, ...], current: tuple[jax.Array, ...]) -> str:
    """What differs, by name and value, on the host; "" where nothing does."""
    pairs = zip(getattr(current, "_fields", ()), map(np.asarray, begun), map(np.asarray, current), strict=True)
    return ", ".join(
        f"{name} {new.tolist()} after {old.tolist()}"
        for name, old, new in pairs
        if old.dtype != new.dtype or old.shape != new.shape or np.any(old != new)
    )


def statement(budget: SumBudget, protects: str) -> guarantee.Guarantee:
    """GDP for replace-one on the users, of all releases together; none at ``mu = inf``.

    ``mu``-GDP for ideal noise where ``noise`` is "float"; where it is "exact" what ``radius`` and ``sigma`` give,
    within the total variation of all draws together.

    Raises:
      ValueError: a stacked budget; take one.
    """
    if budget.mu.ndim:
        raise ValueError(f"privacy takes one config, got mu of shape {budget.mu.shape}")
    if budget.noise != "exact" and jnp.isinf(budget.mu):
        return guarantee.no_guarantee(protects, "mu is infinite: no noise was added")
    releases, total_variation, level = budget.steps * budget.releases, 0.0, float(budget.mu)
    if budget.noise == "exact":
        level = accounting.rounded_gaussian_mu(sensitivity.integer_sum(int(budget.radius)), budget.sigma, releases)
        total_variation = releases * budget.dimension * tables.gaussian_total_variation(budget.sigma)
    parts = ()
    if budget.scale is not None:
        first = private_scale.level(budget.scale)
        parts = (FIND_SCALE, first), (RELEASES, level)
        level = accounting.compose_gdp_rounded_up(first, level)
        total_variation += private_scale.total_variation(budget.scale)
    return guarantee.guarantee(
        "gdp",
        level,
        "replace_one",
        protects,
        assumptions=(
            guarantee.RANDOM_BITS if budget.noise == "exact" else guarantee.IDEAL_NOISE,
            guarantee.PUBLIC_CONFIG,
            guarantee.SEPARABLE_LOSSES,
        ),
        total_variation=total_variation,
        parts=parts,
    )


def statement_parts(config: Any, stated: guarantee.Guarantee) -> tuple[tuple[str, float], ...]:
    """What the statement of a config spends its budget on: its own parts, or all of it on one mechanism.

    A config without a ``SumBudget`` of sums names its mechanism in an attribute ``mechanism``.
    """
    if stated.parts:
        return stated.parts
    sums = isinstance(getattr(config, "budget", None), SumBudget)
    return ((RELEASES if sums else getattr(config, "mechanism", SEARCH), stated.level),)


class Units(NamedTuple):
    """``units ()`` traced, ``rate`` static: see above. ``units`` is 0 where nothing is to be released."""

    units: jax.Array
    rate: Fraction


def units(name: str, epsilon: float, moves: int) -> Units:
    """How many grid units a sensitivity may become if a release costs ``moves units rate``; at most ``epsilon``.

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
    smallest = float(MIN_UNITS * moves * RATES[-1])
    raise ValueError(
        f"{name} must be at least {smallest:.2g} with exact noise, got {epsilon:g} (noise='float' has no grid)"
    )


def quantise_scores(scores: jax.Array, units: jax.Array, sensitivity: jax.Array) -> jax.Array:
    """Scores as ``int32`` that move by at most ``units`` where they move by ``sensitivity``; not finite ones are least.

    Rounded down, which keeps a shift of whole units a shift. Two or four units are kept back for that, and for the
    rounding of the product, which is why integers end at 2^30, in float32 at 2^24: there scores beyond count as there.
    How far ``scores`` themselves are rounded is the caller's to count in ``sensitivity``.
    """
    step, end = grid_unit(units, sensitivity), _end(scores.dtype)
    scaled = jnp.where(jnp.isfinite(scores), jnp.floor(scores / step), -end)
    return jnp.clip(scaled, -end, end).astype(jnp.int32)


def grid_unit(units: jax.Array, sensitivity: jax.Array) -> jax.Array:
    """What one unit of ``quantise_scores`` stands for."""
    kept_back = 2 if sensitivity.dtype == jnp.float64 else 4
    return sensitivity / (units - kept_back).astype(sensitivity.dtype)


def _end(dtype: Any) -> float:
    return 2.0**30 if dtype == jnp.float64 else 2.0**24


def _grid_noise(mu: float, dimension: int, releases: int, share: float) -> tuple[int, int]:
    """Radius and sigma, or a refusal that says what would do; ``mu`` is a ``share`` of what was asked for."""
    if dimension >= MAX_RADIUS:
        raise ValueError(
            f"dimensions must be fewer than {MAX_RADIUS} for exact noise, got {dimension} (noise='float' has no grid)"
        )
    least = MIN_RADIUS * math.sqrt(dimension)
    for sigma in SIGMAS:
        radius = sensitivity.largest_radius(accounting.largest_distance(mu, sigma, releases))
        if radius >= least:
            break
    else:
        smallest = (
            accounting.rounded_gaussian_mu(sensitivity.integer_sum(math.ceil(least)), SIGMAS[-1], releases) / share
        )
        raise requested_budget.BudgetError(
            "least",
            1.005 * smallest,
            mu / share,
            f"for exact noise on {releases} sums in {dimension} dimensions, got {{}}: with less, rounding costs more "
            "than 4 % (noise='float' has no grid)",
        )
    if radius >= MAX_RADIUS:
        largest = accounting.rounded_gaussian_mu(sensitivity.integer_sum(MAX_RADIUS - 1), sigma, releases) / share
        raise requested_budget.BudgetError(
            "most",
            0.995 * largest,
            mu / share,
            f"for exact noise on {releases} sums in {dimension} dimensions, got {{}}; noise='none' with mu=inf is no "
            "noise",
        )
    return radius, sigma

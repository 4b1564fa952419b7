"""The private scale of users' numbers: for a clip norm or a loss range that nobody can state.

Each user has a single number, such as the norm of a gradient. Bisection seeks the median over users among the powers
of two from 2^-40 to 2^40: each step counts the numbers up to the middle of the remaining range, adds noise, and keeps
the half that seems to hold the median. The grid is public, so the search starts without any user's input. A high
quantile would not do: with few users a high quantile of noisy counts is anywhere above the largest number.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import accounting, arrays, checks, sensitivity
from jaxdpbo.accounting import requested_budget
from jaxdpbo.noise import mechanisms, wide_integers
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.types import DTypeLike

LOWEST, HIGHEST = -40, 40  # exponents
COUNTS = math.ceil(math.log2(HIGHEST - LOWEST + 1))  # steps of the bisection, each with a noisy count
SHARE = 0.05  # of the squared budget
DEVIATIONS = 3.0  # of a count's noise, in half of the users: a wrong scale costs more than a rough one
FACTOR = 1.0  # of the median, rounded up to a power of two
PRIVATE = "private"  # in place of a clip norm or a range
SIGMA = 65536  # of the integers' noise
MIN_UNITS, MAX_UNITS = 32, 2**20  # twice the second times 2^40 users has 61 bits; a larger budget gets no more


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScaleNoise:
    """Settings for the noise of the counts; made by ``scale_noise``.

    Attributes:
      mu: ``()``, traced: the GDP budget of all counts together.
      units: ``()``, traced: integers that one user counts for; 0 unless ``noise`` is "exact".
      kind: "exact", "float" or "none".
    """

    mu: jax.Array
    units: jax.Array
    kind: str = field(metadata={"static": True})


def scale_noise(mu: float, noise: str, *, dtype: DTypeLike) -> ScaleNoise:
    """Make the noise of the counts.

    Args:
      mu: of all counts together; ``inf`` with ``noise="none"``.
      noise: "exact", "float" or "none".
      dtype: of ``mu``.

    Raises:
      ValueError: too little budget for exact noise.
    """
    units = 0
    if noise == "exact":
        units = min(accounting.largest_distance(mu, SIGMA, COUNTS), MAX_UNITS)
        if units < MIN_UNITS:
            least = accounting.rounded_gaussian_mu(MIN_UNITS, SIGMA, COUNTS) / SHARE**0.5
            reason = f"to find a scale with exact noise for {100 * SHARE:g} % of mu^2, got {{}}"
            raise requested_budget.BudgetError("least", 1.01 * least, mu / SHARE**0.5, reason)
    return ScaleNoise(arrays.to_device(mu, dtype), arrays.to_device(units, jnp.int32), noise)


def level(noise: ScaleNoise) -> float:
    """Return the GDP level of all counts together: ``mu``, or the level of the integers."""
    if noise.kind != "exact":
        return float(noise.mu)
    return accounting.rounded_gaussian_mu(sensitivity.count(int(noise.units)), SIGMA, COUNTS)


def users_needed(mu: float) -> int:
    """Return the number of users from which half of a count is ``DEVIATIONS`` of its noise: with fewer, guess a scale.

    Args:
      mu: the GDP budget of the whole search; the scale gets a ``SHARE`` of ``mu^2``.

    >>> from jaxdpbo.noise import private_scale
    >>> private_scale.users_needed(1.0)
    71
    """
    return math.ceil(2 * DEVIATIONS * math.sqrt(COUNTS / SHARE) / mu)


def total_variation(noise: ScaleNoise) -> float:
    """Bound the total variation of all counts from counts with the noise of ``level``."""
    return COUNTS * tables.gaussian_total_variation(SIGMA) if noise.kind == "exact" else 0.0


def median(key: jax.Array, noise: ScaleNoise, numbers: jax.Array) -> jax.Array:
    """Return the least power of two ``()`` with half of ``numbers (n,)`` at most as large, by noisy counts.

    Formal guarantee: ``level(noise)``-GDP, replace-one: a user moves each count by ``sensitivity.count``, and the
    choice of the next count depends on noisy counts alone. NaN counts as more than any number.

    Args:
      key: for the noise; used once.
      noise: of ``scale_noise``.
      numbers: one for each user; raw.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import secret_key
    >>> from jaxdpbo.noise import private_scale
    >>> chosen = private_scale.scale_noise(1.0, "exact", dtype=float)
    >>> float(private_scale.median(secret_key(), chosen, jnp.full(500, 3.0)))
    4.0
    """
    return median_of_counts(key, noise, count_differences(numbers), len(numbers), numbers.dtype)


def count_differences(numbers: jax.Array, present: jax.Array | None = None) -> wide_integers.Wide:
    """Count how many of ``numbers (s,)`` are at most each power of two, ``(81,)``, for the median.

    Args:
      numbers: one for each user; raw.
      present: ``(s,)``, False at those that stand for nobody.
    """

    def is_at_most(exponent: jax.Array) -> wide_integers.Wide:
        within = numbers <= jnp.ldexp(jnp.ones((), numbers.dtype), exponent)
        within = within if present is None else within & present
        return wide_integers.total(within.astype(jnp.int32), 0)

    return jax.lax.map(is_at_most, jnp.arange(LOWEST, HIGHEST + 1, dtype=jnp.int32))


def median_of_counts(
    key: jax.Array, noise: ScaleNoise, counts: wide_integers.Wide, users: int, dtype: DTypeLike
) -> jax.Array:
    """Return the ``median`` of ``users`` numbers by their ``count``, as ``dtype``, from seven of the 81 counts."""

    def halve(ends, key):
        low, high = ends
        middle = (low + high) // 2
        counted = jax.tree.map(lambda word: word[middle - LOWEST], counts)
        enough = _reaches_half(key, noise, counted, users)
        return (jnp.where(enough, low, jnp.minimum(middle + 1, high)), jnp.where(enough, middle, high)), None

    ends = jnp.asarray(LOWEST, jnp.int32), jnp.asarray(HIGHEST, jnp.int32)
    (exponent, _), _ = jax.lax.scan(halve, ends, jax.random.split(key, COUNTS))
    return jnp.ldexp(jnp.ones((), dtype), exponent)


def is_scale(number: float) -> bool:
    """True for a number from the least to the largest scale that can be found."""
    return FACTOR * 2.0**LOWEST <= number <= FACTOR * 2.0**HIGHEST


def largest_differences(losses: jax.Array, reference: jax.Array) -> jax.Array:
    """Return each user's largest difference ``(n,)`` of ``losses (m, n)`` from ``reference (n,)``; NaN if any is NaN.

    Differences of a user's losses between points need no known offset, and a search needs no more:
    ``mean(losses - reference)`` has its minimum where the mean loss has.
    """
    return jnp.max(jnp.abs(losses - reference[None]), axis=0)


def clip_norm(value: Any, dtype: DTypeLike) -> float:
    """Return a checked ``clip_norm`` as ``dtype`` holds the number; 0 for "private"."""
    if isinstance(value, str):
        checks.one_of("clip_norm", value, (PRIVATE,))
        return 0.0
    return checks.positive("clip_norm", value, dtype=dtype)


def _reaches_half(key, noise, counted, users):
    if noise.kind == "exact":
        drawn = wide_integers.widen(mechanisms.rounded_gaussian(key, (), SIGMA))
        noisy = wide_integers.add(wide_integers.multiply(counted, noise.units), drawn)
        unit, everyone = wide_integers.widen(jnp.ones((), jnp.int32)), wide_integers.constant(users)
        twice = wide_integers.add(wide_integers.add(noisy, noisy), unit)  # at least half, rounded down
        return wide_integers.is_at_least(twice, wide_integers.multiply(everyone, noise.units))
    noisy = wide_integers.to_float(counted, noise.mu.dtype)
    if noise.kind == "float":
        noisy = mechanisms.gaussian(key, noisy, sensitivity.count(1) * COUNTS**0.5 / noise.mu)
    return noisy >= users / 2

"""Exact choice among many candidates by integer scores.

Both mechanisms clamp scores to a fixed range, so no score moves by more than before; neither looks at the best
score first: this would double its sensitivity.
"""

from fractions import Fraction
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.noise.mechanisms.discrete_noise import geometric

LIMB = 16  # bits of a limb in a 32-bit word: sums of 2^16 limbs, and products of two, fit


def noisy_argmax(key: jax.Array, scores: jax.Array, rate: Fraction) -> jax.Array:
    """Return the first row of largest score plus geometric noise: a discrete relative of permute-and-flip.

    Formal guarantee: if neighbours move each of the ``scores`` by at most ``m``, the result is within ``len(scores)``
    times ``geometric_total_variation(rate)`` of a ``2 m rate``-DP mechanism. With the other draws fixed, row
    ``i`` wins where its draw is at least some ``t``, neighbours move ``t`` by ``2 m`` at most, and
    ``P(g >= t) = exp(-rate max(t, 0))``. Ties go to the first: the proof needs this fixed rule. At equal epsilon the
    mean is never worse than the exponential mechanism's (McKenna and Sheldon 2020, for permute-and-flip).

    Args:
      key: a typed key, used for this draw only.
      scores: ``(c,)`` ``int32``; clamped to ``largest_score(rate)`` either way.
      rate: of the noise, static.

    Returns:
      The row ``()``, an integer.

    >>> from fractions import Fraction
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import mechanisms, secret_key
    >>> int(mechanisms.noisy_argmax(secret_key(), jnp.array([0, 0, 9999], jnp.int32), Fraction(1, 2)))
    2
    """
    limit = largest_score(rate)
    return jnp.argmax(jnp.clip(scores, -limit, limit) + geometric(key, scores.shape, rate))


def largest_score(rate: Fraction) -> int:
    """Return the largest score that cannot wrap around with noise: in a comparison, wrapping is no post-processing.

    Raises:
      ValueError: the noise alone would not fit.
    """
    limit = 2**31 - 1 - 2 ** tables.digits(rate)
    if limit < 2**29:
        raise ValueError(f"rate must be at least 2^-23, got {float(rate):g}")
    return limit


def exact_exponential(key: jax.Array, scores: jax.Array, rate: Fraction) -> jax.Array:
    """Draw a row with probability proportional to an integer weight, ``exp(rate score)`` rounded up.

    Formal guarantee: if neighbours move each of the ``scores`` by at most ``m``, the result is within ``2^-128`` of a
    ``2 m rate``-DP mechanism: weights of neighbouring scores differ by a factor of ``e^rate`` at most, exactly
    (``ladder``), and so do their sums (McSherry and Talwar 2007). Scores count between 0 and ``top(rate)``,
    about ``66 / rate``. Addresses depend on the scores.

    Args:
      key: a typed key, used for this draw only.
      scores: ``(c,)`` ``int32``, ``c < 2^16``.
      rate: static.

    Returns:
      The row ``()``, an integer.

    Raises:
      ValueError: too many candidates, at trace time.

    >>> from fractions import Fraction
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import mechanisms, secret_key
    >>> int(mechanisms.exact_exponential(secret_key(), jnp.array([0, 0, 120], jnp.int32), Fraction(1, 2)))
    2
    """
    if scores.shape[0] >= 2**LIMB:
        raise ValueError(f"scores must be fewer than {2**LIMB}, got {scores.shape[0]}")
    highest = top(rate)
    weights = jnp.asarray(_limbs_of_ladder(rate))[highest - jnp.clip(scores, 0, highest)].astype(jnp.uint32)
    sums = _carry(jnp.cumsum(weights, axis=0))  # limbs of 16 bits, the least first: no sum of them wraps
    words = jax.random.bits(key, (8,), jnp.uint32)
    drawn = _carry(_product(jnp.stack([words & 0xFFFF, words >> LIMB], axis=1).reshape(-1), sums[-1]))
    return jnp.sum(_is_at_most(sums, drawn[16 : 16 + sums.shape[1]][None]))


def top(rate: Fraction) -> int:
    """Return the score at and above which ``exact_exponential`` treats scores as equal."""
    return len(tables.ladder(rate)) - 1


@cache
def _limbs_of_ladder(rate):
    """Limbs ``(w, 8)`` of 16 bits, in as many: programs hold them as a constant."""
    return np.array([[weight >> LIMB * i & 0xFFFF for i in range(8)] for weight in tables.ladder(rate)], np.uint16)


def _carry(limbs):
    """Carry limbs ``(..., k)`` of up to 32 bits into 16 bits each; nothing leaves at the top."""
    carried, carry = [], jnp.zeros(limbs.shape[:-1], jnp.uint32)
    for i in range(limbs.shape[-1]):
        carried.append((limbs[..., i] & 0xFFFF) + (carry & 0xFFFF))
        carry = (limbs[..., i] >> LIMB) + (carry >> LIMB) + (carried[-1] >> LIMB)
        carried[-1] = carried[-1] & 0xFFFF
    return jnp.stack(carried, axis=-1)


def _product(first, second):
    """Return limbs of a product, not carried: each sums at most twice as many 16-bit numbers as the shorter has."""
    low = jnp.zeros(first.shape[0] + second.shape[0] + 1, jnp.uint32)
    for i in range(second.shape[0]):
        parts = first * second[i]
        low = low.at[i : i + first.shape[0]].add(parts & 0xFFFF)
        low = low.at[i + 1 : i + 1 + first.shape[0]].add(parts >> LIMB)
    return low


def _is_at_most(first, second):
    """Return whether ``first <= second``, limbs least first."""
    smaller = jnp.ones(first.shape[:-1], bool)
    for i in range(first.shape[-1]):
        smaller = (first[..., i] < second[..., i]) | ((first[..., i] == second[..., i]) & smaller)
    return smaller

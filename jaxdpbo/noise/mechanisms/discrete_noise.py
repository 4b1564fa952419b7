"""Exact noise on the integers: compare 128 random bits with a table (``tables``), without rejection.

The bits decide no branch and no address of the traced program (except the search in ``planar_laplace``); the behaviour
of XLA and the machine is not promised. jit, vmap, scan and x64 do not change the integers. The key may be of any kind;
with a ``chacha20`` key of ``secret_key`` the bits are uniform to anyone with bounded computing power.
"""

import functools
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks
from jaxdpbo.noise.mechanisms import tables


def rounded_gaussian(key: jax.Array, shape: tuple[int, ...], sigma: int, bits: int = 128) -> jax.Array:
    """Draw ``round(sigma N)`` for standard normal ``N``: integers, at most some 19 widths.

    Formal guarantee: added to integers that neighbours move by at most ``s`` in l2 norm, the result is within
    ``gaussian_total_variation(sigma, bits)`` a draw, in total variation, of ``round(x + sigma N)``:
    post-processing of the Gaussian mechanism, so ``s / sigma``-GDP. A sum wrapping around 2^32 is post-processing too.

    Args:
      key: a typed key, used for these draws only.
      shape: of the draws.
      sigma: an integer, static: its tables are part of the program.
      bits: 128, or 64 for many draws at a third of the cost; static.

    Returns:
      ``int32``.

    >>> from jaxdpbo import mechanisms, secret_key
    >>> mechanisms.rounded_gaussian(secret_key(), (3,), sigma=4).shape
    (3,)
    """
    return _draw_sum(key, shape, tables.gaussian(sigma, bits))


def discrete_gaussian(key: jax.Array, shape: tuple[int, ...], sigma: int) -> jax.Array:
    """Draw integers with ``P(x)`` proportional to ``exp(-x^2 / (2 sigma^2))``: shares of noise that add up.

    A sum of independent draws is a draw of the summed variance, which is not true of rounded Gaussians. For a single
    draw prefer ``rounded_gaussian``, which costs less.

    Formal guarantee: added to integers that neighbours move by at most ``s`` in l2 norm, the result is
    ``s / sqrt(sigma^2 - 4.5)``-GDP but for a total variation, see ``accounting.noise_shares`` (docs/theorems.md).

    Args:
      key: a typed key, used for these draws only.
      shape: of the draws.
      sigma: an integer, static: its tables are part of the program.

    Returns:
      ``int32``.

    >>> from jaxdpbo import secret_key
    >>> from jaxdpbo.noise import mechanisms
    >>> mechanisms.discrete_gaussian(secret_key(), (3,), sigma=200).shape
    (3,)
    """
    return _draw_sum(key, shape, tables.discrete_gaussian(sigma))


def geometric(key: jax.Array, shape: tuple[int, ...], rate: Fraction) -> jax.Array:
    """Draw integers with ``P(g)`` proportional to ``exp(-rate g)``, ``0 <= g < 2^tables.digits(rate)``; ``int32``.

    >>> from fractions import Fraction
    >>> from jaxdpbo import mechanisms, secret_key
    >>> bool((mechanisms.geometric(secret_key(), (3,), Fraction(1, 2)) >= 0).all())
    True
    """
    return geometric_from_table(key, checks.shape("shape", shape), jnp.asarray(tables.geometric(rate)))


def geometric_from_table(key: jax.Array, shape: tuple[int, ...], table: jax.Array) -> jax.Array:
    """Draw as ``geometric`` from a traced table of ``geometric``: at most 31 digits, 0 for rows of 0."""
    places = (len(table), *(1,) * len(shape))
    words = jax.random.bits(key, (tables.WORDS, len(table), *shape), jnp.uint32)
    ones = ~is_at_least(words, [table[:, i].reshape(places) for i in range(tables.WORDS)])
    powers = jnp.asarray(2 ** np.arange(len(table), dtype=np.int64), jnp.int32).reshape(places)
    return jnp.sum(jnp.where(ones, powers, 0), axis=0, dtype=jnp.int32)


def discrete_laplace(key: jax.Array, shape: tuple[int, ...], rate: Fraction) -> jax.Array:
    """Draw integers with ``P(x)`` proportional to ``exp(-rate |x|)``: the difference of two geometric draws; ``int32``.

    Formal guarantee: added to integers that neighbours move by at most ``s`` in l1 norm, the result is within twice
    ``geometric_total_variation(rate)`` a draw of an ``s rate``-DP mechanism (Ghosh, Roughgarden and Sundararajan
    2009). On ``d`` coordinates moving by ``s`` in l2 norm the mechanism is ``s sqrt(d) rate``-DP.

    >>> from fractions import Fraction
    >>> from jaxdpbo import mechanisms, secret_key
    >>> mechanisms.discrete_laplace(secret_key(), (3,), Fraction(1, 2)).shape
    (3,)
    """
    return discrete_laplace_from_table(key, checks.shape("shape", shape), jnp.asarray(tables.geometric(rate)))


def discrete_laplace_from_table(key: jax.Array, shape: tuple[int, ...], table: jax.Array) -> jax.Array:
    """Draw as ``discrete_laplace`` from a table, see ``geometric_from_table``."""
    plus, minus = jax.random.split(key)
    return geometric_from_table(plus, shape, table) - geometric_from_table(minus, shape, table)


def planar_laplace(key: jax.Array, count: int, rate: Fraction) -> jax.Array:
    """Draw points ``(count, 2)`` of the integer plane with ``P(z)`` proportional to ``exp(-rate |z|)``; ``int32``.

    Formal guarantee: added to integer points, the result is within ``planar_total_variation(rate)`` a draw of a
    metric DP mechanism, ``rate`` for each unit of Euclidean distance, by the triangle inequality alone. The draw
    searches the table: addresses depend on the draw.

    >>> from fractions import Fraction
    >>> from jaxdpbo import mechanisms, secret_key
    >>> mechanisms.planar_laplace(secret_key(), 3, Fraction(1)).shape
    (3, 2)
    """
    octant, count = tables.planar(rate), checks.size("count", count, minimum=0)
    where, way = jax.random.split(key)
    row = _search_thresholds(jax.random.bits(where, (tables.WORDS, count), jnp.uint32), octant.thresholds)
    cell = jnp.asarray(octant.cells)[row]
    turn = jax.random.bits(way, (3, count), jnp.uint32) & 1
    cell = jnp.where(turn[0][:, None] == 1, cell[:, ::-1], cell)
    return cell * (1 - 2 * turn[1:].T.astype(jnp.int32))


def outcome(key: jax.Array, shape: tuple[int, ...], probabilities: tuple[Fraction, ...]) -> jax.Array:
    """Draw outcomes ``0, 1, ...`` with these probabilities of sum 1; ``int32``.

    Each probability holds to within 2^-128, and exactly if all are multiples of 2^-128.

    >>> from fractions import Fraction
    >>> from jaxdpbo import secret_key
    >>> from jaxdpbo.noise import mechanisms
    >>> mechanisms.outcome(secret_key(), (3,), (Fraction(1, 4), Fraction(3, 4))).shape
    (3,)
    """
    table = tables.choice(probabilities)[None]
    words = jax.random.bits(key, (tables.WORDS, 1, *checks.shape("shape", shape)), jnp.uint32)
    return _count_thresholds(words, table)[0]


def is_at_least(words: Any, thresholds: Any) -> jax.Array:
    """Return whether numbers of several ``words (w, ...)`` are at least ``thresholds``; compare all words."""
    reached = words[-1] >= thresholds[-1]
    for word, threshold in zip(reversed(words[:-1]), reversed(thresholds[:-1]), strict=True):
        reached = (word > threshold) | ((word == threshold) & reached)
    return reached


def _draw_sum(key: jax.Array, shape: tuple[int, ...], table: tables.TableSum) -> jax.Array:
    limbs, factors = table
    count, places = limbs.shape[2], checks.shape("shape", shape)
    words = jax.random.bits(key, (count * len(factors) + 1, *places), jnp.uint32)
    drawn = _draw_signed(words[1:].reshape(count, len(factors), *places), words[0], limbs)
    return functools.reduce(jnp.add, (factor * part for factor, part in zip(factors, drawn, strict=True)))


def _draw_signed(words, signs, limbs):
    """Draw from ``k`` tables ``limbs (k, T, 4)`` of magnitudes, by ``words (4, k, ...)`` and a bit of ``signs (...)``.

    -0 is 0, so 0 keeps its probability.
    """
    bits = jnp.arange(len(limbs), dtype=jnp.uint32).reshape(-1, *(1,) * signs.ndim)
    sign = (signs[None] >> bits & 1).astype(jnp.int32)
    return (_count_thresholds(words, limbs) ^ -sign) + sign


def _count_thresholds(words, limbs):
    """Return ``#{x: u >= t_x}`` for ``words (4, k, ...)`` and ``limbs (k, T, 4)``; compare all thresholds."""
    places = (*limbs.shape[1::-1], *(1,) * (words.ndim - 2))
    thresholds = [jnp.asarray(limbs[:, :, i].T.reshape(places)) for i in range(len(words))]
    start = words, jnp.zeros(words.shape[1:], jnp.int32)
    return jax.lax.scan(_count, start, thresholds, unroll=8)[0][1]


def _count(carry, threshold):
    """Count a threshold: a shared function, so that draws outside a program are not compiled anew each time."""
    words, count = carry
    return (words, count + is_at_least(words, threshold).astype(jnp.int32)), None


def _search_thresholds(words, table):
    """Count thresholds by halving: the number of steps is fixed, the addresses are not."""
    limbs, count = jnp.asarray(table), len(table)

    def halve(_, bounds):
        low, high = bounds  # t[low - 1] <= u, u < t[high]
        middle = (low + high) // 2
        above = is_at_least(words, [limbs[middle, i] for i in range(tables.WORDS)]) & (low < high)
        return jnp.where(above, middle + 1, low), jnp.where(above | (low >= high), high, middle)

    start = jnp.zeros(words.shape[1:], jnp.int32), jnp.full(words.shape[1:], count, jnp.int32)
    return jax.lax.fori_loop(0, count.bit_length(), halve, start)[0]

"""Batches: uniform subsets of fixed size, without replacement, drawn anew at every step, as the accountant assumes.

Abadi et al. (2016) and Avent et al. (2020) call a batch a lot.

A small batch is drawn with replacement, and the first of equal draws are kept until there are enough. By symmetry every
ordered subset is equally likely, also given enough different rows, so repeating the whole draw after too few is exact.
A large batch is the rows of the ``m`` smallest of ``n`` random words of 64 bits in their order, all drawn again where
two of them, or the last and the next, are equal: exact by the same symmetry. An example's value may depend on its
place, so the order matters too. Random words are made for many steps at once, because the cost is per call.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks

SPARSE = 8  # a batch up to n / 8 is drawn with replacement
BLOCK = 32  # batches that share a call for random words


class History(NamedTuple):
    """Row draws so far, to find equal draws: ``stamps (n,)``, the last draw of each row, and ``time ()``."""

    stamps: jax.Array
    time: jax.Array


def empty_history(records: int) -> History:
    """Make a history without draws. Start again from it after at most ``BLOCK`` batches: ``time`` is int32."""
    return History(jnp.full(records, -1, jnp.int32), jnp.zeros((), jnp.int32))


def draw_count(records: int, capacity: int) -> int:
    """Number of draws with replacement for ``capacity`` different rows, in all but one batch in a million.

    0: do not draw such a large batch this way.
    """
    records, capacity = checks.size("records", records), checks.size("capacity", capacity)
    if capacity * SPARSE > records:
        return 0
    repeated = capacity**2 / (2 * records)
    return math.ceil(-records * math.log1p(-capacity / records) + 6 * math.sqrt(repeated)) + 4


def random_words(key: jax.Array, records: int, capacity: int) -> jax.Array:
    """Draw ``(draws,)`` random words for one batch; for ``vmap`` over keys."""
    return jax.random.bits(key, (draw_count(records, capacity),), jnp.uint32)


def draw_batches(
    key: jax.Array, words: jax.Array, batch: jax.Array, capacity: int, history: History
) -> tuple[jax.Array, jax.Array, History]:
    """Draw rows of ``n``, with a mask of a batch of ``m`` different ones.

    Args:
      key: for randomness beyond ``words``; not the key of ``words``.
      words: of ``random_words``.
      batch: ``m () <= capacity``, traced.
      capacity: static, at most ``n``.
      history: ``empty_history(n)``, or the history returned by the last draw.

    Returns:
      Rows ``(c,)``, a mask ``(c,)`` with ``m`` ones, and the history to pass on, for an update in place.
    """
    records = history.stamps.shape[0]
    count = draw_count(records, capacity)
    if not count:
        return _smallest(key, batch, records)[:capacity], jnp.arange(capacity, dtype=jnp.int32) < batch, history
    whole = np.uint32(2**32 // records * records - 1)  # larger words would favour the first rows
    earlier_is_more = jnp.arange(count - 1, -1, -1, dtype=jnp.int32)

    def attempt(words, history):
        rows = (words % np.uint32(records)).astype(jnp.int32)
        own = jnp.where(words <= whole, history.time * count + earlier_is_more, -1)
        stamps = history.stamps.at[rows].max(own)
        first = (stamps[rows] == own) & (own >= 0)
        return rows, first, jnp.cumsum(first, dtype=jnp.int32), History(stamps, history.time + 1)

    def too_few(carry):
        _, (_, _, rank, _) = carry
        return rank[-1] < batch

    def again(carry):
        key, (*_, history) = carry
        key, words_key = jax.random.split(key)
        return key, attempt(random_words(words_key, records, capacity), history)

    _, (rows, first, rank, history) = jax.lax.while_loop(too_few, again, (key, attempt(words, history)))
    return rows, first & (rank <= batch), history


def _smallest(key: jax.Array, batch: jax.Array, records: int) -> jax.Array:
    """Order all rows ``(n,)`` at random; the first ``m`` are an ordered subset, uniform over all subsets."""
    numbers = jnp.arange(records, dtype=jnp.int32)

    def attempt(key):
        key, words_key = jax.random.split(key)
        words = jax.random.bits(words_key, (2, records), jnp.uint32)
        high, low, rows = jax.lax.sort((words[0], words[1], numbers), num_keys=2, is_stable=False)
        tied = (high[1:] == high[:-1]) & (low[1:] == low[:-1]) & (numbers[1:] <= batch)
        return key, rows, jnp.any(tied)

    return jax.lax.while_loop(lambda carry: carry[2], lambda carry: attempt(carry[0]), attempt(key))[1]

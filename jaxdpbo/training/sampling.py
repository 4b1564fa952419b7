"""Batches: uniform subsets of fixed size, without replacement, drawn anew at every step, as the accountant assumes.

A small batch is drawn with replacement, and the first of equal draws are kept until there are enough: by symmetry every
ordered subset is as likely, also given that there were enough different ones, so drawing all again where there were not
is exact. A large one is the rows of the ``m`` smallest of ``n`` random words, all drawn again where the last of them
equals the next, which is exact by the same symmetry. Random words are made for many steps at once: for one, what costs
is the call.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks

SPARSE = 8  # a batch up to n / 8 is drawn with replacement
AHEAD = 32  # batches that share a call for random words


class Seen(NamedTuple):
    """Tells equal draws apart: ``stamps (n,)``, when a row was last drawn, and ``time ()``."""

    stamps: jax.Array
    time: jax.Array


def unseen(records: int) -> Seen:
    """To begin with; anew after ``AHEAD`` batches at most, before time runs out of its whole numbers."""
    return Seen(jnp.full(records, -1, jnp.int32), jnp.zeros((), jnp.int32))


def draws_of(records: int, capacity: int) -> int:
    """How many with replacement hold ``capacity`` different ones, but for one batch in a million; 0: not this way."""
    records, capacity = _checks.size("records", records), _checks.size("capacity", capacity)
    if capacity * SPARSE > records:
        return 0
    repeated = capacity**2 / (2 * records)
    return math.ceil(-records * math.log1p(-capacity / records) + 6 * math.sqrt(repeated)) + 4


def words_of(key: jax.Array, records: int, capacity: int) -> jax.Array:
    """``(draws,)`` random words for one batch; for ``vmap`` over keys."""
    return jax.random.bits(key, (draws_of(records, capacity),), jnp.uint32)


def draw(
    key: jax.Array, words: jax.Array, batch: jax.Array, capacity: int, seen: Seen
) -> tuple[jax.Array, jax.Array, Seen]:
    """Rows of ``n``, and which of them are the batch: ``m`` different ones.

    Args:
      key: of what ``words`` do not decide: not the one they came from.
      words: of ``words_of``.
      batch: ``m () <= capacity``, traced.
      capacity: static, at most ``n``.
      seen: of ``unseen(n)``, or as the last draw left it.

    Returns:
      Rows ``(c,)``, a mask ``(c,)`` with ``m`` ones, and ``seen`` to pass on: so that it is written in place.
    """
    records = seen.stamps.shape[0]
    count = draws_of(records, capacity)
    if not count:
        return _smallest(key, batch, records)[:capacity], jnp.arange(capacity) < batch, seen
    whole = np.uint32(2**32 // records * records - 1)  # words above it would favour the first rows
    earlier_is_more = jnp.arange(count - 1, -1, -1, dtype=jnp.int32)

    def attempt(words, seen):
        rows = (words % np.uint32(records)).astype(jnp.int32)
        own = jnp.where(words <= whole, seen.time * count + earlier_is_more, -1)
        stamps = seen.stamps.at[rows].max(own)
        first = (stamps[rows] == own) & (own >= 0)
        return rows, first, jnp.cumsum(first, dtype=jnp.int32), Seen(stamps, seen.time + 1)

    def too_few(carry):
        _, (_, _, rank, _) = carry
        return rank[-1] < batch

    def again(carry):
        key, (*_, seen) = carry
        key, words_key = jax.random.split(key)
        return key, attempt(words_of(words_key, records, capacity), seen)

    _, (rows, first, rank, seen) = jax.lax.while_loop(too_few, again, (key, attempt(words, seen)))
    return rows, first & (rank <= batch), seen


def _smallest(key: jax.Array, batch: jax.Array, records: int) -> jax.Array:
    """All rows ``(n,)``, of which the first ``m`` are a uniform subset; their order is not uniform."""
    numbers = jnp.arange(records, dtype=jnp.int32)

    def attempt(key):
        key, words_key = jax.random.split(key)
        words = jax.random.bits(words_key, (records,), jnp.uint32)
        words, rows = jax.lax.sort((words, numbers), num_keys=1, is_stable=False)
        last, after = words[jnp.maximum(batch, 1) - 1], words[jnp.minimum(batch, records - 1)]
        return key, rows, (last == after) & (batch < records)

    return jax.lax.while_loop(lambda carry: carry[2], lambda carry: attempt(carry[0]), attempt(key))[1]

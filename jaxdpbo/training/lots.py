"""Lots: uniform subsets of fixed size, without replacement, drawn anew at every step, as the accountant assumes.

A small lot is found by drawing with replacement and keeping the first of equal ones: by symmetry every ordered subset
is as likely, also given that there were enough different ones, so drawing all again where there were not is exact. A
large one is the head of a random permutation.
"""

import jax
import jax.numpy as jnp

SPARSE = 8  # a lot under n / 8 is drawn with replacement
NOWHERE = jnp.iinfo(jnp.int32).max


def marks(records: int) -> jax.Array:
    """What ``draw`` needs to tell equal draws apart: ``(n,)``, the same after as before."""
    return jnp.full(records, NOWHERE, jnp.int32)


def draw(key: jax.Array, lot: jax.Array, capacity: int, marks: jax.Array) -> tuple[jax.Array, jax.Array]:
    """``(capacity,)`` different rows of ``n``, of which the first ``lot () <= capacity`` count.

    Args:
      key: of this lot.
      lot: ``m``, traced.
      capacity: static, at most ``n``.
      marks: of ``marks(n)``.

    Returns:
      The rows, and ``marks`` to pass on: so that it is written in place.
    """
    records = marks.shape[0]
    if capacity * SPARSE > records:
        return jax.random.permutation(key, records)[:capacity].astype(jnp.int32), marks
    count = capacity + capacity // SPARSE + 8
    places = jnp.arange(count, dtype=jnp.int32)

    def attempt(carry):
        key, marks, _, _ = carry
        key, draw_key = jax.random.split(key)
        rows = jax.random.randint(draw_key, (count,), 0, records, jnp.int32)
        marks = marks.at[rows].min(places)
        first = marks[rows] == places
        marks = marks.at[rows].set(NOWHERE)
        rank = jnp.cumsum(first, dtype=jnp.int32) - 1
        kept = jnp.zeros(capacity, jnp.int32).at[jnp.where(first, rank, capacity)].set(rows, mode="drop")
        return key, marks, kept, rank[-1] + 1

    def too_few(carry):
        return carry[3] < lot

    start = (key, marks, jnp.zeros(capacity, jnp.int32), jnp.zeros((), jnp.int32))
    _, marks, rows, _ = jax.lax.while_loop(too_few, attempt, start)
    return rows, marks

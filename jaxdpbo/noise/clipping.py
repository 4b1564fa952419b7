"""Bound one user's move: clip each user's vector, round to a grid if the noise is exact, then add up.

A user with a vector that is not finite counts as the zero vector, before the clip. NaN defeats a clip
(``min(1, B / NaN)`` is NaN), and an error would itself tell an observer something.
"""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.noise import calibration, totals, wide_integers
from jaxdpbo.types import DTypeLike

Real = TypeVar("Real", jax.Array, np.ndarray)  # traced, or known on the host
RADIUS_BITS = 16  # of one user's integers
# Users at a time: their vectors stay in cache, and no (d, n) array is ever written. The size is fixed, so that a user's
# part is rounded equally in any group of many users, and in a group padded to this size. With few users a loop
# over chunks takes longer than one pass.
CHUNK_BITS = 12
CHUNK = 2**CHUNK_BITS
MOST_AT_ONCE = 2 * CHUNK


def clip_by_l2_norm(vectors: jax.Array, clip_norm: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Project each column onto the ball of radius ``clip_norm`` (Algorithm 1, line 7 of Sopa et al. 2025).

    >>> import jax.numpy as jnp
    >>> from jaxdpbo.noise import clip_by_l2_norm
    >>> clipped, norms, finite = clip_by_l2_norm(jnp.array([[3.0], [4.0]]), jnp.asarray(1.0))
    >>> clipped.shape
    (2, 1)

    Args:
      vectors: ``(d, n)``, a column for each user.
      clip_norm: ``B``, positive.

    Returns:
      The clipped columns ``(d, n)``; ``clipped (n,)``, True for a norm above ``B``; ``nonfinite (n,)``, True where a
      column (or its squared norm over ``B^2``) was not finite and so counts as zero, and everywhere if ``1 / B`` is no
      normal number. Both flags are raw data.
    """
    squared = jnp.sum(jnp.square(vectors / clip_norm), axis=0)  # in units of B: squaring B itself could underflow
    nonfinite = ~(jnp.isfinite(squared) & (1 / clip_norm >= jnp.finfo(vectors.dtype).tiny))
    clipped = ~nonfinite & (squared > 1.0)
    scale = jnp.where(clipped, jax.lax.rsqrt(jnp.where(clipped, squared, 1.0)), 1.0)
    return jnp.where(nonfinite[None], 0.0, vectors) * scale[None], clipped, nonfinite


def l2_norms(vectors: jax.Array) -> jax.Array:
    """Return the norms ``(n,)`` of columns ``(d, n)``, no square leaving the floats; NaN for a column with NaN."""
    largest = jnp.max(jnp.abs(vectors), axis=0)
    scale = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1.0)
    return scale * jnp.sqrt(jnp.sum(jnp.square(vectors / scale[None]), axis=0))


def clip_and_sum(
    vectors: jax.Array, clip_norm: jax.Array, radius: jax.Array | None = None, present: jax.Array | None = None
) -> tuple[totals.UserSum, jax.Array, jax.Array]:
    """Clip and add up columns; with ``radius`` as integers, so nothing about the sum is rounded.

    Replacing a column moves the sum by ``sensitivity.clipped_sum``, up to rounding. With ``radius`` each column
    becomes integers of l2 norm at most ``radius`` (``quantise``), and the move is ``sensitivity.integer_sum`` exactly.

    Args:
      vectors: ``(d, n)``, a column for each user.
      clip_norm: ``B``, positive.
      radius: ``()`` ``int32``, the integers for ``B``; ``radius`` and ``d`` below 2^16.
      present: ``(n,)``, False at columns that stand for nobody; None if all stand for users.

    Returns:
      The sum ``(d,)``, with ``radius`` as ``wide_integers.Wide`` in units of ``grid_step``; the numbers of users
      clipped and refused.
    """
    counted, clipped, nonfinite = _clip_and_quantise(vectors, clip_norm, radius, present)
    total = jnp.sum(counted, axis=1) if radius is None else wide_integers.total(counted, RADIUS_BITS)
    return total, jnp.sum(clipped), jnp.sum(nonfinite)


def sum_clipped_vectors(
    noise: calibration.SumNoise, vectors: jax.Array, clip_norm: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserSum, jax.Array, jax.Array]:
    """Apply ``clip_and_sum`` on the grid of the noise: for ``private_mean.perturb_vectors``."""
    return clip_and_sum(vectors, clip_norm, calibration.grid(noise), present)


def _clip_and_quantise(
    vectors: jax.Array, clip_norm: jax.Array, radius: jax.Array | None, present: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the terms ``(d, n)`` to add up, and flags ``(n,)`` of users clipped and refused."""
    vectors, clipped, nonfinite = clip_by_l2_norm(vectors, clip_norm)
    counted = vectors if radius is None else quantise(vectors, clip_norm, radius)
    if present is None:
        return counted, clipped, nonfinite
    return jnp.where(present[None], counted, 0), clipped & present, nonfinite & present


def quantise(vectors: jax.Array, clip_norm: jax.Array, radius: jax.Array) -> jax.Array:
    """Round columns ``(d, n)`` of norm up to ``clip_norm`` to integers of norm up to ``radius``, ``()`` or ``(n,)``.

    The last check is on integers, never on floats: a column beyond ``radius`` counts as zero. Clipped columns stay
    within: the ball is mapped to a ball smaller than ``radius`` by the most that rounding can add.
    """
    radius = jnp.atleast_1d(radius)
    scaled = jnp.rint(vectors * (reach(radius, vectors.shape[0], vectors.dtype) / clip_norm)[None])
    fits = jnp.abs(scaled) <= radius.astype(vectors.dtype)[None]  # False for NaN
    whole = jnp.where(fits, scaled, 0).astype(jnp.int32)
    squares, limit = (jnp.square(value.astype(jnp.uint32)) for value in (whole, radius))
    low = jnp.sum(squares & 0xFFFF, axis=0, dtype=jnp.uint32)  # in halves: 2^16 of them fit
    high = jnp.sum(squares >> 16, axis=0, dtype=jnp.uint32) + (low >> 16)
    within = (high < limit >> 16) | ((high == limit >> 16) & (low & 0xFFFF <= limit & 0xFFFF))
    return jnp.where(within[None], whole, 0)


def reach(radius: Real, dimension: int, dtype: DTypeLike) -> Real:
    """Return the radius ``()`` to scale vectors to before rounding to integers of norm at most ``radius``."""
    # Rounding moves each coordinate by half at most, so a vector by sqrt(d) / 2; float32 errs in the norm and in the
    # product by less than 2^-16. Without either margin a vector could end beyond the radius that the noise pays for.
    return (radius.astype(dtype) - dimension**0.5 / 2) * (1 - 2.0**-16)


def grid_step(clip_norm: Real, radius: Real, dimension: int) -> Real:
    """Return the value of a unit of a quantised sum."""
    return clip_norm / reach(radius, dimension, clip_norm.dtype)


def weighted_clipped_sum(
    weights: jax.Array,
    losses: jax.Array,
    clip_norm: jax.Array,
    radius: jax.Array | None = None,
    present: jax.Array | None = None,
) -> tuple[totals.UserSum, jax.Array, jax.Array]:
    """Apply ``clip_and_sum`` to ``weights.T @ losses[:, i]`` over users, in chunks: no ``(d, n)`` array is stored.

    Replacing one user's losses moves the result as in ``clip_and_sum``, for any losses, NaN and infinities included.
    ``weights`` and ``n`` must not depend on the users' data.

    Args:
      weights: ``(r, d)``, finite.
      losses: ``(m, n)``; the leading ``r <= m`` rows count.
      clip_norm: ``B``, positive.
      radius: see ``clip_and_sum``.
      present: see ``clip_and_sum``.

    Returns:
      As ``clip_and_sum``: the sum, and the numbers of users clipped, and refused as not finite. Raw data, not private.
    """
    rows, users = weights.shape[0], losses.shape[1]

    def sum_chunk(block: jax.Array, counts: jax.Array | None) -> tuple[jax.Array, jax.Array, jax.Array]:
        vectors = jnp.matmul(weights.T, block, precision="highest")
        counted, clipped, nonfinite = _clip_and_quantise(vectors, clip_norm, radius, counts)
        return jnp.sum(counted, axis=1, dtype=counted.dtype), jnp.sum(clipped), jnp.sum(nonfinite)

    def sum_chunk_from(start: jax.Array, counts: jax.Array | None) -> tuple[jax.Array, jax.Array, jax.Array]:
        if present is not None:
            here = jax.lax.dynamic_slice_in_dim(present, start, CHUNK)
            counts = here if counts is None else counts & here
        return sum_chunk(jax.lax.dynamic_slice(losses, (jnp.zeros_like(start), start), (rows, CHUNK)), counts)

    if users <= MOST_AT_ONCE:  # no loop, so no copy of the losses where all rows count
        sums, clipped, nonfinite = sum_chunk(losses[:rows], present)
        return sums if radius is None else wide_integers.widen(sums), clipped, nonfinite
    whole, rest = divmod(users, CHUNK)
    starts = CHUNK * jnp.arange(whole, dtype=jnp.int32)
    sums, *flags = jax.lax.map(lambda start: sum_chunk_from(start, None), starts)  # integers of a chunk fit 31 bits
    if rest:  # the last chunk overlaps the chunk before, and counts new users only
        last = sum_chunk_from(jnp.asarray(users - CHUNK, jnp.int32), jnp.arange(CHUNK) >= CHUNK - rest)
        sums, *flags = (
            jnp.concatenate([first, extra[None]]) for first, extra in zip((sums, *flags), last, strict=True)
        )
    total = jnp.sum(sums, axis=0) if radius is None else wide_integers.total(sums.T, RADIUS_BITS + CHUNK_BITS)
    clipped, nonfinite = (jnp.sum(flag) for flag in flags)
    return total, clipped, nonfinite

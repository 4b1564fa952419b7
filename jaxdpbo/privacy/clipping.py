"""Bound what one user can move: clip each user's vector, then average.

A user whose vector is not finite counts as the zero vector, before the clip. NaN defeats a clip
(``min(1, B / NaN)`` is NaN), and raising on it would itself tell an observer something.
"""

import jax
import jax.numpy as jnp

from jaxdpbo import _checks

RELATIONS = ("replace_one", "add_remove")
CHUNK = 4096  # users at a time, give or take a half: their vectors stay in cache, and no (d, n) array is ever written


def clip_by_l2_norm(vectors: jax.Array, clip_norm: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Project each column onto the ball of radius ``clip_norm`` (Algorithm 1, line 7 of Sopa et al. 2025).

    Args:
      vectors: ``(d, n)``, one user a column.
      clip_norm: ``B``, positive.

    Returns:
      The clipped columns ``(d, n)``; ``clipped (n,)``, True where the norm was above ``B``; ``refused (n,)``, True
      where a column (or its squared norm over ``B^2``) was not finite and so counts as zero. Both flags are raw data.
    """
    squared = jnp.sum(jnp.square(vectors / clip_norm), axis=0)  # in units of B: squaring B itself could underflow
    refused = ~jnp.isfinite(squared)
    clipped = ~refused & (squared > 1.0)
    scale = jnp.where(clipped, jax.lax.rsqrt(jnp.where(clipped, squared, 1.0)), 1.0)
    return jnp.where(refused[None], 0.0, vectors) * scale[None], clipped, refused


def clipped_mean(weights: jax.Array, losses: jax.Array, clip_norm: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mean over users of ``clip(weights.T @ losses[:, i])``, in chunks of users: no ``(d, n)`` array is stored.

    Moving one user's losses (replace-one) moves the result by at most
    ``clipped_sum_sensitivity(B, "replace_one") / n`` in l2 norm, up to the rounding of the sum, whatever the losses
    are, NaN and infinities included. ``weights`` and ``n`` must not depend on the users' data.

    Args:
      weights: ``(r, d)``, finite.
      losses: ``(m, n)``, of which the leading ``r <= m`` rows count.
      clip_norm: ``B``, positive.

    Returns:
      The mean ``(d,)``; how many users were clipped, and how many refused as not finite: raw data, not private.
    """
    rows, users = weights.shape[0], losses.shape[1]
    chunk = -(-users // max(1, round(users / CHUNK)))  # equal chunks: a small rest would cost as much as a whole one
    full, rest = divmod(users, chunk)

    def add(total, block):
        vectors = jnp.matmul(weights.T, block, precision="highest")
        vectors, clipped, refused = clip_by_l2_norm(vectors, clip_norm)
        part = jnp.sum(vectors, axis=1), jnp.sum(clipped), jnp.sum(refused)
        return jax.tree.map(jnp.add, total, part)

    count = jnp.zeros((), jnp.sum(jnp.zeros(1, bool)).dtype)
    total = (jnp.zeros(weights.shape[1], weights.dtype), count, count)
    if full == 1:  # no loop, so no copy of the losses where all rows count
        total = add(total, losses[:rows, :chunk])
    else:
        total = jax.lax.fori_loop(
            0,
            full,
            lambda i, total: add(total, jax.lax.dynamic_slice(losses, (0, i * chunk), (rows, chunk))),
            total,
        )
    if rest:
        total = add(total, losses[:rows, full * chunk :])
    return total[0] / users, total[1], total[2]


def clipped_sum_sensitivity(clip_norm: float, relation: str) -> float:
    """How far, in l2, neighbours move a sum of clipped vectors: ``2 B`` for "replace_one", ``B`` for "add_remove".

    Divide by ``n`` for the mean: only where ``n`` is public, so under "replace_one".
    """
    clip_norm = _checks.positive("clip_norm", clip_norm)
    return clip_norm * (2.0 if _checks.choice("relation", relation, RELATIONS) == "replace_one" else 1.0)

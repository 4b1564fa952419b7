"""Losses observed through noise, Sopa et al. (2025), section 3.4 and appendix C.5: ``observed = loss + deviation Z``.

``Z`` is standard normal, independent for each point. The paper does not say whether it is one for each user, and so of
deviation ``deviation / sqrt(n)`` on their mean, or one that all users share, of ``deviation`` on their mean: ``common``
chooses. An objective is a pure function of a point and data, so the data carry a key, and the noise of a point comes
from that key and the point's bits:

* the same point observed twice shows the same noise, and averaging repeats gains nothing;
* two points that differ in their last digit show independent noise. ``run_scan`` and ``run_loop`` evaluate at points
  equal up to rounding only, so their paths part here.

This noise is part of the problem. It protects nobody.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Data(NamedTuple):
    """What a noisy loss reads.

    Attributes:
      records: the data of the loss underneath.
      key: a typed key, from which the noise of every point comes.
      deviation: ``()``, the standard deviation of one observation; traced. Appendix C.5 has 0.01.
      common: ``()``, whether all users share one ``Z`` at a point; traced.
    """

    records: Any
    key: jax.Array
    deviation: Any
    common: Any = False


@cache
def objective(loss: Callable[[jax.Array, Any], jax.Array]) -> Callable[[jax.Array, Data], jax.Array]:
    """The objective ``(point (d,), Data) -> losses (n,)`` that observes ``loss(point, records)`` through noise.

    One function for each ``loss``, so it compiles as often as ``loss`` does. Entry ``i`` reads user ``i``'s record
    where ``loss`` does: its noise depends on the key, the point and at most ``i``.
    """

    def noisy_loss(point: jax.Array, data: Data) -> jax.Array:
        values = jnp.asarray(loss(point, data.records))
        noise = jax.random.normal(_point_key(data.key, jnp.asarray(point)), values.shape, values.dtype)
        noise = jnp.where(data.common, jnp.broadcast_to(noise[:1], noise.shape), noise)
        return values + jnp.asarray(data.deviation, values.dtype) * noise

    return noisy_loss


def _point_key(key: jax.Array, point: jax.Array) -> jax.Array:
    """``key`` folded with every word of the bits of ``point (d,)``; 0 and -0 are one point."""
    point = jnp.where(point == 0, jnp.zeros_like(point), point)
    words = jax.lax.bitcast_convert_type(point, jnp.uint32).ravel()
    return jax.lax.scan(lambda folded, word: (jax.random.fold_in(folded, word), None), key, words)[0]

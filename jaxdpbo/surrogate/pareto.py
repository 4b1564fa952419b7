"""Pareto fronts of objectives that are minimised: who is dominated, how much a front dominates, and its strips.

Arrays have a fixed capacity and a mask, so that one compilation serves a growing front.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Strips(NamedTuple):
    """What two objectives leave undominated below a reference point ``(2,)``, as ``n + 1`` rectangles open below.

    Strip ``i`` is ``left_i < f_1 < right_i``, ``f_2 < height_i``; strips of no width fill the capacity.

    Attributes:
      left: ``(n + 1,)``, -inf first.
      right: ``(n + 1,)``, the reference last.
      height: ``(n + 1,)``, falling from the reference.
    """

    left: jax.Array
    right: jax.Array
    height: jax.Array


def is_non_dominated(values: jax.Array, mask: jax.Array) -> jax.Array:
    """Which of ``values (n, p)`` nothing else dominates, ``(n,)``; False where not ``mask``.

    One dominates another where it is as small in every objective and smaller in one: equal points stay together.
    """
    smaller = jnp.all(values[:, None] <= values[None, :], axis=2) & jnp.any(values[:, None] < values[None, :], axis=2)
    return mask & ~jnp.any(smaller & mask[:, None], axis=0)


def strips(values: jax.Array, mask: jax.Array, reference: jax.Array) -> Strips:
    """Of ``values (n, 2)`` where ``mask``; only those below ``reference (2,)`` in both objectives count."""
    inside = mask & jnp.all(values < reference[None], axis=1)
    first = jnp.where(inside, values[:, 0], reference[0])
    order = jnp.argsort(first)
    first = first[order]
    second = jax.lax.cummin(jnp.where(inside, values[:, 1], reference[1])[order])
    return Strips(
        left=jnp.concatenate([jnp.full(1, -jnp.inf, first.dtype), first]),
        right=jnp.concatenate([first, reference[:1]]),
        height=jnp.concatenate([reference[1:], second]),
    )


def hypervolume(values: jax.Array, mask: jax.Array, reference: jax.Array) -> jax.Array:
    """The volume ``()`` between ``reference (p,)`` and what ``values (n, p)`` dominate, for ``p`` of 2 or 3.

    Points that are not below the reference in every objective count for nothing.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo.surrogate import pareto
    >>> float(pareto.hypervolume(jnp.array([[1.0, 2.0], [2.0, 1.0]]), jnp.ones(2, bool), jnp.array([3.0, 3.0])))
    3.0

    Raises:
      ValueError: another ``p``, at trace time.
    """
    dimension = values.shape[1]
    if dimension not in (2, 3):
        raise ValueError(f"values must have 2 or 3 objectives, got {dimension}")
    inside = mask & jnp.all(values < reference[None], axis=1)
    values = jnp.where(inside[:, None], values, reference[None])
    if dimension == 2:
        return _area(values, reference)
    values = values[jnp.argsort(values[:, 2])]
    depths = jnp.diff(jnp.append(values[:, 2], reference[2]))
    earlier = jnp.tril(jnp.ones((len(values), len(values)), bool))
    areas = jax.lax.map(
        lambda some: _area(jnp.where(some[:, None], values[:, :2], reference[None, :2]), reference), earlier
    )
    return jnp.sum(areas * depths)


def _area(values, reference):
    """Of points none of which lies beyond the reference."""
    values = values[jnp.argsort(values[:, 0])]
    lowest = jax.lax.cummin(jnp.append(reference[1], values[:, 1]))
    return jnp.sum((reference[0] - values[:, 0]) * (lowest[:-1] - lowest[1:]))

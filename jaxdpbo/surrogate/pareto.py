"""Pareto fronts of minimised objectives: non-dominated points, hypervolume, and strips of the undominated region.

Arrays have a fixed capacity and a mask, so one compilation serves a growing front.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate.entry import compiled, expect_shapes


class Strips(NamedTuple):
    """Undominated region of two objectives below a reference point ``(2,)``, as ``n + 1`` rectangles open below.

    Strip ``i`` is ``left_i < f_1 < right_i``, ``f_2 < height_i``; strips of no width fill the capacity.

    Attributes:
      left: ``(n + 1,)``, -inf first.
      right: ``(n + 1,)``, the reference last.
      height: ``(n + 1,)``, falling from the reference.
    """

    left: jax.Array
    right: jax.Array
    height: jax.Array


def is_non_dominated(values: jax.Array, mask: jax.Array | None = None) -> jax.Array:
    """Mark the rows of ``values (n, p)`` that no other row dominates, ``(n,)``; False where not ``mask (n,)``.

    Without a mask, all rows count.

    A row dominates another if all its objectives are at most as large and some objective is smaller: equal rows do not
    dominate each other.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> surrogate.is_non_dominated(jnp.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [True, False]

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    mask = _mask_of(values, mask)
    smaller = jnp.all(values[:, None] <= values[None, :], axis=2) & jnp.any(values[:, None] < values[None, :], axis=2)
    return mask & ~jnp.any(smaller & mask[:, None], axis=0)


def _mask_of(values, mask, objectives="p", reference=None):
    """Check shapes; return the mask, True throughout if it is None."""
    arrays = {"values": (values, f"n {objectives}"), "mask": (mask, "n"), "reference": (reference, objectives)}
    expect_shapes(**{name: pair for name, pair in arrays.items() if pair[0] is not None})
    return jnp.ones(values.shape[0], bool) if mask is None else mask


def undominated_strips(values: jax.Array, mask: jax.Array | None, reference: jax.Array) -> Strips:
    """Strips of ``values (n, 2)`` where ``mask (n,)``; only rows below ``reference (2,)`` in both objectives count.

    With None as the mask, all rows count.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> front = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> regions = surrogate.undominated_strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
    >>> regions.left.shape
    (3,)

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    mask = _mask_of(values, mask, "2", reference)
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


@compiled()
def hypervolume(values: jax.Array, mask: jax.Array | None, reference: jax.Array) -> jax.Array:
    """Volume ``()`` between ``reference (p,)`` and the region dominated by ``values (n, p)``, for ``p`` of 2 or 3.

    Points not below the reference in every objective add nothing. With None as the mask, all rows count.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> float(surrogate.hypervolume(jnp.array([[1.0, 2.0], [2.0, 1.0]]), jnp.ones(2, bool), jnp.array([3.0, 3.0])))
    3.0

    Raises:
      ValueError: another ``p``, or a wrong shape, at trace time.
    """
    mask = _mask_of(values, mask, reference=reference)
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
        lambda prefix: _area(jnp.where(prefix[:, None], values[:, :2], reference[None, :2]), reference), earlier
    )
    return jnp.sum(areas * depths)


def _area(values, reference):
    """Dominated area of points, none of them beyond the reference."""
    values = values[jnp.argsort(values[:, 0])]
    lowest = jax.lax.cummin(jnp.append(reference[1], values[:, 1]))
    return jnp.sum((reference[0] - values[:, 0]) * (lowest[:-1] - lowest[1:]))

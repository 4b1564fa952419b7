"""Which leaves of the data are the users', along which axis, and which are public."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo.types import Data, Tree

_NOTHING = object()  # the axis of None, which is no leaf


def axes_of(data: Data, user_axes: Tree) -> list[int | None]:
    """The axis of each leaf of ``data`` that counts users, from a prefix of its tree; None for public leaves.

    Raises:
      TypeError: one is neither an integer nor None.
      ValueError: it is no prefix, or names an axis that a leaf does not have.
    """
    expect_axes(user_axes)
    try:
        spread = jax.tree.map(
            lambda axis, part: jax.tree.map(lambda leaf: _NOTHING if leaf is None else axis, part, is_leaf=_is_none),
            user_axes,
            data,
            is_leaf=_is_none,
        )
    except ValueError:  # it quotes what the leaves hold
        spread = NotImplemented
    if spread is NotImplemented:
        raise ValueError(f"user_axes must be a prefix of the tree of data, got {jax.tree.structure(user_axes)}")
    axes: list[Any] = [axis for axis in jax.tree.leaves(spread, is_leaf=_is_none) if axis is not _NOTHING]
    for leaf, axis in zip(jax.tree.leaves(data), axes, strict=True):
        if axis is not None and not -np.ndim(leaf) <= axis < np.ndim(leaf):
            raise ValueError(f"user_axes must be axes of the leaves of data, got {axis} for shape {np.shape(leaf)}")
    return axes


def _is_none(leaf: Any) -> bool:
    return leaf is None


def expect_axes(user_axes: Tree) -> None:
    """TypeError where a leaf is neither an integer nor None."""
    for axis in jax.tree.leaves(user_axes):
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"user_axes must be integers or None, got {type(axis).__name__}")


def expect_users(leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
    """How many users the axes count; ValueError where they differ, or there are none."""
    lengths = {np.shape(leaf)[axis] for leaf, axis in zip(leaves, axes, strict=True) if axis is not None}
    if len(lengths) != 1:
        raise ValueError(f"user_axes must name axes of one length, got lengths {sorted(lengths)}")
    return lengths.pop()


def expect_one_role(data: Data, user_axes: Tree) -> None:
    """ValueError where a public leaf and one of the users' are one array, or share memory."""
    places = list(zip(jax.tree.leaves(data), axes_of(data, user_axes), strict=True))
    public, users = ([_memory(leaf) for leaf, axis in places if (axis is None) == of] for of in (True, False))
    if any(_shares(one, other) for one in public for other in users):
        raise ValueError("data must not hold one array both as public and as the users'")


class _Memory(NamedTuple):
    """Where a leaf is: the object, the buffers of JAX on whichever device, and the host's memory as NumPy sees it."""

    leaf: Any
    buffers: frozenset[tuple[str, int]]
    host: list[np.ndarray]


def _memory(leaf: Any) -> _Memory:
    if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        shards = [shard.data for shard in leaf.addressable_shards if shard.data.size]
        buffers = frozenset((str(part.device), part.unsafe_buffer_pointer()) for part in shards)
        return _Memory(leaf, buffers, [np.asarray(part) for part in shards if part.device.platform == "cpu"])
    shares = hasattr(leaf, "__array__") and not isinstance(leaf, (Tracer, jax.ShapeDtypeStruct))
    return _Memory(leaf, frozenset(), [np.asarray(leaf)] if shares else [])


def _shares(one: _Memory, other: _Memory) -> bool:
    return (
        one.leaf is other.leaf
        or bool(one.buffers & other.buffers)
        or any(np.shares_memory(mine, theirs) for mine in one.host for theirs in other.host)
    )

"""The axis of users in each leaf of the data; leaves without one are public."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo.types import Data, Tree

_NO_LEAF = object()  # stands for the axis of None, which is not a leaf


def find_axes(data: Data, user_axes: Tree) -> list[int | None]:
    """The axis of users in each leaf of ``data``, None for public leaves.

    Raises:
      TypeError: a leaf of ``user_axes`` is neither an integer nor None.
      ValueError: ``user_axes`` is not a prefix of the tree of ``data``, or names an axis missing from a leaf.
    """
    expect_axes(user_axes)
    try:
        spread = jax.tree.map(
            lambda axis, part: jax.tree.map(lambda leaf: _NO_LEAF if leaf is None else axis, part, is_leaf=_is_none),
            user_axes,
            data,
            is_leaf=_is_none,
        )
    except ValueError:  # the message may quote values: raise another one below, without it as context
        spread = NotImplemented
    if spread is NotImplemented:
        raise ValueError(f"user_axes must be a prefix of the tree of data, got {jax.tree.structure(user_axes)}")
    axes: list[Any] = [axis for axis in jax.tree.leaves(spread, is_leaf=_is_none) if axis is not _NO_LEAF]
    for leaf, axis in zip(jax.tree.leaves(data), axes, strict=True):
        if axis is not None and not -np.ndim(leaf) <= axis < np.ndim(leaf):
            raise ValueError(f"user_axes must be axes of the leaves of data, got {axis} for shape {np.shape(leaf)}")
    return axes


def _is_none(leaf: Any) -> bool:
    return leaf is None


def expect_axes(user_axes: Tree) -> None:
    """Raise a TypeError if a leaf is neither an integer nor None."""
    for axis in jax.tree.leaves(user_axes):
        if isinstance(axis, bool) or not isinstance(axis, int):
            raise TypeError(f"user_axes must be integers or None, got {type(axis).__name__}")


def expect_users(leaves: Sequence[Any], axes: Sequence[int | None]) -> int:
    """The number of users. Raise a ValueError if the axes have different lengths, or there are no axes."""
    lengths = {np.shape(leaf)[axis] for leaf, axis in zip(leaves, axes, strict=True) if axis is not None}
    if len(lengths) != 1:
        raise ValueError(f"user_axes must name axes of one length, got lengths {sorted(lengths)}")
    return lengths.pop()


def expect_one_role(data: Data, user_axes: Tree) -> None:
    """Raise a ValueError if a public leaf and a leaf of the users are the same array or share memory."""
    leaf_axes = list(zip(jax.tree.leaves(data), find_axes(data, user_axes), strict=True))
    public = [_memory(leaf) for leaf, axis in leaf_axes if axis is None]
    users = [_memory(leaf) for leaf, axis in leaf_axes if axis is not None]
    if any(_share_memory(first, second) for first in public for second in users):
        raise ValueError("data must not hold one array both as public and as the users'")


def expect_apart(public: Tree, data: Tree, users: int) -> None:
    """Refuse public records in the memory of the users' records.

    Raises:
      ValueError: an array of ``public`` shares memory with an array of ``data`` that has a row for each of the users.
    """
    arrays = [[leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "__array__")] for tree in (public, data)]
    first, second = ([_memory(leaf) for leaf in leaves] for leaves in arrays)
    of_users = [memory for memory in second if getattr(memory.leaf, "shape", ())[:1] == (users,)]
    if any(_share_memory(*pair) for pair in itertools.product(first, of_users)):
        raise ValueError(
            "public must not share an array with the users' records: if these rows need no protection, give a copy"
        )


class _Memory(NamedTuple):
    """The memory of a leaf: the object itself, its JAX buffers on every device, and NumPy views of its host memory."""

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


def _share_memory(first: _Memory, second: _Memory) -> bool:
    return (
        first.leaf is second.leaf
        or bool(first.buffers & second.buffers)
        or any(np.shares_memory(*views) for views in itertools.product(first.host, second.host))
    )

"""Which leaves of the data are the users', along which axis, and which are public."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

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
    """ValueError where one array is both public and the users'."""
    places = zip(jax.tree.leaves(data), axes_of(data, user_axes), strict=True)
    roles = {(id(leaf), axis is None) for leaf, axis in places}
    if len({place for place, _ in roles}) < len(roles):
        raise ValueError("data must not hold one array both as public and as the users'")

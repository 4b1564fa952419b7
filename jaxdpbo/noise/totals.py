"""Totals: sums over some of the users in a step, before any noise. Raw.

Totals of disjoint users add up, over chunks, devices, processes and partitions. With exact noise they are whole
numbers of 64 bits, so the sum is the same in any order.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp

from jaxdpbo.noise import wide_integers
from jaxdpbo.types import Tree

Leaves = TypeVar("Leaves")  # a pytree of arrays

UserSum: TypeAlias = wide_integers.Wide | jax.Array  # whole numbers where the noise is exact, otherwise floats


class UserTotal(NamedTuple):
    """The sum of some users' contributions. NOT PRIVATE.

    Attributes:
      whole: a pytree, the only part passed to ``perturb``: ``wide_integers.Wide`` if the noise is exact, otherwise
        floats.
      facts: sums over the same users for diagnostics, by name, such as how many were clipped.
    """

    whole: Any
    facts: dict[str, Any]


def add(first: Tree, second: Tree) -> Tree:
    """Add the totals of two disjoint groups of users, for pytrees of equal structure.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo.noise import totals
    >>> float(totals.add(totals.UserTotal(jnp.ones(()), ()), totals.UserTotal(jnp.ones(()), ())).whole)
    2.0
    """
    return _each(lambda a, b: wide_integers.add(a, b) if _is_wide(a) else a + b, first, second)


def psum(total: Tree, axis_name: str) -> Tree:
    """Sum over the devices of a mapped axis."""
    return _each(lambda a: (wide_integers.psum if _is_wide(a) else jax.lax.psum)(a, axis_name), total)


def make_zeros(function: Callable[..., Tree], *arguments: Tree) -> Any:
    """Make zeros in the shapes of ``function(*arguments)``, without computing: the total of no users."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, *arguments))


def only_if(condition: jax.Array, tree: Leaves) -> Leaves:
    """Return ``tree`` if the ``condition ()`` holds, otherwise zeros, for parts that a step does not pay for.

    Keys stay: a key in a release is public randomness, and there is no zero of its type.
    """

    def zero(leaf: jax.Array) -> jax.Array:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return leaf
        return jnp.where(condition, leaf, jnp.zeros_like(leaf))

    return jax.tree.map(zero, tree)


def _each(function: Callable[..., Any], *trees: Any) -> Any:
    return jax.tree.map(function, *trees, is_leaf=_is_wide)


def _is_wide(leaf: Any) -> bool:
    return isinstance(leaf, wide_integers.Wide)

"""Users over devices and processes: what is sharded by user stays where it is, and what leaves a device is a sum.

The caller shards the data, which is the one line that changes::

    mesh = jax.make_mesh((8,), ("devices",))
    data = jax.device_put(data, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices")))

Whatever its axes are called and of which kind they are, a program sees a mesh of two of kind ``Auto``: one of users,
over which XLA spreads all that has an entry for each, and one of runs, the axes that the data are not sharded along,
for ``sweep``. Every device goes through its own users (``sum_over_users``); a step adds whole numbers over devices, and
these add up in any order.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxdpbo import _user_values
from jaxdpbo.privacy import guarantee, totals
from jaxdpbo.types import Tree

USERS_AXIS = "users"  # who traces under a mesh with such an axis has the users spread over its devices
RUNS_AXIS = "runs"
Kept = TypeVar("Kept")


def place_users(data: Tree) -> Any:
    """Data on a mesh of users and runs, where a leaf of them is sharded; otherwise as they are.

    Raises:
      ValueError: leaves lie on different devices, or are sharded along more than one axis.
    """
    sharded = [leaf for leaf in jax.tree.leaves(data) if _is_sharded(leaf)]
    if not sharded:
        return data
    if len({_layout(leaf.sharding.mesh) for leaf in sharded}) > 1:
        raise ValueError("data must lie on one mesh, got leaves on several")
    names = {name for leaf in sharded for name in _names(leaf.sharding.spec)}
    users = _mesh(sharded[0].sharding.mesh, names)

    def place(leaf: Any) -> Any:
        spec = leaf.sharding.spec if _is_sharded(leaf) else PartitionSpec()
        dimensions = [number for number, entry in enumerate(spec) if entry is not None]
        if dimensions and (len(dimensions) > 1 or set(_names(spec)) != names):
            raise ValueError(f"data must be sharded along the axis of users alone, got {spec}")
        along = [None] * dimensions[0] + [USERS_AXIS] if dimensions else []
        return jax.device_put(leaf, NamedSharding(users, PartitionSpec(*along)))

    return jax.tree.map(place, data)


def find_mesh(data: Tree) -> Mesh | None:
    """The mesh that ``place_users`` put data on; None where they are not sharded."""
    return next((leaf.sharding.mesh for leaf in jax.tree.leaves(data) if _is_sharded(leaf)), None)


def local_devices() -> list[Any]:
    """Of this process; what ``jax.default_device`` names alone, where it names any."""
    named = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if named is None or isinstance(named, str):
        return jax.local_devices(backend=named)
    return [named]


def use_mesh(found: Mesh | None) -> AbstractContextManager[Any]:
    """What programs of such data are traced and called in."""
    return nullcontext() if found is None else jax.set_mesh(found)


def move_to_mesh(found: Mesh | None, tree: Kept) -> Kept:
    """What was made under a mesh that the caller set lies on that one: here on ``found``, a copy on each device."""

    def place(leaf: Any) -> Any:
        given = getattr(leaf, "sharding", None)
        if found is None or not isinstance(given, NamedSharding) or given.mesh == found:
            return leaf
        return jax.device_put(leaf, NamedSharding(found, PartitionSpec()))

    return jax.tree.map(place, tree)


def gather_release(found: Mesh | None, tree: Any) -> Any:
    """A release of programs of such data, for the caller to use beside anything, under whatever mesh."""
    if found is None:
        return tree
    place = NamedSharding(found, PartitionSpec())
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(jax.device_put(leaf, place))), tree)


def sum_over_users(function: Callable[..., tuple[Any, Any]], public: Tree, own: Tree) -> tuple[Any, Any]:
    """``function(public, own)``: a sum over users, and what each keeps.

    Where users are spread over devices, each device adds up its own, and only the sums travel.

    Args:
      function: of any of the users; returns a pytree that adds up over users (``privacy.totals``), and one of arrays
        with users on the last axis.
      public: a pytree, the same for all users.
      own: a pytree of arrays with users on the last axis.
    """
    found, (users, *_) = jax.sharding.get_abstract_mesh(), [leaf.shape[-1] for leaf in jax.tree.leaves(own)]
    if USERS_AXIS not in found.auto_axes or users % found.shape[USERS_AXIS]:
        return function(public, own)

    def user_specs(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: PartitionSpec(*[None] * (leaf.ndim - 1), USERS_AXIS), tree)

    def sum_on_device(public: Tree, own: Tree) -> tuple[Tree, Tree]:
        total, kept = function(public, own)
        return totals.psum(total, USERS_AXIS), kept

    kept = user_specs(jax.eval_shape(function, public, own)[1])
    spread = jax.shard_map(
        sum_on_device, mesh=found, in_specs=(PartitionSpec(), user_specs(own)), out_specs=(PartitionSpec(), kept),
        axis_names={USERS_AXIS}, check_vma=False,
    )  # fmt: skip
    return spread(public, own)


def expect_one_process(what: str, data: Tree) -> None:
    """Nothing, unless a leaf of the data lies on several processes, in parts or in copies.

    Raises:
      ValueError: one does: each process would draw noise, or charge, of its own, for one sum.
    """
    if _is_shared(data):
        raise ValueError(f"{what} must not be given users on several processes: each would draw or charge for itself")


def share_keys(
    data: Tree, keys: jax.Array, *statements: guarantee.Guarantee
) -> tuple[jax.Array, tuple[guarantee.Guarantee, ...]]:
    """The keys of the first process, and what is stated of runs that pass keys and sums from one to another.

    Two processes that drew noise of their own would each release the sum, or that of a copy, with different noise.
    """
    if not _is_shared(data):
        return keys, statements
    words = multihost_utils.broadcast_one_to_all(jax.random.key_data(keys))
    same = jax.random.wrap_key_data(jnp.asarray(np.asarray(words)), impl=jax.random.key_impl(keys))
    return same, tuple(each.assuming(guarantee.WIRE) for each in statements)


def _layout(given: Mesh) -> tuple[Any, ...]:
    """Of which kind its axes are makes no difference."""
    return given.axis_names, given.devices.shape, tuple(given.devices.flat)


def _mesh(given: Mesh, names: set[str]) -> Mesh:
    """The same devices."""
    axes = sorted(range(len(given.axis_names)), key=lambda axis: given.axis_names[axis] not in names)
    share = int(np.prod([given.shape[name] for name in names], dtype=int))
    return Mesh(np.transpose(given.devices, axes).reshape(share, -1), (USERS_AXIS, RUNS_AXIS))


def _names(spec: PartitionSpec) -> list[str]:
    entries = (entry if isinstance(entry, tuple) else (entry,) for entry in spec if entry is not None)
    return [name for entry in entries for name in entry]


def _is_shared(data: Tree) -> bool:
    """By several processes."""
    found = [each for leaf in _user_values.leaves(data) for each in (leaf if isinstance(leaf, list) else [leaf])]
    arrays = [leaf for leaf in found if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer)]
    return any(not leaf.is_fully_addressable for leaf in arrays)


def _is_sharded(leaf: Any) -> bool:
    sharding = getattr(leaf, "sharding", None)
    return isinstance(sharding, NamedSharding) and bool(_names(sharding.spec))

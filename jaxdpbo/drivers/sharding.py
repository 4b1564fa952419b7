"""Spread users over devices and processes: records stay on their device, and only sums leave a device.

Shard your data along the users; the rest of your program stays as it is::

    mesh = jax.make_mesh((8,), ("devices",))
    data = jax.device_put(data, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices")))

You may name the axes of the mesh as you like, with axes of any kind. A program sees a mesh of two axes of kind
``Auto``: users, over which XLA spreads every array with an entry per user, and runs, for ``sweep``, made of the axes
along which the data are not sharded. Every device sums over its own users (``sum_over_users``). A step adds integers
over devices, so their order makes no difference.
"""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxdpbo import user_values
from jaxdpbo.guarantee import assumptions
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.noise import totals
from jaxdpbo.types import Tree

USERS_AXIS = "users"  # programs traced under a mesh with this axis spread the users over its devices
RUNS_AXIS = "runs"
Kept = TypeVar("Kept")


def place_users(data: Tree) -> Any:
    """Move data to a mesh of users and runs if a leaf is sharded; return other data unchanged.

    Raises:
      ValueError: leaves lie on different devices, or are sharded along more than one axis.
    """
    sharded = [leaf for leaf in jax.tree.leaves(data) if _is_sharded(leaf)]
    if not sharded:
        return data
    if len({_layout(leaf.sharding.mesh) for leaf in sharded}) > 1:
        raise ValueError("data must lie on one mesh, got leaves on several meshes")
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
    """The mesh of data from ``place_users``; None for data that are not sharded."""
    return next((leaf.sharding.mesh for leaf in jax.tree.leaves(data) if _is_sharded(leaf)), None)


def local_devices() -> list[Any]:
    """The devices of this process, or only those named by ``jax.default_device``."""
    named = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    if named is None or isinstance(named, str):
        return jax.local_devices(backend=named)
    return [named]


def use_mesh(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """The context in which to trace and call programs of data on a mesh."""
    return nullcontext() if mesh is None else jax.set_mesh(mesh)


def move_to_mesh(mesh: Mesh | None, tree: Kept) -> Kept:
    """Copy leaves from a mesh set by the caller to every device of ``mesh``; return other leaves unchanged."""

    def place(leaf: Any) -> Any:
        sharding = getattr(leaf, "sharding", None)
        if mesh is None or not isinstance(sharding, NamedSharding) or sharding.mesh == mesh:
            return leaf
        return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec()))

    return jax.tree.map(place, tree)


def gather_release(mesh: Mesh | None, tree: Any) -> Any:
    """Gather a release from a mesh, so that the caller can combine the release with any arrays under any mesh."""
    if mesh is None:
        return tree
    place = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(jax.device_put(leaf, place))), tree)


def sum_over_users(function: Callable[..., tuple[Any, Any]], public: Tree, own: Tree) -> tuple[Any, Any]:
    """Evaluate ``function(public, own)``: a sum over users, and arrays with an entry per user.

    If users are spread over devices, each device sums over its own users, and only sums travel.

    Args:
      function: takes any subset of the users; returns a pytree of sums over users (``noise.totals``), and a pytree
        of arrays with users on the last axis.
      public: a pytree, the same for all users.
      own: a pytree of arrays with users on the last axis.
    """
    mesh, (users, *_) = jax.sharding.get_abstract_mesh(), [leaf.shape[-1] for leaf in jax.tree.leaves(own)]
    if USERS_AXIS not in mesh.auto_axes or users % mesh.shape[USERS_AXIS]:
        return function(public, own)

    def user_specs(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: PartitionSpec(*[None] * (leaf.ndim - 1), USERS_AXIS), tree)

    def sum_on_device(public: Tree, own: Tree) -> tuple[Tree, Tree]:
        total, kept = function(public, own)
        return totals.psum(total, USERS_AXIS), kept

    kept = user_specs(jax.eval_shape(function, public, own)[1])
    spread = jax.shard_map(
        sum_on_device, mesh=mesh, in_specs=(PartitionSpec(), user_specs(own)), out_specs=(PartitionSpec(), kept),
        axis_names={USERS_AXIS}, check_vma=False,
    )  # fmt: skip
    return spread(public, own)


def refuse_explicit_axes(traced: Tree, error: Exception) -> None:
    """Raise from an ``error`` about shardings if a leaf lies on a mesh with an axis that is not of kind ``Auto``.

    Raises:
      ValueError: says which mesh works.
    """
    if not re.search("sharding|mesh|replicated", str(error)):
        return
    meshes = [jax.typeof(leaf).sharding.mesh for leaf in jax.tree.leaves(traced) if isinstance(leaf, jax.Array)]
    for mesh in meshes:
        if any(kind is not AxisType.Auto for kind in mesh.axis_types):
            names = "".join(f"{name!r}, " for name in mesh.axis_names)
            raise ValueError(
                "key and data must lie on a mesh with axes of kind Auto: make it by jax.make_mesh(shape, "
                f"({names.strip()}), axis_types=(jax.sharding.AxisType.Auto,) * {len(mesh.axis_names)}), or call sweep"
            ) from error


def expect_one_process(what: str, data: Tree) -> None:
    """Raise if a leaf of the data lies on several processes, in parts or in copies.

    Raises:
      ValueError: a leaf lies on several processes: each would draw noise, or charge, for the same sum.
    """
    if _is_shared(data):
        raise ValueError(f"{what} must not be given users on several processes: each would draw or charge for itself")


def share_keys(
    data: Tree, keys: jax.Array, *guarantees: _guarantee.Guarantee
) -> tuple[jax.Array, tuple[_guarantee.Guarantee, ...]]:
    """Give all processes the keys of the first, and add the assumption that nobody reads the connection.

    Two processes with different keys would each release the same sum with different noise.
    """
    if not _is_shared(data):
        return keys, guarantees
    words = multihost_utils.broadcast_one_to_all(jax.random.key_data(keys))
    same = jax.random.wrap_key_data(jnp.asarray(np.asarray(words)), impl=jax.random.key_impl(keys))
    return same, tuple(guarantee.assuming(assumptions.WIRE) for guarantee in guarantees)


def _layout(mesh: Mesh) -> tuple[Any, ...]:
    """The axes and devices of a mesh, without the kinds of its axes."""
    return mesh.axis_names, mesh.devices.shape, tuple(mesh.devices.flat)


def _mesh(mesh: Mesh, names: set[str]) -> Mesh:
    """The mesh of users and runs on the same devices; the axes ``names`` become users."""
    axes = sorted(range(len(mesh.axis_names)), key=lambda axis: mesh.axis_names[axis] not in names)
    share = int(np.prod([mesh.shape[name] for name in names], dtype=int))
    return Mesh(np.transpose(mesh.devices, axes).reshape(share, -1), (USERS_AXIS, RUNS_AXIS))


def _names(spec: PartitionSpec) -> list[str]:
    entries = (entry if isinstance(entry, tuple) else (entry,) for entry in spec if entry is not None)
    return [name for entry in entries for name in entry]


def _is_shared(data: Tree) -> bool:
    """True if an array lies on several processes."""
    leaves = [part for leaf in user_values.leaves(data) for part in (leaf if type(leaf) is list else [leaf])]
    arrays: Any = [leaf for leaf in leaves if user_values.is_instance(leaf, jax.Array)]  # tracers are not
    return any(not leaf.is_fully_addressable for leaf in arrays)


def _is_sharded(leaf: Any) -> bool:
    sharding = getattr(leaf, "sharding", None)
    return isinstance(sharding, NamedSharding) and bool(_names(sharding.spec))

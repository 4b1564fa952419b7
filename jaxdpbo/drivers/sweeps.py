"""Many runs in one compiled program: seeds, budgets and step sizes, on one device or several."""

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from jaxdpbo import _checks
from jaxdpbo.drivers import runs
from jaxdpbo.drivers.compiled import scan
from jaxdpbo.privacy import guarantee
from jaxdpbo.privacy.keys import for_release
from jaxdpbo.types import Algorithm, Objective

POLICIES = ("map", "vmap", "shard")
CALL_RUNS = 64  # on a device in one call: until a call returns XLA's CPU client keeps some 2 MB of each run


class Sweep(NamedTuple):
    """Many runs; leading axes ``(c, s)`` are configs and keys, ``(s,)`` where one config was given.

    Attributes:
      release: as one run's, with the leading axes.
      guarantees: of ONE run of each config. All the releases together spend what they compose to.
      failed: True for a run whose covariance of evaluated points, a public quantity, could not be factored.
    """

    release: Any
    guarantees: tuple[guarantee.Guarantee, ...]
    failed: jax.Array


def sweep(
    algorithm: Algorithm,
    objective: Objective,
    data: Any,
    configs: Any,
    keys: jax.Array,
    *,
    policy: str | None = None,
) -> Sweep:
    """``run_scan`` of every config with every key: one compilation, and memory for one run at a time and the releases.

    Every run spends its own budget on the same users: ``accounting.compose_gdp`` says what they add up to. For fresh
    data in every run, or figures of merit that are not released, map a function of your own with ``distribute``.

    Args:
      algorithm: such as ``jaxdpbo.dp_gibo.algorithm``.
      objective: traceable, as for ``run_scan``.
      data: any pytree of arrays, shared by all runs.
      configs: one config, or a sequence of them that differ in traced numbers only.
      keys: typed keys ``(s,)``, such as ``jax.random.split(key, s)``; of any generator, which the guarantees name.
      policy: see ``distribute``.

    Raises:
      TypeError: ``keys`` are not typed keys.
      ValueError: ``configs`` is empty or differ in a static field, ``keys`` is not ``(s,)``, an unknown ``policy``.
    """
    alone = not isinstance(configs, Sequence)
    listed = (configs,) if alone else tuple(configs)
    if not listed or any(jax.tree.structure(one) != jax.tree.structure(listed[0]) for one in listed):
        raise ValueError(f"configs must be at least one and differ in traced numbers only, got {len(listed)}")
    _checks.keys("keys", keys)
    guarantees = tuple(
        for_release(keys[0], runs.statement_of(algorithm, objective, one), insecure_key=True)[1] for one in listed
    )
    pairs = jnp.repeat(jnp.arange(len(listed)), len(keys)), jnp.tile(keys, len(listed))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *listed)
    shared = stacked, runs.arrays(data)
    release, failed = distribute(_one_run(algorithm, objective), pairs, shared, policy=policy)
    axes = (len(keys),) if alone else (len(listed), len(keys))
    release, failed = jax.tree.map(lambda leaf: leaf.reshape(axes + leaf.shape[1:]), (release, failed))
    return Sweep(release, guarantees, failed)


@cache
def _one_run(algorithm: Algorithm, objective: Objective) -> Callable[[Any, Any], Any]:
    """One function for each pair, so that sweeping again does not compile again."""

    def run(pair, shared):
        (row, key), (configs, data) = pair, shared
        config = jax.tree.map(lambda leaf: leaf[row], configs)
        release, _, info = scan(algorithm, objective, key, config, data)
        return release, jnp.any(jnp.asarray(getattr(info, "factorisation_failed", False)))

    return run


def distribute(
    function: Callable[[Any, Any], Any], inputs: Any, shared: Any = None, *, policy: str | None = None
) -> Any:
    """``function(input, shared)`` for each leading index of ``inputs``, by one compiled program.

    ========  ==========================================================================================
    policy    the runs go
    ========  ==========================================================================================
    "map"     one after the other: on a CPU the working set of one run stays in its caches
    "vmap"    side by side: for accelerators
    "shard"   in equal shares over all local devices; in a share by "map" on CPUs, "vmap" elsewhere
    ========  ==========================================================================================

    A call has at most 64 runs a device, so memory does not grow with their number.

    Without a policy: "shard" where there are several devices, otherwise "map" on a CPU and "vmap" elsewhere. The choice
    for CPUs is measured (docs/benchmarks.md), the one for accelerators is not: no accelerator was at hand.

    A CPU is two devices where ``XLA_FLAGS=--xla_force_host_platform_device_count=2`` and ``NPROC=4`` are set before JAX
    is imported. Without the second, where it has no more cores than devices, the default is "map": jaxlib's batched
    LAPACK calls (0.10.2) wait for tasks on the pool of threads that they occupy, as many calls as threads wait for
    ever, and ``NPROC`` is the size of that pool. The same can befall "vmap" on a CPU, which is slow there besides. A
    function that factors no matrices in batches may be given ``policy="shard"`` without ``NPROC``, and is faster so.

    Args:
      function: pure and traceable, defined once: each fresh lambda is one more compilation.
      inputs: a pytree whose leaves share a leading axis of runs; typed keys may be among them.
      shared: a pytree that every run gets whole.
      policy: one of the table, or None.

    Raises:
      ValueError: an unknown policy, or leading axes that differ or are empty.
    """
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(inputs)}
    if len(counts) != 1 or counts & {(), (0,)}:
        raise ValueError(f"inputs must share one leading axis of at least 1, got {sorted(counts)}")
    devices = jax.local_devices()
    on_cpu = devices[0].platform == "cpu"
    alone = "map" if on_cpu else "vmap"
    several = len(devices) > 1 and not (on_cpu and _cpu_threads() <= len(devices))
    chosen = _checks.choice("policy", ("shard" if several else alone) if policy is None else policy, POLICIES)
    ((count,),) = counts
    share = len(devices) if chosen == "shard" else 1
    size = share * -(-count // (share * -(-count // (share * CALL_RUNS))))  # equal calls, each a multiple of the share
    parts = []
    for start in range(0, count, size):
        rows = jnp.arange(start, start + size) % count  # what the last call lacks repeats the first runs
        some = jax.tree.map(lambda leaf, rows=rows: jnp.asarray(leaf)[rows], inputs)
        if chosen == "shard":
            found = _in_shares(function, alone, tuple(devices), some, shared)
        else:
            found = _in_turn(function, chosen, some, shared)
        parts.append(jax.block_until_ready(jax.device_put(found, devices[0])))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:count], *parts)


def _cpu_threads() -> int:
    """The size of XLA's pool, by its own rule."""
    if "NPROC" in os.environ:
        return int(os.environ["NPROC"])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@partial(jax.jit, static_argnums=(0, 1))
def _in_turn(function, policy, inputs, shared):
    def one(each):
        return function(each, shared)

    return jax.lax.map(one, inputs) if policy == "map" else jax.vmap(one)(inputs)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _in_shares(function, policy, devices, inputs, shared):
    return jax.shard_map(
        partial(_in_turn, function, policy),
        mesh=Mesh(np.asarray(devices), ("runs",)),
        in_specs=(PartitionSpec("runs"), PartitionSpec()),
        out_specs=PartitionSpec("runs"),
        check_vma=False,
    )(inputs, shared)

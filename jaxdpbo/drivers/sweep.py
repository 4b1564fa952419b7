"""Many runs in one compiled program: seeds, budgets and step sizes, on one device or several."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxdpbo import _checks, _silence
from jaxdpbo.drivers import compiled_run, result, separability, sharding
from jaxdpbo.drivers.execution import Execution, check_execution
from jaxdpbo.privacy import guarantee
from jaxdpbo.privacy.keys import for_release, refuse_trace, secret_key
from jaxdpbo.types import Algorithm, Config, Data, Objective, Tree

POLICIES = ("map", "vmap", "shard")
ONE_KEY = "one key for several configs: equal noise cancels, and the difference of two releases is the data"
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


@_silence.debug_checks_off()
def sweep(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    configs: Config | Sequence[Config],
    *,
    user_axes: Tree = None,
    seeds: int | None = None,
    keys: jax.Array | None = None,
    common_random_numbers: bool = False,
    policy: str | None = None,
    run: Execution | None = None,
) -> Sweep:
    """``run_scan`` of ``c`` configs, ``s`` times each: one compilation, and memory for one run at a time.

    No two runs share a key, so no noise cancels, and the releases spend what their guarantees compose to, all on the
    same users: ``accounting.compose_gdp`` adds them up. For fresh data in every run, or figures of merit that are not
    released, map a function of your own with ``distribute``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import random_search, sweep
    >>> def losses(point, data):
    ...     return jnp.square(data - point[0])
    >>> config = random_search.config(users=3, steps=2, batch=1, bounds=[[0.0], [1.0]])
    >>> done = sweep(random_search.algorithm, losses, jnp.array([0.1, 0.5, 0.9]), [config, config], seeds=4)
    >>> done.release.point.shape
    (2, 4, 1)

    Args:
      algorithm: such as ``jaxdpbo.dp_gibo.algorithm``.
      objective: traceable, as for ``run_scan``.
      data: any pytree of arrays, shared by all runs.
      configs: one config, or a sequence of ``c`` that differ in traced numbers only.
      user_axes: as for ``run_scan``.
      seeds: ``s``, how many runs of each config; needed unless ``keys`` are given.
      keys: typed keys ``(c, s)``, or ``(s,)`` for one config, all different, for tests and research. By default the
        operating system draws the keys. Every generator is permitted, and the guarantees name the generator.
      common_random_numbers: run every config with the same ``s`` keys, ``keys`` being ``(s,)``. Comparisons vary less,
        and every guarantee is "none", since the difference of two releases reveals the data.
      policy: see ``distribute``.
      run: ``Execution(key=...)``: one typed key ``()``, split into the keys of all runs; for tests.

    Raises:
      TypeError: ``key`` or ``keys`` are not typed keys.
      ValueError: ``configs`` is empty or differ in a static field or a shape, which it names, ``keys`` is of another
        shape or has equal ones, keys given in two ways or without ``seeds``, an unknown ``policy``.
      separable.NotSeparable: see ``run_scan``.
      RuntimeError: under a trace.
    """
    key = check_execution("sweep", run, "key").key
    refuse_trace("the keys of a sweep")
    alone = not isinstance(configs, Sequence)
    listed = (configs,) if alone else tuple(configs)
    _expect_stackable(listed)
    common = _checks.flag("common_random_numbers", common_random_numbers)
    statements = tuple(result.state_guarantee(algorithm, objective, one) for one in listed)
    objective, data = separability.prepare_objective(objective, data, user_axes)
    statements = tuple(separability.update_assumptions(one, objective) for one in statements)
    data = result.to_arrays(data)
    given, statements = sharding.share_keys(data, _keys_of_runs(len(listed), common, seeds, key, keys), *statements)
    if common:
        statements = tuple(guarantee.no_guarantee(each.protects, ONE_KEY) for each in statements)
    elif key is not None or keys is not None:
        statements = tuple(for_release(given[0, 0], each, insecure_key=True)[1] for each in statements)
    count = given.shape[1]
    pairs = jnp.repeat(jnp.arange(len(listed)), count), given.reshape(-1)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *listed)
    shared = stacked, data
    release, failed = distribute(_one_run(algorithm, objective), pairs, shared, policy=policy)
    axes = (count,) if alone else (len(listed), count)
    release, failed = jax.tree.map(lambda leaf: leaf.reshape(axes + leaf.shape[1:]), (release, failed))
    return Sweep(release, statements, failed)


def _expect_stackable(configs: tuple[Any, ...]) -> None:
    """Refuse configs that no one program runs.

    Raises:
      ValueError: there is none, or one differs from the first in a static field or a shape; names the field.
    """
    if not configs:
        raise ValueError("configs must be at least one, got 0")
    for row, config in enumerate(configs[1:], start=1):
        if (difference := _difference("", configs[0], config)) is not None:
            raise ValueError(
                f"configs must differ in traced numbers alone, got {difference} in configs[0] and configs[{row}]: "
                "sweep those that share it apart"
            )


def _difference(name: str, first: Any, other: Any) -> str | None:
    """What keeps two configs from one program: the field, and what stands there in each; None where nothing does."""
    if type(first) is not type(other):
        return f"{name or 'a config'} of {type(first).__name__} and {type(other).__name__}"
    if is_dataclass(first):
        of_parts = (
            _static_difference(*part) if static else _difference(*part) for static, *part in _parts(name, first, other)
        )
        return next(filter(None, of_parts), None)
    leaves, structure = jax.tree.flatten(first)
    others, other_structure = jax.tree.flatten(other)
    if structure != other_structure:
        return f"{name} of {structure} and {other_structure}"
    kinds = [[f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}" for leaf in each] for each in (leaves, others)]
    return next((f"{name} of shape {one} and {two}" for one, two in zip(*kinds, strict=True) if one != two), None)


def _parts(name: str, first: Any, other: Any) -> Iterator[tuple[bool, str, Any, Any]]:
    """Of two configs of one type, each field: whether it is static, its dotted name, and what it holds in each."""
    for field in fields(first):
        dotted = f"{name}.{field.name}".removeprefix(".")
        yield bool(field.metadata.get("static")), dotted, getattr(first, field.name), getattr(other, field.name)


def _static_difference(name: str, first: Any, other: Any) -> str | None:
    if first == other:
        return None
    said = (getattr(each, "__qualname__", None) or repr(each) for each in (first, other))
    return f"{name}={' and '.join(said)}"


def _keys_of_runs(configs: int, common: bool, seeds: int | None, key: Any, keys: Any) -> jax.Array:
    """Keys ``(c, s)``, all different; equal rows where ``common``."""
    if (seeds is None) == (keys is None) or (key is not None and keys is not None):
        raise ValueError("seeds must be given, with or without key, or keys alone, which say how many there are")
    rows = () if common else (configs,)
    if keys is None:
        shape = *rows, _checks.size("seeds", seeds)
        drawn = secret_key(shape) if key is None else jax.random.split(_checks.key("key", key), shape)
    else:
        drawn = keys
    return _arrange_keys(_checks.keys("keys", drawn), configs, common)


def _arrange_keys(keys: jax.Array, configs: int, common: bool) -> jax.Array:
    """Keys as ``(c, s)``: of that shape, or one row ``(s,)`` for every config; ValueError for other shapes."""
    if keys.ndim == 1 and (common or configs == 1):
        return jnp.broadcast_to(keys[None], (configs, len(keys)))
    if common or keys.ndim != 2 or len(keys) != configs:
        wanted = "(s,)" if common else f"({configs}, s), one for each run"
        advice = "" if common or keys.ndim > 1 else "; common_random_numbers=True gives all configs the same noise"
        raise ValueError(f"keys must have shape {wanted}, got shape {keys.shape}{advice}")
    return keys


@cache
def _one_run(algorithm: Algorithm, objective: Objective) -> Callable[[Any, Any], Any]:
    """One function for each pair, so that sweeping again does not compile again."""

    def run(pair, shared):
        (row, key), (configs, data) = pair, shared
        config = jax.tree.map(lambda leaf: leaf[row], configs)
        release, _, info = compiled_run.pure_run(algorithm, objective, key, config, data)
        failed = info.factorisation_failed
        return release, jnp.zeros((), bool) if failed is None else jnp.any(failed)

    return run


def distribute(
    function: Callable[[Any, Any], Any], inputs: Tree, shared: Tree = None, *, policy: str | None = None
) -> Any:
    """``function(input, shared)`` for each leading index of ``inputs``, by one compiled program.

    ========  ==========================================================================================
    policy    the runs go
    ========  ==========================================================================================
    "map"     one after the other: on a CPU the working set of one run stays in its caches
    "vmap"    side by side: for accelerators
    "shard"   in equal shares over all local devices; in a share by "map" on CPUs, "vmap" elsewhere
    ========  ==========================================================================================

    Where ``shared`` is sharded by user (``drivers.sharding``) every run is spread over these devices, and "shard" takes
    the axes of the mesh that users do not lie along.

    A call has at most 64 runs a device, so memory does not grow with their number. What a last call lacks repeats the
    first runs, keys included, and those results are dropped. Inputs that hold equal keys get equal noise: for figures
    of merit, never for releases.

    Where ``jax.default_device`` names a device there is no other. Without a policy: "shard" where there are several,
    otherwise "map" on a CPU and "vmap" elsewhere. The choice for CPUs is measured (docs/benchmarks.md), the one for
    accelerators is not: no accelerator was at hand.

    A CPU is two devices where ``XLA_FLAGS=--xla_force_host_platform_device_count=2`` and ``NPROC=4`` are set before JAX
    is imported. Without the second, where it has no more cores than devices, the default is "map": jaxlib's batched
    LAPACK calls (0.10.2) wait for tasks on the pool of threads that they occupy, as many calls as threads wait for
    ever, and ``NPROC`` is the size of that pool. The same can befall "vmap" on a CPU, which is slow there besides. A
    function that factors no matrices in batches may be given ``policy="shard"`` without ``NPROC``, and is faster so.

    Args:
      function: pure and traceable, defined once: each fresh lambda is one more compilation. It returns arrays,
        none of typed keys.
      inputs: a pytree whose leaves share a leading axis of runs; typed keys may be among them.
      shared: a pytree that every run gets whole.
      policy: one of the table, or None.

    Raises:
      ValueError: an unknown policy, or leading axes that differ or are empty.
    """
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(inputs)}
    if len(counts) != 1 or counts & {(), (0,)}:
        raise ValueError(f"inputs must share one leading axis of at least 1, got {sorted(counts)}")
    found = sharding.find_mesh(shared)
    devices = Mesh(np.asarray(sharding.local_devices()), (sharding.RUNS_AXIS,)) if found is None else found
    most = devices.shape[sharding.RUNS_AXIS]
    on_cpu = devices.devices.flat[0].platform == "cpu"
    alone = "map" if on_cpu else "vmap"
    several = most > 1 and not (on_cpu and _cpu_threads() <= devices.size)
    chosen = _checks.choice("policy", ("shard" if several else alone) if policy is None else policy, POLICIES)
    ((count,),) = counts
    share = most if chosen == "shard" else 1
    size = share * -(-count // (share * -(-count // (share * CALL_RUNS))))  # equal calls, each a multiple of the share
    back = sharding.local_devices()[0] if found is None else NamedSharding(found, PartitionSpec())
    where = devices if chosen == "shard" else found
    shared, parts = sharding.move_to_mesh(where, shared), []
    for start in range(0, count, size):
        rows = np.arange(start, start + size) % count  # what the last call lacks repeats the first runs
        some = sharding.move_to_mesh(where, jax.tree.map(lambda leaf, rows=rows: jnp.asarray(leaf)[rows], inputs))
        with sharding.use_mesh(where):
            if chosen == "shard":
                done = _run_in_shares(function, alone, some, shared)
            else:
                done = _run_in_turn(function, chosen, some, shared)
        parts.append(jax.tree.map(np.asarray, jax.device_put(done, back)))
    return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)[:count]), *parts)  # under any mesh


def _cpu_threads() -> int:
    """The size of XLA's pool, by its own rule."""
    if "NPROC" in os.environ:
        return int(os.environ["NPROC"])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@partial(jax.jit, static_argnums=(0, 1))
def _run_in_turn(function, policy, inputs, shared):
    def one(each):
        return function(each, shared)

    return jax.lax.map(one, inputs) if policy == "map" else jax.vmap(one)(inputs)


@partial(jax.jit, static_argnums=(0, 1))
def _run_in_shares(function, policy, inputs, shared):
    return jax.shard_map(
        partial(_run_in_turn, function, policy),
        in_specs=(PartitionSpec(sharding.RUNS_AXIS), PartitionSpec()),
        out_specs=PartitionSpec(sharding.RUNS_AXIS),
        axis_names={sharding.RUNS_AXIS},
        check_vma=False,
    )(inputs, shared)

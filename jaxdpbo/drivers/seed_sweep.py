"""Compile many runs into a single program: seeds, budgets and step sizes, on any number of devices."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxdpbo import checks, silence
from jaxdpbo.drivers import compiled_run, result, separability, sharding
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.guarantee.release_key import for_release
from jaxdpbo.noise.keys import refuse_trace, secret_key
from jaxdpbo.types import Algorithm, Config, Data, Objective, Tree

POLICIES = ("map", "vmap", "shard")
ONE_KEY = "the same key for several configs: equal noise cancels, and the difference of two releases is the data"
CALL_RUNS = 64  # on a device in a call: XLA's CPU client keeps some 2 MB of each run until the call returns


class Sweep(NamedTuple):
    """The releases of many runs. Leading axes are configs and keys ``(c, s)``, or ``(s,)`` for a single config.

    Attributes:
      release: the releases, with the leading axes: NumPy arrays, with floats as float64, as from ``run_scan``.
      guarantees: the guarantee of a SINGLE run of each config. All releases together spend the composition.
      failed: True for a run if the covariance of evaluated points, a public quantity, could not be factored.
    """

    release: Any
    guarantees: tuple[_guarantee.Guarantee, ...]
    failed: np.ndarray


@silence.numeric_checks_off()
def sweep(
    algorithm: Algorithm,
    objective: Objective,
    data: Data,
    configs: Config | Sequence[Config],
    *,
    user_axes: Tree = None,
    seeds: int,
    common_random_numbers: bool = False,
    policy: str | None = None,
    key: jax.Array | None = None,
) -> Sweep:
    """Run ``run_scan`` with ``c`` configs, ``s`` times each, in a single compilation.

    Memory does not grow with the number of runs. No two runs share a key, so no noise cancels. All releases concern
    the same users, so their guarantees compose: ``accounting.compose_gdp`` gives the total. For fresh data in every
    run, or unreleased figures of merit, map a function of your own with ``distribute``.

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
      configs: a config, or a sequence of ``c`` configs; they may differ in traced numbers only.
      user_axes: as for ``run_scan``.
      seeds: ``s``, the number of runs of each config.
      common_random_numbers: run every config with the same ``s`` keys. Comparisons vary less, and every guarantee is
        "none", since the difference of two releases reveals the data.
      policy: see ``distribute``.
      key: see ``minimize``. The runs have the keys ``jax.random.split(key, (c, s))``, or ``split(key, (s,))`` if
        common. Every generator is permitted, and the guarantees name the generator.

    Raises:
      TypeError: ``key`` is not a typed key, or ``seeds`` is not an integer.
      ValueError: ``configs`` are empty, or differ in a static field or a shape (names the field); ``seeds`` is below 1;
        ``policy`` is unknown.
      separable.NotSeparable: see ``run_scan``.
      RuntimeError: under a trace.
    """
    refuse_trace("the keys of a sweep")
    alone = not isinstance(configs, Sequence)
    listed = (configs,) if alone else tuple(configs)
    _expect_stackable(listed)
    common = checks.flag("common_random_numbers", common_random_numbers)
    guarantees = tuple(result.state_guarantee(algorithm, objective, config) for config in listed)
    objective, data, _ = separability.prepare_objective(objective, data, user_axes)
    guarantees = tuple(separability.update_assumptions(guarantee, objective) for guarantee in guarantees)
    data = result.to_arrays(data)
    run_keys, guarantees = sharding.share_keys(data, _keys_of_runs(len(listed), common, seeds, key), *guarantees)
    if common:
        guarantees = tuple(_guarantee.no_guarantee(guarantee.protects, ONE_KEY) for guarantee in guarantees)
    elif key is not None:
        guarantees = tuple(for_release(run_keys[0, 0], guarantee, insecure_key=True)[1] for guarantee in guarantees)
    count = run_keys.shape[1]
    pairs = jnp.repeat(jnp.arange(len(listed)), count), run_keys.reshape(-1)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *listed)
    shared = stacked, data
    release, failed = distribute(_one_run(algorithm, objective), pairs, shared, policy=policy)
    axes = (count,) if alone else (len(listed), count)
    release, failed = jax.tree.map(lambda leaf: leaf.reshape(axes + leaf.shape[1:]), (release, failed))
    return Sweep(result.to_numpy(release), guarantees, np.asarray(failed))


def _expect_stackable(configs: tuple[Any, ...]) -> None:
    """Refuse configs unless a single program can run all of them.

    Raises:
      ValueError: ``configs`` are empty, or differ from the first in a static field or a shape; names the field.
    """
    if not configs:
        raise ValueError("configs must be at least one config, got 0")
    for row, config in enumerate(configs[1:], start=1):
        if (difference := _difference("", configs[0], config)) is not None:
            raise ValueError(
                f"configs must differ in traced numbers alone, got {difference} in configs[0] and configs[{row}]: "
                "call sweep separately for each value"
                + ", or give every config noise='float' in research"
                * ("noise" in difference)
            )


def _difference(name: str, first: Any, other: Any) -> str | None:
    """The first field that keeps two configs from a common program, with both values; None without such a field."""
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
    kinds = [[f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}" for leaf in side] for side in (leaves, others)]
    return next((f"{name} of shape {one} and {two}" for one, two in zip(*kinds, strict=True) if one != two), None)


def _parts(name: str, first: Any, other: Any) -> Iterator[tuple[bool, str, Any, Any]]:
    """For each field of two configs of the same type: True if static, the dotted name, and both values."""
    for field in fields(first):
        dotted = f"{name}.{field.name}".removeprefix(".")
        yield bool(field.metadata.get("static")), dotted, getattr(first, field.name), getattr(other, field.name)


def _static_difference(name: str, first: Any, other: Any) -> str | None:
    if first == other:
        return None
    values = (getattr(value, "__qualname__", None) or repr(value) for value in (first, other))
    return f"{name}={' and '.join(values)}"


def _keys_of_runs(configs: int, common: bool, seeds: int, key: Any) -> jax.Array:
    """Keys ``(c, s)``, all different, or with equal rows if ``common``."""
    count = checks.size("seeds", seeds)
    shape = (count,) if common else (configs, count)
    drawn = secret_key(shape) if key is None else jax.random.split(checks.key("key", key), shape)
    return jnp.broadcast_to(drawn[None], (configs, count)) if common else drawn


@cache
def _one_run(algorithm: Algorithm, objective: Objective) -> Callable[[Any, Any], Any]:
    """The function of a single run, cached so that a second sweep does not compile again."""

    def run(pair, shared):
        (row, key), (configs, data) = pair, shared
        config = jax.tree.map(lambda leaf: leaf[row], configs)
        release, _, info = compiled_run.pure_run(algorithm, objective, data, config, key)
        failed = info.factorisation_failed
        return release, jnp.zeros((), bool) if failed is None else jnp.any(failed)

    return run


def distribute(
    function: Callable[[Any, Any], Any], inputs: Tree, shared: Tree = None, *, policy: str | None = None
) -> Any:
    """Map ``function(input, shared)`` over the leading axis of ``inputs``, in a single compiled program.

    ========  ==========================================================================================
    policy    order of the runs
    ========  ==========================================================================================
    "map"     sequential: on a CPU the working set of a run stays in its caches
    "vmap"    vectorised: for accelerators
    "shard"   in equal shares over all local devices; within a share "map" on CPUs, "vmap" elsewhere
    ========  ==========================================================================================

    If ``shared`` is sharded by user (``drivers.sharding``), every run is spread over the devices of the users, and
    "shard" uses the other axes of the mesh.

    A call has at most 64 runs per device, so memory does not grow with the number of runs. The last call is filled up
    with the first runs, keys included, and their second results are dropped. Inputs with equal keys get equal noise:
    use these for figures of merit, never for releases.

    If you set ``jax.default_device``, only this device is used. The default policy is "shard" on several devices,
    otherwise "map" on a CPU and "vmap" elsewhere. The choice for CPUs is measured (docs/benchmarks.md), the choice for
    accelerators is not.

    To split a CPU into two devices, set ``XLA_FLAGS=--xla_force_host_platform_device_count=2`` and ``NPROC=4`` before
    you import JAX. Without ``NPROC`` the default is "map" on a CPU with no more cores than devices. The reason is a
    deadlock: jaxlib's batched LAPACK calls (0.10.2) wait for tasks on the thread pool occupied by these calls, and as
    many calls as threads wait for ever. ``NPROC`` is the size of the pool. "vmap" on a CPU can deadlock too, and is
    slow. For a function without batched factorisations, ``policy="shard"`` works without ``NPROC`` and is faster.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import drivers
    >>> drivers.distribute(lambda scale, data: scale * jnp.sum(data), jnp.arange(3.0), jnp.ones(2)).tolist()
    [0.0, 2.0, 4.0]

    Args:
      function: pure and traceable, defined once, since each fresh lambda is compiled again. Returns arrays, but no
        typed keys.
      inputs: a pytree of arrays and typed keys with a common leading axis of runs.
      shared: a pytree passed whole to every run.
      policy: a policy of the table, or None for the default.

    Raises:
      ValueError: ``policy`` is unknown, or leading axes of ``inputs`` differ or are empty.
    """
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(inputs)}
    if len(counts) != 1 or counts & {(), (0,)}:
        raise ValueError(f"inputs must share one leading axis of at least 1, got {sorted(counts)}")
    mesh = sharding.find_mesh(shared)
    devices = Mesh(np.asarray(sharding.local_devices()), (sharding.RUNS_AXIS,)) if mesh is None else mesh
    most = devices.shape[sharding.RUNS_AXIS]
    on_cpu = devices.devices.flat[0].platform == "cpu"
    alone = "map" if on_cpu else "vmap"
    several = most > 1 and not (on_cpu and _cpu_threads() <= devices.size)
    chosen = checks.one_of("policy", ("shard" if several else alone) if policy is None else policy, POLICIES)
    ((count,),) = counts
    share = most if chosen == "shard" else 1
    size = share * -(-count // (share * -(-count // (share * CALL_RUNS))))  # equal calls, each a multiple of the share
    back = sharding.local_devices()[0] if mesh is None else NamedSharding(mesh, PartitionSpec())
    where = devices if chosen == "shard" else mesh
    shared, parts = sharding.move_to_mesh(where, shared), []
    for start in range(0, count, size):
        rows = np.arange(start, start + size) % count  # fill the last call with the first runs
        batch = sharding.move_to_mesh(where, jax.tree.map(lambda leaf, rows=rows: jnp.asarray(leaf)[rows], inputs))
        with sharding.use_mesh(where):
            if chosen == "shard":
                results = _run_in_shares(function, alone, batch, shared)
            else:
                results = _run_in_turn(function, chosen, batch, shared)
        parts.append(jax.tree.map(np.asarray, jax.device_put(results, back)))
    return jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)[:count]), *parts)  # usable under any mesh


def _cpu_threads() -> int:
    """The size of XLA's thread pool, by XLA's rule."""
    if "NPROC" in os.environ:
        return int(os.environ["NPROC"])
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@partial(jax.jit, static_argnums=(0, 1))
def _run_in_turn(function, policy, inputs, shared):
    def run(pair):
        return function(pair, shared)

    return jax.lax.map(run, inputs) if policy == "map" else jax.vmap(run)(inputs)


@partial(jax.jit, static_argnums=(0, 1))
def _run_in_shares(function, policy, inputs, shared):
    return jax.shard_map(
        partial(_run_in_turn, function, policy),
        in_specs=(PartitionSpec(sharding.RUNS_AXIS), PartitionSpec()),
        out_specs=PartitionSpec(sharding.RUNS_AXIS),
        axis_names={sharding.RUNS_AXIS},
        check_vma=False,
    )(inputs, shared)

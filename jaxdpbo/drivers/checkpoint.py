"""Split a compiled run into parts and store a snapshot after each: a killed run resumes to the same release.

The file holds the key, and the key determines everything that the run draws. A part computed twice is therefore the
same part, and a run has a single transcript however often you resume. The file also identifies the run: the program,
the numbers, the data, the key and the devices, since kinds of devices round differently. Another run is refused: two
runs under the same key would have the same noise. The file holds the users' losses and the key. Only its owner can
read the file, and the driver deletes the file before returning the release.
"""

import hashlib
import io
import os
import platform
import zipfile
from collections.abc import Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import files, logs
from jaxdpbo.drivers import compiled_run, result, sharding
from jaxdpbo.separable import equations, primitives
from jaxdpbo.types import Algorithm, Config, Objective, State

PARTS = 20  # the largest number of parts
PRINTS = {
    "program": "its program", "numbers": "its numbers", "data": "its data", "key": "its key", "devices": "its devices",
}  # fmt: skip


class CheckpointedRun(NamedTuple):
    """A run with a checkpoint file.

    Attributes:
      path: the file.
      name: the name of the run in the ledger's charge, drawn with the file.
      prints: a digest of each of ``PRINTS``, which identify the run.
      key: the key of the run.
      keys: its children, for the start, the steps and the release.
      done: the number of steps taken.
      snapshot: the snapshot after these steps.
      info: ``Info`` of these steps, with a leading axis.
      fresh: True if this call made the file.
    """

    path: Path
    name: str
    prints: dict[str, str]
    key: jax.Array
    keys: tuple[jax.Array, ...]
    done: int
    snapshot: result.Snapshot
    info: Any
    fresh: bool


def begin_checkpoint(
    path: str | Path,
    algorithm: Algorithm,
    objective: Objective,
    data: Any,
    config: Config,
    key: jax.Array,
    *,
    drawn: bool,
) -> CheckpointedRun:
    """Read the run from its file, or make the file. If ``key`` was ``drawn``, the key in the file is used.

    Raises:
      TypeError: ``path`` is not a path.
      ValueError: the file belongs to another account, is open to others, is a link or not a checkpoint, or is of
        another run; names the difference. Or the program calls Python or foreign code: a file cannot tell such
        functions apart.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"checkpoint must be a path, got {type(path).__name__}")
    path = Path(path).absolute()
    keys = _children(key)
    start = _start(algorithm, keys[0], config)
    traced = (
        _start.trace(algorithm, *_shapes((keys[0], config))),
        _part.trace(algorithm, objective, *_shapes((data, config, keys[1], start)), _size(config), 0),
        _release.trace(algorithm, *_shapes((keys[2], config, start.state))),
    )
    if any(equations.calls(stage.jaxpr, primitives.NAMED_ONLY) for stage in traced):
        raise ValueError(
            "checkpoint must not be given where the program calls Python or foreign code (pure_callback, io_callback, "
            "ffi_call), since the file cannot identify such code: use run_loop with ledger= to resume"
        )
    prints = _prints(_programs(traced), data, config, None if drawn else key)
    new_run = CheckpointedRun(path, os.urandom(16).hex(), prints, key, keys, 0, start, None, True)
    try:
        files.write_once(path, _content(new_run), files.PRIVATE)
    except FileExistsError:
        found = _read(new_run, traced[1].out_info[1])
        logs.resumed(f"{path}: step {found.done + 1} of {config.steps}")
        return found
    return new_run


def finish(
    run: CheckpointedRun, algorithm: Algorithm, objective: Objective, data: Any, config: Config
) -> tuple[Any, ...]:
    """Run the steps left, storing the snapshot after each part, and return ``(release, snapshot, info)``."""
    size = _size(config)
    while run.done < config.steps:
        after, info = _part(algorithm, objective, data, config, run.keys[1], run.snapshot, size, run.done)
        count = min(size, config.steps - run.done)  # steps beyond the last change nothing
        info = jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], info)
        infos = info if run.info is None else jax.tree.map(lambda *both: np.concatenate(both), run.info, info)
        run = run._replace(done=run.done + count, snapshot=after, info=infos)
        files.replace(run.path, _content(run), files.PRIVATE)
    return _release(algorithm, run.keys[2], config, run.snapshot.state), run.snapshot, run.info


def delete(checkpointed: CheckpointedRun) -> None:
    """Delete the file of a run that has ended."""
    files.unlink(checkpointed.path)


def _size(config: Config) -> int:
    """The number of steps in a part."""
    return -(-config.steps // PARTS)


@jax.jit
def _children(key: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(jax.random.split(key, 3))


@partial(jax.jit, static_argnums=0)
def _start(algorithm: Algorithm, key: jax.Array, config: Config) -> result.Snapshot:
    return compiled_run.begin(algorithm, key, config)


@partial(jax.jit, static_argnums=(0, 1, 6))
def _part(
    algorithm: Algorithm, objective: Objective, data: Any, config: Config, key: jax.Array, before: result.Snapshot,
    size: int, start: jax.Array,
) -> tuple[result.Snapshot, Any]:  # fmt: skip
    return compiled_run.run_steps(algorithm, objective, data, config, key, before, start + jnp.arange(size))


@partial(jax.jit, static_argnums=0)
def _release(algorithm: Algorithm, key: jax.Array, config: Config, state: State) -> Any:
    return algorithm.release(key, config, state)


def _shapes(tree: Any) -> Any:
    """The shapes and dtypes of a tree, without its devices, which have a digest of their own."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), tree)


def _programs(traced: Sequence[jax.stages.Traced]) -> list[Any]:
    """The texts of programs and their constants, which later versions of JAX may leave out of the text."""
    return [part for stage in traced for part in (stage.lower().as_text().encode(), *stage.jaxpr.consts)]


def _prints(programs: list[Any], data: Any, config: Config, key: jax.Array | None) -> dict[str, str]:
    identity = (
        programs,
        jax.tree.leaves(config),
        jax.tree.leaves(data),
        [] if key is None else [_words(key)],
        _devices(data),
    )
    return {name: _digest(parts) for name, parts in zip(PRINTS, identity, strict=True)}


def _devices(data: Any) -> list[bytes]:
    """Everything about devices and compiler that can change how a program rounds."""
    mesh = sharding.find_mesh(data)
    device = sharding.local_devices()[0] if mesh is None else mesh.devices.flat[0]
    specs = [str(getattr(getattr(leaf, "sharding", None), "spec", None)) for leaf in jax.tree.leaves(data)]
    compiler = jax.__version__, metadata.version("jaxlib"), os.environ.get("XLA_FLAGS", "")
    kind = _processor() if device.platform == "cpu" else f"{device.platform} {device.device_kind}"
    return [f"{kind} {mesh and mesh.shape} {specs} {compiler}".encode()]


def _processor() -> str:
    """The processor that XLA compiles for, as far as the system names it."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    described = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return f"cpu {platform.machine()} {platform.processor()} {sorted(described)}"


def _digest(parts: list[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, jax.Array) and jnp.issubdtype(part.dtype, jax.dtypes.prng_key):
            part = _words(part)
        array = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else np.asarray(part)
        digest.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


# The file


def _content(run: CheckpointedRun) -> bytes:
    written = io.BytesIO()
    named = {f"state {number}": leaf for number, leaf in enumerate(jax.tree.leaves(run.snapshot))}
    named |= {f"info {number}": leaf for number, leaf in enumerate(jax.tree.leaves(run.info))}
    np.savez(written, name=run.name, done=run.done, words=_words(run.key), **run.prints, **named)
    return written.getvalue()


def _read(new_run: CheckpointedRun, info: Any) -> CheckpointedRun:
    """Read the run from its file, or raise if the file is of another run; ``info`` has the shapes of one part."""
    content = files.read_private(new_run.path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        other = [label for part, label in PRINTS.items() if str(arrays[part]) != new_run.prints[part]]
        key = jax.random.wrap_key_data(jnp.asarray(arrays["words"]), impl=jax.random.key_impl(new_run.key))
        name, done = str(arrays["name"]), int(arrays["done"])
        snapshot = jax.tree.map(jnp.asarray, _leaves(arrays, "state", new_run.snapshot)) if not other else None
        infos = _leaves(arrays, "info", info) if done and not other else None
    except (KeyError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"checkpoint must be a file of run_scan, and {new_run.path.name} is none: give another path"
        ) from error
    if snapshot is None:
        raise ValueError(
            f"checkpoint must be of this run, or a new path: {new_run.path.name} differs in {', '.join(other)}"
        )
    return new_run._replace(
        name=name, key=key, keys=_children(key), done=done, snapshot=snapshot, info=infos, fresh=False
    )


def _leaves(arrays: dict[str, np.ndarray], kind: str, like: Any) -> Any:
    leaves, shape = jax.tree.flatten(like)
    return jax.tree.unflatten(shape, [arrays[f"{kind} {number}"] for number in range(len(leaves))])


def _words(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))

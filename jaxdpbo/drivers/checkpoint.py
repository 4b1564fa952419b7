"""A compiled run in parts, its snapshot in a file between them: killed at any point, it goes on to the same release.

All that is drawn follows from the key, which the file holds, so a part that is computed again is the same part: however
often a run is killed, one transcript leaves. The file says which run it is of: the program, the numbers, the data, the
key, and the devices, each kind of which rounds in its own way. Another run is refused, since two runs by one key would
have the same noise. It holds the users' losses and the key, is closed to others, and is deleted before the release is
given out.
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
from jax.extend.core import ClosedJaxpr, Jaxpr

from jaxdpbo import _files
from jaxdpbo.drivers import compiled_run, result, sharding
from jaxdpbo.types import Algorithm, Config, Objective, State

PARTS = 20  # at most
NAMED_ONLY = "pure_callback", "io_callback", "buffer_callback", "ffi_call"  # a text has no more of what they call
PRINTS = {
    "program": "its program", "numbers": "its numbers", "data": "its data", "key": "its key", "devices": "its devices",
}  # fmt: skip


class CheckpointedRun(NamedTuple):
    """A run that has a file.

    Attributes:
      path: of the file.
      name: of the run, drawn when the file was made: what a charge is for.
      prints: which run it is: a digest of each of ``PRINTS``.
      key: of the run;
      keys: its children, for the start, the steps and the release.
      done: how many steps were taken.
      snapshot: after them.
      info: of each, with a leading axis.
      fresh: the file was made just now.
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


def begin(
    path: str | Path,
    algorithm: Algorithm,
    objective: Objective,
    key: jax.Array,
    config: Config,
    data: Any,
    *,
    drawn: bool,
) -> CheckpointedRun:
    """The run that the file is of, or a new file; ``drawn`` says that ``key`` is nobody's, and the file's will do.

    Raises:
      TypeError: ``path`` is none.
      ValueError: the file belongs to another user, is open to others, is a link or none of this kind, or is of another
        run; says what differs. Or the program calls Python or foreign code, whose functions no file can tell from each
        other.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"checkpoint must be a path, got {type(path).__name__}")
    path = Path(path).absolute()
    own = _children(key)
    start = _start(algorithm, own[0], config)
    traced = (
        _start.trace(algorithm, *_shapes((own[0], config))),
        _part.trace(algorithm, objective, *_shapes((own[1], config, data, start)), _size(config), 0),
        _release.trace(algorithm, *_shapes((own[2], config, start.state))),
    )
    if any(_calls_foreign_code(each.jaxpr.jaxpr) for each in traced):
        raise ValueError(
            "checkpoint must not be given where the program calls Python or foreign code (pure_callback, io_callback, "
            "ffi_call): the file could not tell it from another, and two runs by one key have the same noise; run_loop "
            "needs no file"
        )
    prints = _prints(_programs(traced), config, data, None if drawn else key)
    begun = CheckpointedRun(path, os.urandom(16).hex(), prints, key, own, 0, start, None, True)
    try:
        _files.write_once(path, _content(begun), _files.PRIVATE)
    except FileExistsError:
        return _read(begun, traced[1].out_info[1])
    return begun


def finish(
    begun: CheckpointedRun, algorithm: Algorithm, objective: Objective, config: Config, data: Any
) -> tuple[Any, ...]:
    """``(release, snapshot, info)`` of ``pure_run``; the file has the snapshot after every part."""
    size = _size(config)
    while begun.done < config.steps:
        after, info = _part(algorithm, objective, begun.keys[1], config, data, begun.snapshot, size, begun.done)
        count = min(size, config.steps - begun.done)  # a step beyond the last changes nothing
        info = jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], info)
        known = info if begun.info is None else jax.tree.map(lambda *both: np.concatenate(both), begun.info, info)
        begun = begun._replace(done=begun.done + count, snapshot=after, info=known)
        _files.replace(begun.path, _content(begun), _files.PRIVATE)
    return _release(algorithm, begun.keys[2], config, begun.snapshot.state), begun.snapshot, begun.info


def delete(begun: CheckpointedRun) -> None:
    """What is left of a run that ended."""
    _files.unlink(begun.path)


def _size(config: Config) -> int:
    """Steps in a part."""
    return -(-config.steps // PARTS)


@jax.jit
def _children(key: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(jax.random.split(key, 3))


@partial(jax.jit, static_argnums=0)
def _start(algorithm: Algorithm, key: jax.Array, config: Config) -> result.Snapshot:
    return compiled_run.begin(algorithm, key, config)


@partial(jax.jit, static_argnums=(0, 1, 6))
def _part(
    algorithm: Algorithm, objective: Objective, key: jax.Array, config: Config, data: Any, before: result.Snapshot,
    size: int, start: jax.Array,
) -> tuple[result.Snapshot, Any]:  # fmt: skip
    return compiled_run.run_steps(algorithm, objective, key, config, data, before, start + jnp.arange(size))


@partial(jax.jit, static_argnums=0)
def _release(algorithm: Algorithm, key: jax.Array, config: Config, state: State) -> Any:
    return algorithm.release(key, config, state)


def _shapes(tree: Any) -> Any:
    """Wherever its arrays lie: where that is has a print of its own."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), tree)


def _programs(traced: Sequence[jax.stages.Traced]) -> list[Any]:
    """Their texts, and what they close over, which texts of later versions of JAX may leave out."""
    return [part for each in traced for part in (each.lower().as_text().encode(), *each.jaxpr.consts)]


def _calls_foreign_code(jaxpr: Jaxpr) -> bool:
    """Whether what is computed, or done, follows from a function that no text shows."""
    inside = (
        part for equation in jaxpr.eqns for part in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program)
    )
    return any(equation.primitive.name in NAMED_ONLY for equation in jaxpr.eqns) or any(
        _calls_foreign_code(part if isinstance(part, Jaxpr) else part.jaxpr) for part in inside if _is_program(part)
    )


def _is_program(part: Any) -> bool:
    return isinstance(part, (Jaxpr, ClosedJaxpr))


def _prints(programs: list[Any], config: Config, data: Any, key: jax.Array | None) -> dict[str, str]:
    said = (
        programs,
        jax.tree.leaves(config),
        jax.tree.leaves(data),
        [] if key is None else [_words(key)],
        _devices(data),
    )
    return {name: _digest(parts) for name, parts in zip(PRINTS, said, strict=True)}


def _devices(data: Any) -> list[bytes]:
    """All by which the same program may round otherwise."""
    found = sharding.find_mesh(data)
    one = sharding.local_devices()[0] if found is None else found.devices.flat[0]
    placed = [str(getattr(getattr(leaf, "sharding", None), "spec", None)) for leaf in jax.tree.leaves(data)]
    compiled = jax.__version__, metadata.version("jaxlib"), os.environ.get("XLA_FLAGS", "")
    kind = _processor() if one.platform == "cpu" else f"{one.platform} {one.device_kind}"
    return [f"{kind} {found and found.shape} {placed} {compiled}".encode()]


def _processor() -> str:
    """What XLA compiles for, where the system says so."""
    said = Path("/proc/cpuinfo")
    lines = said.read_text().splitlines() if said.exists() else []
    named = {line for line in lines if line.startswith(("model name", "flags", "Features"))}
    return f"cpu {platform.machine()} {platform.processor()} {sorted(named)}"


def _digest(parts: list[Any]) -> str:
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, jax.Array) and jnp.issubdtype(part.dtype, jax.dtypes.prng_key):
            part = _words(part)
        array = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else np.asarray(part)
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


# The file


def _content(begun: CheckpointedRun) -> bytes:
    written = io.BytesIO()
    named = {f"state {number}": leaf for number, leaf in enumerate(jax.tree.leaves(begun.snapshot))}
    named |= {f"info {number}": leaf for number, leaf in enumerate(jax.tree.leaves(begun.info))}
    np.savez(written, name=begun.name, done=begun.done, words=_words(begun.key), **begun.prints, **named)
    return written.getvalue()


def _read(asked: CheckpointedRun, info: Any) -> CheckpointedRun:
    """What the file says of the run that was asked for; ``info`` is of the kind of one part's."""
    content = _files.read_private(asked.path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            found = dict(file)
        other = [said for part, said in PRINTS.items() if str(found[part]) != asked.prints[part]]
        key = jax.random.wrap_key_data(jnp.asarray(found["words"]), impl=jax.random.key_impl(asked.key))
        name, done = str(found["name"]), int(found["done"])
        stood = jax.tree.map(jnp.asarray, _leaves(found, "state", asked.snapshot)) if not other else None
        known = _leaves(found, "info", info) if done and not other else None
    except (KeyError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"checkpoint must be a file of run_scan, and {asked.path.name} is none") from error
    if stood is None:
        raise ValueError(f"checkpoint must be of this run: {asked.path.name} is of another in {', '.join(other)}")
    return asked._replace(name=name, key=key, keys=_children(key), done=done, snapshot=stood, info=known, fresh=False)


def _leaves(found: dict[str, np.ndarray], kind: str, like: Any) -> Any:
    leaves, shape = jax.tree.flatten(like)
    return jax.tree.unflatten(shape, [found[f"{kind} {number}"] for number in range(len(leaves))])


def _words(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))

"""A compiled run in parts, its state in a file between them: killed at any point, it goes on to the same release.

All that is drawn follows from the key, which the file holds, so a part that is computed again is the same part: however
often a run is killed, one transcript leaves. The file says which run it is of: the program, the numbers, the data, the
key. Another run is refused, since two runs by one key would have the same noise. It holds the users' losses and the
key, is closed to others, and is deleted before the release is given out.
"""

import hashlib
import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _files
from jaxdpbo.drivers import program
from jaxdpbo.types import Algorithm, Config, Objective, State

PARTS = 20  # at most
PRINTS = {"program": "its program", "numbers": "its numbers", "data": "its data", "key": "its key"}


class Begun(NamedTuple):
    """A run that has a file.

    Attributes:
      path: of the file.
      prints: which run it is: a digest of each of ``PRINTS``.
      key: of the run;
      keys: its children, for the start, the steps and the release.
      done: how many steps were taken.
      state: after them.
      info: of each, with a leading axis.
      fresh: the file was made just now.
    """

    path: Path
    prints: dict[str, str]
    key: jax.Array
    keys: tuple[jax.Array, ...]
    done: int
    state: State
    info: Any
    fresh: bool


def begin(
    path: Any,
    algorithm: Algorithm,
    objective: Objective,
    key: jax.Array,
    config: Config,
    data: Any,
    *,
    drawn: bool,
) -> Begun:
    """The run that the file is of, or a new file; ``drawn`` says that ``key`` is nobody's, and the file's will do.

    Raises:
      TypeError: ``path`` is none.
      ValueError: the file is open to others, is none of this kind, or is of another run; says what differs.
    """
    if not isinstance(path, (str, Path)):
        raise TypeError(f"checkpoint must be a path, got {type(path).__name__}")
    path = Path(path).absolute()
    own = _children(key)
    state = _started(algorithm, own[0], config)
    begun = Begun(path, {}, key, own, 0, state, None, True)
    traced = _part.lower(algorithm, objective, *_shapes((own[1], config, data, state)), _size(config), 0)
    begun = begun._replace(prints=_prints(traced.as_text(), config, data, None if drawn else key))
    try:
        _files.write_once(path, _content(begun), 0o600)
    except FileExistsError:
        return _read(begun, traced.out_info[1])
    return begun


def finished(begun: Begun, algorithm: Algorithm, objective: Objective, config: Config, data: Any) -> tuple[Any, ...]:
    """``(release, state, info)`` of ``scan``; the file has the state after every part."""
    size = _size(config)
    while begun.done < config.steps:
        state, info = _part(algorithm, objective, begun.keys[1], config, data, begun.state, size, begun.done)
        count = min(size, config.steps - begun.done)  # a step beyond the last changes nothing
        info = jax.tree.map(lambda leaf, count=count: np.asarray(leaf)[:count], info)
        known = info if begun.info is None else jax.tree.map(lambda *both: np.concatenate(both), begun.info, info)
        begun = begun._replace(done=begun.done + count, state=state, info=known)
        _files.replace(begun.path, _content(begun), 0o600)
    return _released(algorithm, begun.keys[2], config, begun.state), begun.state, begun.info


def delete(begun: Begun) -> None:
    """What is left of a run that ended."""
    begun.path.unlink(missing_ok=True)
    _files.sync_folder(begun.path)


def _size(config: Config) -> int:
    """Steps in a part."""
    return -(-config.steps // PARTS)


@jax.jit
def _children(key: jax.Array) -> tuple[jax.Array, ...]:
    return tuple(jax.random.split(key, 3))


@partial(jax.jit, static_argnums=0)
def _started(algorithm: Algorithm, key: jax.Array, config: Config) -> State:
    return algorithm.init(key, config)


@partial(jax.jit, static_argnums=(0, 1, 6))
def _part(
    algorithm: Algorithm, objective: Objective, key: jax.Array, config: Config, data: Any, state: State, size: int,
    start: jax.Array,
) -> tuple[State, Any]:  # fmt: skip
    return program.steps(algorithm, objective, key, config, data, state, start + jnp.arange(size))


@partial(jax.jit, static_argnums=0)
def _released(algorithm: Algorithm, key: jax.Array, config: Config, state: State) -> Any:
    return algorithm.release(key, config, state)


def _shapes(tree: Any) -> Any:
    """Wherever its arrays lie: the program is the same on other devices."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)), tree)


def _prints(text: str, config: Config, data: Any, key: jax.Array | None) -> dict[str, str]:
    said = [text.encode()], jax.tree.leaves(config), jax.tree.leaves(data), [] if key is None else [_words(key)]
    return {name: _digest(parts) for name, parts in zip(PRINTS, said, strict=True)}


def _digest(parts: list[Any]) -> str:
    found = hashlib.sha256()
    for part in parts:
        array = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else np.asarray(part)
        found.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


# The file


def _content(begun: Begun) -> bytes:
    written = io.BytesIO()
    named = {f"state {number}": leaf for number, leaf in enumerate(jax.tree.leaves(begun.state))}
    named |= {f"info {number}": leaf for number, leaf in enumerate(jax.tree.leaves(begun.info))}
    np.savez(written, done=begun.done, words=_words(begun.key), **begun.prints, **named)
    return written.getvalue()


def _read(asked: Begun, info: Any) -> Begun:
    """What the file says of the run that was asked for; ``info`` is of the kind of one part's."""
    content, name = _files.read_private(asked.path), asked.path.name
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            found = dict(file)
        other = [said for part, said in PRINTS.items() if str(found[part]) != asked.prints[part]]
        key = jax.random.wrap_key_data(jnp.asarray(found["words"]), impl=jax.random.key_impl(asked.key))
        done = int(found["done"])
        state = jax.tree.map(jnp.asarray, _leaves(found, "state", asked.state)) if not other else None
        known = _leaves(found, "info", info) if done and not other else None
    except (KeyError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"checkpoint must be a file of run_scan, and {name} is none") from error
    if state is None:
        raise ValueError(f"checkpoint must be of this run: {name} is of another in {', '.join(other)}")
    return asked._replace(key=key, keys=_children(key), done=done, state=state, info=known, fresh=False)


def _leaves(found: dict[str, np.ndarray], kind: str, like: Any) -> Any:
    leaves, shape = jax.tree.flatten(like)
    return jax.tree.unflatten(shape, [found[f"{kind} {number}"] for number in range(len(leaves))])


def _words(key: jax.Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(key))

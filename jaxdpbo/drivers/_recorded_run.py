"""Record a run in a ledger: charge it before the first draw, keep its public states, return its release again.

A charge pays for a single transcript. ``run_scan`` draws everything in a single program, so a failed attempt has spent
its charge. ``run_loop`` notes each step before drawing its noise, then stores the ``public`` part of the new state
before anybody uses the state. A failure outside of a draw, in an evaluation for example, loses nothing: the run
resumes, evaluates again for the raw part of the state and takes the public part from the record, so nobody sees two
draws of the same step. A failure during a draw ends the run: the noise may have been seen, and the number of attempts
at a step would be a further output. Nothing raw is written.
"""

import base64
import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo._types import Algorithm, Config, Tree
from jaxdpbo.privacy import _guarantee, _ledger
from jaxdpbo.privacy import _recording as recordings


class RecordedRun(NamedTuple):
    """The progress of a charged run of ``run_loop``.

    Attributes:
      recording: the ledger and the name of the run.
      release: the stored release, None before the end.
      steps: the number of lines under the charge.
      publics: the public states after the steps taken, in order.
    """

    recording: recordings.Recording
    release: dict[str, Any] | None
    steps: int
    publics: tuple[Any, ...]


def begin_record(
    recording: recordings.Recording, algorithm: Algorithm, config: Config, guarantee: _guarantee.Guarantee, fresh: Tree
) -> RecordedRun:
    """Charge a stepwise run, or read its progress; ``fresh`` is a public state of the same shape.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, the name belongs to another run, or the run ended in a draw.
      ledger.DamagedLedgerError: the recorded states are corrupt.
    """
    recording, what = recordings.check_recording(recording), f"{_describe_run(algorithm, config)}, step by step"
    charged = recordings.charge_run(recording, what, guarantee, "run_loop", algorithm, config)
    publics, before = [], _zeros(fresh)
    for number, line in enumerate(charged.steps):
        if number % 2 == 0 and set(line) == {"draws"}:
            continue
        try:
            (kind, text), *rest = line.items()
            if number % 2 == 0 or kind != "public" or rest:
                raise ValueError(kind)
            most = len(_bytes(before)) + 1  # a longer state is refused, and a short line may hold a GB of zeros
            changed = zlib.decompressobj().decompress(base64.b64decode(text), most)
        except (TypeError, ValueError, zlib.error) as error:
            raise _ledger.DamagedLedgerError(
                f"{recording.path}: run {charged.run!r} has no public state at step {number // 2}"
            ) from error
        before = _apply_difference(before, changed)
        publics.append(before)
    if len(charged.steps) % 2 and charged.release is None:
        raise _ledger.LedgerError(
            f"{recording.path}: run {charged.run!r} ended while {charged.steps[-1]['draws']} was drawn, with "
            f"{len(publics)} steps on record, since somebody may have seen the draw: give ledger= another run name, "
            "charged anew"
        )
    return RecordedRun(recording, charged.release, len(charged.steps), tuple(publics))


def begin_once(
    recording: recordings.Recording, algorithm: Algorithm, config: Config, guarantee: _guarantee.Guarantee
) -> _ledger.Charge:
    """Charge a run in a single program.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, or the name belongs to another run or a failed attempt.
    """
    what = f"{_describe_run(algorithm, config)}, in one program"
    return recordings.charge_once(recording, what, guarantee, "run_scan", algorithm, config)


def begin_with_file(
    recording: recordings.Recording,
    algorithm: Algorithm,
    config: Config,
    guarantee: _guarantee.Guarantee,
    file: str,
) -> _ledger.Charge:
    """Charge a run in parts with a checkpoint; the charge pays only for the draws of this ``file``.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, or the name belongs to another run, or to a run begun with
        another file (perhaps deleted).
    """
    what = f"{_describe_run(algorithm, config)}, in parts"
    run = recording, what, guarantee, "run_scan, in parts, of a file", algorithm, config
    charged = recordings.charge_run(*run)
    if charged.release is None and not charged.steps:
        try:
            _ledger.note(recording.path, recording.run, 1, {"file": file})  # before anything is drawn
            return charged
        except _ledger.MovedLedgerError:  # the same call in another process was first, perhaps with this file
            charged = recordings.charge_run(*run)
    if charged.release is None and charged.steps[0] != {"file": file}:
        recordings.expect_first(recording, charged)
    return charged


def note_step(checkpoint: RecordedRun, what: str) -> RecordedRun:
    """Note in the ledger, before a draw, the step to be drawn.

    Raises:
      ledger.MovedLedgerError: another process has resumed this run.
    """
    return _note(checkpoint, {"draws": what})


def store_state(checkpoint: RecordedRun, before: Any | None, after: Tree) -> RecordedRun:
    """Store the public state after a step. ``before`` is the previous public state, or None."""
    before = _zeros(after) if before is None else before
    difference = np.bitwise_xor(_bytes(before), _bytes(after))  # a step changes little of a state
    return _note(checkpoint, {"public": base64.b64encode(zlib.compress(difference.tobytes(), 1)).decode()})


def record_release(recording: recordings.Recording, released: Tree) -> Any:
    """Store a release in the ledger and return the stored release."""
    stored = _ledger.store_release(recording.path, recording.run, {"release": recordings.to_text(released)})
    return recordings.from_text(released, stored["release"])


def load_release(charged: Any, like: Tree) -> Any:
    """The stored release in the shape of ``like``, or None."""
    return None if charged.release is None else recordings.from_text(like, charged.release["release"])


def _describe_run(algorithm: Algorithm, config: Any) -> str:
    module = algorithm.tell.__module__.removeprefix("jaxdpbo._algorithms.").removesuffix(".run")
    return f"{module}, {config.steps} steps"


def _note(checkpoint: RecordedRun, line: dict[str, Any]) -> RecordedRun:
    _ledger.note(checkpoint.recording.path, checkpoint.recording.run, checkpoint.steps + 1, line)
    return checkpoint._replace(steps=checkpoint.steps + 1)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def _bytes(tree: Any) -> np.ndarray:
    leaves = [np.ascontiguousarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
    return np.frombuffer(b"".join(leaves), np.uint8)


def _apply_difference(tree: Any, difference: bytes) -> Any:
    data = _bytes(tree)
    if len(difference) != len(data):
        raise _ledger.DamagedLedgerError("a public state on record has other shapes than this run's")
    data = np.bitwise_xor(data, np.frombuffer(difference, np.uint8)).tobytes()
    leaves, shape = jax.tree.flatten(tree)
    arrays, start = [], 0
    for leaf in leaves:
        end = start + leaf.dtype.itemsize * leaf.size
        arrays.append(jnp.asarray(np.frombuffer(data[start:end], leaf.dtype).reshape(leaf.shape)))
        start = end
    return jax.tree.unflatten(shape, arrays)

"""A run on record: paid for in a ledger before it begins, its public states kept, its release given out again.

All that ever leaves under one charge is one transcript. ``run_scan`` draws everything in one program: an attempt that
fails has spent its charge. ``run_loop`` writes down that a step is about to be drawn, draws it, and writes down the
``public`` part of the state before anybody uses it. A failure outside that moment, in an evaluation say, loses nothing:
the run goes on, asks and evaluates again for the ``private`` part, and takes the public part from the record, so that
nobody sees two draws of one step. A failure inside it ends the run there: what was drawn may have been seen, and how
often a step was drawn until it went well would be an output of its own. Nothing raw is written.
"""

import base64
import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.privacy import guarantee, ledger
from jaxdpbo.privacy import recording as recordings
from jaxdpbo.types import Algorithm, Config, Tree


class RecordedRun(NamedTuple):
    """How far a charged run of ``run_loop`` has gone.

    Attributes:
      recording: its ledger, and its name there.
      release: what was stored as its release, None if nothing.
      steps: how many lines stand under its charge.
      publics: the public states after the steps taken, first to last.
    """

    recording: recordings.Recording
    release: dict[str, Any] | None
    steps: int
    publics: tuple[Any, ...]


def begin(
    recording: recordings.Recording, algorithm: Algorithm, config: Config, statement: guarantee.Guarantee, fresh: Tree
) -> RecordedRun:
    """Charge a run that goes step by step, or find how far it went; ``fresh`` is a public state of its shape.

    Raises:
      ValueError: no name, or a guarantee that does not add up with others.
      ledger.LedgerError: the budget does not suffice, the name stands for another run, or the run ended in a draw.
      ledger.Damaged: its states are not what was written.
    """
    recording, what = recordings.check_recording(recording), f"{_describe_run(algorithm, config)}, step by step"
    charged = recordings.charge(recording, what, statement, "run_loop", algorithm, config)
    publics, before = [], _zeros(fresh)
    for number, line in enumerate(charged.steps):
        if number % 2 == 0 and set(line) == {"draws"}:
            continue
        try:
            (kind, text), *rest = line.items()
            if number % 2 == 0 or kind != "public" or rest:
                raise ValueError(kind)
            changed = zlib.decompress(base64.b64decode(text))
        except (TypeError, ValueError, zlib.error) as error:
            raise ledger.Damaged(
                f"{recording.path}: run {charged.run!r} has no public state at step {number // 2}"
            ) from error
        before = _apply_difference(before, changed)
        publics.append(before)
    if len(charged.steps) % 2 and charged.release is None:
        raise ledger.LedgerError(
            f"{recording.path}: run {charged.run!r} stopped while {charged.steps[-1]['draws']} was drawn: it may have "
            f"been seen, so the run ends there, {len(publics)} steps on record; what is left needs a name, and a "
            "charge, of its own"
        )
    return RecordedRun(recording, charged.release, len(charged.steps), tuple(publics))


def begin_once(
    recording: recordings.Recording, algorithm: Algorithm, config: Config, statement: guarantee.Guarantee
) -> ledger.Charge:
    """Charge a run that goes in one program.

    Raises:
      ValueError: no name, or a guarantee that does not add up with others.
      ledger.LedgerError: the budget does not suffice, or the name stands for another run or a failed attempt.
    """
    what = f"{_describe_run(algorithm, config)}, in one program"
    return recordings.charge_once(recording, what, statement, "run_scan", algorithm, config)


def begin_with_file(
    recording: recordings.Recording,
    algorithm: Algorithm,
    config: Config,
    statement: guarantee.Guarantee,
    file: str,
) -> ledger.Charge:
    """Charge a run whose state is in a file between its parts; the charge is for what that ``file`` draws alone.

    Raises:
      ValueError: no name, or a guarantee that does not add up with others.
      ledger.LedgerError: the budget does not suffice, or the name stands for another run or one that another file,
        which may be gone, began to draw.
    """
    what = f"{_describe_run(algorithm, config)}, in parts"
    run = recording, what, statement, "run_scan, in parts, of a file", algorithm, config
    charged = recordings.charge(*run)
    if charged.release is None and not charged.steps:
        try:
            ledger.note(*recording, 1, {"file": file})  # before anything is drawn
            return charged
        except ledger.Moved:  # the same call in another process was first, perhaps with this file
            charged = recordings.charge(*run)
    if charged.release is None and charged.steps[0] != {"file": file}:
        recordings.expect_first(recording, charged)
    return charged


def note_step(checkpoint: RecordedRun, what: str) -> RecordedRun:
    """On the disk before a step is drawn.

    Raises:
      ledger.Moved: another process goes on with this run.
    """
    return _note(checkpoint, {"draws": what})


def store_state(checkpoint: RecordedRun, before: Any | None, after: Tree) -> RecordedRun:
    """Put the public state after a step on the disk. ``before``: the one before it, or None."""
    before = _zeros(after) if before is None else before
    difference = np.bitwise_xor(_bytes(before), _bytes(after))  # most of a state stays as it was
    return _note(checkpoint, {"public": base64.b64encode(zlib.compress(difference.tobytes(), 1)).decode()})


def store_release(recording: recordings.Recording, released: Tree) -> Any:
    """Store a release before anybody sees it."""
    stored = ledger.store_release(*recording, {"release": recordings.to_text(released)})
    return recordings.from_text(released, stored["release"])


def load_release(charged: Any, like: Tree) -> Any:
    """The release that was stored, of the shape of ``like``, or None."""
    return None if charged.release is None else recordings.from_text(like, charged.release["release"])


def _describe_run(algorithm: Algorithm, config: Any) -> str:
    module = algorithm.tell.__module__.removeprefix("jaxdpbo.algorithms.").removesuffix(".run")
    return f"{module}, {config.steps} steps"


def _note(checkpoint: RecordedRun, line: dict[str, Any]) -> RecordedRun:
    ledger.note(*checkpoint.recording, checkpoint.steps + 1, line)
    return checkpoint._replace(steps=checkpoint.steps + 1)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def _bytes(tree: Any) -> np.ndarray:
    leaves = [np.ascontiguousarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
    return np.frombuffer(b"".join(leaves), np.uint8)


def _apply_difference(tree: Any, difference: bytes) -> Any:
    data = _bytes(tree)
    if len(difference) != len(data):
        raise ledger.Damaged("a public state on record is of other shapes than this run's")
    data = np.bitwise_xor(data, np.frombuffer(difference, np.uint8)).tobytes()
    leaves, shape = jax.tree.flatten(tree)
    found, start = [], 0
    for leaf in leaves:
        end = start + leaf.dtype.itemsize * leaf.size
        found.append(jnp.asarray(np.frombuffer(data[start:end], leaf.dtype).reshape(leaf.shape)))
        start = end
    return jax.tree.unflatten(shape, found)

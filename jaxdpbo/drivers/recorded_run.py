"""Record a run in a ledger: charge it before the first draw, keep its public states, return its release again.

A charge pays for a single transcript. ``run_scan`` draws everything in a single program, so a failed attempt has spent
its charge. ``run_loop`` notes each step before drawing its noise, then stores the ``public`` part of the new state
before anybody uses the state. A failure outside of a draw, in an evaluation for example, loses nothing: the run
resumes, evaluates again for the raw part of the state and takes the public part from the record, so nobody sees two
draws of the same step. A failure during a draw ends the run: the noise may have been seen, and the number of attempts
at a step would be a further output. Nothing raw is written.

A run is bound to the public parts of its loss and data (``Subject``): two teams may choose one name, and a release
for other people or another split would carry a guarantee that is false. A step-by-step run keeps the hash of its loss
in the first line under its charge, so you may mend the loss until then. Other runs are charged for one loss.
"""

import base64
import sys
import zlib
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import logs, separable
from jaxdpbo import notes as _notes
from jaxdpbo.guarantee import guarantees
from jaxdpbo.guarantee import recording as recordings
from jaxdpbo.ledger import ledger_file
from jaxdpbo.ledger.fingerprints import UNKNOWN, fingerprint_code, fingerprint_terms
from jaxdpbo.tables import table
from jaxdpbo.types import Algorithm, Config, Data, Objective, Tree
from jaxdpbo.user_values import is_instance

LOSS = "loss"  # the name of the hash of a loss


class Journal(NamedTuple):
    """The lines of one charged run in a ledger, which every later line must be under; made by ``begin_journal``.

    Attributes:
      recording: the ledger and the name of the run.
      charge: the hash of the line of the charge.
      loss: the hash of the loss, written into the first line.
    """

    recording: recordings.Recording
    charge: str
    loss: str

    def write(self, line: dict[str, Any], *, after: int) -> None:
        """Write a public line after so many others.

        Raises:
          ledger.MovedLedgerError: another process wrote a line there.
        """
        path, run, _ = self.recording
        content = line if after else line | {LOSS: self.loss}
        ledger_file.note(path, run, after + 1, content, hash=self.charge)

    def read(self) -> ledger_file.Charge:
        """The charge with all lines so far, as they were given to ``write``.

        Raises:
          ledger.LedgerError: the ledger is not the one that was charged, or the run was begun with another loss.
        """
        path, run, _ = self.recording
        return _expect_same_loss(self.recording, ledger_file.find_charge(path, run, hash=self.charge), self.loss)


class RecordedRun(NamedTuple):
    """The progress of a charged run of ``run_loop``.

    Attributes:
      journal: of the run.
      release: the stored release, None before the end.
      steps: the number of lines under the charge.
      publics: the public states after the steps taken, in order.
      notes: see ``Subject.notes``.
    """

    journal: Journal
    release: dict[str, Any] | None
    steps: int
    publics: tuple[Any, ...]
    notes: _notes.Notes


class Subject(NamedTuple):
    """What a run is about, as far as it is public.

    A loss and data may hold records, and a hash of records would be a release.

    Attributes:
      loss: the hash of the loss's code, and of its name if it is one of the library's.
      schema: the hash of the data's names and shapes.
      grouping: the hash of what decides who is protected: which rows train, are in a block, or are of one person.
    """

    loss: str
    schema: str
    grouping: str

    @property
    def fixed(self) -> dict[str, str]:
        """The parts of a charge that no later line may change: all but the loss of a run that writes lines."""
        return {"schema": self.schema, "grouping": self.grouping}

    def notes(self, charge: ledger_file.Charge) -> _notes.Notes:
        """Say if a release, or steps of it, come from the ledger, and what could not be compared."""
        if charge.release is not None:
            return self.add_limits(_notes.from_ledger(charge.run, charge.who, charge.when))
        steps = len(charge.steps) // 2  # two lines a step
        return self.add_limits(_notes.resumed(charge.run, charge.who, charge.when, steps, "step"))

    def add_limits(self, origin: _notes.Notes) -> _notes.Notes:
        """A note on what comes from the ledger, with what of the loss and data could not be compared."""
        if self.loss == UNKNOWN:
            return origin + _notes.loss_without_code()
        return origin + _notes.not_compared() if origin else ()


def make_subject(loss: Objective, data: Data, users: int | None) -> Subject:
    """The public identity of a loss and its data."""
    of_loss, of_data = identify_loss(loss), _state(data)
    if is_instance(data, table.Table):
        of_data = {"rows": cast(table.Table, data).grouping}
    code, named = fingerprint_code(loss), of_loss.get("loss")
    return Subject(
        code if named is None else fingerprint_terms((code, named)),
        fingerprint_terms((_describe_data(data, of_loss.get("count", users)), of_data.get("columns"))),
        fingerprint_terms((of_loss.get("rows"), of_data.get("rows"))),
    )


def identify_loss(loss: Objective) -> dict[str, Any]:
    """Public facts of a loss beside its code.

    Returns:
      "loss", its name if it is one of the library's; "rows", which rows are of one person or block; "count", how many
      rows there are, if each user may have several; each where it applies.
    """
    if isinstance(loss, separable.ByPerson):
        rows = "people", loss.person_of_row, loss.persons, loss.average
        return _state(loss.rows) | {"rows": rows, "count": len(loss.person_of_row)}
    if isinstance(loss, separable.Blocks):
        return _state(loss.learner) | {"rows": ("blocks", list(map(tuple, loss.partition))), "count": loss.rows}
    return _state(loss)


def _state(value: Any) -> dict[str, Any]:
    """What a class of an integration states as public, by a method of this name; runs no other code."""
    describe = vars(type(value)).get("public_identity")
    return {} if describe is None else describe(value)


def _describe_data(data: Any, rows: int | None) -> Any:
    """Names and shapes of columns, each with a value for every row.

    A list counts by its length alone, and what has another length, or is of another type, not at all: names and shapes
    in a dict of people would be records. Users may lie along any axis of an array.
    """
    frame: Any = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if is_instance(data, table.Table):
        computed = [sorted(data.definitions.items())] if data.definitions else []
        return "table", data.users, sorted(data.columns.items()), *computed
    if is_instance(data, frame):
        return ("frame", list(map(str, data.columns))) if len(data) == rows else ()
    if is_instance(data, np.ndarray, jax.Array):
        return ("array", data.shape) if rows in data.shape else ()
    if is_instance(data, dict):
        described = [(name, _describe_data(leaf, rows)) for name, leaf in data.items() if type(name) is str]
        return "columns", sorted(pair for pair in described if pair[1])
    if is_instance(data, tuple):
        return "tuple", [_describe_data(leaf, rows) for leaf in data]
    return ("list",) if is_instance(data, list) and len(data) == rows else ()


def begin_journal(
    recording: recordings.Recording, what: str, guarantee: guarantees.Guarantee, *public: object, subject: Subject
) -> tuple[Journal, ledger_file.Charge]:
    """Charge a run that writes lines, or find its lines if it was charged before; see ``recording.charge_run``.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, the name belongs to another run, or the run was begun with
        another loss.
    """
    recording = recordings.check_recording(recording)
    charged = recordings.charge_run(recording, what, guarantee, *public, parts=subject.fixed)
    charged = _expect_same_loss(recording, charged, subject.loss)
    return Journal(recording, charged.hash, subject.loss), charged


def _expect_same_loss(recording: recordings.Recording, charged: ledger_file.Charge, loss: str) -> ledger_file.Charge:
    """The charge, without the hash of the loss in its first line. Raise a LedgerError if it is another."""
    if not charged.steps:
        return charged
    first, *others = charged.steps
    if LOSS not in first:
        raise ledger_file.DamagedLedgerError(
            f"{recording.path}: run {charged.run!r} has no loss in its first line, got {sorted(first)}"
        )
    if first[LOSS] != loss:
        raise ledger_file.LedgerError(
            f"{recording.path}: run {charged.run!r} was begun with another loss: give this release another run name"
        )
    return charged._replace(steps=({name: first[name] for name in first if name != LOSS}, *others))


def begin_record(
    recording: recordings.Recording,
    algorithm: Algorithm,
    config: Config,
    guarantee: guarantees.Guarantee,
    fresh: Tree,
    subject: Subject,
) -> RecordedRun:
    """Charge a stepwise run, or read its progress; ``fresh`` is a public state of the same shape.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, the name belongs to another run, or the run ended in a draw.
      ledger.DamagedLedgerError: the recorded states are corrupt.
    """
    what = f"{describe_run(algorithm, config)}, step by step"
    journal, charged = begin_journal(recording, what, guarantee, "run_loop", algorithm, config, subject=subject)
    recording = journal.recording
    publics, before = [], _zeros(fresh)
    for number, line in enumerate(charged.steps):
        if number % 2 == 0 and set(line) == {"draws"} and str(line["draws"]).isprintable():
            continue
        try:
            (kind, text), *rest = line.items()
            if number % 2 == 0 or kind != "public" or rest:
                raise ValueError(kind)
            most = len(_bytes(before)) + 1  # a longer state is refused, and a short line may hold a GB of zeros
            changed = zlib.decompressobj().decompress(base64.b64decode(text), most)
        except (TypeError, ValueError, zlib.error) as error:
            raise ledger_file.DamagedLedgerError(
                f"{recording.path}: run {charged.run!r} has no public state at step {number // 2}"
            ) from error
        before = _apply_difference(before, changed)
        publics.append(before)
    if len(charged.steps) % 2 and charged.release is None:
        raise ledger_file.LedgerError(
            f"{recording.path}: run {charged.run!r} ended while {charged.steps[-1]['draws']} was drawn, with "
            f"{len(publics)} steps on record, since somebody may have seen the draw: give ledger= another run name, "
            "charged anew"
        )
    notes, steps = subject.notes(charged), len(charged.steps)
    return RecordedRun(journal, charged.release, steps, tuple(publics), notes)


def begin_once(
    recording: recordings.Recording,
    algorithm: Algorithm,
    config: Config,
    guarantee: guarantees.Guarantee,
    subject: Subject,
) -> ledger_file.Charge:
    """Charge a run in a single program.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, or the name belongs to another run or a failed attempt.
    """
    what = f"{describe_run(algorithm, config)}, in one program"
    return recordings.charge_once(recording, what, guarantee, "run_scan", algorithm, config, parts=subject._asdict())


def begin_with_file(
    recording: recordings.Recording,
    algorithm: Algorithm,
    config: Config,
    guarantee: guarantees.Guarantee,
    subject: Subject,
    file: str,
) -> ledger_file.Charge:
    """Charge a run in parts with a checkpoint; the charge pays only for the draws of this ``file``.

    Raises:
      ValueError: the run has no name, or its guarantee does not compose with others.
      ledger.LedgerError: the budget does not suffice, or the name belongs to another run, or to a run begun with
        another file (perhaps deleted).
    """
    what = f"{describe_run(algorithm, config)}, in parts"
    run = recording, what, guarantee, "run_scan, in parts, of a file", algorithm, config
    parts = subject._asdict()
    charged = recordings.charge_run(*run, parts=parts)
    if charged.release is None and not charged.steps:
        try:
            ledger_file.note(recording.path, recording.run, 1, {"file": file}, hash=charged.hash)  # before a draw
            return charged
        except ledger_file.MovedLedgerError:  # the same call in another process was first, perhaps with this file
            charged = ledger_file.find_charge(recording.path, recording.run, hash=charged.hash)
    if charged.release is None and charged.steps[0] != {"file": file}:
        recordings.expect_first(recording, charged)
    return charged


def note_step(record: RecordedRun, what: str) -> RecordedRun:
    """Note in the ledger, before a draw, the step to be drawn.

    Raises:
      ledger.MovedLedgerError: another process has resumed this run.
    """
    return _note(record, {"draws": what})


def store_state(record: RecordedRun, before: Any | None, after: Tree) -> RecordedRun:
    """Store the public state after a step. ``before`` is the previous public state, or None."""
    before = _zeros(after) if before is None else before
    difference = np.bitwise_xor(_bytes(before), _bytes(after))  # a step changes little of a state
    return _note(record, {"public": base64.b64encode(zlib.compress(difference.tobytes(), 1)).decode()})


def record_release(recording: recordings.Recording, charge: str, released: Tree) -> Any:
    """Store a release in the ledger, under the charge with this hash, and return the stored release."""
    path, run, _ = recording
    stored = ledger_file.store_release(path, run, {"release": recordings.to_text(released)}, hash=charge)
    logs.released(f"{path}, run {run!r}")
    return recordings.from_text(released, stored.get("release"))


def load_release(charged: Any, like: Tree) -> Any:
    """The stored release in the shape of ``like``, or None."""
    return None if charged.release is None else recordings.from_text(like, charged.release.get("release"))


def describe_run(algorithm: Algorithm, config: Any) -> str:
    """An algorithm and its steps, in the words of a ledger."""
    module = algorithm.tell.__module__.removeprefix("jaxdpbo.algorithms.").removesuffix(".run")
    return f"{module}, {config.steps} steps"


def _note(record: RecordedRun, line: dict[str, Any]) -> RecordedRun:
    record.journal.write(line, after=record.steps)
    return record._replace(steps=record.steps + 1)


def _zeros(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def _bytes(tree: Any) -> np.ndarray:
    leaves = [np.ascontiguousarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
    return np.frombuffer(b"".join(leaves), np.uint8)


def _apply_difference(tree: Any, difference: bytes) -> Any:
    data = _bytes(tree)
    if len(difference) != len(data):
        raise ledger_file.DamagedLedgerError("a public state on record has other shapes than this run's")
    data = np.bitwise_xor(data, np.frombuffer(difference, np.uint8)).tobytes()
    leaves, shape = jax.tree.flatten(tree)
    arrays, start = [], 0
    for leaf in leaves:
        end = start + leaf.dtype.itemsize * leaf.size
        arrays.append(jnp.asarray(np.frombuffer(data[start:end], leaf.dtype).reshape(leaf.shape)))
        start = end
    return jax.tree.unflatten(shape, arrays)

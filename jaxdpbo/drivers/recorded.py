"""A run on record: paid for in a ledger before it begins, its public states kept, its release given out again.

What survives a crash is what has been through a mechanism: the state's ``public`` part after every step, on the disk
before the step's query is used. A run that goes on replays the steps it has kept: it asks and evaluates again, for the
``private`` part, and takes the public part from the record, so that no step is noised twice. Nothing raw is written.
"""

import base64
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.drivers import runs
from jaxdpbo.privacy import guarantee, ledger, records
from jaxdpbo.types import Algorithm


class Record(NamedTuple):
    """A charged run: where, its name, what was stored as its release (None if nothing), and the place of its steps."""

    ledger: str | Path
    run: str
    release: dict[str, Any] | None
    journal: Path


class Kept(NamedTuple):
    """Public states after the steps taken, first to last, and the hash of the last line that holds them."""

    publics: tuple[Any, ...]
    head: str


def begin(path: str | Path, run: str | None, algorithm: Algorithm, config: Any, statement: Any) -> Record:
    """Charge a run, or find it charged.

    Raises:
      ValueError: no name, or a guarantee that does not add up with others.
      ledger.Refused: the budget does not suffice, or the name stands for another run.
    """
    what = f"{algorithm.tell.__module__.removeprefix('jaxdpbo.algorithms.')}, {config.steps} steps"
    charged = records.charge(path, run, what, statement, algorithm, config)
    return Record(path, charged.run, charged.release, records.journal(path, charged))


def given_out(record: Record, like: Any) -> runs.Run | None:
    """The run as it was released before, or None."""
    return None if record.release is None else _read(record.release, like)


def give_out(record: Record, released: Any, statement: guarantee.Guarantee) -> runs.Run:
    """Store a release before anybody sees it; where another process was first, its release is the run's."""
    payload = {"release": records.as_text(released), "guarantee": statement.to_dict()}
    return _read(ledger.store_release(record.ledger, record.run, payload), released)


def kept(record: Record, fresh: Any) -> Kept:
    """The steps on record, in the shape of a ``fresh`` public state.

    Raises:
      ledger.Damaged: they are not what was written.
    """
    chain, publics, before = ledger.read(record.journal), [], _nothing(fresh)
    for line in chain.lines[1:]:
        try:
            changed = zlib.decompress(base64.b64decode(line["public"]))
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise ledger.Damaged(f"{record.journal.name} holds no public state") from error
        before = _changed(before, changed)
        publics.append(before)
    return Kept(tuple(publics), chain.head)


def keep(record: Record, head: str, before: Any | None, after: Any) -> str:
    """Put the public state after a step on the disk; returns the new head. ``before``: the one before it, or None.

    Raises:
      ledger.Moved: another process goes on with this run.
    """
    before = _nothing(after) if before is None else before
    difference = np.bitwise_xor(_bytes(before), _bytes(after))  # most of a state stays as it was
    line = {"public": base64.b64encode(zlib.compress(difference.tobytes(), 1)).decode()}
    return ledger.append(record.journal, line, after=head)


def _read(payload: dict[str, Any], like: Any) -> runs.Run:
    return runs.Run(records.from_text(like, payload["release"]), guarantee.from_dict(payload["guarantee"]))


def _nothing(tree: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, tree)


def _bytes(tree: Any) -> np.ndarray:
    leaves = [np.ascontiguousarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
    return np.frombuffer(b"".join(leaves), np.uint8)


def _changed(tree: Any, difference: bytes) -> Any:
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

"""Ledger entries of a run: its cost, its fingerprint, and its arrays as text, bit for bit."""

import base64
import contextlib
import math
import signal
import threading
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import accounting, logs
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.ledger import ledger_file
from jaxdpbo.ledger.fingerprints import fingerprint
from jaxdpbo.types import Tree


class Recording(NamedTuple):
    """The ledger that pays for a release, and the name of the run there.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import jaxdpbo
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> jaxdpbo.ledger.create(path, mu=2)
    >>> recording = jaxdpbo.Recording(path, "march")
    >>> recording.run
    'march'

    Attributes:
      path: the path of a ledger made by ``ledger.create``, or the address of its database.
      run: a name for the run; a retry under the same name does not pay twice. The name belongs to the first call: a
        call with another config, another loss (by its code) or data of other names or shapes is refused. Names and
        shapes are read from arrays, pandas frames, tables, and dicts and tuples of these; of a list only the length.
        Records of the same shape, and numbers that a loss captures, cannot be compared: a hash of them would be a
        release.
      protects: the ledger's words for its users, such as "our customers", if each row that the run protects is one of
        these users. One ledger then pays for searches and models of the same people. By default the words of the run's
        guarantee.
    """

    path: str | ledger_file.Place
    run: str
    protects: str | None = None

    def __repr__(self) -> str:
        """Without the account of a database, and without a password that should not be there."""
        path = ledger_file.show_place(self.path)
        return f"Recording(path={path!r}, run={self.run!r}, protects={self.protects!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """As a tuple; raise a ValueError for an address with a password, which a pickle would hold."""
        if isinstance(self.path, str):
            ledger_file.find_place(self.path)
        return Recording, (*self,)


def check_recording(recording: Any) -> Recording:
    """Check a recording and make its path absolute, since an objective may change the working directory.

    Raises:
      TypeError: ``recording`` is no ``Recording``, or its ``path`` is no path.
      ValueError: its ``run`` is no name, its ``protects`` no text, or its ``path`` an address with a password.
    """
    if not isinstance(recording, Recording):
        raise TypeError(f"ledger must be Recording(path, run), got {type(recording).__name__}")
    if not isinstance(recording.run, str) or not recording.run:
        raise ValueError(f"run must be given with a ledger, as a name of the release, got {recording.run!r}")
    if not isinstance(recording.path, (str, Path, ledger_file.Address)):
        raise TypeError(f"path of a recording must be a path, got {recording.path!r}")
    if recording.protects is not None and (not isinstance(recording.protects, str) or not recording.protects):
        raise ValueError(f"protects must be the ledger's words for its users, got {recording.protects!r}")
    place = ledger_file.find_place(recording.path)
    return recording._replace(path=place.absolute() if isinstance(place, Path) else place)


def notion(recording: Recording) -> str:
    """Return the notion of the ledger's budget.

    Raises:
      TypeError: ``recording`` is no ``Recording``.
      ledger.LedgerError: there is no such ledger.
    """
    return ledger_file.account(check_recording(recording).path).budget.notion


def is_released(recording: Recording) -> bool:
    """Return whether the ledger holds the release of the run.

    Raises:
      TypeError: ``recording`` is no ``Recording``.
      ledger.LedgerError: there is no such ledger.
    """
    path, run, _ = check_recording(recording)
    return any(entry.run == run and entry.released for entry in ledger_file.account(path).spends)


def charge_run(
    recording: Recording,
    what: str,
    guarantee: guarantees.Guarantee,
    *public: object,
    parts: Mapping[str, str] | None = None,
    id: str | None = None,
) -> ledger_file.Charge:
    """Pay for all releases of a run, before the run begins.

    A ledger of notion "gdp" also accepts a "dp" guarantee, with its delta. The charged GDP level is the ``also`` of the
    guarantee, or the level of any pure DP mechanism, since its log-ratios have a range of ``2 epsilon``
    (``accounting.bounded_range_mu``; docs/theorems.md). A ledger of notion "dp" accepts a "gdp" guarantee by its
    ``also`` alone: a ``mu`` implies no single epsilon.

    An "ex_post_dp" guarantee reserves its largest epsilon, and ``store_cost`` returns the rest. A ledger of notion
    "gdp" keeps the whole charge.

    Args:
      recording: the ledger, and the name of the run.
      what: a description of the release.
      guarantee: the guarantee of the run, charged as its cost.
      public: all public values behind the release, such as the algorithm and its config.
      parts: hashes of what else the run is bound to, by name, for a refusal that names what differs. With
        "configuration" among them, ``public`` and the versions of the libraries do not count.
      id: of the ledger, if no other may pay.

    Raises:
      ValueError: no name, or a guarantee of a notion without composition in a ledger.
      TypeError: a value in ``public`` has no bytes to hash, or ``recording`` is no ``Recording``.
      ledger.LedgerError: the budget does not suffice, or the name belongs to another run.
    """
    path, run, _ = check_recording(recording)
    spend = _spend(recording, guarantee)
    charge = ledger_file.charge(path, run, what, spend, fingerprint=_join_hashes(public, parts), id=id)
    if not charge.charged_before:
        logs.charged(path, run, what)
    else:
        found = "released before" if charge.release is not None else f"charged before, {len(charge.steps)} lines"
        logs.resumed(f"{path}, run {run!r}: {found}")
    return charge


def expect_run(
    recording: Recording,
    what: str,
    guarantee: guarantees.Guarantee,
    *public: object,
    parts: Mapping[str, str] | None = None,
) -> None:
    """Raise what ``charge_run`` would raise, and pay nothing; the ledger records a refusal."""
    path, run, _ = check_recording(recording)
    ledger_file.expect_charge(path, run, what, _spend(recording, guarantee), _join_hashes(public, parts))


def charge_together(payments: Mapping[str, tuple[Recording, guarantees.Guarantee]], what: str, *public: object) -> None:
    """Pay for one release from several ledgers, before the run begins: ask all of them, then charge all or none.

    No other process spends between the questions and the charges: all files stay locked (``ledger_file.charge_all``). A
    process killed between two charges leaves some of them: the same call charges the rest. The last charge decides.
    A call that makes it may draw; every other call is refused, since somebody may have seen the draws. The
    fingerprints cover all names and ledgers, so that a call with other ledgers is another release.

    Args:
      payments: for each set of rows, the ledger with the name of the run there, and the guarantee.
      what: see ``charge_run``.
      public: see ``charge_run``.

    Raises:
      ValueError: two sets of rows have one run name in one file; see ``charge_run``.
      TypeError: see ``charge_run``.
      ledger.LedgerError: a budget does not suffice, or a name was used before.
    """
    ordered = dict(sorted(payments.items()))
    files = {name: ledger_file.read_identity(recording.path) for name, (recording, _) in ordered.items()}
    digest = _join_hashes((*public, [(name, files[name][1], ordered[name][0].run) for name in ordered]))
    for file in dict.fromkeys(file for file, _ in files.values()):
        names = [name for name in ordered if files[name][0] == file]
        runs = [ordered[name][0].run for name in names]
        if len(set(runs)) < len(runs):
            raise ValueError(f"ledgers must name another run for each set of rows in one file, got {runs} for {names}")
    asked = [
        ledger_file.Payment(recording.path, files[name], recording.run, _spend(recording, guarantee), digest)
        for name, (recording, guarantee) in ordered.items()
    ]
    if not ledger_file.charge_all(asked, what):
        path, run = asked[-1].path, asked[-1].run
        raise ledger_file.LedgerError(
            f"{path}: run {run!r} was charged before, and its draws may have been seen: give a new attempt its own "
            "name, with its own charge"
        )
    for recording, _ in ordered.values():
        logs.charged(recording.path, recording.run, what)


def _join_hashes(public: tuple[object, ...], parts: Mapping[str, str] | None = None) -> str:
    """The fingerprint of a charge: the hashes of all that a run is bound to, by names for a refusal."""
    hashes = {"configuration": fingerprint(public), **(parts or {})}
    return " ".join(f"{name}:{hashes[name]}" for name in hashes)


def _spend(recording: Recording, guarantee: guarantees.Guarantee) -> ledger_file.Spend:
    """The spend of a run, in the notion and the words of the ledger."""
    path, _, protects = recording
    ex_post, guarantee = guarantee.largest is not None, guarantee.reservation
    if guarantee.notion not in ledger_file.LEVELS:
        raise ValueError(
            f"a ledger adds up {', '.join(ledger_file.LEVELS)}; this run has {guarantee.notion!r}: {guarantee}"
        )
    same_users = () if protects in (None, guarantee.protects) else (assumptions.SAME_USERS,)
    event = ledger_file.Event(*_level_for(path, guarantee), guarantee.delta, guarantee.total_variation)
    return ledger_file.Spend(
        (event,),
        guarantee.relation or "",
        protects or guarantee.protects,
        guarantee.unit,
        tuple(sorted({*guarantee.assumptions, *same_users})),
        ex_post and event.type == "dp",
    )


def store_cost(recording: Recording, guarantee: guarantees.Guarantee, release: dict[str, Any]) -> None:
    """Record the release of a charged run with what it cost: the rest of its reservation is free again.

    A ledger without a reservation, of notion "gdp", gets no record.

    Raises:
      ledger.LedgerError: the run was not charged.
      ledger.MovedLedgerError: somebody else recorded a release of this run.
    """
    path, run, _ = check_recording(recording)
    if not any(entry.run == run and entry.spend.ex_post for entry in ledger_file.account(path).spends):
        return
    stored = ledger_file.store_release(path, run, release, paid=guarantee.level)
    (paid,) = (entry.paid for entry in ledger_file.account(path).spends if entry.run == run)
    if (stored, paid) != (release, Fraction(guarantee.level)):
        raise ledger_file.MovedLedgerError(
            f"{path}: run {run!r} has a release that this call did not make: nothing is returned"
        )


def _level_for(path: str | ledger_file.Place, guarantee: guarantees.Guarantee) -> tuple[str, float]:
    """Notion and level to charge: of the ledger's notion if proved, else of the guarantee's (refused by the ledger)."""
    levels = {guarantee.notion: guarantee.level} | dict([guarantee.also] if guarantee.also else [])
    if "dp" in levels:
        notion = ledger_file.account(path).budget.notion
        if notion in levels:
            return notion, levels[notion]
        if notion == "gdp" and math.isfinite(2 * levels["dp"]):
            return notion, max(accounting.bounded_range_mu(2 * levels["dp"]), guarantees.LEAST)
    return guarantee.notion, guarantee.level


def charge_once(
    recording: Recording,
    what: str,
    guarantee: guarantees.Guarantee,
    *public: object,
    parts: Mapping[str, str] | None = None,
) -> ledger_file.Charge:
    """Charge for a release drawn in one step; refuse a second attempt if the first stored no release.

    Somebody may have seen the draws of a failed attempt, and retrying until success is itself an output.

    Raises:
      ledger.LedgerError: see ``charge``; or the run was charged before and stored no release.
    """
    charged = charge_run(recording, what, guarantee, *public, parts=parts)
    expect_first(recording, charged)
    return charged


def expect_first(recording: Recording, charged: ledger_file.Charge) -> None:
    """Raise if the run was charged before and stored no release.

    Raises:
      ledger.LedgerError: see above.
    """
    if charged.charged_before and charged.release is None:
        raise ledger_file.LedgerError(
            f"{recording.path}: run {charged.run!r} was charged before and did not end: somebody may have seen its "
            "draws, so its budget is spent; start a new attempt under another run name"
        )


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until what is drawn here is on record: a draw that it cuts short spends its charge for nothing.

    In another thread than the main one, which no Ctrl-C reaches, or under a handler that is not Python's: nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    typed: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: typed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if typed:
            signal.raise_signal(signal.SIGINT)


def to_text(tree: Tree) -> list[dict[str, Any]]:
    """Encode the arrays of a pytree for JSON."""
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [
        {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        }
        for array in arrays
    ]


def from_text(like: Tree, written: object) -> Any:
    """Decode arrays from ``to_text``, which others may have written, in the structure of ``like``.

    Raises:
      ledger.DamagedLedgerError: the arrays have other shapes or dtypes than ``like``.
    """
    leaves, shape = jax.tree.flatten(like)
    if not isinstance(written, list) or len(written) != len(leaves):
        raise ledger_file.DamagedLedgerError(
            f"the ledger's entry must hold the {len(leaves)} arrays of this run, and does not"
        )
    return jax.tree.unflatten(shape, [jnp.asarray(_array(*pair)) for pair in zip(leaves, written, strict=True)])


def _array(like: Any, written: Any) -> np.ndarray:
    kinds = {"dtype": str, "shape": list, "data": str}
    if not isinstance(written, dict) or {name: type(value) for name, value in written.items()} != kinds:
        raise ledger_file.DamagedLedgerError("the ledger's entry holds no array")
    if (written["dtype"], written["shape"]) != (str(like.dtype), list(like.shape)):
        raise ledger_file.DamagedLedgerError("the ledger's entry holds arrays of other shapes than this run's")
    try:
        return np.frombuffer(base64.b64decode(written["data"], validate=True), like.dtype).reshape(like.shape)
    except ValueError as error:
        raise ledger_file.DamagedLedgerError("the ledger's entry holds no array") from error

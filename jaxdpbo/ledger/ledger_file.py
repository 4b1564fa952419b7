"""The ledger: all privacy spends, each on disk before its release, in a file or in a database.

One file of JSON lines on a local disk holds the budget, then the charges, the steps under each charge, the releases,
and the charges that the budget refused. Processes only append lines, one process at a time. Each line holds its own
SHA-256 and the SHA-256 of the previous line. A ledger that several accounts and hosts share has the same lines in
a table of PostgreSQL (``sql_store``). Everything is decided here, from the lines: a store (``Store``) reads all of them
under a lock, and appends one.

The hashes detect any changed byte, and any removed, inserted, repeated or moved line. They cannot detect the removal of
whole lines at the end, or a rewritten file with new hashes. Keep ``head(path)`` out of reach of everybody with write
access to the file, and pass it to ``account`` as ``expected_head``: the chain up to that hash holds every past release.

A spend of notion "dp" may be ex-post: the release decides how much of the charged epsilon it cost. The charge reserves
all of it, and the line of the release may name the epsilon paid (docs/theorems.md). A run without a release keeps its
reservation.

A charge pays for ONE transcript: after any failure, all releases under a charge form one sequence. The file records a
step before the step draws noise, so no second draw can follow (``note``). A charged run of one step without a stored
release is over. The ledger stores a release before anybody sees it, and returns the stored release on a retry.

The rest is of a file; ``sql_store`` says what a database does instead.

The file records its inode and a random id. A mark beside the file, ``ledger-<id>.head``, holds the hash of the last
line. The ledger refuses to write to a copy until you ``adopt`` the copy: two copies would spend one budget twice. It
also refuses a file without its mark, and an older copy in place of the file, even with the inode of the deleted file,
because the older copy lacks the line named by the mark. Hard and symbolic links count as the same file. These checks
guard against accidents: only ``expected_head`` detects a folder restored as a whole, with its mark and inodes.

Only the owner writes a ledger: the ledger refuses a file, mark or symbolic link of another user, who may have written
its content. Anybody with read access to a ledger, or to a copy, may verify it.

A process killed during a write leaves a torn line, the beginning of a line. Nobody received an acknowledgement for it:
readers skip the torn line, the next writer removes it. A line of full length without a newline at its end is damage.

To read a ledger this module uses the standard library alone: auditors load this one file, without JAX. Only a charge
imports the accounting of this package. So the reader of JSON that others may have written is here too, for all of the
package (``parse_json``).
"""

import decimal
import errno
import getpass
import hashlib
import json
import math
import os
import re
import socket
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias
from urllib.parse import parse_qsl

SCHEMA, VERSION = "jaxdpbo.ledger", 3
LEVELS = {"gdp": "mu", "zcdp": "rho", "dp": "epsilon", "metric_dp": "epsilon"}  # the level's name, by notion
SPEND_HEADS = ["run", "what", "spent", "delta", "total_variation", "steps", "released", "who", "when"]
SET_BACK = timedelta(seconds=1)  # a clock may be corrected by less, without a word
COSTS = LEVELS | {"gdp": "mu^2"}  # the quantity to sum over releases
USERS = "the users with evaluated losses; NOT the records a model is trained on"  # the default protected users
VARIATION_OF_DELTA, SHARE_OF_DELTA = Fraction(1, 2**14), Fraction(1, 2**7)  # limits of a default total variation
LEAST_VARIATION = Fraction(1, 2**64)
BITS = 4096  # the most bits of a numerator or denominator: floats have fewer, and Python prints such integers in full

Number: TypeAlias = Any  # an int, a Fraction, a float (by its binary value), or a string such as "0.1" or "1/10"

_BEFORE_THE_FIRST = "0" * 64
_START, _CONTENT, _HASH = '{"previous": "%s", "length": ', ', "content": ', ', "hash": "%s"}'
_LINE = re.compile(rb'\{"previous": "[0-9a-f]{64}", "length": [0-9]+, "content": (\{.*\})(, "hash": "[0-9a-f]{64}"})')
_HASH_LENGTH = len(_HASH % _BEFORE_THE_FIRST)
_MARK = "ledger-%s.head"  # % id
_ID = re.compile(r"[0-9a-f]{32}")
_ADDRESS = re.compile(  # 1: the kind; 2: host and database; 3: options
    r"(postgresql|sqlite)://(?:[\w.%+-]+@)?((?:[\w.-]*|\[[\da-fA-F:]+\])(?::\d+)?/[^@?#:]+)(?:\?([^#]*))?"
)
_MAX_LINKS = 40  # as Linux
_FRACTION = re.compile(r"-?[0-9]{1,1300}/[0-9]{1,1300}")  # as ``_to_json`` writes: "1e999999999" could exhaust memory
MAX_DEPTH, MAX_DIGITS = 32, 4300  # of JSON: Python prints integers of so many digits
_FIELDS: dict[str, Any] = {  # the type of each field of a line, wherever it is
    "schema": str, "version": int, "kind": str, "run": str, "what": str, "fingerprint": str, "who": str, "by": str,
    "when": str, "relation": str, "protects": str, "unit": (list, type(None)), "events": list, "assumptions": list,
    "ex_post": bool, "summary_delta": list, "paid": list, "number": int, "content": dict, "payload": dict,
    "inode": int, "id": str, "folder": str, "database": list,
}  # fmt: skip


class LedgerError(Exception):
    """The request is not allowed, or the file is not a valid ledger; the ledger spent nothing."""


class BudgetExceeded(LedgerError):
    """The budget does not suffice. The ledger records that it refused the charge."""


class DamagedLedgerError(LedgerError):
    """The file differs from the written ledger."""


class MovedLedgerError(LedgerError):
    """Another process continued or ended the run."""


class Chain(NamedTuple):
    """The contents of a chain's lines, the last hash (which covers the whole file), and all hashes."""

    lines: tuple[dict[str, Any], ...]
    head: str
    hashes: tuple[str, ...]


class Event(NamedTuple):
    """The exact cost of one mechanism; a spend consists of events.

    A budget adds up events of its own notion.

    Attributes:
      type: the notion: "gdp", "zcdp", "dp" or "metric_dp".
      level: mu, rho or epsilon.
      delta: additive slack, as in ``Guarantee``.
      total_variation: total variation distance from the ideal mechanism.
    """

    type: str
    level: Number
    delta: Number = 0
    total_variation: Number = 0


class Spend(NamedTuple):
    """The cost of a release: its events, and the terms of its guarantee.

    >>> from jaxdpbo import ledger
    >>> spend = ledger.Spend((ledger.Event("gdp", 1),), "replace_one", ledger.USERS)
    >>> spend.events[0].type
    'gdp'

    Attributes:
      events: at least one ``Event``.
      relation: the neighbouring relation.
      protects: the protected users, in the ledger's words.
      unit: for the relation "unit_distance", a distance in the units of the records; otherwise None.
      assumptions: assumptions by name; a ledger's total depends on the assumptions of all its spends.
      ex_post: True if the level of the one event, of type "dp", is the most that the release may cost, and its own
        epsilon is known from the release: ``store_release(paid=...)``.
    """

    events: tuple[Event, ...]
    relation: str
    protects: str
    unit: Number | None = None
    assumptions: tuple[str, ...] = ()
    ex_post: bool = False


class Charge(NamedTuple):
    """A recorded spend: its run, line number and hash; True if recorded earlier; its steps; its release, or None.

    ``who`` and ``when`` are of the line of the charge.
    """

    run: str
    number: int
    hash: str
    charged_before: bool
    steps: tuple[dict[str, Any], ...]
    release: dict[str, Any] | None
    who: str
    when: str


class Amounts(NamedTuple):
    """Additive amounts: mu^2 for "gdp", rho or epsilon for other notions; delta; total variation."""

    cost: Fraction
    delta: Fraction
    total_variation: Fraction


class Entry(NamedTuple):
    """A spend of an account: line number, run, purpose, author, time, number of steps, and True if released.

    ``paid`` is the epsilon of an ex-post release, in place of the spend's; None for other spends and before a release.
    """

    number: int
    run: str
    what: str
    spend: Spend
    fingerprint: str
    who: str
    when: str
    steps: int
    released: bool
    paid: Fraction | None = None


class Budget(NamedTuple):
    """The budget of a ledger: additive amounts, and the terms required of every spend.

    ``summary_delta`` is the delta typed beside an epsilon, at which records state an epsilon; otherwise None.
    """

    notion: str
    level: Fraction
    delta: Fraction
    total_variation: Fraction
    relation: str
    protects: str
    unit: Fraction | None
    summary_delta: Fraction | None = None


class Account(NamedTuple):
    """A ledger's budget with its author and time, its events, the spends, all their assumptions, and the sums.

    The events are adoptions, refused charges and a clock set back: the time of each, and a sentence.
    """

    budget: Budget
    by: str
    when: str
    events: tuple[tuple[str, str], ...]
    spends: tuple[Entry, ...]
    assumptions: tuple[str, ...]
    spent: Amounts
    left: Amounts
    head: str


# Where a ledger lies


class Address(NamedTuple):
    """The address of a database, and what may be printed of it: neither the account nor an option."""

    url: str
    name: str

    def __str__(self) -> str:
        """The host and the database."""
        return self.name

    def __repr__(self) -> str:
        """As text of its own."""
        return repr(self.name)


Place: TypeAlias = Path | Address


def find_place(path: str | Place) -> Place:
    """The path of a file; or the address of a database, which is text with "://".

    Raises:
      ValueError: the address is none, or holds a password. Quotes nothing of it.
    """
    if isinstance(path, Path) and path.parts[:1] == ("postgresql:",):
        raise ValueError("path must be text if it is the address of a database, got a Path")
    if not isinstance(path, str) or "://" not in path:
        return path if isinstance(path, Address) else Path(path)
    match = _ADDRESS.fullmatch(path)
    if match is None or any("password" in name.lower() for name, _ in parse_qsl(match[3] or "", True)):
        raise ValueError(
            "path of a ledger in a database must be postgresql://ACCOUNT@HOST/DATABASE, and without a password: write "
            "that into ~/.pgpass, or into the variable PGPASSWORD"
        )
    return Address(path, f"{match[1]}://{match[2]}")


def show_place(path: Any) -> Any:
    """What may be printed of a path, no matter what it holds."""
    if isinstance(path, (str, Path)):
        try:
            place = find_place(path)
        except ValueError:
            return "(no address of a ledger)"
        return str(place) if isinstance(place, Address) else path
    return path


class Store(Protocol):
    """A ledger that is open, and locked until it is closed if somebody writes to it: all that decisions know of it."""

    @property
    def path(self) -> Place:
        """For messages."""
        ...

    @property
    def chain(self) -> Chain:
        """All lines, verified."""
        ...

    def append(self, content: dict[str, Any], *, named: bool = False) -> "Store":
        """Append a line, on disk when this returns; ``named``: the ledger's name is on disk already.

        Raises:
          LedgerError: the line is not in the ledger, or nobody can tell; nothing may be drawn.
        """
        ...

    def settle(self) -> None:
        """Put on disk what was read."""
        ...

    def adopt(self, signed: dict[str, Any]) -> None:
        """Append the line of an adoption, with the identity of this copy."""
        ...

    def locate(self) -> tuple[int, int]:
        """Two numbers that no other place has: the order of the locks of several ledgers."""
        ...


# The ledger


def create(
    path: str | Place,
    *,
    mu: Number | None = None,
    epsilon: float | None = None,
    delta: Number | None = None,
    notion: str | None = None,
    level: Number | None = None,
    total_variation: Number | None = None,
    relation: str = "replace_one",
    protects: str = USERS,
    unit: Number | None = None,
    by: str | None = None,
) -> None:
    """Create a ledger with a budget: additive amounts, as in ``Event``, and the terms required of every spend.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> ledger.account(path).left.cost  # mu^2 adds up
    Fraction(4, 1)

    Args:
      path: the path of the new file; or the address of a database of PostgreSQL without a ledger, as text such as
        "postgresql://account@host/database", which needs the extra ``sql``. All functions take both.
      mu: a budget of the notion "gdp".
      epsilon: with ``delta``, a budget of the largest ``mu`` with this guarantee, rounded down; no default.
      delta: in (0, 1) with ``epsilon``; with ``notion`` and ``level``, additive slack, by default 0.
      notion: the notion of any other budget; give its ``level`` too.
      level: see ``notion``.
      total_variation: the most that the total variations of all spends may add up to, on top of ``delta``. By default
        2^-64; with ``level`` and ``delta``, for models, at most 2^-14 ``delta``, and less for a high level: it adds at
        most 2^-7 ``delta`` to the delta of the budget.
      relation: the neighbouring relation.
      protects: the protected users; by default, in the wording of runs of this package.
      unit: the unit of the relation "unit_distance".
      by: the author; by default, the user and the machine.

    Raises:
      ValueError: the budget is given twice, in part or not at all, or a number is out of range.
      FileExistsError: the ledger exists. A second budget for the same records is a second spend.
      FileNotFoundError: the folder does not exist.
      LedgerError: the database cannot be reached, or the account may not create a table.
    """
    if total_variation is None:
        total_variation = LEAST_VARIATION
        if level is not None and delta:
            factor = Fraction(1 + math.exp(float(min(_fraction("level", level), 700))))  # of a total variation
            total_variation = _fraction("delta", delta) * min(VARIATION_OF_DELTA, SHARE_OF_DELTA / factor)
    requested = _requested_budget(mu, epsilon, delta, notion, level, total_variation)
    budget = _to_json(_exact(Spend((Event(*requested, total_variation),), relation, protects, unit)))
    typed = {} if delta is None else {"summary_delta": _exact_and_decimal(_fraction("delta", delta))}
    signed = {"when": _now(), "by": _text("by", _who() if by is None else by)}
    _begin(path, {"schema": SCHEMA, "version": VERSION} | budget | typed | signed)


def _requested_budget(
    mu: Any, epsilon: Any, delta: Any, notion: Any, level: Any, total_variation: Any
) -> tuple[Any, Any, Any]:
    """Notion, level and slack of a budget, typed in any of its three spellings."""
    if mu is None and epsilon is None and not (notion is None and level is None):
        if not isinstance(notion, str) or notion not in LEVELS:
            raise ValueError(f"notion must be one of {', '.join(map(repr, LEVELS))}, got {notion!r}")
        if level is None:
            raise ValueError(f"level must be given with notion={notion!r}")
        return notion, level, 0 if delta is None else delta
    if notion is not None or level is not None:
        raise ValueError("notion and level must not be given with mu or epsilon, which set a budget of notion 'gdp'")
    if mu is not None and epsilon is None and delta is None:
        return "gdp", _fraction("mu", mu), 0
    from jaxdpbo.accounting.requested_budget import requested_mu  # here: auditors load this file alone, to read only

    return (
        "gdp",
        requested_mu(mu, epsilon, delta, total_variation=float(_fraction("total_variation", total_variation))),
        0,
    )


def charge(
    path: str | Place,
    run: str,
    what: str,
    spend: Spend,
    *,
    fingerprint: str = "",
    id: str | None = None,
    timeout: float | None = None,
) -> Charge:
    """Pay for a release before you draw it. Repeated charges of the same run cost nothing.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> spend = ledger.Spend((ledger.Event("gdp", 1),), "replace_one", ledger.USERS)
    >>> paid = ledger.charge(path, "march", "a mean", spend)
    >>> paid.charged_before, ledger.account(path).left.cost
    (False, Fraction(3, 1))

    Args:
      path: the path of the ledger.
      run: a name for the release.
      what: a description of the release.
      spend: the cost of the release.
      fingerprint: a hash of everything public behind the release; or hashes of its parts, "name:hash name:hash", so
        that a refusal names the part that differs.
      id: of the ledger, as its file says, if no other ledger may pay.
      timeout: seconds to wait for other processes; by default without limit.

    Raises:
      BudgetExceeded: the budget does not suffice.
      LedgerError: the spend differs from the budget in its notion or terms, the run was charged with another spend or
        fingerprint, the file is a copy, or its id is another.
    """
    spend, run, what = _exact(spend), _text("run", run), _text("what", what)
    if not isinstance(fingerprint, str):
        raise TypeError(f"fingerprint must be text, got a {type(fingerprint).__name__}")
    with _open_ledger(path, writing=True, timeout=timeout) as opened:
        _expect_id(opened, run, id)
        return _charge(opened, run, what, spend, fingerprint)[1]


def _charge(opened: Store, run: str, what: str, spend: Spend, fingerprint: str) -> tuple[Store, Charge]:
    """Charge an opened ledger; return it with its new line, and the charge."""
    current, kept = _account(opened)
    entry = _ask(opened, current, run, what, spend, fingerprint)
    if entry is not None:
        opened.settle()  # its writer may have been killed before the flush to disk
        return opened, _make_charge(opened, entry, kept[run])
    content = {"kind": "spend", "run": run, "what": what} | _to_json(spend)
    signed = {"who": _who(), "when": _now()}
    opened = _append(opened, content | {"fingerprint": fingerprint} | signed)
    return opened, Charge(run, len(opened.chain.lines), opened.chain.head, False, (), None, **signed)


class Payment(NamedTuple):
    """A charge of one of several ledgers: the ledger's path and ``read_identity``; the rest as for ``charge``."""

    path: str | Place
    identity: tuple[tuple[int, int], str]
    run: str
    spend: Spend
    fingerprint: str


def charge_all(payments: Sequence[Payment], what: str) -> bool:
    """Charge several runs, all or none; True if this call charged the last one.

    All files stay locked from the first question to the last charge: no other process spends in between. The order of
    the locks is that of the devices and inodes, so that two calls cannot wait for each other. A process killed, or
    a disk full, between two charges leaves some of them: the same call charges the rest.

    Raises:
      LedgerError: see ``charge``; or a file was replaced since its ``read_identity``.
    """
    what, payments = _text("what", what), [asked._replace(spend=_exact(asked.spend)) for asked in payments]
    paths = {asked.identity: asked.path for asked in payments}
    with ExitStack() as stack:
        books: dict[Any, Store] = {}
        for identity in sorted(paths):
            opened = stack.enter_context(_open_ledger(paths[identity], writing=True))
            if _pair(opened) != identity:
                raise LedgerError(f"{opened.path} was replaced during the call: put it back, and call again")
            books[identity] = opened
        accounts, charged = {identity: _account(opened)[0] for identity, opened in books.items()}, False
        for identity, run, spend, fingerprint in (asked[1:] for asked in payments):
            current, opened = accounts[identity], books[identity]
            charged = _ask(opened, current, _text("run", run), what, spend, fingerprint) is not None
            if not charged:
                left = zip(current.left, _amounts(spend), strict=True)
                accounts[identity] = current._replace(left=Amounts(*(has - cost for has, cost in left)))
        if charged:
            return False
        for identity, run, spend, fingerprint in (asked[1:] for asked in payments):
            books[identity], _ = _charge(books[identity], run, what, spend, fingerprint)
        return True


def expect_charge(path: str | Place, run: str, what: str, spend: Spend, fingerprint: str) -> None:
    """Raise what ``charge`` would raise, and spend nothing; a refusal is recorded."""
    with _open_ledger(path, writing=True) as opened:
        _ask(opened, _account(opened)[0], _text("run", run), _text("what", what), _exact(spend), fingerprint)


def read_identity(path: str | Place) -> tuple[tuple[int, int], str]:
    """The device and inode of a ledger's file, or its server and database, equal under every path; and the hash of its
    first line.

    A ledger that was moved keeps the hash.
    """
    with _open_ledger(path, writing=False) as opened:
        return _pair(opened)


def _pair(opened: Store) -> tuple[tuple[int, int], str]:
    return opened.locate(), opened.chain.hashes[0]


def find_charge(path: str | Place, run: str, *, hash: str) -> Charge:
    """Read the charge of a run again, to go on under it, and never pay.

    Args:
      path: the path of the ledger.
      run: the name of the run.
      hash: of the line of the charge, ``Charge.hash``: a file in place of the ledger does not have it.

    Raises:
      LedgerError: this ledger did not make this charge.
    """
    run = _text("run", run)
    with _open_ledger(path, writing=True) as opened:
        current, kept = _account(opened)
        _expect_charge(opened, run, hash)
        (entry,) = (entry for entry in current.spends if entry.run == run)
        return _make_charge(opened, entry, kept[run])


def read_id(path: str | Place) -> str:
    """The id of a ledger that may be charged: no other ledger has it, and an adopted copy gets a new one.

    Raises:
      LedgerError: the file is a copy, or no ledger.
    """
    with _open_ledger(path, writing=True) as opened:
        _account(opened)
        return _find_id(opened)


def note(
    path: str | Place,
    run: str,
    number: int,
    content: dict[str, Any],
    *,
    hash: str | None = None,
    id: str | None = None,
    timeout: float | None = None,
) -> None:
    """Record step ``number`` of a charged run, counted from 1: the draw about to be made, or the release made.

    The step is on disk when ``note`` returns. If two processes continue one run, the second is refused before any draw.

    Args:
      path: the path of the ledger.
      run: the name of a charged run.
      number: of the step.
      content: of the line, in JSON types.
      hash: of the line of the charge, ``Charge.hash``, if the charge must be this one.
      id: of the ledger, ``read_id``, if the ledger must not have been adopted since.
      timeout: seconds to wait for other processes; by default without limit.

    Raises:
      MovedLedgerError: the run now has another number of steps, or its release.
      LedgerError: the run was not charged, or by another charge.
    """
    run, content = _text("run", run), parse_json(_json("content", content))
    with _open_ledger(path, writing=True, timeout=timeout) as opened:
        steps, release = _find_kept(opened, run)
        if hash is not None:
            _expect_charge(opened, run, hash)
        _expect_id(opened, run, id)
        if release is not None:
            raise MovedLedgerError(f"{opened.path}: run {run!r} has its release: nothing more may be drawn for it")
        if type(number) is not int or number != len(steps) + 1:
            raise MovedLedgerError(
                f"{opened.path}: run {run!r} has {len(steps)} steps on record, got step {number!r}: another process "
                "or an interrupted call continued the run"
            )
        _append(opened, {"kind": "step", "run": run, "number": number, "when": _now(), "content": content}, named=True)


def store_release(
    path: str | Place,
    run: str,
    payload: dict[str, Any],
    *,
    paid: Number | None = None,
    hash: str | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Record the release of a charged run, and return the payload to publish: the FIRST one recorded.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> spend = ledger.Spend((ledger.Event("gdp", 1),), "replace_one", ledger.USERS)
    >>> paid = ledger.charge(path, "march", "a mean", spend)
    >>> ledger.store_release(path, "march", {"mean": 0.25})
    {'mean': 0.25}

    Args:
      path: the path of the ledger.
      run: the name of a charged run.
      payload: the release, in JSON types.
      paid: the epsilon of an ex-post release; the rest of the charge is free again, and the line carries no time. None:
        the whole charge stays spent.
      hash: of the line of the charge, ``Charge.hash``, if the charge must be this one.
      timeout: seconds to wait for other processes; by default without limit.

    Raises:
      ValueError: ``paid`` is negative or above the charged epsilon, or the spend is not ex-post.
      LedgerError: the run was not charged, or by another charge.
    """
    run, payload = _text("run", run), parse_json(_json("payload", payload))
    with _open_ledger(path, writing=True, timeout=timeout) as opened:
        current, kept = _account(opened)
        if run not in kept:
            raise _uncharged(opened, run)
        if hash is not None:
            _expect_charge(opened, run, hash)
        if (release := kept[run].release) is not None:
            opened.settle()
            return deepcopy(release)
        content: dict[str, Any] = {"kind": "release", "run": run, "payload": payload}
        if paid is None:
            content["when"] = _now()
        else:  # without a time: the time since the charge tells the number of runs of a selection
            (spend,) = (entry.spend for entry in current.spends if entry.run == run)
            content["paid"] = _exact_and_decimal(_check_paid(spend, paid))
        _append(opened, content)
        return payload


def adopt(path: str | Place, *, by: str | None = None) -> None:
    """Make this copy of a ledger the valid file, after a move to another disk or from a backup.

    Stop using the original: nobody adds up charges to two copies. The file records the adoption. If you adopt an older
    copy, later spends are forgotten. The file gets a new id; ``adopt`` deletes the mark of the former id if it is in
    the same folder, so that a former state of the file is refused.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> copy = path.with_name("copy.jsonl")
    >>> content = copy.write_bytes(path.read_bytes())
    >>> ledger.adopt(copy, by="the auditor")
    """
    with _open_ledger(path, writing=True, copies=True) as opened:
        _account(opened)
        opened.adopt({"when": _now(), "by": _text("by", _who() if by is None else by)})


def account(path: str | Place, *, expected_head: str | None = None) -> Account:
    """Verify a ledger or a copy, and add up its spends.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> ledger.account(path).left.cost
    Fraction(4, 1)

    Args:
      path: the path of the ledger.
      expected_head: an earlier result of ``head``; the ledger may have grown since.

    Raises:
      DamagedLedgerError: the file differs from the written ledger, or holds no line with the expected hash.
      LedgerError: the file is no ledger, or has another version.
    """
    with _open_ledger(path, writing=False) as opened:
        if expected_head is not None and expected_head not in opened.chain.hashes:
            raise DamagedLedgerError(
                f"{opened.path} does not hold the expected line: the file was cut short or written anew"
            )
        return _account(opened)[0]


def head(path: str | Place) -> str:
    """The hash of the last line, which covers all charges and releases; keep it elsewhere.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> len(ledger.head(path))
    64
    """
    return read(path).head


def describe(path: str | Place) -> str:
    """Describe a ledger as text: each spend with author, time and release, the sums, the assumptions, and the head.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from jaxdpbo import ledger
    >>> path = Path(tempfile.mkdtemp()) / "budget.jsonl"
    >>> ledger.create(path, mu=2)
    >>> print(ledger.describe(path))
    gdp (replace_one) for ...
    """
    current = account(path)
    budget = current.budget
    sums = _sum_rows(current)
    rows = [["line", *SPEND_HEADS], *([str(entry.number), *_spend_row(entry)] for entry in current.spends)]
    relation = budget.relation if budget.unit is None else f"{budget.relation} {_up(budget.unit)}"
    terms = f"{budget.notion} ({relation}) for {budget.protects}, begun {current.when} by {current.by}"
    rests = ["", "The sums hold if:", *(f"- {name}" for name in current.assumptions)] if current.assumptions else []
    warnings = [warning] if (warning := mark_warning(path)) else []
    events = [f"{when}  {event}" for when, event in current.events]
    lines = [terms, *events, *warnings, "", *_table(sums), *rests, "", *_table(rows)]
    return "\n".join([*lines, "", f"head {current.head}"])


def mark_warning(path: str | Place) -> str:
    """The warning for readers that a ledger, or a copy of it, lacks lines that its mark names; or "".

    A reader may see no mark, and a database has none: the warning is then "".
    """
    with _open_ledger(path, writing=False) as opened:
        identity = _last_identity(opened.chain)
        if not isinstance(opened, _OpenFile) or identity is None or not _ID.fullmatch(str(identity.get("id"))):
            return ""
        for place in _mark_places(opened.path, identity):
            try:
                mark = _open(place, os.O_RDONLY | os.O_NOFOLLOW)
            except (OSError, LedgerError):
                continue
            try:
                current = _is_current(mark, opened.chain)
            finally:
                os.close(mark)
            return (
                ""
                if current
                else f"{opened.path.name} is older than its mark {place.name}: it lacks lines written since"
            )
    return ""


def list_grants(path: str | Place) -> list[str]:
    """The statements by which the owner of a database lets an account charge its ledger; none for a file."""
    from jaxdpbo.ledger import sql_store  # here: auditors load this file alone, and a file needs no database

    return [] if isinstance(find_place(path), Path) else [*sql_store.GRANTS]


def to_dict(account: Account) -> dict[str, Any]:
    """Convert an account to JSON types: each number as an exact fraction and as a rounded decimal."""
    budget = account.budget
    sums = {"budget": _budget_amounts(budget), "spent": account.spent, "left": account.left}
    rounds = {"budget": _down, "spent": _up, "left": _down}
    return {
        "notion": budget.notion, "relation": budget.relation, "protects": budget.protects,
        "unit": None if budget.unit is None else _exact_and_decimal(budget.unit),
        "begun": account.when, "by": account.by,
        "amounts": [COSTS[budget.notion], *Amounts._fields[1:]],
        "sums": {name: [[str(exact), rounds[name](exact)] for exact in sums[name]] for name in sums},
        "assumptions": list(account.assumptions),
        "spends": [{"line": entry.number} | spend_cells(entry) for entry in account.spends],
        "events": [{"when": when, "event": event} for when, event in account.events],
        "head": account.head,
    }  # fmt: skip


def spend_cells(entry: Entry) -> dict[str, str]:
    """A spend in text, by ``SPEND_HEADS``."""
    return dict(zip(SPEND_HEADS, _spend_row(entry), strict=True))


def sum_cells(account: Account) -> dict[str, tuple[str, str]]:
    """The cost and the delta of the budget, spent and left, in text."""
    _, *rows = _sum_rows(account)
    return {name: (cost, delta) for name, cost, delta, _ in rows}


class _Kept(NamedTuple):
    """The steps and the release of a charge."""

    steps: tuple[dict[str, Any], ...]
    release: dict[str, Any] | None


def _find_kept(opened: Store, run: str) -> _Kept:
    _, kept = _account(opened)
    if run not in kept:
        raise _uncharged(opened, run)
    return kept[run]


def _make_charge(opened: Store, entry: Entry, kept: _Kept) -> Charge:
    """The charge behind an entry, recorded earlier."""
    digest = opened.chain.hashes[entry.number - 1]
    steps, release = deepcopy((kept.steps, kept.release))  # the caller may write into them, and lines are kept
    return Charge(entry.run, entry.number, digest, True, steps, release, entry.who, entry.when)


def _expect_charge(opened: Store, run: str, digest: str) -> None:
    """Raise a LedgerError if the line of the charge of a run is not the one with this hash."""
    lines = zip(opened.chain.lines, opened.chain.hashes, strict=True)
    if digest not in [hash for line, hash in lines if line.get("kind") == "spend" and line["run"] == run]:
        raise LedgerError(
            f"{opened.path} did not make the charge that run {run!r} goes on under: put the ledger back that did"
        )


def _find_change(before: str, after: str) -> str:
    """What differs between two fingerprints: the parts of "name:hash name:hash", else "fingerprint"; "" for none."""
    if before == after:
        return ""
    ours, theirs = (
        {part.partition(":")[0]: part.partition(":")[2] for part in text.split()} for text in (before, after)
    )
    named = ours.keys() == theirs.keys() and all((*ours.values(), *theirs.values()))
    return " and another ".join(name for name in ours if ours[name] != theirs[name]) if named else "fingerprint"


def _expect_id(opened: Store, run: str, id: str | None) -> None:
    """Raise a LedgerError if the ledger must have an id, and has another."""
    if id is not None and _find_id(opened) != id:
        raise LedgerError(f"{opened.path} is not the ledger with the id that run {run!r} goes on with: put it back")


def _find_id(opened: Store) -> str:
    identity = _last_identity(opened.chain)
    if identity is None or "id" not in identity:
        raise LedgerError(f"{opened.path} has no id: call ledger.adopt(path), which gives it one")
    return identity["id"]


def _uncharged(opened: Store, run: str) -> LedgerError:
    return LedgerError(f"{opened.path}: run {run!r} was not charged: nothing may be released for it")


def _check_paid(spend: Spend, paid: Any) -> Fraction:
    """Check the epsilon of an ex-post release."""
    exact = _fraction("paid", paid)
    if not spend.ex_post or not 0 <= exact <= spend.events[0].level:
        raise ValueError(f"paid must be given for an ex-post spend alone, from 0 to the charged epsilon, got {paid!r}")
    return exact


def _account(opened: Store) -> tuple[Account, dict[str, _Kept]]:
    """Add up the lines of a ledger; return the account, and the steps and release of each charge."""
    name = opened.path
    header, *lines = opened.chain.lines
    _expect_the_version(name, header)
    number = 1
    try:
        budget, when, by = _budget(header), header["when"], header["by"]
        record, before = _Record(name, budget, {}, {}, {}, []), _time(when)
        for number, line in enumerate(lines, start=2):
            if "when" in line:  # a release that pays by its result has no time
                if (now := _time(line["when"])) < before - SET_BACK:
                    record.events.append((line["when"], f"the clock was set back before line {number}"))
                before = now
            _add_line(record, number, line)
    except (KeyError, TypeError, ValueError, LedgerError) as error:
        raise DamagedLedgerError(f"{name}: line {number} is not a valid ledger entry") from error
    steps, releases = record.steps, record.releases
    spends = tuple(
        entry._replace(steps=len(steps[run]), released=run in releases) for run, entry in record.entries.items()
    )
    spent = add_up(spends)
    left = Amounts(*(has - used for has, used in zip(_budget_amounts(budget), spent, strict=True)))
    assumptions = tuple(dict.fromkeys(name for entry in spends for name in entry.spend.assumptions))
    current = Account(budget, by, when, tuple(record.events), spends, assumptions, spent, left, opened.chain.head)
    return current, {run: _Kept(tuple(steps[run]), releases.get(run)) for run in record.entries}


class _Record(NamedTuple):
    """The content of a ledger's lines, by run."""

    path: Place
    budget: Budget
    entries: dict[str, Entry]
    steps: dict[str, list[dict[str, Any]]]
    releases: dict[str, dict[str, Any]]
    events: list[tuple[str, str]]


def _add_line(record: _Record, number: int, line: dict[str, Any]) -> None:
    """Add a line to the record; raise ValueError, KeyError or LedgerError if the line is not valid at its place."""
    _, budget, entries, steps, releases, events = record
    kind = line["kind"]
    run = "" if kind == "adopted" else line["run"]
    if kind == "adopted":
        events.append((line["when"], f"a copy was adopted by {line['by']}"))
    elif kind == "refused":
        _expect_same_kind(record.path, budget, _spend(line))
        events.append((line["when"], f"the budget refused {line['who']} run {run!r}, {line['what']}"))
    elif kind == "spend" and run not in entries:
        spend, words = _spend(line), (line["fingerprint"], line["who"], line["when"])
        _expect_same_kind(record.path, budget, spend)
        entries[run], steps[run] = Entry(number, run, line["what"], spend, *words, 0, released=False), []
    elif kind == "step" and run not in releases and line["number"] == len(steps[run]) + 1:
        steps[run].append(line["content"])
    elif kind == "release" and run in entries and run not in releases:
        releases[run] = line["payload"]
        if "paid" in line:
            entries[run] = entries[run]._replace(paid=_check_paid(entries[run].spend, _number(line["paid"])))
    else:
        raise ValueError(repr(kind))


def add_up(spends: Iterable[Entry]) -> Amounts:
    """The amounts that these spends take together."""
    costs = [_entry_amounts(entry) for entry in spends]
    return Amounts(*(sum((getattr(cost, name) for cost in costs), Fraction()) for name in Amounts._fields))


def _budget(header: dict[str, Any]) -> Budget:
    """Convert a header, which holds a spend of one event, to a budget."""
    spend = _spend(header)
    (event,) = spend.events
    if event.type not in LEVELS:
        raise ValueError(event.type)
    delta = _number(header["summary_delta"]) if "summary_delta" in header else None
    if delta is not None and not 0 <= delta < 1:
        raise ValueError("summary_delta must lie in [0, 1)")
    return Budget(*event, spend.relation, spend.protects, spend.unit, delta)


def _sum_rows(account: Account) -> list[list[str]]:
    """The header, and the amounts of the budget, spent and left."""
    header = ["", COSTS[account.budget.notion], "delta", "total_variation"]
    amounts = ["budget", *map(_down, _budget_amounts(account.budget))]
    return [header, amounts, ["spent", *map(_up, account.spent)], ["left", *map(_down, account.left)]]


def _spend_row(entry: Entry) -> list[str]:
    """A spend in text, under ``SPEND_HEADS``."""
    amounts = _entry_amounts(entry)
    levels = " + ".join(f"{LEVELS[event.type]} {_up(event.level)}" for event in entry.spend.events)
    if entry.spend.ex_post:
        levels += " reserved" if entry.paid is None else f" reserved, {_up(entry.paid)} paid"
    numbers = levels, _up(amounts.delta), _up(amounts.total_variation), str(entry.steps)
    return [entry.run, entry.what, *numbers, "yes" if entry.released else "no", entry.who, entry.when]


def _budget_amounts(budget: Budget) -> Amounts:
    return _amounts(Spend((Event(*budget[:4]),), budget.relation, budget.protects))


def _expect_the_version(name: Place, header: dict[str, Any]) -> None:
    if header.get("schema") != SCHEMA:
        raise LedgerError(f"{name} is not a {SCHEMA}")
    if header.get("version") != VERSION:
        raise LedgerError(f"{name} has version {header.get('version')}, this is version {VERSION}")


def _ask(opened: Store, current: Account, run: str, what: str, spend: Spend, fingerprint: str) -> Entry | None:
    """``_expect_chargeable``, and record a refusal by the budget: who audits a ledger asks for it."""
    try:
        return _expect_chargeable(opened.path, current, run, spend, fingerprint)
    except BudgetExceeded:
        refused = {"kind": "refused", "run": run, "what": what} | _to_json(spend)
        last = opened.chain.lines[-1]
        if {name: last.get(name) for name in refused} != refused:  # a retry in a loop writes one line
            with suppress(OSError, LedgerError):  # a full disk or a lost connection changes no refusal
                _append(opened, refused | {"who": _who(), "when": _now()})
        raise


def _expect_chargeable(path: Place, current: Account, run: str, spend: Spend, fingerprint: str) -> Entry | None:
    """The entry of a run that was charged before; None if what is left suffices; raise if a charge is refused."""
    _expect_same_kind(path, current.budget, spend)
    for entry in current.spends:
        if entry.run != run:
            continue
        changed = "spend" if entry.spend != spend else _find_change(entry.fingerprint, fingerprint)
        if changed:
            raise LedgerError(
                f"{path}: run {run!r} was charged with another {changed}, for {entry.what}: give this release another "
                "run name"
            )
        return entry
    amounts = zip(
        (COSTS[current.budget.notion], "delta", "total_variation"), _amounts(spend), current.left, strict=True
    )
    short = [f"{name} {_up(cost)} of {_down(left)} left" for name, cost, left in amounts if cost > left]
    if short:
        remedy = ": a ledger holds a delta to spend if you create it with notion=, level= and delta="
        without = remedy * (not current.budget.delta and _amounts(spend).delta > 0)
        raise BudgetExceeded(f"{path}: run {run!r} would spend {', '.join(short)}{without}")
    return None


def _expect_same_kind(path: Place, budget: Budget, spend: Spend) -> None:
    for event in spend.events:
        if event.type != budget.notion:
            other = f": charge it to a ledger of notion {event.type!r}" if event.type in LEVELS else ""
            pair = " (epsilon= and delta= make a budget of notion 'gdp')" if budget.notion == "gdp" else ""
            raise LedgerError(
                f"{path}: the ledger's notion is {budget.notion!r}{pair}, the spend's is {event.type!r}{other}"
            )
    for name in ("relation", "unit", "protects"):
        ours, theirs = getattr(budget, name), getattr(spend, name)
        if ours != theirs:
            ours, theirs = (_up(term) if isinstance(term, Fraction) else repr(term) for term in (ours, theirs))
            same = f"if the same users are meant, give Recording(..., protects={ours})"
            remedy = f": charge it to a ledger created with protects={theirs}, or {same}" * (name == "protects")
            raise LedgerError(f"{path}: the ledger's {name} is {ours}, the spend's is {theirs}{remedy}")


# The chain of lines


def read(path: str | Place) -> Chain:
    """Read and verify a chain.

    Raises:
      DamagedLedgerError: the file differs from the written chain.
    """
    with _open_ledger(path, writing=False) as opened:
        return opened.chain


def _begin(path: str | Place, content: dict[str, Any]) -> None:
    """Create a chain of one line with its identity, completely or not at all, without replacing another chain."""
    path = find_place(path)
    if isinstance(path, Path):
        _begin_file(path, content)
        return
    with _open_rows(path, writing=True) as rows:
        rows.create(_row(_line(_BEFORE_THE_FIRST, content | _identity_of_rows(rows))[0]))


def _open_ledger(
    path: str | Place, *, writing: bool, timeout: float | None = None, copies: bool = False
) -> AbstractContextManager[Store]:
    """Open, lock and verify a ledger: readers see whole lines alone, and one process writes at a time."""
    path = find_place(path)
    if isinstance(path, Path):
        return _open_file(path, writing=writing, timeout=timeout, copies=copies)
    return _open_table(path, writing=writing, timeout=timeout, copies=copies)


def _append(opened: Store, content: dict[str, Any], *, named: bool = False) -> Store:
    """Append a line, on disk when this returns."""
    return opened.append(content, named=named)


# A file


def _begin_file(path: Path, content: dict[str, Any]) -> None:
    """The mark is on disk before the chain has its name: a process killed in between leaves no chain."""
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:  # replace the unfinished file's name
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        _expect_guarded_folder(path)
        identity = _identity(path, descriptor)
        line, digest = _line(_BEFORE_THE_FIRST, content | identity)
        _write(descriptor, line, 0)
        os.fsync(descriptor)
        place = _mark_place(identity)
        os.close(_create_mark(place, digest))
        try:
            os.link(unfinished, path)  # a rename could replace an existing file
        except BaseException as error:
            place.unlink()
            if not isinstance(error, FileExistsError):
                raise
            message = "the file exists, and a second budget for the same records would be a second spend"
            raise FileExistsError(errno.EEXIST, message, str(path)) from None
    finally:
        os.close(descriptor)
        unfinished.unlink()
    _sync_folder(path)


class _OpenFile(NamedTuple):
    path: Path
    descriptor: int
    chain: Chain
    end: int  # of the last whole line
    torn: bool  # a torn line follows
    mark: int | None  # a descriptor; None for readers, and for a chain without a mark

    def append(self, content: dict[str, Any], *, named: bool = False) -> "_OpenFile":
        """Append a line, and flush it to disk."""
        line, digest = _line(self.chain.head, content)
        if self.torn:
            os.ftruncate(self.descriptor, self.end)
        _write(self.descriptor, line, self.end)
        if named:
            os.fsync(self.descriptor)
        else:
            self.settle()
        if self.mark is not None:
            with suppress(OSError):  # the line is written; an outdated mark names an earlier line of the file
                os.pwrite(self.mark, digest.encode(), 0)
        lines, _, hashes = self.chain
        chain = Chain((*lines, content), digest, (*hashes, digest))
        return self._replace(chain=chain, end=self.end + len(line), torn=False)

    def settle(self) -> None:
        """Flush the file and its name to disk: its writer may have been killed before the flush."""
        os.fsync(self.descriptor)
        _sync_folder(self.path)

    def adopt(self, signed: dict[str, Any]) -> None:
        """Append the line of an adoption, with a new mark, and delete the former mark if it is here."""
        identity = _identity(self.path, self.descriptor)
        place = _mark_place(identity)
        mark = _create_mark(place, self.chain.head)
        try:
            _append(self._replace(mark=mark), {"kind": "adopted"} | identity | signed)
        except BaseException:
            place.unlink()
            raise
        finally:
            os.close(mark)
        former = _last_identity(self.chain)
        if former is not None and "id" in former:
            _mark_place(former | {"folder": identity["folder"]}).unlink(missing_ok=True)

    def locate(self) -> tuple[int, int]:
        """The device and the inode."""
        status = os.fstat(self.descriptor)
        return status.st_dev, status.st_ino


@contextmanager
def _open_file(path: Path, *, writing: bool, timeout: float | None, copies: bool) -> Iterator[_OpenFile]:
    """Open, lock and verify the file. Readers lock too: a writer could replace a torn line during the read."""
    locks, mark = _locks(), None
    descriptor = _open_locked(path, locks, writing, timeout)
    try:
        try:
            with open(descriptor, "rb", closefd=False) as stream:
                content = stream.read()
            chain, end = _verify(path, content)
            if writing and not copies:
                mark = _open_mark(path, descriptor, chain)
            yield _OpenFile(path, descriptor, chain, end, end < len(content), mark)
        finally:
            locks.flock(descriptor, locks.LOCK_UN)  # a child forked by another thread would keep a closed lock
    finally:
        os.close(descriptor)
        if mark is not None:
            os.close(mark)


def _locks() -> Any:
    try:
        import fcntl  # POSIX only
    except ImportError as error:
        raise LedgerError("a ledger needs POSIX file locks (fcntl), which this system lacks") from error
    return fcntl


def _open_locked(path: Path, locks: Any, writing: bool, timeout: float | None) -> int:
    """Open and lock the file; reopen it if another process replaced it during the wait. Return its descriptor."""
    mode = (locks.LOCK_EX if writing else locks.LOCK_SH) | (0 if timeout is None else locks.LOCK_NB)
    until = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        try:
            descriptor = _open_own(_own_target(path), os.O_RDWR | os.O_APPEND) if writing else _open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "there is no ledger (ledger.create begins one)", str(path)) from error
        try:
            locks.flock(descriptor, mode)
            if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                return descriptor
        except BlockingIOError as error:
            if time.monotonic() >= until:
                os.close(descriptor)
                raise LedgerError(f"another process has kept {path} locked for {timeout} s") from error
            time.sleep(0.005)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    """Open a regular file and return its descriptor. Refuse others, such as a pipe, which could block."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LedgerError(f"{path} must be a file")
    return descriptor


def _open_own(path: Path, flags: int) -> int:
    """Open a file of this user, no link, in a folder where no other user can replace it; return its descriptor."""
    _expect_guarded_folder(path)
    descriptor = _open(path, flags | os.O_NOFOLLOW)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise LedgerError(
            f"{path} must be yours, and belongs to another user, who may have written it: ledger.adopt your own copy, "
            "or chown it if you wrote it"
        )
    return descriptor


def _own_target(path: Path) -> Path:
    """Resolve symbolic links; refuse links of other users."""
    for _ in range(_MAX_LINKS):
        status = os.lstat(path)
        if not stat.S_ISLNK(status.st_mode):
            return path
        if status.st_uid != os.geteuid():
            raise LedgerError(f"{path} must be yours, and is a symbolic link of another user: give the file itself")
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _expect_guarded_folder(path: Path) -> None:
    """Refuse a folder where other users can replace files; the sticky bit, as on /tmp, prevents replacement."""
    mode = os.stat(path.absolute().parent).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise LedgerError(f"{path} must lie where no other user can replace it: chmod o-w its folder")


def _identity(path: Path, descriptor: int) -> dict[str, Any]:
    """The identity of a file, different for every copy: its inode, a random id, and the folder of its mark."""
    folder = str(path.resolve().parent)
    return {"inode": os.fstat(descriptor).st_ino, "id": os.urandom(16).hex(), "folder": folder}


def _last_identity(chain: Chain) -> dict[str, Any] | None:
    """The identity of the valid ledger, from the chain; None if the chain records none."""
    return next((line for line in reversed(chain.lines) if "inode" in line or "database" in line), None)


def _mark_place(identity: dict[str, Any]) -> Path:
    return Path(identity["folder"]) / (_MARK % identity["id"])


def _mark_places(path: Path, identity: dict[str, Any]) -> tuple[Path, Path]:
    """Beside the file, and in the recorded folder: a hard link is elsewhere, and a folder may have moved."""
    return _mark_place(identity | {"folder": path.resolve().parent}), _mark_place(identity)


def _is_current(mark: int, chain: Chain) -> bool:
    return os.pread(mark, len(_BEFORE_THE_FIRST), 0).decode("ascii", "replace") in chain.hashes


def _create_mark(place: Path, head: str) -> int:
    """Create a mark, flush it to disk, and return its descriptor."""
    descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write(descriptor, head.encode(), 0)
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        place.unlink()
        raise
    _sync_folder(place)
    return descriptor


def _open_mark(path: Path, descriptor: int, chain: Chain) -> int | None:
    """Open the mark of the valid file and return its descriptor; None for a chain from before marks existed.

    Raises:
      LedgerError: the file is a copy, its mark is missing, or it lacks lines written since.
    """
    identity = _last_identity(chain)
    after = "call ledger.adopt(path) and use this file alone"
    if identity is not None and identity.get("inode") != os.fstat(descriptor).st_ino:
        raise LedgerError(f"{path} is a copy: use the original, or {after}")
    if identity is None or "id" not in identity:
        return None
    (beside, recorded), mark = _mark_places(path, identity), None
    for place in (beside, recorded):
        try:
            mark = _open_own(place, os.O_RDWR)
            break
        except (FileNotFoundError, NotADirectoryError):
            continue
    if mark is None:
        raise LedgerError(
            f"{path} lacks its mark {beside.name}, as after a delete and restore: put the mark back, or {after}"
        )
    if not _is_current(mark, chain):
        os.close(mark)
        raise LedgerError(
            f"{path} is an older copy, as its mark {beside.name} says: put the newest back, or {after}, and later "
            "spends are forgotten"
        )
    return mark


class _Prefix(NamedTuple):
    """Verified bytes of a file, by their hash, and their chain: only the rest of the file is parsed again."""

    end: int
    digest: bytes
    chain: Chain


_prefixes: dict[Place, _Prefix] = {}


def _verify(path: Place, content: bytes) -> tuple[Chain, int]:
    """The chain in a file, and the offset after its last whole line."""
    prefix = _prefixes.get(path)
    if prefix is None or hashlib.sha256(content[: prefix.end]).digest() != prefix.digest:
        prefix = _Prefix(0, b"", Chain((), _BEFORE_THE_FIRST, ()))
    *whole, tail = content[prefix.end :].split(b"\n")
    lines, hashes, previous = [*prefix.chain.lines], [*prefix.chain.hashes], prefix.chain.head
    for number, line in enumerate(whole, start=len(lines) + 1):
        body, digest = line[:-_HASH_LENGTH], hashlib.sha256(line[:-_HASH_LENGTH]).hexdigest()
        match = _LINE.fullmatch(line)
        if not match or match[2] != (_HASH % digest).encode():
            raise DamagedLedgerError(f"{path}: line {number} is damaged")
        if not body.startswith((_START % previous).encode()):
            raise DamagedLedgerError(f"{path}: line {number} does not follow the line before it")
        try:
            lines.append(_check_fields(parse_json(match[1], depth=MAX_DEPTH + 1)))
        except ValueError as error:
            raise DamagedLedgerError(f"{path}: line {number} is not a valid ledger entry") from error
        hashes.append(digest)
        previous = digest
    if not lines or not _may_be_torn(tail, (_START % previous).encode()):
        raise DamagedLedgerError(f"{path}: line {len(lines) + 1} is damaged")
    chain, end = Chain(tuple(lines), previous, tuple(hashes)), len(content) - len(tail)
    _prefixes[path] = _Prefix(end, hashlib.sha256(content[:end]).digest(), chain)
    return chain, end


def _check_fields(content: dict[str, Any]) -> dict[str, Any]:
    """Check the types of a line's fields, so that a line with a right hash and other content raises nothing else."""
    for name, value in content.items():
        if type(value) not in _as_tuple(_FIELDS.get(name, type(value))):
            raise ValueError(f"{name} has another type")
        if name in ("run", "what", "by", "who", "when"):
            _text(name, value)
    of_file = "inode" in content and b"\0" not in os.fsencode(content.get("folder", "\0"))  # a ValueError: no folder
    if "id" in content and not ((of_file or "database" in content) and _ID.fullmatch(content["id"])):
        raise ValueError("id must be that of a file or of a database")
    return content


def _may_be_torn(tail: bytes, start: bytes) -> bool:
    """True if ``tail`` begins like the next line and is shorter than its declared length.

    A whole line with a changed newline is therefore damage, not a torn line.
    """
    if len(tail) <= len(start):
        return start.startswith(tail)
    match = re.fullmatch(rb"([0-9]{1,12})(,.*)?", tail.removeprefix(start))
    return match is not None and len(match[2] or b"") <= len(_CONTENT) + int(match[1]) + _HASH_LENGTH


def _line(previous: str, content: dict[str, Any]) -> tuple[bytes, str]:
    """A line and its hash, over all bytes before the hash."""
    inner = _json("content", content)
    body = f"{_START % previous}{len(inner)}{_CONTENT}{inner}"
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"{body}{_HASH % digest}\n".encode(), digest


def _write(descriptor: int, line: bytes, end: int) -> None:
    """Write the whole line or nothing: remove a part written to a full disk."""
    try:
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, "the line was not written in full")
    except BaseException:
        os.ftruncate(descriptor, end)
        raise


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path.resolve().parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# A table in a database


class _OpenTable(NamedTuple):
    path: Address
    rows: Any  # ``sql_store.Rows``
    chain: Chain

    def append(self, content: dict[str, Any], *, named: bool = False) -> "_OpenTable":
        """Append a line, durable when this returns."""
        del named
        line, digest = _line(self.chain.head, content)
        lines, _, hashes = self.chain
        rows = self.rows.insert(len(lines) + 1, _row(line))
        return self._replace(rows=rows, chain=Chain((*lines, content), digest, (*hashes, digest)))

    def settle(self) -> None:
        """Do nothing: a row that others see is durable."""

    def adopt(self, signed: dict[str, Any]) -> None:
        """Append the line of an adoption, with the identity of this database."""
        _append(self, {"kind": "adopted"} | _identity_of_rows(self.rows) | signed)

    def locate(self) -> tuple[int, int]:
        """The server and the database."""
        return self.rows.locate()


@contextmanager
def _open_table(path: Address, *, writing: bool, timeout: float | None, copies: bool) -> Iterator[_OpenTable]:
    """Connect, lock the rows for a writer, and verify them."""
    with _open_rows(path, writing=writing, timeout=timeout) as rows:
        read = rows.read()
        chain, _ = _verify(path, "".join(f"{line}\n" for _, line in read).encode())
        if [number for number, _ in read] != [*range(1, len(chain.lines) + 1)]:
            raise DamagedLedgerError(f"{path}: its rows are not numbered as its lines")
        opened, identity = _OpenTable(path, rows, chain), _last_identity(chain) or {}
        if writing and not copies and identity.get("database") != [*opened.locate()]:
            raise LedgerError(
                f"{path} is a copy: use the original, or call ledger.adopt(path) and use this database alone"
            )
        yield opened


def _open_rows(path: Address, *, writing: bool, timeout: float | None = None) -> AbstractContextManager[Any]:
    from jaxdpbo.ledger import sql_store  # here: auditors load this file alone, and a file needs no database

    return sql_store.open_rows(sql_store.Server(*path, LedgerError), writing=writing, timeout=timeout)


def _row(line: bytes) -> str:
    return line.decode().removesuffix("\n")


def _identity_of_rows(rows: Any) -> dict[str, Any]:
    """The identity of a ledger in a database: another one for a table that was copied elsewhere."""
    return {"id": os.urandom(16).hex(), "database": [*rows.locate()]}


# JSON that others may have written


def parse_json(content: bytes | str, *, most: int | None = None, depth: int = MAX_DEPTH) -> Any:
    """Read JSON that others may have written: the one reader of the package. The module's docstring says why here.

    Args:
      content: the JSON, as text or in UTF-8.
      most: the most bytes or characters; by default without limit.
      depth: the most lists and dictionaries in one another.

    Raises:
      ValueError: the content is too long, is no JSON, holds a key twice, a number that is not finite or has more than
        ``MAX_DIGITS`` digits, or is nested deeper than ``depth``. Quotes nothing of the content.
      TypeError: the content is neither text nor bytes.
    """
    if not isinstance(content, (str, bytes)):
        raise TypeError(f"content must be text or bytes, got a {type(content).__name__}")
    if most is not None and len(content) > most:
        raise ValueError(f"content must have {most} bytes or fewer")
    try:
        text = content if isinstance(content, str) else content.decode()
        value = json.loads(
            text, object_pairs_hook=_distinct, parse_int=_integer, parse_float=_finite, parse_constant=_finite
        )
    except (ValueError, RecursionError):  # with what was read in its attributes
        value = _NOT_JSON
    if value is _NOT_JSON or not _is_flat(value, depth):
        raise ValueError("content must be JSON of finite numbers and distinct keys, not deeply nested")
    return value


def parse_fields(content: bytes | str, fields: dict[str, Any], *, most: int | None = None) -> dict[str, Any]:
    """Read a JSON object of exactly these fields, each of its type, or of one of its types.

    Raises:
      ValueError: see ``parse_json``; or the content is another object, or none.
    """
    value = parse_json(content, most=most)
    if not has_fields(value, fields):
        raise ValueError(f"content must be an object of {', '.join(fields)}, each of its own type")
    return value


def has_fields(value: object, fields: dict[str, Any]) -> bool:
    """True for a dictionary of exactly these fields, each of its type: True is no integer."""
    return (
        isinstance(value, dict)
        and value.keys() == fields.keys()
        and all(type(value[name]) in _as_tuple(kind) for name, kind in fields.items())
    )


_NOT_JSON = object()


def _as_tuple(kind: Any) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):  # readers differ in the value that they take
        raise ValueError("a key is there twice")
    return made


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:  # Python takes a time that grows with the square, and its own limit may be off
        raise ValueError("an integer is too long")
    return int(text)


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("a number is not finite")
    return number


def _is_flat(value: Any, depth: int) -> bool:
    """True if lists and dictionaries are nested at most so deep: ``repr`` and others recurse."""
    level = [value]
    for _ in range(depth + 1):
        nested = [inner for inner in level if isinstance(inner, (list, dict))]
        if not nested:
            return True
        level = [part for inner in nested for part in (inner.values() if isinstance(inner, dict) else inner)]
    return False


# Numbers and words


def _exact(spend: Spend) -> Spend:
    """Check a spend and convert its numbers to fractions."""
    if not isinstance(spend, Spend) or not isinstance(spend.events, (tuple, list)) or not spend.events:
        raise TypeError("spend must be a Spend of at least one Event")
    unit = None if spend.unit is None else Fraction(float(_fraction("unit", spend.unit)))  # as in a ``Guarantee``
    relation, protects = _text("relation", spend.relation), _text("protects", spend.protects)
    if (relation == "unit_distance") != (unit is not None) or (unit is not None and unit <= 0):
        raise ValueError(f"unit must be positive for 'unit_distance' and None elsewhere, got {spend.unit!r}")
    if not isinstance(spend.assumptions, (tuple, list)):
        raise TypeError(f"assumptions must be a tuple of names, got a {type(spend.assumptions).__name__}")
    assumptions = tuple(_text("assumptions", name) for name in spend.assumptions)
    events = tuple(map(_exact_event, spend.events))
    if not isinstance(spend.ex_post, bool) or (spend.ex_post and [event.type for event in events] != ["dp"]):
        raise ValueError(f"ex_post must be False, or True for one event of type 'dp', got {spend.ex_post!r}")
    return Spend(events, relation, protects, unit, assumptions, spend.ex_post)


def _exact_event(event: Event) -> Event:
    if not isinstance(event, Event):
        raise TypeError(f"events must be of Event, got a {type(event).__name__}")
    level, delta, total_variation = (
        _fraction(name, getattr(event, name)) for name in ("level", "delta", "total_variation")
    )
    if not 0 <= delta < 1 or not 0 <= total_variation < 1:
        raise ValueError(f"delta and variation must lie in [0, 1), got {event.delta!r} and {event.total_variation!r}")
    if level <= 0:
        raise ValueError(f"level must be positive, got {event.level!r}")
    return Event(_text("type", event.type), level, delta, total_variation)


def _fraction(name: str, value: Any) -> Fraction:
    value = _plain(value) if getattr(value, "shape", ()) == () else value  # an array's list could exhaust memory
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
        raise TypeError(f"{name} must be a number, or a string that is one, got {value!r}")
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f"{name} must be a finite number, got {value!r}") from None
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > BITS:
        raise ValueError(f"{name} must be a fraction of numbers below 2^{BITS}")
    return exact


def _plain(value: Any) -> Any:
    """Convert numbers of NumPy and JAX to Python's, and arrays to lists; return other values unchanged."""
    convert = getattr(value, "tolist", None)
    return convert() if callable(convert) else value


def _amounts(spend: Spend) -> Amounts:
    """The amounts of a spend with events of one notion."""
    costs = (event.level**2 if event.type == "gdp" else event.level for event in spend.events)
    slack = (sum((getattr(event, name) for event in spend.events), Fraction()) for name in ("delta", "total_variation"))
    return Amounts(sum(costs, Fraction()), *slack)


def _entry_amounts(entry: Entry) -> Amounts:
    """The amounts that an entry takes from the budget."""
    amounts = _amounts(entry.spend)
    return amounts if entry.paid is None else amounts._replace(cost=entry.paid)


def _to_json(spend: Spend) -> dict[str, Any]:
    """Convert to JSON types: each number as an exact fraction and, for readers, as a decimal rounded up."""
    unit = None if spend.unit is None else _exact_and_decimal(spend.unit)
    words = {"relation": spend.relation, "unit": unit, "protects": spend.protects}
    rests = {"assumptions": [*spend.assumptions], "ex_post": spend.ex_post}
    return {"events": [_event_to_json(event) for event in spend.events]} | words | rests


def _event_to_json(event: Event) -> dict[str, Any]:
    return {"type": event.type} | {
        name: _exact_and_decimal(getattr(event, name)) for name in ("level", "delta", "total_variation")
    }


def _exact_and_decimal(value: Fraction) -> list[str]:
    return [f"{value.numerator}/{value.denominator}", _up(value)]


def _spend(line: dict[str, Any]) -> Spend:
    """Read and check a spend from ``_to_json``."""
    unit = None if line["unit"] is None else _number(line["unit"])
    events = tuple(map(_event, line["events"]))
    assumptions = tuple(line["assumptions"])
    return _exact(Spend(events, line["relation"], line["protects"], unit, assumptions, line["ex_post"]))


def _event(written: dict[str, Any]) -> Event:
    numbers = (_number(written[name]) for name in ("level", "delta", "total_variation"))
    return Event(written["type"], *numbers)


def _number(written: list[str]) -> Fraction:
    exact, _ = written
    return _parse_fraction(exact)


@lru_cache
def _parse_fraction(text: str) -> Fraction:  # cached: a ledger repeats a few numbers thousands of times
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError("number must be a fraction of two integers, as text")
    return _fraction("number", text)


def _up(value: Fraction, rounding: str = decimal.ROUND_CEILING) -> str:
    divide = decimal.Context(prec=6, rounding=rounding).divide
    return str(divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator)))


def _down(value: Fraction) -> str:
    return _up(value, decimal.ROUND_FLOOR)


def _text(name: str, value: Any) -> str:
    """Check text for a table."""
    if not (isinstance(value, str) and value.isprintable() and 0 < len(value) <= 200):
        raise ValueError(f"{name} must be 1 to 200 printable characters, got {value!r}")
    return value


def _json(name: str, value: Any) -> str:
    """Encode as one line of strict JSON."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dictionary, got a {type(value).__name__}")
    try:
        return json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        raise ValueError(f"{name} must be JSON with finite numbers") from None


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _time(text: str) -> datetime:
    """The time of a line.

    Raises:
      ValueError: the text is no time, or has no zone.
    """
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError("when must have a time zone")
    return time


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())  # a container may have no name for the user
    return _text("who", f"{user}@{socket.gethostname()}")

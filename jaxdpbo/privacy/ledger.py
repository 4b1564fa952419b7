"""The ledger: every privacy spend, on the disk before the release that it pays for.

A file of JSON lines on a local disk: first the budget, then spends and what was released for them. Lines are only
added, by one process at a time. Each holds its own SHA-256 and that of the line before.

Detected: any byte changed, any line removed, put in, repeated or moved. Not detected: whole lines cut off the end, or a
file written anew, hashes and all; nothing inside a file can show these. Keep ``head(path)`` where whoever can write the
file can not, and give it to ``account`` as ``expected_head``.

A process killed while it writes leaves a torn line, the beginning of one. It was never acknowledged: readers pass over
it, the next writer takes it off. A line of full length that ends in anything but a newline is damage.

A spend stands once it is written, released or not. After a crash ask again by the same run name: it is charged once,
and what was stored for it is given out again. (New noise on the same statistic would be a second release.)

The standard library alone, and nothing of this package: whoever audits a ledger loads this one file and needs no JAX.
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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

SCHEMA, VERSION = "jaxdpbo.ledger", 1
LEVELS = {"gdp": "mu", "zcdp": "rho", "dp": "epsilon", "metric_dp": "epsilon"}  # of each notion
COSTS = LEVELS | {"gdp": "mu^2"}  # what adds up over releases
BITS = 4096  # at most, of a numerator or denominator: any float has fewer, and Python writes such numbers in full

Number: TypeAlias = Any  # an int, a Fraction, a float at its binary value, or a string such as "0.1" or "1/10"

_BEFORE_THE_FIRST = "0" * 64
_START, _CONTENT, _HASH = '{"previous": "%s", "length": ', ', "content": ', ', "hash": "%s"}'
_LINE = re.compile(rb'\{"previous": "[0-9a-f]{64}", "length": [0-9]+, "content": (\{.*\})(, "hash": "[0-9a-f]{64}"})')
_HASH_LENGTH = len(_HASH % _BEFORE_THE_FIRST)


class Refused(Exception):
    """What was asked is not allowed, or the file is not what it should be. Says why; nothing was written."""


class Overspent(Refused):
    """The budget does not suffice."""


class Damaged(Refused):
    """The file is not what was written."""


class Moved(Refused):
    """Somebody else wrote since."""


class Chain(NamedTuple):
    """The contents of a chain's lines, the hash of the last (which stands for the whole file), and all hashes."""

    lines: tuple[dict[str, Any], ...]
    head: str
    hashes: tuple[str, ...]


class Spend(NamedTuple):
    """What a release costs, exactly.

    Attributes:
      notion: "gdp", "zcdp", "dp" or "metric_dp".
      level: mu, rho or epsilon.
      delta: additive slack, as in ``Guarantee``.
      variation: total variation distance of the release from the ideal mechanism.
      relation: which data sets are neighbours.
      protects: whose records, in the ledger's words.
    """

    notion: str
    level: Number
    delta: Number
    variation: Number
    relation: str
    protects: str


class Charge(NamedTuple):
    """A spend that stands: its run, line and hash; whether it stood before; what was stored for it, None if nothing."""

    run: str
    number: int
    hash: str
    charged_before: bool
    release: dict[str, Any] | None


class Amounts(NamedTuple):
    """What adds up: mu^2 of "gdp", rho or epsilon of the others; delta; variation."""

    cost: Fraction
    delta: Fraction
    variation: Fraction


class Entry(NamedTuple):
    """One spend of an account: its line, run and purpose, by whom and when, and whether a release is stored."""

    number: int
    run: str
    what: str
    spend: Spend
    fingerprint: str
    who: str
    when: str
    released: bool


class Account(NamedTuple):
    """A ledger's header, its spends, what they add up to, and what is left of the budget."""

    notion: str
    level: Fraction
    delta: Fraction
    variation: Fraction
    relation: str
    protects: str
    when: str
    by: str
    spends: tuple[Entry, ...]
    spent: Amounts
    left: Amounts
    head: str


# The ledger


def create(
    path: str | Path,
    *,
    notion: str,
    level: Number,
    delta: Number = 0,
    variation: Number = 2**-64,
    relation: str,
    protects: str,
    by: str | None = None,
) -> None:
    """Begin a ledger with a budget: numbers that add up, as in ``Spend``, and words that every spend must share.

    ``by`` is the user and the machine unless said otherwise.

    Raises:
      FileExistsError: there is such a file. A second budget for the same records is a second spend.
    """
    if not isinstance(notion, str) or notion not in LEVELS:
        raise ValueError(f"notion must be one of {', '.join(map(repr, LEVELS))}, got {notion!r}")
    budget = _written(_exact(Spend(notion, level, delta, variation, relation, protects)))
    signed = {"when": _now(), "by": _text("by", _who() if by is None else by)}
    begin(path, {"schema": SCHEMA, "version": VERSION} | budget | signed)


def charge(
    path: str | Path, run: str, what: str, spend: Spend, *, fingerprint: str = "", timeout: float | None = None
) -> Charge:
    """Pay for a release, before it is made. A run pays once, however often it asks.

    Args:
      path: of the ledger.
      run: a name for the release.
      what: it is, in words.
      spend: its cost.
      fingerprint: of all that the release depends on.
      timeout: seconds to wait for other processes; by default without end.

    Raises:
      Overspent: the budget does not suffice.
      Refused: the spend is of another kind than the budget, or the run was charged with another spend or fingerprint.
    """
    spend, run, what = _exact(spend), _text("run", run), _text("what", what)
    if not isinstance(fingerprint, str):
        raise TypeError(f"fingerprint must be text, got a {type(fingerprint).__name__}")
    with _opened(path, writing=True, timeout=timeout) as opened:
        told, releases = _account(opened.path, opened.chain)
        _expect_the_kind_of(Spend(*told[:6]), spend)
        for entry in told.spends:
            if entry.run != run:
                continue
            for name, equal in ("spend", entry.spend == spend), ("fingerprint", entry.fingerprint == fingerprint):
                if not equal:
                    raise Refused(f"run {run!r} was charged with another {name}: what differs needs a name of its own")
            _settle(opened)  # its writer may have been killed before it was on the disk
            return Charge(run, entry.number, opened.chain.hashes[entry.number - 1], True, releases.get(run))
        amounts = zip((COSTS[spend.notion], "delta", "variation"), _amounts(spend), told.left, strict=True)
        short = [f"{name} {_up(cost)} of {_down(left)} left" for name, cost, left in amounts if cost > left]
        if short:
            raise Overspent(f"run {run!r} would spend {', '.join(short)}")
        content = {"kind": "spend", "run": run, "what": what} | _written(spend)
        digest = _append(opened, content | {"fingerprint": fingerprint, "who": _who(), "when": _now()})
        return Charge(run, len(opened.chain.lines) + 1, digest, False, None)


def store_release(path: str | Path, run: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Record what a charged run is about to release, and return what it may release: the FIRST payload recorded.

    Raises:
      Refused: the run was not charged.
    """
    run, payload = _text("run", run), json.loads(_json("payload", payload))
    with _opened(path, writing=True) as opened:
        told, releases = _account(opened.path, opened.chain)
        if run not in {entry.run for entry in told.spends}:
            raise Refused(f"run {run!r} was not charged: nothing may be released for it")
        if run in releases:
            _settle(opened)
            return releases[run]
        _append(opened, {"kind": "release", "run": run, "when": _now(), "payload": payload})
        return payload


def account(path: str | Path, *, expected_head: str | None = None) -> Account:
    """Verify a ledger and add it up.

    Args:
      path: of the ledger.
      expected_head: what ``head`` once said; the ledger may have grown since.

    Raises:
      Damaged: the file is not what was written, or holds no line of the expected hash.
      Refused: it is no ledger, or one of another version.
    """
    chain = read(path)
    if expected_head is not None and expected_head not in chain.hashes:
        raise Damaged(f"{Path(path).name} does not hold the expected line: it was cut short or written anew")
    return _account(Path(path), chain)[0]


def head(path: str | Path) -> str:
    """The last line's hash, to be kept elsewhere."""
    return read(path).head


def describe(path: str | Path) -> str:
    """A table: what was spent on what, by whom and when, released or not, and what is left."""
    told = account(path)
    level, cost = LEVELS[told.notion], COSTS[told.notion]
    budget = _amounts(Spend(*told[:6]))
    sums = [["", cost, "delta", "variation"]]
    sums += [["budget", *map(_down, budget)], ["spent", *map(_up, told.spent)], ["left", *map(_down, told.left)]]
    rows = [["line", "run", "what", level, "delta", "variation", "released", "who", "when"]]
    for entry in told.spends:
        numbers, released = map(_up, entry.spend[1:4]), "yes" if entry.released else "no"
        rows.append([str(entry.number), entry.run, entry.what, *numbers, released, entry.who, entry.when])
    begun = f"{told.notion} ({told.relation}) for {told.protects}, begun {told.when} by {told.by}"
    return "\n".join([begun, "", *_table(sums), "", *_table(rows), "", f"head {told.head}"])


def _account(path: Path, chain: Chain) -> tuple[Account, dict[str, dict[str, Any]]]:
    """What the lines of a ledger add up to, and the releases by run."""
    header, *lines = chain.lines
    if header.get("schema") != SCHEMA:
        raise Refused(f"{path.name} is no {SCHEMA}")
    if header.get("version") != VERSION:
        raise Refused(f"{path.name} has version {header.get('version')}, this is version {VERSION}")
    entries: dict[str, Entry] = {}
    releases: dict[str, dict[str, Any]] = {}
    number = 1
    try:
        budget, when, by = _spend(header), header["when"], header["by"]
        if budget.notion not in LEVELS:
            raise ValueError(budget.notion)
        for number, line in enumerate(lines, start=2):
            kind, run = line["kind"], line["run"]
            if kind == "spend" and run not in entries:
                spend, said = _spend(line), (line[name] for name in ("fingerprint", "who", "when"))
                _expect_the_kind_of(budget, spend)
                entries[run] = Entry(number, run, line["what"], spend, *said, released=False)
            elif kind == "release" and run in entries and run not in releases:
                releases[run] = line["payload"]
            else:
                raise ValueError(kind)
    except (KeyError, TypeError, ValueError, Refused) as error:
        raise Damaged(f"{path.name}: line {number} is none that a ledger has there") from error
    spends = tuple(entry._replace(released=run in releases) for run, entry in entries.items())
    costs = [_amounts(entry.spend) for entry in spends]
    spent = Amounts(*(sum((getattr(cost, name) for cost in costs), Fraction()) for name in Amounts._fields))
    left = Amounts(*(has - used for has, used in zip(_amounts(budget), spent, strict=True)))
    return Account(*budget, when, by, spends, spent, left, chain.head), releases


def _expect_the_kind_of(budget: Spend, spend: Spend) -> None:
    for name in ("notion", "relation", "protects"):
        ours, theirs = getattr(budget, name), getattr(spend, name)
        if ours != theirs:
            raise Refused(f"the ledger's {name} is {ours!r}, the spend's is {theirs!r}")


# The chain that it is written on


def begin(path: str | Path, content: dict[str, Any]) -> None:
    """Create a chain of one line, whole or not at all.

    Raises:
      FileExistsError: there is such a file.
    """
    path = Path(path)
    line, _ = _line(_BEFORE_THE_FIRST, content)
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        _write(descriptor, line)
        os.fsync(descriptor)
        os.link(unfinished, path)  # unlike a rename it never replaces
    finally:
        os.close(descriptor)
        unfinished.unlink()
    _sync_folder(path)


def append(path: str | Path, content: dict[str, Any], *, after: str | None = None, timeout: float | None = None) -> str:
    """Add a line; it is on the disk when this returns the new head.

    Args:
      path: of a chain that was begun.
      content: JSON.
      after: the head that the caller saw; by default any.
      timeout: seconds to wait for other processes; by default without end.

    Raises:
      Moved: the head is another one.
      Damaged: the file is not what was written.
    """
    with _opened(path, writing=True, timeout=timeout) as opened:
        if after is not None and not (isinstance(after, str) and after == opened.chain.head):
            raise Moved(f"{opened.path.name} was written to by somebody else")
        return _append(opened, content)


def read(path: str | Path) -> Chain:
    """Verify a chain and read it.

    Raises:
      Damaged: the file is not what was written.
    """
    with _opened(path, writing=False) as opened:
        return opened.chain


class _Opened(NamedTuple):
    path: Path
    descriptor: int
    chain: Chain
    end: int  # of the last whole line
    torn: bool  # something stands after it


@contextmanager
def _opened(path: str | Path, *, writing: bool, timeout: float | None = None) -> Iterator[_Opened]:
    """The file, locked and verified. Readers lock too: a torn line could be replaced while they read it."""
    try:
        import fcntl  # POSIX alone has it
    except ImportError as error:
        raise Refused("a ledger needs POSIX file locks (fcntl), which this system lacks") from error
    path = Path(path)
    descriptor = os.open(path, (os.O_RDWR | os.O_APPEND) if writing else os.O_RDONLY)
    mode = fcntl.LOCK_EX if writing else fcntl.LOCK_SH
    until = math.inf if timeout is None else time.monotonic() + timeout
    try:
        while True:
            try:
                fcntl.flock(descriptor, mode if timeout is None else mode | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise Refused(f"another process has kept {path.name} locked for {timeout} s") from error
            time.sleep(0.005)
        try:
            with open(descriptor, "rb", closefd=False) as stream:
                content = stream.read()
            chain, end = _verified(path, content)
            yield _Opened(path, descriptor, chain, end, end < len(content))
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing leaves it to a child that another thread forked
    finally:
        os.close(descriptor)


def _verified(path: Path, content: bytes) -> tuple[Chain, int]:
    """The chain in a file, and where its last whole line ends."""
    *whole, tail = content.split(b"\n")
    lines, hashes = [], [_BEFORE_THE_FIRST]
    for number, line in enumerate(whole, start=1):
        body, digest = line[:-_HASH_LENGTH], hashlib.sha256(line[:-_HASH_LENGTH]).hexdigest()
        match = _LINE.fullmatch(line)
        if not match or match[2] != (_HASH % digest).encode():
            raise Damaged(f"{path.name}: line {number} is damaged")
        if not body.startswith((_START % hashes[-1]).encode()):
            raise Damaged(f"{path.name}: line {number} does not follow the line before it")
        try:
            lines.append(json.loads(match[1].decode()))
        except ValueError as error:
            raise Damaged(f"{path.name}: line {number} is not JSON") from error
        hashes.append(digest)
    if not lines or not _may_be_torn(tail, (_START % hashes[-1]).encode()):
        raise Damaged(f"{path.name}: line {len(lines) + 1} is damaged")
    return Chain(tuple(lines), hashes[-1], tuple(hashes[1:])), len(content) - len(tail)


def _may_be_torn(tail: bytes, start: bytes) -> bool:
    """Whether it begins as the next line would, and is shorter than the length that it says.

    So a whole line whose newline was changed is not taken for one that was cut short.
    """
    if len(tail) <= len(start):
        return start.startswith(tail)
    match = re.fullmatch(rb"([0-9]{1,12})(,.*)?", tail.removeprefix(start))
    return match is not None and len(match[2] or b"") <= len(_CONTENT) + int(match[1]) + _HASH_LENGTH


def _line(previous: str, content: dict[str, Any]) -> tuple[bytes, str]:
    """A line and its hash, of all that stands before the hash."""
    inner = _json("content", content)
    body = f"{_START % previous}{len(inner)}{_CONTENT}{inner}"
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"{body}{_HASH % digest}\n".encode(), digest


def _append(opened: _Opened, content: dict[str, Any]) -> str:
    line, digest = _line(opened.chain.head, content)
    if opened.torn:
        os.ftruncate(opened.descriptor, opened.end)
    _write(opened.descriptor, line)
    _settle(opened)
    return digest


def _write(descriptor: int, line: bytes) -> None:
    if os.write(descriptor, line) < len(line):  # torn
        raise OSError(errno.ENOSPC, "the line was not written in full")


def _settle(opened: _Opened) -> None:
    """The whole file on the disk, and its name."""
    os.fsync(opened.descriptor)
    _sync_folder(opened.path)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Numbers and words


def _exact(spend: Spend) -> Spend:
    """The same, checked, its numbers fractions."""
    level, delta, variation = (_fraction(name, getattr(spend, name)) for name in ("level", "delta", "variation"))
    if level <= 0:
        raise ValueError(f"level must be positive, got {spend.level!r}")
    if not 0 <= delta < 1 or not 0 <= variation < 1:
        raise ValueError(f"delta and variation must lie in [0, 1), got {spend.delta!r} and {spend.variation!r}")
    notion, relation, protects = (_text(name, getattr(spend, name)) for name in ("notion", "relation", "protects"))
    return Spend(notion, level, delta, variation, relation, protects)


def _fraction(name: str, value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Fraction)):
        raise TypeError(f"{name} must be a number, or a string that is one, got {value!r}")
    try:
        exact = Fraction(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ValueError(f"{name} must be a finite number, got {value!r}") from None
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > BITS:
        raise ValueError(f"{name} must be a fraction of numbers below 2^{BITS}")
    return exact


def _amounts(spend: Spend) -> Amounts:
    return Amounts(spend.level**2 if spend.notion == "gdp" else spend.level, spend.delta, spend.variation)


def _written(spend: Spend) -> dict[str, Any]:
    """For JSON: of each number the exact fraction and, for a human, a decimal rounded up."""
    told = spend._asdict()
    for name in ("level", "delta", "variation"):
        told[name] = [f"{told[name].numerator}/{told[name].denominator}", _up(told[name])]
    return told


def _spend(line: dict[str, Any]) -> Spend:
    """What ``_written`` made."""
    values = (line[name] for name in Spend._fields)
    return _exact_words(Spend(*(value[0] if isinstance(value, list) else value for value in values)))


_exact_words = lru_cache(_exact)  # a ledger says the same few spends thousands of times; of strings only: 1 == True


def _up(value: Fraction, rounding: str = decimal.ROUND_CEILING) -> str:
    divide = decimal.Context(prec=6, rounding=rounding).divide
    return str(divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator)))


def _down(value: Fraction) -> str:
    return _up(value, decimal.ROUND_FLOOR)


def _text(name: str, value: Any) -> str:
    """Words that fit in a table."""
    if not (isinstance(value, str) and value.isprintable() and 0 < len(value) <= 200):
        raise ValueError(f"{name} must be 1 to 200 printable characters, got {value!r}")
    return value


def _json(name: str, value: Any) -> str:
    """One line of strict JSON."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be a dictionary, got a {type(value).__name__}")
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be JSON, its numbers finite") from None


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError, ImportError):
        user = str(os.getuid())  # a container may have no name for it
    return f"{user}@{socket.gethostname()}"

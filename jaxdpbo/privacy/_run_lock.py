"""Locks for recorded runs with point-by-point evaluation: only a single process continues a run.

Without a lock, two workers of an Optuna study, say, would each draw noise by their own count. The ledger would stop the
second worker only after the evaluation of a loss; the lock stops it first. Objects of the same process share a lock.
"""

import hashlib
import os
import threading
import weakref
from pathlib import Path

from jaxdpbo import _files
from jaxdpbo.privacy import _ledger, _recording


class RunInUse(_ledger.LedgerError):
    """Another process continues this run."""


class _Held:
    """A lock of this process, and its number of holders."""

    def __init__(self, descriptor: int):
        self.descriptor, self.holders = descriptor, 0


_held: dict[Path, _Held] = {}
_lock_of_held = threading.RLock()


def hold(recording: _recording.Recording, holder: object) -> None:
    """Lock a run until ``holder`` is garbage-collected or the process ends.

    The lock is on an empty file beside the ledger, closed to other users. You may delete it while no process works.

    Raises:
      RunInUse: another process holds the lock.
      ledger.LedgerError: the file is a link, belongs to another user, or its file system has no locks.
    """
    path = _path(recording)
    with _lock_of_held:
        if path not in _held:
            _held[path] = _Held(_lock(path, recording))
        _held[path].holders += 1
    weakref.finalize(holder, _release, path, os.getpid())


def _path(recording: _recording.Recording) -> Path:
    name = hashlib.sha256(recording.run.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    path = Path(recording.path).resolve()  # one lock also for links to the ledger
    return path.with_name(f"{path.name}.{name}.lock")


def _lock(path: Path, recording: _recording.Recording) -> int:
    import fcntl  # POSIX only, as for the ledger

    try:
        descriptor = _files.open_private(path, os.O_RDWR | os.O_CREAT)
    except (OSError, _files.NotPrivate) as error:
        raise _ledger.LedgerError(f"the lock of run {recording.run!r} cannot be taken: {error}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RunInUse(
            f"{recording.path}: another process continues run {recording.run!r}, and only one worker may evaluate: "
            "give a second worker its own run name and budget"
        ) from None
    except OSError as error:  # a file system without locks
        os.close(descriptor)
        raise _ledger.LedgerError(f"the lock of run {recording.run!r} cannot be taken: {error}") from None
    return descriptor


def _release(path: Path, process: int) -> None:
    with _lock_of_held:
        if os.getpid() != process or path not in _held:
            return
        held = _held[path]
        held.holders -= 1
        if not held.holders:
            del _held[path]
            os.close(held.descriptor)


def _forget_in_child() -> None:
    """Close the locks in a forked child, which would otherwise keep them for its lifetime."""
    global _lock_of_held
    _lock_of_held = threading.RLock()
    for held in _held.values():
        os.close(held.descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)

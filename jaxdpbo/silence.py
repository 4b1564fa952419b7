"""Silence third-party code while it handles private records: warnings, prints and logs quote values.

Warnings and streams belong to the process, not to a thread, so the module counts silences: the first thread to enter
switches output off, the last thread to leave restores it. The silence covers Python's warnings and logging,
``sys.stdout``, ``sys.stderr``, and file descriptors 1 and 2, used by C and Fortran libraries. The descriptors point to
``os.devnull`` meanwhile; a child process started meanwhile inherits them. NumPy's floating-point errors, and JAX's
``debug_nans`` and ``debug_infs``, which raise by value, are off in the entering thread. Compiled runs are never
silenced: a run may take hours, and the process would lose the output of all other threads.
"""

import contextlib
import ctypes
import functools
import logging
import os
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TextIO, TypeVar

import jax
import numpy as np

EVERYTHING = 10**9  # a log level above all named levels
STOPS = KeyboardInterrupt, GeneratorExit  # all other exceptions may follow from a record, even exits and panics
Returned = TypeVar("Returned")


class Failed(NamedTuple):
    """The result of a call that raised. The error itself is dropped: its text, and its context, may quote values.

    Attributes:
      kind: the name of the error's type.
    """

    kind: str


_STATE_LOCK = threading.RLock()
_GENERATORS_LOCK = threading.RLock()
_depth = 0
_restore = contextlib.ExitStack()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Silence the process, see the module; threads may enter together, and a thread several times."""
    _enter()
    try:
        with numeric_checks_off():
            yield
    finally:
        _leave()


@contextlib.contextmanager
def isolate() -> Iterator[None]:
    """Silence the process, one thread at a time, and restore NumPy's and Python's global generators afterwards."""
    with _GENERATORS_LOCK, silence():
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def attempt(function: Callable[..., Returned], *args: Any) -> Returned | Failed:
    """Call third-party code on private records in ``isolate``; return ``Failed`` if the call raises.

    Raises:
      KeyboardInterrupt: typed by the person at the keyboard.
      GeneratorExit: the calling generator was closed.
    """
    with isolate():
        return catch(lambda: settle(function(*args)))


def catch(function: Callable[..., Returned], *args: Any) -> Returned | Failed:
    """Call a function that may quote values in what it raises; return ``Failed`` if it raises.

    An error raised outside of a handler has no ``__context__``, which ``from None`` hides and keeps. The caller then
    raises an error of its own.

    Raises:
      KeyboardInterrupt: typed by the person at the keyboard.
      GeneratorExit: the calling generator was closed.
    """
    try:
        return function(*args)
    except STOPS:
        raise
    except BaseException as error:
        return Failed(type(error).__name__)


def call(function: Callable[..., Returned], *args: Any) -> Returned:
    """Call third-party code on private records in ``silence``; pass exceptions on."""
    with silence():
        return settle(function(*args))


def settle(returned: Returned) -> Returned:
    """Wait for the JAX programs behind ``returned``: a callback inside may fail, or print, later."""
    for value in returned if isinstance(returned, (list, tuple)) else (returned,):
        if _is_jax_array(value):
            jax.block_until_ready(value)
    jax.effects_barrier()
    return returned


def _is_jax_array(value: Any) -> bool:
    try:
        return isinstance(value, jax.Array)
    except Exception:  # from a third-party type
        return False


@contextlib.contextmanager
def numeric_checks_off() -> Iterator[None]:
    """Switch off the checks that raise, or warn, at a user's value: JAX's at NaN and infinity, NumPy's at underflow."""
    with jax.debug_nans(False), jax.debug_infs(False), np.errstate(all="ignore"):
        yield


def seed_generators(words: np.ndarray) -> None:
    """Seed NumPy's and Python's global generators, until ``isolate`` restores them."""
    random.seed(words.tobytes())
    np.random.seed(words)  # noqa: NPY002


def _enter() -> None:
    global _depth, _restore
    with _STATE_LOCK:
        if not _depth:
            with contextlib.ExitStack() as entered:
                _silence_streams(entered)
                entered.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                warnings.showwarning = _ignore  # in case code inside changes the filters; restored with them
                entered.callback(logging.disable, logging.root.manager.disable)
                logging.disable(EVERYTHING)
                _restore = entered.pop_all()
        _depth += 1


def _leave() -> None:
    global _depth
    with _STATE_LOCK:
        _depth -= 1
        if not _depth:
            _restore.close()


def _silence_streams(entered: contextlib.ExitStack) -> None:
    """Redirect descriptors and streams; flush Python's buffers before and after, to their own targets."""
    streams = {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}
    _flush(streams)
    for descriptor in (1, 2):
        _redirect(entered, descriptor)
    entered.callback(_flush, streams)
    entered.enter_context(contextlib.redirect_stdout(_nowhere()))
    entered.enter_context(contextlib.redirect_stderr(_nowhere()))


def _flush(streams: set[Any]) -> None:
    for stream in streams:
        with contextlib.suppress(Exception):  # closed, or None
            stream.flush()


def _ignore(*_: Any, **__: Any) -> None:
    """Show no warning."""


@functools.cache
def _nowhere() -> TextIO:
    """An open ``os.devnull``, never closed: a log handler made meanwhile keeps it."""
    return open(os.devnull, "w", encoding="utf-8", errors="replace")


def _redirect(entered: contextlib.ExitStack, descriptor: int) -> None:
    try:
        kept = _duplicate(descriptor)
    except OSError:  # closed
        return
    entered.callback(os.close, kept)
    entered.callback(os.dup2, kept, descriptor)
    entered.callback(_flush_c_streams)
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _renew_locks() -> None:
    """Make new locks in a forked child: another thread may have held the old locks at the fork."""
    global _STATE_LOCK, _GENERATORS_LOCK
    _STATE_LOCK, _GENERATORS_LOCK = threading.RLock(), threading.RLock()


def _duplicate(descriptor: int) -> int:
    """Duplicate a descriptor, to a number above 2: lower numbers may belong to a closed stream."""
    try:
        import fcntl  # POSIX only
    except ImportError:
        return os.dup(descriptor)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _flush_c_streams() -> None:
    """Flush C's own buffers during the silence."""
    with contextlib.suppress(Exception):  # no such library on this system
        _c_library().fflush(None)


@functools.cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)

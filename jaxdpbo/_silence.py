"""Silence third-party code while it handles private records: warnings, prints and logs quote values.

``silence`` switches off Python's warnings and logging, ``sys.stdout``, ``sys.stderr``, and file descriptors 1 and 2,
which C and Fortran libraries print to. These belong to the process, not to a thread, so entries are counted: the first
thread that enters switches them off, and the last one that leaves restores them. Until then the two descriptors point
to ``os.devnull``, and a child process that starts in that time inherits them. NumPy's floating-point errors and JAX's
``debug_nans`` and ``debug_infs``, which raise by value, are off only in the thread that enters.

Compiled runs are not silenced: a run may take hours, and the output of all other threads would be lost.
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
from typing import Any, TextIO, TypeVar

import jax
import numpy as np

EVERYTHING = 10**9  # a log level above all named levels
STOPS = KeyboardInterrupt, GeneratorExit  # records may cause any other error, even SystemExit and a Rust panic
Returned = TypeVar("Returned")


class Failed:
    """The result of ``attempt`` for a call that raised. It does not hold the error."""


FAILED = Failed()
_STATE_LOCK = threading.RLock()
_GENERATORS_LOCK = threading.RLock()
_depth = 0
_restore = contextlib.ExitStack()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Silence the process (see the module). Several threads may enter at once, and one thread several times."""
    _enter()
    try:
        with debug_checks_off(), np.errstate(all="ignore"):
            yield
    finally:
        _leave()


@contextlib.contextmanager
def isolate() -> Iterator[None]:
    """Silence the process, one thread at a time, and restore NumPy's and Python's global generators at the end."""
    with _GENERATORS_LOCK, silence():
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def attempt(function: Callable[..., Returned], *args: Any) -> Returned | Failed:
    """Call third-party code on private records in ``isolate``. Return ``FAILED`` if it raises; the error is dropped.

    Raises:
      KeyboardInterrupt: you stopped the process.
      GeneratorExit: a generator was closed.
    """
    with isolate():
        try:
            return settle(function(*args))
        except STOPS:
            raise
        except BaseException:
            return FAILED


def call(function: Callable[..., Returned], *args: Any) -> Returned:
    """Call third-party code on private records in ``silence``; what it raises is raised."""
    with silence():
        return settle(function(*args))


def settle(returned: Returned) -> Returned:
    """Wait until JAX's programs that made ``returned`` are done: a callback in them may fail, or print, afterwards."""
    for each in returned if isinstance(returned, (list, tuple)) else (returned,):
        if _is_jax_array(each):
            jax.block_until_ready(each)
    jax.effects_barrier()
    return returned


def _is_jax_array(value: Any) -> bool:
    try:
        return isinstance(value, jax.Array)
    except Exception:  # of a stranger's type
        return False


@contextlib.contextmanager
def debug_checks_off() -> Iterator[None]:
    """Switch off ``jax_debug_nans`` and ``jax_debug_infs``, which raise if a value of one user is NaN or infinite."""
    with jax.debug_nans(False), jax.debug_infs(False):
        yield


def seed_generators(words: np.ndarray) -> None:
    """Seed NumPy's and Python's global generators; ``isolate`` restores them at the end."""
    random.seed(words.tobytes())
    np.random.seed(words)  # noqa: NPY002


def _enter() -> None:
    global _depth, _restore
    with _STATE_LOCK:
        if not _depth:
            with contextlib.ExitStack() as stack:
                _silence_streams(stack)
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                warnings.showwarning = _ignore  # where code inside changes the filters; put back with them
                entered.callback(logging.disable, logging.root.manager.disable)
                logging.disable(EVERYTHING)
                _restore = stack.pop_all()
        _depth += 1


def _leave() -> None:
    global _depth
    with _STATE_LOCK:
        _depth -= 1
        if not _depth:
            _restore.close()


def _silence_streams(entered: contextlib.ExitStack) -> None:
    """Redirect descriptors and streams; Python's buffers are flushed before and after, to where they belong."""
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
    """No warning is shown."""


@functools.cache
def _open_devnull() -> TextIO:
    """A stream to ``os.devnull``. It is never closed, since a log handler that is created in ``silence`` keeps it."""
    return open(os.devnull, "w", encoding="utf-8", errors="replace")


def _redirect(stack: contextlib.ExitStack, descriptor: int) -> None:
    try:
        kept = _duplicate(descriptor)
    except OSError:  # closed
        return
    stack.callback(os.close, copy)
    stack.callback(os.dup2, copy, descriptor)
    stack.callback(_flush_c_streams)
    devnull = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(devnull, descriptor)
    os.close(devnull)


def _renew_locks() -> None:
    """Replace the locks in a forked child: another thread may have held one at the fork."""
    global _STATE_LOCK, _GENERATORS_LOCK
    _STATE_LOCK, _GENERATORS_LOCK = threading.RLock(), threading.RLock()


def _duplicate(descriptor: int) -> int:
    """A copy above 2: a lower number may be that of a stream which is closed."""
    try:
        import fcntl  # POSIX alone has it
    except ImportError:
        return os.dup(descriptor)
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def _flush_c_streams() -> None:
    """Flush the buffers of C while the descriptors still point to ``os.devnull``."""
    with contextlib.suppress(Exception):  # this system has no such C library
        ctypes.CDLL(None).fflush(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)

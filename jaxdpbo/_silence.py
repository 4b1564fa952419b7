"""Silence third-party code while it handles private records: warnings, prints and logs quote values.

Warnings and streams belong to the process, not to a thread, so silences are counted: the first thread that enters
switches them off, the last one that leaves puts them back. Silenced are Python's warnings and logging, ``sys.stdout``,
``sys.stderr``, and file descriptors 1 and 2, which C and Fortran libraries print to. The descriptors point to
``os.devnull`` meanwhile; a child process that is started meanwhile inherits that. NumPy's floating-point errors and
JAX's ``debug_nans`` and ``debug_infs``, which raise by value, are off in the thread that enters. A compiled run is
never silenced: a run may take hours, and all that the process says in other threads would be lost.
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

EVERYTHING = 10**9  # a level of logs above all that have names
STOPS = KeyboardInterrupt, GeneratorExit  # all else may follow from a record: exits, and panics of other languages
Returned = TypeVar("Returned")


class Failed:
    """What ``attempt`` returns in place of a result where the call raised; which error it was is forgotten."""


FAILED = Failed()
_STATE_LOCK = threading.RLock()
_GENERATORS_LOCK = threading.RLock()
_depth = 0
_restore = contextlib.ExitStack()


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Silence the process, see the module; threads may be inside at once, and one thread several times."""
    _enter()
    try:
        with debug_checks_off(), np.errstate(all="ignore"):
            yield
    finally:
        _leave()


@contextlib.contextmanager
def isolate() -> Iterator[None]:
    """Silence the process, one thread at a time, and put NumPy's and Python's global generators back afterwards."""
    with _GENERATORS_LOCK, silence():
        numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
        try:
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)


def attempt(function: Callable[..., Returned], *args: Any) -> Returned | Failed:
    """Call third-party code on private records in ``isolate``; ``FAILED`` where it raises, so that no error is heard.

    Raises:
      KeyboardInterrupt: the user's.
      GeneratorExit: a generator that called it was closed.
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
    """Switch off ``jax_debug_nans`` and ``jax_debug_infs``, which raise where one user's value is NaN or infinite."""
    with jax.debug_nans(False), jax.debug_infs(False):
        yield


def seed_generators(words: np.ndarray) -> None:
    """Seed NumPy's and Python's global generators, until ``isolate`` puts them back."""
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
                warnings.showwarning = _ignore  # where code inside changes the filters; put back with them
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
def _nowhere() -> TextIO:
    """Never closed: a handler of logs that is made meanwhile keeps it."""
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
    """Another thread may have held one when this process was forked."""
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
    """C's own buffers, while nobody hears them."""
    with contextlib.suppress(Exception):  # no such library on this system
        ctypes.CDLL(None).fflush(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)

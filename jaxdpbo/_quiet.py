"""Code of others that looks at private records runs unheard: warnings, prints and logs quote values."""

import contextlib
import io
import logging
import random
import threading
import warnings
from collections.abc import Iterator

import numpy as np

_ONE = threading.RLock()  # streams, filters and generators are the process's, not a thread's
EVERYTHING = 10**9  # a level of logs above all that have names
STOPS = KeyboardInterrupt, GeneratorExit  # all else may be of a record: exits, and panics of other languages


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Without warnings, logs and what Python prints, one thread at a time; global generators are then as they were.

    What compiled code prints to the process's own streams is heard.
    """
    with _ONE:
        disabled = logging.root.manager.disable
        drawn, python = np.random.get_state(), random.getstate()  # noqa: NPY002
        logging.disable(EVERYTHING)
        try:
            with _silent():
                yield
        finally:
            logging.disable(disabled)
            np.random.set_state(drawn)  # noqa: NPY002
            random.setstate(python)


def seed(words: np.ndarray) -> None:
    """Global generators, until ``unheard`` puts them back."""
    random.seed(words.tobytes())
    np.random.seed(words)  # noqa: NPY002


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield

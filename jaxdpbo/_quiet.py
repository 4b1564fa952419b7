"""Code of others that looks at private records runs unheard: warnings, prints and logs quote values."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Without warnings, output and logs of this process; NumPy's global generator is afterwards where it was."""
    disabled, drawn = logging.root.manager.disable, np.random.get_state()  # noqa: NPY002
    logging.disable(logging.CRITICAL)
    try:
        with (
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        np.random.set_state(drawn)  # noqa: NPY002

"""Objectives for worker processes: NumPy alone, so that a worker starts fast."""

import os
import signal
from pathlib import Path

import numpy as np


def loss(point, data):
    """Per-user losses ``(n,)``."""
    return np.sum(np.square(data - point), axis=1) * 0.2


def dying(point, data):
    """``loss``, but the worker that begins the fifth evaluation is killed, once, as by a machine that is lost."""
    records, folder = data
    begun = Path(folder) / f"{os.getpid()}-{np.asarray(point).tobytes().hex()}"
    begun.touch()
    if len(list(Path(folder).iterdir())) >= 5 and not (Path(folder).parent / "killed").exists():
        (Path(folder).parent / "killed").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return loss(point, records)

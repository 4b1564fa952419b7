"""Tuning and training under one statement: a private selection, one call for both, and a front."""

from jaxdpbo.tuning._routes import Tuned
from jaxdpbo.tuning.front import Front, private_front
from jaxdpbo.tuning.selection import Selected, private_selection
from jaxdpbo.tuning.training import DPSGD, InBlocks, Reaching, Training, Vmapped
from jaxdpbo.tuning.tune import tune_and_train

__all__ = [
    "DPSGD", "Front", "InBlocks", "Reaching", "Selected", "Training", "Tuned", "Vmapped", "private_front",
    "private_selection", "tune_and_train",
]  # fmt: skip

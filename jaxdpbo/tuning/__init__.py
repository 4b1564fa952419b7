"""Tuning and training under one statement: a private selection, and one call for both."""

from jaxdpbo.tuning._routes import Tuned
from jaxdpbo.tuning.selection import Selected, private_selection
from jaxdpbo.tuning.training import DPSGD, InBlocks, Reaching, Training, Vmapped
from jaxdpbo.tuning.tune import tune_and_train

__all__ = [
    "DPSGD", "InBlocks", "Reaching", "Selected", "Training", "Tuned", "Vmapped", "private_selection", "tune_and_train",
]  # fmt: skip

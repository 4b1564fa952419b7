"""Tuning and training under one statement: a private selection, and one call for both."""

from jaxdpbo.tuning.selection import Selected, private_selection
from jaxdpbo.tuning.training import DPSGD, Training
from jaxdpbo.tuning.tune import Tuned, tune_and_train

__all__ = ["DPSGD", "Selected", "Training", "Tuned", "private_selection", "tune_and_train"]

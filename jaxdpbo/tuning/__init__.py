"""Tuning and training under one statement: a private selection, and one call for both."""

from jaxdpbo.tuning._routes import Tuned
from jaxdpbo.tuning.selection import Selected, private_selection
from jaxdpbo.tuning.training import DPSGD, Reaching, Training
from jaxdpbo.tuning.tune import tune_and_train

__all__ = ["DPSGD", "Reaching", "Selected", "Training", "Tuned", "private_selection", "tune_and_train"]

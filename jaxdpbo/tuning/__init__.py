"""Tuning and training under a single guarantee: private selection, tuning with training, and a front."""

from jaxdpbo.tuning._fitting import Tuned
from jaxdpbo.tuning.front import Front, private_front
from jaxdpbo.tuning.selection import Selected, private_selection
from jaxdpbo.tuning.training import DPSGD, Training
from jaxdpbo.tuning.tune import tune_and_train

__all__ = ["DPSGD", "Front", "Selected", "Training", "Tuned", "private_front", "private_selection", "tune_and_train"]

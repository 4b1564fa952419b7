"""Tuning and training under a single guarantee: private selection, tuning with training, least epsilon, a front."""

from jaxdpbo import namespace
from jaxdpbo.tuning.fitting import TuningResult
from jaxdpbo.tuning.front import Front, private_front
from jaxdpbo.tuning.joint_tuning import tune_and_train
from jaxdpbo.tuning.least_epsilon_search import LeastEpsilonResult, least_epsilon
from jaxdpbo.tuning.selection import AllRunsFailed, SelectionResult, private_selection
from jaxdpbo.tuning.training import DPSGD, Training

__all__ = [
    "DPSGD",
    "AllRunsFailed",
    "Front",
    "LeastEpsilonResult",
    "SelectionResult",
    "Training",
    "TuningResult",
    "least_epsilon",
    "private_front",
    "private_selection",
    "tune_and_train",
]
__dir__ = namespace.list_public(__name__)

"""Tuning and training under a single guarantee: private selection, tuning with training, least epsilon, a front."""

from jaxdpbo import _namespace
from jaxdpbo.tuning._fitting import TuningResult
from jaxdpbo.tuning._front import Front, private_front
from jaxdpbo.tuning._joint_tuning import tune_and_train
from jaxdpbo.tuning._least_epsilon import LeastEpsilonResult, least_epsilon
from jaxdpbo.tuning._selection import AllRunsFailed, SelectionResult, private_selection
from jaxdpbo.tuning._training import DPSGD, Training

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
__dir__ = _namespace.list_public(__name__)

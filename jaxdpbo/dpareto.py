"""DPareto: the front of privacy and utility of an algorithm over its hyper-parameters. NOT PRIVATE."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.dpareto import Config, Prediction, Release, algorithm, best_setting, config, predict_settings

__all__ = ["Config", "Prediction", "Release", "algorithm", "best_setting", "config", "predict_settings"]
__dir__ = _namespace.list_public(__name__)

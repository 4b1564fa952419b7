"""DPareto: the front of privacy and utility of a differentially private algorithm over its hyper-parameters.

Brendan Avent, Javier Gonzalez, Tom Diethe, Andrei Paleyes and Borja Balle (2020), "Automatic discovery of
privacy-utility Pareto fronts", Algorithm 2. An evaluation of a setting returns two numbers to be minimised, ``epsilon``
from a privacy oracle and an ``error`` in [0, 1] from a utility oracle; two independent Gaussian processes, of
``log epsilon`` and ``logit error``, propose the next setting, by the hypervolume-based probability of improvement.

NOTHING HERE IS PRIVATE: every error was measured on data by running the algorithm under study. ``privacy`` returns
"none" and the reason; use ``accounting.compose_epsilon`` for the cost of publishing trainings.

Notation: ``T`` steps of ``b`` settings each, the first of them seeds; ``d`` hyper-parameters; ``m = T b``. The search
is in the unit cube; whole-number coordinates are rounded before a process sees them, and stored rounded.

``configs`` has the configuration, ``surrogates`` the Gaussian processes, ``run`` the five functions, ``predictions``
predictions of a finished search. ``training.objective`` makes an objective of DP-SGD or DP-Adam.
"""

from jaxdpbo import namespace
from jaxdpbo.algorithms.dpareto.configs import ACQUISITIONS, Config, config
from jaxdpbo.algorithms.dpareto.predictions import Prediction, best_setting, improvement, predict_settings
from jaxdpbo.algorithms.dpareto.run import (
    BAD_EPSILON,
    BAD_ERROR,
    UNMEASURED,
    USABLE,
    PublicState,
    Raw,
    Release,
    algorithm,
)

__all__ = [
    "Config",
    "Prediction",
    "Release",
    "algorithm",
    "best_setting",
    "config",
    "predict_settings",
]
__dir__ = namespace.list_public(__name__)

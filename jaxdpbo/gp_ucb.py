"""GP-UCB: Bayesian optimisation by upper confidence bounds. NOT PRIVATE."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.gp_ucb import Config, Release, algorithm, config

__all__ = ["Config", "Release", "algorithm", "config"]
__dir__ = _namespace.list_public(__name__)

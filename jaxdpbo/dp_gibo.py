"""DP-GIBO: local Bayesian optimisation by privatised gradient posteriors, for many parameters."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.dp_gibo import Config, Release, algorithm, config, set_start

__all__ = ["Config", "Release", "algorithm", "config", "set_start"]
__dir__ = _namespace.list_public(__name__)

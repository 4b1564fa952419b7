"""PO-GP-UCB: GP-UCB on the released rows of a curator. The search itself adds no noise."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.po_gp_ucb import Config, Release, algorithm, config

__all__ = ["Config", "Release", "algorithm", "config"]
__dir__ = _namespace.list_public(__name__)

"""Private estimate: the mean loss at an answer, for a share of the budget."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.private_estimate import Config, Release, config, make_algorithm

__all__ = ["Config", "Release", "config", "make_algorithm"]
__dir__ = _namespace.list_public(__name__)

"""Private evaluations: any algorithm steered by noisy mean losses alone."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.private_evaluations import Config, Release, config, make_algorithm

__all__ = ["Config", "Release", "config", "make_algorithm"]
__dir__ = _namespace.list_public(__name__)

"""Random search, the baseline. NOT PRIVATE."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.random_search import Config, Release, algorithm, config

__all__ = ["Config", "Release", "algorithm", "config"]
__dir__ = _namespace.list_public(__name__)

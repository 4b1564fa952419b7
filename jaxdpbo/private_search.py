"""Private search: a public design, and an exact private choice among its points."""

from jaxdpbo import _namespace
from jaxdpbo._algorithms.private_search import Config, Release, Round, config, make_algorithm

__all__ = ["Config", "Release", "Round", "config", "make_algorithm"]
__dir__ = _namespace.list_public(__name__)

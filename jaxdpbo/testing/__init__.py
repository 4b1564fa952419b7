"""Tests of an algorithm of your own, for the CI of your library."""

from jaxdpbo import namespace
from jaxdpbo.testing.algorithm_check import check_algorithm

__all__ = ["check_algorithm"]
__dir__ = namespace.list_public(__name__)

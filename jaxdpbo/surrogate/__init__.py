"""Gaussian process models of the objective, and how to search them. No privacy here: see ``jaxdpbo.privacy``."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)

"""Bounds proved in the papers, as functions of plain numbers."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)

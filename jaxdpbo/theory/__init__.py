"""Bounds proved in the papers, as functions of plain numbers."""

from jaxdpbo import _namespace

__getattr__, __dir__ = _namespace.lazy_modules(__name__, __path__)

"""Tuning and training under one statement: private selection."""

from jaxdpbo.tuning.selection import Selected, private_selection

__all__ = ["Selected", "private_selection"]

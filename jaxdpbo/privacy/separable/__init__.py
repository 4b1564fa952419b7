"""Proofs that a user's loss depends on that user's record alone, read off the traced program."""

from jaxdpbo.privacy.separable.check import NotSeparable, Separable, check_separable

__all__ = ["NotSeparable", "Separable", "check_separable"]

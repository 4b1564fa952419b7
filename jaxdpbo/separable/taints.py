"""Taints: the records behind a value of a traced program, as none, one for each slice, a single record, or any."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Untainted:
    """The value depends on no record."""


@dataclass(frozen=True)
class UserSlices:
    """Slice ``i`` along ``axis`` depends on record ``i`` and on public values alone."""

    axis: int


@dataclass(frozen=True)
class Own:
    """The whole value depends on a single record: the current record of a loop over users."""


@dataclass(frozen=True)
class Mixed:
    """Any other dependence: ``said`` names the operation behind it, the reason, and the line."""

    said: str


Taint = Untainted | UserSlices | Own | Mixed
PUBLIC, OWN = Untainted(), Own()


def join(taints: Sequence[Taint]) -> Taint | None:
    """The taint of a value chosen from several; None if no taint covers all of them."""
    private = [taint for taint in taints if taint != PUBLIC]
    for taint in private:
        if isinstance(taint, Mixed):
            return taint
    if not private:
        return PUBLIC
    return private[0] if all(taint == private[0] for taint in private) else None

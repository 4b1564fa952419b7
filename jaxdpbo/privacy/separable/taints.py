"""Which records a value of a traced program depends on: none, one for each slice, one alone, or any."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Public:
    """Depends on no record."""


@dataclass(frozen=True)
class UserSlices:
    """Slice ``i`` along ``axis`` depends on record ``i`` and on public values alone."""

    axis: int


@dataclass(frozen=True)
class Own:
    """All of it depends on one record: the one whose turn it is in a loop over users."""


@dataclass(frozen=True)
class Mixed:
    """Anything else: which operation made it so, why, and where."""

    said: str


Taint = Public | UserSlices | Own | Mixed
PUBLIC, OWN = Public(), Own()


def join(taints: Sequence[Taint]) -> Taint | None:
    """Of values of which any may be the one at hand; None where no statement covers them all."""
    private = [taint for taint in taints if taint != PUBLIC]
    for taint in private:
        if isinstance(taint, Mixed):
            return taint
    if not private:
        return PUBLIC
    return private[0] if all(taint == private[0] for taint in private) else None

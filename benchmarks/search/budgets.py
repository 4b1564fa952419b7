"""Budgets of a comparison, by labels such as "epsilon 1" and "mu 0.5"."""

import math
from typing import NamedTuple

from jaxdpbo import accounting

DELTA = 1e-5  # of every epsilon


class Budget(NamedTuple):
    """A kind, "epsilon" or "mu", and its number."""

    kind: str
    level: float

    @classmethod
    def parse(cls, label: str) -> "Budget":
        """The budget of a label; raise a ValueError for another."""
        kind, _, number = label.partition(" ")
        if kind not in ("epsilon", "mu"):
            raise ValueError(f"a budget is 'epsilon NUMBER' or 'mu NUMBER', got {label!r}")
        return cls(kind, float(number))

    @property
    def label(self) -> str:
        """The text that ``parse`` reads."""
        return f"{self.kind} {self.level:g}"

    @property
    def arguments(self) -> dict[str, float]:
        """The arguments of ``minimize``."""
        return {"epsilon": self.level, "delta": DELTA} if self.kind == "epsilon" else {"mu": self.level}

    @property
    def mu(self) -> float:
        """The GDP level that the budget implies."""
        return accounting.gdp_mu(self.level, DELTA) if self.kind == "epsilon" else self.level

    @property
    def range(self) -> float:
        """The range of a single choice that spends all of the budget."""
        if self.kind == "epsilon":
            return self.level
        return math.inf if math.isinf(self.level) else accounting.bounded_range_eta(self.level)

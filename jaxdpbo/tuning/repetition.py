"""How often a private selection runs: the truncated negative binomial law, drawn exactly and shown to nobody.

The law has a tail without end; the table ends where what is left has a probability under ``CUT``. What is cut, and what
rounding to 128 bits moves, is a total variation distance from the law of the theorem, and is stated as such.
"""

from bisect import bisect_right
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from jaxdpbo.privacy import accounting

BITS = 128
CUT = 1e-21
LONGEST = 2**16  # of a table
DIGITS = 60


class Table(NamedTuple):
    """``ends[k - 1]`` is how many of the ``2**BITS`` numbers mean ``k`` runs or fewer.

    Attributes:
      ends: integers, increasing; the last is ``2**BITS``.
      total_variation: from the law, at most.
    """

    ends: tuple[int, ...]
    total_variation: float

    def runs(self, number: int) -> int:
        """How many runs a uniform number of ``BITS`` bits means."""
        return bisect_right(self.ends, number) + 1


@lru_cache(maxsize=32)
def table(law: accounting.Repetitions) -> Table:
    """Of a law's own ``eta`` and ``gamma``, which are taken as the exact binary numbers that they are.

    Raises:
      ValueError: the law's tail is too long for a table.
    """
    with localcontext() as context:
        context.prec = DIGITS
        eta, gamma = Decimal(law.eta), Decimal(law.gamma)
        at = (1 - gamma) * _share(eta, gamma)  # P(K = 1)
        total, ends, k = Decimal(0), [], 0
        while accounting.tail_probability(law, k) > CUT if k else True:
            k += 1
            if k > LONGEST:
                raise ValueError(f"mean must be smaller: more than {LONGEST} runs have a probability over {CUT:g}")
            total += at
            ends.append(min(int(total * 2**BITS), 2**BITS))
            at *= (1 - gamma) * (k + eta) / (k + 1)
    ends[-1] = 2**BITS
    return Table(tuple(ends), CUT + (len(ends) + 1) * 2.0**-BITS)


def _share(eta: Decimal, gamma: Decimal) -> Decimal:
    """``eta / (gamma^-eta - 1)``, or its limit at ``eta = 0``, to ``DIGITS`` digits beside those that cancel."""
    logarithm = -gamma.ln()
    if eta == 0:
        return 1 / logarithm
    with localcontext() as context:
        context.prec = DIGITS + max(0, -(eta * logarithm).adjusted())
        return eta / (gamma**-eta - 1)

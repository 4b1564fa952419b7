"""Number of runs of a private selection: the truncated negative binomial distribution, drawn exactly and kept secret.

The distribution has an infinite tail; the table ends where the remaining probability is under ``CUT``. Cutting, and
rounding to 128 bits, add a total variation distance from the distribution of the theorem, and the guarantee includes
this distance.
"""

from bisect import bisect_right
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from jaxdpbo import accounting

BITS = 128
CUT = 1e-21
LONGEST = 2**16  # of a table
DIGITS = 60


class Table(NamedTuple):
    """Cumulative table: ``ends[k - 1]`` of the ``2**BITS`` numbers mean ``k`` runs or fewer.

    Attributes:
      ends: integers, increasing; the last is ``2**BITS``.
      total_variation: bound on the distance from the exact distribution.
    """

    ends: tuple[int, ...]
    total_variation: float

    def runs(self, number: int) -> int:
        """Number of runs for a uniform number of ``BITS`` bits."""
        return bisect_right(self.ends, number) + 1


@lru_cache(maxsize=32)
def table(repetitions: accounting.Repetitions, cap: int | None = None) -> Table:
    """Make the table for the ``eta`` and ``gamma`` of ``repetitions``, taken as exact binary numbers.

    Args:
      repetitions: distribution of the number of runs, made by ``accounting.repetitions``.
      cap: the most runs, if the table is to end there; the rest of the distribution counts as total variation.

    Raises:
      ValueError: the distribution's tail is too long for a table.
    """
    with localcontext() as context:
        context.prec = DIGITS
        eta, gamma = Decimal(repetitions.eta), Decimal(repetitions.gamma)
        probability = (1 - gamma) * _share(eta, gamma)  # P(K = 1)
        total, ends, k = Decimal(0), [], 0
        while not k or (k != cap and accounting.tail_probability(repetitions, k) > CUT):
            k += 1
            if k > LONGEST:
                raise ValueError(f"mean must be smaller: more than {LONGEST} runs have a probability over {CUT:g}")
            total += probability
            ends.append(min(int(total * 2**BITS), 2**BITS))
            probability *= (1 - gamma) * (k + eta) / (k + 1)
    ends[-1] = 2**BITS
    cut = max(CUT, accounting.tail_probability(repetitions, k))
    return Table(tuple(ends), cut + (len(ends) + 1) * 2.0**-BITS)


def _share(eta: Decimal, gamma: Decimal) -> Decimal:
    """``eta / (gamma^-eta - 1)``, or its limit at ``eta = 0``, to ``DIGITS`` digits after cancellation."""
    logarithm = -gamma.ln()
    if eta == 0:
        return 1 / logarithm
    with localcontext() as context:
        context.prec = DIGITS + max(0, -(eta * logarithm).adjusted())
        return eta / (gamma**-eta - 1)

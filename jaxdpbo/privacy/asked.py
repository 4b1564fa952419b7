"""The budget a caller asks for: ``mu``, or ``epsilon`` and ``delta``, one of the two and nothing by default."""

import math
from typing import Any

import numpy as np

from jaxdpbo import _checks
from jaxdpbo.privacy import accounting

TOTAL_VARIATION = 2.0**-85  # set aside for exact noise: 2^-110 or so for each of up to some 2^25 draws


def mu_of(
    mu: Any = None,
    epsilon: Any = None,
    delta: Any = None,
    *,
    total_variation: float = TOTAL_VARIATION,
    dtype: Any = np.float64,
) -> float:
    """The GDP level that was asked for, rounded down to ``dtype``.

    Formal guarantee: a mechanism within ``total_variation`` of a ``mu``-GDP one is ``(epsilon, delta)``-DP for the
    ``epsilon`` and ``delta`` asked for (Dong et al. 2022, corollary 2.13).

    >>> from jaxdpbo.privacy import asked
    >>> round(asked.mu_of(epsilon=3.0, delta=1e-5), 3)
    0.719

    Args:
      mu: the GDP level; ``inf`` for no privacy.
      epsilon: at least zero and finite; with ``delta``, in place of ``mu``.
      delta: in (0, 1). It has no default.
      total_variation: how far the mechanism may be from the ideal one; taken out of ``delta``.
      dtype: float32 or float64, in which the level will be held.

    Raises:
      ValueError: both or neither, ``epsilon`` or ``delta`` alone, one out of range, or a ``delta`` that
        ``total_variation`` leaves nothing of.
      TypeError: not a real number.
    """
    if mu is not None and (epsilon is not None or delta is not None):
        raise ValueError(f"mu, or epsilon and delta, must be given, not both: got {_said(mu, epsilon, delta)}")
    if mu is not None:
        return _checks.positive("mu", mu, finite=False)
    if epsilon is None and delta is None:
        raise ValueError("mu must be given, or epsilon and delta: a budget has no default")
    if epsilon is None:
        raise ValueError(f"epsilon must be given with delta, got {_said(mu, epsilon, delta)}")
    if delta is None:
        raise ValueError(
            f"delta must be given with epsilon, got {_said(mu, epsilon, delta)}: it has no default; choose it well "
            "below one over the number of users"
        )
    epsilon, delta = _checks.nonnegative("epsilon", epsilon), _checks.probability("delta", delta)
    kept_back = (1.0 + math.exp(min(epsilon, 700.0))) * total_variation
    if kept_back > delta / 2:
        raise ValueError(
            f"delta must be at least {2 * kept_back:.2g} at epsilon={epsilon:g}, got {delta:g}: noise from tables is "
            f"within a total variation of {total_variation:.2g} of ideal noise"
        )
    least = (delta - kept_back) * (1 - 2.0**-30)  # more than converting back can round up
    return _checks.rounded_down(accounting.gdp_mu(epsilon, least), dtype)


def _said(mu: Any, epsilon: Any, delta: Any) -> str:
    given = {"mu": mu, "epsilon": epsilon, "delta": delta}
    return ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)

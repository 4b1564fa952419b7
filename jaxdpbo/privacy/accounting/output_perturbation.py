"""Output perturbation of a strongly convex learner (Wu et al. 2017, "Bolt-on differential privacy", algorithm 2).

Projected permutation SGD on ``log(1 + exp(-y w.x)) + gamma |w|^2 / 2`` with ``|x| <= 1``, steps ``min(1 / beta, 1 /
(gamma t))`` and ``|w| <= 1 / gamma``; normal noise is added to the last iterate. Replace-one, ``n`` public.
"""

import math

from jaxdpbo import _checks
from jaxdpbo.privacy.accounting import gdp

BOUNDS = ("tight", "paper")


def learner_sensitivity(*, regularisation: float, records: int, batch: int = 1, bound: str = "tight") -> float:
    """How far, in l2, the last iterate moves where one record is replaced; whatever the number of passes.

    "paper" is ``2 L / (gamma n)`` with ``L = 1 + gamma R = 2``, of the regularised loss. "tight" is half of it: the
    regulariser is the same for both records, and without it the loss is 1-Lipschitz. A batch does not divide it: its
    mean moves by ``1 / b``, but there are ``b`` times fewer steps for the difference to shrink in. Where ``b`` does not
    divide ``n`` the remainder of each pass is dropped: ``n`` becomes ``b floor(n / b)``.

    Args:
      regularisation: ``gamma``, positive.
      records: ``n``.
      batch: ``b``, at most ``n``.
      bound: of ``BOUNDS``.

    Raises:
      ValueError: a number out of range, an unknown bound.
    """
    gamma, count = _checks.positive("regularisation", regularisation), _checks.size("records", records)
    size = _checks.size("batch", batch)
    if size > count:
        raise ValueError(f"batch must be at most the records {count}, got {size}")
    lipschitz = 1.0 if _checks.choice("bound", bound, BOUNDS) == "tight" else 2.0
    return 2.0 * lipschitz / (gamma * size * (count // size))


def learner_epsilon(*, sensitivity: float, standard_deviation: float, delta: float) -> float:
    """Of the learner's last iterate with normal noise: the exact Gaussian mechanism. inf without noise."""
    mu = gdp.gaussian_mu(sensitivity, standard_deviation)
    return math.inf if math.isinf(mu) else gdp.gdp_epsilon(mu, delta)

"""Utility bounds of Kusner et al. (2015) for DP-GP-UCB, corrected. No guarantee rests on them.

The bounds hold where the events of ``accounting.prior_averaged_constants`` do. That module also has the sensitivities
taken here, in units of the prior's standard deviation. Theorem 2's proof bounds the largest posterior mean by an
observation; the bound here goes through the confidence bounds, and is about the utility of the released point rather
than its posterior mean.
"""

import math

from jaxdpbo import checks, namespace

__all__ = ["point_shortfall", "selection_shortfall", "value_error"]
__dir__ = namespace.list_public(__name__)


@checks.takes(
    candidates=checks.positive,
    beta=checks.nonnegative_or_infinite,
    sensitivity=checks.nonnegative_or_infinite,
    epsilon=checks.positive,
    failure=checks.probability,
)
def point_shortfall(*, candidates: float, beta: float, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound the shortfall in ``f(released) >= f(x*) - shortfall``, in units of the prior's standard deviation.

    Theorem 2, corrected: ``2 sqrt(beta_{T+1}) + 2 sensitivity / epsilon (log c + log(1 / failure))``, with probability
    at least ``1 - share - failure``, ``share`` as in lemma 5.1.

    >>> from jaxdpbo.theory import dp_gp_ucb
    >>> round(dp_gp_ucb.point_shortfall(candidates=100, beta=4.0, sensitivity=0.1, epsilon=1.0, failure=0.05), 2)
    5.52
    """
    return 2.0 * math.sqrt(beta) + selection_shortfall(candidates, sensitivity, epsilon, failure)


@checks.takes(
    candidates=checks.positive,
    sensitivity=checks.nonnegative_or_infinite,
    epsilon=checks.positive,
    failure=checks.probability,
)
def selection_shortfall(candidates: float, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound how far below the best score the exponential mechanism draws, except with probability ``failure``.

    ``2 sensitivity / epsilon (log c + log(1 / failure))`` (McSherry and Talwar 2007; equation 5).

    >>> from jaxdpbo.theory import dp_gp_ucb
    >>> round(dp_gp_ucb.selection_shortfall(100, 0.1, 1.0, 0.05), 2)
    1.52
    """
    return 2.0 * sensitivity / epsilon * (math.log(candidates) - math.log(failure))


@checks.takes(
    regret=checks.nonnegative_or_infinite,
    noise_gap=checks.nonnegative_or_infinite,
    sensitivity=checks.nonnegative_or_infinite,
    epsilon=checks.positive,
    failure=checks.probability,
)
def value_error(*, regret: float, noise_gap: float, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound ``|released - f(x*)|`` by ``Omega + q / 2 + log(1 / failure) sensitivity / epsilon`` (theorems 4, 6 and 8).

    Holds with probability at least ``1 - shares - failure``: the shares of lemma 5.1 and half of the noise's. Theorem 8
    is about the largest evaluated gain: pass ``regret=0``.

    >>> from jaxdpbo.theory import dp_gp_ucb
    >>> round(dp_gp_ucb.value_error(regret=0.1, noise_gap=0.1, sensitivity=0.1, epsilon=1.0, failure=0.05), 2)
    0.45
    """
    return regret + noise_gap / 2.0 - math.log(failure) * sensitivity / epsilon

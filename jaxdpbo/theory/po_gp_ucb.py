"""Regret bounds of Kharkovskii et al. (2020) for PO-GP-UCB with the random projection.

The bounds concern utility alone. They do not depend on theorem 1 (privacy), which is false: see
``transforms``. ``failure`` is the probability of a bound not holding.
"""

import math

import numpy as np

from jaxdpbo import checks, namespace
from jaxdpbo.types import ArrayLike

__all__ = [
    "diagonally_dominant",
    "distance_factors",
    "distortion_for_regret",
    "rank_for_distances",
    "replace_one_regret_floor",
    "simple_regret_bound",
]
__dir__ = namespace.list_public(__name__)


@checks.takes(rows=checks.size, distortion=checks.number, failure=checks.number)
def rank_for_distances(rows: int, distortion: float, failure: float) -> int:
    """Least rank ``r >= 8 log(n^2 / failure) / distortion^2`` (lemma 1).

    At this rank, the projection scales all squared distances between ``n`` rows by factors between ``1 - distortion``
    and ``1 + distortion``.

    >>> from jaxdpbo.theory import po_gp_ucb
    >>> po_gp_ucb.rank_for_distances(100, 0.4, 0.05)
    611

    Raises:
      ValueError: ``distortion`` not in (0, 1/2), ``failure`` not in (0, 1).
    """
    if not 0 < distortion < 0.5:
        raise ValueError(f"distortion must lie strictly between 0 and 1/2, got {distortion}")
    if not 0 < failure < 1:
        raise ValueError(f"failure must lie strictly between 0 and 1, got {failure}")
    return math.ceil(8.0 * math.log(rows**2 / failure) / distortion**2)


@checks.takes(distortion=checks.fraction, smallest_singular=checks.positive, threshold=checks.nonnegative_or_infinite)
def distance_factors(distortion: float, smallest_singular: float, threshold: float) -> tuple[float, float]:
    """Least and largest factor by which squared distances are multiplied (theorem 2).

    ``1 - nu`` and ``(1 + nu) C'``, ``C' = 1 + omega^2 / sigma_min^2`` where ``sigma_min < omega``, else 1.

    >>> from jaxdpbo.theory import po_gp_ucb
    >>> tuple(round(factor, 3) for factor in po_gp_ucb.distance_factors(0.5, 1.0, 0.5))
    (0.5, 1.5)
    """
    raised = 1.0 + (threshold / smallest_singular) ** 2 if smallest_singular < threshold else 1.0
    return 1.0 - distortion, (1.0 + distortion) * raised


def diagonally_dominant(covariance: ArrayLike) -> bool:
    """Return whether ``k_xx >= (sqrt(m - 1) + 1) sum_x' k_xx'`` in every row of ``covariance (m, m)``: definition 3.

    >>> import numpy as np
    >>> from jaxdpbo.theory import po_gp_ucb
    >>> po_gp_ucb.diagonally_dominant(np.eye(3))
    True
    """
    matrix = checks.rows("covariance", covariance)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"covariance must be square, got {matrix.shape}")
    diagonal = np.diag(matrix)
    others = matrix.sum(axis=1) - diagonal
    return bool(np.all(diagonal >= (math.sqrt(len(matrix) - 1) + 1.0) * others))


@checks.takes(regret=checks.positive, diameter=checks.positive, largest_output=checks.positive)
def distortion_for_regret(regret: float, diameter: float, largest_output: float) -> float:
    """``nu = min(regret / (2 sqrt(3) d^2 L), 2 / d^2, 1/2)``, ``d`` the diameter over the lengthscale (theorem 3).

    >>> from jaxdpbo.theory import po_gp_ucb
    >>> round(po_gp_ucb.distortion_for_regret(0.1, 1.0, 1.0), 4)
    0.0289
    """
    return min(regret / (2.0 * math.sqrt(3.0) * diameter**2 * largest_output), 2.0 / diameter**2, 0.5)


@checks.takes(
    regret=checks.nonnegative_or_infinite,
    steps=checks.size,
    beta=checks.nonnegative_or_infinite,
    information=checks.nonnegative_or_infinite,
    noise_variance=checks.positive,
    first_constant=checks.nonnegative_or_infinite,
    second_constant=checks.nonnegative_or_infinite,
)
def simple_regret_bound(
    *,
    regret: float,
    steps: int,
    beta: float,
    information: float,
    noise_variance: float,
    first_constant: float,
    second_constant: float,
) -> float:
    """Bound the simple regret (theorem 3).

    The root of ``regret^2 + 24 (C_2 + C_1 sqrt(beta_T))^2 log T / T + 24 beta_T gamma_T / (T log(1 + 1 / noise))``, for
    diagonally dominant covariances of the evaluated rows, ``sigma_min >= omega``, and a rank of
    ``rank_for_distances(n, distortion_for_regret(...), failure / 2)``.

    >>> from jaxdpbo.theory import po_gp_ucb
    >>> round(po_gp_ucb.simple_regret_bound(regret=0.1, steps=100, beta=4.0, information=5.0,
    ...     noise_variance=0.1, first_constant=1.0, second_constant=1.0), 2)
    3.46

    Args:
      regret: the ``epsilon_ucb`` used to choose the rank.
      steps: ``T``.
      beta: ``beta_T``, of ``delta' = failure / 2``.
      information: ``gamma_T``.
      noise_variance: of an output.
      first_constant: ``C_1``; the paper gives only its order,
        ``O(sigma_y sqrt(sigma_y^2 + noise) (sigma_y^2 / noise + 1))``.
      second_constant: ``C_2``, ``O(L sigma_y^2 / noise)``.
    """
    spread = (second_constant + first_constant * math.sqrt(beta)) ** 2 * math.log(steps) / steps
    gained = beta * information / (steps * math.log1p(1.0 / noise_variance))
    return math.sqrt(regret**2 + 24.0 * spread + 24.0 * gained)


@checks.takes(regrets=checks.vector, steps=checks.size, epsilon=checks.nonnegative_or_infinite)
def replace_one_regret_floor(regrets: ArrayLike, steps: int, epsilon: float) -> float:
    """Lower bound on the mean simple regret of any transform with replace-one ``epsilon``-DP: ours, not the paper's.

    Rows are independent draws. ``epsilon``-DP changes the odds of an unqueried row's value by at most a factor
    ``e^epsilon``, so ``T`` queries hit a set of probability ``p`` with probability at most ``T e^epsilon p``, even
    where the function is known. So the mean simple regret is at least the integral of ``max(0, 1 - T e^epsilon p(s))``
    over ``s``, with ``p(s)`` the share of rows of regret at most ``s``.

    >>> from jaxdpbo.theory import po_gp_ucb
    >>> round(po_gp_ucb.replace_one_regret_floor([0.0] + [1.0] * 999, 10, 1.0), 3)
    0.973

    Args:
      regrets: ``(n,)``, the regret of every row, 0 for the best; the distribution of a row is uniform over these.
      steps: ``T``.
      epsilon: of the transform.
    """
    ordered = np.sort(np.asarray(regrets, np.float64))
    shares = np.arange(1, len(ordered)) / len(ordered)
    missed = np.maximum(0.0, 1.0 - steps * math.exp(min(epsilon, 700.0)) * shares)
    return float(np.sum(np.diff(ordered) * missed))

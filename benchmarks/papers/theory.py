"""Utility bounds of the papers, corrected, as functions of plain numbers. No guarantee rests on them.

Sopa et al. (2025) assume (2.7 to 2.9) that every loss lies in the RKHS of the kernel with norm at most ``rkhs_norm``,
is ``smoothness``-smooth (L) and has gradients of norm at most ``clip_norm`` (B); the step size is constant, at most
``1 / L``, and updates are plain gradient steps. Each bound holds with probability at least ``1 - failure``. Where a
printed bound does not follow from its own proof, the proof's stands here, and the tests refute the printed one:

- Theorem 3.2 and corollary 3.6 print ``2 F_0 L / T``; the proof gives ``2 F_0 / (step_size T)``, which is larger
  unless ``step_size = 1 / L``. On ``L theta^2 / 2`` with a small step the printed bound fails.
- Corollary 3.4 prints ``sqrt(F_T / tau)``; tau-strong convexity gives ``sqrt(2 F_T / tau)``. On ``tau theta^2 / 2``
  with a small step the printed bound fails.

Bounds of Kusner et al. (2015) hold where the events of ``accounting.prior_averaged_constants`` do. They take its
sensitivities, in units of the prior's standard deviation. Theorem 2's proof bounds the largest posterior mean by an
observation; the bound here goes through the confidence bounds, and is about the utility of the released point rather
than its posterior mean.

Bounds of Kharkovskii et al. (2020) are for PO-GP-UCB with the random projection, and do not depend on the paper's
theorem 1 (privacy), which is false.
"""

import math
from collections.abc import Sequence

import numpy as np

from jaxdpbo.types import ArrayLike


def noise_radius(*, clip_norm: float, steps: int, users: int, mu: float, dimension: int, failure: float) -> float:
    """Bound the distance that noise moves a privatised gradient, for all steps at once (Sopa et al., lemma A.3)."""
    deviations = 4.0 * math.sqrt(dimension) + 2.0 * math.sqrt(2.0 * math.log(steps / failure))
    return 2.0 * clip_norm * math.sqrt(steps) / (users * mu) * deviations


def noise_term(*, clip_norm: float, steps: int, users: int, mu: float, dimension: int, failure: float) -> float:
    """``V`` of theorem 3.2: ``M (2 + M / (2 B^2))`` with ``M = B`` times ``noise_radius``."""
    radius = noise_radius(clip_norm=clip_norm, steps=steps, users=users, mu=mu, dimension=dimension, failure=failure)
    return radius * (2.0 * clip_norm + radius / 2.0)


def bias_radius(trace: float, *, rkhs_norm: float) -> float:
    """Bound the distance from the mean clipped gradient to the true one (lemma A.2), for noiseless observations.

    Args:
      trace: ``Tr(grad k_D(theta, theta) grad^T)``, as in ``Release.trace``.
      rkhs_norm: the bound ``C`` on a loss.
    """
    return rkhs_norm * math.sqrt(trace)


def mean_squared_gradient_bound(
    traces: Sequence[float], *, initial_gap: float, step_size: float, rkhs_norm: float, noise: float
) -> float:
    """Bound ``Psi_T``, the mean of the squared gradient norms over the path (theorem 3.2).

    Args:
      traces: one for each of the ``T`` steps.
      initial_gap: ``F_0``, the suboptimality of the start.
      step_size: at most ``1 / L``.
      rkhs_norm: ``C``.
      noise: ``noise_term(...)``.
    """
    return 2.0 * initial_gap / (step_size * len(traces)) + rkhs_norm**2 * float(np.mean(traces)) + 2.0 * noise


def geometric_radius(
    traces: Sequence[float], *, step_size: float, convexity: float, rkhs_norm: float, noise: float
) -> float:
    """``r_geom`` of theorem 3.3, for a ``convexity``-strongly convex (tau) objective."""
    decay = (1.0 - step_size * convexity) ** np.arange(len(traces) - 1, -1, -1)
    return rkhs_norm**2 * step_size / 2.0 * float(decay @ np.asarray(traces)) + noise / convexity


def suboptimality_bound(
    traces: Sequence[float], *, initial_gap: float, step_size: float, convexity: float, rkhs_norm: float, noise: float
) -> float:
    """Bound ``F_T``, the suboptimality of the last iterate (theorem 3.3)."""
    radius = geometric_radius(traces, step_size=step_size, convexity=convexity, rkhs_norm=rkhs_norm, noise=noise)
    return (1.0 - step_size * convexity) ** len(traces) * initial_gap + radius


def distance_bound(suboptimality: float, *, convexity: float) -> float:
    """Bound ``||theta_T - theta*||``, given ``suboptimality_bound(...)`` (corollary 3.4)."""
    return math.sqrt(2.0 * suboptimality / convexity)


def adaptive_mean_squared_gradient_bound(
    *, tolerance: float, steps: int, initial_gap: float, step_size: float, rkhs_norm: float, noise: float
) -> float:
    """Bound ``Psi_T`` for Algorithm 2, with every trace at most ``tolerance``: no ``batch_capped`` (corollary 3.6)."""
    return mean_squared_gradient_bound(
        [tolerance] * steps, initial_gap=initial_gap, step_size=step_size, rkhs_norm=rkhs_norm, noise=noise
    )


def adaptive_suboptimality_bound(
    *,
    tolerance: float,
    steps: int,
    initial_gap: float,
    step_size: float,
    convexity: float,
    rkhs_norm: float,
    noise: float,
) -> float:
    """Bound ``F_T`` for Algorithm 2 (corollary 3.6, second part)."""
    bias = rkhs_norm**2 * tolerance / (2.0 * convexity)
    return (1.0 - step_size * convexity) ** steps * initial_gap + bias + noise / convexity


def point_shortfall(*, candidates: float, beta: float, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound the shortfall in ``f(released) >= f(x*) - shortfall`` (Kusner et al., theorem 2, corrected).

    With probability at least ``1 - share - failure``, ``share`` as in lemma 5.1; ``beta`` is ``beta_{T+1}``.
    """
    return 2.0 * math.sqrt(beta) + selection_shortfall(candidates, sensitivity, epsilon, failure)


def selection_shortfall(candidates: float, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound how far below the best score the exponential mechanism draws, except with probability ``failure``.

    McSherry and Talwar (2007); equation 5.
    """
    return 2.0 * sensitivity / epsilon * (math.log(candidates) - math.log(failure))


def value_error(*, regret: float, noise_gap: float, sensitivity: float, epsilon: float, failure: float) -> float:
    """Bound ``|released - f(x*)|`` by ``Omega + q / 2 + log(1 / failure) sensitivity / epsilon`` (theorems 4, 6 and 8).

    Holds with probability at least ``1 - shares - failure``: the shares of lemma 5.1 and half of the noise's. Theorem 8
    is about the largest evaluated gain: pass ``regret=0``.
    """
    return regret + noise_gap / 2.0 - math.log(failure) * sensitivity / epsilon


def rank_for_distances(rows: int, distortion: float, failure: float) -> int:
    """Least rank ``r >= 8 log(n^2 / failure) / distortion^2`` (Kharkovskii et al., lemma 1).

    At this rank, the projection scales all squared distances between ``n`` rows by factors between ``1 - distortion``
    and ``1 + distortion``, for a ``distortion`` below 1/2.
    """
    return math.ceil(8.0 * math.log(rows**2 / failure) / distortion**2)


def distance_factors(distortion: float, smallest_singular: float, threshold: float) -> tuple[float, float]:
    """Least and largest factor by which squared distances are multiplied (theorem 2).

    ``1 - nu`` and ``(1 + nu) C'``, ``C' = 1 + omega^2 / sigma_min^2`` where ``sigma_min < omega``, else 1.
    """
    raised = 1.0 + (threshold / smallest_singular) ** 2 if smallest_singular < threshold else 1.0
    return 1.0 - distortion, (1.0 + distortion) * raised


def diagonally_dominant(covariance: ArrayLike) -> bool:
    """Return whether ``k_xx >= (sqrt(m - 1) + 1) sum_x' k_xx'`` in every row of ``covariance (m, m)``: definition 3."""
    matrix = np.asarray(covariance)
    diagonal = np.diag(matrix)
    others = matrix.sum(axis=1) - diagonal
    return bool(np.all(diagonal >= (math.sqrt(len(matrix) - 1) + 1.0) * others))


def distortion_for_regret(regret: float, diameter: float, largest_output: float) -> float:
    """``nu = min(regret / (2 sqrt(3) d^2 L), 2 / d^2, 1/2)``, ``d`` the diameter over the lengthscale (theorem 3)."""
    return min(regret / (2.0 * math.sqrt(3.0) * diameter**2 * largest_output), 2.0 / diameter**2, 0.5)


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


def replace_one_regret_floor(regrets: ArrayLike, steps: int, epsilon: float) -> float:
    """Lower bound on the mean simple regret of any transform with replace-one ``epsilon``-DP: ours, not the paper's.

    Rows are independent draws. ``epsilon``-DP changes the odds of an unqueried row's value by at most a factor
    ``e^epsilon``, so ``T`` queries hit a set of probability ``p`` with probability at most ``T e^epsilon p``, even
    where the function is known. So the mean simple regret is at least the integral of ``max(0, 1 - T e^epsilon p(s))``
    over ``s``, with ``p(s)`` the share of rows of regret at most ``s``.

    Args:
      regrets: ``(n,)``, the regret of every row, 0 for the best; the distribution of a row is uniform over these.
      steps: ``T``.
      epsilon: of the transform.
    """
    ordered = np.sort(np.asarray(regrets, np.float64))
    shares = np.arange(1, len(ordered)) / len(ordered)
    missed = np.maximum(0.0, 1.0 - steps * math.exp(min(epsilon, 700.0)) * shares)
    return float(np.sum(np.diff(ordered) * missed))

"""Convergence bounds of Sopa et al. (2025) for DP-GIBO.

All bounds use assumptions 2.7 to 2.9: every loss lies in the RKHS of the kernel with norm at most ``rkhs_norm``, is
``smoothness``-smooth (L) and has gradients of norm at most ``clip_norm`` (B); the step size is constant, at most
``1 / L``, and updates are plain gradient steps. Each bound holds with probability at least ``1 - failure``. The bounds
are about utility: the privacy of a run needs none of them.

Where a printed bound does not follow from its own proof, the proof's bound is implemented, and the tests refute the
printed version:

- Theorem 3.2 and corollary 3.6 print ``2 F_0 L / T``; the proof gives ``2 F_0 / (step_size T)``, which is larger
  unless ``step_size = 1 / L``. On ``L theta^2 / 2`` with a small step the printed bound fails.
- Corollary 3.4 prints ``sqrt(F_T / tau)``; tau-strong convexity gives ``sqrt(2 F_T / tau)``. On ``tau theta^2 / 2``
  with a small step the printed bound fails.
"""

import math
from collections.abc import Sequence

import numpy as np

from jaxdpbo import checks, namespace

__all__ = [
    "adaptive_mean_squared_gradient_bound",
    "adaptive_suboptimality_bound",
    "bias_radius",
    "distance_bound",
    "geometric_radius",
    "mean_squared_gradient_bound",
    "noise_radius",
    "noise_term",
    "suboptimality_bound",
]
__dir__ = namespace.list_public(__name__)


def _positive(name, value):
    return checks.positive(name, value, finite=False)


def _check_step(step_size, convexity):
    """Raise unless the step is at most ``1 / tau``, which ``1 / L`` never exceeds."""
    if step_size * convexity > 1:
        raise ValueError(f"step_size must be at most 1 / convexity = {1 / convexity:g}, got {step_size:g}")


def _traces(name, value):
    traces = checks.vector(name, value)
    if np.any(traces < 0):
        raise ValueError(f"{name} must be at least zero, got {traces.tolist()}")
    return traces.tolist()


@checks.takes(
    clip_norm=checks.positive,
    steps=checks.size,
    users=checks.size,
    mu=_positive,
    dimension=checks.size,
    failure=checks.probability,
)
def noise_radius(*, clip_norm: float, steps: int, users: int, mu: float, dimension: int, failure: float) -> float:
    """Bound the distance that noise moves a privatised gradient, for all steps at once (lemma A.3).

    ``2 B sqrt(T) / (n mu) (4 sqrt(d) + 2 sqrt(2 log(T / failure)))``; 0 at ``mu = inf``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.noise_radius(clip_norm=1.0, steps=10, users=1000, mu=1.0, dimension=2, failure=0.05), 4)
    0.077
    """
    deviations = 4.0 * math.sqrt(dimension) + 2.0 * math.sqrt(2.0 * math.log(steps / failure))
    return 2.0 * clip_norm * math.sqrt(steps) / (users * mu) * deviations


@checks.takes(
    clip_norm=checks.positive,
    steps=checks.size,
    users=checks.size,
    mu=_positive,
    dimension=checks.size,
    failure=checks.probability,
)
def noise_term(*, clip_norm: float, steps: int, users: int, mu: float, dimension: int, failure: float) -> float:
    """``V`` of theorem 3.2: ``M (2 + M / (2 B^2))`` with ``M = B`` times ``noise_radius``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.noise_term(clip_norm=1.0, steps=10, users=1000, mu=1.0, dimension=2, failure=0.05), 4)
    0.1569
    """
    radius = noise_radius(clip_norm=clip_norm, steps=steps, users=users, mu=mu, dimension=dimension, failure=failure)
    return radius * (2.0 * clip_norm + radius / 2.0)


@checks.takes(trace=checks.nonnegative_or_infinite, rkhs_norm=checks.nonnegative_or_infinite)
def bias_radius(trace: float, *, rkhs_norm: float) -> float:
    """Bound the distance from the mean clipped gradient to the true one (lemma A.2): ``rkhs_norm sqrt(trace)``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> dp_gibo.bias_radius(0.25, rkhs_norm=2.0)
    1.0

    Args:
      trace: ``Tr(grad k_D(theta, theta) grad^T)``, as in ``Release.trace``; for noiseless observations.
      rkhs_norm: the bound ``C`` on a loss.
    """
    return rkhs_norm * math.sqrt(trace)


@checks.takes(
    traces=_traces,
    initial_gap=checks.nonnegative_or_infinite,
    step_size=checks.positive,
    rkhs_norm=checks.nonnegative_or_infinite,
    noise=checks.nonnegative_or_infinite,
)
def mean_squared_gradient_bound(
    traces: Sequence[float], *, initial_gap: float, step_size: float, rkhs_norm: float, noise: float
) -> float:
    """Bound ``Psi_T``, the mean of the squared gradient norms over the path (theorem 3.2).

    ``2 F_0 / (step_size T) + C^2 mean(traces) + 2 V``; the module docstring explains the first term.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.mean_squared_gradient_bound([0.1, 0.1], initial_gap=1.0, step_size=0.1,
    ...     rkhs_norm=1.0, noise=0.1), 3)
    10.3

    Args:
      traces: one for each of the ``T`` steps.
      initial_gap: ``F_0``, the suboptimality of the start.
      step_size: at most ``1 / L``.
      rkhs_norm: ``C``.
      noise: ``noise_term(...)``.
    """
    return 2.0 * initial_gap / (step_size * len(traces)) + rkhs_norm**2 * float(np.mean(traces)) + 2.0 * noise


@checks.takes(
    traces=_traces,
    step_size=checks.positive,
    convexity=checks.positive,
    rkhs_norm=checks.nonnegative_or_infinite,
    noise=checks.nonnegative_or_infinite,
)
def geometric_radius(
    traces: Sequence[float], *, step_size: float, convexity: float, rkhs_norm: float, noise: float
) -> float:
    """``r_geom`` of theorem 3.3, for a ``convexity``-strongly convex (tau) objective.

    ``C^2 step_size / 2 sum_t (1 - step_size tau)^(T-1-t) trace_t + V / tau``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.geometric_radius([0.1, 0.1], step_size=0.1, convexity=1.0, rkhs_norm=1.0, noise=0.1), 3)
    0.11
    """
    _check_step(step_size, convexity)
    decay = (1.0 - step_size * convexity) ** np.arange(len(traces) - 1, -1, -1)
    return rkhs_norm**2 * step_size / 2.0 * float(decay @ np.asarray(traces)) + noise / convexity


@checks.takes(
    traces=_traces,
    convexity=checks.positive,
    initial_gap=checks.nonnegative_or_infinite,
    step_size=checks.positive,
    rkhs_norm=checks.nonnegative_or_infinite,
    noise=checks.nonnegative_or_infinite,
)
def suboptimality_bound(
    traces: Sequence[float],
    *,
    initial_gap: float,
    step_size: float,
    convexity: float,
    rkhs_norm: float,
    noise: float,
) -> float:
    """Bound ``F_T``, the suboptimality of the last iterate (theorem 3.3).

    ``(1 - step_size tau)^T F_0 + r_geom``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.suboptimality_bound([0.1, 0.1], initial_gap=1.0, step_size=0.1, convexity=1.0,
    ...     rkhs_norm=1.0, noise=0.1), 3)
    0.92
    """
    radius = geometric_radius(traces, step_size=step_size, convexity=convexity, rkhs_norm=rkhs_norm, noise=noise)
    return (1.0 - step_size * convexity) ** len(traces) * initial_gap + radius


@checks.takes(suboptimality=checks.nonnegative_or_infinite, convexity=checks.positive)
def distance_bound(suboptimality: float, *, convexity: float) -> float:
    """Bound ``||theta_T - theta*||`` by ``sqrt(2 F_T / tau)``, given ``suboptimality_bound(...)`` (corollary 3.4).

    >>> from jaxdpbo.theory import dp_gibo
    >>> dp_gibo.distance_bound(0.5, convexity=1.0)
    1.0
    """
    return math.sqrt(2.0 * suboptimality / convexity)


@checks.takes(
    tolerance=checks.nonnegative_or_infinite,
    steps=checks.size,
    initial_gap=checks.nonnegative_or_infinite,
    step_size=checks.positive,
    rkhs_norm=checks.nonnegative_or_infinite,
    noise=checks.nonnegative_or_infinite,
)
def adaptive_mean_squared_gradient_bound(
    *, tolerance: float, steps: int, initial_gap: float, step_size: float, rkhs_norm: float, noise: float
) -> float:
    """Bound ``Psi_T`` for Algorithm 2, with every trace at most ``tolerance`` (corollary 3.6, first part).

    Theorem 3.2, each trace set to ``tolerance``. Does not apply to a run with ``Info.batch_capped``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.adaptive_mean_squared_gradient_bound(tolerance=0.1, steps=100, initial_gap=1.0,
    ...     step_size=0.1, rkhs_norm=1.0, noise=0.1), 3)
    0.5
    """
    tolerance = checks.nonnegative("tolerance", tolerance)
    return mean_squared_gradient_bound(
        [tolerance] * steps, initial_gap=initial_gap, step_size=step_size, rkhs_norm=rkhs_norm, noise=noise
    )


@checks.takes(
    tolerance=checks.nonnegative_or_infinite,
    steps=checks.size,
    convexity=checks.positive,
    initial_gap=checks.nonnegative_or_infinite,
    step_size=checks.positive,
    rkhs_norm=checks.nonnegative_or_infinite,
    noise=checks.nonnegative_or_infinite,
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
    """Bound ``F_T`` for Algorithm 2 (corollary 3.6, second part).

    ``(1 - step_size tau)^T F_0 + C^2 tolerance / (2 tau) + V / tau``.

    >>> from jaxdpbo.theory import dp_gibo
    >>> round(dp_gibo.adaptive_suboptimality_bound(tolerance=0.1, steps=100, initial_gap=1.0,
    ...     step_size=0.1, convexity=1.0, rkhs_norm=1.0, noise=0.1), 3)
    0.15
    """
    _check_step(step_size, convexity)
    bias = rkhs_norm**2 * tolerance / (2.0 * convexity)
    return (1.0 - step_size * convexity) ** steps * initial_gap + bias + noise / convexity

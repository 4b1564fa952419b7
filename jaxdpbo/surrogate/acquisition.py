"""Acquisition functions: upper confidence bounds, expected improvement, and hypervolume improvement of a Pareto front.

All are to be maximised. Expected improvement is 0, without a gradient, on plateaus of most of a box: prefer its
logarithm. A front has two minimised objectives, independent normals of ``mean (2,)`` and
``deviation (2,)``; pass the front as ``surrogate.undominated_strips``. Its acquisition functions are exact, and 0 where
no improvement is possible.
"""

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, logsumexp
from jax.scipy.stats import norm

from jaxdpbo.surrogate import gp
from jaxdpbo.surrogate.entry import expect_shapes
from jaxdpbo.surrogate.pareto import Strips
from jaxdpbo.surrogate.preprocessing import square_root

TERMS = 8  # of the asymptotic series of the Mills ratio
SMOOTH_GAIN, SMOOTH_MAXIMUM = 1e-6, 1e-2  # temperatures of qLogEI, in units of the values, and of logarithms


def ucb(
    model: gp.GPModel, factorization: gp.Factorization, values: jax.Array, points: jax.Array, beta: jax.Array | float
) -> jax.Array:
    """Upper confidence bound ``mean + sqrt(beta) deviation`` at ``points (k, d)``, to be maximised: shape ``(k,)``.

    Srinivas, Krause, Kakade and Seeger (2010), "Gaussian process optimization in the bandit setting", algorithm 1.

    Args:
      model: the process before any evaluation.
      factorization: the evaluated points.
      values: ``(m,)`` utilities; masked rows are ignored.
      points: where to evaluate the bound.
      beta: from a schedule below.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(0.5, 1), noise_variance=jnp.asarray(0.01))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0], [1.0]]), jnp.ones(2, bool))
    >>> points = jnp.array([[0.0], [0.25]])
    >>> print(np.asarray(surrogate.ucb(model, factorization, jnp.array([1.0, -1.0]), points, beta=4.0)).round(1))
    [1.2 1.5]
    """
    return upper_bound(*gp.predict(model, factorization, values, points), beta)


def upper_bound(mean: jax.Array, variance: jax.Array, beta: jax.Array | float) -> jax.Array:
    """Upper confidence bound ``mean + sqrt(beta) deviation``, elementwise."""
    smallest = jnp.finfo(variance.dtype).tiny  # a square root has no derivative at 0
    return mean + jnp.sqrt(beta * jnp.maximum(variance, smallest))


def beta_of_candidates(t: jax.Array | int, candidates: int, delta: jax.Array | float) -> jax.Array:
    """``2 log(c t^2 pi^2 / (6 delta))`` for step ``t = 1, 2, ...`` over ``c`` candidates: Srinivas et al., theorem 1.

    If the objective was drawn from the prior, then with probability ``1 - delta`` it lies within ``sqrt(beta)``
    deviations of the posterior mean, everywhere and at every step.

    >>> from jaxdpbo import surrogate
    >>> round(float(surrogate.beta_of_candidates(t=1, candidates=100, delta=0.1)), 1)
    14.8
    """
    t = jnp.asarray(t, jnp.result_type(float))
    return 2.0 * jnp.log(candidates * jnp.square(t) * (jnp.pi**2 / 6.0) / delta)


def beta_of_box(t: jax.Array | int, dimension: int) -> jax.Array:
    """``0.2 d log(2 t)`` for step ``t = 1, 2, ...``: the usual choice over a box in practice, without a regret bound.

    Kandasamy, Schneider and Poczos (2015), "High dimensional Bayesian optimisation and bandits via additive models".
    Schedules with a proof (Srinivas et al., theorem 2) explore too much to be useful.

    >>> from jaxdpbo import surrogate
    >>> round(float(surrogate.beta_of_box(1, 2)), 3)
    0.277
    """
    return 0.2 * dimension * jnp.log(2.0 * jnp.asarray(t, jnp.result_type(float)))


def expected_improvement(mean: jax.Array, variance: jax.Array, best: jax.Array) -> jax.Array:
    """Expected improvement ``E max(f - best, 0)`` for ``f`` normal with ``mean`` and ``variance``, elementwise.

    To be maximised. ``max(mean - best, 0)`` where the variance is 0. Mockus, Tiesis and Zilinskas (1978).

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import surrogate
    >>> means, variances = jnp.array([0.0, 0.5, 0.5]), jnp.array([1.0, 1.0, 0.0])
    >>> print(np.asarray(surrogate.expected_improvement(means, variances, jnp.asarray(0.0))).round(2))
    [0.4 0.7 0.5]

    Raises:
      ValueError: ``mean``, ``variance`` and ``best`` of different shapes, at trace time; ``best`` may be one number.
    """
    _expect_alike(mean, variance, best)
    gain = mean - best
    deviation = jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
    z = gain / deviation
    return jnp.where(variance > 0, gain * norm.cdf(z) + deviation * norm.pdf(z), jnp.maximum(gain, 0.0))


def _expect_alike(mean, variance, best):
    shape = jnp.shape(mean)
    if jnp.shape(variance) != shape:
        raise ValueError(f"variance must have the shape of mean, {shape}, got {jnp.shape(variance)}")
    if jnp.shape(best) not in ((), shape):
        raise ValueError(f"best must have shape () or the shape of mean, {shape}, got {jnp.shape(best)}")


def log_expected_improvement(mean: jax.Array, variance: jax.Array, best: jax.Array) -> jax.Array:
    """``log expected_improvement``, elementwise, with a useful gradient where the improvement underflows.

    Ament, Daulton, Eriksson, Balandat and Bakshy (2023), "Unexpected improvements to expected improvement for Bayesian
    optimization", section 4.1. A variance of 0 counts as the root of the smallest normal number.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import surrogate
    >>> means, variances = jnp.array([0.0, -10.0, -100.0]), jnp.ones(3)
    >>> print(np.asarray(surrogate.log_expected_improvement(means, variances, jnp.asarray(0.0))).round(1))
    [-9.0000e-01 -5.5600e+01 -5.0101e+03]

    Args:
      mean: of the latent function.
      variance: of the shape of ``mean``.
      best: the largest value so far.

    Raises:
      ValueError: ``mean``, ``variance`` and ``best`` of different shapes, at trace time; ``best`` may be one number.
    """
    _expect_alike(mean, variance, best)
    deviation = jnp.sqrt(jnp.maximum(variance, math.sqrt(jnp.finfo(jnp.result_type(float, variance)).tiny)))
    return _log_improvement((mean - best) / deviation) + jnp.log(deviation)


def _log_improvement(z):
    """``log(phi(z) + z Phi(z))``, by three formulas; each branch sees only arguments where it is finite.

    Below -1 the sum cancels: it is ``phi(z) (1 - |z| Phi(z) / phi(z))``, with the Mills ratio by its logarithm, and far
    out, where the difference cancels too, by its asymptotic series.
    """
    far = -18.0 if z.dtype == jnp.float64 else -7.0
    near, outside = jnp.where(z > -1.0, z, 0.0), jnp.where(z > -1.0, -1.0, z)
    low = jnp.where(z < far, -1.0, outside)
    density = -0.5 * jnp.square(outside) - 0.5 * math.log(2 * math.pi)
    ratio = -low * jnp.exp(log_ndtr(low) + 0.5 * jnp.square(low) + 0.5 * math.log(2 * math.pi))
    inverse = 1.0 / jnp.square(jnp.where(z < far, z, far))
    series = jnp.ones_like(z)
    for term in range(TERMS, 0, -1):  # 1/z^2 (1 - 3/z^2 (1 - 5/z^2 (...)))
        series = 1.0 - (2 * term + 1) * inverse * series
    below = density + jnp.where(z < far, jnp.log(inverse * series), jnp.log1p(-ratio))
    return jnp.where(z > -1.0, jnp.log(norm.pdf(near) + near * norm.cdf(near)), below)


def q_log_expected_improvement(
    mean: jax.Array, covariance: jax.Array, best: jax.Array, normals: jax.Array
) -> jax.Array:
    """``log E max_i max(f_i - best, 0)`` of ``q`` points together: qLogEI, a scalar, smoothed for its gradient.

    Ament et al. (2023), section 4.2 and appendix A: the gain and the maximum over the points are smoothed, with tails
    that decay as a power, so that no gradient vanishes. Bring the values to standard units first. Draw ``normals`` once
    and keep them while you move the points (Balandat et al. 2020).

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> factorization, values = surrogate.condition(model, jnp.array([[0.0], [1.0]])), jnp.array([0.0, 1.0])
    >>> normals = jax.random.normal(jax.random.key(0), (128, 2))
    >>> def log_gain(points):
    ...     return surrogate.q_log_expected_improvement(
    ...         *surrogate.joint_posterior(model, factorization, values, points), jnp.max(values), normals)
    >>> jax.grad(log_gain)(jnp.array([[0.5], [2.0]])).shape
    (2, 1)

    Args:
      mean: ``(q,)``, from ``joint_posterior``.
      covariance: ``(q, q)``.
      best: the largest value so far.
      normals: ``(s, q)`` standard normal numbers.

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    expect_shapes(mean=(mean, "q"), covariance=(covariance, "q q"), normals=(normals, "s q"))
    gains = mean[None] + gp.matmul(normals, _root(covariance).T) - best
    logarithms = SMOOTH_MAXIMUM * logsumexp(_log_gain(gains) / SMOOTH_MAXIMUM, axis=1)
    return logsumexp(logarithms) - math.log(normals.shape[0])


def _root(covariance):
    """Cholesky factor ``(q, q)`` that exists for a covariance with rounding errors, such as that of two equal points.

    A pivot that rounding made negative counts as 0, and a covariance is at most the product of the deviations.
    """
    columns, rest = [], covariance
    for number in range(covariance.shape[0]):
        deviation = square_root(jnp.diagonal(rest))
        pivot = jnp.where(deviation[number] > 0, deviation[number], 1.0)
        column = jnp.where(deviation[number] > 0, jnp.clip(rest[:, number] / pivot, -deviation, deviation), 0.0)
        columns.append(column)
        rest = rest - column[:, None] * column[None, :]
    return jnp.stack(columns, axis=1)


def _log_gain(gain):
    """Logarithm of a smooth ``max(gain, 0)``, which decays as a power."""
    scaled = gain / SMOOTH_GAIN
    return jnp.log(SMOOTH_GAIN * (jax.nn.softplus(scaled) + 0.1 / (1.0 + jnp.square(scaled))))


def probability_of_improvement(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """Probability of a point being below the reference and not dominated.

    Couckuyt, Deschrijver and Dhaene (2014).

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> front = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> regions = surrogate.undominated_strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
    >>> mean, deviation = jnp.array([0.5, 0.5]), jnp.array([0.1, 0.1])
    >>> round(float(surrogate.probability_of_improvement(mean, deviation, regions)), 2)
    1.0
    """
    first, second = _edge_values(_below, mean, deviation, strips)
    return jnp.sum(_strip_values(first) * second)


def gained_hypervolume(value: jax.Array, strips: Strips) -> jax.Array:
    """Hypervolume that a point of exactly ``value (2,)`` would add to the front."""
    width = jnp.maximum(strips.right - jnp.maximum(strips.left, value[0]), 0.0)
    return jnp.sum(width * jnp.maximum(strips.height - value[1], 0.0))


def hvpoi(mean: jax.Array, deviation: jax.Array, strips: Strips, gain: jax.Array) -> jax.Array:
    """Hypervolume gained at the mean, times the probability of improvement: Avent et al. (2020), equation 6.

    The probability is the same in all increasing transforms of the objectives; the ``gain ()`` is not. Compute ``gain``
    with ``gained_hypervolume`` of the mean, in the units that matter.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> front = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> regions = surrogate.undominated_strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
    >>> mean, deviation = jnp.array([0.5, 0.5]), jnp.array([0.1, 0.1])
    >>> round(float(surrogate.hvpoi(mean, deviation, regions, jnp.asarray(0.25))), 2)
    0.25
    """
    expect_shapes(gain=(gain, ""))
    return gain * probability_of_improvement(mean, deviation, strips)


def log_hvpoi(mean: jax.Array, deviation: jax.Array, strips: Strips, gain: jax.Array) -> jax.Array:
    """``log hvpoi``; where the mean gains nothing, a large negative number that grows with the probability.

    ``hvpoi`` is 0 on plateaus, where it has no gradient.
    """
    return _log(probability_of_improvement(mean, deviation, strips)) + _log(gain)


def expected_hypervolume_improvement(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """Expected value of ``gained_hypervolume`` (Yang, Emmerich, Deutz and Back 2019, for minimisation).

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> front = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> regions = surrogate.undominated_strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
    >>> mean, deviation = jnp.array([0.5, 0.5]), jnp.array([0.1, 0.1])
    >>> round(float(surrogate.expected_hypervolume_improvement(mean, deviation, regions)), 2)
    0.25
    """
    first, second = _edge_values(_shortfall, mean, deviation, strips)
    return jnp.sum(_strip_values(first) * second)


def log_ehvi(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """``log expected_hypervolume_improvement``, finite."""
    return _log(expected_hypervolume_improvement(mean, deviation, strips))


def _log(value):
    return jnp.log(jnp.maximum(value, jnp.finfo(value.dtype).tiny))


def _edge_values(function, mean, deviation, strips):
    """Evaluate ``function`` at right edges of the first objective and at heights of the second, in one call."""
    expect_shapes(mean=(mean, "2"), deviation=(deviation, "2"), right=(strips.right, "n"), height=(strips.height, "n"))
    edges = jnp.stack([strips.right, strips.height])
    return function(edges, mean[:, None], deviation[:, None])


def _strip_values(right):
    """Differences between strips: each begins where the previous ends, and the first at -inf with value 0."""
    return jnp.diff(right, prepend=jnp.zeros(1, right.dtype))


def _below(edge, mean, deviation):
    """``P(Y < edge)``."""
    return norm.cdf((edge - mean) / deviation)


def _shortfall(edge, mean, deviation):
    """``E max(edge - Y, 0)``."""
    scaled = (edge - mean) / deviation
    return (edge - mean) * norm.cdf(scaled) + deviation * norm.pdf(scaled)

"""Acquisition functions: upper confidence bounds, expected improvement, and hypervolume improvement of a Pareto front.

All are to be maximised. A front has two minimised objectives, independent normals of ``mean (2,)`` and
``deviation (2,)``; pass the front as ``surrogate.strips``. Its acquisition functions are exact, and 0 where no
improvement is possible.
"""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from jaxdpbo.surrogate import gp
from jaxdpbo.surrogate.pareto import Strips


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
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary(0.5, dimension=1), noise_variance=jnp.asarray(0.01))
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
    """
    gain = mean - best
    deviation = jnp.sqrt(jnp.where(variance > 0, variance, 1.0))
    z = gain / deviation
    return jnp.where(variance > 0, gain * norm.cdf(z) + deviation * norm.pdf(z), jnp.maximum(gain, 0.0))


def probability_of_improvement(mean: jax.Array, deviation: jax.Array, strips: Strips) -> jax.Array:
    """Probability of a point being below the reference and not dominated.

    Couckuyt, Deschrijver and Dhaene (2014).

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> front = jnp.array([[0.0, 1.0], [1.0, 0.0]])
    >>> regions = surrogate.strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
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
    >>> regions = surrogate.strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
    >>> mean, deviation = jnp.array([0.5, 0.5]), jnp.array([0.1, 0.1])
    >>> round(float(surrogate.hvpoi(mean, deviation, regions, jnp.asarray(0.25))), 2)
    0.25
    """
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
    >>> regions = surrogate.strips(front, jnp.ones(2, bool), jnp.array([2.0, 2.0]))
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

"""Marginal likelihood of a two-task Gaussian process, by the correlation of the tasks: Kusner et al. (2015), section 6.

``[v; v'] ~ N(0, K1 (x) K2 + noise I)`` with ``K1 = [[1, r], [r, 1]]`` (equation 14). Sum and difference decouple: with
``s = (v + v') / sqrt(2)`` and ``d = (v - v') / sqrt(2)``,

  ``log p(v, v') = log N(s; 0, (1 + r) K2 + noise I) + log N(d; 0, (1 - r) K2 + noise I)``,

and one eigendecomposition of ``K2`` serves every ``r`` and every pair.

Use this likelihood to estimate ``r``, the ``correlation`` assumed by DP-GP-UCB, from public data.
"""

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate import gp, kernels


def two_task_log_likelihood(
    model: gp.GPModel, points: jax.Array, first: jax.Array, second: jax.Array, correlations: jax.Array
) -> jax.Array:
    """``log p(first, second)`` of each pair of tasks and each correlation, ``(p, r)``. Reads values: NOT private.

    Args:
      model: the process of one task, and the noise, positive.
      points: ``(k, d)``, where both tasks were observed.
      first: ``(p, k)`` values of the first task of each pair.
      second: ``(p, k)`` values of the other.
      correlations: ``(r,)``, in [-1, 1].
    """
    eigenvalues, vectors = jnp.linalg.eigh(kernels.gram(model.kernel, model.params, points, points))
    eigenvalues = jnp.maximum(eigenvalues, 0.0)
    # Half of the squared coordinates: sum and difference are divided by sqrt(2).
    summed = 0.5 * jnp.square(gp.matmul(first + second, vectors))
    differed = 0.5 * jnp.square(gp.matmul(first - second, vectors))

    def density(correlation):
        total = jnp.zeros(first.shape[0], summed.dtype)
        for squares, scale in ((summed, 1.0 + correlation), (differed, 1.0 - correlation)):
            variances = scale * eigenvalues + model.noise_variance
            total -= 0.5 * (jnp.sum(squares / variances[None], axis=1) + jnp.sum(jnp.log(2.0 * jnp.pi * variances)))
        return total

    return jax.vmap(density, out_axes=1)(correlations)

"""Zero-mean Gaussian process over a finite set: the mean and the variance of every candidate, updated in place.

For fixed candidates, one evaluation changes mean and variance by one row of a Cholesky factorisation, in O(m c),
without any solve: row ``t`` of ``cross`` is the part of ``L^-1 k(D, candidates)`` added by evaluation ``t``, and

  ``mean += row (value - mean[at]) / sqrt(variance[at] + noise)``,  ``variance -= row^2``.

Rasmussen and Williams (2006), algorithm 2.1; Kusner et al. (2015), equation 2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate import gp, kernels

CACHED = 2**18  # numbers of ``cross`` up to which reading the unused rows costs nothing
ROWS = 5  # rows read together above CACHED


class Posterior(NamedTuple):
    """Posterior at ``c`` candidates after some of ``m`` evaluations.

    Attributes:
      columns: ``(d, c)``, the candidates.
      mean: ``(c,)``.
      variance: ``(c,)``, of the latent function.
      cross: ``(m, c)``, the whitened covariance of the evaluations and the candidates; zero rows from ``used`` on.
      used: ``()``, number of rows used.
    """

    columns: jax.Array
    mean: jax.Array
    variance: jax.Array
    cross: jax.Array
    used: jax.Array


def prior(model: gp.GPModel, candidates: jax.Array, capacity: int) -> Posterior:
    """Prior at ``candidates (c, d)``, with room for ``capacity`` evaluations.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import kernels, surrogate
    >>> from jaxdpbo.surrogate import finite_gp
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(0.5, 1), noise_variance=jnp.asarray(0.0))
    >>> posterior = finite_gp.prior(model, jnp.array([[0.0], [0.5], [1.0]]), capacity=2)
    >>> posterior = finite_gp.observe(model, posterior, row=jnp.asarray(1), value=jnp.asarray(2.0))
    >>> print(np.asarray(posterior.mean).round(2), np.asarray(posterior.variance).round(2))
    [1.21 2.   1.21] [0.63 0.   0.63]
    """
    variance = kernels.diagonal(model.kernel, model.params, candidates)
    return Posterior(
        columns=candidates.T,
        mean=jnp.zeros_like(variance),
        variance=variance,
        cross=jnp.zeros((capacity, variance.shape[0]), variance.dtype),
        used=jnp.zeros((), jnp.int32),
    )


def observe(
    model: gp.GPModel, posterior: Posterior, row: jax.Array, value: jax.Array, *, when: jax.Array | bool = True
) -> Posterior:
    """Update the posterior with ``value ()`` at candidate ``row ()``; unchanged where not ``when``, or full.

    A noise variance of 0 means an exact observation. A candidate with variance under ``gp.jitter`` of its prior
    variance is then already known (a repeat, for example), and is not observed again.
    """
    capacity = posterior.cross.shape[0]
    here = posterior.columns[:, row]
    remaining = posterior.variance[row]
    is_known = (model.noise_variance == 0) & (
        remaining <= gp.jitter(value.dtype) * model.kernel(model.params, here, here)
    )
    pivot = jnp.where(is_known, 1.0, remaining + model.noise_variance)
    learn = when & ~is_known & (posterior.used < capacity)

    covariance = kernels.row(model.kernel, model.params, here, posterior.columns) - _explained_covariance(
        posterior, row
    )
    added = jnp.where(learn, covariance * jax.lax.rsqrt(pivot), 0.0)
    surprise = jnp.where(learn, (value - posterior.mean[row]) * jax.lax.rsqrt(pivot), 0.0)
    return posterior._replace(
        mean=posterior.mean + added * surprise,
        variance=jnp.maximum(posterior.variance - jnp.square(added), 0.0),
        cross=gp.write(posterior.cross, added[None], posterior.used, learn),
        used=jnp.where(learn, posterior.used + 1, posterior.used),
    )


def _explained_covariance(posterior, row):
    """Covariance ``(c,)`` of candidate ``row`` explained by the evaluations: ``cross[:, row]^T cross``."""
    weights = posterior.cross[:, row]
    if posterior.cross.size <= CACHED:
        return gp.matmul(weights, posterior.cross)

    def add(block, total):
        rows = (block * ROWS + place for place in range(ROWS))
        return total + sum(jnp.where(at < posterior.used, weights[at], 0.0) * posterior.cross[at] for at in rows)

    return jax.lax.fori_loop(0, -(-posterior.used // ROWS), add, jnp.zeros_like(posterior.mean))

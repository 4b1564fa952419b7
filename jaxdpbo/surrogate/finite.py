"""A zero-mean Gaussian process over a finite set: the mean and the variance of every candidate, kept up to date.

Where the candidates are fixed, one evaluation changes them by one row of a Cholesky factorisation, in O(m c), and
nothing is ever solved again: row ``t`` of ``cross`` is what evaluation ``t`` added to ``L^-1 k(D, candidates)``, and

  ``mean += row (value - mean[at]) / sqrt(variance[at] + noise)``,  ``variance -= row^2``.

Rasmussen and Williams (2006), algorithm 2.1; Kusner et al. (2015), equation 2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate import gp, kernels


class Belief(NamedTuple):
    """What is believed of ``c`` candidates after some of ``m`` evaluations.

    Attributes:
      mean: ``(c,)``.
      variance: ``(c,)``, of the latent function.
      cross: ``(m, c)``, the whitened covariance of the evaluations and the candidates; zero rows from ``used`` on.
      used: ``()`` rows used.
    """

    mean: jax.Array
    variance: jax.Array
    cross: jax.Array
    used: jax.Array


def unseen(prior: gp.Prior, candidates: jax.Array, capacity: int) -> Belief:
    """Before any evaluation, with room for ``capacity`` of them."""
    variance = kernels.diagonal(prior.kernel, prior.params, candidates)
    return Belief(
        mean=jnp.zeros_like(variance),
        variance=variance,
        cross=jnp.zeros((capacity, variance.shape[0]), variance.dtype),
        used=jnp.zeros((), jnp.int32),
    )


def observe(
    prior: gp.Prior,
    candidates: jax.Array,
    belief: Belief,
    row: jax.Array,
    value: jax.Array,
    *,
    when: jax.Array | bool = True,
) -> Belief:
    """The belief after ``value ()`` was observed at candidate ``row ()``; where not ``when``, or full, as it was.

    A noise variance of 0 means an exact observation. A candidate whose variance is under ``gp.jitter`` of its prior
    variance is then known already, a repeat among them: it is not learnt again.
    """
    capacity = belief.cross.shape[0]
    here = jax.lax.dynamic_slice_in_dim(candidates, row, 1)
    remaining = belief.variance[row]
    known = (prior.noise_variance == 0) & (remaining <= gp.jitter(value.dtype) * _diagonal(prior, here))
    pivot = jnp.where(known, 1.0, remaining + prior.noise_variance)
    learn = when & ~known & (belief.used < capacity)

    seen = gp.matmul(belief.cross[:, row], belief.cross)
    covariance = kernels.gram(prior.kernel, prior.params, here, candidates)[0] - seen
    added = jnp.where(learn, covariance * jax.lax.rsqrt(pivot), 0.0)
    surprise = jnp.where(learn, (value - belief.mean[row]) * jax.lax.rsqrt(pivot), 0.0)
    return Belief(
        mean=belief.mean + added * surprise,
        variance=jnp.maximum(belief.variance - jnp.square(added), 0.0),
        cross=gp.write(belief.cross, added[None], belief.used, learn),
        used=jnp.where(learn, belief.used + 1, belief.used),
    )


def _diagonal(prior, points):
    return kernels.diagonal(prior.kernel, prior.params, points)[0]

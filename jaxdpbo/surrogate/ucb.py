"""Upper confidence bounds, and how wide the field makes them."""

import jax
import jax.numpy as jnp

from jaxdpbo.surrogate import gp


def ucb(
    prior: gp.Prior, posterior: gp.Posterior, values: jax.Array, points: jax.Array, beta: jax.Array | float
) -> jax.Array:
    """``mean + sqrt(beta) deviation`` at ``points (k, d)``, to be maximised: shape ``(k,)``.

    Srinivas, Krause, Kakade and Seeger (2010), "Gaussian process optimization in the bandit setting", algorithm 1.

    Args:
      prior: the process before any evaluation.
      posterior: the evaluated points.
      values: ``(m,)`` utilities; masked rows are ignored.
      points: where.
      beta: of a schedule below.
    """
    mean, variance = gp.predict(prior, posterior, values, points)
    smallest = jnp.finfo(variance.dtype).tiny  # a root has no slope at 0
    return mean + jnp.sqrt(beta * jnp.maximum(variance, smallest))


def beta_of_candidates(t: jax.Array | int, candidates: int, delta: jax.Array | float) -> jax.Array:
    """``2 log(c t^2 pi^2 / (6 delta))`` for step ``t = 1, 2, ...`` over ``c`` candidates: Srinivas et al., theorem 1.

    With probability ``1 - delta`` the objective lies within ``sqrt(beta)`` deviations of the mean, everywhere and at
    every step, if it was drawn from the prior.
    """
    t = jnp.asarray(t, jnp.result_type(float))
    return 2.0 * jnp.log(candidates * jnp.square(t) * (jnp.pi**2 / 6.0) / delta)


def beta_of_box(t: jax.Array | int, dimension: int) -> jax.Array:
    """``0.2 d log(2 t)`` for step ``t = 1, 2, ...``: what is used over a box in practice; no bound rests on it.

    Kandasamy, Schneider and Poczos (2015), "High dimensional Bayesian optimisation and bandits via additive models",
    the schedules with a proof (Srinivas et al., theorem 2) explore too much to be of use.
    """
    return 0.2 * dimension * jnp.log(2.0 * jnp.asarray(t, jnp.result_type(float)))

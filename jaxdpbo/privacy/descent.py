"""Projected descent along privatised gradients: what DP-GIBO and DP-GD do once each has its mean clipped gradient.

``mu``-GDP over ``T`` steps is ``mu / sqrt(T)`` a step (Dong et al. 2022, corollary 3.3), and replacing one of ``n``
users moves a mean of vectors of norm at most ``B`` by at most ``2 B / n``: the noise of a step has standard deviation
``2 B sqrt(T) / (n mu)`` (Sopa et al. 2025, Algorithm 1, line 8).
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo import _checks
from jaxdpbo.privacy import guarantee, mechanisms

OUTPUTS = ("last", "last_half_mean")
NOISES = ("none", "float")


def budget(mu: float, noise: str, dtype: Any) -> float:
    """A checked ``mu``, ``inf`` for none, as ``dtype`` holds it.

    Raises:
      ValueError: ``mu`` not positive, or finite with ``noise="none"``.
    """
    mu = _checks.positive("mu", mu, finite=False, dtype=dtype)
    if _checks.choice("noise", noise, NOISES) == "none" and mu != float("inf"):
        raise ValueError(f"mu must be inf with noise='none', got {mu}")
    return mu


def privatized(key: jax.Array, config: Any, mean: jax.Array) -> jax.Array:
    """A mean ``(d,)`` over users, each clipped to ``clip_norm``, with the noise of one of ``steps`` steps.

    Formal guarantee: ``mu / sqrt(T)``-GDP for replace-one on the users, for ideal real-number noise; ``mean`` exactly
    where ``mu = inf`` or ``noise`` is "none" (which ``budget`` allows at ``mu = inf`` alone).

    Args:
      key: for the noise; used once.
      config: with the fields ``clip_norm``, ``mu``, ``steps``, ``users``, ``noise``.
      mean: of ``n`` clipped vectors.
    """
    if config.noise == "none":
        return mean
    return mechanisms.gaussian(key, mean, 2.0 * config.clip_norm * config.steps**0.5 / (config.users * config.mu))


def move(config: Any, gradient: jax.Array, memory: Any, theta: jax.Array) -> tuple[jax.Array, Any]:
    """The next iterate ``(d,)``, inside the box, and the optimiser's memory: post-processing of ``gradient (d,)``.

    ``config`` has the fields ``optimizer``, ``step_size`` and ``bounds``.
    """
    updates, memory = config.optimizer(config.step_size).update(gradient, memory, theta)
    return jnp.clip(theta + jnp.asarray(updates), config.bounds[0], config.bounds[1]), memory


def answer(path: jax.Array, step: jax.Array, output: str) -> jax.Array:
    """The point ``(d,)`` to name, of ``path (T + 1, d)`` after ``step`` steps.

    "last", or "last_half_mean": the mean of the iterates after the first half.
    """
    if output == "last":
        return path[step]
    row = jnp.arange(path.shape[0])
    counted = (row <= step) & ((row > step // 2) | (step == 0))
    return jnp.sum(jnp.where(counted[:, None], path, 0), axis=0) / jnp.sum(counted)


def statement(mu: jax.Array, protects: str) -> guarantee.Guarantee:
    """``mu``-GDP for replace-one on the users; none at ``mu = inf``.

    Raises:
      ValueError: ``mu`` of a stacked config; take one.
    """
    if mu.ndim:
        raise ValueError(f"privacy takes one config, got mu of shape {mu.shape}")
    if jnp.isinf(mu):
        return guarantee.no_guarantee(protects, "mu is infinite: no noise was added")
    return guarantee.guarantee(
        "gdp",
        float(mu),
        "replace_one",
        protects,
        holds_if=(guarantee.IDEAL_NOISE, guarantee.PUBLIC_CONFIG, guarantee.SEPARABLE_LOSSES),
    )

"""Projected descent along privatised gradients: what DP-GIBO and DP-GD do once each has the sum of clipped gradients.

``mu``-GDP over ``T`` steps is ``mu / sqrt(T)`` a step (Dong et al. 2022, corollary 3.3), and replacing one of ``n``
users moves a mean of vectors of norm at most ``B`` by at most ``2 B / n``: the noise of a step has standard deviation
``2 B sqrt(T) / (n mu)`` (Sopa et al. 2025, Algorithm 1, line 8). Exact noise is at most 4 % wider, see ``calibration``.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo.privacy import clipping, mechanisms

OUTPUTS = ("last", "last_half_mean")


def privatized(key: jax.Array, config: Any, total: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean ``(d,)`` over users, each clipped to ``clip_norm``, with the noise of one of ``steps`` steps.

    Formal guarantee: the part of one of ``T`` steps in what ``calibration.statement`` says of all; none where
    ``noise`` is "none" or ``mu = inf``.

    Args:
      key: for the noise; used once.
      config: with the fields ``clip_norm``, ``mu``, ``radius``, ``sigma``, ``steps``, ``users``, ``noise``.
      total: ``(d,)``, of ``clipping.summed`` with ``calibration.grid(config)``.

    Returns:
      The noisy mean, and the raw one.
    """
    if config.noise == "exact":
        step = clipping.grid_step(config.clip_norm, config.radius, total.shape[0]) / config.users
        noisy = total + mechanisms.discrete_gaussian(key, total.shape, config.sigma)
        return noisy.astype(step.dtype) * step, total.astype(step.dtype) * step
    mean = total / config.users
    if config.noise == "none":
        return mean, mean
    deviation = 2.0 * config.clip_norm * config.steps**0.5 / (config.users * config.mu)
    return mechanisms.gaussian(key, mean, deviation), mean


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

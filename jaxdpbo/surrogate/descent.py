"""Projected descent inside a box along a given gradient. Adds no privacy: all of it is post-processing."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

OUTPUTS = ("last", "last_half_mean")


def move(
    optimizer: Callable[..., optax.GradientTransformation],
    step_size: jax.Array,
    bounds: jax.Array,
    gradient: jax.Array,
    memory: Any,
    theta: jax.Array,
) -> tuple[jax.Array, Any]:
    """Return the next iterate ``(d,)``, inside ``bounds (2, d)``, and the optimizer state after ``gradient (d,)``."""
    with jax.numpy_dtype_promotion("standard"):  # some optimizers of optax mix floats and integers
        updates, memory = optimizer(step_size).update(gradient, memory, theta)
    return jnp.clip(theta + jnp.asarray(updates), bounds[0], bounds[1]), memory


def answer(path: jax.Array, step: jax.Array, output: str) -> jax.Array:
    """Return the point ``(d,)`` to release from ``path (T + 1, d)`` after ``step`` steps.

    ``output`` is "last", or "last_half_mean": the mean of the iterates after the first half.
    """
    if output == "last":
        return path[step]
    row = jnp.arange(path.shape[0], dtype=jnp.result_type(step))
    counted = (row <= step) & ((row > step // 2) | (step == 0))
    return jnp.sum(jnp.where(counted[:, None], path, 0), axis=0) / jnp.sum(counted, dtype=path.dtype)

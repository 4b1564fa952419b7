"""Sums over users in a step of DP-GIBO, and their noise: the only place where a run spends its budget."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import types
from jaxdpbo.algorithms.dp_gibo.configs import Config
from jaxdpbo.noise import calibration, clipping, private_mean, private_scale, totals, wide_integers
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Memory, Query


class Broadcast(NamedTuple):
    """Public inputs of ``contribute``.

    Attributes:
      weights: ``(r, d)``: a user's gradient is ``weights.T`` times the remembered losses, in the layout of
        ``contribute``.
      fresh: ``(b, d)``, the weights of the query's own points; None unless the clip norm is found privately.
      clip_norm: ``()``.
      used: ``()``, first memory row for the query's losses.
      kept: memory rows in use, with memory "nearest"; otherwise None.
    """

    weights: jax.Array
    fresh: jax.Array | None
    clip_norm: jax.Array
    used: jax.Array
    kept: jax.Array | None


def remember(config: Config, users: int) -> Memory:
    """Make the memory: losses ``(m, s)`` of ``s`` users at every evaluated point; ``()`` with memory "none"."""
    return () if config.memory == "none" else jnp.zeros((config.capacity, users), config.theta0.dtype)


def contribute(
    config: Config, query: Query, memory: jax.Array, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, Memory]:
    """Clip each user's gradient, and sum: Algorithm 1, lines 6 and 7.

    ==============================  =====================================================================
    case                            result
    ==============================  =====================================================================
    a user's loss NaN or infinite   that user counts as the zero gradient while the loss is remembered
    values at masked points         ignored
    a query after step T            the memory unchanged
    ==============================  =====================================================================

    Args:
      config: see ``config``.
      query: from ``ask``.
      memory: of ``remember``, for the same users.
      values: ``(b, s)``, the users' losses at every point.
      present: ``(s,)``, False at padding columns, which belong to no user.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    losses, broadcast = _losses(config, query, values, memory, present), query.broadcast
    if config.memory != "none":
        memory = gp.write(memory, losses, broadcast.used, query.active)  # before anything is read: in place

    def clipped_sum(weights: jax.Array, remembered: jax.Array) -> tuple[totals.UserSum, jax.Array, jax.Array]:
        norm, radius = current_clip_norm(config, query), calibration.grid(config.noise)
        return clipping.weighted_clipped_sum(weights, remembered, norm, radius, present)

    if config.memory == "all":  # branches return sums alone: a returned memory would be copied
        rows = gp.stages(len(memory), config.batch)
        branches = [lambda count=count: clipped_sum(broadcast.weights[:count], memory) for count in rows]
        total, clipped, nonfinite = jax.lax.switch(gp.stage_index(rows, broadcast.used + config.batch), branches)
    elif config.memory == "recent":
        total, clipped, nonfinite = clipped_sum(broadcast.weights, memory)
    else:
        remembered = losses if config.memory == "none" else jnp.concatenate([memory[broadcast.kept], losses])
        total, clipped, nonfinite = clipped_sum(broadcast.weights, remembered)
    present_losses = losses if present is None else jnp.where(present[None], losses, 0)
    facts = {"losses": jnp.sum(present_losses, axis=1), "clipped": clipped, "nonfinite": nonfinite}
    return totals.UserTotal(total, facts), memory


def survey(
    config: Config, query: Query, memory: jax.Array, values: jax.Array, present: jax.Array | None = None
) -> wide_integers.Wide:
    """Count the gradients, from the query's points alone, of norm at most each power of two."""
    losses = _losses(config, query, values, memory, present)
    gradients = jnp.matmul(query.broadcast.fresh.T, losses, precision="highest")
    return private_scale.count_differences(clipping.l2_norms(gradients), present)


def refine(key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    """Find the clip norm by noisy counts: ``private_scale.level(noise.scale)``-GDP. Other steps keep the norm."""
    assert config.noise.scale is not None
    assert query.survey is not None
    norm = private_scale.median_of_counts(key, config.noise.scale, whole, config.users, config.clip_norm.dtype)
    norm = jnp.where(query.survey, private_scale.FACTOR * norm, query.broadcast.clip_norm)
    return query._replace(broadcast=query.broadcast._replace(clip_norm=norm))


def perturb(key: jax.Array, config: Config, query: Query, whole: totals.UserSum) -> totals.UserSum:
    """Add noise to the sum: Algorithm 1, line 8. This function spends the budget: ``mu / sqrt(T)`` a step.

    Formal guarantee: ``mu / sqrt(T)``-GDP given the earlier iterates, replace-one on users (Lemma 3.1;
    ``sensitivity.clipped_sum``), for any losses; no noise at ``mu = inf``.
    """
    return private_mean.perturb_vectors(key, config.noise, whole, current_clip_norm(config, query))


def current_clip_norm(config: Config, query: Query) -> jax.Array:
    """Clip norm ``B ()``: the config's, unless found privately."""
    return config.clip_norm if config.noise.scale is None else query.broadcast.clip_norm


def _losses(config: Config, query: Query, values: jax.Array, memory: jax.Array, present: jax.Array | None) -> jax.Array:
    types.check_values(values, config.batch, memory=memory, present=present)
    return gp.mask_rows(query.mask, values.astype(config.theta0.dtype))

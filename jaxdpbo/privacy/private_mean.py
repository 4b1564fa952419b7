"""The noisy mean over users: one triad of exact, floating-point and no noise, for vectors and for losses.

A mean is released by noising the sum over users, in the units of the grid where the noise is exact, and dividing by
the public ``n``. How far one user moves the sum is ``sensitivity``'s to say; how the budget is divided over the
releases is ``calibration``'s.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxdpbo.privacy import accounting, calibration, clipping, mechanisms, private_scale, sensitivity, wide_integers


def clip_norm(
    key: jax.Array,
    budget: calibration.Budget,
    given: jax.Array,
    step: jax.Array,
    found: jax.Array | None,
    norms: Callable[[], jax.Array],
) -> tuple[jax.Array, jax.Array]:
    """The key for ``of_vectors``, and ``B``: ``given``, or with a ``budget.scale`` what the first step finds.

    Formal guarantee: in the first step ``private_scale.level(budget.scale)``-GDP, a part of what
    ``calibration.statement`` says.

    Args:
      key: of the step; used once.
      budget: of the run.
      given: ``()``, of the config.
      step: ``()``, steps taken.
      found: ``()``, in the steps before.
      norms: returns ``(n,)``, what users' vectors are long; raw.
    """
    if budget.scale is None or found is None:
        return key, given
    key, scale_key = jax.random.split(key)
    return key, private_scale.at_step(scale_key, budget.scale, step, 0, found, norms)


def of_vectors(
    key: jax.Array, budget: calibration.Budget, total: jax.Array | wide_integers.Wide, clip_norm: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The mean ``(d,)`` over users of vectors clipped to ``clip_norm``, with the noise of one of ``steps`` releases.

    In units of ``clip_norm`` where that is found privately: who could not state it knows no other unit.

    Formal guarantee: the part of one of ``T`` releases in what ``calibration.statement`` says of all; none where
    ``budget.noise`` is "none" or ``mu = inf``. ``mu``-GDP over ``T`` releases is ``mu / sqrt(T)`` each (Dong et al.
    2022, corollary 3.3), so the noise of the mean has standard deviation ``2 B sqrt(T) / (n mu)`` (Sopa et al. 2025,
    Algorithm 1, line 8). Exact noise is at most 4 % wider, see ``calibration``.

    Args:
      key: for the noise; used once.
      budget: of the run.
      total: ``(d,)``, of ``clipping.summed`` with ``calibration.grid(budget)``: ``Wide`` where the noise is exact.
      clip_norm: ``B ()``, that it was clipped to.

    Returns:
      The noisy mean, and the raw one.
    """
    exact = budget.noise == "exact"
    unit = clipping.grid_step(clip_norm, budget.radius, budget.dimension) if exact else clip_norm
    deviation = sensitivity.clipped_sum(clip_norm) * budget.steps**0.5 / (budget.users * budget.mu)
    noisy, mean = _noised(key, budget, total, unit, deviation)
    return noisy if budget.scale is None else noisy / clip_norm, mean


def of_losses(
    key: jax.Array, budget: calibration.Budget, losses: jax.Array, low: jax.Array, high: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Noised means ``(b,)`` over users of ``losses (b, n)`` clipped to ``[low, high]``, NaN as the middle.

    Formal guarantee: the part of ``b`` of ``steps releases`` evaluations in what ``calibration.statement`` says of all.
    One user moves each mean by ``sensitivity.mean_loss``, whatever the losses are; on the grid, where each loss is an
    integer within ``radius``, each sum by ``sensitivity.integer_sum`` exactly.

    Args:
      key: for the noise; used once.
      budget: of the run.
      losses: ``(b, n)``.
      low: ``()``, and
      high: ``()``, the public range.

    Returns:
      The noised means; the raw ones, and how many losses ``(b,)`` were moved by the clip: raw data.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    known = jnp.where(jnp.isnan(losses), middle, losses)
    inside = jnp.clip(known, low, high)
    clipped = jnp.sum(inside != losses, axis=1)
    if budget.noise == "exact":
        radius = jnp.asarray(budget.radius, half.dtype)
        scaled = jnp.rint((inside - middle) / half * radius).astype(jnp.int32)
        total = clipping.total_of_users(jnp.clip(scaled, -budget.radius, budget.radius), clipping.RADIUS_BITS)
        noisy, mean = _noised(key, budget, total, half / radius, 0.0)
        return middle + noisy, middle + mean, clipped
    each = budget.mu / jnp.sqrt(jnp.asarray(budget.steps * budget.releases, budget.mu.dtype))
    deviation = sensitivity.mean_loss(low, high, budget.users) / each
    return *_noised(key, budget, jnp.sum(inside, axis=1), half, deviation), clipped


def loss_deviation(budget: calibration.Budget, low: float, high: float) -> float:
    """The standard deviation of the noise on one mean of ``of_losses``; 0 for none. On the host.

    Raises:
      ValueError: a range so narrow that floats lose one user's part.
    """
    moved = sensitivity.mean_loss(low, high, budget.users)
    if not moved / 2 > 0:
        raise ValueError(
            f"loss_range must be wider for {budget.users} users, got {low}, {high}: floats lose one user's part"
        )
    if budget.noise == "none":
        return 0.0
    if budget.noise == "exact":
        return moved * budget.sigma / sensitivity.integer_sum(int(budget.radius))
    each = accounting.split_gdp(float(budget.mu), budget.steps * budget.releases)
    return accounting.gaussian_standard_deviation(moved, each)


def _noised(
    key: jax.Array, budget: calibration.Budget, total: Any, unit: jax.Array, deviation: jax.Array | float
) -> tuple[jax.Array, jax.Array]:
    """A sum over users, ``Wide`` in units of ``unit`` where the noise is exact, as a noisy mean and the raw one."""
    if budget.noise == "exact":
        noise = mechanisms.rounded_gaussian(key, total.low.shape, budget.sigma)
        step = unit / budget.users
        both = wide_integers.add(total, wide_integers.widen(noise)), total
        noisy, raw = (wide_integers.to_float(each, step.dtype) * step for each in both)
        return noisy, raw
    mean = total / budget.users
    if budget.noise == "none":
        return mean, mean
    return mechanisms.gaussian(key, mean, deviation), mean

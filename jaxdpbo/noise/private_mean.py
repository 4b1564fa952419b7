"""The noisy mean over users, with exact, floating-point or no noise, for vectors and for losses.

Release a mean by noising the sum over users, in the units of the grid if the noise is exact, and dividing by the public
``n``. ``sensitivity`` says how far one user moves the sum; ``calibration`` divides the budget over the releases.
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import accounting, sensitivity
from jaxdpbo.noise import calibration, clipping, mechanisms, totals, wide_integers

Losses = TypeVar("Losses", jax.Array, np.ndarray)


def perturb_vectors(
    key: jax.Array, noise: calibration.SumNoise, total: totals.UserSum, clip_norm: jax.Array
) -> totals.UserSum:
    """Noise the sum over users of vectors clipped to ``clip_norm``, for one of ``steps`` releases.

    Formal guarantee: the part of one of ``T`` releases in ``composed_guarantee.gdp_guarantee``, the guarantee of all;
    none where its kind is "none" or ``mu = inf``. ``mu``-GDP over ``T`` releases is ``mu / sqrt(T)`` each (Dong
    et al. 2022, corollary 3.3), so the noise of the mean has standard deviation ``2 B sqrt(T) / (n mu)`` (Sopa et al.
    2025, Algorithm 1, line 8). Exact noise is at most 4 % wider, see ``calibration``.

    Args:
      key: for the noise; used once.
      noise: of the run.
      total: ``(d,)``, of ``clipping.clip_and_sum`` with ``calibration.grid(noise)``: ``Wide`` if the noise is exact.
      clip_norm: ``B ()``, of the clip; exact noise does not depend on ``B``.

    Returns:
      ``Wide (d,)`` if the noise is exact, otherwise the noisy mean ``(d,)``: ``mean_of_vectors`` takes either.
    """
    count = noise.steps * noise.releases
    deviation = sensitivity.clipped_sum(clip_norm) * count**0.5 / (noise.users * noise.mu)
    return _perturb(key, noise, total, deviation)


def mean_of_vectors(noise: calibration.SumNoise, released: totals.UserSum, clip_norm: jax.Array) -> jax.Array:
    """Return the mean ``(d,)`` over users from ``perturb_vectors``; or, raw, from ``skip_noise``."""
    if not isinstance(released, wide_integers.Wide):
        return released
    step = clipping.grid_step(clip_norm, noise.radius, noise.dimension) / noise.users
    return wide_integers.to_float(released, step.dtype) * step


def noisy_mean_loss(
    key: jax.Array, noise: calibration.SumNoise, losses: jax.Array, low: jax.Array, high: jax.Array
) -> jax.Array:
    """Return noisy means ``(b,)`` over users of ``losses (b, n)`` clipped to ``[low, high]``, see ``clip_losses``.

    Formal guarantee: the part of ``b`` of ``steps releases`` evaluations in ``composed_guarantee.gdp_guarantee``, the
    guarantee of all. One user moves each mean by ``sensitivity.mean_loss``, for any losses; on the grid, with each
    loss an integer within ``radius``, each sum by ``sensitivity.integer_sum`` exactly.

    Args:
      key: for the noise; used once.
      noise: of the run.
      losses: ``(b, n)``.
      low: ``()``, the lower end of the public range.
      high: ``()``, the upper end.
    """
    total, _ = sum_clipped_losses(noise, losses, low, high)
    return mean_of_losses(noise, perturb_losses(key, noise, total, low, high), low, high)


def clip_losses(losses: Losses, low: Any, high: Any) -> Losses:
    """Clip losses, of JAX or of NumPy, to a range: the one rule for losses that are noised, and for public ones.

    A loss that is not finite counts as ``high``, the worst, as in a choice: a setting that fails never beats one that
    works.
    """
    xp = losses.__array_namespace__()
    return xp.clip(xp.where(xp.isfinite(losses), losses, high), low, high)


def sum_clipped_losses(
    noise: calibration.SumNoise, losses: jax.Array, low: jax.Array, high: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserSum, jax.Array]:
    """Sum users' clipped losses for the means of ``noisy_mean_loss``.

    Args:
      noise: of the run.
      losses: ``(b, s)``, of any ``s`` users.
      low: ``()``, the lower end of the public range.
      high: ``()``, the upper end.
      present: ``(s,)``, False at columns that stand for nobody.

    Returns:
      Sums ``(b,)``: ``Wide`` in units of the grid if the noise is exact, otherwise of clipped losses; and the numbers
      ``(b,)`` of losses moved by the clip. Both are raw.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    parts = clip_losses(losses, low, high)
    moved = parts != losses
    if noise.kind == "exact":
        scaled = jnp.rint((parts - middle) / half * jnp.asarray(noise.radius, half.dtype)).astype(jnp.int32)
        parts = jnp.clip(scaled, -noise.radius, noise.radius)  # floats may round a unit beyond; noise pays for none
    if present is not None:
        parts, moved = jnp.where(present[None], parts, 0), moved & present[None]
    clipped = jnp.sum(moved, axis=1)
    if noise.kind == "exact":
        return wide_integers.total(parts, clipping.RADIUS_BITS), clipped
    return jnp.sum(parts, axis=1), clipped


def perturb_losses(
    key: jax.Array, noise: calibration.SumNoise, total: totals.UserSum, low: jax.Array, high: jax.Array
) -> totals.UserSum:
    """Add the noise of ``noisy_mean_loss`` to all users' ``sum_clipped_losses``: ``Wide``, or means if not exact."""
    level = noise.mu / jnp.sqrt(jnp.asarray(noise.steps * noise.releases, noise.mu.dtype))
    return _perturb(key, noise, total, sensitivity.mean_loss(low, high, noise.users) / level)


def mean_of_losses(noise: calibration.SumNoise, released: totals.UserSum, low: jax.Array, high: jax.Array) -> jax.Array:
    """Return the means ``(b,)`` from ``perturb_losses``; or, raw, from ``skip_noise``."""
    if not isinstance(released, wide_integers.Wide):
        return released
    middle, half = (low + high) / 2, (high - low) / 2
    step = half / jnp.asarray(noise.radius, half.dtype) / noise.users
    return middle + wide_integers.to_float(released, step.dtype) * step


def skip_noise(noise: calibration.SumNoise, total: totals.UserSum) -> totals.UserSum:
    """Return a total of all users in place of a release, for diagnostics. Raw."""
    return total if isinstance(total, wide_integers.Wide) else total / noise.users


def loss_deviation(noise: calibration.SumNoise, low: float, high: float) -> float:
    """Return the standard deviation of the noise on a mean of ``noisy_mean_loss``; 0 for none. On the host.

    Raises:
      ValueError: a range so narrow that floats lose one user's part.
    """
    moved = sensitivity.mean_loss(low, high, noise.users)
    if not moved / 2 > 0:
        raise ValueError(
            f"loss_range must be wider for {noise.users} users, got {low}, {high}: floats lose one user's part"
        )
    if noise.kind == "none":
        return 0.0
    if noise.kind == "exact":
        return moved * noise.sigma / sensitivity.integer_sum(int(noise.radius))
    level = accounting.split_gdp(float(noise.mu), noise.steps * noise.releases)
    return accounting.gaussian_standard_deviation(moved, level)


def _perturb(
    key: jax.Array, noise: calibration.SumNoise, total: totals.UserSum, deviation: jax.Array
) -> totals.UserSum:
    """Add Gaussian noise to a sum over users: in integers if exact, otherwise of ``deviation`` on the mean."""
    if isinstance(total, wide_integers.Wide):
        drawn = mechanisms.rounded_gaussian(key, total.low.shape, noise.sigma)
        return wide_integers.add(total, wide_integers.widen(drawn))
    mean = total / noise.users
    return mean if noise.kind == "none" else mechanisms.gaussian(key, mean, deviation)

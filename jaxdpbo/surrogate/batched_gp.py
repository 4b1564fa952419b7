"""Independent Gaussian processes with one kernel over the same points, in one program.

The parameters of a ``surrogate.GPModel`` have a leading axis here, with an entry for each of the ``p`` processes.
Whitening and jitter rule are those of ``gp``. All processes together compile about as fast as a single process.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxdpbo.surrogate import box_search, gp, gp_fit, kernels
from jaxdpbo.surrogate.gp import GPModel, matmul

BLOCK = 32  # rows: smaller blocks mean more iterations after a refit, larger blocks mean work on unused rows
QUARTER = 4  # a likelihood is compiled for all rows and for a quarter of them: most fits come early


class Posterior(NamedTuple):
    """Posterior of ``p`` processes: models, points and whitenings.

    Attributes:
      model: stacked.
      points: ``(m, d)``.
      mask: ``(m,)``, True at rows of evaluated points.
      whitening: ``(p, m, m)``: ``surrogate.Factorization.whitening`` of each process.
      used: ``()``, number of rows used, masked ones included.
    """

    model: GPModel
    points: jax.Array
    mask: jax.Array
    whitening: jax.Array
    used: jax.Array


def stack(models: Sequence[GPModel]) -> GPModel:
    """Stack models with one kernel into a model of ``p`` processes."""
    return jax.tree.map(lambda *numbers: jnp.stack(numbers), *models)


def unstack(model: GPModel) -> tuple[GPModel, ...]:
    """Split a stacked model into its ``p`` models."""
    leaves, tree = jax.tree.flatten(model)
    return tuple(jax.tree.unflatten(tree, numbers) for numbers in zip(*leaves, strict=True))


def prior(model: GPModel, capacity: int, dimension: int) -> Posterior:
    """Posterior before any evaluation, with room for ``capacity`` points."""
    dtype = model.noise_variance.dtype
    return Posterior(
        model=model,
        points=jnp.zeros((capacity, dimension), dtype),
        mask=jnp.zeros(capacity, bool),
        whitening=jnp.tile(jnp.eye(capacity, dtype=dtype)[None], (len(model.noise_variance), 1, 1)),
        used=jnp.zeros((), jnp.int32),
    )


def extend(posterior: Posterior, used: jax.Array | int) -> Posterior:
    """Extend the whitening to ``used ()`` rows in all; ``points`` and ``mask`` must already hold the new rows.

    Works like ``surrogate.append``, in blocks of ``BLOCK`` rows in a loop compiled once, O(m^2) for each row; an
    incomplete last block is recomputed.
    """
    capacity = posterior.points.shape[0]
    block = min(BLOCK, capacity)
    rows = jnp.arange(capacity, dtype=jnp.int32)
    model = posterior.model

    def add(number, whitening):
        start = jnp.minimum(number * block, capacity - block)
        points = jax.lax.dynamic_slice_in_dim(posterior.points, start, block)
        mask = jax.lax.dynamic_slice_in_dim(posterior.mask, start, block)
        cross = _cross(model, posterior.points, posterior.mask & (rows < start), points)
        below = matmul(whitening, jnp.where(mask[None, None], cross, 0.0))
        below = jnp.where((rows < start)[None, :, None], below, 0.0)
        transposed = below.transpose(0, 2, 1)
        remaining = jax.vmap(lambda single: covariance(single, points, mask))(model) - matmul(transposed, below)
        inner = jax.lax.map(gp.inverse_factor, remaining)  # LAPACK: one after the other, see drivers.compiled_run
        added = jax.lax.dynamic_update_slice_in_dim(-matmul(inner, matmul(transposed, whitening)), inner, start, 2)
        return jax.lax.dynamic_update_slice_in_dim(whitening, added, start, 1)

    used = jnp.asarray(used, jnp.int32)
    whitening = jax.lax.fori_loop(posterior.used // block, -(-used // block), add, posterior.whitening)
    return posterior._replace(whitening=whitening, used=used)


def covariance(model: GPModel, points: jax.Array, mask: jax.Array) -> jax.Array:
    """Covariance of one process as in ``gp.covariance``, by ``kernels.gram_of_many``."""
    points = gp.mask_rows(mask, points)
    both = mask[:, None] & mask[None, :]
    noiseless = jnp.where(both, kernels.gram_of_many(model.kernel, model.params, points, points), 0.0)
    return noiseless + jnp.diag(jnp.where(mask, gp.noise(model, points), 1.0))


def _cross(model, evaluated, mask, points):
    """Cross-covariance ``k(D, points)`` of each process ``(p, m, k)``, with zero rows where nothing was evaluated."""
    evaluated = gp.mask_rows(mask, evaluated)
    cross = jax.vmap(lambda single: kernels.gram_of_many(single.kernel, single.params, evaluated, points))(model)
    return jnp.where(mask[None, :, None], cross, 0.0)


def whiten(posterior: Posterior, values: jax.Array) -> jax.Array:
    """Compute ``L^-1 y`` of each process ``(p, m)`` for ``values (m, p)``, for ``predict``; masked rows are ignored."""
    return matmul(posterior.whitening, gp.mask_rows(posterior.mask, values).T[:, :, None])[..., 0]


def predict(posterior: Posterior, white: jax.Array, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Posterior means and variances ``(p, k)`` of the latent functions at ``points (k, d)``, from ``whiten``'s values.

    Computed as one matrix product for all points.
    """
    cross = _cross(posterior.model, posterior.points, posterior.mask, points)
    seen = matmul(posterior.whitening, cross)
    before = jax.vmap(lambda single: kernels.diagonal(single.kernel, single.params, points))(posterior.model)
    return matmul(white[:, None], seen)[:, 0], jnp.maximum(before - jnp.sum(jnp.square(seen), axis=1), 0.0)


def fit(
    model: GPModel,
    points: jax.Array,
    values: jax.Array,
    mask: jax.Array,
    used: jax.Array,
    *,
    initial: GPModel,
    steps: int,
) -> GPModel:
    """Fit each process as in ``surrogate.fit``, from ``initial`` as the only start, with gradients in closed form.

    Args:
      model: stacked: the middle of the searched range.
      points: ``(m, d)``.
      values: ``(m, p)``.
      mask: ``(m,)``.
      used: ``()``: the mask is False from this row on.
      initial: stacked.
      steps: gradient steps.
    """
    counts = stages(points.shape[0])
    stage = sum(jnp.asarray(used > count, jnp.int32) for count in counts[:-1])

    def fit_one(problem):
        middle, start, targets = problem
        flat, unravel = ravel_pytree(middle)
        span = 2.0 * math.log(gp_fit.FIT_FACTOR)

        def on_prefix(count):
            def value_and_gradient(numbers):
                value, gradient = likelihood(unravel(numbers), points[:count], targets[:count], mask[:count])
                return value, ravel_pytree(gradient)[0]

            return value_and_gradient

        def value_and_gradient(unit):
            numbers = flat * jnp.exp(span * (unit - 0.5))
            value, gradient = jax.lax.switch(stage, [on_prefix(count) for count in counts], numbers)
            return value, span * numbers * gradient

        unit_start = 0.5 + jnp.log(jnp.where(flat == 0, 1.0, ravel_pytree(start)[0] / flat)) / span
        unit_best, _ = box_search.ascend(
            value_and_gradient, lambda unit: jnp.clip(unit, 0, 1), unit_start, steps=steps, step_size=0.05
        )
        return unravel(flat * jnp.exp(span * (unit_best - 0.5)))

    return jax.lax.map(fit_one, (model, initial, values.T))


def stages(capacity: int) -> tuple[int, ...]:
    """Row counts for which a likelihood is compiled; the last is ``capacity``."""
    part = -(-capacity // QUARTER)
    return (capacity,) if part < gp.STAGE_ROWS else (part, capacity)


def likelihood(model: GPModel, points: jax.Array, values: jax.Array, mask: jax.Array) -> tuple[jax.Array, GPModel]:
    """Log marginal likelihood of one process, and its gradient in the model's parameters."""
    count = jnp.sum(mask, dtype=values.dtype)

    def height(model: GPModel) -> jax.Array:
        return gp.log_density(covariance(model, points, mask), gp.mask_rows(mask, values))

    value, gradient = jax.value_and_grad(height)(model)
    return value - 0.5 * count * math.log(2 * math.pi), gradient

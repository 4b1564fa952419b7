"""Posterior of a zero-mean Gaussian process in a fixed-capacity buffer.

The posterior here is the whitening of the evaluated points: the inverse of the Cholesky factor of their covariance. It
holds no values. You pass values to the functions that need them, so one whitening serves every user's losses, and a
state can keep points public and values private.

Why the inverse factor: appending a block, solving and searching are then matrix products, which are fast on every
backend and which no thread contention slows. Against triangular solves the inverse costs half a digit for stationary
kernels, up to two for rank-deficient polynomial ones (tests/test_gradient.py); updating the inverse of the covariance
itself would cost four, and fails in float32.

The factored matrix is ``K + diag(noise)``. ``noise_i`` is ``noise_variance``, raised to ``jitter(dtype) k(x_i, x_i)``
if lower: the one jitter rule of the library. A noise variance at or above the floor is used exactly as given. A caller
who expects many crowded points knows their number, and passes a larger noise variance.

Rasmussen and Williams (2006), section 2.2 and algorithm 2.1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from jaxdpbo.surrogate import kernels
from jaxdpbo.types import Kernel, KernelParams, Tree

STAGES = 2  # capacities a step is compiled for: 1 stage costs 1.6 times the arithmetic, 4 cost .75; each is compiled
MANY_NUMBERS = 2**19  # coordinates of all pairs of a Gram matrix: from here on, running costs more than compiling
STAGE_ROWS = 64  # smallest stage: for fewer rows, padding costs nothing, and compiling does

# Accelerators multiply float32 in reduced precision by default, too coarse for a covariance.
matmul = partial(jnp.matmul, precision="highest")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GPModel:
    """A zero-mean Gaussian process and its observation noise.

    Attributes:
      kernel: a function of one pair of points, static.
      params: the kernel's parameters, traced.
      noise_variance: ``()`` of one observation, traced.
    """

    kernel: Kernel = field(metadata={"static": True})
    params: KernelParams
    noise_variance: jax.Array


class Factorization(NamedTuple):
    """Evaluated points and their whitening.

    Attributes:
      points: ``(m, d)``, rows from ``used`` on are unused.
      mask: ``(m,)``, True at rows of evaluated points. What stands in other rows, NaN included, changes nothing.
      whitening: ``(m, m)``, ``L^-1`` for the lower Cholesky factor ``L``; rows of the identity where ``mask`` is False.
      used: ``()``, number of rows used, masked ones included.
    """

    points: jax.Array
    mask: jax.Array
    whitening: jax.Array
    used: jax.Array


def jitter(dtype: jax.typing.DTypeLike, rows: int = 1) -> float:
    """Smallest noise variance, relative to ``k(x, x)``, at which factoring ``rows`` points is safe.

    The larger of eight units of rounding a row and a floor: 1e-4 in float32, where Cholesky fails at 1e-5 for points a
    third of a lengthscale apart, and 1e-10 in float64. Crowded points need four units (tests/test_dp_gibo.py, 600
    points in float32).
    """
    info = jnp.finfo(dtype)
    return max(1e-4 if info.bits <= 32 else 1e-10, 8 * rows * float(info.eps))


def noise(model: GPModel, points: jax.Array) -> jax.Array:
    """Diagonal ``(b,)`` added to the covariance of ``points (b, d)``, by the module's jitter rule."""
    floor = jitter(points.dtype) * kernels.diagonal(model.kernel, model.params, points)
    return jnp.maximum(model.noise_variance, floor)


def empty(capacity: int, dimension: int, dtype: jax.typing.DTypeLike) -> Factorization:
    """Factorization of no evaluations, with room for ``capacity``: the prior."""
    return Factorization(
        points=jnp.zeros((capacity, dimension), dtype),
        mask=jnp.zeros(capacity, bool),
        whitening=jnp.eye(capacity, dtype=dtype),
        used=jnp.zeros((), jnp.int32),
    )


def condition(model: GPModel, points: jax.Array, mask: jax.Array) -> Factorization:
    """Condition on ``points (m, d)`` where ``mask (m,)`` is True, by one full factorisation, O(m^3).

    A failed factorisation does not raise; ``whitening`` is then NaN.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary(0.5, dimension=1), noise_variance=jnp.asarray(0.01))
    >>> points, values = jnp.array([[0.0], [1.0]]), jnp.array([1.0, -1.0])
    >>> factorization = surrogate.condition(model, points, jnp.ones(2, bool))
    >>> mean, variance = surrogate.predict(model, factorization, values, jnp.array([[0.0], [0.25]]))
    >>> print(np.asarray(mean).round(2), np.asarray(variance).round(2))
    [0.99 0.64] [0.01 0.19]
    """
    points = mask_rows(mask, points)
    whitening = inverse_factor(covariance(model, points, mask))
    return Factorization(points, mask, whitening, jnp.asarray(points.shape[0], jnp.int32))


def covariance(model: GPModel, points: jax.Array, mask: jax.Array) -> jax.Array:
    """Covariance ``K + diag(noise)`` where ``mask`` is True, the identity elsewhere."""
    points = mask_rows(mask, points)  # before the kernel: the gradient of a masked NaN is NaN
    both = mask[:, None] & mask[None, :]
    noiseless = jnp.where(both, _gram(model, points, points), 0.0)
    return noiseless + jnp.diag(jnp.where(mask, noise(model, points), 1.0))


def _gram(model, xs, ys):
    """Gram matrix by the faster function: for few pairs, ``kernels.gram`` compiles in less time."""
    gram = kernels.gram_of_many if xs.size * ys.shape[0] >= MANY_NUMBERS else kernels.gram
    return gram(model.kernel, model.params, xs, ys)


def inverse_factor(matrix: jax.Array) -> jax.Array:
    """Inverse ``L^-1`` of the Cholesky factor of ``matrix (m, m) = L L^T``; NaN where no factor exists."""
    factor = jnp.linalg.cholesky(matrix, symmetrize_input=False)
    return solve_triangular(factor, jnp.eye(factor.shape[0], dtype=factor.dtype), lower=True)


def append(
    model: GPModel, factorization: Factorization, points: jax.Array, mask: jax.Array, *, when: jax.Array | bool = True
) -> Factorization:
    """Condition on ``points (b, d)`` as well, where ``mask (b,)`` is True: a block of rows, O(m^2 b).

    Uses ``b`` rows, masked ones included. Returns the posterior unchanged where fewer rows are free or ``when`` is
    False.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary(1.0, 1), jnp.asarray(0.1))
    >>> points, mask = jnp.array([[0.0], [1.0]]), jnp.ones(2, bool)
    >>> first = surrogate.condition(model, points, jnp.array([True, False]))._replace(used=jnp.asarray(1))
    >>> both = surrogate.append(model, first, points[1:], mask[1:])
    >>> both.mask.tolist()
    [True, True]

    Raises:
      ValueError: ``b`` above the capacity, at trace time.
    """
    points = mask_rows(mask, points)
    return extend(factorization, points, mask, extension(model, factorization, points, mask), when=when)


def extension(model: GPModel, factorization: Factorization, points: jax.Array, mask: jax.Array) -> jax.Array:
    """Rows ``(b, m)`` by which ``points (b, d)`` extend the whitening; NaN where the factorisation fails.

    Raises:
      ValueError: ``b`` above the capacity, at trace time.
    """
    capacity, batch = factorization.points.shape[0], points.shape[0]
    if batch > capacity:
        raise ValueError(f"points must be at most the capacity {capacity}, got {batch}")
    cross = jnp.where(mask[None, :], cross_covariance(model, factorization, points), 0.0)
    below = whiten(factorization, cross)  # (m, b): L^-1 k(D, z)
    remaining = covariance(model, points, mask) - matmul(below.T, below)
    block = inverse_factor(remaining)
    rows = -matmul(block, matmul(below.T, factorization.whitening))
    start = factorization.used
    return jax.lax.dynamic_update_slice(rows, block, (jnp.zeros_like(start), start))


def extend(
    factorization: Factorization, points: jax.Array, mask: jax.Array, rows: jax.Array, *, when: jax.Array | bool = True
) -> Factorization:
    """Write the rows of ``extension``; where ``when`` is False or too few rows are free, change nothing."""
    capacity, batch = factorization.points.shape[0], points.shape[0]
    allowed = (factorization.used + batch <= capacity) & when
    return Factorization(
        points=write(factorization.points, points, factorization.used, allowed),
        mask=write(factorization.mask, mask, factorization.used, allowed),
        whitening=write(factorization.whitening, rows, factorization.used, allowed),
        used=jnp.where(allowed, factorization.used + batch, factorization.used),
    )


def stages(capacity: int, batch: int) -> tuple[int, ...]:
    """Row counts of ``apply_to_stage``: at most ``STAGES``, multiples of ``batch``, the last ``capacity``."""
    count = max(1, min(STAGES, capacity // STAGE_ROWS))
    steps = -(-capacity // batch)
    return tuple(min(capacity, batch * -(-steps * stage // count)) for stage in range(1, count + 1))


def apply_to_stage(factorization: Factorization, batch: int, function: Callable[[Factorization], Tree]) -> Tree:
    """Apply ``function`` to the leading rows alone: the smallest of ``stages`` with room for the used rows and a batch.

    Returns the same numbers as ``function(factorization)`` for a fraction of the work, if the shapes of the result do
    not depend on the capacity. Under ``vmap`` over different ``used`` every stage is computed; ``lax.map`` computes
    one.
    """
    rows = stages(factorization.points.shape[0], batch)

    def apply(count: int) -> Callable[[Factorization], Tree]:
        return lambda whole: function(
            Factorization(whole.points[:count], whole.mask[:count], whole.whitening[:count, :count], whole.used)
        )

    return jax.lax.switch(
        stage_index(rows, factorization.used + batch), [apply(count) for count in rows], factorization
    )


def stage_index(rows: tuple[int, ...], needed: jax.Array) -> jax.Array:
    """Index of the first of the ``stages`` with at least ``needed ()`` rows."""
    return sum((jnp.asarray(needed > count, jnp.int32) for count in rows[:-1]), jnp.zeros((), jnp.int32))


def write(buffer: jax.Array, rows: jax.Array, start: jax.Array, allowed: jax.Array | bool = True) -> jax.Array:
    """Write ``rows (b, ...)`` into ``buffer (m, ...)`` at ``start``; return the buffer unchanged unless ``allowed``.

    Only the ``b`` rows are touched, so the buffer is updated in place under jit.
    """
    batch = rows.shape[0]
    kept = jax.lax.dynamic_slice_in_dim(buffer, start, batch)
    return jax.lax.dynamic_update_slice_in_dim(buffer, jnp.where(allowed, rows, kept), start, 0)


def whiten(factorization: Factorization, right: jax.Array) -> jax.Array:
    """Compute ``L^-1 right`` for ``right (m, k)``; rows where the mask is False must be zero."""
    return matmul(factorization.whitening, right)


def solve(factorization: Factorization, right: jax.Array) -> jax.Array:
    """Compute ``(K + noise)^-1 right`` for ``right (m, k)``; rows where the mask is False must be zero."""
    return matmul(factorization.whitening.T, whiten(factorization, right))


def mask_rows(mask: jax.Array, rows: jax.Array) -> jax.Array:
    """Set ``rows (m, ...)`` to zero where ``mask (m,)`` is False, NaN included."""
    return jnp.where(mask.reshape(mask.shape + (1,) * (rows.ndim - 1)), rows, 0)


def cross_covariance(model: GPModel, factorization: Factorization, points: jax.Array) -> jax.Array:
    """Cross-covariance ``k(D, points)``, shape ``(m, k)``, with zero rows where nothing was evaluated."""
    return mask_rows(factorization.mask, _gram(model, factorization.points, points))


def nearest(model: GPModel, points: jax.Array, mask: jax.Array, theta: jax.Array, count: int) -> jax.Array:
    """Indices ``(count,)`` of the ``points (m, d)`` most correlated with ``theta (d,)``; masked points come last."""

    def k(x, y):
        return model.kernel(model.params, x, y)

    correlation = jax.vmap(lambda x: k(x, theta) * jax.lax.rsqrt(k(x, x) * k(theta, theta)))(points)
    return jax.lax.top_k(jnp.where(mask, correlation, -jnp.inf), count)[1]


def room_for(model: GPModel, points: jax.Array, mask: jax.Array, batch: int) -> Factorization:
    """Compute ``condition`` with room for ``batch`` points more; all given rows count as used."""
    room = jnp.zeros((batch, points.shape[1]), points.dtype)
    extended = jnp.concatenate([points, room]), jnp.concatenate([mask, jnp.zeros(batch, bool)])
    return condition(model, *extended)._replace(used=jnp.asarray(points.shape[0], jnp.int32))


def predict(
    model: GPModel, factorization: Factorization, values: jax.Array, points: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Posterior mean and variance of the latent function at ``points (k, d)``; ``condition`` has an example.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary(1.0, 1), jnp.asarray(0.1))
    >>> points, mask = jnp.array([[0.0], [1.0]]), jnp.ones(2, bool)
    >>> factorization = surrogate.condition(model, points, mask)
    >>> mean, variance = surrogate.predict(model, factorization, jnp.array([0.0, 1.0]), jnp.array([[0.5]]))
    >>> mean.shape, variance.shape
    ((1,), (1,))

    Args:
      model: the process before any evaluation.
      factorization: the evaluated points.
      values: ``(m,)``, or ``(m, n)`` for ``n`` functions at once; masked rows are ignored.
      points: where to predict.

    Returns:
      The mean ``(k,)`` or ``(k, n)``, and the variance ``(k,)``, which depends on no value.
    """
    cross = whiten(factorization, cross_covariance(model, factorization, points))
    mean = matmul(cross.T, whiten(factorization, mask_rows(factorization.mask, values)))
    variance = kernels.diagonal(model.kernel, model.params, points) - jnp.sum(jnp.square(cross), axis=0)
    return mean, jnp.maximum(variance, 0.0)


def predictor(
    model: GPModel, factorization: Factorization, values: jax.Array
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Return ``predict`` as a function of points ``(k, d)``, for ``values (m,)`` and many calls; equal to rounding."""
    weights = whiten(factorization, mask_rows(factorization.mask, values))

    def predict_points(points: jax.Array) -> tuple[jax.Array, jax.Array]:
        shared = kernels.gram_of_many(model.kernel, model.params, factorization.points, points)
        cross = whiten(factorization, mask_rows(factorization.mask, shared))
        variance = kernels.diagonal(model.kernel, model.params, points) - jnp.sum(jnp.square(cross), axis=0)
        return matmul(weights, cross), jnp.maximum(variance, 0.0)

    return predict_points


def log_marginal_likelihood(
    model: GPModel,
    points: jax.Array,
    values: jax.Array,
    mask: jax.Array,
) -> jax.Array:
    """Log marginal likelihood ``log p(values | points)``, a scalar, over the rows where ``mask (m,)`` is True.

    Reads the values: NOT private.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary(1.0, 1), jnp.asarray(0.1))
    >>> points, mask = jnp.array([[0.0], [1.0]]), jnp.ones(2, bool)
    >>> surrogate.log_marginal_likelihood(model, points, jnp.array([0.0, 1.0]), mask).shape
    ()
    """
    count = jnp.sum(mask, dtype=values.dtype)
    return log_density(covariance(model, points, mask), mask_rows(mask, values)) - 0.5 * count * math.log(2 * math.pi)


@jax.custom_jvp
def log_density(covariance: jax.Array, values: jax.Array) -> jax.Array:
    """Log density ``-(v^T C^-1 v + log det C) / 2``, without the constant."""
    return _log_density_and_whitening(covariance, values)[0]


def _log_density_and_whitening(covariance, values):
    whitening = inverse_factor(covariance)
    whitened = matmul(whitening, values)
    height = jnp.sum(jnp.log(jnp.diagonal(whitening))) - 0.5 * jnp.sum(jnp.square(whitened))
    return height, (whitening, whitened)


@log_density.defjvp
def _(primals, tangents):
    """Rasmussen and Williams (2006), equation 5.9: less to compute and to compile than through a factor."""
    height, (whitening, whitened) = _log_density_and_whitening(*primals)
    solved = matmul(whitened, whitening)
    slope = 0.5 * (solved[:, None] * solved[None, :] - matmul(whitening.T, whitening))
    return height, jnp.sum(slope * tangents[0]) - matmul(solved, tangents[1])

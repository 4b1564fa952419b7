"""Posterior of a zero-mean Gaussian process in a fixed-capacity buffer.

The posterior here is the whitening of the evaluated points: the inverse of the Cholesky factor of their covariance. It
holds no values. You pass values to the functions that need them, so one whitening serves every user's losses, and a
state can keep points public and values private.

Why the inverse factor: appending a block, solving and searching are then matrix products, which are fast on every
backend and which no thread contention slows. Against triangular solves the inverse costs half a digit for stationary
kernels, up to two for rank-deficient polynomial ones (tests/test_gradient.py); updating the inverse of the covariance
itself would cost four, and fails in float32.

The factored matrix is ``K + diag(noise)``. ``noise_i`` is the noise variance of observation ``i``, raised to
``jitter(dtype) k(x_i, x_i)`` if lower: the one jitter rule of the library. A noise variance at or above the floor is
used exactly as given. A caller who expects many crowded points knows their number, and passes a larger noise variance.

Rasmussen and Williams (2006), section 2.2 and algorithm 2.1.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.scipy.linalg import solve_triangular

from jaxdpbo.surrogate import kernels
from jaxdpbo.surrogate.entry import compiled, expect_shapes
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

    A noise variance below ``noise_floor k(x, x)`` is raised to this floor: by default ``1e-4 k(x, x)`` in float32 and
    ``1e-10 k(x, x)`` in float64. You can lower ``noise_floor`` where points lie far apart. Where they do not, the
    covariance has no Cholesky factor, and posterior and likelihood are NaN.

    Attributes:
      kernel: a function of one pair of points, static.
      params: the kernel's parameters, traced.
      noise_variance: ``()`` of one observation, traced.
      noise_floor: static; None for the default.
    """

    kernel: Kernel = field(metadata={"static": True})
    params: KernelParams
    noise_variance: jax.Array
    noise_floor: float | None = field(default=None, metadata={"static": True})


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


def noise(model: GPModel, points: jax.Array, variances: jax.Array | None = None) -> jax.Array:
    """Diagonal ``(b,)`` added to the covariance of ``points (b, d)``, by the module's jitter rule.

    The noise variances are ``variances (b,)``, or the model's.
    """
    relative = jitter(points.dtype) if model.noise_floor is None else model.noise_floor
    floor = relative * kernels.diagonal(model.kernel, model.params, points)
    return jnp.maximum(model.noise_variance if variances is None else variances, floor)


def empty(capacity: int, dimension: int, dtype: jax.typing.DTypeLike) -> Factorization:
    """Factorization of no evaluations, with room for ``capacity``: the prior."""
    return Factorization(
        points=jnp.zeros((capacity, dimension), dtype),
        mask=jnp.zeros(capacity, bool),
        whitening=jnp.eye(capacity, dtype=dtype),
        used=jnp.zeros((), jnp.int32),
    )


@compiled("capacity")
def condition(
    model: GPModel,
    points: jax.Array,
    mask: jax.Array | None = None,
    *,
    noise_variances: jax.Array | None = None,
    capacity: int | None = None,
) -> Factorization:
    """Condition on ``points (m, d)`` where ``mask (m,)`` is True, by one full factorisation, O(m^3).

    A failed factorisation does not raise; ``whitening`` is then NaN.

    Args:
      model: the process before any evaluation.
      points: where values were observed.
      mask: None if all rows count.
      noise_variances: ``(m,)``, of each observation; None for the model's. Lower ones are raised to the floor of
        ``GPModel``.
      capacity: number of rows of the result, static; None for ``m``. Rows after the last True one are free for
        ``append``.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(0.5, 1), noise_variance=jnp.asarray(0.01))
    >>> points, values = jnp.array([[0.0], [1.0]]), jnp.array([1.0, -1.0])
    >>> factorization = surrogate.condition(model, points)
    >>> mean, variance = surrogate.predict(model, factorization, values, jnp.array([[0.0], [0.25]]))
    >>> print(np.asarray(mean).round(2), np.asarray(variance).round(2))
    [0.99 0.64] [0.01 0.19]

    Raises:
      ValueError: a wrong shape, or ``capacity`` below ``m``; at trace time.
    """
    points, mask, variances = _observations(points, mask, noise_variances)
    count = points.shape[0]
    room = (count if capacity is None else capacity) - count
    if room < 0:
        raise ValueError(f"capacity must be at least the number of points, {count}, got {capacity}")
    points, mask = jnp.pad(points, ((0, room), (0, 0))), jnp.pad(mask, (0, room))
    variances = None if variances is None else jnp.pad(variances, (0, room))
    whitening = inverse_factor(covariance(model, points, mask, variances))
    after = jnp.arange(1, count + room + 1, dtype=jnp.int32)
    return Factorization(points, mask, whitening, jnp.max(jnp.where(mask, after, 0), initial=0))


def _observations(points, mask, variances):
    """Check shapes; return points and noise variances with zeros in masked rows, and a mask."""
    shapes = {"points": (points, "m d"), "mask": (mask, "m"), "noise_variances": (variances, "m")}
    expect_shapes(**{name: pair for name, pair in shapes.items() if pair[0] is not None})
    mask = jnp.ones(points.shape[0], bool) if mask is None else mask
    return mask_rows(mask, points), mask, None if variances is None else mask_rows(mask, variances)


def covariance(
    model: GPModel, points: jax.Array, mask: jax.Array, noise_variances: jax.Array | None = None
) -> jax.Array:
    """Covariance ``K + diag(noise)`` where ``mask`` is True, the identity elsewhere."""
    points = mask_rows(mask, points)  # before the kernel: the gradient of a masked NaN is NaN
    both = mask[:, None] & mask[None, :]
    noiseless = jnp.where(both, _gram(model, points, points), 0.0)
    return noiseless + jnp.diag(jnp.where(mask, noise(model, points, noise_variances), 1.0))


def _gram(model, xs, ys):
    """Gram matrix by the faster function: for few pairs, ``kernels.gram`` compiles in less time."""
    gram = kernels.gram_of_many if xs.size * ys.shape[0] >= MANY_NUMBERS else kernels.gram
    return gram(model.kernel, model.params, xs, ys)


def inverse_factor(matrix: jax.Array) -> jax.Array:
    """Inverse ``L^-1`` of the Cholesky factor of ``matrix (m, m) = L L^T``; NaN where no factor exists."""
    factor = jnp.linalg.cholesky(matrix, symmetrize_input=False)
    return solve_triangular(factor, jnp.eye(factor.shape[0], dtype=factor.dtype), lower=True)


def append(
    model: GPModel,
    factorization: Factorization,
    points: jax.Array,
    mask: jax.Array | None = None,
    *,
    noise_variances: jax.Array | None = None,
    when: jax.Array | bool = True,
) -> Factorization:
    """Condition on ``points (b, d)`` as well, where ``mask (b,)`` is True: a block of rows, O(m^2 b).

    Uses ``b`` rows, masked ones included. Returns the posterior unchanged where ``when`` is False, and under a trace
    also where fewer rows are free: no traced program can raise.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> first = surrogate.condition(model, jnp.array([[0.0]]), capacity=2)
    >>> both = surrogate.append(model, first, jnp.array([[1.0]]))
    >>> both.mask.tolist()
    [True, True]

    Args:
      model: the process before any evaluation.
      factorization: from ``condition`` with a ``capacity``, or with a mask that ends in False.
      points: where more values were observed.
      mask: None if all rows count.
      noise_variances: ``(b,)``, of each observation; None for the model's.
      when: False to change nothing.

    Raises:
      ValueError: a wrong shape, or ``b`` above the capacity, at trace time; outside a trace, too few free rows.
    """
    batch, capacity = jnp.shape(points)[:1], factorization.points.shape[0]
    if not isinstance(factorization.used, Tracer) and not isinstance(when, Tracer):
        free = capacity - int(factorization.used)
        if when and batch and free < batch[0] <= capacity:
            raise ValueError(
                f"points must fit the free rows, {free}, got {batch[0]}: pass a larger capacity to condition"
            )
    return _append(model, factorization, points, mask, noise_variances, when)


@compiled()
def _append(model, factorization, points, mask, noise_variances, when):
    expect_shapes(evaluated=(factorization.points, "m d"), points=(points, "b d"))
    points, mask, variances = _observations(points, mask, noise_variances)
    rows = extension(model, factorization, points, mask, variances)
    return extend(factorization, points, mask, rows, when=when)


def extension(
    model: GPModel,
    factorization: Factorization,
    points: jax.Array,
    mask: jax.Array,
    noise_variances: jax.Array | None = None,
) -> jax.Array:
    """Rows ``(b, m)`` by which ``points (b, d)`` extend the whitening; NaN where the factorisation fails.

    Raises:
      ValueError: ``b`` above the capacity, at trace time.
    """
    capacity, batch = factorization.points.shape[0], points.shape[0]
    if batch > capacity:
        raise ValueError(f"points must be at most the capacity {capacity}, got {batch}")
    cross = jnp.where(mask[None, :], cross_covariance(model, factorization, points), 0.0)
    below = whiten(factorization, cross)  # (m, b): L^-1 k(D, z)
    remaining = covariance(model, points, mask, noise_variances) - matmul(below.T, below)
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
    evaluated = mask_rows(factorization.mask, factorization.points)
    return mask_rows(factorization.mask, _gram(model, evaluated, points))


def nearest(model: GPModel, points: jax.Array, mask: jax.Array, theta: jax.Array, count: int) -> jax.Array:
    """Indices ``(count,)`` of the ``points (m, d)`` most correlated with ``theta (d,)``; masked points come last."""

    def k(x, y):
        return model.kernel(model.params, x, y)

    correlation = jax.vmap(lambda x: k(x, theta) * jax.lax.rsqrt(k(x, x) * k(theta, theta)))(points)
    return jax.lax.top_k(jnp.where(mask, correlation, -jnp.inf), count)[1]


def room_for(model: GPModel, points: jax.Array, mask: jax.Array, batch: int) -> Factorization:
    """Compute ``condition`` with room for ``batch`` points more; all given rows count as used."""
    count = points.shape[0]
    return condition(model, points, mask, capacity=count + batch)._replace(used=jnp.asarray(count, jnp.int32))


@compiled()
def predict(
    model: GPModel, factorization: Factorization, values: jax.Array, points: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Posterior mean and variance of the latent function at ``points (k, d)``; ``condition`` has an example.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0], [1.0]]))
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

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    mean, cross = _mean_and_cross(model, factorization, values, points)
    variance = kernels.diagonal(model.kernel, model.params, points) - jnp.sum(jnp.square(cross), axis=0)
    return mean, jnp.maximum(variance, 0.0)


def _mean_and_cross(model, factorization, values, points):
    """The posterior mean, and ``L^-1 k(D, points)``, ``(m, k)``."""
    of_values = "m n" if jnp.ndim(values) == 2 else "m"
    expect_shapes(evaluated=(factorization.points, "m d"), values=(values, of_values), points=(points, "k d"))
    cross = whiten(factorization, cross_covariance(model, factorization, points))
    return matmul(cross.T, whiten(factorization, mask_rows(factorization.mask, values))), cross


def predict_outputs(
    models: Sequence[GPModel], factorizations: Sequence[Factorization], values: jax.Array, points: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Predict ``p`` independent outputs, each with a model and a kernel of its own: two arrays ``(k, p)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> params = kernels.stationary_params(1.0, 1)
    >>> models = [surrogate.GPModel(kernel, params, jnp.asarray(0.1)) for kernel in (kernels.rbf, kernels.matern52)]
    >>> points, values = jnp.array([[0.0], [1.0]]), jnp.array([[0.0, 5.0], [1.0, 4.0]])
    >>> factorizations = [surrogate.condition(model, points) for model in models]
    >>> mean, variance = surrogate.predict_outputs(models, factorizations, values, jnp.array([[0.5], [0.6], [0.7]]))
    >>> mean.shape, variance.shape
    ((3, 2), (3, 2))

    Args:
      models: of the ``p`` outputs.
      factorizations: of each output.
      values: ``(m, p)``; rows that an output masks are ignored there.
      points: ``(k, d)``.

    Raises:
      ValueError: other numbers of outputs, or a wrong shape, at trace time.
    """
    counts = len(models), len(factorizations)
    if jnp.ndim(values) != 2 or counts != (values.shape[1],) * 2:
        raise ValueError(f"values must have a column for each of {counts[0]} models, got shape {jnp.shape(values)}")
    each = [predict(*output, points) for output in zip(models, factorizations, values.T, strict=True)]
    mean, variance = zip(*each, strict=True)
    return jnp.stack(mean, axis=1), jnp.stack(variance, axis=1)


@compiled()
def joint_posterior(
    model: GPModel, factorization: Factorization, values: jax.Array, points: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Posterior mean and covariance ``(k, k)`` of the latent function at ``points (k, d)`` together.

    Rasmussen and Williams (2006), equations 2.25 and 2.26. The arguments are those of ``predict``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0], [1.0]]))
    >>> values, points = jnp.array([0.0, 1.0]), jnp.array([[0.5], [0.6], [3.0]])
    >>> mean, covariance = surrogate.joint_posterior(model, factorization, values, points)
    >>> mean.shape, covariance.shape
    ((3,), (3, 3))

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    mean, cross = _mean_and_cross(model, factorization, values, points)
    return mean, _gram(model, points, points) - matmul(cross.T, cross)


@compiled("count")
def sample_posterior(
    key: jax.Array, model: GPModel, factorization: Factorization, values: jax.Array, points: jax.Array, count: int
) -> jax.Array:
    """Draw ``count`` functions from the posterior at ``points (k, d)``, for Thompson sampling: ``(count, k)``.

    The covariance is that of ``joint_posterior`` with the noise floor of ``GPModel`` added to its diagonal.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> factorization = surrogate.condition(model, jnp.array([[0.0], [1.0]]))
    >>> values, points = jnp.array([0.0, 1.0]), jnp.array([[0.5], [0.6], [3.0]])
    >>> surrogate.sample_posterior(jax.random.key(0), model, factorization, values, points, count=5).shape
    (5, 3)

    Raises:
      ValueError: ``values`` are not ``(m,)``, or another wrong shape, at trace time.
    """
    expect_shapes(evaluated=(factorization.points, "m d"), values=(values, "m"))
    mean, covariance = joint_posterior(model, factorization, values, points)
    floor = noise(model, points, jnp.zeros(points.shape[0], mean.dtype))
    factor = jnp.linalg.cholesky(covariance + jnp.diag(floor))
    return mean[None] + matmul(jax.random.normal(key, (count, points.shape[0]), mean.dtype), factor.T)


def predictor(
    model: GPModel, factorization: Factorization, values: jax.Array
) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Return ``predict`` as a function of points ``(k, d)``, for ``values (m,)`` and many calls; equal to rounding."""
    weights = whiten(factorization, mask_rows(factorization.mask, values))
    evaluated = mask_rows(factorization.mask, factorization.points)

    def predict_points(points: jax.Array) -> tuple[jax.Array, jax.Array]:
        shared = kernels.gram_of_many(model.kernel, model.params, evaluated, points)
        cross = whiten(factorization, mask_rows(factorization.mask, shared))
        variance = kernels.diagonal(model.kernel, model.params, points) - jnp.sum(jnp.square(cross), axis=0)
        return matmul(weights, cross), jnp.maximum(variance, 0.0)

    return predict_points


@compiled()
def log_marginal_likelihood(
    model: GPModel,
    points: jax.Array,
    values: jax.Array,
    mask: jax.Array | None = None,
    *,
    noise_variances: jax.Array | None = None,
) -> jax.Array:
    """Log marginal likelihood ``log p(values | points)``, a scalar, over the rows where ``mask (m,)`` is True.

    Reads the values: NOT private.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> surrogate.log_marginal_likelihood(model, jnp.array([[0.0], [1.0]]), jnp.array([0.0, 1.0])).shape
    ()

    Args:
      model: the process before any evaluation.
      points: ``(m, d)``.
      values: ``(m,)``; masked rows are ignored.
      mask: None if all rows count.
      noise_variances: ``(m,)``, of each observation; None for the model's.

    Raises:
      ValueError: a wrong shape, at trace time.
    """
    expect_shapes(points=(points, "m d"), values=(values, "m"))
    points, mask, variances = _observations(points, mask, noise_variances)
    count = jnp.sum(mask, dtype=values.dtype)
    height = log_density(covariance(model, points, mask, variances), mask_rows(mask, values))
    return height - 0.5 * count * math.log(2 * math.pi)


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

"""Kernels, each written for one pair of points: ``k(params, x, y) -> ()``.

``vmap`` gives Gram matrices, and ``grad`` the kernels of the gradient process. A kernel is a plain function; its
parameters are traced leaves of a dataclass, so a sweep over lengthscales never recompiles.

Formulas: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), equations 4.9 (rbf), 4.17 (Matern)
and section 4.2.2 (polynomial).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, namespace
from jaxdpbo.types import ArrayLike, Kernel, KernelParams

__all__ = [
    "Polynomial",
    "Stationary",
    "gram",
    "matern32",
    "matern52",
    "polynomial",
    "polynomial_of_degree",
    "rbf",
    "stationary",
    "stationary_from_box",
]
__dir__ = namespace.list_public(__name__)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Stationary:
    """Parameters of a stationary kernel: ``lengthscale (d,)`` (ARD) and ``variance ()``, both positive."""

    lengthscale: jax.Array
    variance: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Polynomial:
    """Parameters of a polynomial kernel: ``offset ()`` and ``variance ()``, both positive; ``degree`` is static."""

    offset: jax.Array
    variance: jax.Array
    degree: int = field(metadata={"static": True})


def stationary(lengthscale: ArrayLike, dimension: int, *, variance: float = 1.0) -> Stationary:
    """Make parameters for ``rbf``, ``matern32`` and ``matern52``.

    Args:
      lengthscale: a positive number, or ``(d,)`` with a lengthscale for each coordinate.
      dimension: ``d``.
      variance: the prior variance of the function at a point.

    Raises:
      ValueError: a number that is not positive and finite, or a wrong shape.

    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import kernels
    >>> params, points = kernels.stationary(0.5, dimension=2), jnp.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
    >>> print(np.asarray(kernels.gram(kernels.rbf, params, points, points)).round(2))
    [[1.   0.61 0.14]
     [0.61 1.   0.61]
     [0.14 0.61 1.  ]]
    """
    dimension = checks.size("dimension", dimension)
    is_scalar = checks.is_one(lengthscale)
    scales = np.full(dimension, float(checks.reals("lengthscale", lengthscale))) if is_scalar else lengthscale
    scales = checks.vector("lengthscale", scales, dimension)
    if not np.all(scales > 0):
        raise ValueError(f"lengthscale must be positive, got {scales.tolist()}")
    dtype = jnp.result_type(float)
    return Stationary(arrays.to_device(scales, dtype), arrays.to_device(checks.positive("variance", variance), dtype))


def stationary_from_box(extent: np.ndarray) -> Stationary:
    """Make lengthscales of ``sqrt(d) / 4`` of each side of ``extent (2, d)``: distances in a box grow as ``sqrt(d)``.

    The lengthscale is 1 along a side of no extent; the variance is 1.

    >>> import numpy as np
    >>> from jaxdpbo import kernels
    >>> kernels.stationary_from_box(np.array([[0.0, 0.0], [1.0, 2.0]])).lengthscale.shape
    (2,)
    """
    sides, dimension = extent[1] - extent[0], extent.shape[1]
    return stationary(np.where(sides > 0, sides * dimension**0.5 / 4, 1.0), dimension)


def polynomial_of_degree(degree: int, *, offset: float = 1.0, variance: float = 1.0) -> Polynomial:
    """Make parameters for ``polynomial``: degree at least 1, offset and variance positive.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> float(kernels.polynomial(kernels.polynomial_of_degree(2), jnp.ones(2), jnp.ones(2)))
    9.0
    """
    dtype = jnp.result_type(float)
    return Polynomial(
        arrays.to_device(checks.positive("offset", offset), dtype),
        arrays.to_device(checks.positive("variance", variance), dtype),
        checks.size("degree", degree),
    )


def check(kernel: Kernel, params: KernelParams, dimension: int) -> None:
    """Check on the host that a kernel, its parameters and the dimension fit each other.

    Raises:
      ValueError: the kernel does not return a scalar for two points ``(d,)``.
      TypeError: ``kernel`` is not a function defined once.
    """
    checks.function("kernel", kernel)
    point = jax.ShapeDtypeStruct((dimension,), jnp.result_type(float))
    try:
        shape = jax.eval_shape(kernel, params, point, point).shape
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"kernel_params do not fit kernel {kernel.__name__}: got {params!r}") from error
    if shape != ():
        raise ValueError(f"kernel must return a scalar for one pair of points, got shape {shape}")


def rbf(params: Stationary, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance exp(-r^2 / 2)`` with ``r^2 = sum((x - y)^2 / lengthscale^2)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> round(float(kernels.rbf(kernels.stationary(1.0, 1), jnp.zeros(1), jnp.ones(1))), 4)
    0.6065
    """
    return params.variance * _rbf_profile(_squared_distance(params, x, y))


def matern32(params: Stationary, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance (1 + a) exp(-a)`` with ``a = sqrt(3) r``. Its gradient process exists; sample paths are C^1.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> round(float(kernels.matern32(kernels.stationary(1.0, 1), jnp.zeros(1), jnp.ones(1))), 4)
    0.4834
    """
    return params.variance * _matern32_profile(_squared_distance(params, x, y))


def matern52(params: Stationary, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance (1 + a + a^2 / 3) exp(-a)`` with ``a = sqrt(5) r``; sample paths are C^2.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> round(float(kernels.matern52(kernels.stationary(1.0, 1), jnp.zeros(1), jnp.ones(1))), 4)
    0.524
    """
    return params.variance * _matern52_profile(_squared_distance(params, x, y))


def polynomial(params: Polynomial, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance (x . y + offset)^degree``: a Gram matrix has rank at most ``comb(d + degree, degree)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> params = kernels.polynomial_of_degree(2)
    >>> float(kernels.polynomial(params, jnp.ones(1), jnp.ones(1)))
    4.0
    """
    return params.variance * (jnp.dot(x, y, precision="highest") + params.offset) ** params.degree


def gram(kernel: Kernel, params: KernelParams, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Gram matrix ``k(x_i, y_j)`` of points ``xs (p, d)`` and ``ys (q, d)``, shape ``(p, q)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> points = jnp.array([[0.0], [1.0]])
    >>> kernels.gram(kernels.rbf, kernels.stationary(1.0, 1), points, points).shape
    (2, 2)
    """
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(params, x, y))(ys))(xs)


def row(kernel: Kernel, params: Any, x: jax.Array, columns: jax.Array) -> jax.Array:
    """Row ``k(x, y_j)`` of a long Gram matrix, for the columns ``y_j`` of ``columns (d, q)``, shape ``(q,)``.

    A stationary kernel is computed coordinate by coordinate, which CPUs vectorise over the points.
    """
    profile = _PROFILES.get(kernel)
    if profile is None:
        return gram(kernel, params, x[None], columns.T)[0]
    shrink = 1.0 / params.lengthscale

    def add(coordinate, squared):
        return squared + jnp.square((columns[coordinate] - x[coordinate]) * shrink[coordinate])

    return params.variance * profile(jax.lax.fori_loop(0, len(x), add, jnp.zeros_like(columns[0])))


def gram_of_many(kernel: Kernel, params: Any, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Compute ``gram`` to rounding: several times faster for many points, and more so under differentiation.

    For a stationary kernel, distances are added coordinate by coordinate, which CPUs vectorise over the points, and
    their derivatives are matrix products.
    """
    profile = _PROFILES.get(kernel)
    if profile is None:
        return gram(kernel, params, xs, ys)
    shrink = 1.0 / params.lengthscale[None]
    return params.variance * profile(_squared_distances(xs * shrink, ys * shrink))


def gram_around(kernel: Kernel, params: Any, centre: jax.Array, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Compute ``gram`` to rounding, fastest of all, for ``xs (p, d)`` around ``centre (d,)`` and any ``ys (q, d)``.

    For a stationary kernel, distances are matrix products, ``|x|^2 + |y|^2 - 2 x . y`` from the centre. Their rounding
    error is of the size of ``|x|^2 + |y|^2``: small for two close points near the centre; for two distant points the
    kernel is small.
    """
    profile = _PROFILES.get(kernel)
    if profile is None:
        return gram(kernel, params, xs, ys)
    shrink = 1.0 / params.lengthscale[None]
    xs, ys = (xs - centre[None]) * shrink, (ys - centre[None]) * shrink
    lengths = jnp.sum(jnp.square(xs), axis=1)[:, None] + jnp.sum(jnp.square(ys), axis=1)[None, :]
    return params.variance * profile(jnp.maximum(lengths - 2.0 * jnp.matmul(xs, ys.T, precision="highest"), 0.0))


@jax.custom_jvp
def _squared_distances(xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Squared distances of all pairs, ``(p, q)``."""

    def add(coordinate, squared):
        return squared + jnp.square(xs[:, coordinate, None] - ys[None, :, coordinate])

    return jax.lax.fori_loop(0, xs.shape[1], add, jnp.zeros((xs.shape[0], ys.shape[0]), xs.dtype))


def _distances_slope(primals, tangents):
    """``2 (x_i - y_j) . (dx_i - dy_j)`` by matrix products; fixed points cost nothing."""
    xs, ys = primals
    of_xs, of_ys = (
        None if isinstance(tangent, jax.custom_derivatives.SymbolicZero) else tangent for tangent in tangents
    )
    slope = jnp.zeros((xs.shape[0], ys.shape[0]), xs.dtype)
    if of_xs is not None:
        slope += jnp.sum(xs * of_xs, axis=1)[:, None] - jnp.matmul(of_xs, ys.T, precision="highest")
    if of_ys is not None:
        slope += jnp.sum(ys * of_ys, axis=1)[None, :] - jnp.matmul(xs, of_ys.T, precision="highest")
    return _squared_distances(xs, ys), 2.0 * slope


_squared_distances.defjvp(_distances_slope, symbolic_zeros=True)


def diagonal(kernel: Kernel, params: Any, xs: jax.Array) -> jax.Array:
    """Prior variances ``k(x_i, x_i)`` at points ``xs (p, d)``, shape ``(p,)``."""
    if kernel in _PROFILES:
        return jnp.full(xs.shape[0], params.variance)
    return jax.vmap(lambda x: kernel(params, x, x))(xs)


def _squared_distance(params: Stationary, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square((x - y) * (1.0 / params.lengthscale)))


def _rbf_profile(squared: jax.Array) -> jax.Array:
    return jnp.exp(-0.5 * squared)


def _matern32_profile(squared: jax.Array) -> jax.Array:
    return _linear_decay(3.0 * squared)


def _matern52_profile(squared: jax.Array) -> jax.Array:
    return _quadratic_decay(5.0 * squared)


_PROFILES: dict[Any, Callable[[jax.Array], jax.Array]] = {
    rbf: _rbf_profile,
    matern32: _matern32_profile,
    matern52: _matern52_profile,
}


# The Matern profiles are functions of a^2, not of a: sqrt has no derivative at 0, but the profiles are differentiable
# there. The custom rules give each derivative as another profile. Only the derivative of exp(-a) diverges at 0; it
# always meets a factor (x - y)(x - y)^T, so 0 is the right value.


def _decay(squared: jax.Array) -> jax.Array:
    """``exp(-a)`` of ``a^2``, with derivative 0 at 0."""
    positive = squared > 0
    return jnp.where(positive, jnp.exp(-jnp.sqrt(jnp.where(positive, squared, 1.0))), 1.0)


@jax.custom_jvp
def _linear_decay(squared: jax.Array) -> jax.Array:
    """``(1 + a) exp(-a)`` of ``a^2``; derivative ``-exp(-a) / 2``."""
    return (1.0 + jnp.sqrt(squared)) * jnp.exp(-jnp.sqrt(squared))


@_linear_decay.defjvp
def _(primals, tangents):
    return _linear_decay(primals[0]), -0.5 * _decay(primals[0]) * tangents[0]


@jax.custom_jvp
def _quadratic_decay(squared: jax.Array) -> jax.Array:
    """``(1 + a + a^2 / 3) exp(-a)`` of ``a^2``; derivative ``-(1 + a) exp(-a) / 6``."""
    return (1.0 + jnp.sqrt(squared) + squared / 3.0) * jnp.exp(-jnp.sqrt(squared))


@_quadratic_decay.defjvp
def _(primals, tangents):
    return _quadratic_decay(primals[0]), _linear_decay(primals[0]) * tangents[0] / -6.0

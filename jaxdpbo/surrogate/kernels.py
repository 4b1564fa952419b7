"""Kernels, each written for one pair of points: ``k(params, x, y) -> ()``.

``vmap`` gives Gram matrices, and ``grad`` the kernels of the gradient process. A kernel is a plain function; its
parameters are traced leaves of a dataclass, so a sweep over lengthscales never recompiles.

Formulas: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), equations 4.9 (rbf), 4.17 (Matern)
section 4.2.2 (polynomial) and section 4.2.4 (sums and products).

Names: a kernel has the name of its formula, such as ``rbf``, and ``stationary_params`` makes its parameters,
``Stationary``. ``add``, ``multiply``, ``on_categories``, ``on_columns``, ``on_moved`` and ``warp`` make a kernel of
kernels, always the same object for the same arguments.

A constant mean with a normal prior is a ``constant`` kernel added to yours, and a linear mean a ``polynomial`` one of
degree 1: the posterior then integrates over the mean, exactly (section 2.7). Bring the values to standard units first:
a vague prior raises the noise floor of ``surrogate.GPModel``, which is relative to ``k(x, x)``.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, namespace
from jaxdpbo import space as spaces
from jaxdpbo.space import Space
from jaxdpbo.surrogate import preprocessing
from jaxdpbo.surrogate.entry import compiled, expect_shapes
from jaxdpbo.types import ArrayLike, Kernel, KernelParams

__all__ = [
    "Constant",
    "Polynomial",
    "Stationary",
    "Warp",
    "add",
    "constant",
    "constant_params",
    "gram",
    "matern32",
    "matern52",
    "multiply",
    "of_space",
    "on_categories",
    "on_columns",
    "on_moved",
    "polynomial",
    "polynomial_params",
    "rbf",
    "stationary_params",
    "stationary_params_from_box",
    "warp",
    "warp_params",
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Constant:
    """Parameters of a constant kernel: ``variance ()``, positive."""

    variance: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Warp:
    """Parameters of a kernel of ``warp``: those of the ``inner`` kernel, and ``a (d,)`` and ``b (d,)``, positive."""

    inner: KernelParams
    a: jax.Array
    b: jax.Array


def stationary_params(lengthscale: ArrayLike, dimension: int, *, variance: float = 1.0) -> Stationary:
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
    >>> params, points = kernels.stationary_params(0.5, dimension=2), jnp.array([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]])
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


def stationary_params_from_box(extent: np.ndarray) -> Stationary:
    """Make lengthscales of ``sqrt(d) / 4`` of each side of ``extent (2, d)``: distances in a box grow as ``sqrt(d)``.

    The lengthscale is 1 along a side of no extent; the variance is 1.

    >>> import numpy as np
    >>> from jaxdpbo import kernels
    >>> kernels.stationary_params_from_box(np.array([[0.0, 0.0], [1.0, 2.0]])).lengthscale.shape
    (2,)
    """
    sides, dimension = extent[1] - extent[0], extent.shape[1]
    return stationary_params(np.where(sides > 0, sides * dimension**0.5 / 4, 1.0), dimension)


def polynomial_params(degree: int, *, offset: float = 1.0, variance: float = 1.0) -> Polynomial:
    """Make parameters for ``polynomial``: degree at least 1, offset and variance positive.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> float(kernels.polynomial(kernels.polynomial_params(2), jnp.ones(2), jnp.ones(2)))
    9.0
    """
    dtype = jnp.result_type(float)
    return Polynomial(
        arrays.to_device(checks.positive("offset", offset), dtype),
        arrays.to_device(checks.positive("variance", variance), dtype),
        checks.size("degree", degree),
    )


def constant_params(variance: float = 1.0) -> Constant:
    """Make parameters for ``constant``.

    >>> from jaxdpbo import kernels
    >>> float(kernels.constant_params(4.0).variance)
    4.0

    Raises:
      ValueError: a variance that is not positive and finite.
    """
    return Constant(arrays.to_device(checks.positive("variance", variance), jnp.result_type(float)))


def warp_params(inner: KernelParams, dimension: int) -> Warp:
    """Make parameters for a kernel of ``warp``, without a warp to begin with: ``a = b = 1``.

    >>> from jaxdpbo import kernels
    >>> kernels.warp_params(kernels.stationary_params(0.3, 2), dimension=2).a.tolist()
    [1.0, 1.0]

    Raises:
      ValueError: a dimension below 1.
    """
    ones = arrays.to_device(np.ones(checks.size("dimension", dimension)), jnp.result_type(float))
    return Warp(inner, ones, ones)


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
    >>> round(float(kernels.rbf(kernels.stationary_params(1.0, 1), jnp.zeros(1), jnp.ones(1))), 4)
    0.6065
    """
    return params.variance * _rbf_profile(_squared_distance(params, x, y))


def matern32(params: Stationary, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance (1 + a) exp(-a)`` with ``a = sqrt(3) r``. Its gradient process exists; sample paths are C^1.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> round(float(kernels.matern32(kernels.stationary_params(1.0, 1), jnp.zeros(1), jnp.ones(1))), 4)
    0.4834
    """
    return params.variance * _matern32_profile(_squared_distance(params, x, y))


def matern52(params: Stationary, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance (1 + a + a^2 / 3) exp(-a)`` with ``a = sqrt(5) r``; sample paths are C^2.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> round(float(kernels.matern52(kernels.stationary_params(1.0, 1), jnp.zeros(1), jnp.ones(1))), 4)
    0.524
    """
    return params.variance * _matern52_profile(_squared_distance(params, x, y))


def polynomial(params: Polynomial, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance (x . y + offset)^degree``: a Gram matrix has rank at most ``comb(d + degree, degree)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> params = kernels.polynomial_params(2)
    >>> float(kernels.polynomial(params, jnp.ones(1), jnp.ones(1)))
    4.0
    """
    return params.variance * (jnp.dot(x, y, precision="highest") + params.offset) ** params.degree


def constant(params: Constant, x: jax.Array, y: jax.Array) -> jax.Array:
    """``variance``: a constant with a normal prior.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> float(kernels.constant(kernels.constant_params(4.0), jnp.zeros(1), jnp.ones(1)))
    4.0
    """
    expect_shapes(x=(x, "d"), y=(y, "d"))
    return params.variance


@functools.cache
def add(*kernels: Kernel) -> Kernel:
    """Add ``kernels``: the kernel of a sum of independent processes. Its parameters are a tuple, one for each.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> with_mean = kernels.add(kernels.rbf, kernels.constant)
    >>> params = kernels.stationary_params(1.0, 1), kernels.constant_params(4.0)
    >>> float(with_mean(params, jnp.zeros(1), jnp.zeros(1)))
    5.0

    Raises:
      ValueError: no kernel; another number of parameters, at trace time.
      TypeError: a kernel that is not a function defined once.
    """
    return _combine(operator.add, kernels)


@functools.cache
def multiply(*kernels: Kernel) -> Kernel:
    """Multiply ``kernels``. The parameters are a tuple, one for each.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> both = kernels.multiply(kernels.constant, kernels.constant)
    >>> float(both((kernels.constant_params(4.0), kernels.constant_params(2.0)), jnp.zeros(1), jnp.zeros(1)))
    8.0

    Raises:
      ValueError: no kernel; another number of parameters, at trace time.
      TypeError: a kernel that is not a function defined once.
    """
    return _combine(operator.mul, kernels)


def _combine(operation: Callable[[Any, Any], Any], kernels: tuple[Kernel, ...]) -> Kernel:
    if not kernels:
        raise ValueError("kernels must be at least one kernel, got 0")
    for number, kernel in enumerate(kernels):
        checks.function(f"kernels[{number}]", kernel)

    def combination(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        if len(params) != len(kernels):
            raise ValueError(f"params must be a tuple of {len(kernels)}, one for each kernel, got {len(params)}")
        return functools.reduce(operation, (kernel(of, x, y) for kernel, of in zip(kernels, params, strict=True)))

    return combination


def on_columns(kernel: Kernel, columns: Sequence[int]) -> Kernel:
    """Apply ``kernel`` to some ``columns`` of the points alone, in this order.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> second = kernels.on_columns(kernels.rbf, [1])
    >>> float(second(kernels.stationary_params(1.0, 1), jnp.array([0.0, 2.0]), jnp.array([9.0, 2.0])))
    1.0

    Raises:
      ValueError: no column, or a negative one; a column beyond the points, at trace time.
    """
    return _on_columns(checks.function("kernel", kernel), _check_columns(columns))


@functools.cache
def _on_columns(kernel: Kernel, columns: tuple[int, ...]) -> Kernel:
    def columns_kernel(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        chosen = _columns_below(columns, x, y)
        return kernel(params, x[chosen], y[chosen])

    return columns_kernel


def _check_columns(columns: Sequence[int]) -> tuple[int, ...]:
    chosen = tuple(checks.size("columns", column, minimum=0) for column in columns)
    if not chosen:
        raise ValueError("columns must be at least one column, got 0")
    return chosen


def _columns_below(columns: tuple[int, ...], x: jax.Array, y: jax.Array) -> np.ndarray:
    expect_shapes(x=(x, "d"), y=(y, "d"))
    if max(columns) >= x.shape[0]:
        raise ValueError(f"columns must lie below d = {x.shape[0]}, got {max(columns)}")
    return np.array(columns)


def on_categories(kernel: Kernel, columns: Sequence[int]) -> Kernel:
    """Apply a stationary ``kernel`` to points with categories in some ``columns``: different values are at distance 1.

    This is the kernel of points with a column for each category, which share a lengthscale, so it is positive
    definite. A category has no order, and a kernel of numbers would correlate those that stand side by side. A
    ``polynomial`` kernel sees no category at all.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> named = kernels.on_categories(kernels.rbf, [0])
    >>> params = kernels.stationary_params(1.0, 1)
    >>> [round(float(named(params, jnp.array([0.0]), jnp.array([y]))), 3) for y in (0.0, 2.0, 9.0)]
    [1.0, 0.607, 0.607]

    Raises:
      ValueError: no column, or a negative one; a column beyond the points, at trace time.
    """
    return _on_categories(checks.function("kernel", kernel), _check_columns(columns))


@functools.cache
def _on_categories(kernel: Kernel, columns: tuple[int, ...]) -> Kernel:
    def categories_kernel(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        chosen = _columns_below(columns, x, y)
        differ = (x[chosen] != y[chosen]).astype(y.dtype)
        return kernel(params, x.at[chosen].set(0.0), y.at[chosen].set(differ))

    return categories_kernel


def of_space(kernel: Kernel, space: Space | None) -> Kernel:
    """The ``kernel`` of a tree: on what exists in a point's branch, with branches and categories that are equal or not.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import Space, kernels, space
    >>> tree = Space({"model": space.branches({"svm": {"C": space.real(0.1, 10)}, "mean": {}})})
    >>> params = kernels.stationary_params(1.0, 2)
    >>> float(kernels.of_space(kernels.rbf, tree)(params, jnp.array([0.9, 0.1]), jnp.array([0.8, 0.7])))
    1.0

    Args:
      kernel: stationary.
      space: None for a box, which leaves the kernel as it is.
    """
    if space is None:
        return kernel
    kinds = enumerate(space.dimensions)
    columns = [axis for axis, of in kinds if isinstance(of, (spaces.Branches, spaces.Categorical))]
    return on_moved(on_categories(kernel, columns) if columns else kernel, spaces.imputation(space))


@functools.cache
def on_moved(kernel: Kernel, move: Callable[[jax.Array], jax.Array] | None) -> Kernel:
    """Apply ``kernel`` to points moved by ``move``, ``(d,) -> (d,)``; None moves nothing.

    Points that move to one place are one point: their correlation is 1.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> up = kernels.on_moved(kernels.rbf, jnp.ceil)
    >>> float(up(kernels.stationary_params(1.0, 1), jnp.array([0.2]), jnp.array([0.9])))
    1.0

    Raises:
      TypeError: a kernel or ``move`` that is not a function defined once.
    """
    checks.function("kernel", kernel)
    if move is None:
        return kernel
    moved = checks.function("move", move)

    def moved_kernel(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        return kernel(params, moved(x), moved(y))

    return moved_kernel


@functools.cache
def warp(kernel: Kernel) -> Kernel:
    """Apply ``kernel`` to points of the unit box warped by ``surrogate.warp_inputs``. Its parameters are ``Warp``.

    ``surrogate.fit`` fits ``a`` and ``b`` too; a usual prior is ``priors={"a": (0.0, 0.75), "b": (0.0, 0.75)}``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> params = kernels.warp_params(kernels.stationary_params(1.0, 1), dimension=1)
    >>> round(float(kernels.warp(kernels.rbf)(params, jnp.zeros(1), jnp.ones(1))), 4)
    0.6065
    """
    checks.function("kernel", kernel)

    def warped_kernel(params: Warp, x: jax.Array, y: jax.Array) -> jax.Array:
        x, y = (preprocessing.warp_inputs(point, params.a, params.b) for point in (x, y))
        return kernel(params.inner, x, y)

    return warped_kernel


@compiled("kernel")
def gram(kernel: Kernel, params: KernelParams, xs: jax.Array, ys: jax.Array) -> jax.Array:
    """Gram matrix ``k(x_i, y_j)`` of points ``xs (p, d)`` and ``ys (q, d)``, shape ``(p, q)``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels
    >>> points = jnp.array([[0.0], [1.0]])
    >>> kernels.gram(kernels.rbf, kernels.stationary_params(1.0, 1), points, points).shape
    (2, 2)
    """
    expect_shapes(xs=(xs, "p d"), ys=(ys, "q d"))
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(params, x, y))(ys))(xs)


def row(kernel: Kernel, params: Any, x: jax.Array, columns: jax.Array) -> jax.Array:
    """Row ``k(x, y_j)`` of a long Gram matrix, for the columns ``y_j`` of ``columns (d, q)``, shape ``(q,)``.

    A stationary kernel is computed coordinate by coordinate, which CPUs vectorise over the points.
    """
    profile = _PROFILES.get(kernel)
    if profile is None:
        return gram(kernel, params, x[None], columns.T)[0]
    expect_shapes(lengthscale=(params.lengthscale, "d"), x=(x, "d"), columns=(columns, "d q"))
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
    expect_shapes(lengthscale=(params.lengthscale, "d"), xs=(xs, "p d"), ys=(ys, "q d"))
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
    expect_shapes(lengthscale=(params.lengthscale, "d"), xs=(xs, "p d"), ys=(ys, "q d"))
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
    expect_shapes(lengthscale=(params.lengthscale, "d"), x=(x, "d"), y=(y, "d"))
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

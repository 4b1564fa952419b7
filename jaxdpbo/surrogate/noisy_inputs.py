"""Kernels over noisy inputs, for the modeler of an outsourced search.

The modeler has ``z_i``, a noisy version of ``x_i``. The covariance of ``f(x_i)`` and ``f(x_j)`` given both is the mean
of ``k(x_i, x_j)`` for two different rows, and ``k(x_i, x_i) = 1`` for a row with itself, at any noise: the identity of
the row decides, not its place. So a point here is ``(row, z)``. A mean of covariances over independent ``x_i`` is a
covariance: the kernels are positive semi-definite by construction.

The prior of ``x_i`` is flat: over the whole space where ``z_i = x_i + w_i``, over all cells where ``z_i`` names a cell.
With the squared-exponential kernel and noise that is normal with random variance (``jaxdpbo.input_noise``), the mean
is a sum of squared-exponential kernels.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, input_noise
from jaxdpbo.surrogate import kernels
from jaxdpbo.types import ArrayLike, Kernel, KernelParams


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NoisyInputs:
    """Parameters of ``rbf`` and ``product_rbf``.

    Attributes:
      lengthscale: ``()``.
      variances: ``(q,)``, possible variances of a coordinate of the difference of two rows' noise.
      weights: ``(q,)``, their probabilities.
    """

    lengthscale: jax.Array
    variances: jax.Array
    weights: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NamedCells:
    """Parameters of ``named_cells``: ``covariance (K, K)`` of two rows, by their named cells."""

    covariance: jax.Array


def make_kernel(
    distribution: input_noise.NoiseDistribution | input_noise.Response | None, rows: jax.Array, lengthscale: float
) -> tuple[Kernel, KernelParams, jax.Array]:
    """Make kernel, parameters and points for released rows ``(n, d)``; without a distribution, rows are the inputs.

    Raises:
      ValueError: a lengthscale that is not positive and finite.
    """
    if distribution is None:
        return (
            kernels.rbf,
            kernels.stationary_params(lengthscale, rows.shape[1]),
            jnp.asarray(rows, jnp.result_type(float)),
        )
    if isinstance(distribution, input_noise.NoiseDistribution):
        kernel = product_rbf if distribution.kind == "product_laplace" else noisy_rbf
        return kernel, noisy_inputs(distribution, lengthscale), number_rows(rows)
    places = np.array(distribution.cells)
    cells = np.argmin(np.sum(np.square(np.asarray(rows)[:, None] - places[None]), axis=2), axis=1)
    return named_cells, cell_covariance(distribution, lengthscale), number_rows(cells[:, None])


def noisy_inputs(distribution: input_noise.NoiseDistribution, lengthscale: float) -> NoisyInputs:
    """Make parameters of ``rbf`` or ``product_rbf`` for inputs with noise of ``distribution``.

    Raises:
      ValueError: a lengthscale that is not positive and finite.
    """
    variances, weights = input_noise.difference_variances(distribution)
    dtype = jnp.result_type(float)
    return NoisyInputs(
        jnp.asarray(checks.positive("lengthscale", lengthscale), dtype),
        jnp.asarray(variances, dtype),
        jnp.asarray(weights, dtype),
    )


def noisy_rbf(params: NoisyInputs, x: jax.Array, y: jax.Array) -> jax.Array:
    """``E exp(-|x - y|^2 / (2 l^2))`` given ``x`` and ``y (1 + d,)``; the first coordinates are row numbers."""
    dimension = x.shape[0] - 1
    squared = jnp.sum(jnp.square(x[1:] - y[1:]))
    widened = jnp.square(params.lengthscale) + params.variances
    shrunk = (jnp.square(params.lengthscale) / widened) ** (dimension / 2)
    averaged = jnp.sum(params.weights * shrunk * jnp.exp(-0.5 * squared / widened))
    return jnp.where(x[0] == y[0], 1.0, averaged)


def product_rbf(params: NoisyInputs, x: jax.Array, y: jax.Array) -> jax.Array:
    """``rbf`` for noise with a random variance in each coordinate: a product of such means."""
    squared = jnp.square(x[1:] - y[1:])[:, None]
    widened = jnp.square(params.lengthscale) + params.variances[None]
    shrunk = jnp.sqrt(jnp.square(params.lengthscale) / widened)
    averaged = jnp.prod(jnp.sum(params.weights[None] * shrunk * jnp.exp(-0.5 * squared / widened), axis=1))
    return jnp.where(x[0] == y[0], 1.0, averaged)


def cell_covariance(response: input_noise.Response, lengthscale: float) -> NamedCells:
    """Make parameters of ``named_cells``.

    A row lies in its named cell with the probability of ``response``, in each other cell with equal probability, and is
    normal there, with ``input_noise.cell_variances``.

    Raises:
      ValueError: a lengthscale that is not positive and finite.
    """
    length = checks.positive("lengthscale", lengthscale)
    if not np.isfinite(squared := length * length):
        raise ValueError(f"lengthscale must be smaller, got {length}: its square overflows")
    places = np.array(response.cells)
    variances = input_noise.cell_variances(response)
    widened = squared + variances[:, None] + variances[None, :]
    distance = np.sum(np.square(places[:, None] - places[None]), axis=2)
    between = (squared / widened) ** (places.shape[1] / 2) * np.exp(-0.5 * distance / widened)
    probabilities = input_noise.probabilities(response)
    return NamedCells(jnp.asarray(probabilities @ between @ probabilities, jnp.result_type(float)))


def named_cells(params: NamedCells, x: jax.Array, y: jax.Array) -> jax.Array:
    """``E k`` given the cells named by ``x`` and ``y (2,)``, each a row and a cell's number."""
    named = params.covariance[x[1].astype(int), y[1].astype(int)]
    return jnp.where(x[0] == y[0], 1.0, named)


def number_rows(rows: ArrayLike) -> jax.Array:
    """Make ``(row, z)`` pairs ``(n, 1 + d)`` of released inputs ``rows (n, d)``: points for ``rbf``."""
    released = np.asarray(rows, np.float64)
    numbers = np.arange(len(released), dtype=np.float64)[:, None]
    return jnp.asarray(np.concatenate([numbers, released], axis=1), jnp.result_type(float))

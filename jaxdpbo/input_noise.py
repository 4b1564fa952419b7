"""Distributions of the noise on inputs: a curator draws from the noise, a modeler averages a kernel over the noise.

A ``Response`` replaces a row by the name of a cell. A ``NoiseDistribution`` describes added noise: isotropic, and
normal with a random variance, ``w | t ~ N(0, t I)``. For the Gaussian, ``t`` is fixed. For the planar Laplace
distribution, with density proportional to ``exp(-|w| / scale)`` in ``d`` dimensions, ``t`` is a gamma variable of shape
``(d + 1) / 2`` and scale ``2 scale^2``, since both have the characteristic function
``(1 + scale^2 |s|^2)^(-(d + 1) / 2)``. The product Laplace distribution is the planar distribution in one dimension,
independent in every coordinate.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxdpbo import checks
from jaxdpbo.types import ArrayLike

KINDS = ("gaussian", "planar_laplace", "product_laplace")
NODES = 24  # number of quadrature nodes over the variance


class NoiseDistribution(NamedTuple):
    """Noise on an input of ``dimension`` coordinates.

    Attributes:
      kind: "gaussian", "planar_laplace" or "product_laplace".
      scale: the standard deviation of a coordinate; for the Laplace distributions, the length in the exponent.
      dimension: ``d``.
    """

    kind: str
    scale: float
    dimension: int


class Response(NamedTuple):
    """A row replaced by a cell: its own cell with probability ``truth``, all others with equal probabilities.

    Attributes:
      cells: the positions of ``K`` cells, each of ``d`` numbers.
      truth: a probability, as a float; the draws use a fraction (``truth``).
    """

    cells: tuple[tuple[float, ...], ...]
    truth: float


def distribution(kind: str, scale: float, dimension: int) -> NoiseDistribution:
    """Check and make a distribution of added noise.

    Raises:
      ValueError: an unknown kind, a scale not positive and finite, a dimension below 1.
    """
    return NoiseDistribution(
        checks.one_of("kind", kind, KINDS), checks.positive("scale", scale), checks.size("dimension", dimension)
    )


def response(cells: ArrayLike, truth: float) -> Response:
    """Check and make a response.

    Raises:
      ValueError: fewer than 2 cells or equal ones, ``truth`` not in (0, 1).
    """
    places = checks.distinct_rows("cells", cells)
    if len(places) < 2:
        raise ValueError(f"cells must be at least 2, got {len(places)}")
    return Response(tuple(map(tuple, places.tolist())), checks.probability("truth", truth))


def distribution_from_dict(fields: dict[str, Any]) -> NoiseDistribution | Response:
    """Read and check the ``_asdict`` fields of a distribution or a response."""
    if isinstance(fields, dict):
        for make, names in ((response, Response._fields), (distribution, NoiseDistribution._fields)):
            if set(fields) == set(names):
                return make(**fields)
    raise ValueError(f"fields must be {', '.join(NoiseDistribution._fields)}, or {', '.join(Response._fields)}")


def draw_noise(key: jax.Array, distribution: NoiseDistribution, count: int) -> jax.Array:
    """Draw ``count`` independent vectors of noise ``(count, d)``, in the default floating dtype."""
    shape, dtype = (count, distribution.dimension), jnp.result_type(float)
    if distribution.kind == "gaussian":
        return distribution.scale * jax.random.normal(key, shape, dtype)
    if distribution.kind == "product_laplace":
        return distribution.scale * jax.random.laplace(key, shape, dtype)
    direction_key, radius_key = jax.random.split(key)
    directions = jax.random.normal(direction_key, shape, dtype)
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
    return distribution.scale * jax.random.gamma(radius_key, distribution.dimension, (count, 1), dtype) * directions


def variance(distribution: NoiseDistribution) -> float:
    """The variance of a coordinate: ``(d + 1) scale^2`` for planar Laplace, ``2 scale^2`` for product Laplace noise."""
    return (
        distribution.scale**2
        * {"gaussian": 1, "planar_laplace": distribution.dimension + 1, "product_laplace": 2}[distribution.kind]
    )


def difference_variances(distribution: NoiseDistribution) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature nodes and weights of the random variance of a coordinate, for the difference of two draws.

    The sum of two independent gamma variables is gamma of shape ``d + 1``: a generalised Gauss-Laguerre rule. For the
    product distribution each coordinate has its own such variable, with ``d = 1``.
    """
    if distribution.kind == "gaussian":
        return np.array([2.0 * distribution.scale**2]), np.ones(1)
    order = distribution.dimension if distribution.kind == "planar_laplace" else 1
    nodes, weights = scipy.special.roots_genlaguerre(NODES, order)
    return 2.0 * distribution.scale**2 * nodes, weights / weights.sum()


def probabilities(response: Response) -> np.ndarray:
    """The probabilities ``(K, K)`` that a row of each cell names each cell."""
    count = len(response.cells)
    other = (1.0 - response.truth) / (count - 1)
    return np.full((count, count), other) + (response.truth - other) * np.eye(count)


def cell_variances(response: Response) -> np.ndarray:
    """The variance ``(K,)`` of a coordinate in each cell, as in a cube of the distance to the nearest cell as width."""
    places = np.array(response.cells)
    squared = np.sum(np.square(places[:, None] - places[None]), axis=2)
    np.fill_diagonal(squared, np.inf)
    return squared.min(axis=1) / 12.0

"""Distributions of the noise on inputs: one object that a curator draws from, and that a modeler's kernel is
averaged over.

A ``Response`` names a cell in place of a row. A ``NoiseDistribution`` is of added noise: isotropic, and normal of
random variance, ``w | t ~ N(0, t I)``. ``t`` is fixed for the Gaussian, and for the planar Laplace distribution, of
density proportional to ``exp(-|w| / scale)`` in ``d`` dimensions, a gamma variable of shape ``(d + 1) / 2`` and scale
``2 scale^2``, since both have the characteristic function ``(1 + scale^2 |s|^2)^(-(d + 1) / 2)``. The product Laplace
distribution is the planar one of one dimension, in every coordinate by itself.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from jaxdpbo import _checks
from jaxdpbo.types import ArrayLike

KINDS = ("gaussian", "planar_laplace", "product_laplace")
NODES = 24  # of the quadrature over the variance


class NoiseDistribution(NamedTuple):
    """Noise on one input of ``dimension`` coordinates.

    Attributes:
      kind: "gaussian", "planar_laplace" or "product_laplace".
      scale: the standard deviation of a coordinate; for the Laplace distributions the length in the exponent.
      dimension: ``d``.
    """

    kind: str
    scale: float
    dimension: int


class Response(NamedTuple):
    """A row that names a cell: its own with probability ``truth``, each of the others alike.

    Attributes:
      cells: the places of ``K`` cells, each of ``d`` numbers.
      truth: a probability, as a float: what is drawn with is a fraction (``tables.truth``).
    """

    cells: tuple[tuple[float, ...], ...]
    truth: float


def distribution(kind: str, scale: float, dimension: int) -> NoiseDistribution:
    """A checked distribution.

    Raises:
      ValueError: an unknown kind, a scale that is not positive and finite, a dimension below 1.
    """
    return NoiseDistribution(
        _checks.choice("kind", kind, KINDS), _checks.positive("scale", scale), _checks.size("dimension", dimension)
    )


def response(cells: ArrayLike, truth: float) -> Response:
    """A checked response.

    Raises:
      ValueError: fewer than 2 cells or equal ones, ``truth`` not in (0, 1).
    """
    places = _checks.distinct_rows("cells", cells)
    if len(places) < 2:
        raise ValueError(f"cells must be at least 2, got {len(places)}")
    return Response(tuple(map(tuple, places.tolist())), _checks.probability("truth", truth))


def from_dict(fields: dict[str, Any]) -> NoiseDistribution | Response:
    """What ``_asdict`` of either made, checked as above."""
    if isinstance(fields, dict):
        for made, names in ((response, Response._fields), (distribution, NoiseDistribution._fields)):
            if set(fields) == set(names):
                return made(**fields)
    raise ValueError(f"fields must be {', '.join(NoiseDistribution._fields)}, or {', '.join(Response._fields)}")


def draw(key: jax.Array, distribution: NoiseDistribution, count: int) -> jax.Array:
    """``count`` independent draws ``(count, d)``, in the default floating dtype."""
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
    """Of one coordinate: ``(d + 1) scale^2`` for the planar Laplace distribution, ``2 scale^2`` for the product."""
    return (
        distribution.scale**2
        * {"gaussian": 1, "planar_laplace": distribution.dimension + 1, "product_laplace": 2}[distribution.kind]
    )


def difference_variances(distribution: NoiseDistribution) -> tuple[np.ndarray, np.ndarray]:
    """The variance of a coordinate of the difference of two draws, as a random variable: nodes and their weights.

    The sum of two independent gamma variables is gamma of shape ``d + 1``: a generalised Gauss-Laguerre rule. For the
    product distribution each coordinate has its own such variable, with ``d = 1``.
    """
    if distribution.kind == "gaussian":
        return np.array([2.0 * distribution.scale**2]), np.ones(1)
    order = distribution.dimension if distribution.kind == "planar_laplace" else 1
    nodes, weights = scipy.special.roots_genlaguerre(NODES, order)
    return 2.0 * distribution.scale**2 * nodes, weights / weights.sum()


def probabilities(response: Response) -> np.ndarray:
    """``(K, K)``: with what probability a row of each cell names each cell."""
    count = len(response.cells)
    other = (1.0 - response.truth) / (count - 1)
    return np.full((count, count), other) + (response.truth - other) * np.eye(count)


def cell_variances(response: Response) -> np.ndarray:
    """The variance ``(K,)`` of a coordinate in each cell: a cube's, as wide as the nearest other cell is far."""
    places = np.array(response.cells)
    squared = np.sum(np.square(places[:, None] - places[None]), axis=2)
    np.fill_diagonal(squared, np.inf)
    return squared.min(axis=1) / 12.0

"""The synthetic problem of Kharkovskii et al. (2020): a grid, and draws of a Gaussian process on it."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks


def gp_grid(side: float, points: int) -> np.ndarray:
    """A grid of points ``(points^2, 2)`` on a square around the origin, with sides of length ``side``.

    >>> from jaxdpbo import problems
    >>> problems.gp_grid(1.0, 3).shape
    (9, 2)
    """
    side, points = checks.positive("side", side), checks.size("points", points)
    axis = np.linspace(-side / 2, side / 2, points)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)


def gp_draws(key: jax.Array, count: int, *, side: float, points: int, lengthscale: float) -> jax.Array:
    """Draws ``(count, points^2)`` of a squared-exponential process of variance 1 on ``grid(side, points)``.

    Exact: the covariance is the Kronecker product of the covariances of the two axes.

    >>> import jax
    >>> from jaxdpbo import problems
    >>> problems.gp_draws(jax.random.key(0), 2, side=1.0, points=3, lengthscale=0.5).shape
    (2, 9)
    """
    axis = jnp.linspace(-side / 2, side / 2, points)
    covariance = jnp.exp(-0.5 * jnp.square((axis[:, None] - axis[None, :]) / lengthscale))
    values, vectors = jnp.linalg.eigh(covariance)
    root = vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]
    normal = jax.random.normal(key, (count, points, points))
    return jnp.einsum("ik,nkl,jl->nij", root, normal, root, precision="highest").reshape(count, -1)

"""The maximum information gain ``gamma_T``: a bound on the information in ``T`` noisy evaluations. Reads no values.

``gamma_T = max over multisets A of T candidates of log det(I + K_A / noise) / 2`` (Srinivas et al. 2010, equation 7).
The maximum cannot be computed, but can be bounded: the gain is monotone and submodular, so greedy evaluations, each at
the candidate of largest variance, gain at least ``1 - 1/e`` of the maximum (Nemhauser et al. 1978).
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.surrogate import finite_gp, gp, kernels
from jaxdpbo.types import ArrayLike, Bounds

NET_POINTS = 2048  # at most, of a box's net
SHARES = (0.05, 0.2, 1.0, 5.0)  # of Young's inequality in gain_bound_of_box


def greedy_gain(model: gp.GPModel, candidates: jax.Array, steps: int) -> jax.Array:
    """Information ``()`` gained by ``steps`` greedy evaluations of ``candidates (c, d)``, repeats allowed.

    The noise variance must be positive.
    """

    def step(posterior, _):
        row = jnp.argmax(posterior.variance)
        gain = 0.5 * jnp.log1p(posterior.variance[row] / model.noise_variance)
        return finite_gp.observe(model, posterior, row, posterior.mean[row]), gain

    return jnp.sum(jax.lax.scan(step, finite_gp.prior(model, candidates, steps), length=steps)[1])


def gain_bound(model: gp.GPModel, candidates: ArrayLike, steps: int) -> float:
    """Upper bound on ``gamma_T`` over ``candidates (c, d)``, ``T = steps``; computed once for each set of arguments.

    The smaller of ``greedy_gain / (1 - 1/e)`` and ``T log(1 + k / noise) / 2``, ``k`` the largest prior variance.
    """
    rows = np.ascontiguousarray(candidates, np.float64)
    leaves, structure = jax.tree.flatten(model)
    frozen = tuple((np.asarray(leaf).tobytes(), np.shape(leaf), np.asarray(leaf).dtype.str) for leaf in leaves)
    return _gain_bound(frozen, structure, rows.tobytes(), rows.shape, steps, str(jnp.result_type(float)))


@functools.lru_cache(maxsize=4096)
def _gain_bound(frozen, structure, rows, shape, steps, dtype) -> float:
    leaves = [jnp.asarray(np.frombuffer(data, kind).reshape(size)) for data, size, kind in frozen]
    model = jax.tree.unflatten(structure, leaves)
    candidates = jnp.asarray(np.frombuffer(rows, np.float64).reshape(shape), dtype)
    largest = float(jnp.max(kernels.diagonal(model.kernel, model.params, candidates)))
    most = 0.5 * steps * math.log1p(largest / float(model.noise_variance))
    return min(float(_greedy_gain(model, candidates, steps)) / (1.0 - math.exp(-1.0)), most)


_greedy_gain = jax.jit(greedy_gain, static_argnames="steps")


def gain_bound_of_box(model: gp.GPModel, bounds: Bounds, steps: int) -> float:
    """Upper bound on ``gamma_T`` over the box ``bounds (2, d)``, for a stationary kernel.

    A net stands for the box. With ``f(a) = f(g) + e`` for ``g`` the nearest point of the net, and ``rho`` the largest
    variance of ``e``, ``K_A <= (1 + s) K_G + (1 + 1/s) Cov(e)`` for every ``s > 0``, so by Hadamard

      ``gamma_T <= gamma_T(net, noise / (1 + s)) + T log(1 + (1 + 1/s) rho / noise) / 2``.

    The result is the least over a few ``s``, or ``T log(1 + k / noise) / 2`` if smaller: in many dimensions, only this
    second bound is left.

    Raises:
      ValueError: the kernel is not stationary.
    """
    if not isinstance(model.params, kernels.Stationary):
        raise ValueError(f"kernel must be stationary over a box, got parameters {type(model.params).__name__}")
    low, high = np.asarray(bounds, np.float64)
    sides, lengthscale = high - low, np.asarray(model.params.lengthscale, np.float64)
    counts = _cells(sides / lengthscale)
    centres = [
        start + side * (np.arange(count) + 0.5) / count for start, side, count in zip(low, sides, counts, strict=True)
    ]
    net = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, len(sides))
    middle, corner = jnp.zeros(len(sides)), jnp.asarray(sides / counts / 2)
    variance = float(model.params.variance)
    apart = 2.0 * (variance - float(model.kernel(model.params, middle, corner)))
    noise = float(model.noise_variance)
    gain_bounds = [0.5 * steps * math.log1p(variance / noise)]
    for share in SHARES:
        sharper = gp.GPModel(model.kernel, model.params, model.noise_variance / (1.0 + share))
        rest = 0.5 * steps * math.log1p((1.0 + 1.0 / share) * apart / noise)
        gain_bounds.append(gain_bound(sharper, net, steps) + rest)
    return min(gain_bounds)


def _cells(extents: np.ndarray) -> np.ndarray:
    """Number of cells along each axis, ``(d,)``, in proportion to ``extents`` within ``NET_POINTS``; at least 1."""
    counts = np.ones(len(extents), int)
    while True:
        widest = np.argmax(extents / counts)
        more = counts + (np.arange(len(counts)) == widest)
        if math.prod(more.tolist()) > NET_POINTS:
            return counts
        counts = more

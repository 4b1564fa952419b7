"""A kernel over inputs that were seen through noise: what the modeler of an outsourced search knows of the function.

The modeler sees ``z_i = x_i + w_i``. With nothing else known of ``x_i``, the covariance of ``f(x_i)`` and ``f(x_j)`` is
``E k(z_i - w_i, z_j - w_j)`` for two different rows, and ``k(x_i, x_i) = 1`` for a row with itself, whatever its noise:
the identity of the row decides, not its place. So a point here is ``(row, z)``.

For the squared-exponential kernel and a law of noise that is normal with random variance (``jaxdpbo.laws``) the
expectation is a sum of squared-exponential kernels with positive weights, so the kernel is positive semi-definite by
construction.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, laws


@partial(jax.tree_util.register_dataclass, data_fields=["lengthscale", "variances", "weights"], meta_fields=[])
@dataclass(frozen=True)
class NoisyInputs:
    """Numbers of ``rbf``.

    Attributes:
      lengthscale: ``()``.
      variances: ``(q,)`` of a coordinate of the difference of two rows' noise, and
      weights: ``(q,)`` with which it is that.
    """

    lengthscale: jax.Array
    variances: jax.Array
    weights: jax.Array


def noisy_inputs(law: laws.Law, lengthscale: float) -> NoisyInputs:
    """Parameters of ``rbf`` for inputs seen through ``law``.

    Raises:
      ValueError: a lengthscale that is not positive and finite.
    """
    variances, weights = laws.difference_variances(law)
    dtype = jnp.result_type(float)
    return NoisyInputs(
        jnp.asarray(_checks.positive("lengthscale", lengthscale), dtype),
        jnp.asarray(variances, dtype),
        jnp.asarray(weights, dtype),
    )


def rbf(params: NoisyInputs, x: jax.Array, y: jax.Array) -> jax.Array:
    """``E exp(-|x - y|^2 / (2 l^2))`` given ``x`` and ``y (1 + d,)``, whose first coordinates are their rows."""
    dimension = x.shape[0] - 1
    squared = jnp.sum(jnp.square(x[1:] - y[1:]))
    widened = jnp.square(params.lengthscale) + params.variances
    shrunk = (jnp.square(params.lengthscale) / widened) ** (dimension / 2)
    averaged = jnp.sum(params.weights * shrunk * jnp.exp(-0.5 * squared / widened))
    return jnp.where(x[0] == y[0], 1.0, averaged)


def numbered(rows: Any) -> jax.Array:
    """``(row, z)`` pairs ``(n, 1 + d)`` of released inputs ``rows (n, d)``: points for ``rbf``."""
    released = np.asarray(rows, np.float64)
    numbers = np.arange(len(released), dtype=np.float64)[:, None]
    return jnp.asarray(np.concatenate([numbers, released], axis=1), jnp.result_type(float))

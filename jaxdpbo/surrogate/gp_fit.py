"""Fit the numbers of an exact Gaussian process by marginal likelihood: for public data."""

import math

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxdpbo import checks
from jaxdpbo.surrogate import box_search, gp

FIT_FACTOR = 100.0  # a fit searches each number within this factor, either way


def fit(
    key: jax.Array,
    model: gp.GPModel,
    points: jax.Array,
    values: jax.Array,
    mask: jax.Array,
    *,
    num_restarts: int = 8,
    steps: int = 200,
    scale: float = math.inf,
    initial: gp.GPModel | None = None,
) -> gp.GPModel:
    """Fit all parameters of the kernel, and the noise variance, by marginal likelihood.

    FOR PUBLIC DATA ONLY: the result depends on the values without any privacy. The search runs over logarithms, within
    a factor of 100 of the numbers in ``model``, either way: every number keeps its sign, and 0 stays 0. The first start
    is ``initial``, with the signs of ``model``'s numbers (``model`` if omitted); the others are uniform. A finite
    ``scale`` is the standard deviation of a normal prior on each logarithm, around the number in ``model``: with fewer
    points than numbers, the likelihood alone fits anything.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary(1.0, 1), jnp.asarray(0.1))
    >>> points, mask = jnp.array([[0.0], [1.0]]), jnp.ones(2, bool)
    >>> better = surrogate.fit(jax.random.key(0), model, points, jnp.array([0.0, 1.0]), mask,
    ...     num_restarts=2, steps=5)
    >>> better.params.lengthscale.shape
    (1,)

    Returns:
      The best model of the search; never worse than ``initial``.

    Raises:
      ValueError: ``num_restarts`` or ``steps`` below 1, ``scale`` not positive.
    """
    num_restarts, steps = checks.size("num_restarts", num_restarts), checks.size("steps", steps)
    scale = checks.positive("scale", scale, finite=False)
    flat, unravel = ravel_pytree(model)
    width, sign = jnp.log(jnp.asarray(FIT_FACTOR, flat.dtype)), jnp.sign(flat)

    def to_logarithms(numbers):
        return jnp.log(jnp.where(sign == 0, 1.0, jnp.abs(numbers)))

    centre = to_logarithms(flat)

    def utility(logarithms):
        likelihood = gp.log_marginal_likelihood(unravel(sign * jnp.exp(logarithms)), points, values, mask)
        return likelihood - 0.5 * jnp.sum(jnp.square((logarithms - centre) / scale))

    start = centre if initial is None else to_logarithms(ravel_pytree(initial)[0])
    best, _ = box_search.multi_start(
        key, utility, centre - width, centre + width, num_restarts=num_restarts, steps=steps, initial=start
    )
    return unravel(sign * jnp.exp(best))

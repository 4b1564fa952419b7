"""Fit the numbers of an exact Gaussian process by marginal likelihood: for public data."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxdpbo import checks
from jaxdpbo.surrogate import box_search, gp
from jaxdpbo.surrogate.entry import compiled, expect_shapes
from jaxdpbo.types import ArrayLike

FIT_FACTOR = 100.0  # a fit searches each number within this factor, either way


def fit(
    key: jax.Array,
    model: gp.GPModel,
    points: jax.Array,
    values: jax.Array,
    mask: jax.Array | None = None,
    *,
    num_restarts: int = 8,
    steps: int = 200,
    scale: float = math.inf,
    initial: gp.GPModel | None = None,
    fixed: Sequence[str] = (),
    priors: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    noise_variances: jax.Array | None = None,
) -> gp.GPModel:
    """Fit the parameters of the kernel, and the noise variance, by marginal likelihood.

    FOR PUBLIC DATA ONLY: the result depends on the values without any privacy. The search runs over logarithms, within
    a factor of 100 of the numbers in ``model``, either way: every number keeps its sign, and 0 stays 0. The first start
    is ``initial``, with the signs of ``model``'s numbers (``model`` if omitted); the others are uniform.

    The noise of private evaluations is known: put the number into ``model`` and pass ``fixed=["noise_variance"]``.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import kernels, surrogate
    >>> model = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 1), jnp.asarray(0.1))
    >>> points, values = jnp.array([[0.0], [1.0]]), jnp.array([0.0, 1.0])
    >>> better = surrogate.fit(jax.random.key(0), model, points, values, num_restarts=2, steps=5,
    ...     fixed=["noise_variance"], priors={"lengthscale": (0.0, 1.0)})
    >>> better.params.lengthscale.shape, bool(better.noise_variance == model.noise_variance)
    ((1,), True)

    Args:
      key: for the uniform starts.
      model: the middle of the search.
      points: ``(m, d)``.
      values: ``(m,)``; masked rows are ignored.
      mask: ``(m,)``; None if all rows count.
      num_restarts: ascents.
      steps: gradient steps of each.
      scale: standard deviation of a normal prior on each logarithm, around the number in ``model``; infinite for none.
        With fewer points than numbers, the likelihood alone fits anything.
      initial: a model to start from.
      fixed: names of numbers that keep their value in ``model``, such as "noise_variance" or "lengthscale"; write
        "params.variance" where a shorter name is not enough. A name stands for all paths that end with it.
      priors: by name, mean and standard deviation of a log-normal prior's logarithm, in place of ``scale``:
        ``{"lengthscale": (1.4, 1.7)}``. Numbers, or arrays of the shape of what they describe.
      noise_variances: ``(m,)``, of each observation, known and not fitted; None for the model's.

    Returns:
      The best model of the search; never worse than ``initial``.

    Raises:
      ValueError: ``num_restarts`` or ``steps`` below 1, ``scale`` not positive, a name without a number, or a wrong
        shape.
    """
    num_restarts, steps = checks.size("num_restarts", num_restarts), checks.size("steps", steps)
    scale = checks.positive("scale", scale, finite=False)
    fixed = (*fixed, *(() if noise_variances is None else ("noise_variance",)))
    return _fit(
        key, model, points, values, mask, scale, initial, dict(priors or {}), noise_variances,
        num_restarts=num_restarts, steps=steps, fixed=tuple(fixed),
    )  # fmt: skip


@compiled("num_restarts", "steps", "fixed")
def _fit(
    key, model, points, values, mask, scale, initial, priors, noise_variances, *, num_restarts, steps, fixed
):  # fmt: skip
    expect_shapes(points=(points, "m d"), values=(values, "m"))
    kept = jax.tree.leaves(_where_named("fixed", fixed, model))
    leaves, tree = jax.tree.flatten(model)

    def select(model: Any) -> list[jax.Array]:
        """The numbers to fit."""
        return [leaf for leaf, known in zip(jax.tree.leaves(model), kept, strict=True) if not known]

    def replace(fitted: list[jax.Array]) -> gp.GPModel:
        free = iter(fitted)
        return tree.unflatten([leaf if known else next(free) for leaf, known in zip(leaves, kept, strict=True)])

    flat, unravel = ravel_pytree(select(model))
    width, sign = jnp.log(jnp.asarray(FIT_FACTOR, flat.dtype)), jnp.sign(flat)

    def to_logarithms(numbers):
        return jnp.log(jnp.where(sign == 0, 1.0, jnp.abs(numbers)))

    centre = to_logarithms(flat)
    means, deviations = centre, scale
    for name, (mean, deviation) in priors.items():
        named = _where_named("priors", (name,), model)
        here = ravel_pytree(select(jax.tree.map(lambda leaf, known: jnp.full(jnp.shape(leaf), known), model, named)))[0]
        spread = partial(_spread, select, model, named)
        means, deviations = jnp.where(here, spread(mean), means), jnp.where(here, spread(deviation), deviations)

    def utility(logarithms):
        fitted = replace(unravel(sign * jnp.exp(logarithms)))
        likelihood = gp.log_marginal_likelihood(fitted, points, values, mask, noise_variances=noise_variances)
        return likelihood - 0.5 * jnp.sum(jnp.square((logarithms - means) / deviations))

    start = centre if initial is None else to_logarithms(ravel_pytree(select(initial))[0])
    best, _ = box_search.multi_start(
        key, utility, centre - width, centre + width, num_restarts=num_restarts, steps=steps, initial=start
    )
    return replace(unravel(sign * jnp.exp(best)))


def _where_named(argument: str, names: Sequence[str], model: gp.GPModel) -> Any:
    """A tree like ``model``: True at numbers with a path that ends with one of ``names``.

    Raises:
      ValueError: a name without a number.
    """
    paths, tree = jax.tree_util.tree_flatten_with_path(model)
    dotted = ["." + ".".join(jax.tree_util.keystr((part,), simple=True) for part in path) for path, _ in paths]
    for name in names:
        if not any(path.endswith("." + name) for path in dotted):
            known = ", ".join(path[1:] for path in dotted)
            raise ValueError(f"{argument} must name numbers of the model, {known}, got {name!r}")
    return tree.unflatten([any(path.endswith("." + name) for name in names) for path in dotted])


def _spread(select: Any, model: gp.GPModel, named: Any, value: Any) -> jax.Array:
    """``value`` at the named numbers, in the flat order of the numbers to fit; 1 elsewhere."""

    def fill(leaf, here):
        return jnp.broadcast_to(jnp.asarray(value, jnp.result_type(leaf)) if here else 1.0, jnp.shape(leaf))

    return ravel_pytree(select(jax.tree.map(fill, model, named)))[0]

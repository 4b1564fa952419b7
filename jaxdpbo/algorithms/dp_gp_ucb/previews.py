"""Preview a release of DP-GP-UCB, before you spend anything."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks
from jaxdpbo.algorithms.dp_gp_ucb.configs import Config
from jaxdpbo.noise import mechanisms
from jaxdpbo.surrogate import gp, kernels


class ReleasePreview(NamedTuple):
    """Noise of a release, from public numbers alone; None for parts that are not released. Units of the utility.

    Attributes:
      point_sensitivity: of the scores used to draw the point.
      resolution: ``2 sensitivity / epsilon``: a candidate worse by this much is e times less likely.
      best_percent: the probability of drawing one of the best 1 % of the candidates (at least one candidate).
      best_five_percent: the same for the best 5 %; means over draws of the prior, as if the scores were the utilities.
      uniform_percent: ``best_percent`` of a uniform draw, which needs no data.
      value_sensitivity: of the largest utility.
      value_deviation: the standard deviation of the noise of the released value.
    """

    point_sensitivity: float | None
    resolution: float | None
    best_percent: float | None
    best_five_percent: float | None
    uniform_percent: float | None
    value_sensitivity: float | None
    value_deviation: float | None


def preview_release(config: Config, *, draws: int = 200, rows: int = 2000) -> ReleasePreview:
    """Preview ``release``, before you spend anything: reads no data.

    >>> from jaxdpbo import dp_gp_ucb
    >>> config = dp_gp_ucb.finite_config(
    ...     steps=5, epsilon=1.0, delta=0.01, correlation=0.99, candidates=[[0.0], [0.5], [1.0]], noise_variance=0.1
    ... )
    >>> preview = dp_gp_ucb.preview_release(config, draws=20)
    >>> preview.resolution > 0, round(preview.uniform_percent, 2)
    (True, 0.33)

    Args:
      config: of the run. If ``best_percent`` is close to ``uniform_percent``, the draw carries almost no information.
      draws: of the prior.
      rows: largest number of candidates to use; a larger set is subsampled.
    """
    draws, rows = checks.size("draws", draws), checks.size("rows", rows)
    scale = float(config.scale)
    point: tuple[Any, ...] = (None,) * 5
    value: tuple[Any, ...] = (None,) * 2
    if config.release != "value":
        every = config.shortlist
        chosen = np.random.default_rng(0).permutation(len(every))[:rows]
        first, fifth = _mass_of_the_best(config, every[np.sort(chosen)], draws)
        moved = float(config.point_sensitivity) * scale
        uniform = max(1, round(0.01 * len(chosen))) / len(chosen)
        point = moved, 2.0 * moved / float(config.epsilon_point), float(first), float(fifth), uniform
    if config.release != "point":
        moved = float(config.value_sensitivity) * scale
        value = moved, np.sqrt(2.0) * moved / float(config.epsilon_value)
    return ReleasePreview(*point, *map(float, value) if value[0] is not None else value)


@partial(jax.jit, static_argnums=2)
def _mass_of_the_best(config, candidates, draws):
    """Expected probability of the best hundredth and twentieth, over draws of the prior, independent of any data."""
    count = candidates.shape[0]
    covariance = kernels.gram(config.model.kernel, config.model.params, candidates, candidates)
    factor = jnp.linalg.cholesky(covariance + gp.jitter(covariance.dtype) * jnp.eye(count, dtype=covariance.dtype))
    drawn = gp.matmul(jax.random.normal(jax.random.key(0), (draws, count), covariance.dtype), factor.T)
    logs = jax.vmap(
        lambda scores: mechanisms.exponential_log_probabilities(scores, config.epsilon_point, config.point_sensitivity)
    )(drawn)
    ranked = jnp.cumsum(jnp.sort(jnp.exp(logs), axis=1, descending=True), axis=1)
    mean = jnp.mean(ranked, axis=0)
    return mean[max(1, round(0.01 * count)) - 1], mean[max(1, round(0.05 * count)) - 1]

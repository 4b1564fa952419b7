"""Configuration of private evaluations, and the noise of a released mean."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, types
from jaxdpbo.noise import calibration, private_mean, private_scale
from jaxdpbo.space import Space
from jaxdpbo.types import Algorithm, ArrayLike


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Configuration of a run; made by ``config``.

    ``inner`` is the inner config; ``steps`` and ``releases`` of ``noise`` are the inner steps and the evaluations in
    each. ``low ()`` and ``high ()`` are the loss range, traced, 0 if found from the losses on the ``design (m, d)``;
    otherwise ``design`` is None.
    """

    inner: Any
    noise: calibration.SumNoise
    low: jax.Array
    high: jax.Array
    design: jax.Array | None = None

    @property
    def users(self) -> int:
        """Number of users ``n``."""
        return self.noise.users

    @property
    def steps(self) -> int:
        """Number of steps: ``T``, after ``m / b`` on the design."""
        return self.noise.steps + self.design_steps

    @property
    def design_steps(self) -> int:
        """Number of steps on the design, ``m / b``."""
        return 0 if self.design is None else self.design.shape[0] // self.batch

    @property
    def batch(self) -> int:
        """Evaluations a step ``b``."""
        return self.noise.releases

    @property
    def space(self) -> Space | None:
        """Search space of the inner algorithm."""
        return self.inner.space


def config(
    inner: Algorithm,
    inner_config: types.Config,
    *,
    users: int,
    mu: float,
    loss_range: ArrayLike | str,
    design: ArrayLike | None = None,
    noise: str = "exact",
) -> Config:
    """Check a configuration.

    Args:
      inner: an algorithm that maximises one utility a point (``gp_ucb.config(users=None)``), or minimises the mean loss
        of ONE user (``random_search.config(users=1)``): its single value is the released mean.
      inner_config: its config; see ``noise_deviation`` for the noise of the values.
      users: ``n``, public.
      mu: the GDP budget of all evaluations together; ``inf`` for no privacy.
      loss_range: ``(low, high)``, chosen without the users' data: losses are clipped to this range. "private" finds the
        range first, for 5 % of ``mu^2``, from the ``design``: see ``private_scale.largest_differences``. Values are
        then mean differences from the loss at the design's first point.
      design: ``(m, d)``, public points used to find how much losses differ; ``m`` a multiple of ``b``. They are
        evaluated before the first step of the inner algorithm, in ``m / b`` steps; only the range is released.
      noise: "exact", on an integer grid; "float", for research sweeps; or "none" (only with ``mu = inf``).

    Raises:
      ValueError: a number out of range, or an inner config for more than one user.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import gp_ucb, private_evaluations
    >>> inner = gp_ucb.config(steps=5, candidates=[[0.0], [0.5], [1.0]])
    >>> chosen = private_evaluations.config(gp_ucb.algorithm, inner, users=500, mu=1.0, loss_range=(0, 1))
    >>> chosen.users, chosen.steps
    (500, 5)
    """
    if inner_config.users not in (None, 1):
        raise ValueError(
            f"inner_config must be for one value a point (users None or 1), got {inner_config.users} users"
        )
    key = jax.random.key(0)
    query = jax.eval_shape(lambda: inner.ask(key, inner_config, inner.init(key, inner_config)))
    dtype = jnp.result_type(float)
    batch = query.points.shape[0]
    low, high = check_loss_range(loss_range)
    points = _design(design, loss_range, *query.points.shape)
    drawn = calibration.sum_noise(
        mu,
        noise,
        users=users,
        steps=inner_config.steps,
        releases=batch,
        dimension=1,
        dtype=dtype,
        find_scale=points is not None,
    )
    rows = None if points is None else arrays.to_device(points, dtype)
    return Config(inner_config, drawn, arrays.to_device(low, dtype), arrays.to_device(high, dtype), rows)


def _design(design: Any, loss_range: Any, batch: int, dimension: int) -> np.ndarray | None:
    """Check the points of a design; return None if the loss range is given."""
    if isinstance(loss_range, str) == (design is None):
        raise ValueError("design must be given with loss_range='private', and only then")
    if design is None:
        return None
    points = checks.rows("design", design)
    if points.shape[1] != dimension or len(points) < 2 or len(points) % batch:
        raise ValueError(
            f"design must have two rows or more, a multiple of {batch}, of {dimension} numbers, got {points.shape}"
        )
    return points


def noise_deviation(*, users: int, mu: float, loss_range: ArrayLike, evaluations: int, noise: str = "exact") -> float:
    """Standard deviation of the noise of one released mean: its sensitivity over ``mu / sqrt(evaluations)``.

    The sensitivity is ``sensitivity.mean_loss``. On the grid the noise is a little larger, because the radius is
    rounded down.
    """
    dtype = jnp.result_type(float)
    low, high = checks.interval("loss_range", loss_range, dtype)
    evaluations = checks.size("evaluations", evaluations)
    drawn = calibration.sum_noise(mu, noise, users=users, steps=evaluations, dimension=1, dtype=dtype)
    return private_mean.loss_deviation(drawn, low, high)


def deviation(config: Config, high: float | None = None) -> float:
    """Standard deviation of the noise of a released mean; 0 for no noise. ``high`` is the end of a range found."""
    low, high = (float(config.low), float(config.high)) if high is None else (-high, high)
    return private_mean.loss_deviation(config.noise, low, high)


def check_loss_range(value: Any) -> tuple[float, float]:
    """Check ``loss_range``; return zeros for "private", a range yet to be found."""
    if value is None or (isinstance(value, str) and value != private_scale.PRIVATE):
        raise ValueError(
            f"loss_range must be given: type (low, high), known without the users' data, or 'private', got {value!r}"
        )
    if isinstance(value, str):
        return 0.0, 0.0
    return checks.interval("loss_range", value, jnp.result_type(float))

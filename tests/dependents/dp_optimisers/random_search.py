"""DP random search: release a noisy mean loss at uniform points, and the best point (citation here).

Notation: ``n`` users, ``T`` steps, ``b`` points a step, ``d`` parameters.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxdpbo import Guarantee, parts, types
from jaxdpbo.types import Algorithm, Bounds, Query, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """The configuration of a run; call ``config``. Traced: numbers and arrays. Static: sizes, choices, functions."""

    noise: parts.SumNoise
    low: jax.Array
    high: jax.Array
    bounds: jax.Array
    batch: int = field(metadata={"static": True})

    @property
    def users(self) -> int:  # required; None if the objective returns a single value for all users
        """``n``."""
        return self.noise.users

    @property
    def steps(self) -> int:  # required
        """``T``."""
        return self.noise.steps

    @property
    def space(self) -> None:  # required; a Space if ``bounds`` may be a Space
        """None: points are numbers."""
        return


def config(
    *, users: int, steps: int, mu: float, bounds: Bounds, loss_range: tuple[float, float], batch: int = 1
) -> Config:
    """Check a configuration on the host.

    Raises:
      ValueError: a number out of range or a wrong shape; the message names the argument.
    """
    box, batch = parts.check_box("bounds", bounds), parts.check_size("batch", batch)
    low, high = parts.check_interval("loss_range", loss_range)
    dtype = jnp.result_type(float)
    return Config(
        noise=parts.sum_noise(mu, "exact", users=users, steps=steps, dimension=1, releases=batch, dtype=dtype),
        low=jnp.asarray(low, dtype),
        high=jnp.asarray(high, dtype),
        bounds=jnp.asarray(box, dtype),
        batch=batch,
    )


class PublicState(NamedTuple):
    """Numbers released, or independent of the users' data; ``ask`` may read only these."""

    step: jax.Array  # required
    noise: parts.NoiseSettings  # required; None if the algorithm adds none
    points: jax.Array
    values: jax.Array


class Release(NamedTuple):
    """The numbers that may be published."""

    point: jax.Array  # required
    points: jax.Array
    values: jax.Array


def settings(config: Config) -> parts.NoiseSettings:
    """The noise of a run, and one user's bound."""
    return parts.noise_settings(config.noise, config.low, config.high)


def init(key: jax.Array, config: Config) -> State:
    """The state before the first step; reads no user's data."""
    del key
    count, dtype = config.steps * config.batch, config.bounds.dtype
    points, values = jnp.zeros((count, config.bounds.shape[1]), dtype), jnp.zeros(count, dtype)
    return State(PublicState(jnp.zeros((), jnp.int32), settings(config), points, values))


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """The points to evaluate next, with ``broadcast`` and ``local`` for the next functions. All is public."""
    del state
    low, high = config.bounds
    points = jax.random.uniform(key, (config.batch, len(low)), low.dtype, minval=low[None], maxval=high[None])
    return Query(points, jnp.ones(config.batch, bool))


def contribute(config: Config, query: Query, memory: Any, values: jax.Array, present: Any = None) -> Any:
    """The total of any ``s`` users; the config bounds each user's part for any ``values (b, s)``."""
    types.check_values(values, config.batch, present=present)
    values = values.astype(config.low.dtype)
    total, clipped = parts.sum_clipped_losses(config.noise, values, config.low, config.high, present)
    return parts.UserTotal(total, {"clipped": clipped}), memory


def perturb(key: jax.Array, config: Config, query: Query, whole: Any) -> Any:
    """Add noise to the total of all users; state the cost, the formal guarantee and a table of edge cases."""
    return parts.perturb_losses(key, config.noise, whole, config.low, config.high)


def tell(config: Config, state: State, query: Query, released: Any) -> State:
    """Update the state by arithmetic on public numbers."""
    public, start = state.public, state.public.step * config.batch
    noisy = parts.mean_of_losses(config.noise, released, config.low, config.high)
    points = jax.lax.dynamic_update_slice_in_dim(public.points, query.points, start, axis=0)
    values = jax.lax.dynamic_update_slice_in_dim(public.values, noisy, start, axis=0)
    return State(PublicState(public.step + 1, public.noise, points, values))


def release(key: jax.Array, config: Config, state: State) -> Release:
    """The answer, by post-processing of the released numbers."""
    del key, config
    public = state.public
    return Release(public.points[jnp.argmin(public.values)], public.points, public.values)


def privacy(config: Config) -> Guarantee:
    """``mu``-GDP for replace-one on the users, for everything in ``Release``."""
    return parts.gdp_guarantee(config.noise, parts.USERS)


# Nothing is released after step T, nor under other noise than at the start.
algorithm = parts.guard_noise(
    Algorithm(init, ask, tell, release, privacy, contribute=contribute, perturb=perturb), settings
)

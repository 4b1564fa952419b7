"""DP evolution strategies: a population around a mean, and one clipped vector of each user in a step.

Salimans et al. 2017 ("Evolution strategies as a scalable alternative to reinforcement learning"), with the mean over
users of each user's own search gradient in place of the gradient of a mean, and mirrored perturbations. A user's search
gradient follows from that user's losses alone, so ranks and baselines over users, which would mix them, are left out.

Notation: ``n`` users, ``T`` steps, ``b`` members, ``d`` parameters, ``B`` the clip norm, ``sigma`` the spread.
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
    """The configuration of a run; made by ``config``."""

    noise: parts.SumNoise
    clip_norm: jax.Array
    step_size: jax.Array
    spread: jax.Array
    bounds: jax.Array
    members: int = field(metadata={"static": True})

    @property
    def users(self) -> int:
        """``n``."""
        return self.noise.users

    @property
    def steps(self) -> int:
        """``T``."""
        return self.noise.steps

    @property
    def space(self) -> None:
        """None: points are numbers."""
        return


def config(
    *,
    users: int,
    steps: int,
    mu: float,
    bounds: Bounds,
    members: int = 8,
    spread: float = 0.1,
    step_size: float = 0.1,
    clip_norm: float = 1.0,
) -> Config:
    """Check a configuration on the host; ``spread`` and ``step_size`` are in units of the sides of the box."""
    box, dtype = parts.check_box("bounds", bounds), jnp.result_type(float)
    return Config(
        noise=parts.sum_noise(mu, "exact", users=users, steps=steps, dimension=box.shape[1], dtype=dtype),
        clip_norm=jnp.asarray(parts.check_positive("clip_norm", clip_norm), dtype),
        step_size=jnp.asarray(parts.check_positive("step_size", step_size), dtype),
        spread=jnp.asarray(parts.check_positive("spread", spread), dtype),
        bounds=jnp.asarray(box, dtype),
        members=2 * parts.check_size("half the members", members // 2),
    )


class PublicState(NamedTuple):
    """The released mean, and its path ``(T + 1, d)``, in units of the box."""

    step: jax.Array
    noise: parts.NoiseSettings
    mean: jax.Array
    path: jax.Array


class Release(NamedTuple):
    """The last mean, and all means."""

    point: jax.Array
    path: jax.Array


def settings(config: Config) -> parts.NoiseSettings:
    """The noise of a run, and one user's bound."""
    return parts.noise_settings(config.noise, config.clip_norm)


def init(key: jax.Array, config: Config) -> State:
    """Start in the middle of the box."""
    del key
    middle = jnp.full(config.bounds.shape[1], 0.5, config.bounds.dtype)
    path = jnp.zeros((config.steps + 1, len(middle)), middle.dtype).at[0].set(middle)
    return State(PublicState(jnp.zeros((), jnp.int32), settings(config), middle, path))


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Draw a mirrored population; ``broadcast`` holds the weights ``(b, d)`` of a search gradient."""
    mean, half = state.public.mean, config.members // 2
    drawn = jax.random.normal(key, (half, len(mean)), mean.dtype)
    members = jnp.clip(mean[None] + config.spread * jnp.concatenate([drawn, -drawn]), 0.0, 1.0)
    weights = (members - mean[None]) / (config.spread**2 * config.members)
    low, high = config.bounds
    return Query(low[None] + members * (high - low)[None], jnp.ones(config.members, bool), broadcast=weights)


def contribute(config: Config, query: Query, memory: Any, values: jax.Array, present: Any = None) -> Any:
    """Add up the users' search gradients, each clipped to norm ``B``."""
    types.check_values(values, config.members, present=present)
    gradients = query.broadcast.T @ values.astype(config.bounds.dtype)
    total, clipped, nonfinite = parts.sum_clipped_vectors(config.noise, gradients, config.clip_norm, present)
    return parts.UserTotal(total, {"clipped": clipped, "nonfinite": nonfinite}), memory


def perturb(key: jax.Array, config: Config, query: Query, whole: Any) -> Any:
    """Add the noise: ``mu / sqrt(T)``-GDP, given the means before."""
    return parts.perturb_vectors(key, config.noise, whole, config.clip_norm)


def tell(config: Config, state: State, query: Query, released: Any) -> State:
    """Move against the noisy mean search gradient."""
    public = state.public
    gradient = parts.mean_of_vectors(config.noise, released, config.clip_norm)
    mean = jnp.clip(public.mean - config.step_size * gradient, 0.0, 1.0)
    return State(PublicState(public.step + 1, public.noise, mean, public.path.at[public.step + 1].set(mean)))


def release(key: jax.Array, config: Config, state: State) -> Release:
    """The means, in the units of the box."""
    del key
    low, high = config.bounds
    path = low[None] + state.public.path * (high - low)[None]
    return Release(path[state.public.step], path)


def privacy(config: Config) -> Guarantee:
    """``mu``-GDP for replace-one on the users, for all means."""
    return parts.gdp_guarantee(config.noise, parts.USERS)


algorithm = parts.guard_noise(
    Algorithm(init, ask, tell, release, privacy, contribute=contribute, perturb=perturb), settings
)

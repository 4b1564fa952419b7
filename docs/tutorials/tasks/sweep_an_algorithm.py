"""A new algorithm, made private and run with 20 seeds at each of three budgets."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jaxdpbo
from jaxdpbo import private_evaluations
from jaxdpbo.types import Algorithm, Info, Query, State


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    bounds: jax.Array  # (2, d)
    steps: int = field(metadata={"static": True})
    users: None = field(default=None, metadata={"static": True})  # one value for each point, to maximise
    space: None = field(default=None, metadata={"static": True})


class PublicState(NamedTuple):
    step: jax.Array
    budget: None
    point: jax.Array  # the best so far
    value: jax.Array


class Release(NamedTuple):
    point: jax.Array
    row: None = None


def init(key, config):
    return State(PublicState(jnp.zeros((), jnp.int32), None, jnp.mean(config.bounds, axis=0), jnp.asarray(-jnp.inf)))


def ask(key, config, state):
    """A normal step from the best point, smaller from step to step."""
    low, high = config.bounds
    width = 0.3 * (high - low) / (1 + 0.1 * state.public.step)
    point = state.public.point + width * jax.random.normal(key, low.shape)
    return Query(points=jnp.clip(point, low, high)[None], mask=jnp.ones(1, bool))


def tell(key, config, state, query, values):
    step, _, point, value = state.public
    better = values[0] > value
    public = PublicState(step + 1, None, jnp.where(better, query.points[0], point), jnp.where(better, values[0], value))
    return State(public), Info({})


def release(key, config, state):
    return Release(state.public.point)


def privacy(config):
    return jaxdpbo.Guarantee("none", math.inf, None, "nobody", no_guarantee_reason="the optimiser adds no noise")


def losses(point, records):
    return jnp.sum(jnp.square(records - point), axis=1)


climber = Algorithm(init, ask, tell, release, privacy)
records = np.random.default_rng(0).normal((0.7, 0.3), 0.1, (5000, 2))
bounds = jnp.array([[0.0, 0.0], [1.0, 1.0]])
for mu in (0.1, 0.3, 1.0):
    config = private_evaluations.config(climber, Config(bounds, steps=40), users=5000, mu=mu, loss_range=(0, 1))
    runs = jaxdpbo.sweep(private_evaluations.make_algorithm(climber), losses, records, config, seeds=20)
    distances = np.linalg.norm(runs.release.point - np.mean(records, axis=0), axis=-1)
    print(f"mu = {mu}: median distance to the minimum {np.median(distances):.3f}")

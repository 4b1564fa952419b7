"""Example 4.3, shared by figures 4 and 5: lengthscales of a GP regression, observed exactly or through noise.

One objective for both figures: observations without noise are those with a deviation of 0. What is reported is always
the mean loss without noise, over the same users that steered the run.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.papers import gp_regression, noisy
from benchmarks.reproductions import common
from jaxdpbo import dp_gibo, drivers, kernels
from jaxdpbo.algorithms import random_search
from jaxdpbo.surrogate import descent

OBJECTIVE = noisy.objective(gp_regression.loss)
SOURCE = "drawn from a Gaussian process, afresh each seed"
EXCESS = "mean loss of the answer, less that at\nthe true lengthscales: mean, range"


class Noise(NamedTuple):
    """Of the observations: see ``benchmarks.papers.noisy``."""

    deviation: jax.Array
    common: jax.Array


def noise(deviation: float = 0.0, common: bool = False) -> Noise:
    return Noise(jnp.asarray(deviation, float), jnp.asarray(common))


def draw_function(users: int, train: int) -> Callable[[jax.Array], Any]:
    """``key -> (records, start, reference)``: a replication's data, where its runs begin, the loss at the truth."""
    return jax.jit(partial(_draw, users=users, train=train))


def _draw(key, users, train):
    data_key, start_key = jax.random.split(key)
    records, true = gp_regression.sample(data_key, users, train)
    return records, gp_regression.start(start_key), jnp.mean(gp_regression.loss(true, records))


def gibo(s: Any, *, mu: float, step_size: float, lengthscale: float, noise_variance: float) -> dp_gibo.Config:
    """Algorithm 1 with AdaGrad (remark 4.1)."""
    return dp_gibo.config(
        box_units=False,
        noise="float",
        users=s.users,
        steps=s.steps,
        batch=s.batch,
        clip_norm=s.clip_norm,
        mu=mu,
        bounds=gp_regression.bounds(),
        step_size=step_size,
        optimizer=common.adagrad,
        kernel_params=kernels.stationary_params(lengthscale, s.dimension),
        noise_variance=noise_variance,
    )


def box_units(s: Any, *, mu: float) -> dp_gibo.Config:
    """The same descent in box units, with step, kernel and update as ``minimize`` has them: nothing tuned."""
    return dp_gibo.config(
        noise="float",
        users=s.users,
        steps=s.steps,
        batch=s.batch,
        clip_norm=s.clip_norm,
        mu=mu,
        bounds=gp_regression.bounds(),
        optimizer=optax.adagrad,
    )


def run_gibo(inputs, drawn):
    """``curve (2, T + 1)``: the mean loss of what would be released after each step, by each of
    ``descent.OUTPUTS``.
    """
    key, (config, noise) = inputs
    records, start, _ = drawn
    noise_key, key = jax.random.split(key)
    data = noisy.Data(records, noise_key, *noise)
    config = dataclasses.replace(config, theta0=start)
    release, end, info = drivers.pure_run(dp_gibo.algorithm, OBJECTIVE, data, config, key)
    points = common.answers(release.path)
    asked = end.state.public.points.reshape(config.steps, config.batch, -1) - release.path[:-1, None]
    return {
        "curve": mean_losses(points.reshape(-1, points.shape[-1]), records).reshape(points.shape[:2]),
        "reach": jnp.mean(jnp.linalg.norm(asked, axis=2)),
        "clipped_share": jnp.mean(info.raw["clipped_share"]),
    }


def run_search(inputs, drawn):
    """Random search: ``curve (m,)``, the mean loss of the best point so far, best as observed; and the reference."""
    key, (config, noise) = inputs
    records, _, reference = drawn
    noise_key, key = jax.random.split(key)
    points = random_search.ask(key, config, random_search.init(key, config)).points
    true = mean_losses(points, records)
    z = noisy.Data(records, noise_key, *noise)
    seen = jax.lax.map(lambda point: jnp.mean(OBJECTIVE(point, z)), points)
    best = jax.lax.associative_scan(lambda a, b: jnp.where(seen[b] < seen[a], b, a), jnp.arange(len(points)))
    return {"curve": true[best], "reference": reference}


def search(s: Any) -> random_search.Config:
    """As many points as DP-GIBO evaluates."""
    return random_search.config(users=s.users, steps=1, batch=s.steps * s.batch, bounds=gp_regression.bounds())


def mean_losses(points: jax.Array, records: Any) -> jax.Array:
    return jax.lax.map(lambda point: jnp.mean(gp_regression.loss(point, records)), points)


def tune_gibo(s, draw, tried, make, seeds, label, at=-1):
    """The options, ``output`` among them, of least mean loss after step ``at``; ``make(**options)`` is what is run."""
    results = common.run_seeds(draw, run_gibo, [make(**setting) for setting in tried], seeds, f"tuning {label}")
    options = [setting | {"output": output} for setting in tried for output in descent.OUTPUTS]
    scores = np.mean(results["curve"][..., at], axis=1).ravel()
    return common.choose(f"{label} by mean final loss", options, scores, seeds)


def released_curves(curves: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Of ``curves (seeds, 2, T + 1)``, those of the chosen output."""
    return curves[:, descent.OUTPUTS.index(options["output"])]

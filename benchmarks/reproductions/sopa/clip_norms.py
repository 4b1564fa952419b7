"""Ours: what is lost to a clip norm that is a hundred times too large or too small, and what finding it costs."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import report
from benchmarks.papers import gp_regression, huber_regression, location
from benchmarks.reproductions import common
from benchmarks.reproductions.sopa import settings
from jaxdpbo import Search, dp_gibo, drivers
from jaxdpbo.drivers import methods
from jaxdpbo.guarantee import budget_calibration
from jaxdpbo.noise import private_scale

DESCENT = 500  # steps of Adam to the best point of a box, not private
GOOD, PRIVATE = "good", "found privately"


def main(seeds: range | None = None, quick: bool = False) -> None:
    title = "Ours: clip norms a hundred times too large, too small, and found privately"
    out = common.Report(settings, "clip_norms", title, quick, "simulated afresh each seed", seeds=seeds)
    s = out.settings
    seeds = seeds or range(s.replications)
    tuned_on, regrets_by_problem, chosen, tuning = common.tuning_seeds(s.tuning_seeds), {}, {}, {}
    for name, (draw, loss, box) in problems(s).items():
        run = partial(common.run_seeds, jax.jit(draw), partial(regret, loss, box))
        config = partial(make_config, s, box)
        tried = common.grid(clip_norm=s.clip_norms)
        scores = np.mean(run([config(**options) for options in tried], tuned_on, f"tuning {name}")["regret"], axis=1)
        best, tuning[name] = common.choose(f"{name} by mean regret", tried, scores, tuned_on)
        good = chosen[name] = best["clip_norm"]
        clip_norms = {GOOD: good, "100 times": 100 * good, "a hundredth": good / 100}
        regrets = run([config(clip_norm=clip_norm) for clip_norm in clip_norms.values()], seeds, name)["regret"]
        regrets_by_problem[name] = dict(zip(clip_norms, regrets, strict=True))
        regrets_by_problem[name][PRIVATE] = run([config(clip_norm=private_scale.PRIVATE)], seeds, PRIVATE)["regret"][0]
    means = {
        name: {norm: common.interval(np.mean, regrets) for norm, regrets in by_norm.items()}
        for name, by_norm in regrets_by_problem.items()
    }
    print(f"\nshare of the start's regret that is left, means of {len(seeds)} seeds (95 %)")
    names = list(next(iter(means.values())))
    report.print_table(
        ("problem", "good clip norm", *names),
        [
            (
                name,
                f"{chosen[name]:g}",
                *(f"{middle:.3f} ({low:.3f} to {high:.3f})" for middle, low, high in by_norm.values()),
            )
            for name, by_norm in means.items()
        ],
    )
    out.finish(
        picture(regrets_by_problem),
        seeds=common.ends(seeds),
        tuning=tuning,
        chosen=chosen,
        factor=private_scale.FACTOR,
        share=private_scale.SHARE,
        mean={
            name: {norm: {"regret": mean[0], "95%": mean[1:]} for norm, mean in by_norm.items()}
            for name, by_norm in means.items()
        },
    )


def problems(s: Any) -> dict[str, tuple[Any, Any, np.ndarray]]:
    """How a seed's data are drawn, the loss, and the box ``(2, d)``."""
    around = np.array([[-4.0], [4.0]])

    def process(key):
        return gp_regression.sample(key, s.users, s.train)[0]

    def heavy_tails(key):
        """A few users are far off: their gradients are long."""
        return jnp.asarray(location.TRUE_LOCATION)[None] + jax.random.t(key, 2.0, (s.users, 5))

    sampled = partial(location.sample, users=s.users), partial(huber_regression.sample, users=s.users)
    return {
        "location": (sampled[0], location.loss, around * np.ones(5)),
        "location, heavy tails": (heavy_tails, location.loss, around * np.ones(5)),
        "Huber regression": (sampled[1], huber_regression.loss, around * np.ones(4)),
        "GP regression": (process, gp_regression.loss, gp_regression.bounds()),
    }


def make_config(s: Any, box: np.ndarray, clip_norm: float | str) -> dp_gibo.Config:
    """As ``minimize`` runs it, from a corner's side of the box."""
    start = box[0] + 0.75 * (box[1] - box[0])
    box = {"low": box[0], "high": box[1]}
    search = Search(method="local", steps=s.steps, batch=s.batch, clip_norm=clip_norm, start=start)
    budget = budget_calibration.RequestedBudget(s.mu)
    return methods.plan(methods.make_problem(search, users=s.users, budget=budget, space=box, loss_range=None)).config


def regret(loss: Any, box: np.ndarray, inputs: Any, data: Any) -> dict[str, jax.Array]:
    """Of the answer, over that of the start: raw, the records are simulated."""
    key, config = inputs

    def mean_loss(theta):
        return jnp.mean(loss(theta, data))

    release = drivers.pure_run(dp_gibo.algorithm, loss, data, config, key)[0]
    best = lowest_loss(mean_loss, box, config.theta0)
    return {"regret": (mean_loss(release.point) - best) / (mean_loss(config.theta0) - best)}


def lowest_loss(mean_loss: Any, box: np.ndarray, start: jax.Array) -> jax.Array:
    """The least mean loss that descent along true gradients meets."""
    half = (box[1] - box[0]) / 2
    adam = optax.adam(0.02)

    def step(carry, _):
        theta, memory, least = carry
        value, gradient = jax.value_and_grad(mean_loss)(theta)
        update, memory = adam.update(gradient * half, memory)
        theta = jnp.clip(theta + update * half, box[0], box[1])
        return (theta, memory, jnp.minimum(least, value)), None

    return jax.lax.scan(step, (start, adam.init(start), jnp.asarray(jnp.inf, start.dtype)), None, DESCENT)[0][2]


def picture(regrets_by_problem):
    figure, axes = common.panels(1, len(regrets_by_problem))
    for axis, (name, by_norm) in zip(axes, regrets_by_problem.items(), strict=True):
        axis.boxplot(list(by_norm.values()), tick_labels=[norm.replace(" ", "\n") for norm in by_norm])
        axis.set_title(name, fontsize=9)
    axes[0].set_ylabel("share of the start's regret")
    return figure

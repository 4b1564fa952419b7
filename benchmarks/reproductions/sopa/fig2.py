"""Figure 2, example 4.2: Huber regression, by DP-GIBO and by descent along true gradients, with noise and without."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import report
from benchmarks.papers import huber_regression
from benchmarks.reproductions import common
from benchmarks.reproductions.sopa import settings
from jaxdpbo import dp_gd, dp_gibo, drivers, kernels

GIBO, GD, PLAIN = "DP-GIBO", "DP-GD", "gradient descent"  # the last is DP-GD at mu = inf: clipped, no noise
REWEIGHTINGS = 200
SHOWN_STEPS = (0, 1, 2, 5, 10, 20, 50, 100)


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings, "fig2", "Fig. 2, example 4.2: Huber regression", quick, "simulated afresh each seed", seeds=seeds
    )
    s = out.settings
    seeds = seeds or range(s.replications)
    draw = jax.jit(partial(draw_records, users=s.users))
    shared = {
        "users": s.users,
        "steps": s.steps,
        "clip_norm": s.clip_norm,
        "bounds": np.array([[-np.inf], [np.inf]]) * np.ones(s.dimension),
        "theta0": np.full(s.dimension, s.theta0),
        "noise": "float",
    }

    def gibo(step_size, lengthscale):
        numbers = kernels.stationary_params(lengthscale, s.dimension)
        return dp_gibo.config(mu=s.mu, batch=s.batch, step_size=step_size, kernel_params=numbers, **shared)

    def descent(mu, step_size):
        return dp_gd.config(mu=mu, step_size=step_size, **shared)

    methods = {
        GIBO: (run_gibo, gibo, common.grid(step_size=s.step_sizes, lengthscale=s.lengthscales)),
        GD: (run_descent, partial(descent, s.mu), common.grid(step_size=s.step_sizes)),
        PLAIN: (run_descent, partial(descent, np.inf), common.grid(step_size=s.step_sizes)),
    }
    tuning, chosen, runs = {}, {}, {}
    tuned_on = common.tuning_seeds(s.tuning_seeds)
    for method, (run, config, tried) in methods.items():
        results = common.run_seeds(draw, run, [config(**options) for options in tried], tuned_on, f"tuning {method}")
        scores = np.median(results["gap"][:, :, -1], axis=1)
        chosen[method], tuning[method] = common.choose(f"{method} by median final loss gap", tried, scores, tuned_on)
        results = common.run_seeds(draw, run, [config(**chosen[method])], seeds, method)
        runs[method] = {name: values[0] for name, values in results.items()}

    print(f"\ndistance to the minimiser, medians of {len(seeds)} seeds")
    steps = [t for t in SHOWN_STEPS if t <= s.steps]
    rows = [
        (method, common.describe_options(chosen[method]))
        + tuple(f"{np.median(results['distance'][:, t]):.3g}" for t in steps)
        + tuple(f"{np.median(results[name][:, -1]):.3g}" for name in ("gap", "distance_to_true"))
        for method, results in runs.items()
    ]
    report.print_table(("method", "tuned", *(f"step {t}" for t in steps), "loss gap: end", "to the truth: end"), rows)

    ratio = common.interval(ratio_of_medians, runs[GIBO]["distance"][:, -1], runs[GD]["distance"][:, -1])
    halved = {
        method: np.argmax(results["distance"] <= results["distance"][:, :1] / 2, axis=1)
        for method, results in runs.items()
    }
    settled = {"step that halves the distance": halved, "distance at the end": last_of(runs, "distance")}
    settled["distance to the truth at the end"] = last_of(runs, "distance_to_true")
    lag = common.interval(common.mean_difference, halved[GIBO], halved[GD])
    early = slice(0, 5)
    below = {
        name: float(np.mean(runs[GIBO][name][:, early] < runs[GIBO]["true"][:, early]))
        for name in ("surrogate", "estimated")
    }
    at_first = {name: np.median(runs[GIBO][name][:, early], axis=0) for name in ("surrogate", "estimated", "true")}
    print(f"\n{GIBO} / {GD}, median final distance: {ratio[0]:.3f} (95 % {ratio[1]:.3f} to {ratio[2]:.3f})")
    print(f"lag, steps to halve the distance, mean difference: {lag[0]:+.2f} (95 % {lag[1]:+.2f} to {lag[2]:+.2f})")
    for name, values in at_first.items():
        print(f"gradient norm of {GIBO}, first steps, {name}: " + " ".join(f"{value:.3f}" for value in values))
    print(f"share of the first 5 steps with a norm below the true one: {below}\n")
    out.finish(
        picture(runs),
        seeds=common.ends(seeds),
        tuning=tuning,
        chosen=chosen,
        **{f"{GIBO} / {GD}, median final distance": {"ratio": ratio[0], "95%": ratio[1:]}},
        lag={"mean difference of steps to halve the distance": lag[0], "95%": lag[1:]},
        below_true_in_first_5_steps=below,
        by_seed=settled
        | {
            f"log of the {name} norm over the true one, steps 1 to 5": np.mean(
                np.log(runs[GIBO][name][:, early] / runs[GIBO]["true"][:, early]), axis=1
            )
            for name in ("surrogate", "estimated")
        },
        median={
            m: {name: np.median(values, axis=0) for name, values in results.items()} for m, results in runs.items()
        },
    )


def last_of(runs, name):
    return {method: results[name][:, -1] for method, results in runs.items()}


def ratio_of_medians(first, second, axis):
    return np.median(first, axis=axis) / np.median(second, axis=axis)


def draw_records(key, users):
    """Records, and the exact minimiser by iterated reweighting."""
    data = huber_regression.sample(key, users)
    covariates, responses = data
    weight = jnp.minimum(1.0, 2.0 / jnp.sum(jnp.square(covariates), axis=1))

    def reweight(_, theta):
        within = weight / jnp.maximum(jnp.abs(responses - covariates @ theta), 1.0)
        return jnp.linalg.solve((covariates * within[:, None]).T @ covariates, covariates.T @ (within * responses))

    return data, jax.lax.fori_loop(0, REWEIGHTINGS, reweight, jnp.zeros(covariates.shape[1]))


def run_gibo(inputs, drawn):
    key, config = inputs
    (data, best), loss = drawn, huber_regression.loss
    release, _, info = drivers.pure_run(dp_gibo.algorithm, loss, data, config, key)
    return path_quantities(config, release.path, info, data, best)


def run_descent(inputs, drawn):
    key, config = inputs
    (data, best), gradients = drawn, dp_gd.gradient_objective(huber_regression.loss)
    release, _, info = drivers.pure_run(dp_gd.algorithm, gradients, data, config, key)
    return path_quantities(config, release.path, info, data, best)


def path_quantities(config, path, info, data, best):
    """Raw quantities (the records are simulated). ``estimated`` is with noise, ``surrogate`` before it."""

    def mean_loss(theta):
        return jnp.mean(huber_regression.loss(theta, data))

    truth = jnp.asarray(huber_regression.TRUE_COEFFICIENTS)
    return {
        "coordinate": path[:, 0],
        "best_coordinate": best[0],
        "gap": jax.vmap(mean_loss)(path) - mean_loss(best),
        "distance": jnp.linalg.norm(path - best[None], axis=1),
        "distance_to_true": jnp.linalg.norm(path - truth[None], axis=1),
        "true": jnp.linalg.norm(jax.vmap(jax.grad(mean_loss))(path[:-1]), axis=1),
        "estimated": jnp.linalg.norm((path[:-1] - path[1:]) / config.step_size[None], axis=1),
        "surrogate": jnp.linalg.norm(info.raw["gradient"], axis=1),
    }


def picture(runs):
    figure, axes = common.panels(3, sharex=True)
    for colour, (method, results) in zip(("C0", "C1", "0.4"), runs.items(), strict=True):
        axes[0].plot(results["coordinate"][0], color=colour, label=f"{method}, seed 0")
        common.band(axes[1], results["distance"], colour, method)
    axes[0].axhline(huber_regression.TRUE_COEFFICIENTS[0], color="0.4", linestyle=":", label="truth")
    common.band(axes[2], runs[GIBO]["estimated"], "C0", f"{GIBO}: estimated, with noise")
    common.band(axes[2], runs[GIBO]["surrogate"], "C2", f"{GIBO}: estimated, before noise")
    common.band(axes[2], runs[GIBO]["true"], "C3", f"{GIBO}: true")
    axes[1].set_yscale("log")
    axes[2].set_yscale("log")
    axes[0].set_ylabel("first coordinate")
    axes[1].set_ylabel("distance to the minimiser:\nmedian, quartiles")
    axes[2].set(ylabel="gradient norm", xlabel="step")
    return figure

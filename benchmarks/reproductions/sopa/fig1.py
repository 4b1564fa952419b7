"""Figure 1, example 4.1: the location of a normal model. Both budgets approach the maximum likelihood estimate."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import report
from benchmarks.papers import location
from benchmarks.reproductions import common
from benchmarks.reproductions.sopa import settings
from jaxdpbo import dp_gibo, drivers, kernels
from jaxdpbo.noise import clipping


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings,
        "fig1",
        "Fig. 1, example 4.1: location of a normal model",
        quick,
        "simulated afresh each seed",
        seeds=seeds,
    )
    s = out.settings
    seeds = seeds or range(s.replications)
    draw = jax.jit(partial(location.sample, users=s.users))

    def config(mu, step_size):
        """Algorithm 1 with the paper's polynomial kernel, no box."""
        return dp_gibo.config(
            noise="float",
            users=s.users,
            steps=s.steps,
            batch=s.batch,
            clip_norm=s.clip_norm,
            mu=mu,
            bounds=np.array([[-np.inf], [np.inf]]) * np.ones(s.dimension),
            theta0=np.full(s.dimension, s.theta0),
            step_size=step_size,
            kernel=kernels.polynomial,
            kernel_params=kernels.polynomial_params(2),
        )

    tuning, chosen = {}, {}
    tried, tuned_on = common.grid(step_size=s.step_sizes), common.tuning_seeds(s.tuning_seeds)
    for mu in s.mu:
        results = common.run_seeds(
            draw, run, [config(mu, **options) for options in tried], tuned_on, f"tuning mu={mu:g}"
        )
        scores = np.median(results["gap"][:, :, -1], axis=1)
        chosen[mu], tuning[mu] = common.choose(f"mu={mu:g} by median final loss gap", tried, scores, tuned_on)
    results = common.run_seeds(draw, run, [config(mu, **chosen[mu]) for mu in s.mu], seeds, "both budgets")
    runs = {mu: {name: values[i] for name, values in results.items()} for i, mu in enumerate(s.mu)}

    print(f"\nmedians of {len(seeds)} seeds")
    quartiles = {mu: np.percentile(runs[mu]["gap"][:, -1], (25, 50, 75)) for mu in s.mu}
    rows = []
    for mu in s.mu:
        first, last = (np.median(runs[mu]["distance"][:, i]) for i in (0, -1))
        low, middle, high = quartiles[mu]
        bias, noise = (np.median(runs[mu][name][:, -1]) for name in ("surrogate_bias", "noise"))
        rows.append(
            (f"{mu:g}", f"{chosen[mu]['step_size']:g}", f"{first:.3f}", f"{last:.3f}", f"{middle:.4f}")
            + (f"{low:.4f}..{high:.4f}", f"{bias:.1e}", f"{noise:.2f}")
        )
    report.print_table(
        ("mu", "step", "distance to MLE: start", "end", "loss gap: end", "quartiles", "surrogate bias", "noise norm"),
        rows,
    )
    out.finish(
        picture(runs),
        seeds=common.ends(seeds),
        tuning=tuning,
        step_size={mu: chosen[mu]["step_size"] for mu in s.mu},
        median={mu: {name: np.median(values, axis=0) for name, values in runs[mu].items()} for mu in s.mu},
        final_gap_quartiles=quartiles,
        by_seed={mu: claim_values(results) for mu, results in runs.items()},
    )


def run(inputs, records):
    """One run and the raw quantities of the figure (the records are simulated)."""
    key, config = inputs
    release, _, info = drivers.pure_run(dp_gibo.algorithm, location.loss, records, config, key)
    best = location.minimiser(records)
    path = release.path

    def mean_loss(theta):
        return jnp.mean(location.loss(theta, records))

    def clipped_gradient(theta):
        return jnp.mean(clipping.clip_by_l2_norm((theta - records).T, config.clip_norm)[0], axis=1)

    moved = (path[:-1] - path[1:]) / config.step_size
    return {
        "coordinate": path[:, 0],
        "best_coordinate": best[0],
        "loss": jax.vmap(mean_loss)(path),
        "gap": jax.vmap(mean_loss)(path) - mean_loss(best),
        "distance": jnp.linalg.norm(path - best, axis=1),
        "surrogate_bias": jnp.linalg.norm(info.raw["gradient"] - jax.vmap(clipped_gradient)(path[:-1]), axis=1),
        "noise": jnp.linalg.norm(moved - info.raw["gradient"], axis=1),
    }


def claim_values(results):
    """What the register's claims compare, of each seed. The last half of the steps is where the path has settled."""
    half = results["coordinate"].shape[1] // 2
    return {
        "distance at the start": results["distance"][:, 0],
        "distance at the end": results["distance"][:, -1],
        "excess loss at the end": results["gap"][:, -1],
        "oscillation, last half": np.std(results["coordinate"][:, half:], axis=1),
        "bias over noise, last half": np.mean(results["surrogate_bias"][:, half:] / results["noise"][:, half:], axis=1),
    }


def picture(runs):
    figure, axes = common.panels(3, sharex=True)
    (noisiest, first), *_ = runs.items()
    for colour, (mu, results) in zip(("C0", "C1"), runs.items(), strict=True):
        axes[0].plot(results["coordinate"][0], color=colour, label=f"mu={mu:g}, seed 0")
        common.band(axes[1], results["loss"], colour, f"mu={mu:g}")
    axes[0].axhline(first["best_coordinate"][0], color="0.4", linestyle=":", label="maximum likelihood")
    axes[1].axhline(np.median(first["loss"][:, -1] - first["gap"][:, -1]), color="0.4", linestyle=":", label="least")
    common.band(axes[2], first["noise"], "C0", f"noise, mu={noisiest:g}")
    common.band(axes[2], first["surrogate_bias"], "C2", "bias of the surrogate gradient")
    axes[2].set_yscale("log")
    axes[0].set_ylabel("first coordinate")
    axes[1].set_ylabel("mean loss: median, quartiles")
    axes[2].set(ylabel="norm", xlabel="step")
    return figure

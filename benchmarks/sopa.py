"""Sopa et al. (2025), "Scalable differentially private Bayesian optimization": their figures, one function each."""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")

import time

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from tqdm import tqdm

from benchmarks import report
from jaxdpbo import drivers
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.privacy import clipping
from jaxdpbo.problems import location
from jaxdpbo.surrogate import kernels

matplotlib.use("Agg")
from matplotlib import pyplot

# Example 4.1 and appendix C.1. The paper prints no step size: one is chosen for each budget on seeds of its own.
FIG1 = {"users": 50, "steps": 150, "batch": 3, "clip_norm": 1.0}
FIG1_BUDGETS = (0.5, 2.0)
FIG1_STEP_SIZES = (0.02, 0.05, 0.1, 0.2, 0.4)
TUNING_SEEDS = 10_000  # where the tuning seeds begin; the reported ones begin at 0


def fig1_config(mu: float, step_size: float) -> dp_gibo.Config:
    """Algorithm 1 with the paper's polynomial kernel, no box."""
    dimension = len(location.TRUE_LOCATION)
    return dp_gibo.config(
        mu=mu,
        bounds=np.array([[-np.inf], [np.inf]]) * np.ones(dimension),
        theta0=np.zeros(dimension),
        step_size=step_size,
        kernel=kernels.polynomial,
        kernel_params=kernels.polynomial_of_degree(2),
        **FIG1,
    )


@jax.jit
def fig1_run(seed: jax.Array, config: dp_gibo.Config) -> dict[str, jax.Array]:
    """One seed: fresh records, one run, and the raw quantities of the figure (the records are simulated)."""
    data_key, run_key = jax.random.split(jax.random.key(seed))
    records = location.sample(data_key, config.users)
    release, _, info = drivers.scan(dp_gibo.algorithm, location.loss, run_key, config, records)
    best = location.minimiser(records)
    path = release.path

    def mean_loss(theta):
        return jnp.mean(location.loss(theta, records))

    def clipped(theta):
        return jnp.mean(clipping.clip_by_l2_norm((theta - records).T, config.clip_norm)[0], axis=1)

    moved = (path[:-1] - path[1:]) / config.step_size
    return {
        "coordinate": path[:, 0],
        "best_coordinate": best[0],
        "loss": jax.vmap(mean_loss)(path),
        "gap": jax.vmap(mean_loss)(path) - mean_loss(best),
        "distance": jnp.linalg.norm(path - best, axis=1),
        "surrogate_bias": jnp.linalg.norm(info.gradient - jax.vmap(clipped)(path[:-1]), axis=1),
        "noise": jnp.linalg.norm(moved - info.gradient, axis=1),
    }


def over_seeds(run, seeds, config, said: str) -> dict[str, np.ndarray]:
    """Stack what ``run(seed, config)`` returns, with a progress bar."""
    bar = tqdm(seeds, desc=said, unit="seed", mininterval=1.0)
    found = [jax.tree.map(np.asarray, run(jnp.asarray(seed), config)) for seed in bar]
    return {name: np.stack([one[name] for one in found]) for name in found[0]}


def fig1(seeds: int, quick: bool) -> None:
    """Location of a normal model: both budgets approach the maximum likelihood estimate."""
    start = time.perf_counter()
    tuning = 2 if quick else 20
    chosen, scores = {}, {}
    for mu in FIG1_BUDGETS:
        scores[mu] = {}
        for step_size in FIG1_STEP_SIZES:
            tried = range(TUNING_SEEDS, TUNING_SEEDS + tuning)
            found = over_seeds(fig1_run, tried, fig1_config(mu, step_size), f"tuning mu={mu:g} step={step_size:g}")
            scores[mu][step_size] = float(np.median(found["gap"][:, -1]))
        chosen[mu] = min(scores[mu], key=scores[mu].__getitem__)
    runs = {mu: over_seeds(fig1_run, range(seeds), fig1_config(mu, chosen[mu]), f"mu={mu:g}") for mu in FIG1_BUDGETS}

    print(f"\nexample 4.1, {FIG1}, {seeds} seeds; step sizes chosen on {tuning} other seeds")
    rows = []
    for mu in FIG1_BUDGETS:
        first, last = (np.median(runs[mu]["distance"][:, i]) for i in (0, -1))
        low, middle, high = np.percentile(runs[mu]["gap"][:, -1], (25, 50, 75))
        bias, noise = (np.median(runs[mu][name][:, -1]) for name in ("surrogate_bias", "noise"))
        rows.append(
            (f"{mu:g}", f"{chosen[mu]:g}", f"{first:.3f}", f"{last:.3f}", f"{middle:.4f}", f"{low:.4f}..{high:.4f}")
            + (f"{bias:.1e}", f"{noise:.2f}")
        )
    report.print_table(
        ("mu", "step", "distance to MLE: start", "end", "loss gap: end", "quartiles", "surrogate bias", "noise norm"),
        rows,
    )

    out = report.folder("sopa")
    summary = {
        "figure": "Fig. 1, example 4.1",
        "settings": FIG1 | {"kernel": "polynomial, degree 2", "theta0": 0.0},
        "seeds": [0, seeds],
        "tuning": {"seeds": [TUNING_SEEDS, TUNING_SEEDS + tuning], "median final gap": scores},
        "step_size": chosen,
        "median": {
            mu: {name: np.median(values, axis=0).tolist() for name, values in runs[mu].items()} for mu in FIG1_BUDGETS
        },
        "final_gap_quartiles": {
            mu: np.percentile(runs[mu]["gap"][:, -1], (25, 50, 75)).tolist() for mu in FIG1_BUDGETS
        },
        "seconds": round(time.perf_counter() - start, 1),
        "machine": report.machine(),
    }
    report.write_json(out / "fig1.json", summary)
    report.save_figure(_fig1_figure(runs), out / "fig1.png")
    print(f"{summary['seconds']} s")


def _fig1_figure(runs):
    figure, axes = pyplot.subplots(3, 1, figsize=(7, 9), sharex=True)
    for colour, (mu, found) in zip(("C0", "C1"), runs.items(), strict=True):
        label = f"mu={mu:g}"
        axes[0].plot(found["coordinate"][0], color=colour, label=f"{label}, seed 0")
        _band(axes[1], found["loss"], colour, label)
    axes[0].axhline(runs[0.5]["best_coordinate"][0], color="0.4", linestyle=":", label="maximum likelihood")
    axes[1].axhline(np.median(runs[0.5]["loss"][:, -1] - runs[0.5]["gap"][:, -1]), color="0.4", linestyle=":")
    _band(axes[2], runs[0.5]["noise"], "C0", "noise, mu=0.5")
    _band(axes[2], runs[0.5]["surrogate_bias"], "C2", "bias of the surrogate gradient")
    axes[2].set_yscale("log")
    axes[0].set_ylabel("first coordinate")
    axes[1].set_ylabel("mean loss: median, quartiles")
    axes[2].set(ylabel="norm", xlabel="step")
    for axis in axes:
        axis.legend(frameon=False)
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _band(axis, values, colour, label):
    low, middle, high = np.percentile(values, (25, 50, 75), axis=0)
    axis.plot(middle, color=colour, label=label)
    axis.fill_between(np.arange(len(middle)), low, high, color=colour, alpha=0.15, linewidth=0)


ITEMS = {"fig1": fig1}

"""Figure 4, example 4.3: lengthscales of a GP regression. Beside two searches without privacy, and by budget.

Ours, with nothing tuned: the same descent from the same starts in box units, and ``minimize``.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import report
from benchmarks.papers import gp_regression
from benchmarks.reproductions import common
from benchmarks.reproductions.sopa import lengthscales, settings
from jaxdpbo import Search, drivers, gp_ucb, kernels, minimize
from jaxdpbo.surrogate import descent

GIBO, UCB, SEARCH, DEFAULT = "DP-GIBO, mu=1", "GP-UCB", "random search", "minimize, mu=1"
BOXED = {1.0: "in box units, mu=1", np.inf: "in box units, mu=inf"}


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings,
        "fig4",
        "Fig. 4, example 4.3: lengthscales of a GP regression",
        quick,
        lengthscales.SOURCE,
        seeds=seeds,
    )
    s = out.settings
    seeds = seeds or range(s.replications)
    tuned_on = common.tuning_seeds(s.tuning_seeds)
    draw, exact = lengthscales.draw_function(s.users, s.train), lengthscales.noise()
    total = s.steps * s.batch
    at = (s.evaluations - 1) // s.batch  # 265 = 24 x 11 + 1: DP-GIBO is read after 24 steps
    print(
        f"the paper's {s.evaluations} evaluations are {at} x {s.batch} + {s.evaluations - at * s.batch}; "
        f"T = {s.steps} steps of b = {s.batch} are {total}. All methods are given {total} and read at both: "
        f"DP-GIBO after {at} steps, the others after {s.evaluations} evaluations.\n"
    )

    def gibo(mu, step_size, lengthscale):
        numbers = {"step_size": step_size, "lengthscale": lengthscale, "noise_variance": s.noise_variance}
        return lengthscales.gibo(s, mu=mu, **numbers), exact

    def ucb(lengthscale, beta):
        return gp_ucb.config(
            users=s.users,
            steps=total,
            bounds=gp_regression.bounds(),
            kernel_params=kernels.stationary_params(lengthscale, s.dimension),
            beta=beta,
            refit_every=s.refit_every,
        )

    tuning, chosen, curves = {}, {}, {}
    for mu in sorted(s.budgets, key=lambda mu: mu != s.mu):  # mu = 1 first: its lengthscale serves the others
        fits = s.lengthscales if mu == s.mu else (chosen[s.mu]["lengthscale"],)
        tried = common.grid(mu=(mu,), step_size=s.step_sizes, lengthscale=fits)
        chosen[mu], tuning[mu] = lengthscales.tune_gibo(s, draw, tried, gibo, tuned_on, f"DP-GIBO, mu={mu:g}")
    options = [{key: value for key, value in chosen[mu].items() if key != "output"} for mu in s.budgets]
    results = common.run_seeds(draw, lengthscales.run_gibo, [gibo(**setting) for setting in options], seeds, "DP-GIBO")
    for mu, runs in zip(s.budgets, results["curve"], strict=True):
        curves[mu] = lengthscales.released_curves(runs, chosen[mu])

    untuned = [(lengthscales.box_units(s, mu=mu), exact) for mu in BOXED]
    results = common.run_seeds(draw, lengthscales.run_gibo, untuned, seeds, "in box units")
    for name, runs in zip(BOXED.values(), results["curve"], strict=True):
        curves[name] = runs[:, descent.OUTPUTS.index("last_half_mean")]

    results = common.run_seeds(draw, lengthscales.run_search, [(lengthscales.search(s), exact)], seeds, SEARCH)
    curves[SEARCH], reference = results["curve"][0], results["reference"][0]

    tried, scores = common.grid(lengthscale=s.ucb_lengthscales, beta=s.ucb_betas), []
    for setting in tried:  # a schedule and a constant beta are two programs
        tries = common.run_seeds(
            draw, run_ucb, [ucb(**setting)], tuned_on, f"tuning {UCB}, {common.describe_options(setting)}"
        )
        scores.append(np.mean(tries["curve"][0, :, -1]))
    chosen[UCB], tuning[UCB] = common.choose(f"{UCB} by mean final loss", tried, scores, tuned_on)
    curves[UCB] = common.run_seeds(draw, run_ucb, [ucb(**chosen[UCB])], seeds, UCB)["curve"][0]

    # Column 0: at the paper's count; column 1: at T b.
    ends = {name: curves[name][:, [s.evaluations - 1, -1]] for name in (SEARCH, UCB)}
    ends |= {name: curves[name][:, [at, -1]] for name in (*s.budgets, *BOXED.values())}
    default = default_losses(s, draw, seeds)
    print(f"\nmean loss of what is released, mean of {len(seeds)} seeds (range)")
    rows = []
    for name in (s.mu, SEARCH, UCB, *(mu for mu in s.budgets if mu != s.mu), *BOXED.values()):
        label = name if isinstance(name, str) else f"DP-GIBO, mu={name:g}"
        rows.append(
            (label, common.describe_options(chosen.get(name, {})), *(spread(values) for values in ends[name].T))
        )
    rows.append((DEFAULT, "", "", spread(default)))
    rows.append(("at the true lengthscales", "", spread(reference), spread(reference)))
    report.print_table(("method", "tuned", f"{s.evaluations} evaluations", f"{total} evaluations"), rows)
    pairs = {
        f"{GIBO} - {other}, {count} evaluations": common.paired_difference(
            ends[s.mu][:, column], ends[other][:, column]
        )
        for column, count in enumerate((s.evaluations, total))
        for other in (SEARCH, UCB)
    }
    pairs |= {
        f"{name} - {SEARCH}, {total} evaluations": common.paired_difference(ends[name][:, 1], ends[SEARCH][:, 1])
        for name in BOXED.values()
    }
    pairs[f"{DEFAULT} - {SEARCH}, {total} evaluations"] = common.paired_difference(default, ends[SEARCH][:, 1])
    budgets = {
        f"mu={mu:g} - mu={s.mu:g}, {total} evaluations": common.paired_difference(ends[mu][:, 1], ends[s.mu][:, 1])
        for mu in s.budgets
        if mu != s.mu
    }
    print("\npaired differences, mean (95 % interval, Student's t)")
    for name, comparison in (pairs | budgets).items():
        print(f"  {name}: {common.sentence(comparison)}")
    print("GP-UCB begins at the middle of the box, DP-GIBO at uniform random points\n")
    out.finish(
        picture(s, {name: values - reference[:, None] for name, values in curves.items()}),
        seeds=common.ends(seeds),
        tuning=tuning,
        chosen=chosen,
        final={name: {s.evaluations: values[:, 0], total: values[:, 1]} for name, values in ends.items()}
        | {DEFAULT: {total: default}},
        at_true_lengthscales=reference,
        paired=pairs | budgets,
        mean_curves={name: values.mean(axis=0) for name, values in curves.items()},
    )


def run_ucb(inputs, drawn):
    """``curve (T,)``: the least mean loss so far."""
    key, config = inputs
    _, _, info = drivers.pure_run(gp_ucb.algorithm, gp_regression.loss, drawn[0], config, key)
    return {"curve": jnp.minimum.accumulate(info.raw["value"][:, 0])}


def default_losses(s, draw, seeds):
    """``(seeds,)``: what ``minimize`` ends at. Its steps are not all descents, so it has no path to read earlier."""
    ends = []
    for seed in seeds:
        data_key, run_key = jax.random.split(jax.random.key(seed))
        records, _, _ = draw(data_key)
        run = minimize(
            gp_regression.loss,
            records,
            gp_regression.bounds(),
            mu=s.mu,
            users=s.users,
            loss_range=s.loss_range,
            search=Search(steps=s.steps, batch=s.batch, noise="float"),
            key=run_key,
            insecure_key=True,
        )
        ends.append(lengthscales.mean_losses(run.release.point[None], records)[0])
    return np.array(ends)


def spread(values):
    return f"{np.mean(values):.4f} ({np.min(values):.4f} to {np.max(values):.4f})"


def picture(s, excess):
    figure, axes = common.panels(2, sharex=True)
    steps, evaluations = np.arange(s.steps + 1) * s.batch, np.arange(1, s.steps * s.batch + 1)
    for colour, (name, x) in zip(
        ("C0", "C1", "C2"), ((s.mu, steps), (SEARCH, evaluations), (UCB, evaluations)), strict=True
    ):
        label = GIBO if name == s.mu else f"{name} (not private)"
        common.band(axes[0], excess[name], colour, label, x, mean=True)
    axes[0].axvline(s.evaluations, color="0.7", linestyle=":")
    for i, mu in enumerate(s.budgets):
        common.band(axes[1], excess[mu], f"C{i + 3}", f"DP-GIBO, mu={mu:g}", steps, mean=True)
    for i, name in enumerate(BOXED.values()):
        common.band(axes[0], excess[name], f"C{i + 3}", name, steps, mean=True)
    for axis in axes:
        axis.axhline(0.0, color="0.7", linestyle=":")
        axis.set_ylabel(lengthscales.EXCESS)
    axes[1].set_xlabel("evaluations")
    return figure

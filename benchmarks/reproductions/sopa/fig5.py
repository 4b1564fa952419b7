"""Figure 5, appendix C.5: example 4.3 observed through noise, with the right, too large and too small a noise variance.

The paper does not say what ``f + lambda Z`` adds noise to, each user's loss or their mean: both are run. It runs "the
procedure three times", so that only the assumed noise differs: step size and lengthscale are chosen at the right one.
"""

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.sopa import lengthscales, settings

SEARCH = "random search"
READINGS = {"one Z for each user": False, "one Z for all users": True}


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings, "fig5", "Fig. 5, appendix C.5: noisy observations", quick, lengthscales.SOURCE, seeds=seeds
    )
    s = out.settings
    seeds = seeds or range(s.replications)
    tuned_on = common.tuning_seeds(s.tuning_seeds)
    draw, total = lengthscales.draw_function(s.users, s.train), s.steps * s.batch

    right, over, under = s.sigmas
    tuning, chosen, curves, diagnosed, reference = {}, {}, {}, {}, np.zeros(0)
    for reading, shared in READINGS.items():
        noise = lengthscales.noise(s.deviation, shared)

        def gibo(sigma, step_size, lengthscale, noise=noise):
            numbers = {"step_size": step_size, "lengthscale": lengthscale, "noise_variance": sigma**2}
            return lengthscales.gibo(s, mu=s.mu, **numbers), noise

        tried = common.grid(sigma=(right,), step_size=s.step_sizes, lengthscale=s.lengthscales)
        chosen[reading], tuning[reading] = lengthscales.tune_gibo(s, draw, tried, gibo, tuned_on, reading)
        options = {k: v for k, v in chosen[reading].items() if k != "output"}
        configs = [gibo(**options | {"sigma": sigma}) for sigma in s.sigmas]
        results = common.run_seeds(draw, lengthscales.run_gibo, configs, seeds, reading)
        for i, sigma in enumerate(s.sigmas):
            curves[reading, sigma] = lengthscales.released_curves(results["curve"][i], chosen[reading])
            diagnosed[reading, sigma] = {name: results[name][i].mean() for name in ("reach", "clipped_share")}
        results = common.run_seeds(
            draw, lengthscales.run_search, [(lengthscales.search(s), noise)], seeds, f"{SEARCH}, {reading}"
        )
        curves[reading, SEARCH], reference = results["curve"][0], results["reference"][0]

    finals = {case: values[:, -1] for case, values in curves.items()}
    print(f"\nmean loss without noise of what is released after {total} evaluations, {len(seeds)} seeds (range)")
    rows = []
    for (reading, method), values in finals.items():
        label = method if method == SEARCH else f"DP-GIBO, mu={s.mu:g}, sigma={method:g}"
        seen = diagnosed.get((reading, method))
        rows.append(
            (reading, label, f"{values.mean():.4f} ({values.min():.4f} to {values.max():.4f})")
            + ((f"{seen['reach']:.3f}", f"{seen['clipped_share']:.2f}") if seen else ("", ""))
        )
    report.print_table(("reading", "method", "loss", "distance of evaluations", "share of users clipped"), rows)
    print(f"at the true lengthscales: {reference.mean():.4f} ({reference.min():.4f} to {reference.max():.4f})")
    pairs = {}
    for reading in READINGS:
        for first, second in ((right, over), (right, under), (over, under), *((sigma, SEARCH) for sigma in s.sigmas)):
            names = [method if method == SEARCH else f"sigma={method:g}" for method in (first, second)]
            pairs[f"{reading}: {' - '.join(names)}"] = common.paired_difference(
                finals[reading, first], finals[reading, second]
            )
    print("\npaired differences, mean (95 % interval, Student's t)")
    for name, comparison in pairs.items():
        print(f"  {name}: {common.sentence(comparison)}")
    verdicts = {reading: verdict(s, reading, finals) for reading in READINGS}
    for reading, claims in verdicts.items():
        print(f"{reading}: {claims}")
    print()

    def label_cases(by_case):
        return {
            f"{reading}: {method if method == SEARCH else f'sigma={method:g}'}": v
            for (reading, method), v in by_case.items()
        }

    out.finish(
        picture(s, {case: values - reference[:, None] for case, values in curves.items()}),
        seeds=common.ends(seeds),
        tuning=tuning,
        chosen=chosen,
        final=label_cases(finals),
        at_true_lengthscales=reference,
        diagnosed=label_cases(diagnosed),
        paired=pairs,
        verdicts=verdicts,
        mean_curves=label_cases({case: values.mean(axis=0) for case, values in curves.items()}),
    )


def verdict(s, reading, finals):
    """The paper's claims, by mean final loss."""
    right, over, under = (finals[reading, sigma].mean() for sigma in s.sigmas)
    search = finals[reading, SEARCH].mean()
    return {
        "the right sigma is best": bool(right < min(over, under)),
        "the underestimate is worst": bool(under > max(right, over)),
        "the overestimate is viable (better than random search)": bool(over < search),
        "the underestimate is worse than random search": bool(under > search),
    }


def picture(s, excess):
    figure, axes = common.panels(len(READINGS), len(s.sigmas), sharex=True, sharey=True)
    steps, evaluations = np.arange(s.steps + 1) * s.batch, np.arange(1, s.steps * s.batch + 1)
    for row, reading in zip(axes, READINGS, strict=True):
        for axis, sigma in zip(row, s.sigmas, strict=True):
            common.band(axis, excess[reading, sigma], "C0", f"DP-GIBO, mu={s.mu:g}", steps, mean=True)
            common.band(axis, excess[reading, SEARCH], "C1", f"{SEARCH} (not private)", evaluations, mean=True)
            axis.axhline(0.0, color="0.7", linestyle=":")
            axis.set_title(f"sigma = {sigma:g}, {reading}", fontsize=9)
        row[0].set_ylabel(lengthscales.EXCESS)
    for axis in axes[-1]:
        axis.set_xlabel("evaluations")
    return figure

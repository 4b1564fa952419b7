"""Figure 2: simple regret by iteration, for the published transform at several budgets and for no privacy at all.

Where the data are not the paper's, the search runs at the printed budgets and at multiples of the printed budgets: the
factor makes the largest budget the smallest that puts ``r`` within the curator's rule, as in the paper.
"""

from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers.measures import FREE
from benchmarks.reproductions import common
from benchmarks.reproductions.kharkovskii import searches, settings, tables


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings, "fig2", "Fig. 2: simple regret by iteration and budget", quick, "see each panel", seeds=seeds
    )
    s = out.settings
    seeds = seeds or range(s.runs)
    curves, errors, ends, at_printed, described, problems = {}, {}, {}, {}, {}, []
    figure, axes = common.panels(1, len(s.panels))
    for axis, (name, panel) in zip(axes, s.panels.items(), strict=True):
        panel_settings = SimpleNamespace(
            **vars(s) | panel | s.shrink | searches.seed_settings(seeds) | {"epsilon": panel["epsilons"][0]}
        )
        problem = searches.problem_of(panel_settings)
        regrets, budgets = panel_of(panel_settings, problem)
        curves[name], errors[name] = means_and_errors(regrets)
        ends[name] = {method: values[:, -1] for method, values in regrets.items()}
        if panel_settings.data != "synthetic":
            other, _ = panel_of(panel_settings, problem, 1.0)
            at_printed[name] = {method: values[:, -1] for method, values in other.items()}
        described[name] = {"data": problem.source, "epsilons": budgets}
        problems.append(problem)
        show(axis, name, panel_settings, problem, curves[name], errors[name])
    out.finish(
        figure,
        seeds=common.ends(seeds),
        panels=described,
        mean=curves,
        standard_error=errors,
        final=ends,
        final_at_printed_epsilons=at_printed,
        notes=searches.flags(problems),
    )


def panel_of(s, problem, factor=None):
    """Simple regrets ``(runs, T)`` of each budget, and the budgets: the printed ones times a factor."""
    factor = tables.epsilon_for(s, problem, s.projected) / s.epsilon if factor is None else factor
    budgets = {f"epsilon={epsilon * factor:.3g}": epsilon * factor for epsilon in s.epsilons}
    plans = {FREE: None}
    plans |= {name: searches.paper(problem, s.projected, epsilon, s.delta) for name, epsilon in budgets.items()}
    regrets = {name: searches.regrets(s, problem, chosen, aware=False) for name, chosen in tqdm(plans.items())}
    return regrets, budgets


def means_and_errors(regrets):
    pairs = {name: searches.mean_and_error(values) for name, values in regrets.items()}
    return tuple({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))


def show(axis, name, s, problem, curves, errors):
    print(f"\n({name}) {s.data}, r={s.projected}, {s.runs} runs; {problem.source}")
    ends = {method: (curve[-1], errors[method][-1]) for method, curve in curves.items()}
    more = ["" if difference is None else f"{difference:+.3f}" for difference in s.more]
    printed_marks = [("", ""), *zip((f"{epsilon:.3g}" for epsilon in s.epsilons), more, strict=True)]
    report.print_table(
        ("budget", f"regret after {s.steps}", "more than not private", "the printed budget", "its printed more"),
        [
            (method, searches.format_mean(*ends[method]), f"{ends[method][0] - ends[FREE][0]:+.4f}", *printed)
            for method, printed in zip(curves, printed_marks, strict=True)
        ],
    )
    for number, (method, curve) in enumerate(curves.items()):
        steps = np.arange(1, len(curve) + 1)
        axis.plot(steps, curve, "--" if method == FREE else "-", color=f"C{number}", label=method)
        axis.fill_between(steps, curve - errors[method], curve + errors[method], color=f"C{number}", alpha=0.13)
    axis.set(xlabel="iteration", title=f"({name}) {s.data}, r={s.projected}", ylim=(0, None))
    axis.set_ylabel("simple regret: mean and standard error" if name == "a" else "")

"""Branin-Hoo, as figure 2 has the others: the paper's appendix, of which the text at hand has only the name."""

from benchmarks.reproductions import common
from benchmarks.reproductions.kharkovskii import fig2, searches, settings


def main(seeds: range | None = None, quick: bool = False) -> None:
    s = common.settings_of(settings, "branin", quick)
    runs = seeds or range(s.runs)
    vars(s).update(searches.seed_settings(runs), epsilon=s.epsilons[0])
    s.more = [None] * len(s.epsilons)  # nothing of it is printed in the text at hand
    problem = searches.problem_of(s)
    out = common.Report(
        settings, "branin", "Branin-Hoo: simple regret by iteration", quick, problem.source, seeds=seeds
    )
    regrets, budgets = fig2.panel_of(s, problem)
    means, errors = fig2.means_and_errors(regrets)
    figure, (axis,) = common.panels(1)
    fig2.show(axis, "branin", s, problem, means, errors)
    out.finish(
        figure,
        seeds=common.ends(runs),
        epsilons=budgets,
        mean=means,
        standard_error=errors,
        runs=s.runs,
        notes=searches.flags([problem]),
    )

"""One front under two accountants, the paper's and ours; and what publishing the front would cost."""

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import fronts, points, searches, tasks
from jaxdpbo import accounting


def main(seeds: range | None = None, quick: bool = False) -> None:
    title = "One front under two accountants, and what it costs to publish"
    out = fronts.report_of("accountants", title, quick, seeds=seeds)
    s = out.settings
    figure, axes = common.panels(1, len(s.tasks), sharey=True)
    results = {}
    for axis, name in zip(axes, s.tasks, strict=True):
        task, search = points.task_of(s, name), points.search_points(s, name)
        trainings = tasks.trainings_of(task, search.settings)
        values = {which: points.replace_accountant(task, search, which).values for which in tasks.ACCOUNTANTS}
        for number, (which, pairs) in enumerate(values.items()):
            fronts.front_line(axis, pairs, f"C{number}", which)
        axis.set(title=name, **fronts.LIMITS)
        ratio = values["the paper's"][:, 0] / values["ours"][:, 0]
        front = [training for training, on in zip(trainings, searches.front_of(search.values), strict=True) if on]
        results[name] = {
            "hypervolume": {which: searches.hypervolume(pairs, s.reference) for which, pairs in values.items()},
            "paper's epsilon over ours": np.quantile(ratio, (0.05, 0.5, 0.95)),
            "front": len(front),
            "publishing the front": accounting.compose_epsilon(front, s.delta),
            "publishing the search": accounting.compose_epsilon(trainings, s.delta),
        }
    report.print_table(
        ("task", "hypervolume, ours", "the paper's", "paper's epsilon over ours, 5, 50, 95 %"),
        [
            (name, *(f"{v:.3f}" for v in row["hypervolume"].values()),
             ", ".join(f"{r:.2f}" for r in row["paper's epsilon over ours"]))
            for name, row in results.items()
        ],
    )  # fmt: skip
    print()
    report.print_table(
        ("task", "settings on the front", "epsilon of these trainings", "of all the search's"),
        [
            (name, row["front"], f"{row['publishing the front']:.1f}", f"{row['publishing the search']:.1f}")
            for name, row in results.items()
        ],
    )
    print(f"at delta {s.delta:g}; errors are of test records, which no training protects: these must be public.")
    print(
        "All errors chose the front: what a front alone composes to is no guarantee. The last column holds for settings"
    )
    print(
        "fixed beforehand; for a search, whose settings depend on the errors, at an order fixed beforehand: it is more."
    )
    out.finish(figure, seeds=points.seeds_of(s), tasks=results)

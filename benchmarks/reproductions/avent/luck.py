"""Table 2's search from several seeds, each with its own first design, proposals and trainings: by the gain of the
hypervolume as the paper's equation 6 computes it, and as the paper's code does.
"""

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import fronts, points, searches, tasks


def luck(seeds: range | None = None, quick: bool = False) -> None:
    _searches("luck", "Table 2's search from several seeds: hypervolumes", seeds, quick)


def transformed_luck(seeds: range | None = None, quick: bool = False) -> None:
    title = "Table 2's search by the gain in the logarithm of epsilon and the logit of the error: hypervolumes"
    _searches("transformed", title, seeds, quick)


def _searches(item: str, title: str, seeds: range | None, quick: bool) -> None:
    out = fronts.report_of(item, title, quick, seeds=seeds)
    s = out.settings
    count = len(seeds) if seeds else s.searches
    by_case = {
        f"{name}, {which}": [
            searches.hypervolume(points.search_points(s, name, which, number).values, s.reference)
            for number in range(count)
        ]
        for which in tasks.ACCOUNTANTS
        for name in s.tasks
    }
    report.print_table(
        ("task, accountant", "hypervolumes", "mean", "deviation"),
        [
            (name, ", ".join(f"{volume:.3f}" for volume in volumes), f"{np.mean(volumes):.3f}",
             f"{np.std(volumes, ddof=1):.3f}" if len(volumes) > 1 else "-")
            for name, volumes in by_case.items()
        ],
        flush=(0, 1),
    )  # fmt: skip
    out.finish(
        _picture(by_case),
        seeds=[points.seed_of(s, points.SEARCH, number) for number in range(count)],
        hypervolumes=by_case,
    )


def _picture(by_case):
    figure, (axis,) = common.panels(1)
    for place, volumes in enumerate(by_case.values()):
        axis.plot(np.full(len(volumes), place), volumes, "o", color="C0")
    axis.set_xticks(range(len(by_case)), list(by_case), rotation=20, ha="right")
    axis.set_ylabel("hypervolume")
    return figure


ITEMS = {"luck": luck, "transformed": transformed_luck}

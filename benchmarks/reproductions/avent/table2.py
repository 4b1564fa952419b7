"""Table 2: by how much DPareto's hypervolume exceeds that of as many random settings, over parts of one pool."""

import numpy as np
from scipy import stats

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import fronts, points, searches, tasks


def main(seeds: range | None = None, quick: bool = False, full: bool = False) -> None:
    out = fronts.report_of("table2", "Table 2: hypervolume over random settings", quick, full, seeds)
    s = out.settings
    results = {f"{name}, {which}": compare_task(s, name, which) for which in tasks.ACCOUNTANTS for name in s.tasks}
    report.print_table(
        ("task, accountant", "DPareto", "random, mean", "difference (95 %)", "p", "parts", "printed"),
        [
            (name, f"{row['search']:.3f}", f"{np.mean(row['random']):.3f}", interval_of(row["difference"], row["95%"]),
             f"{row['p']:.1e}", len(row["random"]), interval_of(*row["printed"]) if row["printed"] else "")
            for name, row in results.items()
        ],
    )  # fmt: skip
    note = f"a part has the search's {s.seeds + s.proposals} settings; the paper's parts have 256"
    out.finish(picture(results), tasks=results, seeds=points.seeds_of(s), notes=[note])


def interval_of(mean: float, interval) -> str:
    return f"{mean:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def compare_task(s, name: str, accountant: str) -> dict:
    """Both hypervolumes; each part of the pool has the search's number of settings, its own seeds included."""
    pool, search = points.pool(s, name, accountant), points.search_points(s, name, accountant)
    parts = fronts.parts_of(s, pool.values)
    volume = searches.hypervolume(search.values, s.reference)
    random = [searches.hypervolume(part, s.reference) for part in parts]
    differences = volume - np.array(random)
    test = stats.ttest_1samp(differences, 0.0)
    interval = test.confidence_interval(0.95)
    return {
        "printed": s.differences.get(name) if accountant == "the paper's" else None,
        "search": volume,
        "random": random,
        "difference": float(differences.mean()),
        "95%": [float(interval.low), float(interval.high)],
        "p": float(test.pvalue),
        "failed": {
            "search": int(np.sum(~np.isfinite(search.values[:, 0]))),
            "pool": int(np.sum(~np.isfinite(pool.values[:, 0]))),
        },
    }


def picture(results):
    figure, (axis,) = common.panels(1)
    for place, row in enumerate(results.values()):
        axis.plot(
            np.full(len(row["random"]), place), row["random"], "o", color="0.6", label="random" if not place else None
        )
        axis.plot(place, row["search"], "D", color="C0", label="DPareto" if not place else None)
    axis.set_xticks(range(len(results)), list(results))
    axis.set_ylabel("hypervolume")
    return figure

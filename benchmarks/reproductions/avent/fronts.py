"""Figures 5 to 8: how fronts grow, what grids find, how much a front varies, and the fronts of several algorithms."""

import time

import numpy as np

from benchmarks import report
from benchmarks.papers import classification
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import points, searches, settings, tasks
from jaxdpbo.training import spaces


def growth(seeds: range | None = None, quick: bool = False) -> None:
    """Figure 5."""
    out = report_of("fig5", "Fig. 5: hypervolume by number of settings, and two fronts", quick, seeds=seeds)
    s = out.settings
    size = s.seeds + s.proposals
    figure, axes = common.panels(2, 2)
    curves = {}
    for number, name in enumerate(s.tasks):
        search, parts = points.search_points(s, name).values, parts_of(s, points.pool(s, name).values)
        random = np.stack([searches.hypervolumes(part, s.reference) for part in parts])
        curves[name] = {
            "DPareto": searches.hypervolumes(search, s.reference),
            "random, mean": random.mean(axis=0),
            "random, last": random[:, -1],
        }
        axis = axes[0, 1 if name in settings.MNIST else 0]
        axis.plot(curves[name]["DPareto"], color=f"C{number}", label=name)
        axis.plot(curves[name]["random, mean"], "--", color=f"C{number}")
    for axis in axes[0]:
        axis.set(xlabel="settings", ylabel="hypervolume")
    front_search, drawn = points.search_points(s, s.front).values, parts_of(s, points.pool(s, s.front).values)[0]
    for values, label, colour in ((drawn, "random", "0.5"), (front_search, "DPareto", "C0")):
        front_line(axes[1, 0], values, colour, label)
    axes[1, 0].plot(*front_search[: s.seeds].T, "k.", label="its seeds")
    axes[1, 0].set(title=s.front, **LIMITS)
    cloud, cloud_search = points.pool(s, s.cloud).values[: s.more], points.search_points(s, s.cloud).values
    axes[1, 1].plot(*cloud.T, ".", color="0.7", markersize=2, label=f"{len(cloud)} random")
    axes[1, 1].plot(*cloud_search.T, ".", color="C0", markersize=2, label=f"DPareto, {len(cloud_search)}")
    front_line(axes[1, 1], cloud, "0.4", None)
    front_line(axes[1, 1], cloud_search, "C0", None)
    axes[1, 1].set(title=s.cloud, **LIMITS)
    within = {
        name: {
            "DPareto": share_near_front(points.search_points(s, name).values),
            "random": share_near_front(points.pool(s, name).values),
        }
        for name in s.tasks
    }  # fmt: skip
    report.print_table(
        ("task", "settings", "DPareto", "random, mean", "random settings for as much", "near the front"),
        [
            (name, size, f"{task_curves['DPareto'][-1]:.3f}", f"{task_curves['random, mean'][-1]:.3f}",
             needed_count(points.pool(s, name).values, task_curves["DPareto"][-1], s.reference),
             f"{within[name]['DPareto']:.0%}, random {within[name]['random']:.0%}")
            for name, task_curves in curves.items()
        ],
    )  # fmt: skip
    least = {}
    for name in s.tasks:
        random = [least_errors(part) for part in parts_of(s, points.pool(s, name).values)]
        least[f"{name}, DPareto"] = least_errors(points.search_points(s, name).values)
        least[f"{name}, random"] = {
            epsilon: float(np.mean([errors[epsilon] for errors in random])) for epsilon in WITHIN
        }
    print()
    print_least_errors(least)
    figure.tight_layout()
    out.finish(figure, seeds=points.seeds_of(s), hypervolumes=curves, near_the_front=within, least_error=least)


def grids(seeds: range | None = None, quick: bool = False) -> None:
    """Figure 6."""
    out = report_of("fig6", "Fig. 6: grid search beside DPareto", quick, seeds=seeds)
    s = out.settings
    figure, axes = common.panels(1, len(s.tasks), sharey=True)
    volumes = {}
    for axis, name in zip(axes, s.tasks, strict=True):
        search = points.search_points(s, name).values
        volumes[name] = {f"DPareto, {len(search)} settings": searches.hypervolume(search, s.reference)}
        front_line(axis, search, "C0", f"DPareto, {len(search)}")
        for number, size in enumerate(s.sizes, start=1):
            grid = points.grid_points(s, name, size).values
            volumes[name][f"grid of {len(grid)}"] = searches.hypervolume(grid, s.reference)
            front_line(axis, grid, f"C{number}", f"grid of {len(grid)}")
        axis.set(title=name, **LIMITS)
    ways = list(next(iter(volumes.values())))
    report.print_table(
        ("task", *ways),
        [(name, *(f"{v:.3f}" for v in task_volumes.values())) for name, task_volumes in volumes.items()],
    )
    out.finish(figure, seeds=points.seeds_of(s), hypervolumes=volumes)


def variability(seeds: range | None = None, quick: bool = False) -> None:
    """Figure 7: the search's settings trained again, so that what is shown was not chosen for its luck."""
    out = report_of(
        "fig7", "Fig. 7: fronts by the mean, the best and the worst of several trainings", quick, seeds=seeds
    )
    s = out.settings
    figure, axes = common.panels(1, len(s.tasks), sharey=True)
    volumes, apart = {}, {}
    for axis, name in zip(axes, s.tasks, strict=True):
        search, new = points.search_points(s, name).values, points.retrain(s, name, s.trials)
        chosen = searches.front_of(search)
        volumes[name] = {
            "as searched": searches.hypervolume(search, s.reference),
            "its front again": searches.hypervolume(new["mean"][chosen], s.reference),
            **{which: searches.hypervolume(values, s.reference) for which, values in new.items()},
        }
        apart[name] = spread(new)
        for number, (which, values) in enumerate(new.items()):
            front_line(axis, values, f"C{number}", which)
        axis.set(title=name, **LIMITS)
    report.print_table(
        ("hypervolume", "as searched", "that front, trained again", "mean", "best", "worst"),
        [(name, *(f"{v:.3f}" for v in task_volumes.values())) for name, task_volumes in volumes.items()],
    )
    print()
    report.print_table(
        ("worst less best error, mean of settings", *SPREAD),
        [(name, *(f"{gaps[where]:.3f}" for where in SPREAD)) for name, gaps in apart.items()],
    )
    out.finish(figure, seeds=points.seeds_of(s), hypervolumes=volumes, spread=apart, trials=s.trials)


def algorithms(seeds: range | None = None, quick: bool = False) -> None:
    """Figure 8, and how long one training of the largest network takes."""
    out = report_of("fig8", "Fig. 8: fronts of several algorithms", quick, seeds=seeds)
    s = out.settings
    figure, axes = common.panels(1, 2, sharey=False)
    best = {}
    for number, name in enumerate(s.tasks):
        values = points.search_points(s, name).values
        front_line(axes[1 if name in settings.MNIST else 0], values, f"C{number}", name)
        best[name] = least_errors(values)
    for axis, title in zip(axes, ("Adult", "MNIST"), strict=True):
        axis.set(title=title, **LIMITS)
    print_least_errors(best)
    timed = one_training(s, s.timed)
    print(f"{s.timed}: {timed}")
    out.finish(figure, seeds=points.seeds_of(s), least_error=best, timed={s.timed: timed})


def print_least_errors(errors: dict[str, dict[float, float]]) -> None:
    report.print_table(
        ("least error within epsilon", *(f"{epsilon:g}" for epsilon in WITHIN)),
        [(name, *(f"{error:.3f}" for error in task_errors.values())) for name, task_errors in errors.items()],
    )


def least_errors(values: np.ndarray) -> dict[float, float]:
    """Within each of ``WITHIN``; 1 where no setting is."""
    return {epsilon: float(np.min(values[values[:, 0] <= epsilon, 1], initial=1.0)) for epsilon in WITHIN}


def one_training(s, name: str) -> dict:
    """Of the middle of the paper's ranges: seconds with and without compilation."""
    task = points.task_of(s, name)
    setting = spaces.random_settings(task.space, 64, points.SEEDS[points.POOL])
    setting = np.median(setting, axis=0)[None]
    named = dict(zip(spaces.HYPER_PARAMETERS, setting[0].tolist(), strict=True))
    seconds = []
    for seed in (0, 1):
        start = time.perf_counter()
        error = tasks.errors(task, setting, 1, seed).mean[0]
        seconds.append(time.perf_counter() - start)
    epsilon = tasks.epsilons(task, setting)[0]
    return {"setting": named, "seconds": seconds[1], "with compilation": seconds[0], "epsilon": epsilon, "error": error}


def spread(errors: dict[str, np.ndarray]) -> dict[str, float]:
    """How far the worst training of ``retrain`` is from the best, mean over settings; 0 where there are none."""
    epsilons, apart = errors["mean"][:, 0], errors["worst"][:, 1] - errors["best"][:, 1]
    within = {where: apart[(low < epsilons) & (epsilons <= high)] for where, (low, high) in SPREAD.items()}
    return {where: float(gaps.mean()) if len(gaps) else 0.0 for where, gaps in within.items()}


def parts_of(s, values: np.ndarray) -> list[np.ndarray]:
    """Disjoint parts of a pool, each as large as a search."""
    size = s.seeds + s.proposals
    count = min(s.parts, len(values) // size)
    return [values[number * size : (number + 1) * size] for number in range(count)]


def needed_count(values: np.ndarray, volume: float, reference) -> str:
    """How many random settings had as large a hypervolume."""
    reached = searches.hypervolumes(values, reference) >= volume
    return str(int(np.argmax(reached)) + 1) if reached.any() else f"more than {len(values)}"


def share_near_front(values: np.ndarray, margin: float = 0.02) -> float:
    """The share of settings whose error is within ``margin`` of the least at their epsilon or less."""
    values = values[np.all(np.isfinite(values), axis=1)]
    values = values[np.argsort(values[:, 0])]
    return float(np.mean(values[:, 1] <= np.minimum.accumulate(values[:, 1]) + margin))


SPREAD = {"epsilon up to 0.1": (0.0, 0.1), "epsilon of 1 to 10": (1.0, 10.0)}
WITHIN = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
LIMITS = {"xscale": "log", "xlim": (1e-2, 10), "xlabel": "epsilon", "ylabel": "error"}


def front_line(axis, values, colour, label):
    front = values[searches.front_of(values)]
    front = front[np.argsort(front[:, 0])]
    axis.step(*front.T, where="post", color=colour, label=label, linewidth=1)


def report_of(item: str, title: str, quick: bool, full: bool = False, seeds: range | None = None) -> common.Report:
    """Says what the tasks' records are. ``settings.first`` is the number of the first search; most items have one."""
    names = common.settings_of(settings, item, quick, full).tasks
    sources = {classification.load(tasks.TASKS[name][0]).source for name in names}
    out = common.Report(settings, item, title, quick, "; ".join(sorted(sources)), full, seeds)
    out.settings.first = seeds.start if seeds else 0
    return out


ITEMS = {"fig5": growth, "fig6": grids, "fig7": variability, "fig8": algorithms}

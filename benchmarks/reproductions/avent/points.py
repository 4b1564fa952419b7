"""What was measured for a task, kept between items: random settings, grids, the search's own, and these again."""

import hashlib
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks import report
from benchmarks.reproductions import common
from benchmarks.reproductions.avent import searches
from jaxdpbo.training import spaces

SEARCH_SEED, POOL_SEED, GRID_SEED, AGAIN_SEED = 1, 2, 3, 4
SEEDS = {"search": SEARCH_SEED, "pool": POOL_SEED, "grid": GRID_SEED, "again": AGAIN_SEED}


class Points(NamedTuple):
    """``settings (k, d)`` and ``values (k, 2)``, epsilon and error, in the order they were measured."""

    settings: np.ndarray
    values: np.ndarray


def task_of(s: SimpleNamespace, name: str) -> searches.Task:
    """A task under an item's settings: fewer epochs and records where they say so."""
    return searches.task(name, s.delta, **s.limits.get(name, {}))


def pool(s: SimpleNamespace, name: str, accountant: str = "ours") -> Points:
    """Random settings, measured."""
    task, count = task_of(s, name), s.pools.get(name, s.pool)
    if accountant != task.accountant:
        return kept(
            lambda: under(task, pool(s, name), accountant), "pool", name, [count, accountant, *_of_training(s, name)]
        )

    def found():
        settings = spaces.random_settings(task.space, count, POOL_SEED)
        return settings, searches.measured(task, settings, s.repeats, POOL_SEED, f"{name}, {count} random settings")

    return kept(found, "pool", name, [count, *_of_training(s, name)])


def gridded(s: SimpleNamespace, name: str, size: int) -> Points:
    """The grid of ``size`` values of each hyper-parameter, measured."""
    task = task_of(s, name)

    def found():
        settings = spaces.grid_settings(task.space, size)
        return settings, searches.measured(task, settings, s.repeats, GRID_SEED, f"{name}, grid of {len(settings)}")

    return kept(found, "grid", name, [size, *_of_training(s, name)])


def searched(s: SimpleNamespace, name: str, accountant: str = "ours") -> Points:
    """DPareto's settings, its seeds first: random ones that no part of the pool has."""
    task = task_of(s, name)._replace(accountant=accountant)

    def found():
        seeds = spaces.random_settings(task.space, s.seeds, SEARCH_SEED)
        reference = (s.reference[0], min(s.reference[1], 0.999))
        run = searches.search(task, seeds, s.proposals, s.repeats, reference, SEARCH_SEED)
        return np.asarray(run.release.points), np.asarray(run.release.values)

    return kept(found, "search", name, [s.seeds, s.proposals, s.reference, accountant, *_of_training(s, name)])


def under(task: searches.Task, points: Points, accountant: str) -> Points:
    """The same settings with the same errors, and the epsilons of another accountant."""
    epsilons = searches.epsilons(task._replace(accountant=accountant), points.settings)
    return Points(points.settings, np.stack([epsilons, points.values[:, 1]], axis=1))


def again(s: SimpleNamespace, name: str, trials: int) -> dict[str, np.ndarray]:
    """Values ``(k, 2)`` of the search's settings by the mean, the best and the worst of ``trials`` new trainings."""
    task, search = task_of(s, name), searched(s, name)

    def found():
        errors = searches.errors(task, search.settings, trials, AGAIN_SEED, f"{name}, {trials} times each")
        return search.settings, np.stack([errors.mean, errors.best, errors.worst], axis=1)

    errors = kept(found, "again", name, [trials, s.seeds, s.proposals, s.reference, *_of_training(s, name)]).values
    return {
        which: np.stack([search.values[:, 0], errors[:, number]], axis=1)
        for number, which in enumerate(("mean", "best", "worst"))
    }


def kept(found: Callable[[], tuple[np.ndarray, np.ndarray]], kind: str, name: str, asked: Any) -> Points:
    """From results/avent/points, or measured and put there."""
    digest = hashlib.sha256(json.dumps(common.plain(asked), sort_keys=True).encode()).hexdigest()[:12]
    path = report.folder("avent", "points") / f"{name}-{kind}-{digest}.npz".replace(" ", "_")
    if path.exists():
        with np.load(path) as kept:
            return Points(kept["settings"], kept["values"])
    settings, values = found()
    np.savez(path, settings=settings, values=values)
    return Points(settings, values)


def _of_training(s: SimpleNamespace, name: str) -> list[Any]:
    return [s.repeats, s.delta, s.limits.get(name, {})]

"""Measured settings of a task: random settings, grids, the settings of a search, and new trainings of these.

Files in results/avent/points keep them for other items of the same commit. Random settings, grids and new trainings
take long: a run that was stopped goes on.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from benchmarks import report
from benchmarks.reproductions.avent import searches, tasks
from jaxdpbo.training import spaces

SEARCH, POOL, GRID, AGAIN = "search", "pool", "grid", "again"
SEEDS = {SEARCH: 1, POOL: 2, GRID: 3, AGAIN: 4}  # of search 0, its pool, its grids, and its new trainings
APART = 10  # between the seeds of one search and of the next


class Points(NamedTuple):
    """``settings (k, d)`` and ``values (k, 2)``, epsilon and error, in the order they were measured."""

    settings: np.ndarray
    values: np.ndarray


def seed_of(s: SimpleNamespace, kind: str, number: int = 0) -> int:
    """The seed of ``kind`` for search ``s.first + number``."""
    return SEEDS[kind] + APART * (s.first + number)


def seeds_of(s: SimpleNamespace) -> dict[str, int]:
    """The seeds of an item with one search, for its result."""
    return {kind: seed_of(s, kind) for kind in SEEDS}


def task_of(s: SimpleNamespace, name: str) -> tasks.Task:
    """A task under an item's settings: fewer epochs and records where they say so."""
    return tasks.task(name, s.delta, **s.limits.get(name, {}))


def pool(s: SimpleNamespace, name: str, accountant: str = "ours") -> Points:
    """Random settings, measured."""
    task, count = task_of(s, name), s.pools.get(name, s.pool)
    seed = seed_of(s, POOL)
    settings = spaces.random_settings(task.space, count, seed)

    def measure(done):
        label = f"{name}, {count} random settings"
        return settings, tasks.measure_settings(task, settings, s.repeats, seed, label, done)

    points = load_or_measure(measure, POOL, name, [seed, count, *_training_settings(s, name)])
    return points if accountant == task.accountant else replace_accountant(task, points, accountant)


def grid_points(s: SimpleNamespace, name: str, size: int) -> Points:
    """The grid of ``size`` values of each hyper-parameter, measured."""
    task, seed = task_of(s, name), seed_of(s, GRID)
    settings = spaces.grid_settings(task.space, size)

    def measure(done):
        label = f"{name}, grid of {len(settings)}"
        return settings, tasks.measure_settings(task, settings, s.repeats, seed, label, done)

    return load_or_measure(measure, GRID, name, [seed, size, *_training_settings(s, name)])


def search_points(s: SimpleNamespace, name: str, accountant: str = "ours", number: int = 0) -> Points:
    """DPareto's settings. The first are its random design, which shares no setting with the pool."""
    task, seed = task_of(s, name)._replace(accountant=accountant), seed_of(s, SEARCH, number)

    def measure(_):
        seeds = spaces.random_settings(task.space, s.seeds, seed)
        reference = (s.reference[0], min(s.reference[1], 0.999))
        run = searches.search(task, seeds, s.proposals, s.repeats, reference, seed, acquisition=s.acquisition)
        return np.asarray(run.release.points), np.asarray(run.release.values)

    asked = [seed, s.seeds, s.proposals, s.reference, s.acquisition, accountant, *_training_settings(s, name)]
    return load_or_measure(measure, SEARCH, name, asked)


def replace_accountant(task: tasks.Task, points: Points, accountant: str) -> Points:
    """The same settings with the same errors, and the epsilons of another accountant."""
    epsilons = tasks.epsilons(task._replace(accountant=accountant), points.settings)
    return Points(points.settings, np.stack([epsilons, points.values[:, 1]], axis=1))


def retrain(s: SimpleNamespace, name: str, trials: int) -> dict[str, np.ndarray]:
    """Values ``(k, 2)`` of the search's settings by the mean, the best and the worst of ``trials`` new trainings."""
    task, search, seed = task_of(s, name), search_points(s, name), seed_of(s, AGAIN)

    def measure(done):
        errors = tasks.errors(task, search.settings, trials, seed, f"{name}, {trials} times each", done)
        return search.settings, np.stack([errors.mean, errors.best, errors.worst], axis=1)

    asked = [seed, trials, s.seeds, s.proposals, s.reference, *_training_settings(s, name)]
    errors = load_or_measure(measure, AGAIN, name, asked).values
    return {
        which: np.stack([search.values[:, 0], errors[:, number]], axis=1)
        for number, which in enumerate(("mean", "best", "worst"))
    }


def load_or_measure(
    measure: Callable[[Path], tuple[np.ndarray, np.ndarray]], kind: str, name: str, asked: Any
) -> Points:
    """From results/avent/points, or measured by ``measure``, which may keep what is done in a file, and put there."""
    digest = hashlib.sha256(
        json.dumps([report.json_value(asked), report.REVISION], sort_keys=True).encode()
    ).hexdigest()[:12]
    path = report.folder("avent", "points") / f"{name}-{kind}-{digest}.npz".replace(" ", "_")
    if path.exists():
        with np.load(path) as stored:
            return Points(stored["settings"], stored["values"])
    done = path.with_suffix(".npy")
    settings, values = measure(done)
    whole = path.with_name(f"{os.getpid()}-{path.name}")
    np.savez(whole, settings=settings, values=values)
    whole.replace(path)  # another item may read while this one writes
    done.unlink(missing_ok=True)
    return Points(settings, values)


def _training_settings(s: SimpleNamespace, name: str) -> list[Any]:
    return [s.repeats, s.delta, s.limits.get(name, {})]

"""What was measured for a task, kept between items: the pool of random settings and the search's own."""

import hashlib
import json
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from benchmarks import report
from benchmarks.avent import searches
from jaxdpbo.training import spaces

SEARCH_SEED, POOL_SEED = 1, 2


class Points(NamedTuple):
    """``settings (k, 5)`` and ``values (k, 2)``, in the order they were measured."""

    settings: np.ndarray
    values: np.ndarray


def task_of(s: SimpleNamespace, name: str) -> searches.Task:
    """A task under an item's settings: fewer epochs and records where they say so."""
    shrunk = s.limits.get(name, {})
    return searches.task(name, s.delta, **shrunk)


def pool(s: SimpleNamespace, name: str, count: int) -> Points:
    """Random settings, measured."""
    task = task_of(s, name)

    def found():
        settings = spaces.random_settings(task.space, count, POOL_SEED)
        return settings, searches.measured(task, settings, s.repeats, POOL_SEED, f"{name}, {count} random settings")

    return _kept(found, "pool", name, count, s)


def searched(s: SimpleNamespace, name: str) -> Points:
    """DPareto's settings, its seeds first: random ones that no part of the pool has."""
    task = task_of(s, name)

    def found():
        seeds = spaces.random_settings(task.space, s.seeds, SEARCH_SEED)
        reference = (s.reference[0], min(s.reference[1], 0.999))
        run = searches.search(task, seeds, s.proposals, s.repeats, reference, SEARCH_SEED)
        return np.asarray(run.release.points), np.asarray(run.release.values)

    return _kept(found, "search", name, s.proposals, s)


def _kept(found, kind, name, count, s):
    """From results/avent/points, or measured and put there."""
    asked = [kind, name, count, s.seeds, s.repeats, s.delta, list(s.reference), s.limits.get(name, {})]
    digest = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:12]
    path = report.folder("avent", "points") / f"{name}-{kind}-{digest}.npz"
    if path.exists():
        with np.load(path) as kept:
            return Points(kept["settings"], kept["values"])
    settings, values = found()
    np.savez(path, settings=settings, values=values)
    return Points(settings, values)

"""The tasks of the paper and their two oracles, asked for many settings."""

from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from benchmarks.papers import classification
from jaxdpbo import accounting, drivers
from jaxdpbo.accounting import renyi
from jaxdpbo.training import dp_optim, models, objectives, oracles, spaces

TASKS = {  # data, model, optimiser
    "LogReg+SGD": ("adult", "logistic_regression", "sgd"),
    "LogReg+Adam": ("adult", "logistic_regression", "adam"),
    "SVM+SGD": ("adult", "linear_svm", "sgd"),
    "MLP1+SGD": ("mnist", (1000,), "sgd"),
    "MLP2+SGD": ("mnist", (128, 64), "sgd"),
}
CALL = 32  # trainings in a call: the bar moves after each


class Task(NamedTuple):
    """An algorithm on its records.

    Attributes:
      name: of ``TASKS``.
      space: what is searched.
      model: static.
      optimizer: static.
      records: features in float32, to train and to test on.
      source: of the records.
      delta: of every epsilon.
      accountant: of ``ACCOUNTANTS``.
    """

    name: str
    space: spaces.Ranges
    model: models.Model
    optimizer: str
    records: Any
    source: str
    delta: float
    accountant: str = "ours"

    @property
    def count(self) -> int:
        """``n``."""
        return len(self.records[0].labels)

    @property
    def largest_batch(self) -> int:
        """The largest batch."""
        return min(int(self.space.bounds[1, 1]), self.count)


def task(name: str, delta: float, *, epochs: int | None = None, records: int | None = None) -> Task:
    """A task; with fewer ``epochs`` at most, and of at most so many training ``records``, where given."""
    data, kind, optimizer = TASKS[name]
    loaded = classification.load(data)
    features = loaded.train[0].shape[1]
    model = models.mlp(features, kind, loaded.classes) if isinstance(kind, tuple) else getattr(models, kind)(features)
    space = spaces.SPACES[data]
    bounds, sampled = space.bounds.copy(), space.sampled.copy()
    train = tuple(part[:records] for part in loaded.train)
    for box in (bounds, sampled):
        box[1, 0] = min(box[1, 0], epochs or np.inf)
        box[1, 1] = min(box[1, 1], len(train[1]))
    parts = tuple((jnp.asarray(x, jnp.float32), jnp.asarray(y)) for x, y in (train, loaded.test))
    records = models.examples(*parts[0]), parts[1]
    return Task(name, space._replace(bounds=bounds, sampled=sampled), model, optimizer, records, loaded.source, delta)


def settings_of(task: Task, settings: np.ndarray) -> dp_optim.Settings:
    """Rows ``(k, 5)`` of ``spaces``, stacked: epochs become steps."""
    return _rows(jnp.asarray(settings), records=task.count, largest=task.largest_batch)


@partial(jax.jit, static_argnames=("records", "largest"))
def _rows(settings, records, largest):
    return jax.vmap(partial(objectives.to_settings, records=records, largest=largest))(settings)


def errors(
    task: Task, settings: np.ndarray, repeats: int, seed: int, label: str | None = None, done: Path | None = None
) -> oracles.Errors:
    """Of each of ``settings (k, 5)``: mean, best and worst ``(k,)`` of so many trainings.

    Where it is stopped and called again with the same file ``done``, it goes on from the last call.
    """
    keys = jax.random.split(jax.random.key(seed), (len(settings), repeats))
    rows = settings_of(task, settings)
    order = np.argsort(np.asarray(rows.steps, float) * np.asarray(rows.batch))  # calls of alike length
    results = np.load(done) if done and done.exists() else np.empty((3, 0))
    starts = range(results.shape[1], len(settings), CALL)
    for start in tqdm(starts, desc=label or task.name, unit="call", disable=label is None):
        block = order[start : start + CALL]
        inputs = keys[block], jax.tree.map(lambda leaf, block=block: leaf[block], rows)
        run = training_function(task.model, task.optimizer, task.largest_batch)
        results = np.concatenate([results, np.stack(drivers.distribute(run, inputs, task.records))], axis=1)
        if done:
            _replace(done, results)
    return oracles.Errors(*results[:, np.argsort(order)])


def _replace(path: Path, results: np.ndarray) -> None:
    """All at once: a run may be stopped here too."""
    new = path.with_suffix(".new.npy")
    np.save(new, results)
    new.replace(path)


@cache
def training_function(model: models.Model, optimizer: str, largest: int):
    """One function for each, so that a search compiles it once."""

    def run(inputs, records):
        keys, settings = inputs
        return oracles.training_errors(keys, model, *records, settings, largest=largest, optimizer=optimizer)

    return run


def epsilons(task: Task, settings: np.ndarray) -> np.ndarray:
    """Of each setting, by its task's accountant."""
    rows = jax.tree.map(np.asarray, settings_of(task, settings))
    if task.accountant == "ours":
        numbers = {"noise_multipliers": rows.noise_multiplier, "steps": rows.steps}
        return accounting.sampled_gaussian_epsilons(rates=rows.batch / task.count, **numbers, delta=task.delta)
    accountant = ACCOUNTANTS[task.accountant]
    settings_rows = (jax.tree.map(lambda leaf, i=i: leaf[i], rows) for i in range(len(settings)))
    return np.array([accountant(row, records=task.count, delta=task.delta).epsilon for row in settings_rows])


def trainings_of(task: Task, settings: np.ndarray) -> list[tuple[float, float, int]]:
    """Rate, noise multiplier and steps of each setting."""
    return [
        (round(batch) / task.count, multiplier, dp_optim.steps_of_epochs(round(epochs), task.count, round(batch)))
        for epochs, batch, _, multiplier, _ in settings.tolist()
    ]


def published_bound(settings: dp_optim.Settings, *, records: int, delta: float) -> accounting.Bound:
    """The paper's accountant."""
    rate, multiplier = int(settings.batch) / records, float(settings.noise_multiplier)
    return accounting.Bound(renyi.published_epsilon(rate, multiplier, int(settings.steps), delta), "renyi")


ACCOUNTANTS = {"ours": oracles.training_epsilon, "the paper's": published_bound}


def measure_settings(
    task: Task, settings: np.ndarray, repeats: int, seed: int, label: str | None = None, done: Path | None = None
) -> np.ndarray:
    """Epsilon and mean error ``(k, 2)``; ``done`` as in ``errors``."""
    return np.stack([epsilons(task, settings), errors(task, settings, repeats, seed, label, done).mean], axis=1)

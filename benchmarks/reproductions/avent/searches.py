"""DPareto on a task, and what a front is worth."""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.reproductions.avent import tasks
from jaxdpbo import dpareto, drivers
from jaxdpbo.surrogate import pareto
from jaxdpbo.training import objectives, spaces


def search(
    task: tasks.Task,
    seeds: np.ndarray,
    proposals: int,
    repeats: int,
    reference: tuple[float, float],
    seed: int,
    *,
    acquisition: str = "hvpoi",
):
    """DPareto from these seeds: its run, diagnostics included."""
    config = dpareto.config(
        bounds=widen_bounds(task.space.bounds, seeds), initial_design=seeds, proposals=proposals, reference=reference,
        integer_mask=spaces.INTEGER_MASK, acquisition=acquisition,
    )  # fmt: skip
    count = iter(range(config.steps))
    measure = objectives.objective(
        task.model, delta=task.delta, largest=task.largest_batch, repeats=repeats, optimizer=task.optimizer,
        accountant=tasks.ACCOUNTANTS[task.accountant],
    )  # fmt: skip

    def objective(setting, data):
        # Keys by the step, not by the setting: those of the published results.
        return measure(setting, data, jax.random.split(jax.random.key(seed * 100_003 + next(count)), repeats))

    data = objectives.Data(*task.records, jax.random.key(seed))
    return drivers.run_loop(
        dpareto.algorithm,
        objective,
        data,
        config,
        key=jax.random.key(seed),
        progress=True,
        diagnostics=True,
    )


def widen_bounds(bounds: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """The box of the search, and the seeds in it: random settings have another range of learning rates."""
    return np.stack([np.minimum(bounds[0], seeds.min(axis=0)), np.maximum(bounds[1], seeds.max(axis=0))])


def hypervolume(values: np.ndarray, reference: tuple[float, float]) -> float:
    """Between the front of ``values (k, 2)`` and the reference; failed ones count for nothing."""
    return float(hypervolumes(values, reference)[-1])


def hypervolumes(values: np.ndarray, reference: tuple[float, float]) -> np.ndarray:
    """That of the first one, the first two, ...: ``(k,)``."""
    finite = np.all(np.isfinite(values), axis=1)
    return np.asarray(_volumes(jnp.where(finite[:, None], values, 0.0), finite, jnp.asarray(reference)))


@jax.jit
def _volumes(values, usable, reference):
    places = jnp.arange(len(values))
    return jax.lax.map(lambda last: pareto.hypervolume(values, usable & (places <= last), reference), places)


def front_of(values: np.ndarray) -> np.ndarray:
    """Which of ``values (k, 2)`` nothing dominates; failed ones are not."""
    finite = np.all(np.isfinite(values), axis=1)
    return np.asarray(_front(jnp.where(finite[:, None], values, 0.0), finite))


_front = jax.jit(pareto.is_non_dominated)

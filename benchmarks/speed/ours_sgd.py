"""Our side of ``scripts/bench dp_sgd``: the random settings of table 4, and every batch padded to the largest."""

import time
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import sgd_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import drivers
from jaxdpbo.training import dp_optim, models, spaces

MODEL = models.logistic_regression(problem.FEATURES)


@cache
def records():
    return models.examples(*map(jnp.asarray, problem.records()))


@cache
def make_training(smallest: int):
    """One function for each, so that a sweep compiles it once."""

    def run(inputs, records):
        keys, settings = inputs

        def train_repeat(key):
            params = dp_optim.train(
                key, MODEL, records, settings, largest=problem.LARGEST, smallest=smallest, noise="float"
            )
            return params[0].bias[0]

        return jax.vmap(train_repeat)(keys)

    return run


def sweep(settings: int, seed: int, most_epochs: int, padded: bool, policy: str | None = None) -> dict:
    """Seconds and useful examples of so many random settings, ten repeats of each; epochs shortened in proportion."""
    drawn = spaces.random_settings(spaces.SPACES["adult"], settings, seed)
    rows = []
    for epochs, batch, rate, multiplier, clip in drawn:
        steps = dp_optim.steps_of_epochs(max(1, round(epochs * most_epochs / 64)), problem.RECORDS, round(batch))
        rows.append(
            dp_optim.settings(
                steps=steps, batch=round(batch), learning_rate=rate, noise_multiplier=multiplier, clip_norm=clip
            )
        )
    keys = jax.random.split(jax.random.key(seed), (settings, problem.REPEATS))
    inputs = keys, jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows)
    shared, run = records(), make_training(problem.LARGEST if padded else dp_optim.MIN_CAPACITY)
    compiled = []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration" and duration > 0.5:
            compiled.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    biases = jax.block_until_ready(drivers.distribute(run, inputs, shared, policy=policy))
    seconds = time.perf_counter() - start
    jax.monitoring.unregister_event_duration_listener(listen)
    examples = problem.REPEATS * sum(int(row.steps) * int(row.batch) for row in rows)
    finite = bool(np.all(np.isfinite(np.asarray(biases))))
    return {"seconds": seconds, "examples": examples, "compilations": len(compiled), "finite": finite}


def train(batch: int, steps: int, seed: int, noise: str = "float", hidden: int = 0) -> dict:
    """Seconds of one training, and its accuracy on what it was trained on; ``hidden`` units on images, or none."""
    settings = dp_optim.settings(
        steps=steps, batch=batch, learning_rate=problem.LEARNING_RATE, noise_multiplier=problem.NOISE_MULTIPLIER,
        clip_norm=problem.CLIP_NORM,
    )  # fmt: skip
    model, shared = (models.mlp(problem.PIXELS, (hidden,), problem.CLASSES), images()) if hidden else (MODEL, records())
    key = jax.random.key(seed)
    start = time.perf_counter()
    params = jax.block_until_ready(_train(key, model, shared, settings, noise))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "accuracy": float(models.accuracy(params, shared.features, shared.labels))}


@cache
def images():
    return models.examples(*map(jnp.asarray, problem.images()))


@partial(jax.jit, static_argnames=("model", "noise"))
def _train(key, model, shared, settings, noise):
    return dp_optim.train(key, model, shared, settings, largest=problem.LARGEST, noise=noise)


if __name__ == "__main__":
    serve(sweep, train)

"""``scripts/bench problems``: the loss of one person, by ``per_user``, compared with one array program for all users.

Problems have the sizes of the experiments. Both forms alternate in one process; the time is of one evaluation, compiled
before.
"""

import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from benchmarks.papers import gp_regression, huber_regression, location, logistic_regression, splits
from benchmarks.speed import rows
from jaxdpbo import per_user
from jaxdpbo.separable import check_separable

USERS, TRAIN, FEATURES = 100_000, 2_000, 30


def cases(quick):
    """By name: the module, a point, data, and which axes count users."""
    users, key = USERS // (100 if quick else 1), jax.random.key(0)
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(TRAIN + users, FEATURES)), np.sign(rng.normal(size=TRAIN + users))
    inputs /= np.maximum(1.0, np.linalg.norm(inputs, axis=1, keepdims=True))
    classified = splits.Split(inputs[:TRAIN], labels[:TRAIN], inputs[TRAIN:], labels[TRAIN:])
    process, lengthscales = gp_regression.sample(key, *((450, 50) if quick else ()))
    return {
        f"location, n={users}": (location, jnp.zeros(5), location.sample(key, users), 0),
        f"huber_regression, n={users}": (huber_regression, jnp.zeros(4), huber_regression.sample(key, users), 0),
        f"logistic_regression, n={users}": (logistic_regression, jnp.zeros(1), classified, splits.OF_USERS),
        f"gp_regression, n={len(process.validation)}": (gp_regression, lengthscales, process, splits.OF_USERS),
    }


def main(quick: bool) -> None:
    """Measure, print and write."""
    jax.config.update("jax_enable_x64", True)
    results, rounds = [], 3 if quick else 21
    for name, (module, point, data, axes) in tqdm(cases(quick).items(), unit="problem"):
        data = jax.tree.map(jnp.asarray, data)
        sides = {"one person": per_user(module.loss_of_one, axes), "all": jax.jit(module.loss)}
        first, values = {}, {}
        for side, loss in sides.items():
            first[side], values[side] = time_call(loss, point, data)
        assert np.allclose(values["one person"], values["all"], rtol=1e-8)
        seen = {side: [] for side in sides}
        for _ in range(rounds):
            for side, loss in sides.items():
                seen[side].append(time_call(loss, point, data)[0])
        ours, others = (statistics.median(seen[side]) for side in sides)
        results.append(
            rows.row(
                name, ours, others, "one array program", ratio=ours / others, compile_s=first["one person"] - ours,
                check_s=check_seconds(module.loss, point, data, axes),
            )
        )  # fmt: skip
    rows.finish("problems", results, quick)


def time_call(loss, point, data):
    """Seconds, and the losses."""
    start = time.perf_counter()
    values = jax.block_until_ready(loss(point, data))
    return time.perf_counter() - start, values


def check_seconds(loss, point, data, axes):
    """Seconds that ``check_separable`` takes, the least of five; None where it does not follow the program."""
    best = None
    for _ in range(5):
        start = time.perf_counter()
        try:
            check_separable(loss, point, data, axes)
        except ValueError:
            return None
        taken = time.perf_counter() - start
        best = taken if best is None else min(best, taken)
    return best

"""What ``scripts/bench scaling`` times and compiles: one function an algorithm, of its sizes.

Each is given ``array(shape, dtype)``, which makes its large arrays: numbers for a run, or only their shapes, so that a
program can be compiled at a size that no memory here would hold.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.speed import ours_pareto
from jaxdpbo import dp_gibo, dp_gp_ucb, dpareto, drivers, kernels, po_gp_ucb, separable, transforms
from jaxdpbo.guarantee import guarantees
from jaxdpbo.noise import choice
from jaxdpbo.training import dp_optim, models

DIMENSION, COLUMNS, UNITS = 3, 10, 5  # of candidates, of a modeler's rows, of the settings of a front
STAND_IN = 64  # candidates, or rows, of the configuration that larger sets are put into
CLASSES, RIDGE_COLUMNS, SEEDS = 10, 10, 16

Array = Callable[..., Any]


class Program(NamedTuple):
    """A function and its arguments; ``function`` is compiled beforehand where it is of JAX."""

    function: Any
    arguments: tuple[Any, ...]


def numbers(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.Array:
    """Uniform in the unit cube; of integers zeros."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return jnp.zeros(shape, dtype)
    return jax.random.uniform(jax.random.key(1), shape, dtype)


def shapes(shape: tuple[int, ...], dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def gibo(
    array: Array, *, users: int, parameters: int, steps: int, seeds: int = 0, memory: str = "all", noise: str = "exact"
) -> Program:
    config = dp_gibo.config(
        users=users, steps=steps, mu=1.0, step_size=0.5, memory=memory, noise=noise, bounds=[(-3.0, 3.0)] * parameters
    )
    return _scan_program(dp_gibo.algorithm, location, config, array((parameters, users)), seeds)


def ucb(array: Array, *, candidates: int, steps: int, seeds: int = 0) -> Program:
    """The bounds on the information gain, of the configuration, are of ``STAND_IN`` candidates."""
    config = dp_gp_ucb.finite_config(
        steps=steps,
        epsilon=1.0,
        delta=1e-3,
        correlation=0.99,
        candidates=numbers((STAND_IN, DIMENSION)),
        noise_variance=1e-2,
        release="both",
        kernel_params=kernels.stationary_params(0.3, DIMENSION),
    )
    config = replace(config, candidates=array((candidates, DIMENSION)))
    return _scan_program(dp_gp_ucb.algorithm, wave, config, jnp.float32(6.0), seeds)


def outsourced(array: Array, *, rows: int, steps: int) -> Program:
    metadata = transforms.Metadata("random_projection", None, None, 1.0)
    statement = guarantees.no_guarantee(transforms.ROWS, transforms.PROJECTED)
    few = transforms.CuratedRows(numbers((STAND_IN, COLUMNS)), metadata, statement)
    config = po_gp_ucb.config(few, steps=steps, lengthscale=0.3, noise_variance=1e-2)
    config = replace(config, released=array((rows, COLUMNS)))
    return _scan_program(po_gp_ucb.algorithm, entry, config, array((rows,)))


def front(array: Array, *, proposals: int) -> Program:
    config = dpareto.config(
        bounds=[(0.0, 1.0)] * UNITS,
        initial_design=np.random.default_rng(0).uniform(size=(SEEDS, UNITS)),
        proposals=proposals,
    )
    return _scan_program(dpareto.algorithm, ours_pareto.oracle, config, array(()))


def training(
    array: Array, *, steps: int, batch: int, features: int, hidden: int, records: int, noise: str = "exact"
) -> Program:
    """A perceptron of one hidden layer, compiled for this batch alone."""
    model = models.mlp(features, (hidden,), CLASSES)
    examples = models.Examples(array((records, features)), array((records,), jnp.int32), array((records,)))
    settings = dp_optim.settings(steps=steps, batch=batch, learning_rate=0.1, noise_multiplier=1.0, clip_norm=1.0)

    def train(key, examples, settings):
        return dp_optim.train(key, model, examples, settings, largest=batch, smallest=batch, noise=noise)

    return Program(jax.jit(train), (jax.random.key(0), examples, settings))


def weights(features: int, hidden: int) -> int:
    """Parameters of ``training``'s model."""
    return (features + 1) * hidden + (hidden + 1) * CLASSES


def chosen(array: Array, *, candidates: int, users: int) -> Program:
    noise = choice.choice_noise(1.0, "exact", dtype=jnp.float32)
    return Program(jax.jit(choice.choose_row), (jax.random.key(0), noise, array((candidates, users)), jnp.float32(1.0)))


def blocks(array: Array, *, blocks: int, rows: int) -> Program:
    """One evaluation, in Python: a learner need not be traceable."""
    objective = separable.blocks(ridge, rows, blocks)
    return Program(objective, (np.array([1.0]), np.asarray(array((rows, RIDGE_COLUMNS + 1)))))


def location(point: jax.Array, records: jax.Array) -> jax.Array:
    """Of records ``(d, n)``, a coordinate at a time: XLA's CPU backend takes 25 times as long to sum over an axis."""
    squares = sum(jnp.square(records[number] - point[number]) for number in range(point.shape[0]))
    return jnp.sqrt(1 + squares) - 1


def wave(point: jax.Array, frequency: jax.Array) -> jax.Array:
    return jnp.mean(jnp.sin(frequency * point))


def entry(point: jax.Array, outputs: jax.Array) -> jax.Array:
    return outputs[jnp.asarray(point[0], int)]


def ridge(params: np.ndarray, train: np.ndarray, held_out: np.ndarray) -> float:
    """The last column is the output."""
    inputs, outputs = train[:, :-1], train[:, -1]
    fitted = np.linalg.solve(inputs.T @ inputs + params[0] * np.eye(inputs.shape[1]), inputs.T @ outputs)
    return np.mean(np.minimum(np.abs(held_out[:, -1] - held_out[:, :-1] @ fitted), 1.0))


def compile_program(program: Program) -> Any:
    """XLA's program; nothing is run."""
    return program.function.lower(*program.arguments).compile()


def allocated_bytes(program: Program) -> int:
    """Bytes that a run takes, by XLA: arguments, results and temporaries, what shares memory counted once."""
    stated = compile_program(program).memory_analysis()
    return (
        stated.argument_size_in_bytes
        + stated.output_size_in_bytes
        + stated.temp_size_in_bytes
        - stated.alias_size_in_bytes
    )


def largest_size(build: Callable[[int], Program], first: int, limit: float) -> tuple[int, int, str | None]:
    """The largest size, to two digits, whose program is allocated at most ``limit`` bytes, and how many it is.

    Secants between logarithms, each end compiled: the size that is returned was. Where the library refuses less than
    what fits, the largest that it does not refuse, and what it says.
    """
    sizes, seen = [first, 2 * first], {}
    for _ in range(7):
        for size in sizes:
            if refused := _refusal(build, size):
                last, reason = _bisect_sizes(build, max(seen, default=1), size, refused)
                return last, allocated_bytes(build(last)), reason
            if size not in seen:
                seen[size] = allocated_bytes(build(size))
        (a, low), (b, high) = ((size, seen[size]) for size in sizes)
        aimed = _two_digits(b * (limit / high) ** (math.log(b / a) / math.log(high / low)))
        if aimed in seen:
            break
        sizes = [b, aimed]
    return *max((size, stated) for size, stated in seen.items() if stated <= limit), None


def _refusal(build, size):
    try:
        build(size)
    except ValueError as error:
        return str(error)
    return ""


def _bisect_sizes(build, low, high, refused):
    """Between a size that is accepted and one that is not, by halves, to two digits; and the last refusal."""
    while (middle := _two_digits((low + high) / 2)) > low:
        if reason := _refusal(build, middle):
            high, refused = middle, reason
        else:
            low = middle
    return low, refused


def _two_digits(size: float) -> int:
    unit = 10 ** max(0, math.floor(math.log10(size)) - 1)
    return math.floor(size / unit) * unit


def _scan_program(algorithm, objective, config, data, seeds=0):
    """One run, the program of ``run_scan``; with ``seeds`` so many, one after the other, as ``sweep`` has them."""
    run = partial(drivers.pure_run, algorithm, objective)
    if not seeds:
        return Program(jax.jit(run), (data, config, jax.random.key(0)))

    def run_all(data, config, keys):
        return jax.lax.map(lambda key: run(data, config, key)[0], keys)

    return Program(jax.jit(run_all), (data, config, jax.random.split(jax.random.key(0), seeds)))

"""An algorithm under test: its parts, the steps of a run by the drivers' own pieces, and what a failure says."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.drivers import compiled_run, compiled_steps, result
from jaxdpbo.guarantee import guarantees
from jaxdpbo.types import Algorithm, Config, Data, Memory, Objective, Query, Tree


class Subject(NamedTuple):
    """What is checked; ``stated`` is the guarantee, ``points`` those of a query, ``shape`` of the values at a point."""

    algorithm: Algorithm
    config: Config
    objective: Objective
    data: Data
    stated: guarantees.Guarantee
    points: int
    shape: tuple[int, ...]

    @property
    def adds_users(self) -> bool:
        """Whether users add up in ``contribute``."""
        return self.algorithm.contribute is not None

    @property
    def users(self) -> int:
        """``n``, of an algorithm with ``contribute``."""
        return self.shape[-1]


class Seen(NamedTuple):
    """What leaves a run, by contract: the query, result of ``perturb`` and public state of each step; the release."""

    steps: list[tuple[Query, Any, Any]]
    release: Any


def fixed_key() -> jax.Array:
    """The key of all checks, which release nothing and give the same each time.

    A function: a process that is one of several may compute nothing before ``jax.distributed`` begins.
    """
    return jax.random.key(0)


def expect(holds: object, sentence: str) -> None:
    """Raise an AssertionError with the sentence, which says what to mend, unless something holds."""
    if not holds:
        raise AssertionError(sentence)


def evaluate(subject: Subject, query: Query) -> jax.Array:
    """The users' values at the points of a query."""
    return _evaluate(subject.objective, query.points, subject.data, subject.config.space)


_evaluate = jax.jit(compiled_run.map_points, static_argnums=(0, 3))


def first_snapshot(subject: Subject, key: jax.Array) -> tuple[result.Snapshot, jax.Array, jax.Array]:
    """Where a run begins, and the keys of its steps and of its release."""
    init_key, loop_key, release_key = compiled_steps.run_keys(key)
    return compiled_steps.begin(subject.algorithm, init_key, subject.config), loop_key, release_key


def take_step(
    subject: Subject, loop_key: jax.Array, number: int, before: result.Snapshot, values: Any = None
) -> tuple[result.Snapshot, Query, Any]:
    """A step at the objective's values or at given ones: where it ends, its query, and what it released."""
    algorithm, config = subject.algorithm, subject.config
    ask_key, tell_key = compiled_steps.step_keys(loop_key, number)
    query = compiled_steps.ask(algorithm, ask_key, config, before.state)
    values = evaluate(subject, query) if values is None else jnp.asarray(values)
    if not subject.adds_users:
        return compiled_steps.learn(algorithm, tell_key, config, before, query, values)[0], query, None
    released, query, memory, _ = compiled_steps.perturb_total(algorithm, tell_key, config, before.memory, query, values)
    return (
        result.Snapshot(compiled_steps.tell(algorithm, config, before.state, query, released), memory),
        query,
        released,
    )


def take_steps(subject: Subject, key: jax.Array, steps: int) -> result.Snapshot:
    """Where a run stands after so many steps; there may be more than it has."""
    snapshot, loop_key, _ = first_snapshot(subject, key)
    for number in range(steps):
        snapshot, _, _ = take_step(subject, loop_key, number, snapshot)
    return snapshot


def contribute(
    subject: Subject, query: Query, memory: Memory, values: Any, present: jax.Array | None = None
) -> tuple[Any, Any]:
    """The total of some users, and their memory."""
    return _contribute(subject.algorithm, subject.config, query, memory, values, present)


def perturb(subject: Subject, key: jax.Array, query: Query, whole: Any) -> Any:
    """What is released of a total of all users."""
    return _perturb(subject.algorithm, key, subject.config, query, whole)


_contribute = jax.jit(
    lambda algorithm, config, query, memory, values, present: algorithm.contribute(
        config, query, memory, values, present
    ),
    static_argnums=0,
)
_perturb = jax.jit(lambda algorithm, *given: algorithm.perturb(*given), static_argnums=0)


def whole_run(subject: Subject, key: jax.Array, values: list[np.ndarray] | None = None) -> Seen:
    """A run at the objective's values, or at given ones; of an algorithm without ``contribute`` its release alone."""
    snapshot, loop_key, release_key = first_snapshot(subject, key)
    seen = []
    for number in range(subject.config.steps):
        snapshot, query, released = take_step(
            subject, loop_key, number, snapshot, None if values is None else values[number]
        )
        if subject.adds_users:
            seen.append((query, released, snapshot.state.public))
    return Seen(seen, compiled_steps.release(subject.algorithm, release_key, subject.config, snapshot.state))


def to_numbers(tree: Tree) -> list[np.ndarray]:
    """The leaves on the host, keys as their words."""
    leaves = jax.tree.leaves(tree)
    keys = [isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    return [np.asarray(jax.random.key_data(leaf) if key else leaf) for leaf, key in zip(leaves, keys, strict=True)]


def are_equal(one: Tree, other: Tree) -> bool:
    """Whether all leaves are equal, NaN to NaN."""
    pairs = zip(to_numbers(one), to_numbers(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def are_close(one: Tree, other: Tree, tolerance: float) -> bool:
    """Whether all leaves are equal to rounding."""
    pairs = zip(to_numbers(one), to_numbers(other), strict=True)
    return all(a.shape == b.shape and np.allclose(a, b, tolerance, tolerance, equal_nan=True) for a, b in pairs)

"""What users add up to: in any groups, by no key, and reaching the public state through ``perturb`` alone."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval

from jaxdpbo.drivers import compiled_run, compiled_steps, result
from jaxdpbo.noise import totals
from jaxdpbo.separable import equations
from jaxdpbo.testing import subject as _subject
from jaxdpbo.testing.subject import Subject, expect
from jaxdpbo.types import Query, Tree

RANDOM = "random", "threefry"  # in the names of JAX's primitives that draw, or that take a key apart
FEW = 16  # of so many users each may be a group


def check_contribute(subject: Subject) -> None:
    """Check the first steps of a run: the sums over users, and all that a state follows from.

    Raises:
      AssertionError: what must be mended.
    """
    snapshot, loop_key, _ = _subject.first_snapshot(subject, _subject.fixed_key())
    for number in range(min(subject.config.steps, 3)):
        ask_key, _ = compiled_steps.step_keys(loop_key, number)
        query = compiled_steps.ask(subject.algorithm, ask_key, subject.config, snapshot.state)
        values = _subject.evaluate(subject, query)
        if number == 0:
            _check_traces(subject, snapshot, query, values)
        check_groups(subject, snapshot, query, values)
        snapshot, _, _ = _subject.take_step(subject, loop_key, number, snapshot)


def _check_traces(subject: Subject, snapshot: result.Snapshot, query: Query, values: jax.Array) -> None:
    algorithm, config, users = subject.algorithm, subject.config, subject.users
    given = query, snapshot.memory, values, jnp.ones(users, bool)
    functions: dict[str, Callable[..., Any] | None] = {"contribute": algorithm.contribute}
    functions |= {"survey": algorithm.survey} if query.survey is not None else {}
    for name, function in functions.items():
        assert function is not None
        drawn = draws_of(lambda *given, function=function: function(config, *given), *given)
        expect(not drawn, f"{name} must draw nothing, since noise is of all users' total: it calls {', '.join(drawn)}")
    found = reached(subject, snapshot, query, values)
    for source in "key", "memory", "values":
        expect(not found[source], f"tell must get {source} through the result of perturb alone: nothing may pass by it")
    expect(found["released"], "tell must put the result of perturb into the state: the budget would pay for nothing")
    wrong = jnp.zeros((*values.shape, 2), values.dtype)
    try:
        jax.eval_shape(lambda: compiled_run.contribute(algorithm, config, query, snapshot.memory, wrong))
    except ValueError:
        return
    raise AssertionError(f"contribute must refuse values of shape {wrong.shape}: call types.check_values")


def check_groups(subject: Subject, snapshot: result.Snapshot, query: Query, values: jax.Array) -> None:
    """Check that users add up in groups, a repeated sum is the same, and nobody adds nothing.

    Columns that stand for nobody hold NaN, in memory and values.
    """
    memory, users = snapshot.memory, subject.users
    everybody = jnp.ones(users, bool)
    whole, remembered = _subject.contribute(subject, query, memory, values, everybody)
    again, once_more = _subject.contribute(subject, query, remembered, values, everybody)
    expect(
        _subject.are_equal((again, once_more), (whole, remembered)),
        "contribute must give the same total and memory if a step is repeated from the memory that it left",
    )
    sizes = {(1, users - 1), (users // 2, users - users // 2), *([(1,) * users] if users <= FEW else [])}
    for group_sizes in sizes if users > 1 else ():
        found, kept = None, []
        for columns, present, count in _groups(users, group_sizes):
            own_memory, own = jax.tree.map(
                lambda leaf, at=columns, here=present: _pad(leaf[..., at], here), (memory, values)
            )
            total, left = _subject.contribute(subject, query, own_memory, own, present)
            found = total if found is None else totals.add(found, total)
            kept.append(jax.tree.map(lambda leaf, count=count: leaf[..., :count], left))
        expect(
            _add_up(found, whole),
            f"contribute must add up a part of each user that depends on that user alone: totals of groups of "
            f"{' and '.join(map(str, group_sizes[:2]))} users do not add up to the total of all",
        )
        joined = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=-1), *kept)
        expect(
            _subject.are_equal(joined, remembered),
            "contribute must keep in memory what depends on each user alone, with users on the last axis",
        )
    nobody, _ = _subject.contribute(subject, query, memory, values, ~everybody)
    expect(
        not any(np.any(leaf) for leaf in _subject.to_numbers(nobody.whole)),
        "contribute must add nothing for a column with present False",
    )


def _groups(users: int, sizes: tuple[int, ...]) -> Iterator[tuple[np.ndarray, jax.Array, int]]:
    """Groups padded to one size: the columns of each, which of them stand for somebody, and how many do."""
    start = 0
    for size in sizes:
        yield (start + np.arange(users)) % users, jnp.asarray(np.arange(users) < size), size
        start += size


def _pad(leaf: jax.Array, present: jax.Array) -> jax.Array:
    """Put NaN, or zero where there is none, at columns that stand for nobody."""
    nothing = jnp.nan if jnp.issubdtype(leaf.dtype, jnp.floating) else 0
    return jnp.where(present.reshape((1,) * (leaf.ndim - 1) + (-1,)), leaf, jnp.asarray(nothing, leaf.dtype))


def _add_up(found: Tree, whole: Tree) -> bool:
    """Whole numbers to the last unit; floats, of noise that is none or no exact one and of diagnostics, to rounding."""
    pairs = list(zip(_subject.to_numbers(found), _subject.to_numbers(whole), strict=True))
    digits = 1e-9 if jnp.result_type(float) == jnp.float64 else 1e-4
    return all(np.array_equal(a, b) if a.dtype.kind in "iub" else np.allclose(a, b, digits, digits) for a, b in pairs)


def reached(subject: Subject, snapshot: result.Snapshot, query: Query, values: jax.Array) -> dict[str, bool]:
    """Whether the state after a step is computed from the key, memory, values, and what was released.

    By the traced step, in which what ``perturb`` and ``refine`` return is an argument of its own.
    """
    whole = _subject.contribute(subject, query, snapshot.memory, values)[0].whole
    released = _subject.perturb(subject, _subject.fixed_key(), query, whole)

    algorithm = subject.algorithm

    def learn(key, state, memory, query, values, released, refined):
        stopped = algorithm._replace(
            perturb=lambda *_: released, refine=None if algorithm.refine is None else lambda *_: refined
        )
        before = result.Snapshot(state, memory)
        (after, _), info = compiled_run.learn(stopped, key, subject.config, before, query, values)
        return after, info

    arguments = _subject.fixed_key(), snapshot.state, snapshot.memory, query, values, released, query
    key, _, memory, _, of_values, of_released, _ = _used(learn, lambda out: out[0], *arguments)
    return {"key": key, "memory": memory, "values": of_values, "released": of_released}


def _used(function: Callable[..., Any], outputs_of: Callable[[Any], Any], *arguments: Any) -> list[bool]:
    """Whether the outputs that ``outputs_of`` picks are computed from each argument, by the traced program."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    picked = {id(leaf) for leaf in jax.tree.leaves(outputs_of(shape))}
    wanted = [id(leaf) in picked for leaf in jax.tree.leaves(shape)]
    _, needed = partial_eval.dce_jaxpr(closed.jaxpr, wanted)
    found, start = [], 0
    for argument in arguments:
        count = len(jax.tree.leaves(argument))
        found.append(any(needed[start : start + count]))
        start += count
    return found


def draws_of(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """The primitives of a traced program that draw random numbers, those of inner programs too."""
    names = set(equations.operations(jax.make_jaxpr(function)(*arguments)))
    return sorted(name for name in names if any(part in name for part in RANDOM))

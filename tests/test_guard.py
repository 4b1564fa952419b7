"""A loop of one's own releases nothing after the last step, nor under another budget than the first."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, DIMENSION, USERS, by_turns, compiled

from jaxdpbo import dp_gd, dp_gibo
from jaxdpbo.drivers import compiled_run, compiled_steps

PAYING = [name for name, case in CASES.items() if case.algorithm.contribute is not None and case.config(1.0).steps]
UNGUARDED = {"dp_gd": dp_gd._steps, "dp_gibo": dp_gibo.run._steps}
RECORDS = np.random.default_rng(0).normal(size=(USERS, DIMENSION))
values_at = jax.jit(compiled_run.map_points, static_argnums=(0, 3))


def one_step(algorithm, objective, config, before, t):
    """The public state after a step of a loop of one's own, what ``perturb`` gave it, and whether it was active."""
    algorithm = compiled(algorithm)
    ask_key, tell_key = jax.random.split(jax.random.fold_in(jax.random.key(1), t))
    query = compiled_steps.ask(algorithm, ask_key, config, before.state)
    values = values_at(objective, query.points, jnp.asarray(RECORDS), config.space)
    total, memory = algorithm.contribute(config, query, before.memory, values)
    released = algorithm.perturb(tell_key, config, query, total.whole)
    return before._replace(state=algorithm.tell(config, before.state, query, released), memory=memory), released, query


def zeros_alone(tree):
    leaves = [leaf for leaf in jax.tree.leaves(tree) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    return all(not np.any(np.asarray(leaf)) for leaf in leaves)


def at_the_end(case, algorithm):
    config = case.config(1.0)
    snapshot = compiled_steps.begin(algorithm, jax.random.key(0), config)
    for t in range(config.steps):
        snapshot, _, query = one_step(algorithm, case.objective, config, snapshot, t)
    return config, snapshot, query


def unchanged(before, after):
    return all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    )


SHORT = [name for name in PAYING if CASES[name].config(1.0).steps <= 6]


@pytest.mark.daily(*by_turns(2, names=SHORT))
@pytest.mark.parametrize("name", SHORT)
def test_nothing_moves_after_the_last_step_nor_under_other_noise(name):
    case = CASES[name]
    config, end, kept = at_the_end(case, case.algorithm)
    after, released, query = one_step(case.algorithm, case.objective, config, end, config.steps)
    assert not query.active
    assert zeros_alone(released)
    assert unchanged(end.state.public, after.state.public)
    assert unchanged(
        end.state.public, compiled(case.algorithm).tell(config, end.state, kept, released).public
    )  # an old query
    other = case.config(0.5)
    start = compiled_steps.begin(case.algorithm, jax.random.key(0), config)
    after, released, query = one_step(case.algorithm, case.objective, other, start, 0)
    assert not query.active
    assert zeros_alone(released)
    assert unchanged(start.state.public, after.state.public)


@pytest.mark.daily("dp_gd")
@pytest.mark.parametrize("name", UNGUARDED)
def test_without_the_guard_a_loop_goes_on(name):
    algorithm = UNGUARDED[name]
    asks = algorithm._replace(ask=lambda *arguments: algorithm.ask(*arguments)._replace(active=jnp.asarray(True)))
    config, end, _ = at_the_end(CASES[name], asks)
    after, released, _ = one_step(asks, CASES[name].objective, config, end, config.steps)
    assert not zeros_alone(released)
    assert not unchanged(end.state.public, after.state.public)

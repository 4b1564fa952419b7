"""What users add up to: in any groups, by no key, and reaching the public state through ``perturb`` alone."""

import functools

import contributions
import jax
import jax.numpy as jnp
import numpy as np
import protocol_cases
import pytest
import registration
from oracles import integers
from protocol_cases import CASES, USERS, by_turns, compiled, records

from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.drivers import compiled_run, compiled_steps
from jaxdpbo.testing import contribute_checks

ADDS = [name for name, case in CASES.items() if case.algorithm.contribute is not None]
KEY = jax.random.key(0)


@functools.cache
def begun(name, steps=1):
    """The case, compiled; its config, where it stands after some steps, its next query and the users' values there."""
    case = CASES[name]
    config = case.config(1.0)
    snapshot = compiled_steps.begin(case.algorithm, KEY, config)
    for t in range(steps + 1):
        query = compiled_steps.ask(case.algorithm, jax.random.fold_in(KEY, 2 * t), config, snapshot.state)
        values = jax.vmap(case.objective, in_axes=(0, None))(query.points, jnp.asarray(records()))
        if t == steps:
            return case._replace(algorithm=compiled(case.algorithm)), config, snapshot, query, values
        key = jax.random.fold_in(KEY, 2 * t + 1)
        snapshot, _ = compiled_steps.learn(case.algorithm, key, config, snapshot, query, values)


def leaking_values(algorithm, found):
    def contribute(config, query, memory, values, present=None):
        found.append(jnp.mean(values))
        return algorithm.contribute(config, query, memory, values, present)

    return algorithm._replace(contribute=contribute)


def leaking_memory(algorithm, found):
    def contribute(config, query, memory, values, present=None):
        found.append(jnp.mean(memory))
        return algorithm.contribute(config, query, memory, values, present)

    return algorithm._replace(contribute=contribute)


@pytest.mark.parametrize(("leaking", "what"), [(leaking_values, "values"), (leaking_memory, "memory")])
def test_a_planted_way_round_the_mechanism_is_seen(leaking, what):
    """A tracer kept in a list, by which ``tell`` reads what it is not given."""
    found, honest = [], CASES["dp_gibo"].algorithm

    def tell(config, state, query, released):
        after = honest.tell(config, state, query, released)
        return after._replace(public=after.public._replace(theta=after.public.theta + 0 * found[-1]))

    case, _, snapshot, query, values = begun("dp_gibo")
    leaky = leaking(honest, found)._replace(tell=tell)
    subject = protocol_cases.subject_of(case)._replace(algorithm=leaky)
    assert contribute_checks.reached(subject, snapshot, query, values)[what]


def test_a_planted_draw_among_users_is_seen():
    assert contribute_checks.draws_of(lambda values: values + jax.random.normal(KEY, values.shape), jnp.ones(3))


@functools.partial(jax.jit, static_argnums=0)
def contributed(algorithm, config, query, memory, values, present):
    return algorithm.contribute(config, query, memory, values, present)


@pytest.mark.daily(*by_turns(5, names=ADDS))
@pytest.mark.parametrize("name", ADDS)
def test_users_add_up_and_reach_the_state_through_what_is_released_alone(name):
    contribute_checks.check_contribute(protocol_cases.subject_of(CASES[name]))


def is_zero(tree):
    return all(
        not np.any(leaf) for leaf in jax.tree.leaves(tree) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    )


@pytest.mark.daily(*by_turns(2, names=ADDS))
@pytest.mark.parametrize("name", ADDS)
def test_a_step_that_is_not_left_releases_nothing(name):
    """After the last step users add nothing, and what is perturbed has no noise to tell apart: zeros."""
    case, config, snapshot, query, values = begun(name, CASES[name].config(1.0).steps)
    total, memory = case.algorithm.contribute(config, query, snapshot.memory, values)
    honest, _ = case.algorithm.contribute(config, begun(name)[3], snapshot.memory, values)
    assert is_zero(total.whole)
    released = case.algorithm.perturb(KEY, config, query, honest.whole)
    assert is_zero(released._replace(high=None) if hasattr(released, "high") else released)  # that was found before
    jax.tree.map(np.testing.assert_array_equal, memory, snapshot.memory)


def test_an_estimate_is_released_once():
    """The descent's steps hold no mean loss, and the step of the estimate no sum of the descent."""
    case = CASES["DP-GIBO, then an estimate"]
    for step in range(case.config(1.0).steps):
        _, config, snapshot, query, values = begun("DP-GIBO, then an estimate", step)
        total, _ = case.algorithm.contribute(config, query, snapshot.memory, values)
        released = case.algorithm.perturb(KEY, config, query, total.whole)
        last = step == config.steps - 1
        assert is_zero(total.whole[1]) == is_zero(released[1]) == (not last)
        assert is_zero(total.whole[0]) == is_zero(released[0]) == last


def test_a_design_releases_no_means():
    case = CASES["private evaluations, private range"]
    for step in range(3):
        _, config, snapshot, query, values = begun("private evaluations, private range", step)
        total, _ = case.algorithm.contribute(config, query, snapshot.memory, values)
        released = case.algorithm.perturb(KEY, config, query, total.whole)
        assert is_zero(released.means) == (step < config.design_steps)
        assert is_zero(total.whole.means) or step >= config.design_steps


@pytest.mark.parametrize(
    "name", ["dp_gibo", "dp_gibo, recent, private clip", "private choices", "DP-GIBO, then an estimate"]
)
def test_a_memory_of_other_users_is_refused(name):
    case, config, snapshot, query, values = begun(name)
    one = values[..., :1]
    with pytest.raises(ValueError, match="memory must be of the 1 users of the values"):
        case.algorithm.contribute(config, query, snapshot.memory, one)
    for present in (jnp.ones(1, bool), jnp.ones((USERS, 1), bool)):
        with pytest.raises(ValueError, match="present must have shape"):
            case.algorithm.contribute(config, query, snapshot.memory, values, present)


@pytest.mark.daily(*by_turns(0, 4, names=ADDS))
@pytest.mark.parametrize("name", ADDS)
def test_nobody_adds_nothing(name):
    """An empty group of users, such as a partition of a table without rows."""
    case, config, _, query, values = begun(name, 0)
    memory = case.algorithm.remember(config, 0)
    total, _ = case.algorithm.contribute(config, query, memory, values[..., :0])
    assert is_zero(total.whole)


@pytest.mark.daily("dp_gibo", "private choices")
@pytest.mark.parametrize(
    "name", ["dp_gd", "dp_gibo", "private choices", "DP-GIBO, then an estimate", "private evaluations"]
)
def test_a_step_is_not_told_under_another_budget(name):
    case, _, snapshot, query, values = begun(name)
    other = case.config(0.5)
    total, _ = case.algorithm.contribute(other, query, snapshot.memory, values)
    released = case.algorithm.perturb(KEY, other, query, total.whole)
    after = case.algorithm.tell(other, snapshot.state, query, released)
    jax.tree.map(np.testing.assert_array_equal, after, snapshot.state)


def test_a_query_of_fewer_points_has_the_weights_of_those():
    _, config, snapshot, query, _ = begun("dp_gibo")
    fewer = dp_gibo.remask(config, snapshot.state, query, query.mask.at[-1].set(False))
    start = int(query.broadcast.used)
    assert not np.any(fewer.broadcast.weights[start + config.batch - 1])
    assert np.any(query.broadcast.weights[start + config.batch - 1])
    whole = dp_gibo.remask(config, snapshot.state, query, query.mask)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9), whole, query)


def test_a_clip_norm_is_found_in_the_first_step_alone():
    """A caller that refines every query pays for one scale, as the guarantee says."""
    for step in range(3):
        case, config, snapshot, query, values = begun("dp_gibo, recent, private clip", step)
        counted = case.algorithm.survey(config, query, snapshot.memory, values)
        refined = [case.algorithm.refine(jax.random.key(seed), config, query, counted) for seed in range(4)]
        assert (
            len({float(each.broadcast.clip_norm) for each in refined} | {float(query.broadcast.clip_norm)}) > 1
        ) == (step == 0)


def test_a_query_with_a_survey_needs_both_functions():
    case, config, snapshot, query, values = begun("dp_gibo, recent, private clip")
    with pytest.raises(TypeError, match="must have the functions survey and refine"):
        compiled_run.learn(case.algorithm._replace(survey=None), KEY, config, snapshot, query, values)


@pytest.mark.parametrize("name", ["dp_gd", "dp_gibo", "dp_gibo, recent, private clip"])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_query_does_not_bound_what_a_user_adds(name, factor):
    """A query may say in which unit a part is counted; how large it may be is the config's to say."""
    case, config, snapshot, query, values = begun(name)
    broadcast = query.broadcast._replace(clip_norm=query.broadcast.clip_norm / factor)
    if name != "dp_gd":
        broadcast = query.broadcast._replace(
            weights=query.broadcast.weights * factor, clip_norm=query.broadcast.clip_norm / factor
        )
    alone = jnp.arange(USERS) == 0
    total, _ = contributed(case.algorithm, config, query._replace(broadcast=broadcast), snapshot.memory, values, alone)
    assert np.sum(integers.value(*total.whole) ** 2) <= int(config.noise.radius) ** 2


TABLE = contributions.rows()
EXTREME = [0.0, 1.0, -1.0, 1e-300, 1e-9, 1e9, 1e300, -1e300, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_one_user_adds_what_the_page_says_at_most(row, trials):
    """``docs/contributions.md``: after random and extreme losses, in every step whose total has the part."""
    users, rng = 64, np.random.default_rng(0)
    alone = jnp.arange(users) < 1
    memory = row.algorithm.remember(row.config, users)
    query = contributions.first_query(row)
    if hasattr(query.broadcast, "finding"):  # in the first step no difference is known yet
        query = query._replace(broadcast=query.broadcast._replace(finding=jnp.ones((), bool)))
    count = trials(f"one user's part of {row.name}", 20, 2_000, 0)
    seen = [0.0] * len(row.parts)

    @functools.partial(jax.jit, static_argnums=0)
    def added(function, values):
        if function == contributions.SURVEYED:
            return row.algorithm.survey(row.config, query, memory, values, alone)
        return row.algorithm.contribute(row.config, query, memory, values, alone)[0].whole

    for _ in range(count):
        values = rng.normal(size=contributions.values_of(row, query, users)) * 10.0 ** rng.uniform(-3, 3)
        values[..., 0] = np.where(rng.uniform(size=values.shape[:-1]) < 0.5, values[..., 0], rng.choice(EXTREME))
        for number, part in enumerate(row.parts):
            words = integers.value(*part.pick(added(part.function, jnp.asarray(values))))
            size = contributions.NORMS[part.norm](words)
            assert size <= part.bound(row.config)
            seen[number] = max(seen[number], size / part.bound(row.config))
    assert max(seen) > 0.9  # other parts are zeros in the first step


def test_the_page_is_that_of_the_code_and_has_every_algorithm():
    assert contributions.PAGE.read_text() == contributions.page()
    named = {row.name.split(",")[0].split(" ")[0] for row in TABLE} | set(contributions.algorithms_without_contribute())
    assert named == set(registration.algorithm_modules())

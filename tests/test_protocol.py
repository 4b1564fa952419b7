"""What every algorithm promises, whatever it is: purity, one compilation, a budget that cannot be overrun."""

import functools
import itertools
import pickle
from dataclasses import replace
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzz_targets import objectives
from fuzz_targets.odd_values import holds_nan, of_any_pattern
from option_groups import group_options
from protocol_cases import CASES, STEPS, USERS, by_turns, records
from tolerances import rtol

from jaxdpbo import drivers
from jaxdpbo.drivers import compiled_run, compiled_steps
from jaxdpbo.guarantee import assumptions, guarantees, release_key

SENTINEL = 0.123456789
SEEDED = {"insecure_key": True}  # integer seeds are for tests
OF_TABLE = {
    (USERS,): objectives.loss_of_table,
    (): objectives.utility_of_table,
    (2,): objectives.two_of_table,
    (2, USERS): objectives.gradient_of_table,
    (3, USERS): objectives.features_of_table,
}
RECORDS = {"rows": records(), "table": np.full((STEPS + 2, USERS), SENTINEL), "use_table": np.array(False)}
MARKED = RECORDS | {"use_table": np.array(True)}


@functools.cache
def case_named(name):
    """The case, whose values are those of ``data["table"]`` where the data say so: one program for both."""
    case = CASES[name]

    def objective(point, data):
        values = case.objective(point, data["rows"])
        return jnp.where(data["use_table"], OF_TABLE[case.shape](point, data["table"]), values)

    return case._replace(objective=objective)


DAILY = by_turns(0, 3)
EACH = by_turns(3)
EAGER = "dp_gp_ucb, in order", "po_gp_ucb", "random_search"  # of tens of operations, not hundreds


def pytest_generate_tests(metafunc):
    """Few cases, and with ``--full`` all: programs of their own take minutes.

    ``each`` is one case of every family; in ``eager`` each operation is a program.
    """
    full = metafunc.config.getoption("--full")
    for argument, few, all_names in (
        ("case", DAILY, CASES),
        ("each", EACH, CASES),
        ("eager", EAGER, [*EAGER, "dp_gd", *EACH]),
    ):
        if argument in metafunc.fixturenames:
            names = list(all_names if full else few)
            metafunc.parametrize(argument, list(map(case_named, names)), ids=names)


def key(seed=0):
    return jax.random.key(seed)


def run(case, seed=0, scale=1.0, **options):
    return drivers.run_scan(
        case.algorithm, case.objective, RECORDS, case.config(scale), **group_options(**SEEDED, key=key(seed), **options)
    )


def after(case, steps):
    """Where a hand-written loop stands."""
    config = case.config(1.0)
    snapshot = compiled_steps.begin(case.algorithm, key(1), config)
    for t in range(steps):
        ask_key, tell_key = jax.random.split(jax.random.fold_in(key(2), t))
        query = compiled_steps.ask(case.algorithm, ask_key, config, snapshot.state)
        snapshot, _ = compiled_steps.learn(case.algorithm, tell_key, config, snapshot, query, values_at(case, query))
    return snapshot


def ask(case, seed, config, state):
    return compiled_steps.ask(case.algorithm, key(seed), config, state)


@functools.partial(jax.jit, static_argnums=0)
def evaluate(objective, points, data):
    return jax.vmap(objective, in_axes=(0, None))(points, data)


def values_at(case, query):
    return evaluate(case.objective, query.points, RECORDS)


def assert_close(found, expected, tolerance=1e-9):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), found, expected)


def assert_same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def loop_of(case, objective=None, **options):
    def measured(point, data):
        return np.asarray(case.objective(point, data))

    return drivers.run_loop(
        case.algorithm,
        objective or measured,
        RECORDS,
        case.config(1.0),
        **group_options(key=key(), **SEEDED, **options),
    )


def test_scan_and_loop_agree(case):
    scanned, looped = run(case), loop_of(case)
    # A search moves by as much as rounding moves its start, so a few digits less than the arithmetic has.
    digits = 1e-7 if jax.config.jax_enable_x64 else 1e-4
    assert_close(looped.release, scanned.release, digits)
    assert looped.guarantee == scanned.guarantee


def test_an_interrupted_run_resumes_on_the_same_path(case):
    calls = itertools.count(1)

    def failing(point, data):
        if next(calls) == 2:
            raise OSError("planted")
        return np.asarray(case.objective(point, data))

    with pytest.raises(drivers.RunInterrupted, match=r"stopped at step \d of 3 on OSError") as caught:
        loop_of(case, failing)
    assert isinstance(caught.value.__cause__, OSError)
    assert_same(loop_of(case, failing, resume=caught.value.snapshot).release, loop_of(case).release)


def test_eager_and_jit_agree_on_a_step(eager):
    case = eager
    config, snapshot = case.config(1.0), after(case, 1)
    asked = ask(case, 3, config, snapshot.state)
    values = jnp.asarray(np.random.default_rng(1).normal(size=(len(asked.mask), *case.shape)))

    def step():
        query = case.algorithm.ask(key(3), config, snapshot.state)
        return query, compiled_run.learn(case.algorithm, key(4), config, snapshot, query, values)[0]

    jitted = jax.jit(step)()
    with jax.disable_jit():
        one_by_one = step()
    assert_close(one_by_one, jitted, rtol(1e-7, 30_000.0))


def test_one_compilation_for_twenty_budgets(case, compilations):
    run(case, scale=0.77)  # a scale of its own: what other tests computed on the host is remembered
    compilations.clear()
    for scale in np.linspace(0.5, 2.0, 20):
        run(case, seed=int(scale * 10), scale=scale)
    assert compilations["programs"] == 0


def test_the_compilation_counter_can_fail(compilations):
    case = case_named("random_search")

    def fresh(point, data):
        return case.objective(point, data)

    drivers.run_scan(case.algorithm, fresh, RECORDS, case.config(1.0), **group_options(key=key(), **SEEDED))
    assert compilations["programs"] >= 1


def maps_over_configs_and_keys(case, transform):
    scales, seeds = (0.7, 1.0, 1.6), (3, 4, 5)
    configs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(case.config(scale) for scale in scales))
    keys = jnp.stack([key(seed) for seed in seeds])
    data = jax.tree.map(jnp.asarray, RECORDS)

    def one(pair):
        return drivers.pure_run(case.algorithm, case.objective, data, pair[1], pair[0])[0]

    mapped = jax.jit(transform(one))((keys, configs))
    for i, (seed, scale) in enumerate(zip(seeds, scales, strict=True)):
        assert_close(jax.tree.map(lambda leaf, i=i: leaf[i], mapped), run(case, seed, scale).release, 1e-6)


def test_vmaps_over_configs_and_keys(each):
    maps_over_configs_and_keys(each, jax.vmap)


@pytest.mark.daily("dp_gibo", "random_search")
@pytest.mark.parametrize("name", ["dp_gibo", "dp_gp_ucb, box", "random_search"])
def test_a_loop_over_configs_and_keys_is_the_same(name):
    """The body of ``lax.map`` is the scan as it is, for any algorithm."""
    maps_over_configs_and_keys(case_named(name), lambda one: functools.partial(jax.lax.map, one))


def test_float32_runs_where_x64_is_off(each, float32):
    released = jax.tree.leaves(run(each).release)
    assert all(leaf.dtype.kind != "f" or leaf.dtype == np.float64 for leaf in released)  # NumPy's, as every driver's
    assert all(np.array_equal(leaf, leaf.astype(np.float32)) for leaf in released if leaf.dtype == np.float64)
    assert all(np.all(np.isfinite(leaf)) for leaf in released)


def test_the_budget_cannot_be_overrun(case):
    config = case.config(1.0)
    on_time, late = after(case, STEPS), after(case, STEPS + 5)
    assert_same(late, on_time)
    releases = [case.algorithm.release(key(9), config, each.state) for each in (late, on_time)]
    assert_same(*releases)
    assert int(late.state.public.step) == STEPS


def test_values_at_masked_points_are_ignored(case):
    config = case.config(1.0)
    snapshot = after(case, 1)
    query = ask(case, 3, config, snapshot.state)
    query = query._replace(mask=query.mask.at[-1].set(False))
    values = values_at(case, query)
    states = [
        compiled_steps.learn(case.algorithm, key(4), config, snapshot, query, values.at[-1].set(junk))[0]
        for junk in (0.0, jnp.nan, 1e300)
    ]
    assert_same(states[1], states[0])
    assert_same(states[2], states[0])


def test_every_query_and_the_answer_lie_in_the_box(case):
    config = case.config(1.0)
    for steps in range(STEPS):
        points = np.asarray(ask(case, steps, config, after(case, steps).state).points)
        assert points.shape[1] == case.box.shape[1]
        assert np.all((points >= case.box[0]) & (points <= case.box[1]))
    point = np.asarray(run(case).release.point)
    assert np.all((point >= case.box[0]) & (point <= case.box[1]))


def test_values_of_a_wrong_shape_are_refused(case):
    config = case.config(1.0)
    snapshot = after(case, 0)
    query = ask(case, 0, config, snapshot.state)
    with pytest.raises(ValueError, match="values must have shape"):
        compiled_run.learn(case.algorithm, key(), config, snapshot, query, jnp.zeros((len(query.mask), *case.shape, 2)))


def test_the_guarantee_is_typed_and_conditional(case):
    statement = case.algorithm.privacy(case.config(1.0))
    assert isinstance(statement, guarantees.Guarantee)
    assert statement.notion == case.notion
    if case.private:
        assert statement.relation == "replace_one"
        assert bool(statement.total_variation) == (assumptions.IDEAL_NOISE not in statement.assumptions)
        assert (assumptions.RANDOM_BITS in statement.assumptions) == (
            assumptions.IDEAL_NOISE not in statement.assumptions
        )
    else:
        assert statement.no_guarantee_reason
    expected = {
        "gdp": lambda: guarantees.accounting.gdp_epsilon(1.0, 1e-5), "dp": lambda: 1.0, "none": lambda: np.inf,
    }  # fmt: skip
    if case.notion in expected:
        promised = expected[case.notion]()
        assert statement.epsilon(1e-5) <= promised
        by_level = replace(statement, stages=(), also=None)  # choices cost less, by their range
        assert by_level.epsilon(1e-5) == pytest.approx(promised, rel=0.01 if statement.total_variation else 1e-9)
    else:
        with pytest.raises(ValueError, match="does not convert"):
            statement.epsilon(1e-5)


STEERED_BY_RELEASES = [
    name for name, case in CASES.items() if name == "random_search" or (case.private and not case.follows_values)
]


@pytest.mark.daily(*(name for name in DAILY if name in STEERED_BY_RELEASES))
@pytest.mark.parametrize("name", STEERED_BY_RELEASES)
def test_a_query_does_not_depend_on_raw_state(name):
    """GP-UCB promises nothing, DP-GP-UCB pays at the end: they follow raw values, which this test would refuse."""
    case = case_named(name)
    config = case.config(1.0)
    state = after(case, 2).state
    assert (state.raw == ()) == (case.algorithm.contribute is not None)
    junk = state._replace(raw=jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), state.raw))
    assert_same(ask(case, 7, config, junk), ask(case, 7, config, state))


def test_nothing_raw_is_returned_printed_or_pickled_by_default(case):
    options = {"key": key(), **SEEDED}
    quiet = drivers.run_scan(case.algorithm, case.objective, MARKED, case.config(1.0), **group_options(**options))
    loud = drivers.run_scan(
        case.algorithm, case.objective, MARKED, case.config(1.0), **group_options(diagnostics=True, **options)
    )
    assert quiet.diagnostics is None

    def tells(run, digits):
        with np.printoptions(threshold=100_000, precision=17):
            leaves = jax.tree.leaves((run.release, run.diagnostics))
            return (
                "0.12345678" in repr(run),
                any(np.any(np.isclose(leaf, SENTINEL, rtol=10.0**-digits)) for leaf in leaves),
                np.float64(SENTINEL).tobytes()[2:] in pickle.dumps(jax.tree.map(np.asarray, run)),
            )

    if case.releases_values:
        assert case.notion == "none"
    else:
        assert tells(quiet, 9) == (False, False, False)
    assert tells(loud, 2)[1]  # the check can see; on the grid a mean has fewer digits


def test_no_value_of_any_user_makes_a_run_raise_or_release_nan(case, trials):
    """The values at a point are those of a table, whatever the point: no surrogate has seen their like."""
    rng, config, scan = np.random.default_rng(0), case.config(1.0), import_module("jaxdpbo.drivers.scan")
    rows = jnp.asarray(RECORDS["rows"])
    for seed in range(trials("runs of an algorithm on values of any pattern", 64, 2048, 0)):
        table = jnp.asarray(of_any_pattern(rng, STEPS + 2, USERS))
        data = {"rows": rows, "table": table, "use_table": jnp.asarray(True)}
        found, _, _ = scan._scan(case.algorithm, case.objective, data, config, key(seed))
        if case.releases_values:
            found = found._replace(values=jnp.zeros(()))  # as measured
        assert not any(map(holds_nan, jax.tree.leaves(found)))


def test_the_values_test_sees_a_release_of_raw_values():
    assert holds_nan(jnp.sum(of_any_pattern(np.random.default_rng(0), 64, 4, 4), axis=(1, 2)))
    assert not holds_nan(jnp.arange(3.0))


@pytest.mark.parametrize("bad", [0, 7, "key", np.zeros(2, np.uint32)])
def test_only_a_typed_key_is_a_key(case, bad):
    for driver in (drivers.run_scan, drivers.run_loop):
        with pytest.raises(TypeError, match="key must be a typed key"):
            driver(case.algorithm, case.objective, RECORDS, case.config(1.0), key=bad)


def test_a_batch_of_keys_is_not_a_key(case):
    with pytest.raises(ValueError, match="key must be one key"):
        drivers.run_scan(
            case.algorithm,
            case.objective,
            RECORDS,
            case.config(1.0),
            key=jax.random.split(key()),
        )


def test_a_key_passed_in_is_an_assumption(case):
    passed = run(case).guarantee
    drawn = release_key.for_release(None, case.algorithm.privacy(case.config(1.0)), False)[1]
    assert (assumptions.KEY_SECRET in passed.assumptions) == case.private
    assert assumptions.KEY_SECRET not in drawn.assumptions


def test_default_runs_differ_and_seeded_runs_do_not(each):
    config = each.config(1.0)
    fresh = [drivers.run_scan(each.algorithm, each.objective, RECORDS, config, key=None) for _ in range(2)]
    assert all(assumptions.KEY_SECRET not in run.guarantee.assumptions for run in fresh)
    points = [run.release.point for run in fresh]
    assert np.any(points[0] != points[1]) or not each.draws  # GP-UCB's keys only start searches, which may end alike
    assert_same(run(each, 5).release, run(each, 5).release)


def test_configs_are_frozen_and_hash_by_their_static_part(case):
    config = case.config(1.0)
    with pytest.raises(AttributeError):
        config.users = 3
    other = case.config(2.0)
    assert jax.tree.structure(config) == jax.tree.structure(other)

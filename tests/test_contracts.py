"""The fields that drivers read are required: a misspelt one is refused before anything is spent, not skipped."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, by_turns, records

from jaxdpbo import dp_gibo, drivers, ledger, phases, private_estimate, private_evaluations, tables
from jaxdpbo.algorithms import random_search
from jaxdpbo.drivers import compiled_steps, result
from jaxdpbo.guarantee import assumptions
from jaxdpbo.types import Config, Info, PublicState, missing_fields

CASE = CASES["dp_gd"]
DRIVERS = {"scan": drivers.run_scan, "loop": drivers.run_loop}


def renamed(value: NamedTuple, field: str):
    """``value`` with ``field`` misspelt, as a NamedTuple of another class."""
    names = [name[:-1] if name == field else name for name in value._fields]
    return NamedTuple("Misspelt", [(name, object) for name in names])(*value)


def restored(value, like):
    return type(like)(*value)


def with_misspelt_public(field: str):
    """DP-GD whose own functions agree with each other; only the drivers miss the field."""
    honest = CASE.algorithm
    like = jax.eval_shape(honest.init, jax.random.key(0), CASE.config(1.0)).public

    def inside(state):
        return state._replace(public=restored(state.public, like))

    def outside(state):
        return state._replace(public=renamed(state.public, field))

    def tell(config, state, query, released):
        return outside(honest.tell(config, inside(state), query, released))

    return honest._replace(
        init=lambda key, config: outside(honest.init(key, config)),
        ask=lambda key, config, state: honest.ask(key, config, inside(state)),
        tell=tell,
        release=lambda key, config, state: honest.release(key, config, inside(state)),
    )


def with_misspelt_info():
    def inform(*arguments):
        return renamed(CASE.algorithm.inform(*arguments), "factorisation_failed")

    return CASE.algorithm._replace(inform=inform)


@pytest.mark.daily(*by_turns(1, 2))
@pytest.mark.parametrize("name", CASES)
def test_every_algorithm_has_the_fields_that_drivers_read(name):
    case = CASES[name]
    config, key = case.config(1.0), jax.random.key(0)
    snapshot = compiled_steps.begin.eval_shape(case.algorithm, key, config)
    state = snapshot.state
    query = jax.eval_shape(case.algorithm.ask, key, config, state)
    values = jax.ShapeDtypeStruct((*query.mask.shape, *case.shape), query.points.dtype)
    (after, _), info = compiled_steps.learn.eval_shape(case.algorithm, key, config, snapshot, query, values)
    assert isinstance(info, Info)
    assert missing_fields(config, Config) == []
    assert missing_fields(state.public, PublicState) == missing_fields(after.public, PublicState) == []
    assert (state.public.noise is None) == (after.public.noise is None)


@pytest.mark.parametrize("field", ["step", "noise"])
@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_a_misspelt_public_field_is_refused_before_it_costs(driver, field, tmp_path):
    path, algorithm = tmp_path / "ledger.jsonl", with_misspelt_public(field)
    ledger.create(path, notion="gdp", level=9, relation="replace_one", protects="validation users", by="a test")
    before = path.read_bytes()
    with pytest.raises(TypeError, match=f"the public state of an algorithm must have the field '{field}'"):
        driver(algorithm, CASE.objective, records(), CASE.config(1.0), ledger=drivers.Recording(path, "one"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("driver", DRIVERS.values(), ids=DRIVERS)
def test_a_misspelt_flag_is_refused_before_anything_is_drawn(driver):
    calls, algorithm = [], with_misspelt_info()

    def release(*arguments):
        calls.append(1)
        return CASE.algorithm.release(*arguments)

    key = jax.random.key(0)
    execution = {"key": key, "insecure_key": True}
    with pytest.raises((TypeError, drivers.RunInterrupted)) as stopped:
        driver(algorithm._replace(release=release), CASE.objective, records(), CASE.config(1.0), **execution)
    said = str(stopped.value.__cause__ or stopped.value)
    assert "diagnostics of an algorithm must be types.Info" in said
    assert not calls


def test_a_config_without_users_is_refused():
    class Bare(NamedTuple):
        steps: int = 1

    algorithm = CASE.algorithm._replace(
        init=lambda key, config: CASE.algorithm.init(key, CASE.config(1.0)),
        privacy=lambda config: CASE.algorithm.privacy(CASE.config(1.0)),
    )
    with pytest.raises(TypeError, match="the config of an algorithm must have the field 'users'"):
        result.state_guarantee(algorithm, CASE.objective, Bare())


@pytest.mark.parametrize("missing", ["contribute", "perturb"])
def test_an_algorithm_has_contribute_and_perturb_or_neither(missing):
    with pytest.raises(TypeError, match="must have both contribute and perturb, or neither"):
        result.state_guarantee(CASE.algorithm._replace(**{missing: None}), CASE.objective, CASE.config(1.0))


SILENT = dp_gibo.algorithm._replace(
    privacy=lambda config: dataclasses.replace(dp_gibo.algorithm.privacy(config), assumptions=())
)
KEY = jax.random.key(0)
RUN = {"key": KEY, "insecure_key": True}
UNSAID = {assumptions.IDEAL_NOISE, assumptions.PUBLIC_CONFIG, assumptions.SEPARABLE_LOSSES}


def absolute(point, rows):
    return jnp.abs(rows["x"] - point[0])


def guarantees_of(driver, execution):
    """The guarantees of an algorithm that states no assumption, by each of its ways to users."""
    box = {"users": 500, "steps": 2, "mu": 1.0, "bounds": [(0, 1)], "clip_norm": 1.0, "memory": "none"}
    config, rows = dp_gibo.config(**box), {"x": np.linspace(0, 1, 500)}
    if driver == "table":
        return (drivers.run_loop(SILENT, absolute, tables.arrays(rows), config, **execution).guarantee,)
    if driver == "sweep":
        return drivers.sweep(SILENT, absolute, rows, [config], seeds=1, **execution).guarantees
    if driver == "estimate":
        algorithm = phases.make_algorithm(phases.Phase(SILENT), private_estimate.at_answer)
        config = phases.config(config, private_estimate.config(users=500, mu=1.0, bounds=[(0, 1)], loss_range=(0, 1)))
        return (drivers.run_scan(algorithm, absolute, rows, config, **execution).guarantee,)
    return (DRIVERS[driver](SILENT, absolute, rows, config, **execution).guarantee,)


@pytest.mark.parametrize("driver", [*DRIVERS, "table", "sweep", "estimate"])
def test_every_driver_names_what_an_algorithm_of_yours_left_unsaid(driver):
    (stated,) = guarantees_of(driver, {})
    assert {assumptions.RANDOM_BITS, *UNSAID} <= set(stated.assumptions)
    (stated,) = guarantees_of(driver, {"key": KEY} if driver == "sweep" else RUN)
    assert {assumptions.WEAK_KEY, assumptions.KEY_SECRET, *UNSAID} <= set(stated.assumptions)


def test_a_weak_key_is_refused_where_the_noise_is_unknown():
    with pytest.raises(TypeError, match="key must be None or a chacha20 key"):
        guarantees_of("scan", {"key": KEY})


@pytest.mark.parametrize("name", CASES)
def test_drivers_add_nothing_to_what_the_algorithms_here_state(name):
    algorithm, config = CASES[name].algorithm, CASES[name].config(1.0)
    stated = result.state_guarantee(algorithm, CASES[name].objective, config)
    assert stated.assumptions == algorithm.privacy(config).assumptions


def test_what_init_returns_must_be_a_state():
    algorithm = CASE.algorithm._replace(init=lambda key, config: config.bounds)
    with pytest.raises(TypeError, match="init must return a State, got ShapeDtypeStruct"):
        result.state_guarantee(algorithm, CASE.objective, CASE.config(1.0))


def test_a_tell_is_traced_once_though_its_shapes_are_looked_at():
    traces = []

    def tell(*arguments):
        traces.append(1)
        return CASE.algorithm.tell(*arguments)

    algorithm, key = CASE.algorithm._replace(tell=tell), jax.random.key(0)
    drivers.run_loop(algorithm, CASE.objective, records(), CASE.config(1.0), key=key, insecure_key=True)
    assert len(traces) == 1


def test_an_inner_algorithm_with_a_flag_is_refused():
    """Its ``tell`` makes the flag, and no ``Info`` is made there."""
    case = CASES["private evaluations, random search"]

    def tell(*arguments):
        state, info = random_search.tell(*arguments)
        return state, info._replace(factorisation_failed=jnp.ones((), bool))

    wrapped = private_evaluations.make_algorithm(random_search.algorithm._replace(tell=tell))
    with pytest.raises(ValueError, match="without a flag on its points"):
        drivers.run_scan(
            wrapped,
            case.objective,
            records(),
            case.config(1.0),
            key=jax.random.key(0),
            insecure_key=True,
        )


def test_an_algorithm_of_the_other_kind_is_refused():
    with pytest.raises(ValueError, match="inner must be an algorithm that"):
        private_evaluations.make_algorithm(CASE.algorithm)
    with pytest.raises(ValueError, match="a phase must be an algorithm that"):
        phases.make_algorithm(phases.Phase(random_search.algorithm))

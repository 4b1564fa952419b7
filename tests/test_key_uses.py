"""Each key used once, and never a constant of a program: every public function that takes or makes one."""

import os
import sys
from importlib import import_module

import jax
import jax.numpy as jnp
import key_cases
import numpy as np
import pytest
from protocol_cases import CASES, by_turns, loss, records

from jaxdpbo import drivers, outsourcing, transforms
from jaxdpbo.algorithms import dp_gd
from jaxdpbo.checks import low_high
from jaxdpbo.drivers import compiled_steps
from jaxdpbo.guarantee import release_key
from jaxdpbo.noise import keys, mechanisms
from jaxdpbo.training import dp_optim, models, permutation_sgd
from jaxdpbo.transforms import curation

scan, sweep = map(import_module, ("jaxdpbo.drivers.scan", "jaxdpbo.drivers.seed_sweep"))  # their functions hide them
BYTES = bytes(range(32))
KEY = keys.key_from_bytes(BYTES)
EXACT = CASES["dp_gd"].algorithm.privacy(CASES["dp_gd"].config(1.0))


def words(key):
    return np.asarray(jax.random.key_data(key))


@pytest.fixture
def programs(tmp_path):
    """The constants of all programs that are traced and compiled meanwhile: of what has not run before."""
    folder = tmp_path / "programs"
    folder.mkdir()
    jax.config.update("jax_dump_ir_to", str(folder))
    jax.config.update("jax_dump_ir_modes", "jaxpr,stablehlo")
    yield lambda: key_cases.constants_of("\n".join(path.read_text() for path in folder.iterdir()))
    jax.config.update("jax_dump_ir_to", "")
    jax.config.update("jax_dump_ir_modes", "stablehlo")


@pytest.fixture
def uses():
    key_cases.USES.clear()
    yield key_cases.USES
    key_cases.USES.clear()


def entered(run):
    """The code of every Python function that is called meanwhile."""
    seen = set()

    def note(frame, event, _):  # returns None: nothing within the call is traced
        seen.add(frame.f_code)

    sys.settrace(note)
    try:
        run()
    finally:
        sys.settrace(None)
    return seen


PUBLIC = key_cases.public_functions()


def test_every_public_function_that_takes_or_makes_a_key_has_a_case():
    """Trap 29: a name without a case below, or a case of a name that is gone, fails here."""
    named = [name for case in key_cases.KEY_CASES.values() for name in case.names]
    assert sorted([*named, *key_cases.COMPARED]) == sorted(PUBLIC)


VARIANTS = CASES.keys() - {*key_cases.ENTERED, *by_turns(3), "DP-GIBO, then an estimate"}  # no functions of their own


@pytest.mark.daily(*(key_cases.KEY_CASES.keys() - VARIANTS))
@pytest.mark.parametrize("name", key_cases.KEY_CASES)
def test_no_driver_uses_a_key_twice(name, uses, programs):
    """Trap 29, and 35: nor does a word of any key stand in any program."""
    case, key = key_cases.KEY_CASES[name], key_cases.key_of(name)

    def run():
        jax.block_until_ready(case.run(key))

    seen = entered(run) if case.names else run()  # to note takes time
    assert not [each for each in case.names if key_cases.code_of(PUBLIC[each]) not in seen]
    assert bool(uses) == case.draws
    assert not key_cases.used_twice()
    constants = programs()
    assert not [used for used in {use[0] for use in uses} if key_cases.found_in(constants, used)]


PLANTS = {
    "twice": lambda key: jax.random.bits(key) + jax.random.bits(key),
    "other shapes": lambda key: (jax.random.bits(key, (2,)), jax.random.bits(key, (3,))),
    "drawn and split": lambda key: (jax.random.bits(key), jax.random.split(key)),
    "drawn and folded": lambda key: (jax.random.bits(key), jax.random.fold_in(key, 1)),
    "two rows": lambda key: jax.vmap(jax.random.bits)(jnp.stack([key, key])),
    "two steps": lambda key: jax.lax.scan(lambda _, t: (_, jax.random.bits(key) + t), 0, jnp.arange(2, dtype="uint")),
    "one child": lambda key: jax.vmap(lambda t: jax.random.bits(jax.random.fold_in(key, t)))(jnp.array([3, 3])),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_reuse_is_seen(name, uses):
    """Some of it within ``vmap`` and ``scan``, where ``jax.debug_key_reuse`` misfires or looks away."""
    jax.block_until_ready(jax.jit(PLANTS[name])(key_cases.key_of(name)))
    assert key_cases.used_twice()


def test_what_is_no_reuse_is_not_taken_for_it(uses):
    def honest(key):
        own, key = jax.random.split(key)
        return jax.vmap(lambda t: jax.random.bits(jax.random.fold_in(key, t)))(jnp.arange(3)), jax.random.bits(own)

    jax.block_until_ready(jax.jit(honest)(key_cases.key_of("honest")))
    assert len(uses) == 8
    assert not key_cases.used_twice()


def test_a_planted_reuse_in_the_shipped_noise_is_seen(monkeypatch, uses):
    """The noise of a step drawn twice from one key."""
    honest = mechanisms.rounded_gaussian

    def twice(key, shape, width):
        return honest(key, shape, width) + honest(key, shape, width)

    monkeypatch.setattr(mechanisms, "rounded_gaussian", twice)
    case = CASES["dp_gd"]
    fresh = case.algorithm._replace(perturb=lambda *arguments: dp_gd.perturb(*arguments))  # not the compiled one
    key = key_cases.key_of("plant")
    jax.block_until_ready(
        drivers.run_scan(fresh, case.objective, records(), case.config(1.0), key=key, insecure_key=True)
    )
    assert key_cases.used_twice()


@pytest.mark.parametrize("driver", [drivers.run_scan, drivers.run_loop])
def test_an_algorithm_that_draws_its_start_has_a_key_for_it(driver, uses):
    """None of ours does."""
    case = CASES["dp_gd"]

    def init(key, config):
        state = dp_gd.init(key, config)
        theta = state.public.theta + 1e-9 * jax.random.uniform(key, state.public.theta.shape)
        return state._replace(public=state.public._replace(theta=theta))

    fresh = case.algorithm._replace(init=init)
    key = key_cases.key_of(f"start, {driver.__name__}")
    jax.block_until_ready(driver(fresh, case.objective, records(), case.config(1.0), key=key, insecure_key=True))
    assert uses
    assert not key_cases.used_twice()


# A key is a constant of no program: it is an argument, or refused (trap 35).

POINT = jnp.array([0.25, 0.5, 0.75])
MESH = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
TRACES = {
    "jit": lambda f: jax.jit(f)(POINT),
    "vmap": lambda f: jax.vmap(f)(POINT),
    "grad": lambda f: jax.grad(lambda x: jnp.sum(f(x)))(POINT),
    "jvp": lambda f: jax.jvp(f, (POINT,), (POINT,)),
    "linearize": lambda f: jax.linearize(f, POINT),
    "checkpoint": lambda f: jax.checkpoint(f)(POINT),
    "lax.map": lambda f: jax.lax.map(f, POINT),
    "scan": lambda f: jax.lax.scan(lambda carry, x: (carry, f(x)), 0, POINT),
    "fori_loop": lambda f: jax.lax.fori_loop(0, 2, lambda _, x: f(x), POINT),
    "cond": lambda f: jax.lax.cond(True, f, f, POINT),
    "eval_shape": lambda f: jax.eval_shape(f, POINT),
    "make_jaxpr": lambda f: jax.make_jaxpr(f)(POINT),
    "lower": lambda f: jax.jit(f).lower(POINT),
    "shard_map": lambda f: jax.shard_map(f, mesh=MESH, in_specs=jax.P("i"), out_specs=jax.P("i"))(POINT),
    "ensure_compile_time_eval": lambda f: jax.jit(at_compile_time(f))(POINT),
    "jit inside vmap": lambda f: jax.vmap(jax.jit(f))(POINT),
}  # fmt: skip


def at_compile_time(f):
    def inner(x):
        with jax.ensure_compile_time_eval():
            return f(x)

    return inner


LAPLACE = transforms.product_laplace(centre=np.zeros(1), scale=1.0, epsilon=1.0)
GD = CASES["dp_gd"].algorithm, CASES["dp_gd"].objective, records(), CASES["dp_gd"].config(1.0)
WITHOUT_A_KEY = {
    "secret_key": lambda _: keys.secret_key(),
    "key_from_bytes": lambda _: keys.key_from_bytes(BYTES),
    "for_release": lambda _: release_key.for_release(None, EXACT, False)[0],
    "curate": lambda _: transforms.curate(None, LAPLACE, np.zeros((3, 1))).z,
    "run_scan": lambda _: drivers.run_scan(*GD).release.point,
    "run_loop": lambda _: drivers.run_loop(*GD).release.point,
    "minimize": lambda _: drivers.minimize(loss, records(), low_high(key_cases.BOUNDS), mu=1.0).release.point,
    "minimize from Python": lambda _: drivers.minimize(
        loss, records(), low_high(key_cases.BOUNDS), mu=1.0, users=6, traceable=False
    ).release.point,
    "sweep": lambda _: drivers.sweep(*GD, seeds=2).release.point,
    "PrivateObjective": lambda _: drivers.PrivateObjective(
        loss, records(), users=6, mu=1.0, evaluations=3, loss_range=(0.0, 3.0)
    )(np.zeros(2)),
    "search": lambda _: outsourcing.search(
        key_cases.published(), key_cases.said([]), [].append, lengthscale=1.0, noise_variance=0.1
    ).row,
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_A_KEY)
def test_no_key_is_drawn_while_a_caller_traces(name):
    """It was a literal of the program: every call had the same noise, and ``f(Y) - f(X)`` was the rows' difference."""
    for trace in TRACES.values():

        def calling(x):
            WITHOUT_A_KEY[name](x)
            return x

        said = r"a constant of the program.*draw the key outside with secret_key\(\)"
        with pytest.raises(RuntimeError, match=said):
            trace(calling)
    with jax.ensure_compile_time_eval():
        assert keys.is_secret_kind(keys.secret_key())  # nobody traces here
    assert keys.is_secret_kind(keys.secret_key())


@pytest.mark.parametrize("trace", ["jit", "vmap", "grad", "scan", "ensure_compile_time_eval"])
def test_a_release_key_that_a_traced_function_closes_over_is_refused(trace):
    for call in (
        lambda x: transforms.curate(KEY, LAPLACE, np.zeros((3, 1))).z[:, 0] + x,
        lambda x: jnp.sum(drivers.run_scan(*GD, key=KEY).release.point) + x,
        lambda x: drivers.sweep(*GD, seeds=1, key=KEY).release.point.sum() + x,
    ):
        with pytest.raises(RuntimeError, match="would be a constant of the program"):
            TRACES[trace](call)


def test_a_key_that_is_an_argument_gives_fresh_noise_in_every_call():
    release = jax.jit(lambda key, data: drivers.pure_run(ALGORITHM, OBJECTIVE, data, CONFIG, key)[0].point)
    first, second, again = (release(key, DATA) for key in (KEY, keys.secret_key(), KEY))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first) != np.asarray(second))


def test_callbacks_of_a_running_program_may_draw_keys():
    """They run at every call, outside the trace."""

    def drawn(_):
        return words(keys.secret_key())

    call = jax.jit(lambda x: jax.pure_callback(drawn, jax.ShapeDtypeStruct((8,), jnp.uint32), x))
    assert np.any(np.asarray(call(1.0)) != np.asarray(call(2.0)))


@pytest.mark.parametrize("kind", ["noting", "chacha20"])
def test_a_key_that_a_program_closes_over_is_found_in_its_text(kind, programs):
    """What the search above looks for, planted."""
    given = keys.secret_key()
    key = jax.random.wrap_key_data(words(given), impl=key_cases.noting) if kind == "noting" else given
    jax.block_until_ready(jax.jit(lambda x: x + jax.random.bits(key, dtype=jnp.uint32))(np.uint32(1)))
    secret = words(given).tobytes()
    assert key_cases.found_in(programs(), secret)
    assert not key_cases.found_in(programs(), os.urandom(32))


ALGORITHM, OBJECTIVE, DATA, CONFIG = GD
STATE = ALGORITHM.init(KEY, CONFIG)
TRAINED = models.logistic_regression(2), models.examples(jnp.asarray(DATA), jnp.arange(6) % 2)
SETTINGS = dp_optim.settings(steps=2, batch=2, learning_rate=0.1, noise_multiplier=1.0, clip_norm=1.0)
COMPILED = {
    "scan": lambda key: scan._scan.trace(ALGORITHM, OBJECTIVE, DATA, CONFIG, key),
    "begin": lambda key: compiled_steps.begin.trace(
        CASES["random_search"].algorithm, key, CASES["random_search"].config(1.0)
    ),
    "ask": lambda key: compiled_steps.ask.trace(ALGORITHM, key, CONFIG, STATE),
    "learn": lambda key: compiled_steps.learn.trace(
        ALGORITHM, key, CONFIG, drivers.Snapshot(STATE, ()), ALGORITHM.ask(key, CONFIG, STATE),
        np.zeros((1, *CASES["dp_gd"].shape)),
    ),
    "release": lambda key: compiled_steps.release.trace(ALGORITHM, key, CONFIG, STATE),
    "sweep": lambda key: sweep._run_in_turn.trace(
        sweep._one_run(ALGORITHM, OBJECTIVE), "map", (jnp.zeros(1, int), key[None]),
        (jax.tree.map(lambda leaf: leaf[None], CONFIG), DATA),
    ),
    "curate": lambda key: curation._add_kind.trace(key, np.zeros((3, 1), np.int32), "gaussian", 4096),
    "dp_optim": lambda key: jax.jit(dp_optim.train, static_argnames=("model", "largest")).trace(
        key, *TRAINED, SETTINGS, largest=2
    ),
    "permutation_sgd": lambda key: jax.jit(permutation_sgd.train_by_permutation).trace(
        key, DATA, jnp.arange(6) % 2, 0.1, 1.0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILED)
def test_no_compiled_entry_point_holds_a_word_of_its_chacha_key(name):
    """With the generator that ships; the same search as above."""
    key = keys.secret_key()
    traced = COMPILED[name](key)
    text = f"{traced.jaxpr}\n{traced.lower().as_text()}"
    assert name in ("begin", "ask", "release") or "while" in text
    assert not key_cases.found_in(key_cases.constants_of(text), words(key).tobytes())

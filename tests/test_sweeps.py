"""Sweeps: every policy gives what single runs give, in one compilation, spread over devices where there are several."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from option_groups import group_options
from protocol_cases import CASES, loss, records

from jaxdpbo import dp_gd, drivers, random_search
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import clipping

sweep_module = import_module("jaxdpbo.drivers.seed_sweep")  # its function hides it
CASE = CASES["dp_gibo"]
SCALES = (0.7, 1.0, 1.6)
KEY = jax.random.key(0)
GRID = jax.random.split(KEY, (len(SCALES), 4))


def sweep(configs, **options):
    return drivers.sweep(CASE.algorithm, loss, records(), configs, **group_options(**options))


@pytest.mark.parametrize("policy", sweep_module.POLICIES)
def test_a_sweep_is_the_runs_it_stands_for(policy):
    configs = [CASE.config(scale) for scale in SCALES]
    swept = sweep(configs, seeds=4, key=KEY, policy=policy)
    for row, config in enumerate(configs):
        for column, key in enumerate(GRID[row]):
            alone = drivers.run_scan(CASE.algorithm, loss, records(), config, key=key, insecure_key=True)
            each = jax.tree.map(lambda leaf, at=(row, column): leaf[at], swept.release)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), each, alone.release)
        assert swept.guarantees[row] == alone.guarantee
    assert swept.failed.shape == (len(SCALES), 4)
    assert not np.any(swept.failed)


def test_one_config_has_no_axis_of_configs():
    one, listed = (sweep(configs, seeds=4, key=KEY) for configs in (CASE.config(1.0), [CASE.config(1.0)]))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[0]), one.release, listed.release)
    assert assumptions.KEY_SECRET in one.guarantees[0].assumptions


def test_twenty_budgets_compile_once(compilations):
    sweep([CASE.config(scale) for scale in np.linspace(0.5, 1.0, 20)], seeds=4, key=jax.random.key(0))
    compilations.clear()
    sweep([CASE.config(scale) for scale in np.linspace(1.0, 2.0, 20)], seeds=4, key=jax.random.key(1))
    assert compilations["programs"] == 0


def test_a_failed_factorisation_is_flagged_run_by_run():
    case = CASES["dp_gibo"]
    fine, broken = case.config(1.0), case.config(1.0)
    variance = jnp.asarray(-1.0)  # no kernel: its covariance can not be factored
    params = type(broken.model.params)(broken.model.params.lengthscale, variance)
    model = type(broken.model)(broken.model.kernel, params, broken.model.noise_variance)
    broken = type(broken)(**{**{name: getattr(broken, name) for name in broken.__dataclass_fields__}, "model": model})
    failed = sweep([fine, broken], seeds=2, key=KEY).failed
    np.testing.assert_array_equal(failed, [[False, False], [True, True]])


def test_memory_does_not_grow_with_the_number_of_runs(monkeypatch):
    """However many the runs, no call has more than ``CALL_RUNS`` on a device."""
    sizes, call = [], sweep_module._run_in_turn

    def watched(function, policy, inputs, shared):
        sizes.append(len(inputs["x"]))
        return call(function, policy, inputs, shared)

    monkeypatch.setattr(sweep_module, "_run_in_turn", watched)
    for runs in (1, 64, 65, 1000):
        sizes.clear()
        inputs = {"x": jnp.arange(float(runs)), "key": jax.random.split(jax.random.key(3), runs)}
        drivers.distribute(cost, inputs, 1.0, policy="map")
        assert max(sizes) <= sweep_module.CALL_RUNS
        assert len(set(sizes)) == 1  # one compilation
        assert sum(sizes) < runs + len(sizes)


def cost(each, shared):
    return each["x"] * shared, jax.random.normal(each["key"])


@pytest.mark.parametrize("policy", sweep_module.POLICIES)
@pytest.mark.parametrize("runs", [1, 5, 300])
def test_distribute_maps_a_function_over_the_leading_axis(policy, runs):
    inputs = {"x": jnp.arange(float(runs)), "key": jax.random.split(jax.random.key(3), runs)}
    doubled, drawn = drivers.distribute(cost, inputs, 2.0, policy=policy)
    np.testing.assert_array_equal(doubled, 2.0 * np.arange(runs))
    np.testing.assert_allclose(drawn, jax.vmap(jax.random.normal)(inputs["key"]), rtol=1e-12)


@pytest.mark.parametrize(
    ("inputs", "policy", "message"),
    [
        (jnp.arange(3.0), "spread", "policy must be one of"),
        (jnp.zeros(0), None, "inputs must share one leading axis of at least 1"),
        ((jnp.zeros(2), jnp.zeros(3)), None, "inputs must share one leading axis"),
        (1.0, None, "inputs must share one leading axis"),
    ],
)
def test_distribute_names_what_it_refuses(inputs, policy, message):
    with pytest.raises(ValueError, match=message):
        drivers.distribute(cost, inputs, policy=policy)


TWO = [CASE.config(scale) for scale in (0.7, 1.0)]


@pytest.mark.parametrize(
    ("configs", "options", "error", "message"),
    [
        ([], {"seeds": 4}, ValueError, "configs must be at least one"),
        ([TWO[0], CASES["random_search"].config(1.0)], {"seeds": 4}, ValueError, "a config of Config and Config"),
        (TWO, {"seeds": 4, "common_random_numbers": 1}, TypeError, "common_random_numbers must be True or False"),
        (TWO, {"seeds": None}, TypeError, "seeds must be an integer, got None"),
        (TWO, {"seeds": 0}, ValueError, "seeds must be at least 1, got 0"),
        (TWO, {"seeds": 4, "key": GRID[0]}, ValueError, r"key must be one key, got shape \(4,\)"),
        (TWO, {"seeds": 4, "key": 0}, TypeError, "key must be a typed key"),
    ],
)  # fmt: skip
def test_sweep_names_what_it_refuses(configs, options, error, message):
    with pytest.raises(error, match=message):
        sweep(configs, **group_options(**options))


def dp_gd_config(**changes):
    options = {"users": 5, "steps": 3, "mu": 1.0, "bounds": [(0.0, 1.0)] * 3, "clip_norm": 1.0, "step_size": 0.1}
    return dp_gd.config(**options | changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"steps": 4}, r"got noise.steps=3 and 4 in configs\[0\] and configs\[2\]"),
        ({"users": 6}, r"got noise.users=5 and 6 in"),
        ({"bounds": [(0.0, 1.0)] * 4}, r"got noise.dimension=3 and 4 in"),
        ({"optimizer": optax.adagrad}, r"got optimizer=sgd and adagrad in"),
    ],
)
def test_configs_that_cannot_be_stacked_are_told_which_field_differs(changes, said):
    """Before: "share their static fields, got 3", or a message of jnp.stack."""
    configs = [dp_gd_config(), dp_gd_config(mu=2.0), dp_gd_config(**changes)]
    with pytest.raises(ValueError, match=said):
        drivers.sweep(dp_gd.algorithm, dp_gd.gradient_objective(loss), records(), configs, seeds=2)
    boxes = [random_search.config(users=5, steps=3, bounds=[(0.0, 1.0)] * sides) for sides in (1, 3)]
    with pytest.raises(ValueError, match=r"got bounds of shape float64\[2, 1\] and float64\[2, 3\] in configs"):
        drivers.sweep(random_search.algorithm, loss, records(), boxes, seeds=2)


# Trap 34: two budgets with one key. Exact noise is the same integers under every budget, and cancels.
MUS, COUNT = (0.04, 0.1), 200
DATA = np.random.default_rng(0).normal(size=COUNT)


def squares(point, data):
    return 0.5 * jnp.square(data - point[0])


def two_budgets(**options):
    """What was released, in whole units of each config's grid ``(2, s)``, and what each says of itself."""
    configs = [
        dp_gd.config(users=COUNT, steps=1, mu=mu, bounds=[[-np.inf], [np.inf]], theta0=[0.0], step_size=1.0)
        for mu in MUS
    ]
    swept = drivers.sweep(
        dp_gd.algorithm, dp_gd.gradient_objective(squares), jnp.asarray(DATA), configs, **group_options(**options)
    )
    units = [clipping.grid_step(config.clip_norm, config.noise.radius, 1) / COUNT for config in configs]
    moved = -np.asarray(swept.release.point)[..., 0] / np.array(units)[:, None]
    np.testing.assert_allclose(moved, np.rint(moved), atol=1e-6)
    reach = [float(clipping.reach(config.noise.radius, 1, jnp.float64)) for config in configs]
    return np.rint(moved), reach, swept.guarantees


CLIPPED = np.clip(-DATA, -1.0, 1.0)


def subtracted(whole, reach):
    """The noise is gone: the difference of two sums of the same clipped gradients, on two grids."""
    return whole[1] - whole[0], np.sum(np.rint(CLIPPED * reach[1])) - np.sum(np.rint(CLIPPED * reach[0]))


@pytest.mark.parametrize("key", [{}, {"key": KEY}], ids=["operating system", "one key"])
def test_two_budgets_of_a_sweep_share_no_noise(key, trials):
    """One key for both gave the sum of the clipped gradients to the last unit, in every trial (trap 34)."""
    seeds = trials("pairs of budgets of one sweep, subtracted", 5, 320, 0)
    whole, reach, guarantees = two_budgets(seeds=seeds, **key)
    found, exact = subtracted(whole, reach)
    assert np.mean(found == exact) <= 0.2
    noise = whole - np.array([np.sum(np.rint(CLIPPED * each)) for each in reach])[:, None]
    assert len(np.unique(noise)) >= 0.8 * noise.size  # a key for every run; 4,096 wide: three equal pairs of 10, 1e-8
    np.testing.assert_allclose([each.level for each in guarantees], MUS, rtol=0.03)
    assert all((assumptions.KEY_SECRET in each.assumptions) == bool(key) for each in guarantees)
    assert all((assumptions.WEAK_KEY in each.assumptions) == bool(key) for each in guarantees)
    assert all((assumptions.RANDOM_BITS in each.assumptions) != bool(key) for each in guarantees)


@pytest.mark.parametrize("options", [{}, {"key": KEY}], ids=["operating system", "one key"])
def test_common_random_numbers_are_an_attack_and_say_so(options):
    whole, reach, guarantees = two_budgets(seeds=5, common_random_numbers=True, **options)
    found, exact = subtracted(whole, reach)
    assert np.all(found == exact)
    np.testing.assert_allclose(found / (reach[1] - reach[0]), np.sum(CLIPPED), rtol=0.02)  # rounding to whole units
    assert [each.notion for each in guarantees] == ["none", "none"]
    assert all("the same key for several configs" in each.no_guarantee_reason for each in guarantees)


ON_THREE_DEVICES = """
import os
import jax, numpy as np
import jax.numpy as jnp
from protocol_cases import CASES, loss, records
from jaxdpbo import drivers
assert jax.local_device_count() == 3
case, key = CASES["random_search"], jax.random.key(0)
def sweep(policy):
    configs = [case.config(s) for s in (0.7, 1.6)]
    return drivers.sweep(case.algorithm, loss, records(), configs, seeds=4, key=key, policy=policy)
spread, mapped = sweep("shard"), sweep("map")
jax.tree.map(np.testing.assert_array_equal, spread.release, mapped.release)
with jax.set_mesh(jax.make_mesh((3,), ("callers",))):
    jax.tree.map(np.testing.assert_array_equal, spread.release, sweep("shard").release)

def where(each, shared):
    return jax.lax.axis_index("runs")
shares = [0, 0, 0, 1, 1, 1, 2]
assert list(drivers.distribute(where, np.arange(7), policy="shard")) == shares

def factors(each, shared):
    made = 100.0 * jnp.eye(80) + jnp.arange(11.0)[:, None, None]
    def again(carry, _):
        return carry + jnp.sum(jnp.linalg.cholesky(made + carry * 1e-9)), None
    return jax.lax.scan(again, each * 0.0, length=100)[0]
assert np.all(np.isfinite(drivers.distribute(factors, jnp.ones(6), policy="shard")))  # hangs without spare threads
assert list(drivers.distribute(where, np.arange(7))) == shares
os.environ["NPROC"] = "3"  # too late for XLA, but it is what the default goes by
def anywhere(each, shared):
    return 2 * each
import importlib; importlib.import_module("jaxdpbo.drivers.seed_sweep")._run_in_shares = None
assert list(drivers.distribute(anywhere, np.arange(3))) == [0, 2, 4]
print("same on every device")
"""


def test_runs_are_spread_over_the_devices_there_are():
    """And factor batches of matrices there; without spare threads the default spreads nothing."""
    root = Path(__file__).parent.parent
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
        "NPROC": "6",
        "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests'}",
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", ON_THREE_DEVICES], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "same on every device" in done.stdout, done.stderr

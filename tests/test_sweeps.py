"""Sweeps: every policy gives what single runs give, in one compilation, spread over devices where there are several."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, loss, records

from jaxdpbo import drivers
from jaxdpbo.drivers import sweeps
from jaxdpbo.privacy import guarantee

CASE = CASES["dp_gibo"]
SCALES = (0.7, 1.0, 1.6)
KEYS = jax.random.split(jax.random.key(0), 4)


def sweep(configs, keys=KEYS, **options):
    return drivers.sweep(CASE.algorithm, loss, records(), configs, keys, **options)


@pytest.mark.parametrize("policy", sweeps.POLICIES)
def test_a_sweep_is_the_runs_it_stands_for(policy):
    configs = [CASE.config(scale) for scale in SCALES]
    swept = sweep(configs, policy=policy)
    for row, config in enumerate(configs):
        for column, key in enumerate(KEYS):
            alone = drivers.run_scan(CASE.algorithm, loss, records(), config, key=key, insecure_key=True)
            each = jax.tree.map(lambda leaf, at=(row, column): leaf[at], swept.release)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), each, alone.release)
        assert swept.guarantees[row] == alone.guarantee
    assert swept.failed.shape == (len(SCALES), len(KEYS))
    assert not np.any(swept.failed)


def test_one_config_has_no_axis_of_configs():
    one, listed = sweep(CASE.config(1.0)), sweep([CASE.config(1.0)])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[0]), one.release, listed.release)
    assert guarantee.KEY_SECRET in one.guarantees[0].holds_if


def test_twenty_budgets_compile_once(compilations):
    keys = [jax.random.split(jax.random.key(seed), 4) for seed in (0, 1)]
    sweep([CASE.config(scale) for scale in np.linspace(0.5, 1.0, 20)], keys[0])
    compilations.clear()
    sweep([CASE.config(scale) for scale in np.linspace(1.0, 2.0, 20)], keys[1])
    assert compilations["programs"] == 0


def test_a_failed_factorisation_is_flagged_run_by_run():
    case = CASES["dp_gibo"]
    fine, broken = case.config(1.0), case.config(1.0)
    variance = jnp.asarray(-1.0)  # no kernel: its covariance can not be factored
    params = type(broken.prior.params)(broken.prior.params.lengthscale, variance)
    prior = type(broken.prior)(broken.prior.kernel, params, broken.prior.noise_variance)
    broken = type(broken)(**{**{name: getattr(broken, name) for name in broken.__dataclass_fields__}, "prior": prior})
    np.testing.assert_array_equal(sweep([fine, broken], KEYS[:2]).failed, [[False, False], [True, True]])


def test_memory_does_not_grow_with_the_number_of_runs(monkeypatch):
    """However many the runs, no call has more than ``CALL_RUNS`` on a device."""
    sizes, call = [], sweeps._in_turn

    def watched(function, policy, inputs, shared):
        sizes.append(len(inputs["x"]))
        return call(function, policy, inputs, shared)

    monkeypatch.setattr(sweeps, "_in_turn", watched)
    for runs in (1, 64, 65, 1000):
        sizes.clear()
        inputs = {"x": jnp.arange(float(runs)), "key": jax.random.split(jax.random.key(3), runs)}
        drivers.distribute(cost, inputs, 1.0, policy="map")
        assert max(sizes) <= sweeps.CALL_RUNS
        assert len(set(sizes)) == 1  # one compilation
        assert sum(sizes) < runs + len(sizes)


def cost(each, shared):
    return each["x"] * shared, jax.random.normal(each["key"])


@pytest.mark.parametrize("policy", sweeps.POLICIES)
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


@pytest.mark.parametrize(
    ("configs", "keys", "error", "message"),
    [
        ([], KEYS, ValueError, "configs must be at least one"),
        ([CASE.config(1.0), CASES["random_search"].config(1.0)], KEYS, ValueError, "differ in traced numbers only"),
        (CASE.config(1.0), KEYS[0], ValueError, r"keys must be keys of shape \(s,\)"),
        (CASE.config(1.0), KEYS[:0], ValueError, r"keys must be keys of shape \(s,\)"),
        (CASE.config(1.0), np.arange(4), TypeError, "keys must be a typed key"),
    ],
)
def test_sweep_names_what_it_refuses(configs, keys, error, message):
    with pytest.raises(error, match=message):
        sweep(configs, keys)


ON_THREE_DEVICES = """
import os
import jax, numpy as np
import jax.numpy as jnp
from protocol_cases import CASES, loss, records
from jaxdpbo import drivers
assert jax.local_device_count() == 3
case, keys = CASES["random_search"], jax.random.split(jax.random.key(0), 4)
def sweep(policy):
    return drivers.sweep(case.algorithm, loss, records(), [case.config(s) for s in (0.7, 1.6)], keys, policy=policy)
spread, mapped = sweep("shard"), sweep("map")
jax.tree.map(np.testing.assert_array_equal, spread.release, mapped.release)

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
drivers.sweeps._in_shares = None
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

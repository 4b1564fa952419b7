"""``pure_run`` under JAX's own transformations: exported, compiled ahead of time, mapped over devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from protocol_cases import CASES, records

from jaxdpbo import drivers
from jaxdpbo.drivers import sharding

CASE = CASES["dp_gd"]


def point(config, data, key):
    return drivers.pure_run(CASE.algorithm, CASE.objective, data, config, key)[0].point


def arguments(scale=1.0, seed=0):
    return CASE.config(scale), jnp.asarray(records()), jax.random.key(seed)


def test_an_exported_and_a_compiled_run_are_the_run_itself():
    """Traced once; other budgets, data and keys pass through the same program."""
    exported = export.export(jax.jit(point))(*arguments())
    compiled = jax.jit(point).lower(*arguments()).compile()
    for given in (arguments(), arguments(0.7, 3)):
        expected = np.asarray(jax.jit(point)(*given))
        np.testing.assert_array_equal(exported.call(*given), expected)
        np.testing.assert_array_equal(compiled(*given), expected)
    assert np.all(point(*arguments()) != point(*arguments(0.7, 3)))


def on_mesh(kind, keys):
    mesh = Mesh(np.asarray(jax.devices()[:1]), ("runs",), axis_types=(kind,))
    return jax.device_put(keys, NamedSharding(mesh, PartitionSpec("runs")))


def test_a_mesh_of_the_default_kind_is_refused_by_a_sentence_and_the_named_kind_works():
    config, data, key = arguments()
    keys = jax.random.split(key, 2)
    several = jax.jit(jax.vmap(point, (None, None, 0)))
    with pytest.raises(
        ValueError, match=r"key and data must lie on a mesh with axes of kind Auto: make it by .*'runs',"
    ):
        several(config, data, on_mesh(AxisType.Explicit, keys))
    found = several(config, data, on_mesh(AxisType.Auto, keys))
    np.testing.assert_allclose(found, several(config, data, keys), rtol=1e-12)


def test_an_error_that_is_not_of_a_mesh_is_left_as_it_is():
    explicit = on_mesh(AxisType.Explicit, jnp.zeros(2))
    sharding.refuse_explicit_axes(explicit, TypeError("objective must return real numbers"))
    sharding.refuse_explicit_axes(jnp.zeros(2), ValueError("a sharding"))
    with pytest.raises(ValueError, match="kind Auto"):
        sharding.refuse_explicit_axes(explicit, ValueError("a sharding"))


def test_a_sweep_and_a_run_return_arrays_of_one_type(float32):
    config, data, key = arguments()
    options = {"key": key, "insecure_key": True}
    run = drivers.run_scan(CASE.algorithm, CASE.objective, data, config, **options).release
    swept = drivers.sweep(CASE.algorithm, CASE.objective, data, config, seeds=2, key=key)
    for one, many in zip(jax.tree.leaves(run), jax.tree.leaves(swept.release), strict=True):
        assert type(one) is type(many) is np.ndarray
        assert one.dtype == many.dtype
        assert many.shape == (2, *one.shape)
    assert type(swept.failed) is np.ndarray

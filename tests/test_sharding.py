"""Users on several devices and processes: the release is that of one device, bit by bit, and sums alone travel."""

import json
import os
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import protocol_cases
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jaxdpbo import drivers
from jaxdpbo.drivers import result, sharding
from jaxdpbo.noise import clipping

PROGRAM = Path(__file__).parent / "mesh_cases.py"
ALONE = Mesh(np.asarray(jax.devices()[:1]).reshape(1, 1), ("a", "b"))


def started(*arguments):
    """Of several processes each has one device; one alone has eight."""
    count = 8 if arguments[1] == 1 else 1
    environment = os.environ | {
        "PYTHONPATH": f"{PROGRAM.parents[1]}{os.pathsep}{PROGRAM.parent}",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}",
        "JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "NPROC": "16",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, PROGRAM, *map(str, arguments)], env=environment, stdout=subprocess.PIPE, text=True
    )


def said(process):
    lines = process.communicate(timeout=600)[0].splitlines()
    assert process.returncode == 0
    return json.loads(lines[-1])


@pytest.fixture(scope="module")
def full(request):
    return ["full"] if request.config.getoption("--full") else []


@pytest.fixture(scope="module")
def devices(full):
    return said(started(0, 1, 0, *full))


def test_a_release_is_bit_identical_on_any_number_of_devices(devices, trials):
    compared = 0
    for name, (whole, *spread) in ((name, tuple(of.values())) for name, of in devices["runs"].items()):
        assert all(each == whole for each in spread), name
        compared += len(spread)
    assert devices["explicit"] == devices["runs"]["dp_gibo"]["0"]
    assert compared == trials("releases on 1 to 8 devices, each against that of one", 3, 28, seed=0)


def test_a_sweep_spreads_users_and_runs(devices):
    users, both = devices["sweeps"]
    assert users == both
    alone, _ = devices["first of a sweep"]
    assert [leaf[0] for leaf in users] == alone
    assert users[0][0] != users[0][1]


def test_a_device_that_the_caller_names_is_the_only_one(devices):
    places, (run, *swept) = devices["default"]
    assert places == [3]
    assert all(each == run for each in swept)


def test_what_passes_between_devices_is_a_sum(devices):
    """And a mean loss, of the raw diagnostics."""
    shapes = [shape.partition("{")[0] for shape, _ in devices["moved"]]
    assert {operation for _, operation in devices["moved"]} == {"all-reduce"}
    assert [shape for shape in shapes if shape.startswith("s32")] == ["s32[4,2]"]  # limbs
    assert str(8 * clipping.CHUNK) not in str(shapes)


def test_chunks_of_other_sizes_round_alike(devices):
    """A backend whose product depends on the shape would move users who are on a rounding boundary, one unit each."""
    assert devices["rounded"] <= 2


def test_two_processes_release_what_one_does(devices):
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
    processes = [started(rank, 2, port) for rank in range(2)]
    first, second = map(said, processes)
    assert first == second
    assert first["given"] == [devices["runs"]["dp_gibo"]["0"][0], True]
    assert devices["runs"]["dp_gibo"]["0"][1] is False
    one, other = first["drawn"]
    assert one != other
    assert one[0] != first["given"][0]
    assert first["copied"][1]  # and equal on both, so one noise: a sum with two would be the sum
    assert len(first["refused"]) == 6
    assert all("must not be given users on several processes" in each for each in first["refused"])


def placed(spec, of=ALONE, shape=(4, 2)):
    return jax.device_put(jnp.zeros(shape), NamedSharding(of, spec))


@pytest.mark.parametrize("spec", [PartitionSpec("a", "b"), PartitionSpec(("a", "b")), PartitionSpec(None, "b")])
def test_data_are_spread_over_users_alone(spec):
    dimensions = [number for number, entry in enumerate(spec) if entry]
    data = {"rows": placed(spec), "public": np.ones(3)}
    if len(dimensions) > 1:
        with pytest.raises(ValueError, match="along the axis of users alone, got"):
            sharding.place_users(data)
        return
    found = sharding.place_users(data)
    assert found["rows"].sharding.spec == PartitionSpec(*[None] * dimensions[0], sharding.USERS_AXIS)
    assert found["public"].sharding.spec == PartitionSpec()
    assert sharding.find_mesh(found).axis_names == (sharding.USERS_AXIS, sharding.RUNS_AXIS)
    assert sharding.place_users(found)["rows"].sharding == found["rows"].sharding


def test_axes_of_one_leaf_are_axes_of_all():
    with pytest.raises(ValueError, match="along the axis of users alone"):
        sharding.place_users([placed(PartitionSpec("a")), placed(PartitionSpec("b"))])


@dataclass(frozen=True)
class Device:
    """As much of a device as a mesh needs."""

    id: int


def test_each_part_of_the_users_has_the_devices_of_its_row():
    """Devices a row of the mesh apart hold other users, those of a row copies of the same users."""
    devices = np.array([Device(number) for number in range(6)], object).reshape(3, 2)
    for names, expected in (({"b"}, [[0, 2, 4], [1, 3, 5]]), ({"a"}, [[0, 1], [2, 3], [4, 5]])):
        found = sharding._mesh(Mesh(devices, ("a", "b")), names)
        assert [[device.id for device in row] for row in found.devices] == expected


def test_data_that_are_not_sharded_stay_as_they_are():
    data = {"rows": np.ones((3, 2)), "more": jnp.ones(3)}
    assert sharding.place_users(data) is data
    assert sharding.find_mesh(data) is None


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_mesh_of_one_device_is_a_run_as_any(kind):
    case, records = protocol_cases.CASES["random_search"], protocol_cases.records()
    key = jax.random.key(0)
    of = Mesh(np.asarray(jax.devices()[:1]), ("a",), axis_types=(kind,))
    spread = jax.device_put(records, NamedSharding(of, PartitionSpec("a")))
    given = case.algorithm, case.objective

    def runs(data, key):
        config = case.config(1.0)
        run = drivers.run_scan(*given, data, config, key=key).release.point
        swept = drivers.sweep(*given, data, config, seeds=1, key=key).release.point
        return [np.asarray(run + 0), np.asarray(swept[0])]  # either can be gone on with

    alone = runs(records, key)
    np.testing.assert_array_equal(runs(spread, key), alone)
    with jax.set_mesh(of):  # on which keys and configs are made
        np.testing.assert_array_equal(runs(spread, jax.random.key(0)), alone)


def test_leaves_on_other_meshes_are_refused_by_name():
    other = Mesh(ALONE.devices, ("c", "d"))
    with pytest.raises(ValueError, match="data must lie on one mesh"):
        sharding.place_users([placed(PartitionSpec("a")), placed(PartitionSpec("c"), other)])


@pytest.mark.parametrize("rows", [["a name", 1.0], [1 << 70, 1.0]])
def test_beside_sharded_leaves_too_a_value_is_not_quoted(rows):
    """A leaf that is not sharded is put beside them when it is known to be an array."""
    with pytest.raises(TypeError, match=r"^data must not hold lists") as caught:
        result.to_arrays((placed(PartitionSpec("a")), rows))
    assert caught.value.__context__ is None
    assert "a name" not in str(caught.value)


def test_beside_sharded_leaves_too_a_value_does_not_warn(recwarn):
    with jax.enable_x64(False):
        found = result.to_arrays((placed(PartitionSpec("a")), np.array([1e300, 1.0])))
    assert np.isinf(found[1][0])
    assert not list(recwarn)

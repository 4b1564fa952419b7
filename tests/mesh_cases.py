"""Users on several devices or processes, in a process of its own: ``mesh_cases.py RANK WORLD PORT [full]``.

Prints a line of JSON.
"""

import json
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import protocol_cases
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from option_groups import group_options
from oracles import integers

from jaxdpbo import drivers
from jaxdpbo.drivers import scan, sharding
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import clipping, keys

RANK, WORLD, PORT = map(int, sys.argv[1:4])
USERS = protocol_cases.USERS = 8 * clipping.CHUNK  # in chunks of one size, on whatever devices
RECORDS = np.random.default_rng(0).normal(size=(USERS, protocol_cases.DIMENSION))
FEW = {"dp_gibo": (0, 8), "dp_gd": (0, 2, 8)}  # 0: no mesh
MORE = (
    "choices around DP-GIBO",
    "dp_gibo, nearest",
    "dp_gibo, recent, private clip",
    "private evaluations",
    "DP-GIBO, then an estimate",
)
MOVED = re.compile(r"= (\S+) (all-gather|all-to-all|collective-permute|all-reduce)\(")


def key():
    """A function: before ``jax.distributed`` begins nothing may be computed."""
    return keys.key_from_bytes(bytes(range(32)))


def spread(count, kind=AxisType.Auto, copies=1, of=RECORDS, spec=PartitionSpec("x")):  # noqa: B008
    """Over so many devices, as a caller may; with an empty ``spec`` a copy on each."""
    shape, names = ((count,), ("x",)) if copies == 1 else ((copies, count), ("y", "x"))
    devices = np.reshape(jax.devices()[: count * copies], shape)
    place = NamedSharding(Mesh(devices, names, axis_types=(kind,) * len(names)), spec)
    own = len(of) // WORLD
    return jax.make_array_from_process_local_data(place, of[RANK * own : (RANK + 1) * own] if spec else of)


def leaves(tree):
    return [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(tree)]


def released(name, data, **options):
    case = protocol_cases.CASES[name]
    run = drivers.run_scan(case.algorithm, case.objective, data, case.config(1.0), **group_options(**options))
    return leaves(run.release), assumptions.WIRE in run.guarantee.assumptions


def swept(data, policy):
    case = protocol_cases.CASES["dp_gibo"]
    options = {"seeds": 4, "policy": policy, "key": key()}
    done = drivers.sweep(case.algorithm, case.objective, data, case.config(1.0), **options)
    return leaves(done.release)


def at_default():
    """A run and a sweep where the caller names one device of several: on which they end, and what they release."""
    case = protocol_cases.CASES["random_search"]
    given = case.algorithm, case.objective, RECORDS, case.config(1.0)
    with jax.default_device(jax.devices()[3]):
        of_run = jax.random.split(key(), (1, 1))[0, 0]
        run = drivers.run_scan(*given, key=of_run, diagnostics=True)
        options = {"seeds": 1, "key": key()}
        done = [drivers.sweep(*given, policy=policy, **options).release for policy in (None, "shard")]
    places = {device.id for leaf in jax.tree.leaves(run.diagnostics.state) for device in leaf.devices()}
    return sorted(places), [leaves(run.release), *([leaf[0] for leaf in leaves(each)] for each in done)]


def moved(data):
    """What passes from device to device in a run: shapes and operations."""
    case, data = protocol_cases.CASES["dp_gibo"], sharding.place_users(data)
    run = scan._scan
    with sharding.use_mesh(sharding.find_mesh(data)):
        program = run.lower(case.algorithm, case.objective, data, case.config(1.0), key()).compile()
    return MOVED.findall(program.as_text())


def summed(weights, losses):
    def own(weights, losses):
        return clipping.weighted_clipped_sum(weights, losses, jnp.asarray(1.0), jnp.asarray(40_000, jnp.int32))[0], ()

    return sharding.sum_over_users(own, weights, losses)[0]


def rounded():
    """Of users in chunks of other sizes: by how much sums of whole numbers differ."""
    rng = np.random.default_rng(1)
    weights, losses = jnp.asarray(rng.normal(size=(20, 3))), rng.normal(size=(20, 8 * 600))
    found = []
    for count in (1, 2, 4, 8):
        data = sharding.place_users(spread(count, of=losses.T))
        with sharding.use_mesh(sharding.find_mesh(data)):
            total = jax.jit(summed)(weights, data.T)
        found.append(integers.value(*total))
    return int(np.max(np.abs(np.array(found) - found[0])))


def alone(data):
    """Calls that would draw, or charge, in each process for itself."""
    case = protocol_cases.CASES["dp_gibo"]
    wanted = case.algorithm, case.objective, data, case.config(1.0)
    return [
        lambda: drivers.run_loop(*wanted),
        lambda: drivers.run_scan(*wanted, ledger=drivers.Recording("nowhere", "run")),
        lambda: drivers.PrivateObjective(
            case.objective, data, users=USERS, mu=1.0, evaluations=1, loss_range=(0.0, 1.0)
        ),
    ]


def refused(call):
    try:
        call()
    except ValueError as error:
        return str(error)


def main():
    if WORLD > 1:
        jax.distributed.initialize(f"127.0.0.1:{PORT}", WORLD, RANK)
        data, copied = spread(WORLD), spread(WORLD, spec=PartitionSpec())
        return {
            "given": released("dp_gibo", data, key=key()),
            "drawn": [released("dp_gibo", data) for _ in range(2)],
            "copied": released("dp_gd", copied),
            "refused": [refused(call) for users in (data, copied) for call in alone(users)],
        }
    wanted = dict.fromkeys((*FEW, *MORE), (0, 1, 2, 4, 8)) if sys.argv[4:] == ["full"] else FEW
    return {
        "runs": {
            name: {count: released(name, spread(count) if count else RECORDS, key=key()) for count in counts}
            for name, counts in wanted.items()
        },
        "explicit": released("dp_gibo", spread(8, AxisType.Explicit), key=key()),
        "first of a sweep": released("dp_gibo", RECORDS, key=jax.random.split(key(), (1, 4))[0, 0]),
        "sweeps": [swept(spread(8), "map"), swept(spread(4, copies=2), "shard")],
        "default": at_default(),
        "moved": moved(spread(8)),
        "rounded": rounded(),
    }


if __name__ == "__main__":
    print(json.dumps(main()))

"""Nothing compiles in a second identical call: keys, noise and loops on the host reuse their programs."""

import json
import socket
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, records
from transform_cases import KINDS

from jaxdpbo import drivers, ledger, outsourcing, space, transforms
from jaxdpbo.integrations.sklearn import PrivateClassifier
from jaxdpbo.noise import keys


def loop_over(name):
    case = CASES[name]

    def objective(point, data):
        return np.asarray(case.objective(jnp.asarray(point), data))

    return lambda _: drivers.run_loop(case.algorithm, objective, jnp.asarray(records()), case.config(1.0))


def loop_on_record(folder):
    case, path = CASES["dp_gd"], folder / "ledger.jsonl"
    statement = case.algorithm.privacy(case.config(1.0))
    if not path.exists():
        ledger.create(path, notion="gdp", level=2, relation="replace_one", protects=statement.protects)
    run = f"run {len(ledger.account(path).spends)}"
    for _ in range(2):  # and given out again
        given = case.algorithm, case.objective, jnp.asarray(records()), case.config(1.0)
        drivers.run_loop(*given, ledger=drivers.Recording(path, run))


def private_objective(_):
    objective = drivers.PrivateObjective(
        lambda point, data: data * point, np.linspace(0, 1, 6), users=6, mu=0.5, evaluations=3, loss_range=(0, 4)
    )
    for point in (0.25, 0.5, 0.75):
        objective(point)


def conversation(folder):
    """A curator and a modeler who ask each other for six rows."""
    number = len(list(folder.iterdir()))
    path = folder / f"released {number}"
    outsourcing.publish(path, transforms.curate(None, KINDS["planar_laplace"], records()))
    published = outsourcing.read_publication(path)
    ours, theirs = socket.socketpair()
    with ours, theirs, outsourcing.open_journal(folder / f"record {number}", published, b"x", 4) as record:
        near, far = (end.makefile("rw") for end in (ours, theirs))
        thread = threading.Thread(
            target=outsourcing.serve,
            args=(record, lambda row: row, outsourcing.read_lines(near), outsourcing.sender(near)),
        )
        thread.start()
        options = {"lengthscale": 1.0, "noise_variance": 1e-3}
        outsourcing.search(published, outsourcing.read_lines(far), outsourcing.sender(far), **options)
        thread.join(timeout=60)


def split_and_folded(_):
    key = keys.secret_key()
    for step in range(3):
        one, two = jax.random.split(jax.random.fold_in(key, step))
        jax.random.bits(one, (3,)), jax.random.split(two, 5)


def model_of_a_table(_):
    rows = np.linspace(0, 1, 60).reshape(-1, 2)
    PrivateClassifier(space.real(0, 1), classes=(0, 1), epsilon=5, delta=1e-3).fit(rows, np.arange(30) % 2)


CALLS = {
    "PrivateClassifier": model_of_a_table,
    "keys": split_and_folded,
    **{f"run_loop, {name}": loop_over(name) for name in ("dp_gibo", "dp_gp_ucb, in order", "dpareto")},
    "run_loop on record": loop_on_record,
    "PrivateObjective": private_objective,
    **{f"curate, {kind}": lambda _, kind=kind: transforms.curate(None, KINDS[kind], records()) for kind in KINDS},
    "serve and search": conversation,
}


@pytest.mark.parametrize("name", CALLS)
def test_nothing_compiles_in_a_second_identical_call(name, tmp_path, compilations):
    CALLS[name](tmp_path)
    compilations.clear()
    CALLS[name](tmp_path)
    assert compilations["programs"] == 0


def test_what_compiles_is_counted(compilations):
    before = json.dumps(compilations)
    jax.jit(lambda x: x + len(before))(1.0)
    assert compilations["programs"] == 1

"""Every program lowers for NVIDIA GPUs and for TPUs, from a machine that has neither.

Every case of every public function that takes keys or users' values runs here, and each program that JAX lowers for the
CPU meanwhile is lowered by ``jax.export`` for the other platforms too: an operation without a rule there, or a call of
a library of CPUs, fails. Whether the results agree is a matter of running them (``scripts/test --device gpu``).
"""

import jax
import jax.numpy as jnp
import neighbour_cases
import pytest
from jax import export
from jax._src.interpreters import pxla  # no public hook tells which programs are lowered
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from key_cases import KEY_CASES

from jaxdpbo import secret_key

PLATFORMS = ("cuda", "tpu")
# The cache does not tell programs with most optimisations from those without.
QUICKLY = {
    "jax_disable_most_optimizations": True,
    "jax_enable_compilation_cache": jax.config.values["jax_disable_most_optimizations"],
}
SEEN: set[tuple[str, str, int]] = set()
RUNS = {
    **{name: lambda case=case: case.run(secret_key()) for name, case in KEY_CASES.items()},
    **{
        f"{name}, of users' values": lambda point=point: point.enter(
            list(neighbour_cases.USUAL * 2)[: point.counts[-1]]
        )
        for name, point in neighbour_cases.POINTS.items()
    },
}


@pytest.fixture(scope="module", autouse=True)
def quickly():
    """Compile for this machine without most optimisations: nothing here is about its results.

    What another module compiled in this process is lowered again.
    """
    before = {name: jax.config.values[name] for name in QUICKLY}
    jax.clear_caches()
    for name, value in QUICKLY.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    jax.clear_caches()


@pytest.fixture
def programs(monkeypatch):
    """All programs that are lowered meanwhile and were not before, by name."""
    found: list[tuple[str, ClosedJaxpr]] = []
    real = pxla.lower_sharding_computation

    def lower(program, api, name, *arguments, **options):
        found.append((name, program))
        return real(program, api, name, *arguments, **options)

    monkeypatch.setattr(pxla, "lower_sharding_computation", lower)
    return found


def unseen(name: str, program: ClosedJaxpr) -> bool:
    kind = name, str(program.in_avals), len(program.eqns)
    seen, _ = kind in SEEN, SEEN.add(kind)
    return not seen


def lower_elsewhere(program: ClosedJaxpr) -> None:
    arguments = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in program.in_avals]
    export.export(jax.jit(jaxpr_as_fun(program)), platforms=PLATFORMS)(*arguments)


@pytest.mark.parametrize("name", RUNS)
def test_every_program_lowers_for_accelerators(name, programs):
    RUNS[name]()
    fresh = [program for kind, program in programs if unseen(kind, program)]
    for program in fresh:
        lower_elsewhere(program)


def test_something_was_lowered():
    """Two hundred programs, when every case ran."""
    assert len(SEEN) > 200


def test_a_program_that_calls_a_library_of_cpus_does_not_lower():
    def call(x):
        return jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct((), x.dtype))(x)

    with pytest.raises(ValueError, match="custom call"):
        lower_elsewhere(jax.make_jaxpr(call)(jnp.zeros(())))

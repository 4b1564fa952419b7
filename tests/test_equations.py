"""Equations of releases of JAX to come: what nobody has read is refused by a sentence, and never passes."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr

from jaxdpbo import separable
from jaxdpbo.separable import equations
from jaxdpbo.separable import separability_check as check_module
from jaxdpbo.separable.taints import OWN, UserSlices

USERS = 3
ROWS = jnp.asarray(np.random.default_rng(0).uniform(0.5, 2.0, (USERS, USERS)))
UNKNOWN = r"of a JAX release that this version of jaxdpbo does not know, \d+\.\d+"


def solve(x):
    return jax.lax.custom_linear_solve(lambda v: 2.0 * v, x, lambda _, right: right / 2.0)


PROGRAMS = {
    "scan": lambda x: jax.lax.scan(lambda c, y: (c + y, c), jnp.zeros(USERS), x)[0],
    "while": lambda x: jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1],
    "cond": lambda x: jax.lax.cond(jnp.zeros(()) < 1, jnp.sin, jnp.cos, x),
    "custom_linear_solve": solve,
    "jit": jax.jit(lambda x: x * 2),
    "remat2": jax.checkpoint(lambda x: jnp.sin(x)),
    "custom_jvp_call": jax.nn.relu,
    "reduce_sum": lambda x: x.sum(1),
    "sort": lambda x: jnp.asarray(jax.lax.sort(x, dimension=1)),
    "gather": lambda x: x.at[:, 1].get(mode="fill", fill_value=0.0),
    "dot_general": lambda x: jax.lax.dot_general(x, jnp.eye(USERS), (((1,), (0,)), ((), ()))),
    "exp": jnp.exp,
    "neg": jnp.negative,
}  # fmt: skip
AXIS = {"scan": 1}  # a scan along users is a loop over users


def trace(name):
    with jax.numpy_rank_promotion("allow"):
        return jax.make_jaxpr(PROGRAMS[name])(ROWS)


def changed(closed, name, change):
    """The program with other parameters in its equations of a name, at any depth."""

    def of(program):
        if isinstance(program, ClosedJaxpr) and program.jaxpr is not program:  # one class since JAX 0.12
            return ClosedJaxpr(of(program.jaxpr), program.consts)
        return program.replace(eqns=[of_equation(equation) for equation in program.eqns])

    def of_equation(equation):
        if equation.primitive.name == name:
            return equation.replace(params=change(dict(equation.params)))
        inside = {key: of(value) for key, value in equation.params.items() if equations.is_program(value)}
        return equation.replace(params=dict(equation.params) | inside)

    return of(closed)


def judge(closed, name, mapped):
    taint = OWN if mapped else UserSlices(AXIS.get(name, 0))
    return check_module._guard(closed, [taint], check_module._Walk(USERS, mapped=mapped))


def renamed(params):
    return {f"{name}_of_users": value for name, value in params.items()}


def with_another(params):
    return params | {"across_users": True}


def without_one(params):
    return dict(sorted(params.items())[:-1])


@pytest.mark.parametrize("mapped", [False, True], ids=["all", "one"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_operation_with_unknown_parameters_is_refused(name, mapped):
    closed = trace(name)
    judge(closed, name, mapped)  # taken as this release writes it
    judge(changed(closed, name, lambda params: params), name, mapped)
    for change in (with_another, renamed, without_one):
        if change is with_another or any(
            equation.params for equation in closed.jaxpr.eqns if equation.primitive.name == name
        ):
            with pytest.raises(separable.NotSeparable, match=rf"{name} of .* has parameters \(.*\) {UNKNOWN}"):
                judge(changed(closed, name, change), name, mapped)


def of_another(name, other):
    """The layout of a loop with the program of another."""

    def change(params):
        (equation,) = [
            equation for equation in jax.make_jaxpr(other)(ROWS).jaxpr.eqns if equation.primitive.name == name
        ]
        programs = {key: value for key, value in params.items() if equations.is_program(value)}
        return dict(equation.params) | programs

    return change


MISFITS = {
    "scan": of_another("scan", lambda x: jax.lax.scan(lambda c, y: (c + y + x[0], c), x[0], x)),
    "while": of_another("while", lambda x: jax.lax.while_loop(lambda c: c[0] < x[0, 0], lambda c: c + x[1], x[0])),
    "cond": lambda params: {**params, "branches": 2 * (jax.make_jaxpr(lambda x, y: x + y)(ROWS, ROWS),)},
    "custom_linear_solve": lambda params: (
        params | {"const_lengths": params["const_lengths"]._replace(solve=params["const_lengths"].solve + 1)}
    ),
    "jit": lambda params: params | {"jaxpr": jax.make_jaxpr(lambda x: x[0])(ROWS)},
}
STRANGE = {
    "scan": lambda params: {key: None if "in" in key or "num" in key else value for key, value in params.items()},
    "while": lambda params: params | {"body_nconsts": "one"},
    "cond": lambda params: params | {"branches": (jnp.sin,)},
    "custom_linear_solve": lambda params: params | {"jaxprs": tuple(params["jaxprs"])},
    "jit": lambda params: params | {"jaxpr": jnp.sin},
}


@pytest.mark.parametrize("changes", [MISFITS, STRANGE], ids=["misfits", "strange"])
@pytest.mark.parametrize("name", MISFITS)
def test_a_layout_that_does_not_fit_the_programs_is_refused(name, changes):
    """Known names, read in another sense: the operands of the equation and of its programs disagree."""
    closed = changed(trace(name), name, changes[name])
    with pytest.raises(separable.NotSeparable, match=rf"{name} of .* has a layout {UNKNOWN}"):
        judge(closed, name, mapped=False)


@pytest.mark.parametrize("name", ["exp", "sort"])
def test_an_unknown_parameter_of_public_numbers_is_taken(name):
    """Nothing of a user goes in: what it does cannot mix users."""
    with jax.numpy_rank_promotion("allow"):
        closed = jax.make_jaxpr(lambda x: x + PROGRAMS[name](jnp.ones((USERS, USERS))))(ROWS)
    judge(changed(closed, name, with_another), name, mapped=False)


def test_every_operation_in_the_table_is_followed():
    assert set(equations._KNOWN) <= check_module.FOLLOWED


def test_a_scan_is_read_alike_in_every_release():
    closed = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, y: (c + y * x[0], c), x[1], x))(ROWS)
    (loop,) = [equation for equation in closed.jaxpr.eqns if equation.primitive.name == "scan"]
    assert equations.read_scan(loop)[1:] == (1, 1)
    assert not equations.find_fault(loop, private=True)


def names_in(closed):
    inside = [names_in(program) for equation in closed.jaxpr.eqns for program in equations.programs_in(equation)]
    return {equation.primitive.name for equation in closed.jaxpr.eqns}.union(*inside)


@pytest.mark.parametrize("mapped", [False, True], ids=["all", "one"])
def test_what_jax_would_write_out_is_written_out_when_it_is_read(mapped):
    """JAX 0.12 keeps a search whole until it compiles, and batches it by a rule that no check reads."""
    search = jax.vmap(lambda row: jnp.searchsorted(jnp.sort(row), jnp.arange(3.0)).astype(float))
    closed = jax.make_jaxpr(search)(ROWS)
    assert (equations.WRITTEN_OUT in names_in(closed)) == (jax.__version_info__ >= (0, 12))
    run, _ = judge(closed, "searchsorted", mapped)
    assert equations.WRITTEN_OUT not in names_in(run)
    np.testing.assert_array_equal(jax.core.eval_jaxpr(run.jaxpr, run.consts, ROWS)[0], search(ROWS))


def test_what_another_writes_out_is_refused():
    """Of a derivative of its own, or of a caller's class, nobody has read the rules."""
    with jax.numpy_dtype_promotion("standard"):
        closed = jax.make_jaxpr(jax.vmap(lambda row: jnp.ldexp(row, 2)))(ROWS)
    refused = pytest.raises(separable.NotSeparable, match="is no operation of JAX that the analysis knows, Ldexp")
    with refused if equations.WRITTEN_OUT in names_in(closed) else contextlib.nullcontext():
        judge(closed, "ldexp", mapped=False)

"""Give decompositions finite matrices only: LAPACK prints two lines for some matrices that hold infinities.

Operations that JAX would write out later, when it compiles, are written out here: the program that was read is the one
that runs.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from jaxdpbo.separable import equations
from jaxdpbo.separable.equations import ClosedJaxpr

DECOMPOSITIONS = "svd", "eigh", "eig", "schur", "hessenberg", "tridiagonal"  # of the last two axes of an operand


def guard(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Rewrite a program so the decomposition of a matrix with a non-finite entry is NaN, and prints nothing.

    The decomposition gets zeros in place of non-finite entries, and its results are replaced by NaN. Each matrix of a
    batch is guarded on its own; results of finite matrices keep their bits. A program without decompositions, and
    without operations to write out, is returned unchanged.
    """
    if not _changes(closed):
        return closed
    return jax.make_jaxpr(lambda *arguments: _run(closed, arguments))(*closed.in_avals)


def _changes(program: ClosedJaxpr) -> bool:
    return any(
        equation.primitive.name in (*DECOMPOSITIONS, equations.WRITTEN_OUT)
        or any(map(_changes, equations.programs_in(equation)))
        for equation in program.jaxpr.eqns
    )


def _run(closed: ClosedJaxpr, arguments: Any) -> list[Any]:
    """Evaluate a program equation by equation, guarded."""
    jaxpr = closed.jaxpr
    values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        values.update(zip(equation.outvars, _apply(equation, values, jaxpr), strict=True))
    return [_read(atom, values) for atom in jaxpr.outvars]


def _read(atom: Var | Literal, values: dict[Var, Any]) -> Any:
    return atom.val if isinstance(atom, Literal) else values[atom]


def _apply(equation: JaxprEqn, values: dict[Var, Any], jaxpr: Jaxpr) -> list[Any]:
    """Evaluate one equation of a program, guarded."""
    name = equation.primitive.name
    if name in DECOMPOSITIONS:
        (atom,) = equation.invars
        assert isinstance(atom, Var)  # literals are scalars
        matrix = values[atom]
        finite = jnp.isfinite(matrix)
        results = _evaluate(equation, {atom: jnp.where(finite, matrix, jnp.zeros_like(matrix))}, jaxpr)
        return [_nan_unless_finite(finite, result) for result in results]
    if name != equations.WRITTEN_OUT and not any(map(_changes, equations.programs_in(equation))):
        return _evaluate(equation, values, jaxpr)
    if name in equations.CALLS:
        return _run(equations.read_call(equation), [_read(atom, values) for atom in equation.invars])
    guarded = jax.tree.map(_guard_parameter, dict(equation.params), is_leaf=equations.is_program)
    return _evaluate(equation.replace(params=guarded), values, jaxpr)


def _evaluate(equation: JaxprEqn, values: dict[Var, Any], jaxpr: Jaxpr) -> list[Any]:
    """Evaluate one equation of a program without a guard."""
    operands = list(dict.fromkeys(atom for atom in equation.invars if not isinstance(atom, Literal)))
    alone = jaxpr.replace(
        constvars=[], invars=operands, outvars=equation.outvars, eqns=[equation], effects=equation.effects
    )
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*(values[atom] for atom in operands))


def _guard_parameter(value: Any) -> Any:
    """Guard a program of a loop, a branch or a solver; return any other parameter unchanged."""
    return guard(value) if isinstance(value, ClosedJaxpr) else value


def _nan_unless_finite(finite: jax.Array, result: jax.Array) -> jax.Array:
    """``result`` for finite matrices, NaN for all others."""
    all_finite = jnp.all(finite, axis=(-2, -1))
    all_finite = all_finite.reshape(all_finite.shape + (1,) * (result.ndim - all_finite.ndim))
    return jnp.where(all_finite, result, jnp.full_like(result, jnp.nan))

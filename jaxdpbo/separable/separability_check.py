"""Separability of traced programs: prove that entry ``i`` of the result is a function of record ``i`` alone.

The analysis walks the program equation by equation with the rules of ``rules``, and enters operations with their own
programs (``jit``, ``scan``, ``while_loop``, ``cond``, ``checkpoint``, derivatives). The analysis is sound, not
complete: accepted programs are separable (docs/theorems.md), refused programs need not be wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import backend, core
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from jaxdpbo.separable import data_axes, decompositions, equations, primitives, rules
from jaxdpbo.separable.equations import ClosedJaxpr
from jaxdpbo.separable.taints import OWN, PUBLIC, Mixed, Taint, UserSlices, join
from jaxdpbo.types import ArrayLike, Data, Objective, Tree

FOLLOWED = {*rules.RULES, *equations.CALLS, *equations.LOOPS, *primitives.WITHOUT_RULE}

JAX = str(Path(jax.__file__).parent)


class NotSeparable(ValueError):
    """The analysis could not prove the program separable; the message names the primitive, its shapes and the line."""


class Separable:
    """A checked program, run exactly as checked: ``(point, data) -> values``.

    Attributes:
      program: the closed jaxpr.
      axis: the axis of users in the values; entry ``i`` depends on record ``i`` and on public values alone.
    """

    def __init__(self, program: ClosedJaxpr, axis: int, inputs: Tree):
        """``inputs``: the tree structure of the arguments."""
        self.program, self.axis, self._inputs = program, axis, inputs
        self._compiled = jax.jit(core.jaxpr_as_fun(program))

    def __call__(self, point: ArrayLike, data: Data) -> jax.Array:
        """Evaluate a point; raise TypeError for other shapes or dtypes than the checked ones."""
        leaves, structure = jax.tree.flatten((point, data))
        if structure != self._inputs:
            raise TypeError(f"the checked program takes {self._inputs}, got {structure}")
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        passed, checked = ([(aval.shape, aval.dtype) for aval in avals] for avals in (leaves, self.program.in_avals))
        if passed != checked:
            raise TypeError(f"the checked program takes arrays {checked}, got {passed}")
        (values,) = self._compiled(*leaves)
        return values


def check_separable(
    objective: Objective,
    point: ArrayLike,
    data: Data,
    user_axes: Tree = 0,
    *,
    users: int | None = None,
    public_constants: bool = False,
) -> Separable:
    """Prove that entry ``i`` of ``objective(point, data)`` depends on record ``i`` and on public values alone.

    The check traces the objective once, by shapes and dtypes, and reads the traced program: the values in ``data`` play
    no part. Sound, not complete: accepted objectives are separable, refused objectives need not be wrong. No check can
    see if row ``i`` of ``data`` was itself made from record ``i`` (a scaler may be fitted on all rows outside), or if
    the leaves and arrays declared public are public.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo.separable import NotSeparable, check_separable
    >>> def loss(point, data):
    ...     return jnp.sum(jnp.square(data - point), axis=1)
    >>> check_separable(loss, jnp.zeros(2), jnp.ones((5, 2))).axis
    0
    >>> def centred(point, data):
    ...     return loss(point, data - jnp.mean(data, axis=0))
    >>> try:
    ...     check_separable(centred, jnp.zeros(2), jnp.ones((5, 2)))
    ... except NotSeparable as error:
    ...     print(str(error).partition(" at ")[0])
    reduce_sum of (5, 2) reduces over users

    Args:
      objective: a traceable function, see ``run_scan``.
      point: arrays or ``jax.ShapeDtypeStruct``: public.
      data: arrays or ``jax.ShapeDtypeStruct``; leaves are public or have an axis of users.
      user_axes: the axis of users, as a prefix of the tree of ``data`` as in ``jax.vmap``; None for public leaves.
      users: the number of users; by default, the common length of the axes.
      public_constants: True if arrays held by the objective are public, see ``per_user``.

    Returns:
      The checked program, a function of ``(point, data)``.

    Raises:
      NotSeparable: with the primitive, its shapes, the reason, and the source line.
      ValueError: axes of different lengths, no axis at all, a buffer both public and a user's, arrays held by the
        objective (possibly made of records: pass them in ``data``, or see ``public_constants``; a captured number
        counts as public), or values other than a single array.
    """
    axes, leaves = data_axes.find_axes(data, user_axes), jax.tree.leaves(data)
    count = data_axes.expect_users(leaves, axes)
    if users is not None and users != count:
        raise ValueError(f"user_axes must name axes of length users = {users}, got {count}")
    data_axes.expect_one_role(data, user_axes)
    program = _trace(objective, point, data, public_constants=public_constants)
    taints = [PUBLIC] * len(jax.tree.leaves(point))
    taints += [
        PUBLIC if axis is None else UserSlices(axis % leaf.ndim) for leaf, axis in zip(leaves, axes, strict=True)
    ]
    run, taint = _guard(program, taints, _Walk(count))
    if not isinstance(taint, UserSlices):
        raise NotSeparable("the values depend on no record")
    return Separable(run, taint.axis, jax.tree.structure((point, data)))


def program_of_one(
    function: Callable[..., Any],
    avals: Sequence[jax.ShapeDtypeStruct],
    axes: Sequence[int | None],
    *,
    public_constants: bool = False,
) -> ClosedJaxpr:
    """Trace one person's values, and prove that ``jax.vmap`` cannot mix people in the program.

    Args:
      function: takes one person's slice of each leaf.
      avals: the shapes and dtypes of the slices.
      axes: None for public leaves.
      public_constants: True to allow arrays in the function, all public.

    Raises:
      NotSeparable: see ``jaxdpbo.per_user``.
      ValueError: the function holds an array, or does not return a single array.
    """
    program = _trace(function, *avals, public_constants=public_constants)
    return _guard(program, [PUBLIC if axis is None else OWN for axis in axes], _Walk(0, mapped=True))[0]


def _guard(program: ClosedJaxpr, taints: Sequence[Taint], walk: "_Walk") -> tuple[ClosedJaxpr, Taint]:
    """Guard the program's decompositions and check it again; return the guarded program and the taint of its result.

    Raises:
      NotSeparable: naming a line of the original program.
    """
    (taint,) = walk.program(program, taints)
    if isinstance(taint, Mixed):
        raise NotSeparable(taint.said)
    run = decompositions.guard(program)
    if run is not program and walk.program(run, taints) != [taint]:
        raise NotSeparable("a decomposition was not shown to be guarded user by user")
    return run, taint


def _trace(function: Callable[..., Any], *arguments: Any, public_constants: bool) -> ClosedJaxpr:
    """Trace a function; check that it returns a single array and, unless ``public_constants``, holds no array."""

    def check_result(*traced: Any) -> Any:
        values = function(*traced)
        for leaf in jax.tree.leaves(values):
            if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
                raise TypeError(f"objective must return an array of real numbers, got {type(leaf).__name__}")
        return values

    program, returned = jax.make_jaxpr(check_result, return_shape=True)(*arguments)
    if not hasattr(returned, "shape"):
        raise ValueError(f"objective must return one array, got {type(returned).__name__}")
    for constant in _constants(program):
        if np.ndim(constant) and not public_constants:
            raise ValueError(
                f"objective captures an array of shape {np.shape(constant)}, or calls a function of JAX that holds it, "
                "such as expi, and the array may be made of records: pass it in data, as a public leaf if it is "
                "public, or pass public_constants=True to per_user, CheckedObjective or check_separable if no array in "
                "the code holds records"
            )
    return program


def _constants(closed: ClosedJaxpr) -> Iterator[Any]:
    """Yield all constants and literals of a program and of the programs inside it."""
    yield from closed.consts
    yield from _literals(closed.jaxpr)


def _literals(jaxpr: Jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield from (atom.val for atom in equation.invars if isinstance(atom, Literal))
        for program in equations.programs_in(equation):
            yield from _constants(program)
        for value in jax.tree.leaves(list(equation.params.values())):
            if isinstance(value, (np.ndarray, jax.Array)):
                yield value


class _Walk:
    """A walk through a program, for a number of users; CPU rules apply only if every available device is a CPU."""

    def __init__(self, users: int, mapped: bool = False):
        self.users, self.mapped = users, mapped  # mapped: by vmap, from one record to all
        self.on_cpus = set(backend.backends()) == {"cpu"}
        self.inside: list[JaxprEqn] = []  # the stack of equations under analysis

    def refuse(self, why: str, equation: JaxprEqn) -> Mixed:
        """Describe a refusal: the operation, the shapes of its operands, the reason, and the source line."""
        shapes = ", ".join(str(equations.atom_shape(atom)) for atom in equation.invars)
        lines = (_line(outer) for outer in reversed(self.inside))
        line = next(filter(None, lines), "an unknown line")
        return Mixed(f"{equation.primitive.name} of {shapes} {why} at {line}")

    def program(self, closed: ClosedJaxpr, taints: Sequence[Taint]) -> list[Taint]:
        """The taints of the results of a closed program. Constants are public."""
        jaxpr, taint_of = closed.jaxpr, {}

        def read(atom: Var | Literal) -> Taint:
            return PUBLIC if isinstance(atom, Literal) else taint_of[atom]

        taint_of.update(zip(jaxpr.constvars, [PUBLIC] * len(jaxpr.constvars), strict=True))
        taint_of.update(zip(jaxpr.invars, taints, strict=True))
        for equation in jaxpr.eqns:
            self.inside.append(equation)
            results = self._equation(equation, [read(atom) for atom in equation.invars])
            self.inside.pop()
            taint_of.update(zip(equation.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _equation(self, equation: JaxprEqn, taints: list[Taint]) -> list[Taint]:
        name = equation.primitive.name
        private = any(taint != PUBLIC for taint in taints)
        if why := self._fault(equation, taints) or equations.find_fault(equation, private):
            raise NotSeparable(self.refuse(why, equation).said)
        if name in equations.CALLS:
            return self.program(equations.read_call(equation), taints)
        if name in equations.LOOPS:
            return getattr(self, f"_{name}")(equation, taints)
        for program in equations.programs_in(equation):  # such as how a reduction combines two numbers
            self.program(program, [OWN] * len(program.in_avals))
        if not private:
            return [PUBLIC] * len(equation.outvars)
        return self._apply_rule(equation, taints)

    def _fault(self, equation: JaxprEqn, taints: Sequence[Taint]) -> str:
        """The reason to refuse an operation for any use of its results; empty if there is none."""
        name, kinds = equation.primitive.name, primitives.key_kinds((*equation.invars, *equation.outvars))
        private = any(taint != PUBLIC for taint in taints)
        if name in primitives.OUTSIDE or equation.effects:
            return "runs code that no analysis sees"
        if not (primitives.is_of_jax(equation) and name in FOLLOWED):
            return "is no operation of JAX that the analysis knows"
        if None in kinds:
            return "draws by a generator that is not JAX's own"
        if private and set(kinds) - {primitives.THREEFRY}:
            return "makes keys of records by another generator than threefry"
        if self.mapped and private and rules.has_negative_axis(equation):
            return "counts an axis from behind, which vmap may take for that of users"
        return "" if not self.mapped or self._maps(equation, taints) else "is not known to keep users apart under vmap"

    def _apply_rule(self, equation: JaxprEqn, taints: list[Taint]) -> list[Taint]:
        name, results = equation.primitive.name, len(equation.outvars)
        if name == "optimization_barrier":
            return taints
        for taint in taints:
            if isinstance(taint, Mixed):
                return [taint] * results
        if not any(isinstance(taint, UserSlices) for taint in taints):
            return [OWN] * results  # any function of one record and public values
        if OWN in taints:
            return [self.refuse("combines the record of one turn with other records", equation)] * results
        if name not in rules.RULES:
            return [self.refuse("is not known to keep users apart", equation)] * results
        if name in rules.ITERATIVE and not self.on_cpus:
            return [
                self.refuse("iterates on accelerators until all users' matrices have converged", equation)
            ] * results
        axis = rules.RULES[name](equation, [taint.axis if isinstance(taint, UserSlices) else None for taint in taints])
        if isinstance(axis, str):
            return [self.refuse(axis, equation)] * results
        return [self._fitting(UserSlices(axis), out, equation) for out in equation.outvars]

    def _fitting(self, taint: Taint, variable: Var, equation: JaxprEqn) -> Taint:
        """Check, for any rule, that the result has the user axis, with the length of the number of users."""
        if isinstance(taint, UserSlices):
            shape = equations.atom_shape(variable)
            if taint.axis >= len(shape) or shape[taint.axis] != self.users:
                return self.refuse("changes the axis of users", equation)
        return taint

    def _maps(self, equation: JaxprEqn, taints: Sequence[Taint]) -> bool:
        """True if vmap applies the operation to each record as if it were alone."""
        name = equation.primitive.name
        if taints.count(PUBLIC) == len(taints):
            return True
        if name == "conv_general_dilated" and PUBLIC not in taints:
            return False  # XLA multiplies every signal by kernels with zeros for other users, and 0 * NaN is NaN
        if name in rules.TOGETHER:
            return False
        return not (name in rules.ITERATIVE and not self.on_cpus) and name not in rules.ONE_STREAM

    # Loops and branches

    def _find_fixed_point(
        self, carry: list[Taint], step: Callable[[list[Taint]], list[Taint]], equation: JaxprEqn
    ) -> list[Taint]:
        """The least taints unchanged by a step."""
        while True:
            after = [self._join(pair, equation) for pair in zip(carry, step(carry), strict=True)]
            if after == carry:
                return carry
            carry = after

    def _join(self, taints: Sequence[Taint], equation: JaxprEqn) -> Taint:
        taint = join(taints)
        return self.refuse(rules.DIFFERENT, equation) if taint is None else taint

    def _scan(self, equation: JaxprEqn, taints: list[Taint]) -> list[Taint]:
        program, consts, carried = equations.read_scan(equation)
        fixed, carry, along = taints[:consts], taints[consts : consts + carried], taints[consts + carried :]
        over_users = UserSlices(0) in along
        if over_users and OWN in taints:
            return [self.refuse("loops over users inside a loop over users", equation)] * len(equation.outvars)
        inside = [self._one_turn(taint) for taint in along]

        def body(carry: list[Taint]) -> list[Taint]:
            return self.program(program, [*fixed, *carry, *inside])

        carry = self._find_fixed_point(carry, lambda carry: body(carry)[:carried], equation)
        if over_users and any(taint != PUBLIC for taint in carry):
            why = "carries values from one user's turn to the next"
            return [self.refuse(why, equation)] * len(equation.outvars)
        stacked = [self._all_turns(taint, over_users) for taint in body(carry)[carried:]]
        return [self._fitting(*pair, equation) for pair in zip([*carry, *stacked], equation.outvars, strict=True)]

    @staticmethod
    def _all_turns(taint: Taint, over_users: bool) -> Taint:
        if isinstance(taint, UserSlices):
            return UserSlices(taint.axis + 1)
        return UserSlices(0) if taint == OWN and over_users else taint

    @staticmethod
    def _one_turn(taint: Taint) -> Taint:
        if isinstance(taint, UserSlices):
            return OWN if taint.axis == 0 else UserSlices(taint.axis - 1)
        return taint

    def _while(self, equation: JaxprEqn, taints: list[Taint]) -> list[Taint]:
        condition, cond_count, program, body_count = equations.read_while(equation)
        of_cond, rest = taints[:cond_count], taints[cond_count:]
        of_body, carry = rest[:body_count], rest[body_count:]
        carry = self._find_fixed_point(carry, lambda carry: self.program(program, [*of_body, *carry]), equation)
        (going,) = self.program(condition, [*of_cond, *carry])
        if going == PUBLIC:
            return carry
        if going == OWN and not any(isinstance(taint, UserSlices) for taint in (*of_body, *carry)):
            return [taint if isinstance(taint, Mixed) else OWN for taint in carry]
        why = "runs until every user is done, so how often depends on all: use a fixed number of turns, or per_user"
        return [self.refuse(why, equation)] * len(equation.outvars)

    def _cond(self, equation: JaxprEqn, taints: list[Taint]) -> list[Taint]:
        index, *operands = taints
        branches = [self.program(branch, operands) for branch in equations.read_branches(equation)]
        joined = [self._join(results, equation) for results in zip(*branches, strict=True)]
        if index == PUBLIC:
            return joined
        if index == OWN and not any(isinstance(taint, UserSlices) for taint in joined):
            return [taint if isinstance(taint, Mixed) else OWN for taint in joined]
        return [self.refuse("chooses a branch by values that depend on records", equation)] * len(equation.outvars)

    def _custom_linear_solve(self, equation: JaxprEqn, taints: list[Taint]) -> list[Taint]:
        """Walk ``solve``, the program to run; constants read only by the matrix product play no part."""
        program, constants, right = equations.read_solve(equation)
        return self.program(program, taints[constants] + taints[right])


def _line(equation: JaxprEqn) -> str:
    """File, line and function of the innermost frame outside JAX; empty for a trace cached by another call."""
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback else ():
        if not frame.file_name.startswith(JAX) and not frame.file_name.startswith("<"):
            return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    return ""

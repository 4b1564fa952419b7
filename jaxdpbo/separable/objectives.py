"""Separable objectives for all data: separable by construction, or checked at every trace."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from jaxdpbo import checks
from jaxdpbo.separable import data_axes, equations, separability_check
from jaxdpbo.types import ArrayLike, Data, Objective, Tree


class SeparableObjective:
    """``(point, data) -> values (..., n)``: entry ``i`` depends on record ``i`` and public values alone, or it raises.

    The guarantee of a run with this objective does not assume separable losses. Two instances of the same function and
    axes are equal, and share compiled programs.
    """

    def __init__(self, function: Callable[..., Any], user_axes: Tree, public_constants: bool = False):
        """``user_axes``: the axis of users in each leaf of ``data``, None for public leaves; see ``per_user``."""
        data_axes.expect_axes(user_axes)
        self.function, self.user_axes = function, user_axes
        self.public_constants = checks.flag("public_constants", public_constants)
        leaves, structure = jax.tree.flatten(user_axes, is_leaf=lambda leaf: leaf is None)
        self._same = type(self), function, tuple(leaves), structure, self.public_constants
        self._compiled = jax.jit(self._trace)

    def __call__(self, point: ArrayLike, data: Data) -> jax.Array:
        """Evaluate the values at a point; a number too large for JAX's default dtype becomes infinite, in silence."""
        with np.errstate(over="ignore"):  # NumPy's warning tells of a record, and jaxlib crashes where it is an error
            return self._compiled(point, data)

    def _trace(self, point: Any, data: Any) -> jax.Array:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Compare the function and the axes."""
        return isinstance(other, SeparableObjective) and self._same == other._same

    def __hash__(self) -> int:
        """Hash the compared fields."""
        return hash(self._same)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments of the constructor."""
        return type(self), (self.function, self.user_axes, self.public_constants)

    def __repr__(self) -> str:
        """Show the code, no data."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        constants = ", public_constants=True" if self.public_constants else ""
        return f"{type(self).__name__}({name}, {self.user_axes}{constants})"


class CheckedObjective(SeparableObjective):
    """An objective checked by ``check_separable`` at every trace; the checked program runs.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo.separable import CheckedObjective
    >>> loss = CheckedObjective(lambda point, data: (data - point[0]) ** 2, 0)
    >>> loss(jnp.zeros(1), jnp.array([1.0, 2.0])).tolist()
    [1.0, 4.0]
    """

    function: Objective

    def _trace(self, point: Any, data: Any) -> jax.Array:
        at, of = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (point, data))
        try:
            program = separability_check.check_separable(
                self.function, at, of, self.user_axes, public_constants=self.public_constants
            )
        except separability_check.NotSeparable:
            raise
        except Exception as error:
            error.add_note("user_axes needs an objective that JAX can trace")
            raise
        (values,) = program.program.jaxpr.outvars
        if program.axis != len(equations.atom_shape(values)) - 1:
            raise ValueError(f"objective must count users along the last axis of its values, got axis {program.axis}")
        return program(point, data)


class PerUser(SeparableObjective):
    """The loss of one person, mapped over all people; see ``per_user``."""

    function: Callable[..., jax.Array]

    def _trace(self, point: Any, data: Any) -> jax.Array:
        leaves, inputs = jax.tree.flatten((point, data))
        axes = data_axes.find_axes(data, self.user_axes)
        axes = [None] * (len(leaves) - len(axes)) + axes
        data_axes.expect_users(leaves, axes)

        def one_loss(*record):
            return self.function(*jax.tree.unflatten(inputs, record))

        parts = [_slice(leaf, axis) for leaf, axis in zip(leaves, axes, strict=True)]
        program = separability_check.program_of_one(one_loss, parts, axes, public_constants=self.public_constants)
        (losses,) = jax.vmap(core.jaxpr_as_fun(program), in_axes=axes, out_axes=-1)(*leaves)
        return losses


def per_user(loss: Callable[..., jax.Array], user_axes: Tree = 0, *, public_constants: bool = False) -> PerUser:
    """Make an objective from the loss of one person, ``loss(point, record) -> ()``.

    Entry ``i`` of the losses is a function of record ``i`` and of public values by construction. The guarantee of a run
    does not assume separable losses. It assumes ``assumptions.OWN_ROWS`` instead, which no program can show: row ``i``
    of ``data`` was made from record ``i``. It also assumes ``assumptions.COMPILED_APART``: XLA keeps users apart.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import per_user
    >>> def loss(point, record):
    ...     return jnp.sum(jnp.square(record - point))
    >>> print(per_user(loss)(jnp.zeros(2), jnp.array([[1.0, 0.0], [2.0, 1.0]])))
    [1. 5.]

    Args:
      loss: a traceable function; ``record`` is ``data`` with one person's slice of each leaf, and public leaves whole.
        It returns an array, a scalar for a loss; the results of all people have users on the last axis. A loop may run
        until this person is done; the total time is then the slowest person's, visible to anybody with a clock.
      user_axes: the axis of users: a prefix of the tree of ``data``, as for ``jax.vmap``; None for public leaves.
      public_constants: True if all arrays captured or written down by ``loss`` are public and hold no record; the
        guarantee assumes this by ``assumptions.OWN_ROWS``. Set it if ``loss`` multiplies by ``jnp.array([...])``, or
        calls a function of JAX with an array inside, such as ``jax.scipy.special.expi``.

    Returns:
      A function of ``(point, data)``. Its trace raises ``NotSeparable`` if ``loss`` holds operations without a promise
      of ``jax.vmap`` to separate users (callbacks, foreign code, collectives, ``custom_vmap``, primitives from outside
      JAX, records as keys of another generator than threefry, ``betainc``, a convolution by the person's own kernel,
      and on accelerators decompositions iterated until the whole batch has converged). It raises ValueError if ``loss``
      captures an array, possibly made of all records, or if no axis counts users. docs/functions.md lists the refused
      functions of JAX. The decomposition of a matrix with a non-finite entry is NaN, so LAPACK prints nothing.

    Raises:
      TypeError: ``loss`` is no function, an axis no integer, ``public_constants`` no Boolean.
    """
    checks.takes_two("loss", loss, "point", "a record")
    return PerUser(loss, user_axes, public_constants)


def _slice(leaf: Any, axis: int | None) -> jax.ShapeDtypeStruct:
    """The shape and dtype of one person's slice."""
    shape = list(leaf.shape)
    if axis is not None:
        del shape[axis]
    return jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)

"""Objectives that keep users apart whatever data they get: made so, or checked whenever they are traced."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core

from jaxdpbo import _checks
from jaxdpbo.privacy.separable import data_axes, separability_check
from jaxdpbo.types import ArrayLike, Data, Objective, Tree


class SeparableObjective:
    """``(point, data) -> values (..., n)``: entry ``i`` depends on record ``i`` and public values alone, or it raises.

    A run on it does not rest on the assumption that somebody wrote it so. Two of one function and the same axes are
    equal, so that neither compiles what the other has compiled.
    """

    def __init__(self, function: Callable[..., Any], user_axes: Tree, public_constants: bool = False):
        """``user_axes``: which axis of each leaf of ``data`` counts users, None for public leaves; see ``per_user``."""
        data_axes.expect_axes(user_axes)
        self.function, self.user_axes = function, user_axes
        self.public_constants = _checks.flag("public_constants", public_constants)
        leaves, structure = jax.tree.flatten(user_axes, is_leaf=lambda leaf: leaf is None)
        self._same = type(self), function, tuple(leaves), structure, self.public_constants
        self._compiled = jax.jit(self._trace)

    def __call__(self, point: ArrayLike, data: Data) -> jax.Array:
        """The values at a point."""
        return self._compiled(point, data)

    def _trace(self, point: Any, data: Any) -> jax.Array:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Of one function and the same axes."""
        return isinstance(other, SeparableObjective) and self._same == other._same

    def __hash__(self) -> int:
        """As equal as they are."""
        return hash(self._same)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it was made of."""
        return type(self), (self.function, self.user_axes, self.public_constants)

    def __repr__(self) -> str:
        """Code, no data."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        constants = ", public_constants=True" if self.public_constants else ""
        return f"{type(self).__name__}({name}, {self.user_axes}{constants})"


class CheckedObjective(SeparableObjective):
    """An objective that ``check_separable`` reads whenever it is traced; what was read is what runs."""

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
        (values,) = program.program.out_avals
        if program.axis != values.ndim - 1:
            raise ValueError(f"objective must count users along the last axis of its values, got axis {program.axis}")
        return program(point, data)


class PerUser(SeparableObjective):
    """The loss of one person, mapped over all of them; see ``per_user``."""

    function: Callable[..., jax.Array]

    def _trace(self, point: Any, data: Any) -> jax.Array:
        leaves, inputs = jax.tree.flatten((point, data))
        axes = data_axes.find_axes(data, self.user_axes)
        axes = [None] * (len(leaves) - len(axes)) + axes
        data_axes.expect_users(leaves, axes)

        def one_loss(*record):
            return self.function(*jax.tree.unflatten(inputs, record))

        parts = [_slice(*one) for one in zip(leaves, axes, strict=True)]
        program = separability_check.program_of_one(one_loss, parts, axes, public_constants=self.public_constants)
        (losses,) = jax.vmap(core.jaxpr_as_fun(program), in_axes=axes, out_axes=-1)(*leaves)
        return losses


def per_user(loss: Callable[..., jax.Array], user_axes: Tree = 0, *, public_constants: bool = False) -> PerUser:
    """An objective made of the loss of one person, ``loss(point, record) -> ()``.

    Entry ``i`` of the losses is a function of record ``i`` and of public values by construction. The guarantee of a run
    on this objective does not rest on somebody's having written it so; it names what no program can show, that row
    ``i`` of ``data`` was made from record ``i`` (``guarantee.OWN_ROWS``).

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import per_user
    >>> def loss(point, record):
    ...     return jnp.sum(jnp.square(record - point))
    >>> print(per_user(loss)(jnp.zeros(2), jnp.array([[1.0, 0.0], [2.0, 1.0]])))
    [1. 5.]

    Args:
      loss: traceable; ``record`` is ``data`` with one person's slice of each leaf, and public leaves whole. It returns
        one array, a scalar for a loss; users are the last axis of all of them. A loop in it may run until this person
        is done; how long all take is then the slowest person's time, which whoever watches the clock sees.
      user_axes: which axis counts users: a prefix of the tree of ``data``, as for ``jax.vmap``; None for public leaves.
      public_constants: every array that ``loss`` captures or writes down is public: no record is in it. The guarantee
        rests on that by ``guarantee.OWN_ROWS``. Say so where ``loss`` multiplies by ``jnp.array([...])``, or calls a
        function of JAX that holds an array of its own, such as ``jax.scipy.special.ndtri``.

    Returns:
      A function of ``(point, data)``. Where it is traced it raises ``NotSeparable`` if ``loss`` holds what ``jax.vmap``
      does not promise to keep apart (callbacks, foreign code, collectives, ``custom_vmap``, primitives that are not
      JAX's, records as keys of another generator than threefry, ``betainc``, a convolution by one's own kernel, and on
      accelerators decompositions that a batch iterates until all have converged), and ValueError if it captures an
      array, which may be made of all records, or if no axis counts users. docs/functions.md lists the functions of JAX
      that are refused. A matrix that is not finite is decomposed into NaN, so that LAPACK prints nothing about it.

    Raises:
      TypeError: ``loss`` is no function, an axis no integer, ``public_constants`` no Boolean.
    """
    if not callable(loss):
        raise TypeError(f"loss must be a function of a point and a record, got {type(loss).__name__}")
    return PerUser(loss, user_axes, public_constants)


def _slice(leaf: Any, axis: int | None) -> jax.ShapeDtypeStruct:
    """The shape and dtype of one person's part."""
    shape = list(leaf.shape)
    if axis is not None:
        del shape[axis]
    return jax.ShapeDtypeStruct(tuple(shape), leaf.dtype)

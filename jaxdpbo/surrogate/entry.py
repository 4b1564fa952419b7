"""What a public function does before its arithmetic: check shapes, and compile once."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(*static: str) -> Callable[[Function], Function]:
    """Compile calls from Python once for each set of shapes and ``static`` arguments; under a trace, change nothing.

    Without this, each call of a function with a loop or a fit compiles the loop anew.
    """

    def wrap(function: Function) -> Function:
        program = jax.jit(function, static_argnames=static, inline=True)

        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            return program(*positional, **named)

        return cast(Function, call)

    return wrap


def expect_shapes(**arrays: tuple[Any, str]) -> None:
    """Check shapes at trace time: a wrong shape must raise, since it would broadcast to a wrong number.

    Pass ``name=(array, "m d")``. A letter is one length in all arrays of a call; ``"2"`` is the length 2.

    Raises:
      ValueError: a wrong shape; names the argument, the shape it must have, and its shape.
    """
    lengths: dict[str, int] = {}
    for name, (array, letters) in arrays.items():
        axes, shape = letters.split(), jnp.shape(array)
        wanted = [lengths.get(axis, int(axis) if axis.isdigit() else axis) for axis in axes]
        fits = len(shape) == len(axes)
        if not fits or any(length not in (axis, have) for axis, length, have in zip(axes, wanted, shape, strict=True)):
            text = ", ".join(map(str, wanted)) + "," * (len(axes) == 1)
            raise ValueError(f"{name} must have shape ({text}), got {shape}")
        lengths.update(zip(axes, shape, strict=True))

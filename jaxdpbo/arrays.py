"""JAX arrays from numbers on the host, without compiled programs."""

import jax
import numpy as np

from jaxdpbo.types import ArrayLike, DTypeLike


def to_device(value: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Copy a number or an array to a JAX array, without a compiled program.

    ``jnp.asarray`` compiles a program for each new shape. The result is concrete inside a traced function too.
    """
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.array(value, dtype))  # a copy: the device may read the array's own memory

"""Arrays that are made on the host, of numbers that are known there."""

import jax
import numpy as np

from jaxdpbo._types import ArrayLike, DTypeLike


def to_device(value: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Copy a number or an array to a JAX array, without a compiled program.

    ``jnp.asarray`` starts a program for each new shape. Under a trace the result is concrete too.
    """
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.array(value, dtype))  # a copy: the device may read the array's own memory

"""Arrays that are made on the host, of numbers that are known there."""

import jax
import numpy as np

from jaxdpbo._types import ArrayLike, DTypeLike


def to_device(value: ArrayLike, dtype: DTypeLike | None = None) -> jax.Array:
    """Return a number or an array as a JAX array, without a compiled program.

    ``jnp.asarray`` starts a program for each new shape. Under a trace the result is concrete too.
    """
    with jax.ensure_compile_time_eval():
        return jax.device_put(np.asarray(value, dtype))

"""Keys for release: drawn from the operating system.

The key is as secret as the data: whoever holds it can subtract the noise. An integer seed is for tests and
sweeps only; ``jax.random.key`` keeps 32 bits of it where x64 is off, so ``key(2**33) == key(0)``.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np


def secret_key() -> jax.Array:
    """A fresh typed key from ``os.urandom``: 64 bits, all that JAX's default generator holds."""
    words = jnp.asarray(np.frombuffer(os.urandom(8), dtype=np.uint32))
    return jax.random.wrap_key_data(words, impl="threefry2x32")

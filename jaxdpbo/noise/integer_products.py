"""Exact sums over users of products of whole numbers, by matrix products in float32.

A product of two integers of 13 bits has up to 26 bits, and float32 holds 24: so each integer is cut into two limbs of 6
bits and more, and products of limbs are summed over so few users at a time that every sum in between is an integer
below 2^24. The sums are then the same in any order, with or without x64, on every device with full float32 products.
"""

import jax
import jax.numpy as jnp

from jaxdpbo.noise import wide_integers

LIMB = 6  # bits of the lower limb
MOST = 2**12  # largest size of an integer: an upper limb is then at most 2^6
CHUNK = 2**12  # users in a product: 2^12 products of at most 2^12


def sum_products(left: jax.Array, right: jax.Array) -> wide_integers.Wide:
    """Sum ``left[i, u] right[j, u]`` over users ``u``: ``Wide (p, q)``, exact.

    Args:
      left: ``int32 (p, s)``, within ``[-MOST, MOST]``.
      right: ``int32 (q, s)``, within ``[-MOST, MOST]``.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo.noise import integer_products, wide_integers
    >>> numbers = jnp.full((1, 3), 4096)
    >>> wide_integers.to_int64(integer_products.sum_products(numbers, numbers)).tolist()
    [[50331648]]
    """
    users = left.shape[1]
    chunks = max(1, -(-users // CHUNK))
    size = min(CHUNK, max(1, users))

    def split(numbers: jax.Array) -> jax.Array:
        padded = jnp.pad(numbers, ((0, 0), (0, chunks * size - users)))
        return jnp.moveaxis(padded.reshape(len(numbers), chunks, size), 1, 0)

    def add(total: wide_integers.Wide, pair: tuple[jax.Array, jax.Array]) -> tuple[wide_integers.Wide, None]:
        (upper, lower), (right_upper, right_lower) = map(_cut, pair)
        middle = _product(upper, right_lower) + _product(lower, right_upper)
        parts = (
            wide_integers.shift_left(wide_integers.widen(_product(upper, right_upper)), 2 * LIMB),
            wide_integers.shift_left(wide_integers.widen(middle), LIMB),
            wide_integers.widen(_product(lower, right_lower)),
        )
        for part in parts:
            total = wide_integers.add(total, part)
        return total, None

    nothing = wide_integers.widen(jnp.zeros((len(left), len(right)), jnp.int32))
    return jax.lax.scan(add, nothing, (split(left), split(right)))[0]


def _cut(numbers: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The upper limbs, within ``[-2^6, 2^6]``, and the lower limbs, in ``[0, 2^6)``."""
    return (numbers >> LIMB).astype(jnp.float32), (numbers & (2**LIMB - 1)).astype(jnp.float32)


def _product(left: jax.Array, right: jax.Array) -> jax.Array:
    return jnp.matmul(left, right.T, precision="highest").astype(jnp.int32)

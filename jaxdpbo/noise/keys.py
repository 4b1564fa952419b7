"""Keys for releases: 256 bits from the operating system, stretched by ChaCha20 (RFC 8439).

``chacha20`` is a generator for ``jax.random``, like threefry in JAX, with three properties for releases: keys have 256
bits instead of 64; there is no seed, so an integer cannot make a key; and no two uses of a key share words, because the
blocks of ``bits``, ``split`` and ``fold_in`` differ in their last word. (Threefry's ``bits`` of a key are the exclusive
or of the two words of its children from ``split``.)

Keep a key as secret as the data: anybody with the key can subtract the noise, and ``repr`` prints the key. Pass keys as
arguments, use each once, store none. JAX does not erase memory, so used and dropped keys may stay in memory.

Under a trace (``jit``, ``vmap``, ``scan``, ``grad``) a key outside the arguments is a constant of the program: every
call, every row and every step has the same noise, and the program's text and any compilation cache on disk hold the
key. So this module draws no key under a trace, and refuses a key there unless the key itself is traced. Two cases go
undetected: a trace suspended by the caller (``jax.core.eval_context``) or left in another thread, and a traced key
shared by all rows of an inner ``vmap``, a key used twice.

Use threefry keys where you release nothing: tests, benchmarks, research sweeps.
"""

import math
import os
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import trace_state_clean  # no public name
from jax.extend.random import define_prng_impl

from jaxdpbo import arrays, checks

WORDS = 8  # in a key, of 32 bits each
CONSTANTS = 0x61707865, 0x3320646E, 0x79622D32, 0x6B206574
# The last word of a block, by use of the key; arbitrary, but fixed for reproducible releases.
BITS, SPLIT, FOLD, SEEDED = 0x73746942, 0x74696C70, 0x646C6F66, 0x64656573


def secret_key(shape: tuple[int, ...] = ()) -> jax.Array:
    """Draw ``chacha20`` keys of ``shape``, 256 bits each, from ``os.urandom``.

    Raises:
      RuntimeError: under a trace.

    >>> import jaxdpbo
    >>> jaxdpbo.secret_key((2,)).shape
    (2,)
    """
    refuse_trace("the key of secret_key()")
    shape = checks.shape("shape", shape)
    data = os.urandom(4 * WORDS * math.prod(shape))
    return jax.random.wrap_key_data(_words(data).reshape(*shape, WORDS), impl=chacha20)


def key_from_bytes(data: bytes) -> jax.Array:
    """Make the ``chacha20`` key of 32 secret random bytes.

    >>> from jaxdpbo.noise import key_from_bytes
    >>> key_from_bytes(bytes(range(32))).shape
    ()

    Raises:
      TypeError: ``data`` is not bytes.
      ValueError: ``data`` is not 32 bytes long; the message quotes none.
      RuntimeError: under a trace.
    """
    refuse_trace("the key of key_from_bytes(...)")
    if not isinstance(data, bytes):
        raise TypeError(f"data must be bytes, got {type(data).__name__}")
    if len(data) != 4 * WORDS:
        raise ValueError(f"data must be {4 * WORDS} bytes, got {len(data)}")
    return jax.random.wrap_key_data(_words(data), impl=chacha20)


def refuse_trace(what: str) -> None:
    """Raise if jit, vmap, scan, grad or another transformation of JAX traces the caller.

    Raises:
      RuntimeError: under a trace; ``what`` would be a constant of the program.
    """
    if not trace_state_clean():
        raise RuntimeError(
            f"{what} would be a constant of the program that JAX is tracing, the same in every call: draw the key "
            "outside with secret_key() and pass it as an argument of the traced function"
        )


def is_secret_kind(key: jax.Array) -> bool:
    """True for a key of the ``chacha20`` generator, of any origin."""
    return key.dtype == _KIND


def generator(key: jax.Array) -> str:
    """The name of a typed key's generator, such as "threefry2x32", without the key's words."""
    return str(jax.random.key_impl(key))


def _words(data: bytes) -> jax.Array:
    return arrays.to_device(np.frombuffer(data, "<u4").astype(np.uint32))


def _quarter_rounds(a: jax.Array, b: jax.Array, c: jax.Array, d: jax.Array) -> tuple[jax.Array, ...]:
    """RFC 8439, section 2.1, on rows ``(4, k)``: all four columns of every block at once."""

    def rotate(value, count):
        return (value << np.uint32(count)) | (value >> np.uint32(32 - count))

    for first, second in ((16, 12), (8, 7)):
        a = a + b
        d = rotate(d ^ a, first)
        c = c + d
        b = rotate(b ^ c, second)
    return a, b, c, d


def _double_round(rows: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """Section 2.3: the columns, then the diagonals, as columns after rolling row ``i`` by ``i``."""
    a, b, c, d = _quarter_rounds(*rows)
    a, b, c, d = _quarter_rounds(a, *(jnp.roll(row, -i, axis=0) for i, row in enumerate((b, c, d), start=1)))
    return a, *(jnp.roll(row, i, axis=0) for i, row in enumerate((b, c, d), start=1))


@partial(jax.jit, static_argnums=(2, 3))
def _blocks(key: jax.Array, counter: jax.Array, width: int, purpose: int) -> jax.Array:
    """Blocks ``(k, 16)`` of a key ``(8,)`` for counters ``(k,)``: RFC 8439, section 2.3; the nonce is our two labels.

    Four rows of four words make few and wide operations, for short compilation. Compiled by itself, because host code
    splits and folds keys outside any program, and would otherwise compile word by word.
    """
    wide = (4, *counter.shape)
    zero = jnp.zeros_like(counter)
    last = jnp.stack([counter, zero, zero + np.uint32(width), zero + np.uint32(purpose)])
    fixed = (jnp.asarray(CONSTANTS, jnp.uint32), key[:4], key[4:])
    initial = (*(jnp.broadcast_to(row[:, None], wide) for row in fixed), last)
    # A rolled loop: an unrolled one is slower at large sizes and takes seconds to compile.
    mixed = jax.lax.fori_loop(0, 10, lambda _, rows: _double_round(rows), initial)
    return jnp.concatenate([x + y for x, y in zip(mixed, initial, strict=True)]).T


@partial(jax.jit, static_argnums=(1, 2))
def _draw_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    size = math.prod(shape)
    count = -(-size * width // 32)
    words = _blocks(key, jnp.arange(-(-count // 16), dtype=jnp.uint32), width, BITS).reshape(-1)
    if width == 32:
        return words[:size].reshape(shape)
    if width == 64:
        low, high = (words[i : 2 * size : 2].astype(jnp.uint64) for i in (0, 1))
        return (low | (high << jnp.uint64(32))).reshape(shape)
    parts = jax.lax.bitcast_convert_type(words, {8: jnp.uint8, 16: jnp.uint16}[width])
    return parts.reshape(-1)[:size].reshape(shape)


@partial(jax.jit, static_argnums=1)
def _children(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    children = _blocks(key, jnp.arange(math.prod(shape), dtype=jnp.uint32), 0, SPLIT)
    return children[:, :WORDS].reshape(*shape, WORDS)


@jax.jit
def _fold(key: jax.Array, data: jax.Array) -> jax.Array:
    return _blocks(key, jnp.asarray(data).astype(jnp.uint32)[None], 0, FOLD)[0, :WORDS]


# Plain functions, because a pickled key names the functions of its generator, and a compiled function has no name.


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    return _draw_bits(key, width, shape)


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return _children(key, shape)


def _fold_in(key: jax.Array, data: jax.Array) -> jax.Array:
    return _fold(key, data)


def _refuse(seed: jax.Array) -> jax.Array:
    raise TypeError("a chacha20 key is not made of a seed: use secret_key(), or key_from_bytes")


def _seed(seed: jax.Array) -> jax.Array:
    data = jnp.asarray(seed)
    low = data.astype(jnp.uint32)
    high = (data >> 32).astype(jnp.uint32) if data.dtype.itemsize == 8 else jnp.zeros_like(low)
    return _blocks(jnp.stack([low, high] + [jnp.zeros_like(low)] * 6), jnp.zeros(1, jnp.uint32), 0, SEEDED)[0, :WORDS]


_USES = {"key_shape": (WORDS,), "split": _split, "random_bits": _random_bits, "fold_in": _fold_in}
chacha20 = define_prng_impl(seed=_refuse, name="chacha20", tag="chacha20", **_USES)
chacha20_test = define_prng_impl(
    seed=_seed, name="chacha20_test", tag="chacha20_test", **_USES
)  # the same distribution, from an integer seed
_KIND = jax.eval_shape(lambda: jax.random.wrap_key_data(jnp.zeros(WORDS, jnp.uint32), impl=chacha20)).dtype

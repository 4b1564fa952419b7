"""The operations and generators of JAX, recognised by identity: any code may define a primitive of the same name."""

import functools
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Literal, Primitive, Var, primitives

NAMED_ONLY = "pure_callback", "io_callback", "buffer_callback", "ffi_call"  # a program's text has their names alone
SPEAKING = (*NAMED_ONLY, "debug_callback", "debug_print")  # they run code that may print or log what it is given
# Operations that run Python or foreign code, or communicate between devices: always refused.
OUTSIDE = (
    *SPEAKING, "custom_call", "pallas_call", "shard_map", "psum", "psum2", "psum_invariant", "pmax", "pmin",
    "ppermute", "pbroadcast", "all_gather", "all_to_all", "ragged_all_to_all", "reduce_scatter", "axis_index",
    "infeed", "outfeed", "run_state", "custom_vmap_call",
)  # fmt: skip
# Operations without a rule for values with an axis of users. They are taken on public values, and under vmap except for
# those in rules.TOGETHER and rules.ONE_STREAM; optimization_barrier is taken always.
WITHOUT_RULE = (
    "approx_top_k", "custom_lin", "device_put", "eig", "empty2", "hessenberg", "iota", "name", "optimization_barrier",
    "platform_index", "random_gamma", "reduce_window", "regularized_incomplete_beta", "rng_bit_generator",
    "rng_uniform", "schur", "select_and_gather_add", "select_and_scatter", "select_and_scatter_add",
    "sharding_constraint", "tridiagonal", "tridiagonal_solve",
)  # fmt: skip

_MODULES = "jax._src.lax", "jax._src.random", primitives.__name__
_GENERATORS = "threefry2x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"


def collect_primitives() -> dict[str, Primitive]:
    """The primitives in JAX's loaded ``lax`` and ``random`` modules, by name; names of two primitives are left out."""
    objects: dict[str, dict[int, Primitive]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_MODULES):
            for value in list(vars(module).values()):
                if isinstance(value, Primitive):
                    objects.setdefault(value.name, {})[id(value)] = value
    written_out = getattr(sys.modules.get("jax._src.hijax"), "call_hi_primitive_p", None)  # alone of its module
    if isinstance(written_out, Primitive):
        objects[written_out.name] = {id(written_out): written_out}
    return {name: next(iter(same_name.values())) for name, same_name in objects.items() if len(same_name) == 1}


OF_JAX = collect_primitives()  # collected once, when this package is imported


def is_of_jax(equation: JaxprEqn) -> bool:
    """True if the operation's primitive is JAX's own, not another with the same name."""
    return OF_JAX.get(equation.primitive.name) is equation.primitive


def key_kinds(variables: Sequence[Var | Literal]) -> list[int | None]:
    """For each variable of keys, the index of its generator in ``_GENERATORS``; None for other generators."""
    kinds = [getattr(variable.aval, "dtype", None) for variable in variables]
    return [_generator_index(kind) for kind in kinds if kind is not None and jnp.issubdtype(kind, jax.dtypes.prng_key)]


def _generator_index(kind: object) -> int | None:
    equal = [own == kind for own in _key_dtypes()]  # compares the generators' functions
    return equal.index(True) if any(equal) else None


THREEFRY = 0  # index in _GENERATORS


@functools.cache
def _key_dtypes() -> list[object]:
    return [jax.eval_shape(functools.partial(jax.random.key, 0, impl=name)).dtype for name in _GENERATORS]

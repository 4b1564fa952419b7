"""JAX's own operations and generators, known as the objects that JAX's modules hold: anybody may take a name."""

import functools
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn, Literal, Primitive, Var, primitives

CALLS = {  # primitive -> the parameter that holds its program
    "jit": "jaxpr", "closed_call": "call_jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}  # fmt: skip
LOOPS = "scan", "while", "cond", "custom_linear_solve"
# What runs Python or other code, or speaks with other devices: refused wherever it stands.
OUTSIDE = (
    "pure_callback", "io_callback", "debug_callback", "debug_print", "ffi_call", "custom_call", "pallas_call",
    "shard_map", "psum", "psum2", "psum_invariant", "pmax", "pmin", "ppermute", "pbroadcast", "all_gather",
    "all_to_all", "ragged_all_to_all", "reduce_scatter", "axis_index", "infeed", "outfeed", "run_state",
    "custom_vmap_call",
)  # fmt: skip
# Under vmap, and of public values, as JAX has them; of users along an axis without a rule.
WITHOUT_RULE = (
    "approx_top_k", "custom_lin", "device_put", "eig", "empty2", "hessenberg", "iota", "name", "optimization_barrier",
    "platform_index", "random_gamma", "reduce_window", "regularized_incomplete_beta", "rng_bit_generator",
    "rng_uniform", "schur", "select_and_gather_add", "select_and_scatter", "select_and_scatter_add",
    "sharding_constraint", "tridiagonal", "tridiagonal_solve",
)  # fmt: skip

_MODULES = "jax._src.lax", "jax._src.random", primitives.__name__
_GENERATORS = "threefry2x32", "rbg", "unsafe_rbg", "philox2x32", "philox4x32", "threefry4x32"


def collect_primitives() -> dict[str, Primitive]:
    """All primitives in those of JAX's modules that ``import jax`` loads, by name; none where two share a name."""
    objects: dict[str, dict[int, Primitive]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(_MODULES):
            for value in list(vars(module).values()):
                if isinstance(value, Primitive):
                    objects.setdefault(value.name, {})[id(value)] = value
    return {name: next(iter(of.values())) for name, of in objects.items() if len(of) == 1}


OF_JAX = collect_primitives()  # when this package is imported, before users' code runs


def is_of_jax(equation: JaxprEqn) -> bool:
    """Whether the operation is the object that JAX's modules hold under its name."""
    return OF_JAX.get(equation.primitive.name) is equation.primitive


def key_kinds(variables: Sequence[Var | Literal]) -> list[int | None]:
    """The generator of each variable that holds keys, as a place among JAX's own, None for another's generator."""
    kinds = [getattr(variable.aval, "dtype", None) for variable in variables]
    return [_place(kind) for kind in kinds if kind is not None and jnp.issubdtype(kind, jax.dtypes.prng_key)]


def _place(kind: object) -> int | None:
    same = [own == kind for own in _kinds()]  # equal where their functions are
    return same.index(True) if any(same) else None


THREEFRY = 0


@functools.cache
def _kinds() -> list[object]:
    return [jax.eval_shape(functools.partial(jax.random.key, 0, impl=name)).dtype for name in _GENERATORS]

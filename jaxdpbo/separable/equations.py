"""Equations of traced programs in every supported release of JAX: the one reader of what releases changed.

Parameters decide what an operation does to its operands. An operation with a parameter of an unknown name, without an
expected one, or with operands that do not fit its programs, has a meaning that nobody has read: ``find_fault`` gives
the reason to refuse it, and the readers expect equations without a fault. A new meaning behind an old name goes
undetected, so each release is read, and added to the requirements, by hand.
"""

import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr as ClosedJaxpr  # pyright: ignore[reportPrivateImportUsage]: not exported by 0.12
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

CALLS = {  # primitive -> the name of its program parameter
    "jit": "jaxpr", "closed_call": "call_jaxpr", "remat2": "jaxpr", "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr", "call_hi_primitive": "_prim",
}  # fmt: skip
WRITTEN_OUT = "call_hi_primitive"  # of JAX 0.12: an object that writes out the program when JAX compiles
_WRITERS = "jax._src.numpy.hijax", ("Nonzero", "SearchSorted")  # of integers, which have no derivatives to lose
LOOPS = "scan", "while", "cond", "custom_linear_solve"
# Primitives: their parameters in JAX 0.10.2, 0.11.2 and 0.12.0; ``?`` if not in every equation. Others have none.
_PARAMETERS = """
cbrt cos exp exp2 expm1 log log1p log2 logistic rsqrt sin sqrt tan tanh: accuracy
scatter scatter-add scatter-max scatter-min scatter-mul scatter-sub: dimension_numbers indices_are_sorted mode
    unique_indices update_consts update_jaxpr
cumlogsumexp cummax cummin cumprod cumsum: axis reverse
reduce_and reduce_or reduce_prod reduce_xor: axes
reduce_window_max reduce_window_min reduce_window_sum: base_dilation padding window_dilation window_dimensions
    window_strides
argmax argmin: axes index_dtype
reduce_max reduce_min: axes out_sharding?
stack unstack: axis
rev squeeze: dimensions
random_seed random_wrap: impl
random_split rng_uniform: shape
erfc: accuracy?
approx_top_k: aggregate_to_topk is_max_k k recall_target reduction_dimension reduction_input_size_override
svd: algorithm compute_uv full_matrices subset_by_index
rng_bit_generator: algorithm dtype out_sharding shape
eigh: algorithm lower sort_eigenvalues subset_by_index
reduce_sum: axes out_sharding
top_k: axis k is_stable?
split: axis sizes
reduce_window: base_dilation consts jaxpr padding window_dilation window_dimensions window_strides
select_and_gather_add: base_dilation padding select_prim window_dilation window_dimensions window_strides
conv_general_dilated: batch_group_count dimension_numbers feature_group_count lhs_dilation out_sharding padding
    precision preferred_element_type rhs_dilation window_strides
random_bits: bit_width shape
while: body_jaxpr body_nconsts cond_jaxpr cond_nconsts
cond: branches branches_platforms?
broadcast_in_dim: broadcast_dimensions shape sharding
custom_vjp_call: bwd call_jaxpr fwd_jaxpr_thunk num_consts out_trees symbolic_zeros
custom_lin: bwd in_zeros num_res out_avals symbolic_zeros
closed_call: call_jaxpr
call_hi_primitive: _prim
custom_jvp_call: call_jaxpr jvp_jaxpr_fun num_consts symbolic_zeros
jit: compiler_options_kvs ctx_mesh donated_invars in_layouts in_shardings inline jaxpr keep_unused name out_layouts
    out_shardings
reduce: computation dimensions jaxpr
eig: compute_left_eigenvectors compute_right_eigenvectors enable_eigvec_derivs implementation
schur: compute_schur_vectors select_callable sort_eig_vals
triangular_solve: conjugate_a left_side lower transpose_a unit_diagonal
custom_linear_solve: const_lengths jaxprs
sharding_constraint: context_mesh layout sharding unconstrained_dims
device_put: copy_semantics devices srcs
remat2: differentiated jaxpr policy prevent_cse
concatenate: dimension
iota: dimension dtype shape sharding
sort: dimension is_stable num_keys
gather: dimension_numbers fill_value indices_are_sorted mode slice_sizes unique_indices
dot_general: dimension_numbers out_sharding precision preferred_element_type
reshape: dimensions new_sizes sharding
empty2: dtype memory_space
reduce_precision: exponent_bits mantissa_bits
fft: fft_lengths fft_type
qr: full_matrices pivoting use_magma
conj: input_dtype
scan: jaxpr length reverse unroll ft_in? ft_out? num_carry? num_consts?
slice: limit_indices start_indices strides
random_gamma: log_space
tridiagonal: lower
name: name
bitcast_convert_type: new_dtype
convert_element_type: new_dtype sharding weak_type
mul: out_dtype
select_and_scatter: padding scatter_consts scatter_jaxpr select_consts select_jaxpr window_dimensions window_strides
select_and_scatter_add: padding select_prim window_dimensions window_strides
pad: padding_config
transpose: permutation
lu_pivots_to_permutation: permutation_size
tridiagonal_solve: perturb_singular
platform_index: platforms
tile: reps
round: rounding_method
dynamic_slice: slice_sizes
polynomial: unroll?
integer_pow: y
"""


def _parse_parameters(text: str) -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """Primitive -> names in every equation, and all names."""
    known = {}
    for line in text.replace("\n    ", " ").strip().splitlines():
        primitives, _, names = line.partition(":")
        always = frozenset(name for name in names.split() if not name.endswith("?"))
        known |= dict.fromkeys(primitives.split(), (always, frozenset(names.replace("?", "").split())))
    return known


_KNOWN = _parse_parameters(_PARAMETERS)


class Scan(NamedTuple):
    """The program of a ``scan``; the number of operands fixed in all turns, and of those carried between turns."""

    program: ClosedJaxpr
    fixed: int
    carried: int


class While(NamedTuple):
    """The programs of a ``while``, and the numbers of leading operands of each alone; the rest is carried."""

    condition: ClosedJaxpr
    of_condition: int
    body: ClosedJaxpr
    of_body: int


class Solve(NamedTuple):
    """The program that solves, and the places of its constants and of the right sides among the operands."""

    program: ClosedJaxpr
    constants: slice
    right: slice


def atom_shape(variable: Var | Literal) -> tuple[int, ...]:
    """The shape of a variable or a literal of a program."""
    return tuple(getattr(variable.aval, "shape", ()))


def is_program(value: object) -> bool:
    """True for programs: later releases have one class for open and closed ones."""
    return isinstance(value, (ClosedJaxpr, Jaxpr))


def close(program: ClosedJaxpr | Jaxpr) -> ClosedJaxpr:
    """Close a program that has no constants; return a closed program unchanged."""
    return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())


def programs_in(equation: JaxprEqn) -> Iterator[ClosedJaxpr]:
    """Yield the programs among the parameters of an operation."""
    for value in jax.tree.leaves(list(equation.params.values())):
        if is_program(value):
            yield close(value)


def operations(program: ClosedJaxpr) -> Iterator[str]:
    """Yield the name of every operation of a program, and of the programs inside of it."""
    for equation in program.jaxpr.eqns:
        yield equation.primitive.name
        for inside in programs_in(equation):
            yield from operations(inside)


def calls(program: ClosedJaxpr, names: Collection[str]) -> bool:
    """True if a program, or one inside of it, has an operation of one of these names."""
    return any(name in names for name in operations(program))


def find_fault(equation: JaxprEqn, private: bool) -> str:
    """The reason to refuse an operation of parameters or operands unlike those of all known releases; empty if none.

    Calls, loops, branches and solves are always read; others only with ``private``, where an operand has users' values.
    """
    name, found = equation.primitive.name, set(equation.params)
    if not private and name not in (*CALLS, *LOOPS):
        return ""
    always, known = _KNOWN.get(name, (frozenset(), frozenset()))
    odd = sorted(found - known | always - found)
    if name == WRITTEN_OUT and not odd and not _is_known(equation.params["_prim"]):
        return f"is no operation of JAX that the analysis knows, {type(equation.params['_prim']).__name__}"
    if not odd and _fits(equation):
        return ""
    what = f"parameters ({', '.join(odd)})" if odd else "a layout"
    return f"has {what} of a JAX release that this version of jaxdpbo does not know, {jax.__version__}"


def read_call(equation: JaxprEqn) -> ClosedJaxpr:
    """The program that an operation of ``CALLS`` runs on its operands."""
    program = equation.params[CALLS[equation.primitive.name]]
    if not _is_known(program):
        return close(program)
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type) for aval in program.in_avals]
    return jax.make_jaxpr(program.expand)(*shapes)


def read_scan(equation: JaxprEqn) -> Scan:
    """Read a ``scan``: JAX 0.10 counts operands, and later releases give a tree for each kind of operand."""
    params = equation.params
    if "ft_in" in params:
        fixed, carried, _ = map(len, params["ft_in"].unpack())
        return Scan(params["jaxpr"], fixed, carried)
    return Scan(params["jaxpr"], params["num_consts"], params["num_carry"])


def read_while(equation: JaxprEqn) -> While:
    """Read a ``while``."""
    params = equation.params
    return While(params["cond_jaxpr"], params["cond_nconsts"], params["body_jaxpr"], params["body_nconsts"])


def read_branches(equation: JaxprEqn) -> Sequence[ClosedJaxpr]:
    """The branches of a ``cond``; the first operand chooses, and all others go to the branch."""
    return equation.params["branches"]


def read_solve(equation: JaxprEqn) -> Solve:
    """Read a ``custom_linear_solve``: constants of four programs, in this order, come before the right sides."""
    lengths = equation.params["const_lengths"]
    begin = lengths.matvec + lengths.vecmat
    end = begin + lengths.solve
    return Solve(
        equation.params["jaxprs"].solve, slice(begin, end), slice(end + lengths.transpose_solve, len(equation.invars))
    )


def _fits(equation: JaxprEqn) -> bool:
    """True if the operands of a loop, a branch, a solve or a call fit its programs; of other operations, always."""
    try:
        return _FITS.get(equation.primitive.name, lambda _: True)(equation)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # a parameter of another type
        return False


def _takes(program: Any, operands: Sequence[Any], results: Sequence[Any]) -> bool:
    """True if a program takes and returns arrays of these shapes."""
    if not is_program(program):
        return False
    closed = close(program)
    pairs = (closed.in_avals, operands), (closed.out_avals, results)
    return all([getattr(aval, "shape", ()) for aval in avals] == list(shapes) for avals, shapes in pairs)


def _shapes(equation: JaxprEqn) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    return list(map(atom_shape, equation.invars)), list(map(atom_shape, equation.outvars))


def _fits_call(equation: JaxprEqn) -> bool:
    program = equation.params[CALLS[equation.primitive.name]]
    return _takes(read_call(equation) if _is_known(program) else program, *_shapes(equation))


def _is_known(writer: Any) -> bool:
    """True for an object of a class of JAX that is read here, by the identity of the class."""
    module, names = _WRITERS
    return type(writer) in [getattr(sys.modules.get(module), name, None) for name in names]


def _fits_scan(equation: JaxprEqn) -> bool:
    params, (operands, results) = equation.params, _shapes(equation)
    if {"ft_in", "ft_out"} & set(params):
        kinds, kept = ([len(part) for part in params[name].unpack()] for name in ("ft_in", "ft_out"))
        parts_fit = len(kinds) == 3 and len(kept) == 2 and kinds[1] == kept[0] and sum(kinds) == len(operands)
        if not parts_fit or {"num_carry", "num_consts"} & set(params):
            return False
    program, fixed, carried = read_scan(equation)
    before, along = operands[: fixed + carried], operands[fixed + carried :]
    kept, stacked = results[:carried], results[carried:]
    lengths = {shape[:1] for shape in (*along, *stacked)}
    return (
        lengths <= {(params["length"],)}
        and kept == before[fixed:]
        and _takes(program, before + [shape[1:] for shape in along], kept + [shape[1:] for shape in stacked])
    )


def _fits_while(equation: JaxprEqn) -> bool:
    (operands, results), (condition, of_condition, body, of_body) = _shapes(equation), read_while(equation)
    carry = operands[of_condition + of_body :]
    fixed = operands[of_condition : of_condition + of_body]
    going = [atom_shape(atom) for atom in condition.jaxpr.outvars]  # under vmap, an entry for each element of the batch
    return (
        carry == results
        and len(going) == 1
        and _takes(condition, operands[:of_condition] + carry, going)
        and _takes(body, fixed + carry, results)
    )


def _fits_cond(equation: JaxprEqn) -> bool:
    operands, results = _shapes(equation)
    return all(_takes(branch, operands[1:], results) for branch in read_branches(equation))


def _fits_solve(equation: JaxprEqn) -> bool:
    programs = "matvec", "vecmat", "solve", "transpose_solve"
    if any(getattr(equation.params[name], "_fields", ()) != programs for name in ("const_lengths", "jaxprs")):
        return False
    (operands, results), (program, constants, right) = _shapes(equation), read_solve(equation)
    return operands[right] == results and _takes(program, operands[constants] + results, results)


_FITS = {
    **dict.fromkeys(CALLS, _fits_call), "scan": _fits_scan, "while": _fits_while, "cond": _fits_cond,
    "custom_linear_solve": _fits_solve,
}  # fmt: skip

"""Rules for the effect of each primitive on the axis of users: a function for each family, in a table.

A rule gets an equation and, for each operand, the axis of users, or None if the operand is public; at least one operand
is not. Slice ``i`` along the axis is a function of record ``i`` and of public values. The rule returns the axis of
users in all results, or the reason why there is none. A rule may refuse a separable result, never accept another.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn

from jaxdpbo.separable.equations import atom_shape

Axes = Sequence[int | None]
Rule = Callable[[JaxprEqn, Axes], int | str]

DIFFERENT = "combines arrays with users along different axes"


def _shared_axis(axes: Axes) -> int | None:
    """The common axis of all private operands; None if the axes differ."""
    private = {axis for axis in axes if axis is not None}
    return private.pop() if len(private) == 1 else None


def _private_operand(axes: Axes) -> int:
    """The place of the only private operand."""
    (place,) = (place for place, axis in enumerate(axes) if axis is not None)
    return place


def _elementwise(equation: JaxprEqn, axes: Axes) -> int | str:
    """Rule for operations entry by entry, on operands of one shape and public scalars."""
    axis = _shared_axis(axes)
    return DIFFERENT if axis is None else axis


def _make_rule(crosses: Callable[[JaxprEqn, int], str]) -> Rule:
    """Make a rule that keeps the shared axis, unless ``crosses(equation, axis)`` returns a reason to refuse."""

    def rule(equation: JaxprEqn, axes: Axes) -> int | str:
        axis = _shared_axis(axes)
        return DIFFERENT if axis is None else crosses(equation, axis) or axis

    return rule


def _resolve_axes(equation: JaxprEqn, named: int | Sequence[int], operand: int = 0) -> list[int | None]:
    """Convert axes of an operand to nonnegative numbers: JAX accepts negative axes."""
    rank = len(atom_shape(equation.invars[operand]))
    return [int(axis) % rank for axis in np.atleast_1d(named)]


def _broadcast_in_dim(equation: JaxprEqn, axes: Axes) -> int | str:
    rank = len(atom_shape(equation.outvars[0]))
    return equation.params["broadcast_dimensions"][axes[0]] % rank


def _reshape(equation: JaxprEqn, axes: Axes) -> int | str:
    """Keep the axis if its own size, and the product of the sizes before it, stay the same."""
    axis, old, new = axes[0], atom_shape(equation.invars[0]), tuple(equation.params["new_sizes"])
    if axis is not None and equation.params.get("dimensions") is None:
        for place, size in enumerate(new):
            if size == old[axis] and math.prod(new[:place]) == math.prod(old[:axis]):
                return place
    return "reshapes the axis of users away"


def _squeeze(equation: JaxprEqn, axes: Axes) -> int | str:
    return _without_axes("squeezes the axis of users", axes, _resolve_axes(equation, equation.params["dimensions"]))


def _reduction(equation: JaxprEqn, axes: Axes) -> int | str:
    named = equation.params["axes" if "axes" in equation.params else "dimensions"]
    return _without_axes("reduces over users", axes, _resolve_axes(equation, named))


def _without_axes(otherwise: str, axes: Axes, gone: Sequence[int | None]) -> int | str:
    axis = _shared_axis(axes)
    if axis is None:
        return DIFFERENT
    return otherwise if axis in gone else axis - sum(place is not None and place < axis for place in gone)


def _transpose(equation: JaxprEqn, axes: Axes) -> int | str:
    return _resolve_axes(equation, equation.params["permutation"]).index(axes[0])


def _slice(equation: JaxprEqn, axis: int) -> str:
    params, size = equation.params, atom_shape(equation.invars[0])[axis]
    whole = (params["start_indices"][axis], params["limit_indices"][axis]) == (0, size)
    return "" if whole and (params["strides"] is None or params["strides"][axis] == 1) else "takes a part of the users"


def _dynamic_slice(equation: JaxprEqn, axes: Axes) -> int | str:
    axis, *starts = axes
    if axis is None or any(start is not None for start in starts):
        return "slices at a place that depends on records"
    whole = equation.params["slice_sizes"][axis] == atom_shape(equation.invars[0])[axis]
    return axis if whole else "takes a part of the users"


def _dynamic_update_slice(equation: JaxprEqn, axes: Axes) -> int | str:
    update, starts, axis = axes[1], axes[2:], _shared_axis(axes[:2])
    if any(start is not None for start in starts):
        return "writes at a place that depends on records"
    if axis is None:
        return DIFFERENT
    whole = atom_shape(equation.invars[0])[axis] == atom_shape(equation.invars[1])[axis]
    return axis if whole or update is None else "writes some users' values into others' places"


def _pad(equation: JaxprEqn, axes: Axes) -> int | str:
    axis, value = axes
    if axis is None or value is not None:
        return "pads with a value that depends on records"
    return axis if tuple(equation.params["padding_config"][axis]) == (0, 0, 0) else "pads the axis of users"


def _axis_rule(name: str, what: str) -> Rule:
    """Make a rule for operations along the axis ``params[name]``, by default the last."""

    def crosses(equation: JaxprEqn, axis: int) -> str:
        return f"{what} users" if axis in _resolve_axes(equation, equation.params.get(name, -1)) else ""

    return _make_rule(crosses)


def _stack(equation: JaxprEqn, axes: Axes) -> int | str:
    axis, new = _shared_axis(axes), equation.params["axis"] % len(atom_shape(equation.outvars[0]))
    return DIFFERENT if axis is None else axis + (new <= axis)


def _unstack(equation: JaxprEqn, axes: Axes) -> int | str:
    return _without_axes("takes the users apart", axes, _resolve_axes(equation, equation.params["axis"]))


def _last_axes_rule(kept: int, what: str) -> Rule:
    """Make a rule for operations on the last ``kept`` axes of the first operand, with batch axes before them."""
    return _make_rule(
        lambda equation, axis: f"{what} users" if axis >= len(atom_shape(equation.invars[0])) - kept else ""
    )


def _fft(equation: JaxprEqn, axis: int) -> str:
    free = len(atom_shape(equation.invars[0])) - len(equation.params["fft_lengths"])
    return "" if axis < free else "transforms along the axis of users"


def _triangular_solve(equation: JaxprEqn, axes: Axes) -> int | str:
    (matrix, right), rank, axis = axes, len(atom_shape(equation.invars[1])), _shared_axis(axes)
    columns = rank - (1 if equation.params["left_side"] else 2)
    if matrix is None and right == columns:
        return columns
    if axis is None:
        return DIFFERENT
    return axis if axis < rank - 2 else "solves a system across users"


def _dot_general(equation: JaxprEqn, axes: Axes) -> int | str:
    contracted, batch = (
        [_resolve_axes(equation, named[side], side) for side in (0, 1)]
        for named in equation.params["dimension_numbers"]
    )
    private = [side for side in (0, 1) if axes[side] is not None]
    if any(axes[side] in contracted[side] for side in private):
        return "sums a product over users"
    places = [batch[side].index(axes[side]) for side in private if axes[side] in batch[side]]
    if len(private) == 2:
        return places[0] if len(places) == 2 and places[0] == places[1] else "multiplies users with users"
    if places:
        return places[0]
    side, free = private[0], []
    for operand, variable in enumerate(equation.invars):
        taken = {*contracted[operand], *batch[operand]}
        free.append([axis for axis in range(len(atom_shape(variable))) if axis not in taken])
    return len(batch[0]) + (len(free[0]) if side else 0) + free[side].index(axes[side])


def _convolution(equation: JaxprEqn, axes: Axes) -> int | str:
    numbers = equation.params["dimension_numbers"]
    if axes[1] is not None or axes[0] != numbers.lhs_spec[0] or equation.params["batch_group_count"] != 1:
        return "convolves users"
    return numbers.out_spec[0]


def _window(equation: JaxprEqn, axis: int) -> str:
    params = equation.params
    alone = params["window_dimensions"][axis] == params["window_strides"][axis] == 1
    alone = alone and tuple(params["padding"][axis]) == (0, 0)
    alone = alone and all(params[name][axis] == 1 for name in ("base_dilation", "window_dilation") if name in params)
    return "" if alone else "takes windows of users"


def _gather(equation: JaxprEqn, axes: Axes) -> int | str:
    """Keep users along a whole window, along a batching axis, or, for a public operand, along the indices."""
    (operand, indices), numbers = axes, equation.params["dimension_numbers"]
    rank, shapes = len(atom_shape(equation.outvars[0])), [atom_shape(variable) for variable in equation.invars]
    beside = [axis for axis in range(rank) if axis not in numbers.offset_dims]  # the indices' own axes, in order
    if operand is None:
        assert indices is not None
        return "takes values of users as one index" if indices == len(shapes[1]) - 1 else beside[indices]
    if operand in numbers.operand_batching_dims:
        theirs = numbers.start_indices_batching_dims[numbers.operand_batching_dims.index(operand)]
        return beside[theirs] if indices in (None, theirs) else "picks one user's values for another"
    if indices is not None:
        return "picks users by values that depend on records"
    aside = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    whole = equation.params["slice_sizes"][operand] == shapes[0][operand] and operand not in numbers.start_index_map
    if operand in aside or not whole:
        return "picks some of the users"
    kept = [axis for axis in range(len(shapes[0])) if axis not in aside]
    return numbers.offset_dims[kept.index(operand)]


def _scatter(equation: JaxprEqn, axes: Axes) -> int | str:
    """Keep users along a whole window of operand and updates, or along a batching axis of all three operands."""
    (operand, indices, updates), numbers = axes, equation.params["dimension_numbers"]
    shapes = [atom_shape(variable) for variable in equation.invars]
    beside = [axis for axis in range(len(shapes[2])) if axis not in numbers.update_window_dims]
    aside = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    kept = [axis for axis in range(len(shapes[0])) if axis not in aside]
    batched = _batching_axis(numbers, axes, beside)
    if batched is not None:
        return batched
    if indices is not None:
        return "writes at a place that depends on records"
    if updates is None and operand is not None:
        return operand
    for axis, of_updates in zip(kept, numbers.update_window_dims, strict=True):
        whole = shapes[0][axis] == shapes[2][of_updates] and axis not in numbers.scatter_dims_to_operand_dims
        if operand in (None, axis) and updates == of_updates and whole:
            return axis
    return "writes some users' values into others' places"


def _batching_axis(numbers: Any, axes: Axes, beside: Sequence[int]) -> int | None:
    """The operand's batching axis of users, if every private operand of the scatter shares it; else None."""
    operand, indices, updates = axes
    for axis, theirs in zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True):
        if operand in (None, axis) and indices in (None, theirs) and updates in (None, beside[theirs]):
            return axis
    return None


def _bitcast(equation: JaxprEqn, axis: int) -> str:
    both = min(len(atom_shape(equation.invars[0])), len(atom_shape(equation.outvars[0])))
    return "" if axis < both else "takes the bits of several users as one"


def has_negative_axis(equation: JaxprEqn) -> bool:
    """True if an axis among the parameters is negative, since JAX's rules for vmap do not expect negative axes."""
    named = [value for name, value in equation.params.items() if name in AXES]
    return any(axis < 0 for axis in jax.tree.leaves(named) if isinstance(axis, (int, np.integer)))


AXES = "axis", "axes", "dimension", "dimensions", "permutation", "broadcast_dimensions", "dimension_numbers"
_ELEMENTWISE = """
abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex conj
convert_element_type copy cos cosh digamma div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igamma_grad_a
igammac imag integer_pow is_finite le le_to lgamma log log1p log2 logistic lt lt_to max min mul mulhi ne neg nextafter
not one_minus_square or polygamma polynomial population_count pow real reduce_precision rem round rsqrt select_n
shift_left shift_right_arithmetic shift_right_logical sign sin sinh sqrt square stop_gradient sub tan tanh threefry2x32
xor zeta
"""
RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "rev": _make_rule(
        lambda equation, axis: (
            "reverses the order of users" if axis in _resolve_axes(equation, equation.params["dimensions"]) else ""
        )
    ),
    "slice": _make_rule(_slice),
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "concatenate": _axis_rule("dimension", "puts users behind"),
    "split": _axis_rule("axis", "splits the axis of"),
    "stack": _stack,
    "unstack": _unstack,
    "tile": _make_rule(lambda equation, axis: "" if equation.params["reps"][axis] == 1 else "repeats users"),
    "pad": _pad,
    "gather": _gather,
    **dict.fromkeys(("scatter", *(f"scatter-{name}" for name in ("add", "sub", "mul", "min", "max"))), _scatter),
    **{f"reduce_{name}": _reduction for name in ("sum", "max", "min", "prod", "and", "or", "xor")},
    **dict.fromkeys(("reduce", "argmax", "argmin"), _reduction),
    **{f"reduce_window_{name}": _make_rule(_window) for name in ("sum", "max", "min")},
    **{f"cum{name}": _axis_rule("axis", "accumulates over") for name in ("sum", "prod", "max", "min", "logsumexp")},
    "sort": _axis_rule("dimension", "sorts"),
    "top_k": _axis_rule("axis", "ranks"),
    "fft": _make_rule(_fft),
    "dot_general": _dot_general,
    "conv_general_dilated": _convolution,
    **{name: _last_axes_rule(2, "factors a matrix of") for name in ("cholesky", "eigh", "svd", "qr", "geqrf", "lu")},
    "householder_product": _last_axes_rule(2, "multiplies reflections of"),
    "lu_pivots_to_permutation": _last_axes_rule(1, "permutes"),
    "triangular_solve": _triangular_solve,
    "bitcast_convert_type": _make_rule(_bitcast),
    # Each threefry key has its own stream; the walk refuses keys of records by other generators earlier.
    **{f"random_{name}": _elementwise for name in ("bits", "split", "fold_in", "wrap", "unwrap", "clone", "seed")},
}
# A loop multiplies the values of all users until the last user has converged (``jax.scipy.special.betainc``): the count
# of multiplications of a user's value, by factors that may be NaN, depends on the others.
TOGETHER = ("regularized_incomplete_beta",)
ONE_STREAM = "rng_bit_generator", "rng_uniform"  # a batch of states draws from its first state
ITERATIVE = ("eigh", "svd")  # on accelerators, a batch may be iterated until all matrices have converged

"""Host-side validators: each error names the argument and shows the refused value.

Validators run before any trace and read configuration only.
"""

import functools
import importlib
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, SupportsFloat, SupportsIndex, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo.types import ArrayLike, DTypeLike, Unchecked

MAX_SIZE = 2**53  # the largest size: above, floats skip whole numbers
Function = TypeVar("Function", bound=Callable[..., Any])


def takes(**checks: Callable[[str, Any], Any]) -> Callable[[Function], Function]:
    """Decorate a function of plain numbers: check each argument with the check of the same name.

    The decorated function raises ``ValueError`` for a result out of the range of floats.
    """

    def wrap(function: Any) -> Any:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            bound = signature.bind(*positional, **named)
            for name in bound.arguments.keys() & checks.keys():
                bound.arguments[name] = checks[name](name, bound.arguments[name])
            try:
                result = function(*bound.args, **bound.kwargs)
            except ArithmeticError:
                result = math.nan
            if isinstance(result, float) and math.isnan(result):
                values = ", ".join(f"{name}={value!r}" for name, value in bound.arguments.items())
                raise ValueError(f"{function.__name__} is beyond what floats hold at {values}")
            return result

        return call

    return wrap


def refuse_others(what: str, advice: Callable[[str, Any], str]) -> Callable[[Function], Function]:
    """Decorate a function so that the ``TypeError`` for an unknown argument says what to type.

    The decorated function keeps its signature, which scikit-learn reads.

    Args:
      what: the name of the function, for the message.
      advice: what to type in place of an argument, by its name and value.
    """

    def wrap(function: Any) -> Any:
        names = inspect.signature(function).parameters

        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            refused = [f"{name}: {advice(name, value)}" for name, value in named.items() if name not in names]
            if refused:
                raise TypeError(f"{what} takes no {'; no '.join(refused)}")
            return function(*positional, **named)

        return call

    return wrap


def size(name: str, value: Unchecked, *, minimum: int = 1) -> int:
    """Check an integer of at least ``minimum``; refuse booleans and floats."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        integer = operator.index(cast(SupportsIndex, value))
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if integer < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {integer}")
    if integer > MAX_SIZE:
        raise ValueError(f"{name} must be at most 2^53, got about 2^{integer.bit_length()}")
    return integer


def rational(name: str, value: Unchecked, *, minimum: Fraction, maximum: Fraction = Fraction(2**10)) -> Fraction:
    """Check an exact number within limits: a fraction or an integer, never a float."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise TypeError(f"{name} must be a Fraction, got {value!r}")
    if not minimum <= value <= maximum:
        raise ValueError(f"{name} must lie in [{minimum}, {maximum}], got {value}")
    return Fraction(value)


def shape(name: str, value: Unchecked) -> tuple[int, ...]:
    """Check the shape of an array."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of integers, got {value!r}")
    return tuple(size(name, length, minimum=0) for length in value)


def flag(name: str, value: Unchecked) -> bool:
    """Check True or False; refuse other values with a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def number(name: str, value: Unchecked) -> float:
    """Check a single real number, not NaN."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} must be a number known outside jit, vmap and grad, got a traced number: make configs on the host "
            "and pass them to the traced function as arguments"
        )
    try:
        if (
            isinstance(value, (bool, str, bytes))
            or np.ndim(cast(ArrayLike, value)) != 0
            or np.iscomplexobj(cast(ArrayLike, value))
            or value is np.ma.masked
        ):
            raise TypeError
        result = float(cast(SupportsFloat, value))
    except OverflowError:
        raise ValueError(f"{name} must be within the floats") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be one real number, got {value!r}") from None
    if math.isnan(result):
        raise ValueError(f"{name} must not be NaN")
    return result


def positive(name: str, value: Unchecked, *, finite: bool = True, dtype: DTypeLike = np.float64) -> float:
    """Check a real number above zero, rounded to ``dtype``; infinity only if ``finite`` is False."""
    with np.errstate(over="ignore"):
        result = float(np.asarray(number(name, value)).astype(dtype))
    if result <= 0:
        raise ValueError(f"{name} must be positive, got {result}")
    if finite and math.isinf(result):
        raise ValueError(f"{name} must be finite, got {result}")
    return result


def single_or_double(name: str, value: Unchecked) -> None:
    """Check an array or dtype of float32 or float64, without reading values."""
    dtype = np.dtype(cast(DTypeLike, getattr(value, "dtype", value)))
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must be float32 or float64, got {dtype.name}")


def nonnegative(name: str, value: Unchecked) -> float:
    """Check a finite real number of at least zero."""
    result = number(name, value)
    if result < 0 or math.isinf(result):
        raise ValueError(f"{name} must be at least zero and finite, got {result}")
    return result


def nonnegative_or_infinite(name: str, value: Unchecked) -> float:
    """Check a real number of at least zero, or infinity."""
    result = number(name, value)
    if result < 0:
        raise ValueError(f"{name} must be at least zero, got {result}")
    return result


def probability(name: str, value: Unchecked) -> float:
    """Check a real number strictly between zero and one."""
    result = number(name, value)
    if not 0 < result < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {result}")
    return result


def fraction(name: str, value: Unchecked) -> float:
    """Check a real number in [0, 1]."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {result}")
    return result


def one_of(name: str, value: Unchecked, options: tuple[str, ...]) -> str:
    """Check a value against the named options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def takes_two(name: str, value: Unchecked, first: str, second: str) -> None:
    """Check a function of two arguments before anything is charged: a call would fail only afterwards.

    The message names parameters alone: their defaults may hold records.
    """
    if not callable(value):
        raise TypeError(f"{name} must be a function of a {first} and {second}, got {type(value).__name__}")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(None, None)
    except TypeError:
        found = ", ".join(signature.parameters) or "none"
        raise TypeError(f"{name} must take a {first} and {second}, in this order, got the arguments {found}") from None


def function(name: str, value: Unchecked) -> Callable[..., Any]:
    """Check a module-level function: a fresh lambda or partial would compile anew each time."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}")
    if getattr(value, "__name__", "<lambda>") == "<lambda>":
        raise TypeError(
            f"{name} must be a function defined once with def, got {value!r}: "
            "static functions compare by identity, so a lambda or a partial compiles anew each time"
        )
    return value


def optimizer(name: str, value: Unchecked, dimension: int) -> None:
    """Check an optax factory with an update from gradients alone: an update with the loss would read raw data."""
    factory = function(name, value)
    try:
        made = factory(np.ones(dimension))
        with jax.numpy_dtype_promotion("standard"):  # some of optax mixes floats and integers
            theta = jax.ShapeDtypeStruct((dimension,), jnp.result_type(float))
            jax.eval_shape(lambda theta: made.update(theta, made.init(theta), theta), theta)
    except Exception as error:
        raise ValueError(f"{name} must be an optax factory with gradient-only updates, got {value!r}") from error


def reals(name: str, value: Unchecked) -> np.ndarray:
    """Convert real numbers of any shape to NumPy float64; refuse text, complex numbers and masked entries."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            return np.array([number(name, entry) for entry in array.ravel()], np.float64).reshape(array.shape)
        if array.dtype.kind in "cSUMm" or array.dtype.names or np.ma.is_masked(value):
            raise TypeError
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} must be within the floats") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of real numbers, got {value!r}") from None


def vector(name: str, value: Unchecked, length: int | None = None) -> np.ndarray:
    """Convert a finite vector ``(length,)`` to NumPy float64."""
    array = reals(name, value)
    if array.ndim != 1 or array.size == 0 or (length is not None and array.size != length):
        expected = "(d,)" if length is None else f"({length},)"
        raise ValueError(f"{name} must have shape {expected}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array}")
    return array


def interval(name: str, value: Unchecked, dtype: DTypeLike = np.float64) -> tuple[float, float]:
    """Check two finite numbers in order, with a width representable in ``dtype``."""
    if np.ndim(reals(name, value)) != 1:
        raise ValueError(f"{name} must be two numbers (low, high), got {value!r}")
    low, high = vector(name, value, 2).tolist()
    if not low < high:
        raise ValueError(f"{name} must have low < high, got {low}, {high}")
    limits = np.finfo(dtype)
    if not float(limits.tiny) <= high - low <= float(limits.max) or max(-low, high) > float(limits.max):
        raise ValueError(f"{name} must have a width that {np.dtype(dtype).name} holds, got {low}, {high}")
    return low, high


def round_down(value: float, dtype: DTypeLike) -> float:
    """Round a positive ``value`` down to ``dtype``."""
    with np.errstate(over="ignore"):  # an infinite result steps down to the largest number
        held = np.asarray(value, dtype)
    return float(held if float(held) <= value else np.nextafter(held, np.zeros((), dtype)))


def install_hint(name: str) -> str:
    """The command to install an extra of this package, by path: anybody could register its name at a package index."""
    return f"pip install -e '.[{name}]' in the checkout of jaxdpbo"


def extra(module: str, name: str, what: str) -> Any:
    """Import an optional module, or raise an ``ImportError`` with the extra of this package to install."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{what} needs {module}: {install_hint(name)}") from None


def box(name: str, value: Unchecked, *, finite: bool = True) -> np.ndarray:
    """Convert bounds in any spelling, lower strictly below upper, to NumPy float64 ``(2, d)``: rows lower, upper.

    ===================================================  ========================================================
    spelling                                             read as
    ===================================================  ========================================================
    ``{"low": (d,), "high": (d,)}``                      itself
    ``scipy.optimize.Bounds(low, high)``                 itself
    shape ``(d, 2)``, ``d != 2``                         SciPy's pairs ``[(low, high), ...]``
    shape ``(2, d)``, ``d != 2``                         rows lower and upper
    shape ``(2, 2)``                                     refused as ambiguous
    ===================================================  ========================================================
    """
    array = _rows_of_box(name, value)
    if np.any(np.isnan(array)):
        raise ValueError(f"{name} must not hold NaN, got {array.tolist()}")
    if finite and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array.tolist()}")
    if not np.all(array[0] < array[1]):
        raise ValueError(f"{name} must have lower < upper in each coordinate, got {array.tolist()}")
    return array


def low_high(bounds: np.ndarray) -> dict[str, np.ndarray]:
    """Convert rows ``(2, d)`` from ``box`` to a spelling of ``box`` without ambiguity for any ``d``."""
    return {"low": bounds[0], "high": bounds[1]}


def _rows_of_box(name: str, value: Any) -> np.ndarray:
    """Rows ``(2, d)`` as NumPy float64, with unchecked values."""
    ends = _named_ends(name, value)
    if ends is not None:
        low, high = (reals(f"{name} {end}", side) for end, side in zip(("low", "high"), ends, strict=True))
        if low.ndim != 1 or low.shape != high.shape or not low.size:
            raise ValueError(f"{name} must have low and high of one shape (d,), got {low.shape} and {high.shape}")
        return np.stack([low, high])
    array = reals(name, value)
    if array.ndim != 2 or 2 not in array.shape or 0 in array.shape:
        raise ValueError(f"{name} must be pairs (low, high), one a parameter, or have shape (2, d), got {array.shape}")
    if array.shape == (2, 2):
        first, second = array.tolist()
        pairs = [list(side) for side in zip(first, second, strict=True)]
        raise ValueError(
            f"{name} of shape (2, 2) may be pairs or rows: write {{'low': {pairs[0]}, 'high': {pairs[1]}}} for the "
            f"pairs (low, high), or {{'low': {first}, 'high': {second}}} for the rows lower and upper"
        )
    return array if array.shape[0] == 2 else array.T


def _named_ends(name: str, value: Any) -> tuple[Any, Any] | None:
    """Unchecked low and high of named bounds; None for other bounds."""
    if isinstance(value, Mapping):
        if set(value) != {"low", "high"}:
            raise ValueError(f"{name} must have the names 'low' and 'high' alone, got {', '.join(map(repr, value))}")
        return value["low"], value["high"]
    if hasattr(value, "lb") and hasattr(value, "ub"):  # scipy.optimize.Bounds, without an import
        return value.lb, value.ub
    return None


def middle(bounds: np.ndarray) -> np.ndarray:
    """The point ``(d,)`` half-way between the rows of ``bounds (2, d)``."""
    return (bounds[0] + bounds[1]) / 2


def half_width(bounds: np.ndarray) -> np.ndarray:
    """Half of each side ``(d,)`` of ``bounds (2, d)``."""
    return (bounds[1] - bounds[0]) / 2


def from_box(
    name: str, value: Unchecked, bounds: np.ndarray, default: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Convert a vector ``(d,)`` or one number for all coordinates; for None, return ``default`` of a finite box."""
    if value is None:
        if not np.all(np.isfinite(bounds)):
            raise ValueError(f"{name} must be given if bounds are infinite, got {bounds.tolist()}")
        return default(bounds)
    dimension = bounds.shape[1]
    return vector(name, np.full(dimension, number(name, value)) if is_one(value) else value, dimension)


def step_size(value: Unchecked, limits: np.ndarray) -> np.ndarray:
    """Check a positive number for each side; for None, return the half-widths of the box."""
    sizes = from_box("step_size", value, limits, half_width)
    if not np.all(sizes > 0):
        raise ValueError(f"step_size must be positive, got {sizes.tolist()}")
    return sizes


def is_one(value: Unchecked) -> bool:
    """True if a value is no sequence: a number, text, or anything else without a length."""
    return isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or getattr(value, "shape", None) == ()


def rows(name: str, value: Unchecked) -> np.ndarray:
    """Convert finite points ``(c, d)``, at least one, to NumPy float64."""
    array = reals(name, value)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (c, d), got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array).all(axis=1)][0].tolist()} among them")
    return array


def distinct_rows(name: str, value: Unchecked) -> np.ndarray:
    """Convert finite distinct points ``(c, d)``, at least one, to NumPy float64."""
    array = rows(name, value)
    unique, counts = np.unique(array, axis=0, return_counts=True)
    if len(unique) < len(array):
        raise ValueError(f"{name} must be distinct, got {unique[np.argmax(counts)].tolist()} {counts.max()} times")
    return array


def inside(name: str, point: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Check a point inside the box."""
    if not (np.all(bounds[0] <= point) and np.all(point <= bounds[1])):
        raise ValueError(f"{name} must lie inside bounds, got {point.tolist()} for {bounds.tolist()}")
    return point


def key(name: str, value: Unchecked) -> jax.Array:
    """Check a single typed JAX key; refuse integers, None and old-style uint32 keys."""
    if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)):
        raise TypeError(f"{name} must be a typed key such as jax.random.key(seed), got {type(value).__name__}")
    if value.ndim != 0:
        raise ValueError(f"{name} must be one key, got shape {value.shape}")
    return value

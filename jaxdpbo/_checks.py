"""Host-side validators: each names the argument and shows the value it refuses.

They run before anything is traced and see configuration only.
"""

import functools
import importlib
import inspect
import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo.types import DTypeLike, Unchecked

MAX_SIZE = 2**53  # of a size: beyond it floats skip whole numbers
Function = TypeVar("Function", bound=Callable[..., Any])


def takes(**checks: Callable[[str, Any], Any]) -> Callable[[Function], Function]:
    """A function of plain numbers, each argument checked by the check of its name before the formula sees it.

    A result that the floats do not hold is a ``ValueError`` too.
    """

    def wrap(function: Any) -> Any:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*positional: Any, **named: Any) -> Any:
            given = signature.bind(*positional, **named)
            for name in given.arguments.keys() & checks.keys():
                given.arguments[name] = checks[name](name, given.arguments[name])
            try:
                found = function(*given.args, **given.kwargs)
            except ArithmeticError:
                found = math.nan
            if isinstance(found, float) and math.isnan(found):
                said = ", ".join(f"{name}={value!r}" for name, value in given.arguments.items())
                raise ValueError(f"{function.__name__} is beyond what floats hold at {said}")
            return found

        return call

    return wrap


def size(name: str, value: Unchecked, *, minimum: int = 1) -> int:
    """A Python integer of at least ``minimum``; booleans and floats are refused."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        integer = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if integer < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {integer}")
    if integer > MAX_SIZE:
        raise ValueError(f"{name} must be at most 2^53, got about 2^{integer.bit_length()}")
    return integer


def rational(name: str, value: Unchecked, *, minimum: Fraction, maximum: Fraction = Fraction(2**10)) -> Fraction:
    """An exact number within limits: a fraction or an integer, never a float."""
    if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
        raise TypeError(f"{name} must be a Fraction, got {value!r}")
    if not minimum <= value <= maximum:
        raise ValueError(f"{name} must lie in [{minimum}, {maximum}], got {value}")
    return Fraction(value)


def shape(name: str, value: Unchecked) -> tuple[int, ...]:
    """The shape of an array."""
    if not isinstance(value, (tuple, list)):
        raise TypeError(f"{name} must be a tuple of integers, got {value!r}")
    return tuple(size(name, each, minimum=0) for each in value)


def flag(name: str, value: Unchecked) -> bool:
    """True or False, nothing that merely counts as one of them."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def number(name: str, value: Unchecked) -> float:
    """One real number, not NaN."""
    if isinstance(value, Tracer):
        raise TypeError(
            f"{name} must be a number that is known outside jit, vmap and grad, got a traced one: make configs on the "
            "host and pass them to the traced function as arguments"
        )
    try:
        if (
            isinstance(value, (bool, str, bytes))
            or np.ndim(value) != 0
            or np.iscomplexobj(value)
            or value is np.ma.masked
        ):
            raise TypeError
        result = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be within the floats") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be one real number, got {value!r}") from None
    if math.isnan(result):
        raise ValueError(f"{name} must not be NaN")
    return result


def positive(name: str, value: Unchecked, *, finite: bool = True, dtype: DTypeLike = np.float64) -> float:
    """A real number above zero, as ``dtype`` holds it; infinity only where ``finite`` is False."""
    with np.errstate(over="ignore"):
        result = float(np.asarray(number(name, value)).astype(dtype))
    if result <= 0:
        raise ValueError(f"{name} must be positive, got {result}")
    if finite and math.isinf(result):
        raise ValueError(f"{name} must be finite, got {result}")
    return result


def single_or_double(name: str, value: Unchecked) -> None:
    """An array or dtype of float32 or float64; it sees no value."""
    dtype = np.dtype(getattr(value, "dtype", value))
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} must be float32 or float64, got {dtype.name}")


def nonnegative(name: str, value: Unchecked) -> float:
    """A finite real number of at least zero."""
    result = number(name, value)
    if result < 0 or math.isinf(result):
        raise ValueError(f"{name} must be at least zero and finite, got {result}")
    return result


def nonnegative_or_infinite(name: str, value: Unchecked) -> float:
    """A real number of at least zero, or infinity."""
    result = number(name, value)
    if result < 0:
        raise ValueError(f"{name} must be at least zero, got {result}")
    return result


def probability(name: str, value: Unchecked) -> float:
    """A real number strictly between zero and one."""
    result = number(name, value)
    if not 0 < result < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {result}")
    return result


def fraction(name: str, value: Unchecked) -> float:
    """A real number in [0, 1]."""
    result = number(name, value)
    if not 0 <= result <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {result}")
    return result


def choice(name: str, value: Unchecked, options: tuple[str, ...]) -> str:
    """One of the named options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return value


def function(name: str, value: Unchecked) -> Callable[..., Any]:
    """A module-level function: a fresh lambda or partial would compile anew each time."""
    if not callable(value):
        raise TypeError(f"{name} must be a function, got {value!r}")
    if getattr(value, "__name__", "<lambda>") == "<lambda>":
        raise TypeError(
            f"{name} must be a function defined once with def, got {value!r}: "
            "static functions compare by identity, so a lambda or a partial compiles anew each time"
        )
    return value


def optimizer(name: str, value: Unchecked, dimension: int) -> None:
    """An optax factory whose update needs gradients alone: one that asks for the loss would read raw data."""
    function(name, value)
    try:
        made = value(np.ones(dimension))
        with jax.numpy_dtype_promotion("standard"):  # some of optax mixes floats and integers
            theta = jax.ShapeDtypeStruct((dimension,), jnp.result_type(float))
            jax.eval_shape(lambda theta: made.update(theta, made.init(theta), theta), theta)
    except Exception as error:
        raise ValueError(f"{name} must be an optax factory whose update needs only gradients, got {value!r}") from error


def reals(name: str, value: Unchecked) -> np.ndarray:
    """Real numbers of any shape as NumPy float64: no text, no complex number, nothing missing."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":
            return np.array([number(name, each) for each in array.ravel()], np.float64).reshape(array.shape)
        if array.dtype.kind in "cSUMm" or array.dtype.names or np.ma.is_masked(value):
            raise TypeError
        return array.astype(np.float64)
    except OverflowError:
        raise ValueError(f"{name} must be within the floats") from None
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of real numbers, got {value!r}") from None


def vector(name: str, value: Unchecked, length: int | None = None) -> np.ndarray:
    """A finite vector ``(length,)`` as a NumPy float64 array."""
    array = reals(name, value)
    if array.ndim != 1 or array.size == 0 or (length is not None and array.size != length):
        wanted = "(d,)" if length is None else f"({length},)"
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array}")
    return array


def interval(name: str, value: Unchecked, dtype: DTypeLike = np.float64) -> tuple[float, float]:
    """Two finite numbers in order, neither too far apart nor too near for ``dtype``."""
    low, high = vector(name, value, 2).tolist()
    if not low < high:
        raise ValueError(f"{name} must have low < high, got {low}, {high}")
    limits = np.finfo(dtype)
    if not float(limits.tiny) <= high - low <= float(limits.max) or max(-low, high) > float(limits.max):
        raise ValueError(f"{name} must be of a width that {np.dtype(dtype).name} holds, got {low}, {high}")
    return low, high


def round_down(value: float, dtype: DTypeLike) -> float:
    """The largest number of ``dtype`` that is at most ``value``, positive."""
    with np.errstate(over="ignore"):  # beyond the largest: that
        held = np.asarray(value, dtype)
    return float(held if float(held) <= value else np.nextafter(held, np.zeros((), dtype)))


def install_hint(name: str) -> str:
    """How to install an extra of this package. By path: no package index has its name, so anybody could register it."""
    return f"pip install -e '.[{name}]' in the checkout of jaxdpbo"


def extra(module: str, name: str, what: str) -> Any:
    """An optional module, or an ``ImportError`` that names the extra of this package that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(f"{what} needs {module}: {install_hint(name)}") from None


def box(name: str, value: Unchecked, *, finite: bool = True) -> np.ndarray:
    """Bounds in any of their spellings, lower strictly under upper, as NumPy float64 ``(2, d)``: rows lower, upper.

    ===================================================  ========================================================
    spelling                                             read as
    ===================================================  ========================================================
    ``{"low": (d,), "high": (d,)}``                      itself
    ``scipy.optimize.Bounds(low, high)``                 itself
    shape ``(d, 2)``, ``d != 2``                         SciPy's pairs ``[(low, high), ...]``
    shape ``(2, d)``, ``d != 2``                         rows lower and upper
    shape ``(2, 2)``                                     refused: it may be either
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
    """Rows ``(2, d)``, which ``box`` made, in the spelling that ``box`` reads in one way for every ``d``."""
    return {"low": bounds[0], "high": bounds[1]}


def _rows_of_box(name: str, value: Any) -> np.ndarray:
    """Rows ``(2, d)`` as NumPy float64, their values not checked yet."""
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
    """Low and high of bounds that name them, unchecked; None of others."""
    if isinstance(value, Mapping):
        if set(value) != {"low", "high"}:
            raise ValueError(f"{name} must have the names 'low' and 'high' alone, got {', '.join(map(repr, value))}")
        return value["low"], value["high"]
    if hasattr(value, "lb") and hasattr(value, "ub"):  # scipy.optimize.Bounds, which need not be imported
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
    """A vector ``(d,)``, or one number for all coordinates; where not given, ``default`` of a box that is finite."""
    if value is None:
        if not np.all(np.isfinite(bounds)):
            raise ValueError(f"{name} must be given where bounds are infinite, got {bounds.tolist()}")
        return default(bounds)
    dimension = bounds.shape[1]
    return vector(name, np.full(dimension, number(name, value)) if is_one(value) else value, dimension)


def step_size(value: Unchecked, limits: np.ndarray) -> np.ndarray:
    """One positive number a side; the half-width of the box where not given."""
    sizes = from_box("step_size", value, limits, half_width)
    if not np.all(sizes > 0):
        raise ValueError(f"step_size must be positive, got {sizes.tolist()}")
    return sizes


def is_one(value: Unchecked) -> bool:
    """Whether a value is no sequence: a number, or nothing that could be an array."""
    return isinstance(value, (str, bytes)) or not hasattr(value, "__len__") or getattr(value, "shape", None) == ()


def rows(name: str, value: Unchecked) -> np.ndarray:
    """Finite points ``(c, d)``, at least one, as NumPy float64."""
    array = reals(name, value)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (c, d), got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array).all(axis=1)][0].tolist()} among them")
    return array


def distinct_rows(name: str, value: Unchecked) -> np.ndarray:
    """Finite points ``(c, d)``, at least one, no two equal, as NumPy float64."""
    array = rows(name, value)
    unique, counts = np.unique(array, axis=0, return_counts=True)
    if len(unique) < len(array):
        raise ValueError(f"{name} must be distinct, got {unique[np.argmax(counts)].tolist()} {counts.max()} times")
    return array


def inside(name: str, point: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """A point that lies inside the box."""
    if not (np.all(bounds[0] <= point) and np.all(point <= bounds[1])):
        raise ValueError(f"{name} must lie inside bounds, got {point.tolist()} for {bounds.tolist()}")
    return point


def key(name: str, value: Unchecked) -> jax.Array:
    """One typed JAX key; integers, None and old-style uint32 keys are refused."""
    if _check_typed_key(name, value).ndim != 0:
        raise ValueError(f"{name} must be one key, got shape {value.shape}")
    return value


def keys(name: str, value: Unchecked) -> jax.Array:
    """Typed JAX keys of any shape with an axis, at least one, no two equal; on the host."""
    if not _check_typed_key(name, value).ndim or not value.size:
        raise ValueError(f"{name} must be an array of at least one key, got shape {value.shape}")
    words = np.asarray(jax.random.key_data(value)).reshape(value.size, -1)
    if len(np.unique(words, axis=0)) < len(words):
        raise ValueError(f"{name} must be different keys, got equal ones among {value.size}: equal keys, equal noise")
    return value


def _check_typed_key(name: str, value: Any) -> jax.Array:
    if not (isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)):
        raise TypeError(f"{name} must be a typed key such as jax.random.key(seed), got {type(value).__name__}")
    return value

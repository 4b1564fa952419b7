"""Fingerprints of recorded runs: a hash of everything public behind a run.

Fingerprints hash bytes, never names or ``repr``: two optimisers of one factory, numbers a bit apart and arrays too long
to print make different runs, and a new run must not return an old release. A value without bytes to hash is refused.

A loss and its data hold users' values, and a hash of these would be a release: of a loss only its code counts
(``fingerprint_code``), and of data only names and shapes (``drivers.recorded_run``).
"""

import contextlib
import dataclasses
import dis
import enum
import functools
import hashlib
import importlib
import inspect
import sys
import types
import zlib
from collections.abc import Callable, Iterable
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.types import LEFT_OUT, Tree
from jaxdpbo.user_values import is_instance

LIBRARIES = ("jaxdpbo", "jax", "optax", "numpy", "scipy")  # hash their functions by name, and their versions
PLAIN = bool, int, float, complex, str, bytes, Fraction, range
NAMED = types.BuiltinFunctionType, types.ModuleType, np.dtype, np.ufunc, types.WrapperDescriptorType  # hash by name
GLOBAL_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")  # instructions
UNKNOWN = "unknown"  # of a loss without code to read
HAS_DOCSTRING = 0x4000000  # a flag of codes since Python 3.14; before, the first constant is the docstring or None


def fingerprint(public: object) -> str:
    """The SHA-256 of everything public behind a run: arrays by their bytes, functions by code and all values they use.

    The hash is equal in every process with the same versions of Python and of the libraries. Do not pass data or an
    objective, since their values may be private: ``fingerprint_code`` reads the code of an objective.

    Raises:
      TypeError: ``public`` holds other values than numbers, text, arrays, functions and records of these.
    """
    return _digest((sys.version_info[:2], [version(name) for name in LIBRARIES], public), ())


def fingerprint_terms(public: object) -> str:
    """The SHA-256 of public values alone: like ``fingerprint``, and equal under other versions of the libraries.

    Functions of libraries count by name. The caller says which versions of a function may meet.

    Raises:
      TypeError: see ``fingerprint``.
    """
    return _digest(public, ())


def fingerprint_code(function: Callable[..., Any]) -> str:
    """The SHA-256 of the code that a loss may run, or ``UNKNOWN`` where there is none to read.

    The hash covers the set of the codes of all functions that the loss reaches: by closure, global name, attribute of a
    module of yours, argument of a partial, as methods of its class, or as attributes of a callable object or of the
    object of a bound method. Functions of installed libraries, and the classes of estimators, count by name. A set has
    no order and no names, so that a cached value, or a variable of a notebook, changes nothing. No other value counts,
    not even its type, since a loss may hold records: methods of an object that the loss holds are not read.
    """
    codes = _reach_code(function)
    return fingerprint_terms(sorted(codes)) if codes else UNKNOWN


def _reach_code(function: object) -> set[str]:
    """The hashes of all code, and the names of all library functions, that a loss reaches; empty without any code."""
    waiting, seen, reached = [function], dict[int, Any](), _Reached(set(), set())
    while waiting:  # no recursion: closures may be nested deeply
        value = waiting.pop()
        if id(value) not in seen:
            seen[id(value)] = value  # a kept value keeps its id
            waiting += _read_value(value, reached)
    return reached.codes | reached.names if reached.codes or any(map(_is_estimator, seen.values())) else set()


class _Reached(NamedTuple):
    """The hashes of codes, and the names of library functions and classes."""

    codes: set[str]
    names: set[str]


def _read_value(value: Any, reached: _Reached) -> list[Any]:
    """Add the code of a value to what was reached, and return the values that it leads to."""
    if _is_estimator(value):
        reached.names.add(_name(type(value)).decode())
        return _find_estimators(list(_attributes(value).values()))
    if is_instance(value, types.FunctionType):
        return _read_function(value, reached)
    if is_instance(value, types.MethodType):
        return [value.__func__, *_read_object(value.__self__)]
    if is_instance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if is_instance(value, type):
        reached.names.update([_name(value).decode()] if _is_installed(value) else [])
        return _read_class(value)
    if is_instance(value, *NAMED):
        reached.names.add(_name(value).decode())
        return []
    return _read_object(value) if callable(value) else []


def _read_function(function: types.FunctionType, reached: _Reached) -> list[Any]:
    values = [*_read_cells(function), vars(function).get("__wrapped__")]
    if _is_installed(function):
        reached.names.add(_name(function).decode())
        return values
    reached.codes.update(_digest(_trim_constants(code), ()) for code in _nested_codes(function.__code__))
    defaults = *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()
    return [*values, *_read_globals(function), *defaults]


def _read_object(value: object) -> list[Any]:
    """The class of an object, and what of it may have code; runs no code of a class of yours, as ``__getattr__``."""
    wrapped = getattr(value, "__wrapped__", None) if _is_installed(type(value)) else None  # of a compiled function
    return [type(value) if wrapped is None else wrapped, *_attributes(value).values()]


def _attributes(value: Any) -> dict[Any, Any]:
    """The attributes of an object, and the parts of a tuple."""
    parts = dict(enumerate(value)) if is_instance(value, tuple) else {}  # pyright: ignore
    with contextlib.suppress(AttributeError):
        parts |= object.__getattribute__(value, "__dict__")
    return parts


def _read_class(kind: type) -> list[Any]:
    """The functions in the body of a class of yours, and of those that it inherits from."""
    bodies = [dict(vars(base)) for base in kind.__mro__ if not _is_installed(base)]
    values = [value for body in bodies for value in body.values()]
    opened = [part for value in values for part in _open_descriptor(value)]
    return [value for value in opened if callable(value)]


def _open_descriptor(value: Any) -> tuple[Any, ...]:
    """The functions behind what a class body holds."""
    if is_instance(value, staticmethod, classmethod):
        return (value.__func__,)
    if is_instance(value, functools.cached_property):
        return (value.func,)
    return (value.fget, value.fset) if is_instance(value, property) else (value,)


def _read_cells(function: types.FunctionType) -> list[Any]:
    """The values of a closure, but those that are not assigned."""
    values = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):
            values.append(cell.cell_contents)
    return values


def _read_globals(function: types.FunctionType) -> list[Any]:
    """The global values that a function loads, through attributes of modules: ``helpers.link`` is ``link``."""
    values = []
    for code in _nested_codes(function.__code__):
        loaded = None
        for instruction in dis.get_instructions(code):
            if instruction.opname in GLOBAL_LOADS:
                loaded = function.__globals__.get(instruction.argval)
                values.append(loaded)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and is_instance(loaded, types.ModuleType):
                loaded = vars(loaded).get(instruction.argval)
                values.append(loaded)
            elif instruction.opname != "EXTENDED_ARG":
                loaded = None
    return values


def _nested_codes(code: types.CodeType) -> list[types.CodeType]:
    """A code and those inside of it, of nested functions and comprehensions."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return [code, *(nested for constant in inner for nested in _nested_codes(constant))]


def _trim_constants(code: types.CodeType) -> types.CodeType:
    """The code without its docstring, and without nested codes, which count by themselves."""
    constants = [constant for constant in code.co_consts if not isinstance(constant, types.CodeType)]
    flagged = bool(code.co_flags & HAS_DOCSTRING) if sys.version_info >= (3, 14) else not code.co_name.startswith("<")
    if flagged and constants and isinstance(constants[0], str):
        constants = constants[1:]
    return code.replace(co_consts=tuple(constants))


def _is_estimator(value: object) -> bool:
    return any("get_params" in vars(base) for base in type(value).__mro__)


def _find_estimators(values: list[Any]) -> list[Any]:
    """The estimators among values, such as the steps of a pipeline: tuples in a list."""
    inside = [part for value in values if is_instance(value, list, tuple) for part in value]
    return [value for value in values if _is_estimator(value)] + (_find_estimators(inside) if inside else [])


def checksum(numbers: Tree, public: str) -> jax.Array:
    """A checksum ``(2,)`` of 32 bits, of traced numbers and a text; against accidents, not against an adversary.

    Raises:
      TypeError: a leaf is no array of real numbers.
    """
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(numbers)]
    leaves = [leaf if leaf.dtype.itemsize >= 4 else leaf.astype(jnp.float32) for leaf in leaves]
    words = jnp.concatenate([jax.lax.bitcast_convert_type(leaf, jnp.uint32).reshape(-1) for leaf in leaves])
    place = jnp.arange(words.size, dtype=jnp.uint32)
    weights = place * np.uint32(2), (place ^ (place >> np.uint32(7))) * np.uint32(0x9E3779B1)
    sums = [jnp.sum(words * (weight | np.uint32(1)), dtype=jnp.uint32) for weight in weights]
    return jnp.stack(sums) + np.uint32(zlib.crc32(public.encode()))


def _digest(value: Any, within: tuple[Any, ...]) -> str:
    digest = hashlib.sha256()
    _feed(digest.update, value, within)
    return digest.hexdigest()


def _feed(update: Any, value: Any, within: tuple[Any, ...]) -> None:
    """Feed every part after its kind and length, so that different values feed different bytes."""

    def part(kind: str, content: bytes) -> None:
        update(f"{kind}:{len(content)}:".encode() + content)

    leaf = _leaf(value, within)
    if leaf is not None:
        part(*leaf)
        return
    kind = next((kind for kind in _KINDS if kind.holds(value)), None)
    if kind is None:
        kinds = " in ".join(type(outer).__qualname__ for outer in (value, *reversed(within[2:])))
        raise TypeError(f"a {kinds} has no bytes to hash, so a ledger could not tell two of them apart")
    if isinstance(value, types.CodeType):
        part("code", value.co_code)
    inside = *within, value
    parts = *kind.parts(value), *sorted(_digest(inner, inside) for inner in kind.unordered(value))
    part(kind.name, str(len(parts)).encode())
    for inner in parts:
        _feed(update, inner, inside)


def _leaf(value: Any, within: tuple[Any, ...]) -> tuple[str, bytes] | None:
    """Kind and bytes of a value without parts; None for a value with parts."""
    if value is None or value is Ellipsis or isinstance(value, PLAIN):
        return type(value).__name__, value if isinstance(value, bytes) else repr(value).encode()
    if _is_array(value):
        array = np.asarray(value)
        return "array", f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    if any(value is outer for outer in within):  # a recursive function
        return "again", str([value is outer for outer in within].index(True)).encode()
    if callable(value) and _is_of_a_library(value):
        return "library", _name(value)
    if isinstance(value, NAMED):
        return "name", _name(value)
    if type(value) is object:  # a sentinel: all are equal
        return "object", b""
    return None


class _Kind(NamedTuple):
    """A kind of values: its test, and functions that list the ordered and the unordered parts of a value."""

    name: str
    holds: Callable[[Any], bool]
    parts: Callable[[Any], tuple[Any, ...]]
    unordered: Callable[[Any], Iterable[Any]] = lambda value: ()


def _instance_check(*classes: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, classes)


def _is_array(value: Any) -> bool:
    """True for an array fully described by its dtype, shape and bytes."""
    if not isinstance(value, (jax.Array, np.ndarray, np.generic)) or isinstance(value, np.ma.MaskedArray):
        return False
    return not jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and not np.dtype(value.dtype).hasobject


def _collect_values(function: types.FunctionType) -> tuple[Any, ...]:
    """All inputs of a function besides its arguments, except modules: every fingerprint holds their versions."""
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    used = [(name, function.__globals__[name]) for name in names]
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(("cell", cell.cell_contents))
        except ValueError:  # not assigned yet, or never
            cells.append("empty")
    own = function.__code__, function.__defaults__, function.__kwdefaults__
    hidden = {name: value for name, value in vars(function).items() if name != "__wrapped__"}
    return *own, hidden, cells, [(name, value) for name, value in used if not isinstance(value, types.ModuleType)]


def _names(code: types.CodeType) -> set[str]:
    """The global names that code loads, with nested functions and comprehensions; not those of attributes."""
    instructions = (step for nested in _nested_codes(code) for step in dis.get_instructions(nested))
    return {step.argval for step in instructions if step.opname in GLOBAL_LOADS}


def _code_names(code: types.CodeType) -> tuple[Any, ...]:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_consts, counts


def _fields(record: Any) -> tuple[Any, ...]:
    kept = (field.name for field in dataclasses.fields(record) if not field.metadata.get(LEFT_OUT))
    return type(record), *((name, getattr(record, name)) for name in kept)


def _parameters(signature: inspect.Signature) -> tuple[Any, ...]:
    return tuple(
        (parameter.name, parameter.kind.value, parameter.default) for parameter in signature.parameters.values()
    )


def _methods(kind: type) -> list[Any]:
    """The methods of a caller's class; none for a library's class, hashed by name."""
    if _is_library(kind.__module__):
        return []
    methods = (types.FunctionType, staticmethod, classmethod, property)
    return [(name, value) for name, value in sorted(vars(kind).items()) if isinstance(value, methods)]


def _is_of_a_library(value: Any) -> bool:
    """True if the name identifies a value: no captured values, and code fixed by the library's version."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    by_name = getattr(module, getattr(value, "__qualname__", ""), None)
    return by_name is value and _is_library(str(getattr(value, "__module__", "")))


def _is_library(module: str) -> bool:
    """True for a module of Python, or of a library with its version in every fingerprint."""
    root = module.split(".")[0]
    return root in (*LIBRARIES, "builtins") or root in sys.stdlib_module_names


def _is_installed(value: Any) -> bool:
    """True for a function or class of Python or of an installed library: its name stands for its code."""
    if _is_library(str(value.__module__)):
        return True
    root = str(value.__module__).split(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return root != "__main__" and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _name(value: Any) -> bytes:
    """The dotted name of a value. Omit the module of a script: an import gives the script another module name."""
    module = str(getattr(value, "__module__", ""))
    at = "" if module.startswith("__m") else module
    return f"{at}.{getattr(value, '__qualname__', getattr(value, '__name__', value))}".encode()


_KINDS = (  # the first match counts
    _Kind("function", inspect.isfunction, _collect_values),
    _Kind("names", inspect.iscode, _code_names),
    _Kind("partial", _instance_check(functools.partial), attrgetter("func", "args", "keywords")),
    _Kind("method", inspect.ismethod, attrgetter("__func__", "__self__")),
    _Kind("class", inspect.isclass, lambda value: (_name(value), *_methods(value))),
    _Kind("enum", _instance_check(enum.Enum), lambda value: (type(value), value.name)),
    _Kind("record", dataclasses.is_dataclass, _fields),
    _Kind("items", _instance_check(tuple, list), lambda value: (type(value), *value)),
    _Kind("mapping", _instance_check(dict), lambda value: (type(value),), lambda value: value.items()),
    _Kind("set", _instance_check(frozenset, set), lambda value: (), lambda value: value),
    _Kind("slice", _instance_check(slice), attrgetter("start", "stop", "step")),
    _Kind(
        "descriptor",
        _instance_check(staticmethod, classmethod, property),
        lambda value: tuple(getattr(value, name, None) for name in ("__func__", "fget", "fset")),
    ),
    _Kind("signature", _instance_check(inspect.Signature), _parameters),
    _Kind(  # compiled
        "wrapped",
        lambda value: callable(value) and getattr(value, "__wrapped__", None) is not None,
        lambda value: (value.__wrapped__,),
    ),
)


def version(library: str) -> str:
    """What a library says of itself; its metadata is absent where it runs from a checkout."""
    return str(importlib.import_module(library).__version__)

"""Which run it is: a hash of everything public that a run on record depends on.

By bytes, never by names and ``repr``: two optimisers of one factory, numbers a bit apart and arrays too long to print
are different questions, and an old release must not go out for a new one. What has no bytes to hash is refused.
"""

import dataclasses
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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.types import Tree

LIBRARIES = ("jaxdpbo", "jax", "optax", "numpy", "scipy")  # their functions go by name, and their versions with them
PLAIN = bool, int, float, complex, str, bytes, Fraction, range
NAMED = types.BuiltinFunctionType, types.ModuleType, np.dtype, np.ufunc, types.WrapperDescriptorType  # by name too


def fingerprint(public: object) -> str:
    """SHA-256 of everything public that a run depends on: arrays by their bytes, functions by code and all they reach.

    Equal in every process that runs the same versions of Python and of the libraries. Not for data nor for an
    objective, whose values may be private: a hash of private values is a release. The name of a run stands for both,
    and a loss may be mended between two attempts.

    Raises:
      TypeError: something in it is neither numbers, text, arrays, functions nor records of them.
    """
    return _digest((sys.version_info[:2], [_version(name) for name in LIBRARIES], public), ())


def checksum(numbers: Tree, public: str) -> jax.Array:
    """``(2,)`` of 32 bits: of numbers that are traced, and of a text. For what went wrong, not for what was made to.

    Raises:
      TypeError: a leaf is no array of real numbers.
    """
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(numbers)]
    leaves = [leaf if leaf.dtype.itemsize >= 4 else leaf.astype(jnp.float32) for leaf in leaves]
    words = jnp.concatenate([jax.lax.bitcast_convert_type(leaf, jnp.uint32).reshape(-1) for leaf in leaves])
    place = jnp.arange(words.size, dtype=jnp.uint32)
    weights = place * np.uint32(2), (place ^ (place >> np.uint32(7))) * np.uint32(0x9E3779B1)
    sums = [jnp.sum(words * (each | np.uint32(1)), dtype=jnp.uint32) for each in weights]
    return jnp.stack(sums) + np.uint32(zlib.crc32(public.encode()))


def _digest(value: Any, within: tuple[Any, ...]) -> str:
    digest = hashlib.sha256()
    _feed(digest.update, value, within)
    return digest.hexdigest()


def _feed(update: Any, value: Any, within: tuple[Any, ...]) -> None:
    """Every part with its kind and length before it, so that no two values feed the same bytes."""

    def part(kind: str, content: bytes) -> None:
        update(f"{kind}:{len(content)}:".encode() + content)

    leaf = _leaf(value, within)
    if leaf is not None:
        part(*leaf)
        return
    kind = next((kind for kind in _KINDS if kind.holds(value)), None)
    if kind is None:
        kinds = " in ".join(type(each).__qualname__ for each in (value, *reversed(within[2:])))
        raise TypeError(f"a {kinds} has no bytes to hash: a ledger could take it for another")
    if isinstance(value, types.CodeType):
        part("code", value.co_code)
    inside = *within, value
    parts = *kind.parts(value), *sorted(_digest(inner, inside) for inner in kind.unordered(value))
    part(kind.name, str(len(parts)).encode())
    for inner in parts:
        _feed(update, inner, inside)


def _leaf(value: Any, within: tuple[Any, ...]) -> tuple[str, bytes] | None:
    """Kind and bytes of a value without parts, or None of one that has them."""
    if value is None or value is Ellipsis or isinstance(value, PLAIN):
        return type(value).__name__, value if isinstance(value, bytes) else repr(value).encode()
    if _is_array(value):
        array = np.asarray(value)
        return "array", f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
    if any(value is outer for outer in within):  # a function that names itself
        return "again", str([value is outer for outer in within].index(True)).encode()
    if callable(value) and _is_of_a_library(value):
        return "library", _name(value)
    if isinstance(value, NAMED):
        return "name", _name(value)
    if type(value) is object:  # a sentinel: nothing about it differs
        return "object", b""
    return None


class _Kind(NamedTuple):
    """Values of one kind: which they are, and their parts, in order and in any order."""

    name: str
    holds: Callable[[Any], bool]
    parts: Callable[[Any], tuple[Any, ...]]
    unordered: Callable[[Any], Iterable[Any]] = lambda value: ()


def _instance_check(*classes: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, classes)


def _is_array(value: Any) -> bool:
    """An array whose bytes are all there is to it."""
    if not isinstance(value, (jax.Array, np.ndarray, np.generic)) or isinstance(value, np.ma.MaskedArray):
        return False
    return not jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and not np.dtype(value.dtype).hasobject


def _collect_values(function: types.FunctionType) -> tuple[Any, ...]:
    """All that a function's values can depend on. Modules apart: their versions are in every fingerprint."""
    names = sorted(_names(function.__code__) & function.__globals__.keys())
    known = [(name, function.__globals__[name]) for name in names]
    cells = []
    for cell in function.__closure__ or ():
        try:
            cells.append(("cell", cell.cell_contents))
        except ValueError:  # not assigned yet, or never
            cells.append("empty")
    own = function.__code__, function.__defaults__, function.__kwdefaults__
    hidden = {name: each for name, each in vars(function).items() if name != "__wrapped__"}
    return *own, hidden, cells, [(name, each) for name, each in known if not isinstance(each, types.ModuleType)]


def _names(code: types.CodeType) -> set[str]:
    """Those that code looks up, functions and comprehensions inside it included."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _code_names(code: types.CodeType) -> tuple[Any, ...]:
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_consts, counts


def _fields(record: Any) -> tuple[Any, ...]:
    return type(record), *((field.name, getattr(record, field.name)) for field in dataclasses.fields(record))


def _parameters(signature: inspect.Signature) -> tuple[Any, ...]:
    return tuple(
        (parameter.name, parameter.kind.value, parameter.default) for parameter in signature.parameters.values()
    )


def _methods(kind: type) -> list[Any]:
    """What a class of the user's defines; a library's is its name."""
    if (
        kind.__module__.split(".")[0] in (*LIBRARIES, "builtins")
        or kind.__module__.split(".")[0] in sys.stdlib_module_names
    ):
        return []
    made = (types.FunctionType, staticmethod, classmethod, property)
    return [(name, each) for name, each in sorted(vars(kind).items()) if isinstance(each, made)]


def _is_of_a_library(value: Any) -> bool:
    """Whether its name stands for it: nothing captured, and code that changes with a version alone."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    found = getattr(module, getattr(value, "__qualname__", ""), None)
    root = str(getattr(value, "__module__", "")).split(".")[0]
    return found is value and (root in LIBRARIES or root in sys.stdlib_module_names)


def _name(value: Any) -> bytes:
    """Where it is found. A script is known by another name where it is imported."""
    module = str(getattr(value, "__module__", ""))
    at = "" if module.startswith("__m") else module
    return f"{at}.{getattr(value, '__qualname__', getattr(value, '__name__', value))}".encode()


_KINDS = (  # the first that holds
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


def _version(library: str) -> str:
    return str(importlib.import_module(library).__version__)

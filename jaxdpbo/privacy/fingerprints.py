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
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.types import Tree

LIBRARIES = ("jaxdpbo", "jax", "optax", "numpy", "scipy")  # their functions go by name, and their versions with them


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

    def part(kind: str, content: bytes = b"") -> None:
        update(f"{kind}:{len(content)}:".encode() + content)

    def parts(kind: str, *values: Any) -> None:
        part(kind, str(len(values)).encode())
        for each in values:
            _feed(update, each, (*within, value))

    if (
        value is None
        or value is Ellipsis
        or isinstance(value, (bool, int, float, complex, str, bytes, Fraction, range))
    ):
        part(type(value).__name__, value if isinstance(value, bytes) else repr(value).encode())
    elif _is_array(value):
        array = np.asarray(value)
        part("array", f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    elif any(value is outer for outer in within):
        part("again", str([value is outer for outer in within].index(True)).encode())  # a function that names itself
    elif callable(value) and _is_of_a_library(value):
        part("library", _name(value))
    elif isinstance(value, types.FunctionType):
        parts("function", *_reached(value))
    elif isinstance(value, types.CodeType):
        part("code", value.co_code)
        counts = value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags
        parts("names", value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_consts, counts)
    elif isinstance(value, functools.partial):
        parts("partial", value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        parts("method", value.__func__, value.__self__)
    elif isinstance(
        value, (types.BuiltinFunctionType, types.ModuleType, np.dtype, np.ufunc, types.WrapperDescriptorType)
    ):
        part("name", _name(value))
    elif isinstance(value, type):
        parts("class", _name(value), *_methods(value))
    elif isinstance(value, enum.Enum):
        parts("enum", type(value), value.name)
    elif dataclasses.is_dataclass(value):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        parts("record", type(value), *fields)
    elif isinstance(value, (tuple, list)):
        parts("items", type(value), *value)
    elif isinstance(value, dict):
        parts("mapping", type(value), *sorted(_digest(item, (*within, value)) for item in value.items()))
    elif isinstance(value, (frozenset, set)):
        parts("set", *sorted(_digest(each, (*within, value)) for each in value))
    elif isinstance(value, slice):
        parts("slice", value.start, value.stop, value.step)
    elif isinstance(value, (staticmethod, classmethod, property)):
        parts("descriptor", *(getattr(value, name, None) for name in ("__func__", "fget", "fset")))
    elif isinstance(value, inspect.Signature):
        parts("signature", *((each.name, each.kind.value, each.default) for each in value.parameters.values()))
    elif callable(value) and (wrapped := getattr(value, "__wrapped__", None)) is not None:  # compiled
        parts("wrapped", wrapped)
    elif type(value) is object:
        part("object")  # a sentinel: nothing about it differs
    else:
        kinds = " in ".join(type(each).__qualname__ for each in (value, *reversed(within[2:])))
        raise TypeError(f"a {kinds} has no bytes to hash: a ledger could take it for another")


def _is_array(value: Any) -> bool:
    """An array whose bytes are all there is to it."""
    if not isinstance(value, (jax.Array, np.ndarray, np.generic)) or isinstance(value, np.ma.MaskedArray):
        return False
    return not jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and not np.dtype(value.dtype).hasobject


def _reached(function: types.FunctionType) -> tuple[Any, ...]:
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


def _version(library: str) -> str:
    return str(importlib.import_module(library).__version__)

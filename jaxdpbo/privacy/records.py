"""What the ledger holds of a run: its cost, which run it is, and arrays as text, bit for bit."""

import base64
import dataclasses
import functools
import hashlib
import sys
import types
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.privacy import guarantee, ledger

LIBRARIES = ("jaxdpbo", "jax", "optax", "numpy", "scipy")


def charge(path: str | Path, run: str | None, what: str, statement: guarantee.Guarantee, *told: Any) -> ledger.Charge:
    """Pay for all that a run will release, before it begins.

    Args:
      path: of the ledger.
      run: its name there; needed.
      what: it is, in words.
      statement: what it guarantees, which is its cost.
      told: all public that it depends on, such as the algorithm and its config.

    Raises:
      ValueError: no name, or a guarantee that does not add up with others.
      TypeError: something in ``told`` has no bytes to hash.
      ledger.Refused: the budget does not suffice, or the name stands for something else.
    """
    if not isinstance(run, str) or not run:
        raise ValueError("run must be given with a ledger: a name, so that a crash or a retry does not pay twice")
    if statement.notion not in ledger.LEVELS:
        raise ValueError(f"a ledger adds up {', '.join(ledger.LEVELS)}; this run has {statement.notion!r}: {statement}")
    event = ledger.Event(statement.notion, statement.level, statement.delta, statement.variation)
    spend = ledger.Spend(
        (event,), statement.relation or "", statement.protects, statement.unit, tuple(sorted(statement.holds_if))
    )
    return ledger.charge(path, run, what, spend, fingerprint=fingerprint(told))


def charge_once(path: str | Path, run: str | None, what: str, statement: guarantee.Guarantee, *told: Any) -> Any:
    """``charge`` for a release that is drawn in one go: a second attempt is refused where the first stored nothing.

    What a failed attempt drew may have been seen, and trying until it succeeds is itself an output.

    Raises:
      ledger.Refused: see ``charge``; or the run was charged before and stored no release.
    """
    charged = charge(path, run, what, statement, *told)
    if charged.charged_before and charged.release is None:
        raise ledger.Refused(
            f"run {run!r} was charged before and did not end: what it drew may have been seen, so its budget is spent; "
            "a new attempt needs a name, and a charge, of its own"
        )
    return charged


def fingerprint(told: Any) -> str:
    """SHA-256 of everything public that a run depends on: arrays by their bytes, functions by code and captured values.

    Not for data nor for an objective, whose captured values may be private: a hash of private values is a release. The
    name of a run stands for both, and a loss may be mended between two attempts.
    Equal in every process that runs the same Python.

    Raises:
      TypeError: something in it is neither numbers, text, arrays, functions nor records of them.
    """
    digest = hashlib.sha256()
    _feed(digest.update, told, [])
    return digest.hexdigest()


def as_text(tree: Any) -> list[dict[str, Any]]:
    """The arrays of a pytree, for JSON."""
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return [
        {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "data": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        }
        for array in arrays
    ]


def from_text(like: Any, told: list[dict[str, Any]]) -> Any:
    """What ``as_text`` was given, in the shape of ``like``.

    Raises:
      ledger.Damaged: it is of another shape.
    """
    leaves, shape = jax.tree.flatten(like)
    if not isinstance(told, list) or len(told) != len(leaves):
        raise ledger.Damaged(f"what was recorded is not the {len(leaves)} arrays of this run")
    return jax.tree.unflatten(shape, [jnp.asarray(_array(*pair)) for pair in zip(leaves, told, strict=True)])


def _array(like: Any, told: Any) -> np.ndarray:
    kinds = {"dtype": str, "shape": list, "data": str}
    if not isinstance(told, dict) or {name: type(value) for name, value in told.items()} != kinds:
        raise ledger.Damaged("what was recorded is no array")
    if (told["dtype"], told["shape"]) != (str(like.dtype), list(like.shape)):
        raise ledger.Damaged("what was recorded is of other shapes than this run's")
    try:
        return np.frombuffer(base64.b64decode(told["data"], validate=True), like.dtype).reshape(like.shape)
    except ValueError as error:
        raise ledger.Damaged("what was recorded is no array") from error


def _feed(update: Any, value: Any, within: list[Any]) -> None:
    """Every part with its kind and length before it, so that no two values feed the same bytes."""

    def part(kind: str, content: bytes) -> None:
        update(f"{kind}:{len(content)}:".encode() + content)

    def parts(kind: str, values: Any) -> None:
        values = tuple(values)
        part(kind, str(len(values)).encode())
        for each in values:
            _feed(update, each, [*within, value])

    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, Fraction)):
        part(type(value).__name__, value if isinstance(value, bytes) else repr(value).encode())
    elif isinstance(value, (jax.Array, np.ndarray, np.generic)) and not jnp.issubdtype(
        value.dtype, jax.dtypes.prng_key
    ):
        array = np.asarray(value)
        if array.dtype.hasobject:
            raise TypeError("an array of objects has no bytes to hash")
        part("array", f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    elif any(value is outer for outer in within):
        part("again", str([value is outer for outer in within].index(True)).encode())  # a function that names itself
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        part("record", _name(type(value)))
        parts("fields", ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value)))
    elif isinstance(value, (tuple, list)):
        part("type", _name(type(value)))
        parts("items", value)
    elif isinstance(value, (dict, frozenset, set)):
        part("type", _name(type(value)))
        items = value.items() if isinstance(value, dict) else value
        parts("unordered", sorted(fingerprint(each) for each in items))
    elif isinstance(value, types.CodeType):
        part("code", value.co_code)
        parts("names", (value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_consts))
    elif isinstance(value, (types.BuiltinFunctionType, types.ModuleType, np.dtype, type)):
        part("name", _name(value))
    elif isinstance(value, functools.partial):
        parts("partial", (value.func, value.args, value.keywords))
    elif isinstance(value, types.MethodType):
        parts("method", (value.__func__, value.__self__))
    elif callable(value) and _is_of_a_library(value):
        part("library", _name(value))
    elif isinstance(value, types.FunctionType):
        part("function", _name(value))
        known = {name: value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__}
        numbers = {
            name: each
            for name, each in known.items()
            if isinstance(each, (int, float, str, tuple, np.ndarray, jax.Array))
        }
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        parts("captured", (value.__code__, value.__defaults__, value.__kwdefaults__, cells, numbers))
    elif callable(value) and (wrapped := getattr(value, "__wrapped__", None)) is not None:  # compiled
        parts("wrapped", (wrapped,))
    else:
        raise TypeError(f"a {type(value).__qualname__} has no bytes to hash: a ledger could take it for another")


def _is_of_a_library(value: Any) -> bool:
    """Whether its name stands for it: nothing captured, and code that changes with a version alone."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    found = getattr(module, getattr(value, "__qualname__", ""), None)
    return found is value and str(value.__module__).split(".")[0] in LIBRARIES


def _name(value: Any) -> bytes:
    """Where it is found. What is made anew at each call has no such name."""
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', value))}"
    if isinstance(value, type) and "<locals>" in name:
        raise TypeError(f"{name} has no bytes to hash: define the class at module level")
    return name.encode()

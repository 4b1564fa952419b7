"""What the ledger holds of a run: its cost, which run it is, and arrays as text, bit for bit."""

import base64
import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.privacy import guarantee, ledger


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
      ledger.Refused: the budget does not suffice, or the name stands for something else.
    """
    if not isinstance(run, str) or not run:
        raise ValueError("run must be given with a ledger: a name, so that a crash or a retry does not pay twice")
    if statement.notion not in ledger.LEVELS:
        raise ValueError(f"a ledger adds up {', '.join(ledger.LEVELS)}; this run has {statement.notion!r}: {statement}")
    spend = ledger.Spend(
        statement.notion, statement.level, statement.delta, statement.variation, statement.relation or "",
        statement.protects,
    )  # fmt: skip
    return ledger.charge(path, run, what, spend, fingerprint=fingerprint(told))


def journal(path: str | Path, charged: ledger.Charge) -> Path:
    """Where the public steps of a charged run stand: a chain beside the ledger, begun if need be."""
    place = Path(path)
    place = place.with_name(f"{place.name}.{charged.hash[:16]}")
    if not place.exists():
        ledger.begin(place, {"run": charged.run, "charge": charged.hash})
    return place


def fingerprint(told: Any) -> str:
    """SHA-256 of everything public that a run was told: equal for equal numbers, in every process."""
    digest = hashlib.sha256()
    _feed(digest.update, told)
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


def _feed(update: Any, value: Any) -> None:
    """Every part with its kind and length before it, so that no two values feed the same bytes."""

    def part(kind: str, content: bytes) -> None:
        update(f"{kind}:{len(content)}:".encode() + content)

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        part("record", type(value).__qualname__.encode())
        for field in dataclasses.fields(value):
            part("field", field.name.encode())
            _feed(update, getattr(value, field.name))
    elif isinstance(value, (tuple, list)):
        part("items", str(len(value)).encode())
        for each in value:
            _feed(update, each)
    elif isinstance(value, (jax.Array, np.ndarray, np.generic)):
        array = np.asarray(value)
        part("array", f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    elif callable(value):
        part("function", f"{value.__module__}.{value.__qualname__}".encode())
    else:
        part(type(value).__name__, repr(value).encode())

"""What the ledger holds of a run: its cost, which run it is, and arrays as text, bit for bit."""

import base64
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.privacy import accounting, guarantee, ledger
from jaxdpbo.privacy.fingerprints import fingerprint
from jaxdpbo.types import Tree


class Recording(NamedTuple):
    """Where a release goes on record: a budget that it is paid out of, and a name.

    Attributes:
      path: of a ledger that ``ledger.create`` began.
      run: its name there, and of its data and objective: a crash or a retry under one name does not pay twice.
    """

    path: str | Path
    run: str


def check_recording(recording: Any) -> Recording:
    """A checked recording with an absolute path: an objective may change the working directory.

    Raises:
      TypeError: it is no ``Recording``, or its path is none.
      ValueError: its ``run`` is no name.
    """
    if not isinstance(recording, Recording):
        raise TypeError(f"recording must be Recording(path, run), got {type(recording).__name__}")
    if not isinstance(recording.run, str) or not recording.run:
        raise ValueError(f"run must be given with a ledger, as a name of the release, got {recording.run!r}")
    if not isinstance(recording.path, (str, Path)):
        raise TypeError(f"path of a recording must be a path, got {recording.path!r}")
    return Recording(Path(recording.path).absolute(), recording.run)


def charge(recording: Recording, what: str, statement: guarantee.Guarantee, *public: object) -> ledger.Charge:
    """Pay for all that a run will release, before it begins.

    A ledger of notion "gdp" takes a "dp" statement too, with its delta: by the GDP level that the statement proves of
    itself (``also``), or by that of every mechanism of pure DP, whose log-ratios have a range of ``2 epsilon``
    (``accounting.bounded_range_mu``; docs/theorems.md). A ledger of notion "dp" takes a "gdp" statement by its
    ``also`` alone: from a ``mu`` no one epsilon follows.

    Args:
      recording: where, and its name there.
      what: it is, in words.
      statement: what it guarantees, which is its cost.
      public: all public that it depends on, such as the algorithm and its config.

    Raises:
      ValueError: no name, or a guarantee that does not add up with others.
      TypeError: something in ``public`` has no bytes to hash, or ``recording`` is none.
      ledger.LedgerError: the budget does not suffice, or the name stands for something else.
    """
    path, run = check_recording(recording)
    if statement.notion not in ledger.LEVELS:
        raise ValueError(f"a ledger adds up {', '.join(ledger.LEVELS)}; this run has {statement.notion!r}: {statement}")
    event = ledger.Event(*_level_for(path, statement), statement.delta, statement.total_variation)
    spend = ledger.Spend(
        (event,), statement.relation or "", statement.protects, statement.unit, tuple(sorted(statement.assumptions))
    )
    return ledger.charge(path, run, what, spend, fingerprint=fingerprint(public))


def _level_for(path: str | Path, statement: guarantee.Guarantee) -> tuple[str, float]:
    """Notion and level of a statement, of the ledger's notion where one is proved; else its own, which is refused."""
    levels = {statement.notion: statement.level} | dict([statement.also] if statement.also else [])
    if "dp" in levels:
        wanted = ledger.account(path).budget.notion
        if wanted in levels:
            return wanted, levels[wanted]
        if wanted == "gdp" and math.isfinite(2 * levels["dp"]):
            return wanted, max(accounting.bounded_range_mu(2 * levels["dp"]), guarantee.LEAST)
    return statement.notion, statement.level


def charge_once(recording: Recording, what: str, statement: guarantee.Guarantee, *public: object) -> ledger.Charge:
    """``charge`` for a release that is drawn in one go: a second attempt is refused where the first stored nothing.

    What a failed attempt drew may have been seen, and trying until it succeeds is itself an output.

    Raises:
      ledger.LedgerError: see ``charge``; or the run was charged before and stored no release.
    """
    charged = charge(recording, what, statement, *public)
    expect_first(recording, charged)
    return charged


def expect_first(recording: Recording, charged: ledger.Charge) -> None:
    """Nothing, unless a run was charged before and stored no release.

    Raises:
      ledger.LedgerError: it was.
    """
    if charged.charged_before and charged.release is None:
        raise ledger.LedgerError(
            f"{recording.path}: run {charged.run!r} was charged before and did not end: what it drew may have been "
            "seen, so its budget is spent; a new attempt needs a name, and a charge, of its own"
        )


def to_text(tree: Tree) -> list[dict[str, Any]]:
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


def from_text(like: Tree, written: list[dict[str, Any]]) -> Any:
    """What ``to_text`` was given, in the shape of ``like``.

    Raises:
      ledger.Damaged: it is of another shape.
    """
    leaves, shape = jax.tree.flatten(like)
    if not isinstance(written, list) or len(written) != len(leaves):
        raise ledger.Damaged(f"what was recorded is not the {len(leaves)} arrays of this run")
    return jax.tree.unflatten(shape, [jnp.asarray(_array(*pair)) for pair in zip(leaves, written, strict=True)])


def _array(like: Any, written: Any) -> np.ndarray:
    kinds = {"dtype": str, "shape": list, "data": str}
    if not isinstance(written, dict) or {name: type(value) for name, value in written.items()} != kinds:
        raise ledger.Damaged("what was recorded is no array")
    if (written["dtype"], written["shape"]) != (str(like.dtype), list(like.shape)):
        raise ledger.Damaged("what was recorded is of other shapes than this run's")
    try:
        return np.frombuffer(base64.b64decode(written["data"], validate=True), like.dtype).reshape(like.shape)
    except ValueError as error:
        raise ledger.Damaged("what was recorded is no array") from error

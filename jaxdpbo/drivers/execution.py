"""Options for the execution of a run: its key, steps, checkpoint and diagnostics."""

from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdpbo import checks
from jaxdpbo.drivers.result import Snapshot

AUTO = "auto"


@dataclass(frozen=True, eq=False, kw_only=True)
class Execution:
    """Say how a driver executes a run.

    A key of your own, ``resume`` and ``checkpoint`` add assumptions to the guarantee. Each driver refuses options
    without effect on its runs. ``run_scan`` and ``sweep`` run a single compiled program, without steps from Python.
    ``run_loop``, and ``minimize`` with ``traceable=False``, call your function from Python.

    >>> import jax
    >>> from jaxdpbo import Execution
    >>> Execution(key=jax.random.key(0), insecure_key=True)
    Execution(insecure_key=True)

    Attributes:
      key: a typed key for tests and sweeps. By default the operating system draws a key.
      insecure_key: permit a key of a generator without a security claim, such as ``jax.random.key(0)``, though the
        noise is exact. The guarantee then names the generator.
      traceable: for ``minimize``, and for ``run_loop`` on a table. True compiles the whole run, or the sum over a batch
        of a table, into a single program. False calls the loss from Python.
        "auto" compiles if JAX can trace the loss. JAX traces ``data`` by shapes and dtypes alone, so the choice never
        depends on their values. Say False for a loss with side effects.
      executor: evaluates the points of a batch at once: threads, processes or a cluster's own. A process pool pickles
        loss and data for every point, so pass a path to the data rather than the data.
      progress: show a bar of steps, or of users in each scan of a table, which shows nothing of the data. "auto" shows
        a bar on a terminal alone, without the ``progress`` extra a line for each scan, and a line while a compiled
        search of ``minimize`` runs. True needs the extra, and calls the loss from Python.
      resume: the ``snapshot`` of a ``RunInterrupted``. Call the driver again with the same arguments to resume from
        there. Use each snapshot once: resuming twice under two keys spends the remaining steps twice.
      checkpoint: a file for a long compiled run, written after every twentieth of the steps and deleted at the end.
        After a crash, make the same call again to resume. The file holds the data and the key, so keep it as secret as
        the data.
      diagnostics: also return the raw state and per-step info, which are NOT private.
    """

    key: jax.Array | None = None
    insecure_key: bool = False
    traceable: bool | str = AUTO
    executor: Executor | None = None
    progress: bool | str = AUTO
    resume: Snapshot | None = None
    checkpoint: str | Path | None = None
    diagnostics: bool = False

    def __copy__(self) -> "Execution":
        """Return the same object: its options never change."""
        return self

    def __deepcopy__(self, memo: object) -> "Execution":
        """Return the same object: its options never change."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the options without the key: a run of the copy draws a key from the operating system.

        Raises:
          TypeError: a raw snapshot is among them.
        """
        if self.resume is not None:
            raise TypeError("an Execution with resume cannot be pickled: the snapshot is raw")
        names = [name for name in set_options(self) if name != "key"]
        return _make_execution, ({name: getattr(self, name) for name in names},)

    def __repr__(self) -> str:
        """Show the options that were set, but neither the key nor the raw snapshot."""
        secret = ("key", "resume")
        options = [f"{name}={getattr(self, name)!r}" for name in set_options(self) if name not in secret]
        return f"Execution({', '.join(options)})"


def _make_execution(options: dict[str, Any]) -> Execution:
    """Make the copy of a pickle."""
    return Execution(**options)


_DEFAULTS = {option.name: option.default for option in fields(Execution)}


def set_options(run: Execution) -> list[str]:
    """The names of the options that differ from their defaults."""
    return [name for name, default in _DEFAULTS.items() if not _is_default(getattr(run, name), default)]


def _is_default(value: object, default: object) -> bool:
    """True for an equal text too, as of a file or a pickle; arrays are not compared."""
    return value is default or (isinstance(value, str) and value == default)


def check_execution(driver: str, run: Execution | None, *usable: str) -> Execution:
    """Check the options of a run and return them, by default ``Execution()``.

    Args:
      driver: the name of the driver, for messages.
      run: the caller's argument.
      usable: the options that the driver can use.

    Raises:
      TypeError: ``run`` is not an ``Execution``, or an option has the wrong type.
      ValueError: the driver cannot use an option.
    """
    if run is None:
        return Execution()
    if not isinstance(run, Execution):
        raise TypeError(f"run must be an Execution, got {type(run).__name__}: type run=Execution(progress=True)")
    silent = ("progress",) if isinstance(run.progress, (bool, np.bool_)) and not run.progress else ()
    unusable = [name for name in set_options(run) if name not in (*usable, *silent)]
    if unusable:
        raise ValueError(f"{driver} cannot use {', '.join(unusable)} of Execution, only {', '.join(usable)}")
    if not isinstance(run.resume, Snapshot | None):
        raise TypeError(f"resume must be the snapshot of a RunInterrupted, got {type(run.resume).__name__}")
    if run.executor is not None and not hasattr(run.executor, "submit"):
        raise TypeError(f"executor must be a concurrent.futures.Executor, got {type(run.executor).__name__}")
    flags = {name: checks.flag(name, getattr(run, name)) for name in ("insecure_key", "diagnostics")}
    choices = {name: _flag_or_auto(name, getattr(run, name)) for name in ("traceable", "progress")}
    return replace(run, **flags, **choices)


def _flag_or_auto(name: str, value: Any) -> bool | str:
    """Check a flag that may be "auto"."""
    if not isinstance(value, str):
        return checks.flag(name, value)
    if value != AUTO:
        raise ValueError(f"{name} must be True, False or {AUTO!r}, got {value!r}")
    return value

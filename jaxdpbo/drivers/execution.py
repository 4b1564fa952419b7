"""How a driver executes a run: the options that drivers take as keywords, checked, on their way to the engines."""

from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import jax

from jaxdpbo import checks
from jaxdpbo.drivers.result import Snapshot

AUTO = "auto"


class Execution(NamedTuple):
    """The checked options of a run. A driver's signature has those that it can use; ``minimize`` describes them all."""

    key: jax.Array | None = None
    insecure_key: bool = False
    traceable: bool | str = AUTO
    executor: Executor | None = None
    progress: bool | str = AUTO
    resume: Snapshot | None = None
    checkpoint: str | Path | None = None
    diagnostics: bool = False

    def __repr__(self) -> str:
        """Show the options that were set, but neither the key nor the raw snapshot: tools print what a frame holds."""
        shown = [name for name in self._fields if name not in ("key", "resume") and is_set(self, name)]
        return f"Execution({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def check_execution(**options: Any) -> Execution:
    """Check the options of a driver.

    Raises:
      TypeError: an option has the wrong type.
      ValueError: a flag is neither true nor false, nor "auto" where this is permitted.
    """
    run = Execution(**options)
    if not isinstance(run.resume, Snapshot | None):
        raise TypeError(f"resume must be the snapshot of a RunInterrupted, got {type(run.resume).__name__}")
    if run.executor is not None and not hasattr(run.executor, "submit"):
        raise TypeError(f"executor must be a concurrent.futures.Executor, got {type(run.executor).__name__}")
    flags = {name: checks.flag(name, getattr(run, name)) for name in ("insecure_key", "diagnostics")}
    choices = {name: _flag_or_auto(name, getattr(run, name)) for name in ("traceable", "progress")}
    return run._replace(**flags, **choices)


def refuse_options(driver: str, run: Execution, *names: str, on: str) -> None:
    """Refuse options that have no effect ``on`` these data, such as "a table".

    Raises:
      ValueError: an option differs from its default; names it. A ``progress`` of False asks for nothing.
    """
    given = [name for name in names if is_set(run, name) and (name, getattr(run, name)) != ("progress", False)]
    if given:
        raise ValueError(f"{driver} cannot use {', '.join(given)} on {on}")


def is_set(run: Execution, name: str) -> bool:
    """True if an option differs from its default."""
    return getattr(run, name) != Execution._field_defaults[name]


def _flag_or_auto(name: str, value: Any) -> bool | str:
    """Check a flag that may be "auto"."""
    if not isinstance(value, str):
        return checks.flag(name, value)
    if value != AUTO:
        raise ValueError(f"{name} must be True, False or {AUTO!r}, got {value!r}")
    return value

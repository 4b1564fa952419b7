"""What every benchmark prints and writes: a table, JSON and PNG under results/, and where the figures come from."""

import ast
import datetime
import importlib.util
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

STARTED = time.perf_counter()
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
STORED = ROOT / "docs" / "results"
NOISE = {
    "none": "no noise for privacy is drawn",
    "exact": "integers from tables, the library's default",
    "float": "drawn in floating point, for research; the library's default is exact",
    "both": "exact and floating-point; each row's name says which",
}
FIELDS = ("commit", "modified", "date", "seeds", "dtype", "noise", "settings", "seconds", "machine")
SETTINGS = ("printed in the paper", "chosen here")


def write_result(
    path: Path,
    measurements: dict[str, Any],
    *,
    seeds: Any,
    noise: str,
    dtype: str,
    settings: dict[str, Any],
    started: float,
    announce: bool = True,
) -> None:
    """Write what was measured, with its provenance (``FIELDS``), and say where.

    Args:
      path: of the file.
      measurements: what was measured; none of ``FIELDS``.
      seeds: all that were used, a range as ``[first, end]``.
      noise: one of ``NOISE``: what is drawn for privacy.
      dtype: of the computation.
      settings: at least ``SETTINGS``: what the paper prints, and what was chosen here.
      started: ``time.perf_counter()`` at the start.
      announce: False while a measurement goes on, written after every row.

    Raises:
      ValueError: ``measurements`` has a field of the provenance, or ``settings`` lacks one of its parts.
    """
    if taken := [name for name in FIELDS if name in measurements]:
        raise ValueError(f"measurements must leave {', '.join(taken)} to write_result")
    if lacking := [name for name in SETTINGS if name not in settings]:
        raise ValueError(f"settings must say what is {' and what is '.join(lacking)}")
    provenance = {
        "commit": COMMIT,
        "modified": MODIFIED,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seeds": seeds,
        "dtype": dtype,
        "noise": f"{noise}: {NOISE[noise]}",
        "settings": settings,
        "seconds": round(time.perf_counter() - started, 1),
        "machine": machine(),
    }
    write_json(path, measurements | provenance, announce)


def commit_state() -> tuple[str | None, bool | None]:
    """The commit that is checked out, and whether a tracked file of the code differs from it; None without git."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        code = ["jaxdpbo", "benchmarks", "pyproject.toml"]
        changed = subprocess.run([*git, "status", "--porcelain", "--", *code], capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head.stdout.strip(), bool(changed.stdout.strip())


COMMIT, MODIFIED = commit_state()  # at import: a commit that is made during a run is not the run's
# What an earlier process kept of a measurement is used where it has the same revision: never that of modified code.
REVISION = COMMIT if MODIFIED is False else os.urandom(16).hex()


def machine() -> dict[str, Any]:
    """What a reader must know to compare a figure with their own."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def folder(*parts: str) -> Path:
    """A folder under results/, made if need be."""
    path = RESULTS.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_json(path: Path, content: Any, announce: bool = True) -> None:
    """Write, all or nothing, and say where."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)
    if announce:
        print(f"wrote {_display_path(path)}")


def keep(path: Path, measure: Callable[[], Any]) -> Any:
    """What an earlier process measured at the same commit and kept at the path, or measure it and keep it."""
    if path.exists():
        kept = json.loads(path.read_text())
        if kept["revision"] == REVISION:
            return kept["found"]
    found = json_value(measure())
    write_json(path, {"revision": REVISION, "found": found}, announce=False)
    return found


def json_value(value: Any) -> Any:
    """What JSON can hold: lists, strings for keys and for infinity, seven digits."""
    if isinstance(value, dict):
        return {f"{k:g}" if isinstance(k, float) else str(k): json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [json_value(v) for v in value]
    if isinstance(value, (float, np.floating)):
        return float(f"{value:.7g}") if np.isfinite(value) else str(value)
    return value.item() if isinstance(value, np.generic) else value


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, and say where."""
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(f"wrote {_display_path(path)}")


def write_bench(
    name: str,
    measurements: dict[str, Any],
    *,
    quick: bool,
    chosen: dict[str, Any],
    printed: dict[str, Any] | None = None,
    figures: dict[str, Any] | None = None,
    started: float = STARTED,
    **provenance: Any,
) -> None:
    """Write ``results/bench/NAME.json`` and its figures; names of a quick run end in ``_quick``: it replaces no result.

    Args:
      name: of the measurement, as ``scripts/bench`` has it.
      measurements: what was measured.
      quick: whether sizes were small.
      chosen: settings that were chosen here.
      printed: settings that the paper prints.
      figures: of matplotlib, by the name of the file.
      started: ``time.perf_counter()`` at the start, by default of the process, which has one measurement.
      provenance: all else that ``write_result`` takes.
    """
    ending = "_quick" * quick
    settings = {"printed in the paper": printed or {}, "chosen here": chosen, "quick": quick}
    path = folder("bench") / f"{name}{ending}.json"
    write_result(path, json_value(measurements), settings=settings, started=started, **provenance)
    for stem, figure in (figures or {}).items():
        save_figure(figure, folder("bench") / f"{stem}{ending}.png")


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]], flush: Sequence[int] = (0,)) -> None:
    """Columns as wide as their widest cell, those of ``flush`` begin at the left."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        placed = enumerate(zip(row, widths, strict=True))
        print("  ".join(cell.ljust(w) if i in flush else cell.rjust(w) for i, (cell, w) in placed).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def other_seeds(name: str) -> list[str]:
    """The names of the committed results of the same item that report other seeds, in the order of the seeds."""
    matches = (re.fullmatch(rf"{name}_(\d+)-\d+", path.stem) for path in STORED.glob(f"{name}_*.json"))
    return [match[0] for match in sorted(filter(None, matches), key=lambda match: int(match[1]))]


def find_result(name: str) -> dict[str, Any] | None:
    """The committed result of that name; None where there is none.

    Raises:
      ValueError: it was measured by code that was not committed.
    """
    path = STORED / f"{name}.json"
    result = json.loads(path.read_text()) if path.exists() else None
    if result and result["modified"]:
        raise ValueError(f"docs/results/{name}.json must be measured by committed code, but has 'modified': true")
    return result


def last_time(result: dict[str, Any] | None) -> str:
    """Wall time of a stored result, in words."""
    seconds = result and result.get("seconds")
    if not seconds:
        return "not recorded"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def first_line(module: str) -> str:
    """Of a module's docstring, without the command that runs it."""
    spec = importlib.util.find_spec(module)
    source = Path(spec.origin).read_text() if spec and spec.origin else ""
    line = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
    return line.split("``: ", 1)[-1].rstrip(".:")


def _display_path(path: Path) -> str:
    return str(path.relative_to(RESULTS.parent)) if path.is_relative_to(RESULTS.parent) else str(path)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

"""What every benchmark prints and writes: a table, JSON and PNG under results/, and the machine it ran on."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax

RESULTS = Path(__file__).parent.parent / "results"


def machine() -> dict[str, Any]:
    """What a reader must know to compare a figure with their own."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "dtype": str(jax.numpy.zeros(()).dtype),
    }


def folder(*parts: str) -> Path:
    """A folder under results/, made if need be."""
    path = RESULTS.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_json(path: Path, content: Any) -> None:
    """Write, and say where."""
    path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"wrote {_short(path)}")


def save_figure(figure: Any, path: Path) -> None:
    """Write a matplotlib figure, and say where."""
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(f"wrote {_short(path)}")


def print_table(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns as wide as their widest cell, the first one flush left."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        first, *rest = (
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


def _short(path: Path) -> str:
    return str(path.relative_to(RESULTS.parent))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

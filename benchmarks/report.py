"""What every benchmark prints and writes: a table, JSON and PNG under results/, and the machine it ran on."""

import json
import os
import platform
from pathlib import Path
from typing import Any

import jax

from jaxdpbo.commands.tables import print_table

__all__ = ["RESULTS", "folder", "machine", "print_table", "save_figure", "write_json"]
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


def _short(path: Path) -> str:
    return str(path.relative_to(RESULTS.parent))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

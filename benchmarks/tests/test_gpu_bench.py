"""``scripts/bench gpu`` at its smallest, on a CPU as four devices: its checks pass, and its file says where it ran."""

import json
import os
import subprocess
import sys

import pytest
from compilation import UNOPTIMISED

from benchmarks import report
from benchmarks.speed import gpu, gpu_checks, gpu_times

HIDDEN = ("botorch", "dp_accounting", "matplotlib", "opacus", "optuna", "pandas", "sklearn", "tqdm")
PROGRAM = f"""
import runpy, sys
from pathlib import Path
sys.modules.update(dict.fromkeys({HIDDEN}))  # importing one raises
from benchmarks import report
from benchmarks.speed import gpu_problem
report.RESULTS = Path(sys.argv.pop(1))
gpu_problem.BEGIN, gpu_problem.END = 800.0, float(sys.argv.pop(1))
runpy.run_module("benchmarks.bench", run_name="__main__")
"""


def run_small(folder, end):
    """In a process that ends after so many seconds of measuring."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = os.environ | UNOPTIMISED | {
        "PYTHONPATH": str(report.ROOT), "JAX_PLATFORMS": "cpu", "NPROC": "16", "JAX_ENABLE_X64": "0",
        "XLA_FLAGS": f"{UNOPTIMISED['XLA_FLAGS']} --xla_force_host_platform_device_count=4",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, program, folder, str(end), "gpu", "--quick"],
        env=environment, cwd=report.ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert not list((folder / "bench").glob("*.part"))
    return json.loads((folder / "bench" / "gpu_quick.json").read_text(), parse_constant=pytest.fail)


def test_the_process_ends_in_time_and_leaves_what_it_measured(tmp_path):
    written = run_small(tmp_path, 0.01)
    assert written["skipped"] == [
        {"name": gpu_checks.CHECKS[len(written["checks"])].name, "reason": "not done after 0.01 s"}
    ]
    assert written["times"] == []


def test_the_small_form_passes_on_four_cpu_devices_and_needs_no_peer(tmp_path):
    written = run_small(tmp_path, 800)
    assert [row["name"] for row in written["checks"]] == [check.name for check in gpu_checks.CHECKS]
    assert all(row["passed"] for row in written["checks"])
    assert [row["name"] for row in written["times"]] == [timed.name for timed in gpu_times.timings(True)]
    assert all(row["device_s"] > 0 < row["cpu_s"] for row in written["times"])
    assert [row["reason"] for row in written["skipped"]] == ["no GPU"]
    assert written["failed"] == []
    where = written["accelerator"]
    assert (where["platform"], where["devices"]) == ("cpu", 4)
    assert all(where[name] for name in ("kind", "driver", "jax", "jaxlib"))
    assert set(report.FIELDS) <= written.keys()
    assert not list((tmp_path / "bench").glob("*.part"))
    assert written["seeds"] == gpu.SEEDS

"""``scripts/bench gpu`` at its smallest, on a CPU as four devices: its checks pass, and its file says where it ran."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks import report
from benchmarks.speed import gpu, gpu_checks, gpu_times


def test_the_small_form_passes_on_four_cpu_devices_and_needs_no_peer(tmp_path):
    hidden = tmp_path / "hidden.py"
    hidden.write_text(
        "import runpy, sys\n"
        "from benchmarks import report\n"
        "from pathlib import Path\n"
        "report.RESULTS = Path(sys.argv.pop(1))\n"
        "for name in ('botorch', 'dp_accounting', 'matplotlib', 'opacus', 'optuna', 'pandas', 'sklearn', 'tqdm'):\n"
        "    sys.modules[name] = None\n"  # importing it raises
        "runpy.run_module('benchmarks.bench', run_name='__main__')\n"
    )
    environment = os.environ | {
        "PYTHONPATH": str(report.ROOT), "JAX_PLATFORMS": "cpu", "NPROC": "16",
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, hidden, tmp_path, "gpu", "--quick"],
        env=environment, cwd=report.ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    written = json.loads((tmp_path / "bench" / "gpu_quick.json").read_text(), parse_constant=pytest.fail)
    assert [row["name"] for row in written["checks"]] == [check.name for check in gpu_checks.CHECKS]
    assert all(row["passed"] for row in written["checks"])
    assert [row["name"] for row in written["times"]] == [timed.name for timed in gpu_times.timings(True)]
    assert all(row["device_s"] > 0 < row["cpu_s"] for row in written["times"])
    assert [row["reason"] for row in written["skipped"]] == ["no GPU"]
    where = written["accelerator"]
    assert (where["platform"], where["devices"]) == ("cpu", 4)
    assert all(where[name] for name in ("kind", "driver", "jax", "jaxlib"))
    assert set(report.FIELDS) <= written.keys()
    assert not list((tmp_path / "bench").glob("*.part"))
    assert written["seeds"] == gpu.SEEDS

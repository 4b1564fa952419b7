"""Silos that Flower connects, in an environment with Flower; the tests are in ``flower.py``."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_silos_that_flower_connects_run_a_search(tmp_path):
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    own = subprocess.check_output([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True)
    Path(own.strip(), "beside.pth").write_text(sysconfig.get_path("purelib"))  # JAX and pytest, once
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{ROOT}[flower]"]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tests = "tests/systems/flower.py"
    command = [python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout

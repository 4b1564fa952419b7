"""Silos that Flower connects, in an environment with Flower; the tests are in ``flower.py``."""

import os
import subprocess
from pathlib import Path

import environments

ROOT = Path(__file__).parent.parent.parent


def test_silos_that_flower_connects_run_a_search(tmp_path):
    python = environments.create(tmp_path / "venv", f"{ROOT}[flower]", beside=True)
    tests = "tests/systems/flower.py"
    command = [python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout

"""Tables on Dask, Ray, Spark and Beam, in an environment with all four; the tests are in ``engines.py``."""

import os
import shutil
import subprocess
from pathlib import Path

import environments
import pytest

ROOT = Path(__file__).parent.parent.parent


def test_every_engine_releases_what_arrays_release(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    python = environments.create(tmp_path / "venv", f"{ROOT}[dask,ray,spark,beam]", beside=True)
    tests = "tests/systems/engines.py"
    command = [python, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short", tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout, done.stdout

"""Trainings of Opacus, in an environment with the extra as a user installs it, beside the packages of this process."""

import os
import shutil
import subprocess
from pathlib import Path

import environments
from compilation import UNOPTIMISED

ROOT = Path(__file__).parent.parent.parent


def test_its_trainings_pass(tmp_path):
    environment = os.environ | UNOPTIMISED | {"JAX_ENABLE_X64": "1"}
    folder, requirements = tmp_path / "venv", environments.PROJECT["optional-dependencies"]["opacus"]
    try:
        python = environments.create(folder, *requirements, beside=True)
        command = [python, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", "tests/test_other_trainings.py"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    finally:
        shutil.rmtree(folder)  # torch takes gigabytes
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "needs the extra opacus" not in done.stdout, done.stdout

"""Trainings of Opacus: the extra alone, as a user installs it; then its tests, beside the packages of this process."""

import shutil
import sys

import environments
import page_blocks


def test_its_trainings_pass(tmp_path):
    python = environments.create(tmp_path / "venv", f"{environments.ROOT}[opacus]")
    variables = environments.unoptimised(python) | {"JAX_ENABLE_X64": "1"}
    environments.run(python, "-c", page_blocks.first_block("tutorials/libraries", "opacus"), cwd=tmp_path, **variables)
    environments.add_packages(python, sys.executable)
    printed = environments.run_tests(python, "tests/test_other_trainings.py", **variables)
    shutil.rmtree(tmp_path / "venv")  # PyTorch takes gigabytes
    assert "needs the extra opacus" not in printed, printed

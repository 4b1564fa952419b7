"""Trainings of Opacus: the extra alone, as a user installs it; then its tests."""

import shutil

import environments
import page_blocks


def test_its_trainings_pass(tmp_path):
    python = environments.create(tmp_path / "venv", f"{environments.ROOT}[opacus]")
    variables = environments.unoptimised(python) | {"JAX_ENABLE_X64": "1"}
    environments.run(python, "-c", page_blocks.first_block("tutorials/libraries", "opacus"), cwd=tmp_path, **variables)
    environments.install(python, f"{environments.ROOT}[opacus,test]")
    printed = environments.run_tests(python, "tests/test_other_trainings.py", **variables)
    shutil.rmtree(tmp_path / "venv")  # PyTorch takes gigabytes
    assert "needs the extra opacus" not in printed, printed

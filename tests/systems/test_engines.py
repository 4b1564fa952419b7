"""Tables on Dask, Ray, Spark and Beam, in an environment with all four; the tests are in ``engines.py``."""

import shutil

import environments
import pytest


def test_every_engine_releases_what_arrays_release(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    python = environments.create(tmp_path / "venv", f"{environments.ROOT}[dask,ray,spark,beam,test]")
    variables = {"PYTHONPATH": str(environments.ROOT)}
    printed = environments.run_tests(python, "--noconftest", "-pno:xdist", "tests/systems/engines.py", **variables)
    assert "skipped" not in printed, printed

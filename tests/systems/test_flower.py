"""Silos that Flower connects, in an environment with Flower; the tests are in ``flower.py``."""

import environments


def test_silos_that_flower_connects_run_a_search(tmp_path):
    python = environments.create(tmp_path / "venv", f"{environments.ROOT}[flower,test]")
    variables = {"PYTHONPATH": str(environments.ROOT)}
    printed = environments.run_tests(python, "--noconftest", "-pno:xdist", "tests/systems/flower.py", **variables)
    assert "skipped" not in printed, printed

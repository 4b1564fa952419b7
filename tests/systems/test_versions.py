"""The versions that pyproject.toml states: each Python, and the lowest and the newest of every requirement."""

import os
import re
import subprocess
import sys
from pathlib import Path

import environments
import pytest
from compilation import UNOPTIMISED
from environments import OWN, PROJECT, PYTHONS, interpreter

ROOT = Path(__file__).parent.parent.parent
EXTRAS = PROJECT["optional-dependencies"]
# Tests that enter every part of the package and every extra, in the order of a failure's worth.
FILES = "front_door readme accounting keys separable sklearn optuna plotting ledger"
TESTS = [f"tests/test_{name}.py" for name in FILES.split()]


def bare_environment() -> dict[str, str]:
    """Only what is installed, in float64, and compiled as ``scripts/test`` does, by the programs that it has kept."""
    dropped = "PYTHONPATH", "PYTHONHOME", "JAX_ENABLE_X64"
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | UNOPTIMISED | {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax-unoptimised")}


def run_tests(folder: Path, python: str, *requirements: str, tests: list[str] = TESTS) -> None:
    """Install the requirements beside an interpreter and run tests; skips are not judged here."""
    environment = bare_environment()
    own = environments.create(folder / "venv", *requirements, python=python, variables=environment)
    command = [own, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.parametrize("version", PYTHONS)
def test_a_stated_python_passes_with_the_newest_of_all(version, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip("no such Python on this machine")
    # All tests of this Python run in scripts/test; here its installation without the tools of developers. The newest
    # Python has most to break; of those between, the front door and the README.
    few = version == OWN or version != PYTHONS[-1]
    run_tests(tmp_path, python, f"{ROOT}[test]", tests=TESTS[:2] if few else TESTS)


def test_the_lowest_of_all_that_is_stated_passes(tmp_path):
    requirements = [*PROJECT["dependencies"], *(each for extra in EXTRAS["test"] for each in requirements_of(extra))]
    lowest = [re.sub(r"^([\w-]+)>=([\w.]+).*$", r"\1==\2", each) for each in requirements]
    assert all("==" in each for each in lowest), lowest
    run_tests(tmp_path, sys.executable, *lowest)


def requirements_of(named: str) -> list[str]:
    """A requirement, or those of the extras that it names."""
    found = re.fullmatch(r"jaxdpbo\[(.*)\]", named)
    if not found:
        return [named]
    return [each for extra in found[1].split(",") for inner in EXTRAS[extra] for each in requirements_of(inner)]

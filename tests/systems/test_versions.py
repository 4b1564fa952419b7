"""The versions that pyproject.toml states: each Python, and the lowest and the newest of every requirement."""

import re

import environments
import pytest
from environments import EXTRAS, OWN, PROJECT, PYTHONS, ROOT, interpreter

# Tests that enter every part of the package and every extra, in the order of a failure's worth.
FILES = "front_door readme accounting keys separable equations functions sklearn optuna plotting ledger sql_ledger"
TESTS = [f"tests/test_{name}.py" for name in FILES.split()]
OF_JAX = [f"tests/test_{name}.py" for name in ("front_door", "keys", "separable", "equations", "functions")]
(JAX,) = (each for each in PROJECT["dependencies"] if each.startswith("jax>"))
FIRST, BELOW = map(int, re.fullmatch(r"jax>=0\.(\d+)\.\d+,<0\.(\d+)", JAX).groups())


@pytest.mark.parametrize("version", PYTHONS)
def test_a_stated_python_passes_with_the_newest_of_all(version, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip("no such Python on this machine")
    # All tests of this Python run in scripts/test; here its installation without the tools of developers. The newest
    # Python has most to break; of those between, the front door and the README.
    few = version == OWN or version != PYTHONS[-1]
    own = environments.create(tmp_path / "venv", f"{ROOT}[test]", python=python)
    environments.run_tests(own, *(TESTS[:2] if few else TESTS), **environments.unoptimised(own))


@pytest.mark.parametrize("minor", range(FIRST + 1, BELOW - 1))
def test_a_release_of_jax_between_passes(minor, tmp_path):
    python = interpreter(PYTHONS[-2])  # the newest Python has the newest JAX
    if python is None:
        pytest.skip("no such Python on this machine")
    own = environments.create(tmp_path / "venv", f"{ROOT}[test]", f"jax==0.{minor}.*", python=python)
    environments.run_tests(own, *OF_JAX, **environments.unoptimised(own))


def test_the_lowest_of_all_that_is_stated_passes(tmp_path):
    requirements = [*PROJECT["dependencies"], *(each for extra in EXTRAS["test"] for each in requirements_of(extra))]
    lowest = [re.sub(r"^([\w-]+(?:\[[\w,]+\])?)>=([\w.]+).*$", r"\1==\2", each) for each in requirements]
    assert all("==" in each for each in lowest), lowest
    own = environments.create(tmp_path / "venv", *lowest)
    environments.run_tests(own, *TESTS, **environments.unoptimised(own))


def requirements_of(named: str) -> list[str]:
    """A requirement, or those of the extras that it names."""
    found = re.fullmatch(r"jaxdpbo\[(.*)\]", named)
    if not found:
        return [named]
    return [each for extra in found[1].split(",") for inner in EXTRAS[extra] for each in requirements_of(inner)]

"""The oracles share no code with the package: they import NumPy, SciPy, the standard library and one another."""

import ast
import sys
from pathlib import Path

import pytest

COSTS = Path(__file__).parent.parent / "jaxdpbo" / "testing" / "draw_costs.py"  # users' check_algorithm needs it
ORACLES = [COSTS, *sorted((Path(__file__).parent / "oracles").glob("**/*.py"))]
ALLOWED = {"numpy", "scipy", "oracles", *sys.stdlib_module_names}


def strangers(source: str) -> set[str]:
    """Top-level modules that the source imports and may not; relative and dynamic imports count as strange."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." if node.level else (node.module or "").partition(".")[0])
        elif isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec"):
            found.add(node.id)
    return (found - ALLOWED) | (found & {"importlib", "runpy"})


def test_there_are_oracles():
    assert {path.stem for path in ORACLES} >= {"kernels", "gp", "gradient", "clipping", "accounting"}


@pytest.mark.parametrize("path", ORACLES, ids=lambda path: path.stem)
def test_an_oracle_imports_nothing_of_the_package(path):
    assert not strangers(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("source", "stranger"),
    [
        ("import jaxdpbo", "jaxdpbo"),
        ("import numpy as np\nfrom jaxdpbo.surrogate import gp", "jaxdpbo"),
        ("def f():\n    import jaxdpbo.noise.clipping as c\n    return c", "jaxdpbo"),
        ("import jax.numpy as np", "jax"),
        ("from . import gp", "."),
        ("import importlib", "importlib"),
        ("clipping = __import__('jaxdpbo').noise.clipping", "__import__"),
        ("exec('import jaxdpbo')", "exec"),
    ],
)
def test_the_check_sees_a_stranger(source, stranger):
    assert strangers(source) == {stranger}


def test_the_check_lets_numpy_scipy_and_oracles_pass():
    assert not strangers(
        "import math\nimport numpy as np\nfrom scipy.integrate import quad\nfrom oracles.gp import noise"
    )

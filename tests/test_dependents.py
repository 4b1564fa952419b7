"""Another library on top of this one: its own tests pass, and it uses public names alone. basedpyright checks types."""

import ast
import importlib
import types
from pathlib import Path

import pytest
from dependents.test_optimisers import (  # noqa: F401
    test_an_algorithm_keeps_the_contract,
    test_evolution_strategies_find_the_mean_of_the_users,
)

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "tests" / "dependents").rglob("*.py"))


def is_public(module, name):
    """Whether an ``__all__`` lists the name, or the name is of a package of the interface pages."""
    return name in getattr(module, "__all__", ()) or hasattr(getattr(module, name, None), "__all__")


def faults(source):
    """Names of the package that the source uses and that no ``__all__`` lists, and attributes with an underscore."""
    tree, modules = ast.parse(source), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "jaxdpbo":
            module = importlib.import_module(node.module)
            for alias in node.names:
                if not is_public(module, alias.name):
                    yield f"{node.module}.{alias.name}"
                elif isinstance(value := getattr(module, alias.name), types.ModuleType):
                    modules[alias.asname or alias.name] = value
        elif isinstance(node, ast.Import):
            named = [alias.name for alias in node.names if alias.name.partition(".")[0] == "jaxdpbo"]
            yield from (name for name in named if not hasattr(importlib.import_module(name), "__all__"))
            modules |= {name: importlib.import_module(name) for name in named}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr.startswith("_"):
                yield node.attr
            owner = modules.get(ast.unparse(node.value))
            if owner is not None and not is_public(owner, node.attr):
                yield f"{owner.__name__}.{node.attr}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_it_uses_public_names_alone(path):
    assert list(faults(path.read_text())) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from jaxdpbo.noise import calibration", "jaxdpbo.noise.calibration"),
        ("from jaxdpbo.drivers import loop", "jaxdpbo.drivers.loop"),
        ("from jaxdpbo import parts\nparts.namespace", "jaxdpbo.parts.namespace"),
        ("from jaxdpbo import audit\naudit._halves(1, 2)", "_halves"),
        ("import jaxdpbo.checks", "jaxdpbo.checks"),
    ],
)
def test_the_check_sees_a_name_that_is_not_public(source, fault):
    assert fault in list(faults(source))

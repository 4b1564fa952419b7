"""The metadata of the package: what a package index shows, and bounds on what may change under private imports."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import jaxdpbo

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # where they differ from the module


def private_imports() -> set[str]:
    """Top-level modules of others from which the package imports a name with an underscore."""
    found = set()
    for path in (ROOT / "jaxdpbo").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            dotted = []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                dotted = [alias.name for alias in node.names]
            for name in dotted:
                first, *rest = name.split(".")
                if first not in ("jaxdpbo", "__future__") and any(part.startswith("_") for part in rest):
                    found.add(first)
    return found


def test_requirements_with_private_imports_have_upper_bounds():
    found = private_imports()
    assert {"jax", "sklearn"} <= found
    extras = PROJECT["optional-dependencies"].values()
    stated = [*PROJECT["dependencies"], *(each for requirements in extras for each in requirements)]
    for module in found:
        own = [each for each in stated if each.startswith(DISTRIBUTIONS.get(module, module) + ">=")]
        assert own, module
        assert all(",<" in each for each in own), own


def test_linters_are_pinned():
    """A new release of either may refuse what it passed."""
    for tool in "ruff", "basedpyright":
        assert re.search(rf"^{tool}==[\d.]+$", "\n".join(PROJECT["optional-dependencies"]["dev"]), re.MULTILINE)


def test_the_metadata_say_what_a_package_index_shows():
    assert PROJECT["scripts"] == {"jaxdpbo": "jaxdpbo.commands:main"}
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "jaxdpbo" / "py.typed").exists()
    for extra, requirements in PROJECT["optional-dependencies"].items():
        for requirement in requirements:
            for named in re.findall(r"jaxdpbo\[(.*?)\]", requirement):
                assert set(named.split(",")) <= set(PROJECT["optional-dependencies"]), extra
    cited = (ROOT / "CITATION.cff").read_text()
    assert f"version: {jaxdpbo.__version__}\n" in cited
    assert f'title: "{"jaxdpbo: " + PROJECT["description"][0].lower() + PROJECT["description"][1:]}"' in cited
    assert sys.version_info >= tuple(map(int, PROJECT["requires-python"].removeprefix(">=").split(".")))

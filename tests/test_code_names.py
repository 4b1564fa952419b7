"""Names of code that pages and docstrings write in backticks are names of something."""

import ast
import builtins
import functools
import importlib
import pkgutil
import re
from pathlib import Path

import evidence
import pytest

import jaxdpbo

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jaxdpbo"
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md"), *ROOT.glob("*.md")])
SOURCES = sorted(PACKAGE.rglob("*.py"))
QUOTED = re.compile(r"(?<!`)(`{1,2})(?!`)([^`\n]+)\1(?!`)")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*(\(.*\))?")
ROOMS = {module.name for module in pkgutil.iter_modules(jaxdpbo.__path__)}
LIBRARIES = {
    "jax", "jnp", "np", "numpy", "scipy", "optax", "optuna", "sklearn", "pytest", "torch", "os", "json", "concurrent",
    "dask", "ray", "pyspark", "apache_beam", "dp_accounting", "opacus", "multiprocessing", "hypothesis", "lax",
}  # fmt: skip
OF_OTHERS = {  # words of other programs and libraries, and of formulas
    "ssh", "mpirun", "srun", "restrict", "authorized_keys", "secure_mode", "RandomizedSearchCV", "GridSearchCV",
    "cross_val_score", "min_samples_leaf", "n_neighbors", "tau",
    "best_score_", "cv_results_", "step__param", "jax_debug_nans", "jax_debug_infs", "lambda", "Phi", "Tr", "r_geom",
    "epsilon_ucb", "RAY_USE_TLS", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT",
    "object_spilling_directory", "from_map", "persist", "PGPASSWORD",
}  # fmt: skip
ENDINGS = {"py", "md", "json", "jsonl", "png", "key", "typed", "toml"}
SYMBOL = re.compile(r"[A-Za-z]\d?|[A-Za-z]_|[A-Za-z]+_([A-Za-z0-9]|mu)")  # of a formula: x, k1, beta_t


def names_in(tree):
    """Every identifier that a module defines, reads, takes or writes as a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg) or (isinstance(node, ast.keyword) and node.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield from node.name.split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


@functools.cache
def vocabulary():
    """All identifiers of the repository's code, its files and the built-in ones."""
    found = set(dir(builtins)) | OF_OTHERS | ENDINGS
    for folder in ("jaxdpbo", "tests", "benchmarks", "docs"):
        for path in set((ROOT / folder).rglob("*.py")) - {Path(__file__)}:  # its plants are no names
            found |= {*path.relative_to(ROOT).with_suffix("").parts, *names_in(ast.parse(path.read_text()))}
    found |= {path.name for path in ROOT.rglob("*") if ".venv" not in path.parts and ".git" not in path.parts}
    return found


def quoted(text):
    """What stands in backticks and could be a name of code: fences and shapes apart."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for _, inside in QUOTED.findall(text):
        if NAME.fullmatch(inside):
            yield inside.partition("(")[0]


def unresolved(name, known):
    """Whether a dotted name's parts are unknown, or its first is of the package and the rest is not found there."""
    parts = name.split(".")
    if SYMBOL.fullmatch(name) or parts[0] in LIBRARIES:
        return False
    if parts[-1] == "py":
        return name not in known
    if parts[0] == "jaxdpbo" or (len(parts) > 1 and parts[0] in ROOMS):
        found = jaxdpbo
        for part in parts[parts[0] == "jaxdpbo" :]:
            if not hasattr(found, part):
                try:
                    found = importlib.import_module(f"{found.__name__}.{part}")
                except (ImportError, AttributeError):
                    return True
            else:
                found = getattr(found, part)
        return False
    return not set(parts) <= known


@pytest.mark.parametrize("path", PAGES, ids=[str(path.relative_to(ROOT)) for path in PAGES])
def test_names_on_a_page_resolve(path):
    found = {name for name in quoted(path.read_text()) if unresolved(name, vocabulary())}
    if evidence.is_left_out(ROOT / "benchmarks"):
        found = {name for name in found if name.split(".")[0] in ROOMS}
    assert sorted(found) == []


def docstrings(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and (text := ast.get_docstring(node)):
            yield text


def test_names_in_docstrings_resolve():
    found = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in SOURCES for text in docstrings(path) for name in quoted(text) if unresolved(name, vocabulary())
    }  # fmt: skip
    assert sorted(found) == []


def test_a_planted_name_is_seen():
    text = "`learner_sensitivity_of` and ``noise.nowhere`` beside `minimize(loss)` and ``noise.choice``"
    assert [name for name in quoted(text) if unresolved(name, vocabulary())] == [
        "learner_sensitivity_of",
        "noise.nowhere",
    ]

"""The house: imports point downward only, rooms know what they may, and the top level is what it should be."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jaxdpbo"
FLOORS = {
    "arrays": 0, "cells": 0, "checks": 0, "files": 0, "input_noise": 0, "logs": 0, "namespace": 0, "not_private": 0,
    "notes": 0, "rounding": 0, "sensitivity": 0, "silence": 0, "space": 0, "terminal": 0, "types": 0, "user_values": 0,
    "accounting": 1, "separable": 1, "surrogate": 1, "ledger": 2, "noise": 2, "guarantee": 3, "audit": 4, "parts": 4,
    "phases": 4, "tables": 4, "training": 4, "transforms": 4, "algorithms": 5, "report": 5, "drivers": 6,
    "outsourcing": 6, "problems": 6, "plotting": 7, "silos": 7, "testing": 7, "tuning": 7, "integrations": 8,
    "commands": 9, "__init__": 10, "__main__": 10,
}  # fmt: skip
SMALL = (
    "types", "arrays", "cells", "checks", "user_values", "not_private", "input_noise", "sensitivity", "space", "notes",
)  # may import each other  # fmt: skip
APART = {("noise", "surrogate")}  # beside the floors: noise knows nothing of Gaussian processes
EXTRAS = {
    "sklearn", "matplotlib", "tqdm", "dp_accounting", "optuna", "torch", "opacus", "jax_privacy", "diffprivlib",
    "cryptography", "pyarrow", "dask", "ray", "pyspark", "apache_beam", "cloudpickle", "sqlalchemy", "psycopg",
}  # fmt: skip
TOP_LEVEL = {
    "pyproject.toml", "README.md", "jaxdpbo", "tests", "benchmarks", "scripts", "docs", "LICENSE",
    "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff",
}  # fmt: skip


def modules():
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path):
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def imports_of(source):
    """Dotted names imported anywhere in a source, functions included, and whether at module level."""
    tree = ast.parse(source)
    top = set(map(id, tree.body))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", id(node) in top) for alias in node.names)


def faults(name, source):
    """Imports of the package that point up or across."""
    room = name.split(".")[0]
    for imported, _ in imports_of(source):
        if not imported.startswith("jaxdpbo."):
            continue
        other = imported.removeprefix("jaxdpbo.").split(".")[0]
        if other not in FLOORS:
            continue  # a name of the package itself, such as __version__
        across = FLOORS[other] == FLOORS[room] and other != room and room not in (*SMALL, "drivers", "problems")
        module = imported.split(".")[2] if room == other == "algorithms" and imported.count(".") > 1 else ""
        own = name.split(".")[1:2] == [module]  # the files of one algorithm
        sideways = (
            room == other == "algorithms" and not own and name != "algorithms.__init__"
        )  # siblings do not lean on each other
        if FLOORS[other] > FLOORS[room] or across or (room, other) in APART or sideways:
            yield f"{name} imports {imported}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_downward(path):
    assert name_of(path).split(".")[0] in FLOORS, "a room that has no floor"
    assert not list(faults(name_of(path), path.read_text()))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("surrogate.gp", "from jaxdpbo.noise import clipping"),
        ("noise.clipping", "from jaxdpbo.surrogate import gp"),
        ("types", "from jaxdpbo.surrogate import gp"),
        ("algorithms.dp_gibo", "from jaxdpbo import drivers"),
        ("algorithms.dp_gibo", "from jaxdpbo.algorithms import random_search"),
        ("algorithms.dp_gp_ucb.run", "from jaxdpbo.algorithms.dp_gibo import config"),
        ("training.models", "def f():\n    import jaxdpbo.drivers"),
    ],
)
def test_the_check_sees_a_wrong_import(name, source):
    assert list(faults(name, source))


def needs_benchmarks(source):
    return any(imported.split(".")[0] == "benchmarks" for imported, _ in imports_of(source))


def test_the_package_and_its_tests_import_no_benchmark():
    """An archive has none, and ``benchmarks/tests`` run elsewhere."""
    files = [*modules(), *(ROOT / "tests").rglob("*.py")]
    assert [str(path) for path in files if needs_benchmarks(path.read_text())] == []
    assert needs_benchmarks("def f():\n    from benchmarks import report")
    assert needs_benchmarks("import benchmarks.papers.location")


def cycles(sources):
    """Modules, by dotted name, that import themselves by way of others; imports inside functions count."""

    def module_of(imported):  # a module, or what is in one
        return next((name for name in (imported, imported.rpartition(".")[0]) if name in sources), None)

    graph = {name: {module_of(one) for one, _ in imports_of(source)} - {None} for name, source in sources.items()}

    def reach(name):
        seen, left = set(), list(graph[name])
        while left:
            if (one := left.pop()) not in seen:
                seen.add(one)
                left += graph[one]
        return seen

    return sorted(name for name in graph if name in reach(name))


def test_no_module_imports_itself_by_way_of_others():
    sources = {f"jaxdpbo.{name_of(path)}".removesuffix(".__init__"): path.read_text() for path in modules()}
    assert cycles(sources) == []


def test_a_cycle_is_seen_inside_functions_too():
    sources = {
        "jaxdpbo.asked": "from jaxdpbo import guarantee",
        "jaxdpbo.guarantee": "from jaxdpbo.ledger import charge",
        "jaxdpbo.keys": "from jaxdpbo import ledger",
    }
    ledger = "def create():\n    from jaxdpbo.asked import requested_mu\n"
    assert cycles(sources | {"jaxdpbo.ledger": ""}) == []
    assert cycles(sources | {"jaxdpbo.ledger": ledger}) == ["jaxdpbo.asked", "jaxdpbo.guarantee", "jaxdpbo.ledger"]


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_extras_are_imported_where_they_are_used(path):
    at_top = {imported.split(".")[0] for imported, top in imports_of(path.read_text()) if top}
    own = (
        {path.parent.name} if path.parent.parent.name == "integrations" else set()
    )  # whoever imports it has that extra
    assert not at_top & (EXTRAS - own)


def test_importing_the_package_needs_no_extra_and_changes_no_configuration():
    """Nor does it begin JAX: who imports it may still name a platform, or call ``jax.distributed.initialize``."""
    apart = {"integrations", "commands", "__main__", "__init__"}
    core = [f"jaxdpbo.{name_of(path)}" for path in modules() if not apart & {path.stem, *path.parts}]
    code = (
        "import importlib, sys\n"
        f"extras = dict.fromkeys({sorted(EXTRAS)})\nsys.modules |= extras\n"
        "import jax\nbefore = dict(jax.config.values)\n"
        "import jaxdpbo, jaxdpbo.drivers, jaxdpbo.problems._datasets, jaxdpbo.problems._kernel_svr\n"
        "import jaxdpbo.audit, jaxdpbo.outsourcing, jaxdpbo.problems._gp_draws\n"
        "import jaxdpbo.training.oracles, jaxdpbo.training.permutation_sgd, jaxdpbo.training.spaces\n"
        "for extra in extras: del sys.modules[extra]\n"  # SciPy's statistics ask them their names
        f"for name in {core}: importlib.import_module(name)\n"
        "assert dict(jax.config.values) == before\n"
        "assert not jax._src.xla_bridge.backends_are_initialized()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("path", [path for path in modules() if "commands" not in path.parts], ids=name_of)
def test_the_package_neither_prints_nor_configures(path):  # its commands are programs: they do
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in ("print", "jax.config.update", "warnings.warn")


def test_the_modules_of_a_package_are_there_after_one_import():
    code = (
        "import sys, jaxdpbo\n"
        "slow = {'scipy.special', 'scipy.optimize', 'scipy.linalg', 'scipy.stats', 'jaxdpbo.outsourcing',\n"
        "  'jaxdpbo.training', 'jaxdpbo.problems', 'matplotlib', 'tqdm', 'sklearn'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "jaxdpbo.outsourcing.serve, jaxdpbo.training.train, jaxdpbo.problems.kernel_svr_loss\n"
        "jaxdpbo.audit.replay, jaxdpbo.surrogate.predict, jaxdpbo.drivers.run_scan, jaxdpbo.transforms.curate\n"
        "assert {'training', 'outsourcing', '__version__'} <= set(dir(jaxdpbo))\n"
        "assert 'train' in dir(jaxdpbo.training)\n"
        "for module in (jaxdpbo, jaxdpbo.training):\n"
        "  try: module.nothing\n"
        "  except AttributeError as error: assert module.__name__ in str(error) and 'nothing' in str(error)\n"
        "  else: raise AssertionError\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_nothing_unexpected_stands_at_the_root():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:  # an archive without its history
        names = {path.name for path in ROOT.iterdir()} - {"results", "build", "dist", "PKG-INFO"}
    else:
        names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} <= TOP_LEVEL

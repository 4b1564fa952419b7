"""What is published: the wheel in an empty environment, and the source distribution with its tests."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import environments
import pytest
from compilation import UNOPTIMISED

import jaxdpbo

ROOT = Path(__file__).parent.parent.parent
EXAMPLE, SHOWN = re.findall(r"```(?:python|text)\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)[:2]
GUARANTEE = re.findall(r"gdp [0-9.]+", SHOWN)[0]
SMOKE = """
import jax, jaxdpbo, numpy as np
from jaxdpbo import accounting, dp_gibo, transforms
assert jaxdpbo.__file__.startswith({prefix!r}), jaxdpbo.__file__
assert abs(accounting.gdp_epsilon(1.0, 1e-5) - 4.3771781) < 1e-6
assert accounting.sampled_gaussian_epsilon(rate=0.01, noise_multiplier=1.0, steps=100, delta=1e-5).epsilon < 3
rows = transforms.curate(None, transforms.planar_laplace(centre=np.zeros(2), scale=1.0, epsilon=2.0), np.ones((4, 2)))
assert np.all(np.isfinite(np.asarray(rows.z)))
jaxdpbo.outsourcing.publish, jaxdpbo.training.train, jaxdpbo.problems.kernel_svr_loss, jaxdpbo.privacy.threshold_audit
"""


# Tests that read files of the tree, or import what only tests do. All tests take half an hour on a core.
FILES = "counts prose numbers surface functions files readme scripts layers registration packaging traps building"


class Published(NamedTuple):
    """The two files."""

    wheel: Path
    source: Path


def in_new_environment(folder, *requirements):
    """Its Python, with these installed and no other package of ours in reach."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    ran(folder, python, *environments.INSTALL, *requirements)
    return python


def ran(cwd, *command, **variables):
    """What a command printed, run where only what is installed can be imported."""
    dropped = "PYTHONPATH", "PYTHONHOME", "JAX_ENABLE_X64"
    environment = {name: value for name, value in os.environ.items() if name not in dropped} | variables
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    hatchling = in_new_environment(folder / "builder", "hatchling")
    ran(ROOT, hatchling, "-m", "hatchling", "build", "-d", folder / "dist")
    (wheel,), (source,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return Published(wheel, source)


def test_wheel_and_source_give_the_example_in_an_empty_environment(published, tmp_path):
    names = zipfile.ZipFile(published.wheel).namelist()
    assert {"jaxdpbo/py.typed", "jaxdpbo/_commands/demo.py", "jaxdpbo/__main__.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"jaxdpbo", f"jaxdpbo-{jaxdpbo.__version__}.dist-info"}
    python = in_new_environment(tmp_path / "wheel", published.wheel)
    assert GUARANTEE in ran(tmp_path, python, "-c", EXAMPLE)
    ran(tmp_path, python, "-c", SMOKE.format(prefix=str(tmp_path)))
    assert "usage: jaxdpbo ledger" in ran(tmp_path, python.parent / "jaxdpbo", "ledger", "--help")
    ran(tmp_path, python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", published.source)
    ran(tmp_path, python, "-c", SMOKE.format(prefix=str(tmp_path)))


def test_the_tests_pass_from_the_source_distribution(published, tmp_path):
    """Those of ``FILES``, unoptimised, by the programs that ``scripts/test`` has kept; every file can be collected."""
    with tarfile.open(published.source) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames()}
        packed.extractall(tmp_path, filter="data")
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "jaxdpbo/py.typed"} <= names
    (tree,) = tmp_path.iterdir()
    ran(tree, sys.executable, "-m", "pytest", "--collect-only", "-q", "tests", PYTHONPATH=str(tree))
    ran(
        tree, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short",
        *(f"tests/test_{name}.py" for name in FILES.split()),
        "--deselect=tests/test_building.py::test_a_block_runs_alone",  # blocks of a page: tests/systems/test_pages.py
        **UNOPTIMISED,
        PYTHONPATH=str(tree),
        JAX_COMPILATION_CACHE_DIR=str(ROOT / ".cache" / "jax-unoptimised"),
        JAXDPBO_DATA=os.environ.get("JAXDPBO_DATA", str(ROOT.parent / "shared" / "data")),
    )  # fmt: skip

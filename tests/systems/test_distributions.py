"""What is published: the wheel in an empty environment, and the source distribution with its tests."""

import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import environments
import pytest
from environments import ROOT

import jaxdpbo

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
jaxdpbo.outsourcing.publish, jaxdpbo.training.train, jaxdpbo.problems.kernel_svr_loss, jaxdpbo.audit.threshold_audit
"""


# Tests that read files of the tree, or import what only tests do, and run little. All take an hour on a core.
FILES = "counts evidence surface functions files readme scripts layers registration packaging"


class Published(NamedTuple):
    """The two files."""

    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    hatchling = environments.create(folder / "builder", "hatchling")
    environments.run(hatchling, "-m", "hatchling", "build", "-d", folder / "dist", cwd=ROOT)
    (wheel,), (source,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return Published(wheel, source)


def test_wheel_and_source_give_the_example_in_an_empty_environment(published, tmp_path):
    names = zipfile.ZipFile(published.wheel).namelist()
    assert {"jaxdpbo/py.typed", "jaxdpbo/commands/demo.py", "jaxdpbo/__main__.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"jaxdpbo", f"jaxdpbo-{jaxdpbo.__version__}.dist-info"}
    python = environments.create(tmp_path / "wheel")
    pip = sys.executable, "-m", "pip", "--python", python
    environments.run(*pip, "install", "--quiet", published.wheel, cwd=tmp_path)
    assert GUARANTEE in environments.run(python, "-c", EXAMPLE, cwd=tmp_path)
    smoke = SMOKE.format(prefix=str(tmp_path))
    environments.run(python, "-c", smoke, cwd=tmp_path)
    assert "usage: jaxdpbo ledger" in environments.run(
        f"{Path(python).parent}/jaxdpbo", "ledger", "--help", cwd=tmp_path
    )
    environments.install(python, "--no-deps", "--force-reinstall", published.source)
    environments.run(python, "-c", smoke, cwd=tmp_path)


def test_the_tests_pass_from_the_source_distribution(published, tmp_path):
    """Those of ``FILES``, unoptimised, by the programs that ``scripts/test`` has kept; every file can be collected."""
    with tarfile.open(published.source) as packed:
        names = {name.split("/", 1)[1] for name in packed.getnames()}
        packed.extractall(tmp_path, filter="data")
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "jaxdpbo/py.typed"} <= names
    assert not [name for name in names if name.startswith("benchmarks")]
    (tree,) = tmp_path.iterdir()
    variables = environments.unoptimised(sys.executable) | {
        "PYTHONPATH": str(tree),
        "JAXDPBO_DATA": os.environ.get("JAXDPBO_DATA", str(ROOT.parent / "shared" / "data")),
    }
    environments.run(sys.executable, "-m", "pytest", "--collect-only", "-q", "tests", cwd=tree, **variables)
    environments.run_tests(
        sys.executable,
        *(f"tests/test_{name}.py" for name in FILES.split()),
        cwd=tree,
        **variables,
    )

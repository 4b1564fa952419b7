"""The package as built and installed: wheel and sdist in an empty environment, and the lowest versions stated."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import jaxdpbo

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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


def in_new_environment(folder, *requirements):
    """Its Python, with these installed and no other package of ours in reach."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    ran(folder, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return python


def ran(cwd, *command):
    """What a command printed, run where only what is installed can be imported."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder):
    """The wheel and the sdist."""
    hatchling = in_new_environment(folder / "builder", "hatchling")
    ran(ROOT, hatchling, "-m", "hatchling", "build", "-d", folder / "dist")
    (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
    return wheel, sdist


def test_wheel_and_sdist_give_the_example_in_an_empty_environment(full_only, tmp_path):
    wheel, sdist = built(tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"jaxdpbo/py.typed", "jaxdpbo/_commands/demo.py", "jaxdpbo/__main__.py"} <= set(names)
    assert {name.split("/")[0] for name in names} == {"jaxdpbo", f"jaxdpbo-{jaxdpbo.__version__}.dist-info"}
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "jaxdpbo/py.typed"} <= packed
    python = in_new_environment(tmp_path / "wheel", wheel)
    assert GUARANTEE in ran(tmp_path, python, "-c", EXAMPLE)
    ran(tmp_path, python, "-c", SMOKE.format(prefix=str(tmp_path)))
    assert "usage: jaxdpbo ledger" in ran(tmp_path, python.parent / "jaxdpbo", "ledger", "--help")
    ran(tmp_path, python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", sdist)
    ran(tmp_path, python, "-c", SMOKE.format(prefix=str(tmp_path)))


def test_the_lowest_stated_versions_run_the_example(full_only, tmp_path):
    wheel, _ = built(tmp_path)
    lowest = [requirement.replace(">=", "==") for requirement in PROJECT["dependencies"]]
    assert all("==" in requirement for requirement in lowest)
    python = in_new_environment(tmp_path / "lowest", wheel, *lowest)
    assert GUARANTEE in ran(tmp_path, python, "-c", EXAMPLE)
    ran(tmp_path, python, "-c", SMOKE.format(prefix=str(tmp_path)))


def test_the_metadata_say_what_a_package_index_shows():
    assert PROJECT["scripts"] == {"jaxdpbo": "jaxdpbo._commands:main"}
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

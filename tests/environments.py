"""Environments of their own, for tests of what a user installs."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
PYTHONS = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"

PURELIB = "import sysconfig; print(sysconfig.get_path('purelib'))"
# Most modules that pip would compile are never imported.
INSTALL = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")


def create(folder, *requirements, python=sys.executable, beside=False, variables=None):
    """The Python of a new environment with these requirements; ``beside``: with the packages of this process, too."""
    own = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "venv", str(folder)], check=True, env=variables)
    if beside:
        where = subprocess.check_output(
            [own, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
        )
        Path(where.strip(), "beside.pth").write_text(sysconfig.get_path("purelib"))
    done = subprocess.run([own, *INSTALL, *requirements], capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return own


def interpreter(version: str) -> str | None:
    """A Python of that version on this machine; None if there is none."""
    if version == OWN:
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in (shutil.which(f"python{version}"), *map(str, installed)):
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None

"""Environments of their own, for tests of what a user installs."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import compilation

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PYTHONS = re.findall(r"Programming Language :: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"

# uv is many times faster than pip. It is told to build a folder anew: it keeps the wheel where pyproject.toml fixes a
# version, and would test the sources of yesterday.
INSTALL = ("uv", "pip", "install", "--quiet", "--refresh-package=jaxdpbo")


def user_variables() -> dict[str, str]:
    """The variables of this process, without those that its own packages and precision hang on."""
    dropped = "PYTHONPATH", "PYTHONHOME", "JAX_ENABLE_X64"
    return {name: value for name, value in os.environ.items() if name not in dropped}


def create(folder: Path, *requirements: object, python: str = sys.executable) -> str:
    """The Python of a new environment with these requirements; without pip."""
    own = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, env=user_variables())
    if requirements:
        install(own, *requirements)
    return own


def install(python: str, *arguments: object) -> None:
    """Install into an environment, by the uv of this process."""
    run(sys.executable, "-m", *INSTALL, "--python", python, *arguments, cwd=ROOT)


def run(python: str, *command: object, cwd: Path, **variables: str) -> str:
    """What a command of an environment printed; only what is installed there can be imported."""
    activated = user_variables() | {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"} | variables
    done = subprocess.run([python, *map(str, command)], cwd=cwd, env=activated, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    return done.stdout


def unoptimised(python: str) -> dict[str, str]:
    """The variables to compile as ``scripts/test`` does, and with the programs that it has kept."""
    jaxlib = run(python, "-c", "from importlib.metadata import version; print(version('jaxlib'))", cwd=ROOT).strip()
    return compilation.unoptimised(jaxlib) | {"JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax-unoptimised")}


def run_tests(python: str, *arguments: str, cwd: Path = ROOT, **variables: str) -> str:
    """What pytest printed in an environment; skips are not judged here."""
    command = ["-m", "pytest", "-p", "no:cacheprovider", "--tb=short", *arguments]
    return run(python, *command, cwd=cwd, **variables)


def interpreter(version: str) -> str | None:
    """A Python of that version on this machine; None if there is none."""
    if version == OWN:
        return sys.executable
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for path in (shutil.which(f"python{version}"), *map(str, installed)):
        if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


def newest_interpreter() -> str:
    """The newest stated Python of this machine: older ones hold back what breaks."""
    return [python for python in map(interpreter, PYTHONS) if python][-1]

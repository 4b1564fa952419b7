"""Environments of their own, for tests of what a user installs."""

import subprocess
import sys
import sysconfig
from pathlib import Path

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

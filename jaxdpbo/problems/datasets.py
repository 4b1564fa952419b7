"""Real records: from a directory of files, from scikit-learn's fetchers, or from what scikit-learn bundles.

``load(name)`` looks in this order: the file of that name in the directory that the environment variable
``JAXDPBO_DATA`` names; scikit-learn's own download where there is one and a network; a bundled set that stands in.
``Dataset.source`` says which it was and what it is to the papers' data: print it beside any result.
"""

import csv
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxdpbo import _checks

SKLEARN_HINT = "scikit-learn is needed: pip install 'jaxdpbo[sklearn]'"


class Dataset(NamedTuple):
    """Numeric records.

    Attributes:
      features: ``(N, p)`` float64.
      targets: ``(N,)`` float64: a response, or a class number.
      source: which data these are, and what they stand for.
    """

    features: np.ndarray
    targets: np.ndarray
    source: str


class _Source(NamedTuple):
    file: str | None
    describes: str
    target: str  # a column's name, or "-1" for the last column of a file without a header
    dropped: tuple[str, ...]
    fetch: tuple[str, dict[str, Any]] | None  # a function of sklearn.datasets and its arguments
    bundled: str


_SOURCES = {
    "covtype": _Source(
        "covtype_20k.csv.gz", "UCI Forest covertype, a random 20,000 rows: exact data, subsampled",
        "Cover_Type", (), ("fetch_covtype", {"n_retries": 1}), "load_digits",
    ),
    "mnist": _Source(
        "mnist_5k.csv.gz", "MNIST, 500 digits a class (a real 8% subset), sorted by class",
        "-1", (), ("fetch_openml", {"name": "mnist_784", "version": 1, "as_frame": False, "n_retries": 1}),
        "load_digits",
    ),
    "ct_slice": _Source(
        "ct_slice_head.csv.gz", "UCI CT slice localisation, the file's first 682 rows: real, 2 patients only",
        "reference", ("patientId",), None, "load_diabetes",
    ),
    "chicago": _Source(
        "modeldata_Chicago.csv.gz", "Chicago ridership: a STAND-IN for CT slice at scale, a time series",
        "ridership", ("rownames", "date"), None, "load_diabetes",
    ),
    "digits": _Source(None, "", "", (), None, "load_digits"),
    "breast_cancer": _Source(None, "", "", (), None, "load_breast_cancer"),
    "diabetes": _Source(None, "", "", (), None, "load_diabetes"),
}  # fmt: skip
TABLES = {
    "adult": "adult.data.gz",
    "adult_test": "adult.test.gz",
    "ames": "modeldata_ames.csv.gz",
    "lending_club": "modeldata_lending_club.csv.gz",
    "sacramento": "modeldata_Sacramento.csv.gz",
}
NAMES = tuple(_SOURCES)


def directory() -> Path | None:
    """The directory that ``JAXDPBO_DATA`` names, or None where it names none that exists."""
    value = os.environ.get("JAXDPBO_DATA")
    return Path(value) if value and Path(value).is_dir() else None


def table(name: str) -> list[list[str]] | None:
    """The rows of a mixed table of ``TABLES`` as text, header included where the file has one; None without the file.

    Raises:
      ValueError: an unknown name.
    """
    return _rows(TABLES[_checks.choice("name", name, tuple(TABLES))])


def load(name: str) -> Dataset:
    """A numeric data set of ``NAMES``: see the module for where it comes from.

    Raises:
      ValueError: an unknown name.
      ModuleNotFoundError: scikit-learn is needed and missing.
    """
    source = _SOURCES[_checks.choice("name", name, NAMES)]
    rows = _rows(source.file) if source.file else None
    if rows is not None:
        return _from_rows(rows, source)
    if source.fetch is not None:
        function, arguments = source.fetch
        try:
            bunch = _sklearn(function)(**arguments)
        except OSError:  # no network: URLError and timeouts are OSErrors
            pass
        else:
            return _from_bunch(bunch, f"{name}, downloaded by scikit-learn: the full data")
    bundled = source.bundled.removeprefix("load_")
    said = f"scikit-learn's bundled {bundled}" + ("" if bundled == name else f": a STAND-IN for {name}")
    return _from_bunch(_sklearn(source.bundled)(), said)


def _rows(file: str) -> list[list[str]] | None:
    folder = directory()
    if folder is None or not (folder / file).exists():
        return None
    with gzip.open(folder / file, "rt", newline="") as stream:
        return [row for row in csv.reader(stream, skipinitialspace=True) if row]


def _from_rows(rows: list[list[str]], source: _Source) -> Dataset:
    if source.target == "-1":
        values = np.asarray(rows, dtype=np.float64)
        return Dataset(values[:, :-1], values[:, -1], source.describes)
    header = rows[0]
    kept = [column for column, title in enumerate(header) if title not in (source.target, *source.dropped)]
    target = header.index(source.target)
    features = np.asarray([[row[column] for column in kept] for row in rows[1:]], dtype=np.float64)
    return Dataset(features, np.asarray([row[target] for row in rows[1:]], dtype=np.float64), source.describes)


def _from_bunch(bunch: Any, said: str) -> Dataset:
    return Dataset(np.asarray(bunch.data, np.float64), np.asarray(bunch.target, np.float64), said)


def _sklearn(function: str) -> Callable[..., Any]:
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(SKLEARN_HINT) from error
    return getattr(datasets, function)

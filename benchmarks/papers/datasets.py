"""The papers' records: from a directory of files, from what scikit-learn bundles, or by an explicit download.

``load(name)`` reads "digits", "breast_cancer" and "diabetes" from scikit-learn; every other set from its file in the
directory that the environment variable ``JAXDPBO_DATA`` names. Two of them scikit-learn can fetch: with
``download=True`` alone. Data that are missing are an error that says what to do; no other data take their place.
``Dataset.source`` says what was read and what it is to the papers' data: print it beside any result.
"""

import csv
import gzip
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn.datasets

from jaxdpbo import checks
from jaxdpbo.problems import Dataset
from jaxdpbo.problems import _datasets as bundled


class _File(NamedTuple):
    file: str
    describes: str
    target: str  # a column's name, or "-1" for the last column of a file without a header
    dropped: tuple[str, ...] = ()
    fetch: tuple[str, dict[str, Any]] | None = None  # a function of sklearn.datasets and its arguments


_FILES = {
    "covtype": _File(
        "covtype_20k.csv.gz", "UCI Forest covertype, a random 20,000 rows: exact data, subsampled",
        "Cover_Type", fetch=("fetch_covtype", {}),
    ),
    "mnist": _File(
        "mnist_5k.csv.gz", "MNIST, 500 digits a class (a real 8% subset), sorted by class",
        "-1", fetch=("fetch_openml", {"name": "mnist_784", "version": 1, "as_frame": False}),
    ),
    "ct_slice": _File(
        "ct_slice_head.csv.gz", "UCI CT slice localisation, the file's first 682 rows: real, 2 patients only",
        "reference", ("patientId",),
    ),
    "chicago": _File(
        "modeldata_Chicago.csv.gz", "Chicago ridership: a STAND-IN for CT slice at scale, a time series",
        "ridership", ("rownames", "date"),
    ),
}  # fmt: skip
TABLES = {
    "adult": "adult.data.gz",
    "adult_test": "adult.test.gz",
    "ames": "modeldata_ames.csv.gz",
    "lending_club": "modeldata_lending_club.csv.gz",
    "sacramento": "modeldata_Sacramento.csv.gz",
}
NAMES = (*_FILES, *bundled.NAMES)


def directory() -> Path | None:
    """The directory that ``JAXDPBO_DATA`` names, or None where it names none that exists."""
    value = os.environ.get("JAXDPBO_DATA")
    return Path(value) if value and Path(value).is_dir() else None


def table(name: str) -> list[list[str]]:
    """The rows of a mixed table of ``TABLES`` as text, header included where the file has one.

    Raises:
      ValueError: an unknown name.
      FileNotFoundError: the file is not there.
    """
    return _rows(name, TABLES[checks.one_of("name", name, tuple(TABLES))])


def load(name: str, *, download: bool = False) -> Dataset:
    """A numeric data set of ``NAMES``.

    Args:
      name: of the set.
      download: have scikit-learn fetch "covtype" or "mnist", whole, where the file is not there.

    Raises:
      ValueError: an unknown name, or ``download`` of a set that cannot be fetched.
      FileNotFoundError: the file is not there and ``download`` is False.
    """
    if checks.one_of("name", name, NAMES) in bundled.NAMES:
        return bundled.load_dataset(name)
    source = _FILES[name]
    if download and source.fetch is None:
        raise ValueError(f"download must be False for name={name!r}: only covtype and mnist can be fetched")
    if download and not _path(source.file):
        function, arguments = source.fetch or ("", {})
        bunch = getattr(sklearn.datasets, function)(**arguments)
        features, targets = np.asarray(bunch.data, np.float64), np.asarray(bunch.target, np.float64)
        return Dataset(features, targets, f"{name}, downloaded by scikit-learn: the full data")
    return _from_rows(_rows(name, source.file, fetched=source.fetch is not None), source)


def _path(file: str) -> Path | None:
    folder = directory()
    return folder / file if folder is not None and (folder / file).exists() else None


def _rows(name: str, file: str, fetched: bool = False) -> list[list[str]]:
    path = _path(file)
    if path is None:
        value = os.environ.get("JAXDPBO_DATA")
        raise FileNotFoundError(
            f"name={name!r} needs the file {file} in the directory that the environment variable JAXDPBO_DATA names "
            f"(now {value!r})" + (", or download=True" if fetched else "")
        )
    with gzip.open(path, "rt", newline="") as stream:
        return [row for row in csv.reader(stream, skipinitialspace=True) if row]


def _from_rows(rows: list[list[str]], source: _File) -> Dataset:
    if source.target == "-1":
        values = np.asarray(rows, dtype=np.float64)
        return Dataset(values[:, :-1], values[:, -1], source.describes)
    header = rows[0]
    columns = [column for column, title in enumerate(header) if title not in (source.target, *source.dropped)]
    target = header.index(source.target)
    features = np.asarray([[row[column] for column in columns] for row in rows[1:]], dtype=np.float64)
    return Dataset(features, np.asarray([row[target] for row in rows[1:]], dtype=np.float64), source.describes)

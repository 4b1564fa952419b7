"""A spill holds what a scan without it reads, to the bit, and leaves no file."""

import os
import pickle
import threading

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxdpbo import tables
from jaxdpbo.tables import parquet_table, spill
from jaxdpbo.tables import people as _people

PEOPLE, ROWS, MOST = 50, 400, 3
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"who": RNG.integers(-3, PEOPLE + 3, ROWS), "x": RNG.normal(size=ROWS), "y": RNG.normal(size=ROWS).astype("f4")}
)
FRAME.loc[:9, "x"] = np.nan


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(_people, "SLOTS", 10 * MOST)  # five ranges
    monkeypatch.setattr(parquet_table, "PART", 37)
    monkeypatch.setattr(spill, "CHUNK", 7)
    pq.write_table(pa.Table.from_pandas(FRAME, preserve_index=False), tmp_path / "rows.parquet")
    (tmp_path / "spill").mkdir()
    return tmp_path / "rows.parquet"


def opened(path, **options):
    return tables.parquet(path, person="who", users=PEOPLE, max_rows=MOST, **options)


def rows_of(table):
    parts = []

    def add(batch):
        parts.append({name: np.asarray(batch.columns[name])[np.asarray(batch.present)] for name in batch.columns})
        return np.zeros(1, np.int64)

    table.add(add)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("ids", [False, True])
def test_a_scan_of_a_spill_has_the_rows_of_a_scan_of_the_files(path, monkeypatch, ids):
    options = {"person": tables.hashed("who", key=bytes(16)) if ids else "who", "users": PEOPLE, "max_rows": MOST}
    expected = rows_of(tables.parquet(path, **options))
    table = tables.parquet(path, spill=path.parent / "spill", **options)
    read = []
    plain = parquet_table.ParquetTable._read
    monkeypatch.setattr(parquet_table.ParquetTable, "_read", lambda self, of: read.append(of) or plain(self, of))
    for _ in range(3):
        found = rows_of(table)
        for name, column in expected.items():
            np.testing.assert_array_equal(found[name], column)
        assert os.listdir(path.parent / "spill") == []
    assert len(read) == 1


def test_a_read_that_returns_less_than_asked_goes_on(path, monkeypatch):
    """A call of the system returns 2 GiB at most: a range of wide columns has more."""
    table, read = opened(path, spill=path.parent / "spill"), os.pread
    expected = rows_of(table)
    monkeypatch.setattr(spill.os, "pread", lambda descriptor, size, at: read(descriptor, min(size, 13), at))
    found = rows_of(table)
    for name, column in expected.items():
        np.testing.assert_array_equal(found[name], column)


def test_two_scans_at_once_read_the_same(path):
    table = opened(path, spill=path.parent / "spill")
    expected, found = rows_of(table), []
    threads = [threading.Thread(target=lambda: found.append(rows_of(table))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for each in found:
        np.testing.assert_array_equal(each["x"], expected["x"])


def test_a_spill_follows_the_precision_and_stays_in_its_process(path):
    table = opened(path, spill=path.parent / "spill")
    wide = rows_of(table)["x"]
    with jax.enable_x64(False):
        narrow = rows_of(table)["x"]
    assert (wide.dtype, narrow.dtype) == (np.float64, np.float32)
    copy = pickle.loads(pickle.dumps(table))
    assert copy._spill is None
    np.testing.assert_array_equal(rows_of(copy)["x"], wide)


def test_files_that_changed_are_refused_though_the_rows_are_on_disk(path):
    table = opened(path, spill=path.parent / "spill")
    rows_of(table)
    pq.write_table(pa.Table.from_pandas(FRAME[:-1], preserve_index=False), path)
    with pytest.raises(tables.UnreadError, match="has changed"):
        rows_of(table)


def test_a_full_disk_is_said_without_a_row(path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device: 0.1257")

    monkeypatch.setattr(spill, "_fill_buckets", full)
    with pytest.raises(tables.TableError, match=r"could not be written to .*spill \(OSError\)$"):
        rows_of(opened(path, spill=path.parent / "spill"))


def test_the_note_and_the_folder(path):
    assert [note.id for note in opened(path).notes if note.id == "many-readings"]
    assert not [note.id for note in opened(path, spill=path.parent / "spill").notes if note.id == "many-readings"]
    for wrong, kind in ((3, TypeError), (path, ValueError), (path.parent / "none", ValueError)):
        with pytest.raises(kind, match="spill must be"):
            opened(path, spill=wrong)


@pytest.mark.parametrize("name", ["", "the person", "f0", "titles"])
def test_a_column_of_any_name_is_spilled(path, name):
    """Before: names were the fields of NumPy's records, and some crashed the first scan, after the charge."""
    pq.write_table(pa.Table.from_pandas(FRAME.rename(columns={"x": name}), preserve_index=False), path)
    expected, found = (rows_of(opened(path, **options)) for options in ({}, {"spill": path.parent / "spill"}))
    assert list(expected) == list(found) == [name, "y"]
    for column in expected:
        np.testing.assert_array_equal(found[column], expected[column])

"""Several rows of a person in a table: one user, from whichever files and partitions, by that person's rows alone."""

import dask.dataframe
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxdpbo import Execution, Search, minimize, tables
from jaxdpbo.tables import _parquet, _people, _table

ROWS, PEOPLE, MOST = 300, 70, 4
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"person": RNG.integers(0, PEOPLE, ROWS), "x": RNG.normal(1, 0.5, ROWS), "y": RNG.normal(0, 1, ROWS)}
)
FRAME.loc[FRAME.index[:40], "person"] = 3  # more rows than are read
FRAME.loc[5, "x"], FRAME.loc[6, "x"], FRAME.loc[7, "x"] = np.nan, -0.0, 0.0
GIVEN = {"person": "person", "users": PEOPLE, "max_rows": MOST}
BOX = {"low": [0, -2], "high": [2, 1]}


def naive(frame):
    """``{person: rows (at most MOST, 2)}``, the least rows first, NaN after all numbers."""
    found = {}
    for person, x, y in zip(frame["person"], frame["x"], frame["y"], strict=True):
        if not pd.isna(person):
            found.setdefault(person, []).append((x + 0.0, y + 0.0))  # -0.0 becomes 0.0
    key = lambda row: [(np.isnan(value), 0.0 if np.isnan(value) else value) for value in row]  # noqa: E731
    return {person: sorted(rows, key=key)[:MOST] for person, rows in found.items()}


def arrays_of(frame, users=PEOPLE):
    """A table of arrays with a row for each person, from ``naive``; people without rows hold NaN."""
    grouped = np.full((users, MOST, 2), np.nan)
    for number, rows in enumerate(naive(frame).values()):
        grouped[number, : len(rows)] = rows
    return tables.arrays({"x": grouped[..., 0], "y": grouped[..., 1]})


def loss(point, batch):
    rows = jnp.abs(batch["x"] - point[0]) + jnp.abs(batch["y"] - point[1])
    return jnp.minimum(jnp.where(jnp.all(jnp.isnan(rows), axis=1), 0.0, jnp.nanmean(rows, axis=1)), 4.0)


def search(table):
    run = Execution(key=jax.random.key(3), insecure_key=True)
    return minimize(
        loss, table, BOX, epsilon=4.0, delta=1e-5, loss_range=(0, 4), search=Search(method="in_order", steps=3), run=run
    )


def write(folder, frame, files):
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        rows = pa.Table.from_pandas(frame.iloc[part], preserve_index=False)
        pq.write_table(rows, folder / f"{number}.parquet", row_group_size=20)
    return folder


@pytest.fixture
def small(monkeypatch):
    """Batches of 64, and people in several buckets."""
    monkeypatch.setattr(_table, "BATCH", 64)
    monkeypatch.setattr(_parquet, "BUCKET", 80)


def rows_of(table):
    """All rows of a table as sorted texts, those of padding left out."""
    found = []

    def keep(batch):
        kept = np.stack([batch.columns["x"], batch.columns["y"]], axis=-1)[batch.present]
        found.extend(map(str, kept.tolist()))
        return np.zeros(1, np.int64)

    table.add(keep)
    return sorted(found)


@pytest.mark.parametrize("persons", ["whole numbers", "texts", "missing"])
def test_rows_are_put_together_as_a_plain_loop_does(persons, small, tmp_path):
    frame = FRAME.sample(frac=1, random_state=1)
    if persons == "texts":
        frame["person"] = "no " + frame["person"].astype(str)
    elif persons == "missing":
        frame["person"] = frame["person"].astype("Int64").mask(frame["y"] > 1)
    present = len(naive(frame))
    expected = rows_of(arrays_of(frame, present))
    given = [tables.parquet(write(tmp_path / str(files), frame, files), **GIVEN) for files in (1, 3, 8)]
    given += [
        tables.dask(dask.dataframe.from_pandas(frame, npartitions=parts, sort=False), **GIVEN) for parts in (1, 4)
    ]
    for table in given:
        assert (table.users, table.columns) == (PEOPLE, {"x": (MOST,), "y": (MOST,)})
        assert rows_of(table) == expected


def test_a_release_is_that_of_people_in_arrays(small, tmp_path):
    few = FRAME[FRAME["person"] < PEOPLE - 5]  # the last five have no rows
    expected = search(arrays_of(few)).release
    for number, table in enumerate([
        tables.parquet(write(tmp_path / "rows", few.sample(frac=1, random_state=2), 3), **GIVEN),
        tables.dask(dask.dataframe.from_pandas(few, npartitions=3), **GIVEN),
    ]):  # fmt: skip
        found = search(table).release
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(number))


def test_rows_of_one_person_move_no_rows_of_others():
    def others(frame):
        parts = [
            _people.Rows(part["person"].to_numpy(), np.ones(len(part), bool), {"x": part["x"].to_numpy()})
            for part in (frame[:100], frame[100:])
        ]
        (grouped,) = _people.group_rows(parts, _people.People("person", PEOPLE, MOST))
        present = np.unique(frame["person"])
        return grouped["x"][present != 3]

    more = pd.DataFrame({"person": 3, "x": np.linspace(-9, 9, 500), "y": 0.0})
    np.testing.assert_array_equal(others(FRAME), others(pd.concat([more, FRAME, more])))
    np.testing.assert_array_equal(others(FRAME), others(FRAME[FRAME["person"] != 3]))


def test_people_without_rows_add_nothing_and_more_people_than_users_stop_the_scan(small, tmp_path):
    def count(batch):
        return np.array([np.sum(batch.present)])

    folder = write(tmp_path / "rows", FRAME, 2)
    present = FRAME["person"].nunique()
    assert tables.parquet(folder, **(GIVEN | {"users": 99})).add(count) == tables.Sum(np.array([present]), 99)
    with pytest.raises(tables.TableError, match=f"found {present} people, more than the {present - 1} users"):
        tables.parquet(folder, **(GIVEN | {"users": present - 1})).add(count)
    nobody = FRAME.assign(person=pd.array([None] * ROWS, dtype="Int64"))
    for table in (
        tables.parquet(write(tmp_path / "nobody", nobody, 2), **GIVEN),
        tables.dask(dask.dataframe.from_pandas(nobody, npartitions=2), **GIVEN),
    ):
        assert table.add(count) == tables.Sum(np.array([0]), PEOPLE)


def test_a_bucket_of_a_person_is_the_same_in_every_part():
    names = np.array(["Ann", "Bob", "Cy", "Ann"], dtype=object)
    np.testing.assert_array_equal(_people.bucket_of(names[::-1], 5), _people.bucket_of(names, 5)[::-1])
    numbers = np.arange(-2000, 2000)
    counts = np.bincount(_people.bucket_of(numbers, 8).astype(int), minlength=8)
    assert len(counts) == 8
    assert counts.min() > 300


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"person": "person"}, ValueError, "person needs users"),
        ({"person": "person", "users": 9}, ValueError, "person needs users"),
        ({"max_rows": 2}, ValueError, "max_rows needs person"),
        (GIVEN | {"person": 3}, TypeError, "person must be the name"),
        (GIVEN | {"max_rows": 0}, ValueError, "max_rows must"),
        (GIVEN | {"person": "z"}, ValueError, "integers or texts"),
        (GIVEN | {"person": "x"}, ValueError, "integers or texts"),
        (GIVEN | {"columns": ["person"]}, ValueError, "beside that of the person"),
    ],
)
def test_arguments_that_name_no_people_are_refused(arguments, error, says, tmp_path):
    folder = write(tmp_path / "rows", FRAME, 1)
    for open_rows in (
        lambda: tables.parquet(folder, **arguments),
        lambda: tables.dask(dask.dataframe.from_pandas(FRAME, npartitions=2), **arguments),
    ):
        with pytest.raises(error, match=says):
            open_rows()


def test_files_with_other_kinds_of_people_are_refused(tmp_path):
    write(tmp_path / "rows", FRAME, 1)
    text = FRAME.assign(person=FRAME["person"].astype(str))
    pq.write_table(pa.Table.from_pandas(text, preserve_index=False), tmp_path / "rows" / "9.parquet")
    with pytest.raises(ValueError, match=r"9\.parquet must hold int64"):
        tables.parquet(tmp_path / "rows", **GIVEN)
    pq.write_table(pa.Table.from_pandas(FRAME, preserve_index=False), tmp_path / "one.parquet")
    with pytest.raises(ValueError, match="users needs person"):
        tables.parquet(tmp_path / "one.parquet", users=9)

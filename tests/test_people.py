"""Several rows of a person in a table: one user, from any files, by that person's rows alone."""

import functools
import pickle
import warnings

import dask.dataframe
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxdpbo import Search, minimize, tables
from jaxdpbo.tables import (
    arrow,
    beam_table,
    dask_table,
    ray_table,
    spark_table,
)
from jaxdpbo.tables import (
    engine as _engine,
)
from jaxdpbo.tables import (
    people as _people,
)
from jaxdpbo.tables import (
    table as _table,
)

ROWS, PEOPLE, MOST = 300, 70, 4
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"person": RNG.integers(0, PEOPLE, ROWS), "x": RNG.normal(1, 0.5, ROWS), "y": RNG.normal(0, 1, ROWS)}
)
FRAME.loc[FRAME.index[:40], "person"] = 3  # more rows than are read
FRAME.loc[FRAME["person"].isin([9, PEOPLE - 1]), "person"] = 2  # people without rows
FRAME.loc[5, "x"], FRAME.loc[6, "x"], FRAME.loc[7, "x"] = np.nan, -0.0, 0.0
GIVEN = {"person": "person", "users": PEOPLE, "max_rows": MOST}
BOX = {"low": [0, -2], "high": [2, 1]}


def arrays_of(frame):
    """A table of arrays with a row for each person, by a plain loop: the least rows first, NaN after all numbers."""
    rows = [[] for _ in range(PEOPLE)]
    for person, x, y in zip(frame["person"], frame["x"], frame["y"], strict=True):
        if not pd.isna(person) and 0 <= person < PEOPLE:
            rows[int(person)].append((x + 0.0, y + 0.0))  # -0.0 becomes 0.0
    grouped = np.full((PEOPLE, MOST, 2), np.nan)
    for person, own in enumerate(rows):
        own.sort(key=lambda row: [(np.isnan(value), 0.0 if np.isnan(value) else value) for value in row])
        for slot, row in enumerate(own[:MOST]):
            grouped[person, slot] = row
    return tables.arrays({"x": grouped[..., 0], "y": grouped[..., 1]})


def loss(point, batch):
    rows = jnp.abs(batch["x"] - point[0]) + jnp.abs(batch["y"] - point[1])
    return jnp.minimum(jnp.where(jnp.all(jnp.isnan(rows), axis=1), 0.0, jnp.nanmean(rows, axis=1)), 4.0)


def search(table, method):
    execution = {"key": jax.random.key(3), "insecure_key": True}
    return minimize(
        loss, table, BOX, epsilon=4.0, delta=1e-5, loss_range=(0, 4), search=Search(method=method, steps=3), **execution
    )


def write(folder, frame, files):
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        rows = pa.Table.from_pandas(frame.iloc[part], preserve_index=False)
        pq.write_table(rows, folder / f"{number}.parquet", row_group_size=20)
    return folder


@pytest.fixture
def small(monkeypatch):
    """Batches of 64, and people in several ranges."""
    monkeypatch.setattr(_table, "BATCH", 64)
    monkeypatch.setattr(_people, "SLOTS", 80)
    monkeypatch.setattr(_people, "WORKER_SLOTS", 80)


def columns_of(table):
    """The users' rows, ``(users, MOST, 2)``."""
    found = []

    def keep(batch):
        found.append(np.stack([batch.columns["x"], batch.columns["y"]], axis=-1)[batch.present])
        return np.zeros(1, np.int64)

    assert table.add(keep).users == PEOPLE
    return np.concatenate(found)


def in_order(rows):
    """The users in an order of their values: an engine's threads add ranges in any order."""
    flat = rows.reshape(PEOPLE, -1)
    return flat[np.lexsort(flat.T)]


def odd_numbers(frame):
    """Rows of nobody: without a person, or with a number outside ``[0, users)``."""
    persons = frame["person"].astype("Int64").mask(frame["y"] > 1)
    return frame.assign(person=persons.mask(frame["y"] < -1.5, -7).mask(frame["y"].between(0.9, 1), 2**62))


@pytest.mark.parametrize("change", [lambda frame: frame, odd_numbers], ids=["all rows", "rows of nobody"])
def test_rows_are_put_together_as_a_plain_loop_does(change, small, tmp_path):
    frame = change(FRAME.sample(frac=1, random_state=1))
    expected = columns_of(arrays_of(frame))
    for files in (1, 3, 8):
        table = tables.parquet(write(tmp_path / str(files), frame, files), **GIVEN)
        assert (table.users, table.columns) == (PEOPLE, {"x": (MOST,), "y": (MOST,)})
        np.testing.assert_array_equal(columns_of(table), expected)


@pytest.mark.parametrize("change", [lambda frame: frame, odd_numbers], ids=["all rows", "rows of nobody"])
@pytest.mark.parametrize("parts", [1, 3, 8])
def test_dask_puts_rows_together_from_any_partitions(parts, change, small):
    frame = change(FRAME.sample(frac=1, random_state=1)).reset_index(drop=True)
    table = tables.dask(dask.dataframe.from_pandas(frame, npartitions=parts, sort=False), **GIVEN)
    assert (table.users, table.columns) == (PEOPLE, {"x": (MOST,), "y": (MOST,)})
    np.testing.assert_array_equal(in_order(columns_of(table)), in_order(columns_of(arrays_of(frame))))


class Shuffled(_engine.EngineTable):
    """An engine's own functions, with the engine's shuffle in this process."""

    engine = "shuffled"

    def __init__(self, kind, frame, plant=""):
        super().__init__(PEOPLE, ["x", "y"], _people.People("person", PEOPLE, MOST))
        cuts = np.array_split(np.arange(len(frame)), 5)
        self.parts = [pa.Table.from_pandas(frame.iloc[cut], preserve_index=False) for cut in cuts]
        self.kind, self.plant = kind, plant

    def _count(self):
        raise NotImplementedError

    def _sums(self, task):
        raise NotImplementedError

    def _sums_of_people(self, split, task):
        split, task = pickle.loads(pickle.dumps(split)), task
        sums = {"ray": self.of_ray, "beam": self.of_beam, "spark": self.of_spark}[self.kind](split, task)
        if self.plant == "missing":
            sums.pop()
        if self.plant == "twice":
            sums.append(sums[0])
        return sums

    def of_ray(self, split, task):
        pieces = [ray_table._split_block(split, part, self._names, self._people) for part in self.parts]
        return [ray_table._add_pieces(task, number, *rows) for number, rows in enumerate(zip(*pieces, strict=True))]

    def of_beam(self, split, task):
        cut, add, groups = beam_table._make_splitter(split, self._names, self._people), beam_table._make_adder(task), {}
        for part in self.parts:
            for number, content in cut(part):
                groups.setdefault(number, []).append(content)
        return [_engine.PartitionSum(group[0], *add(group)) for group in groups.items()]

    def of_spark(self, split, task):
        cut, add = (
            spark_table._make_splitter(split, self._names, self._people),
            spark_table._make_adder(task, self._names),
        )
        rows = pa.Table.from_batches([piece for part in self.parts for piece in cut(part.to_batches())])
        sums = [
            add((pa.scalar(number),), rows.filter(pa.compute.equal(rows["range"], number)))
            for number in rows["range"].unique().to_pylist()
        ]
        return [_engine.PartitionSum(**row) for each in sums for row in each.to_pylist()]


@pytest.mark.parametrize("change", [lambda frame: frame, odd_numbers], ids=["all rows", "rows of nobody"])
@pytest.mark.parametrize("kind", ["ray", "beam", "spark"])
def test_functions_of_an_engine_put_rows_together(kind, change, small):
    """Ranges without a row are there too."""
    frame = change(FRAME.sample(frac=1, random_state=1))
    frame.loc[frame["person"].between(40, 60), "person"] = -1
    np.testing.assert_array_equal(in_order(columns_of(Shuffled(kind, frame))), in_order(columns_of(arrays_of(frame))))


@pytest.mark.parametrize(("plant", "says"), [("missing", None), ("twice", "partition 0 was summed twice")])
def test_a_range_that_is_missing_or_there_twice_is_seen(plant, says, small):
    table = Shuffled("ray", FRAME, plant)
    if says is None:
        assert table.add(lambda batch: np.zeros(1, np.int64)).users < PEOPLE
    else:
        with pytest.raises(tables.TableError, match=says):
            table.add(lambda batch: np.zeros(1, np.int64))


def test_numbers_of_people_of_any_type_are_whole_or_nobodys():
    ones = functools.partial(arrow.to_persons, people=_people.People("person", 9, 1))
    np.testing.assert_array_equal(ones(pa.array([3, None, -7], pa.int32())), [3, -1, -7])
    assert ones(pa.array([2**64 - 5], pa.uint64())) < 0
    np.testing.assert_array_equal(ones(pa.array([3.0, None, np.nan, np.inf, 2.5, 1e300])), [3, -1, -1, -1, -1, -1])
    np.testing.assert_array_equal(ones(pa.array(["Ann", "3", None])), [-1, 3, -1])
    frame = pd.DataFrame({"person": pd.array([1, None], "Int64"), "x": [1.0, 2.0]})
    (rows,) = dask_table._read_people(frame, ["x"], _people.People("person", 3, 1))
    np.testing.assert_array_equal(rows.persons, [1, -1])


def test_a_worker_sends_no_more_rows_of_a_person_than_are_read(small):
    people = _people.People("person", PEOPLE, MOST)
    rows = _people.Rows(np.full(1000, 3), {"x": np.arange(1000.0)[::-1]})
    pieces = _people.split_rows([rows, rows], people, ["x"])
    assert [len(piece.persons) for piece in pieces] == [MOST, *[0] * (len(pieces) - 1)]
    np.testing.assert_array_equal(pieces[0].columns["x"], [0, 0, 1, 1])


def test_a_worker_that_cannot_split_quotes_no_row():
    def broken():
        raise ValueError("Ann Smith, 17")
        yield

    with pytest.raises(tables.TableError, match="ValueError") as raised:
        _engine.Split(_people.People("person", 3, 1), ["x"])(broken())
    assert "Smith" not in str(raised.value)
    assert raised.value.__cause__ is raised.value.__context__ is None


@pytest.mark.daily("in_order")
@pytest.mark.parametrize("method", ["in_order", "evaluations"])
def test_a_release_is_that_of_people_in_arrays(method, small, tmp_path):
    """Of the people without rows too: a mean counts what the loss says of them."""
    table = tables.parquet(write(tmp_path / "rows", FRAME.sample(frac=1, random_state=2), 3), **GIVEN)
    releases = [jax.tree.leaves(search(each, method).release) for each in (table, arrays_of(FRAME))]
    for found, expected in zip(*releases, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_ranges_without_a_row_are_people_without_rows(small, tmp_path):
    frame = FRAME.assign(person=FRAME["person"].mask(FRAME["person"].between(15, 65), 2))
    found = columns_of(tables.parquet(write(tmp_path / "rows", frame, 2), **GIVEN))
    np.testing.assert_array_equal(found, columns_of(arrays_of(frame)))


def test_rows_of_one_person_move_nothing_of_others(small, tmp_path):
    """Neither what others add nor their places."""
    more = pd.DataFrame({"person": 3, "x": np.linspace(-9, 9, 500), "y": 0.0})
    frames = [FRAME, pd.concat([more, FRAME, more]), FRAME[FRAME["person"] != 3]]
    first, *others = (
        np.delete(columns_of(tables.parquet(write(tmp_path / str(number), frame, 2), **GIVEN)), 3, axis=0)
        for number, frame in enumerate(frames)
    )
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_no_value_warns_or_raises(tmp_path, float32):
    """A conversion to float64 would quiet the NaN."""
    signalling = np.array([0x7F800001], np.uint32).view(np.float32)
    rows = {"person": np.arange(3), "x": np.concatenate([signalling, np.float32([np.inf, -np.inf])])}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    with np.errstate(all="raise"), warnings.catch_warnings(action="error"):
        table = tables.parquet(tmp_path / "rows.parquet", person="person", users=3, max_rows=1)
        table.add(lambda batch: np.zeros(1, np.int64))


def test_memory_does_not_follow_the_rows_of_one_person(monkeypatch):
    """A part is trimmed before the next is kept."""
    monkeypatch.setattr(_people, "SLOTS", 100)
    lengths, plain = [], _people.join
    monkeypatch.setattr(
        _people, "join", lambda parts: lengths.append(sum(len(p.persons) for p in parts)) or plain(parts)
    )
    parts = (_people.Rows(np.full(90, 1), {"x": np.arange(90.0)[::-1] + part}) for part in range(50))
    grouped = _people.group_rows(parts, _people.People("person", 2, 3), 0, 2)
    np.testing.assert_array_equal(grouped["x"], [[np.nan] * 3, [0, 1, 1]])
    assert max(lengths) < 400


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"person": "person"}, ValueError, "person needs users"),
        ({"person": "person", "users": 9}, ValueError, "person needs users"),
        ({"max_rows": 2}, ValueError, "need person"),
        (GIVEN | {"person": 3}, TypeError, "person must be the name"),
        (GIVEN | {"max_rows": 0}, ValueError, "max_rows must"),
        (GIVEN | {"person": "z"}, ValueError, "must name a column of integers"),
        (GIVEN | {"person": "x"}, ValueError, "must name a column of integers"),
        (GIVEN | {"columns": ["person"]}, ValueError, "there must be a column 'person'"),
        ({"users": 9}, ValueError, "need person"),
    ],
)
def test_arguments_that_name_no_people_are_refused(arguments, error, says, tmp_path):
    folder = write(tmp_path / "rows", FRAME, 1)
    with pytest.raises(error, match=says):
        tables.parquet(folder, **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (GIVEN | {"person": "x"}, "must name a column of integers"),
        (GIVEN | {"person": "z"}, "must name a column of integers"),
        ({"max_rows": 2}, "max_rows needs person"),
        ({"person": "person"}, "person needs users"),
    ],
)
def test_a_frame_without_people_is_refused(arguments, says, tmp_path):
    """Files declare the types of a frame."""
    with pytest.raises(ValueError, match=says):
        tables.dask(dask.dataframe.read_parquet(write(tmp_path / "rows", FRAME, 2)), **arguments)


def test_a_file_with_people_of_another_type_is_refused(tmp_path):
    folder = write(tmp_path / "rows", FRAME, 1)
    text = FRAME.assign(person=FRAME["person"].astype(str))
    pq.write_table(pa.Table.from_pandas(text, preserve_index=False), folder / "9.parquet")
    with pytest.raises(ValueError, match=r"9\.parquet does not have as 'person'"):
        tables.parquet(folder, **GIVEN)

"""Columns with more digits than a float of 32 bits: said aloud by declared types, and computed where the rows lie."""

import datetime
import pickle
import shutil

import dask.dataframe
import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jaxdpbo import (
    PrivateObjective,
    Recording,
    Search,
    ledger,
    minimize,
    notes,
    separable,
    space,
    tables,
    user_values,
)
from jaxdpbo.drivers import recorded_run, separability
from jaxdpbo.tables import sources

EPOCH = 1_700_000_000
STAY = pc.field("end") - pc.field("start")
TEXT = pa.array(["a", " b", None, "c", "1"])


def read(table):
    """All rows of a table, by name."""
    seen = []
    table.add(lambda batch: seen.append(batch) or np.zeros(1, np.int64))
    (batch,) = seen
    return {name: column[batch.present] for name, column in batch.columns.items()}


def one(folder, columns, sources_, **options):
    path = folder / "one.parquet"
    pq.write_table(pa.table(columns), path)
    return tables.parquet(path, sources_, **options)


def visits(folder):
    rng = np.random.default_rng(0)
    start = EPOCH + rng.integers(0, 10**6, 2000)
    path = folder / "visits.parquet"
    pq.write_table(pa.table({"start": start, "end": start + rng.integers(8, 32, 2000)}), path)
    return path


def said(notes):
    return "; ".join(map(str, notes))


# -- What is said -----------------------------------------------------------------------------------------------------


def test_epoch_seconds_are_noted_and_right_once_computed(tmp_path, float32):
    """Of ../shared's kind: stays of 8 to 31 seconds, between times that float32 holds to 128 seconds."""
    path, options = visits(tmp_path), {"loss_range": (0, 1), "epsilon": 5, "delta": 1e-6}
    options["search"] = Search(method="in_order", steps=20)

    def loss(point, batch):
        stay = batch["stay"] if "stay" in batch else batch["end"] - batch["start"]
        return jnp.minimum(jnp.abs(stay / 100 - point[0]), 1)

    plain = minimize(loss, tables.parquet(path), [(0, 1)], **options)
    computed = minimize(loss, tables.parquet(path, {"stay": STAY}), [(0, 1)], **options)
    assert "of 'start', 'end' the files hold 64 bits" in said(plain.notes)
    assert 'columns={"stay": pc.field("end") - pc.field("start")}' in repr(plain)
    assert computed.notes == ()
    assert abs(computed.release.point[0] - 0.195) < 0.05
    stay = pq.read_table(path).to_pandas().eval("end - start").to_numpy()
    np.testing.assert_array_equal(read(tables.parquet(path, {"stay": STAY}))["stay"], stay.astype(np.float32))
    rounded = read(tables.parquet(path))
    assert np.abs(rounded["end"] - rounded["start"] - stay).max() > 30  # planted: what the note says


@pytest.mark.parametrize(
    ("kind", "wide"),
    [
        (pa.int64(), True), (pa.uint64(), True), (pa.float64(), True), (pa.timestamp("s"), True),
        (pa.decimal128(12, 2), True), (pa.int32(), False), (pa.float32(), False), (pa.bool_(), False),
        (pa.duration("us"), True), (pa.date32(), False),
        (pa.list_(pa.float64(), 2), True), (pa.dictionary(pa.int8(), pa.int64()), True),
    ],
    ids=str,
)  # fmt: skip
def test_a_note_follows_from_the_declared_type_alone(kind, wide, tmp_path, float32):
    assert bool(one(tmp_path, {"x": pa.nulls(3, kind)}, None).notes) is wide
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):  # the neighbour's values, of the same type
        assert bool(one(tmp_path, {"x": pa.array([0, 1, None], kind)}, None).notes) is wide


def test_who_declares_a_range_or_computes_is_told_nothing(tmp_path, float32):
    path = visits(tmp_path)
    told = {"begin": pc.field("start")}  # another name is no remedy
    assert "'begin'" in said(tables.parquet(path, told).notes)
    for columns in ({"start": space.real(0, 120)}, {"x": pc.field("start").cast("float32")}, {"x": STAY}):
        assert tables.parquet(path, columns).notes == ()
    many = {f"c{number}": np.arange(2.0) for number in range(5)}
    assert "'c0', 'c1', 'c2' and 2 more" in said(one(tmp_path, many, None).notes)


def test_in_64_bits_and_in_memory_nothing_is_said(tmp_path):
    """The type of an array in memory may have been inferred from values."""
    assert tables.parquet(visits(tmp_path)).notes == ()
    assert tables.arrays({"x": np.arange(3)}).notes == ()


def test_no_type_of_an_engine_moves_a_note(float32):
    """An engine may infer types from rows: one missing integer makes a column of floats."""
    whole, missing, narrow = ([1, 2], [1, None], np.float32([1, 2]))
    notes = {
        tables.dask(dask.dataframe.from_pandas(pandas.DataFrame({"x": values}), npartitions=1)).notes
        for values in (whole, missing, narrow)
    }
    assert len(notes) == 1
    with pytest.raises(TypeError, match="compute a column on the engine"):
        tables.dask(dask.dataframe.from_pandas(pandas.DataFrame({"x": whole}), npartitions=1), columns={"x": STAY})
    assert "of 'x' the engine may hold 64 bits" in said(notes.pop())


def test_every_driver_of_a_table_says_it_once(tmp_path, float32):
    table, path = tables.parquet(visits(tmp_path), ["start"]), tmp_path / "budget.jsonl"
    ledger.create(path, mu=2)
    options = {"users": 2000, "mu": 1.0, "evaluations": 2, "loss_range": (0, 1)}
    objective = PrivateObjective(
        lambda point, batch: batch["start"], table, ledger=Recording(path, "objective"), **options
    )
    assert said(objective.notes).count("'start'") == 1
    again = {"mu": 1.0, "loss_range": (0, 1), "search": Search(method="in_order", steps=2)}
    for _ in range(2):  # the second reads the release from the ledger
        run = minimize(
            lambda point, batch: batch["start"] * 0 + point[0], table, [(0, 1)], ledger=Recording(path, "run"), **again
        )
        assert said(run.notes).count("'start'") == 1


# -- What is computed -------------------------------------------------------------------------------------------------


def test_a_row_that_fails_is_missing_and_leaves_others_alone(tmp_path):
    """Pyarrow raises for a whole batch: overflow in one row, a division by zero in another."""
    rows = {"start": [0, -1, 5, 1, 2], "end": [9, 2**63 - 1, 7, 0, 4]}
    columns = {"stay": STAY, "ratio": pc.field("start") / pc.field("end")}
    found = read(one(tmp_path, rows, columns))
    np.testing.assert_array_equal(found["stay"], [9, np.nan, 2, -1, 2])
    np.testing.assert_array_equal(found["ratio"], [0, 0, 0, np.nan, 0])
    with pytest.raises(pa.ArrowInvalid):  # planted: without a row's own room
        sources._evaluate(STAY, pa.table(rows).to_batches()[0])


@pytest.mark.parametrize(
    ("columns", "error", "says"),
    [
        ({"x": pc.field("nope") + 1}, ValueError, r"columns\['x'\] cannot be computed from the first file"),
        ({"x": pc.field("text")}, ValueError, "must hold numbers, got string"),
        ({"x": pc.Expression._call("random", [])}, ValueError, "the same in every scan"),
        ({"x": pc.Expression._call("cumulative_sum", [pc.field("start")])}, ValueError, "non-scalar"),
        ({"x": "start"}, TypeError, r'such as pc.field\("start"\)'),
        ({"start": None}, TypeError, r'such as pc.field\("start"\)'),
        ({"x": 3}, TypeError, "x must be real"),
        ({}, TypeError, "a list of names, or a dict"),
        ({"missing": space.real(0, 1)}, ValueError, "must have a column 'missing'"),
        ({"text": space.real(0, 9)}, ValueError, r"holds text, got string: say how it spells numbers"),
        ({"text": ["a", " a"]}, ValueError, "must hold choices that differ"),
        ({"list": space.real(0, 9)}, ValueError, "one number a row"),
        ({"list": ["a", "b"]}, ValueError, "text or numbers for a category"),
        (["text"], ValueError, r'columns={"text": space.categorical\("a", "b"\)} reads it by a public list'),
    ],
)
def test_what_is_no_column_is_refused_before_a_row_is_read(columns, error, says, tmp_path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0]), 2)
    with pytest.raises(error, match=says) as raised:
        one(tmp_path, {"start": [1], "text": ["secret"], "list": lists}, columns)
    assert "secret" not in str(raised.value)


def test_people_have_computed_columns(tmp_path):
    rows = {"who": [1, 0, 1], "start": [EPOCH, EPOCH, EPOCH + 5], "end": [EPOCH + 3, EPOCH + 1, EPOCH + 6]}
    table = one(tmp_path, rows, {"stay": STAY}, person="who", users=2, max_rows=2)
    np.testing.assert_array_equal(read(table)["stay"], [[1, np.nan], [1, 3]])
    with pytest.raises(ValueError, match="must not name the column of the person"):
        one(tmp_path, rows, {"who": STAY}, person="who", users=2, max_rows=2)


def test_another_definition_is_another_run(tmp_path):
    """A release of a ledger must not come back for a column of the same name, computed in another way."""
    rows = {"start": [1, 2], "end": [3, 4]}

    def schema(columns):
        return recorded_run.make_subject(len, one(tmp_path, rows, columns), 2).schema

    assert schema({"x": STAY}) != schema({"x": pc.field("end")})
    lists = [pa.array(range(100)), pa.array([*range(50), 7, *range(51, 100)])]
    one_of, other = (pc.is_in(pc.field("end"), values) for values in lists)
    assert str(one_of) == str(other)  # pyarrow leaves out the middle
    assert schema({"x": one_of}) != schema({"x": other})
    assert schema({"end": space.real(0, 1)}) != schema({"end": space.real(0, 2)})
    assert schema({"x": STAY}) == schema({"x": pc.field("end") - pc.field("start")})
    copy = pickle.loads(pickle.dumps(one(tmp_path, rows, {"x": STAY})))
    np.testing.assert_array_equal(read(copy)["x"], [2, 2])


# -- What is read by type or dimension --------------------------------------------------------------------------------


def test_dates_and_times_count_in_seconds_in_any_unit(tmp_path):
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    seconds, day = moment.timestamp(), datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC).timestamp()
    arrays = {unit: pa.array([moment, None], pa.timestamp(unit, "Europe/Zurich")) for unit in ("s", "ms", "us", "ns")}
    arrays |= {f"d{unit}": pa.array([datetime.timedelta(seconds=90), None], pa.duration(unit)) for unit in ("s", "ns")}
    arrays |= {
        "date32": pa.array([moment.date(), None], pa.date32()),
        "date64": pa.array([moment.date(), None], pa.date64()),
    }
    arrays |= {
        "time32": pa.array([moment.time(), None], pa.time32("ms")),
        "time64": pa.array([moment.time(), None], pa.time64("us")),
    }
    arrays |= {"decimal": pa.array([90, None], pa.decimal128(5, 0)), "coded": pa.array([90, None]).dictionary_encode()}
    found = {name: column[0] for name, column in read(one(tmp_path, arrays, None)).items()}
    clock = 3 * 3600 + 4 * 60 + 5
    expected = {"s": seconds, "ms": seconds, "us": seconds, "ns": seconds, "ds": 90, "dns": 90, "date32": day}
    expected |= {"date64": day, "time32": clock, "time64": clock, "decimal": 90, "coded": 90}
    assert found == expected
    assert np.isnan([column[1] for column in read(one(tmp_path, arrays, None)).values()]).all()
    (tmp_path / "units").mkdir()
    for unit in ("ms", "ns"):  # each file in its own unit
        pq.write_table(pa.table({"t": arrays[unit]}), tmp_path / "units" / f"{unit}.parquet")
    np.testing.assert_array_equal(read(tables.parquet(tmp_path / "units"))["t"], [seconds, np.nan, seconds, np.nan])


def test_dates_in_memory_are_those_of_files(tmp_path):
    """datetime64 was NaN in every row."""
    frame = pandas.DataFrame({"t": pandas.to_datetime(["2024-01-02 03:04:05", None, "1969-12-31 00:00:00"])})
    for unit in ("s", "ms", "us", "ns"):
        column = frame["t"].astype(f"datetime64[{unit}]")
        np.testing.assert_array_equal(
            read(tables.arrays({"t": column}))["t"], read(one(tmp_path, {"t": column}, None))["t"]
        )
    by_hand = [datetime.datetime(2024, 1, 2, 3, 4, 5), None, datetime.date(1969, 12, 31)]
    expected = [1_704_164_645.0, np.nan, -86400.0]
    for odd in (np.array(by_hand, object), np.array([*frame["t"]], object), frame["t"].to_numpy(), by_hand):
        np.testing.assert_array_equal(read(tables.arrays({"t": odd}))["t"], expected)
    np.testing.assert_array_equal(user_values.to_data({"t": frame["t"].to_numpy()})["t"], expected)
    coarse = np.array(["2024", "NaT"], "datetime64[Y]"), np.array(["2024-01", "NaT"], "datetime64[M]")
    for dates in (*coarse, np.array(["2024-01-01T00", "NaT"], "datetime64[h]")):
        np.testing.assert_array_equal(user_values.to_numbers(dates), [1_704_067_200.0, np.nan])


@pytest.mark.parametrize(
    "column",
    [
        TEXT, TEXT.dictionary_encode(), TEXT.cast(pa.large_string()), TEXT.cast(pa.binary()),
        TEXT.cast(pa.binary()).cast(pa.string_view()),
        pa.array([b"a", b"b", b"\xff", b"\xfe", b"1"]), TEXT.cast(pa.binary()).dictionary_encode(),
    ],
    ids=["text", "coded", "large", "bytes", "view", "no UTF-8", "coded bytes"],
)  # fmt: skip
def test_a_category_is_its_position_in_the_public_list(column, tmp_path):
    if not pa.types.is_dictionary(column.type) and column[2].as_py() == b"\xff":
        column = pa.Array.from_buffers(pa.string(), 5, column.buffers())  # as a broken writer leaves it
    found = read(one(tmp_path, {"c": column}, {"c": ["b", "a", 1]}))["c"]
    np.testing.assert_array_equal(found, [1, 0, np.nan, np.nan, 2])


def test_numbers_are_read_in_their_range_and_text_by_its_spelling(tmp_path):
    rows = {"paid": ["1.234,5", "-3", None, "x", "2.000.000"], "age": [-1, 30, 200, None, 5]}
    columns = {"paid": space.real(0, 1e6, decimal=",", thousands="."), "age": space.integer(0, 120)}
    found = read(one(tmp_path, rows, columns))
    np.testing.assert_array_equal(found["paid"], [1234.5, 0, np.nan, np.nan, 1e6])
    np.testing.assert_array_equal(found["age"], [0, 30, 120, np.nan, 5])
    coded = {"paid": pa.array(rows["paid"]).dictionary_encode(), "age": rows["age"]}
    np.testing.assert_array_equal(read(one(tmp_path, coded, columns))["paid"], found["paid"])


def test_a_path_names_columns(tmp_path):
    """As Hive and Spark write files; a column that a file holds is the file's."""
    for year, ward, ages in ((2023, "east", [1.0]), (2024, "far%20west", [2.0, 3.0])):
        folder = tmp_path / f"year={year}" / f"ward={ward}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"age": ages}), folder / "a.parquet")
    assert tables.parquet(tmp_path).columns == {"age": ()}
    np.testing.assert_array_equal(read(tables.parquet(tmp_path, ["year", "age"]))["year"], [2023, 2024, 2024])
    np.testing.assert_array_equal(read(tables.parquet(tmp_path, ["year"]))["year"], [2023, 2024, 2024])
    columns = {"ward": ["far west", "east"], "later": pc.field("year").cast("int32") + 1, "age": space.real(0, 9)}
    found = read(tables.parquet(tmp_path, columns))
    np.testing.assert_array_equal(found["ward"], [1, 0, 0])
    np.testing.assert_array_equal(found["later"], [2024, 2025, 2025])
    folder = tmp_path / "both" / "age=7" / "t=1"
    folder.mkdir(parents=True)
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0]), 2)
    pq.write_table(pa.table({"age": [1.0], "t": lists}), folder / "a.parquet")
    both = read(tables.parquet(tmp_path / "both", ["age", "t"]))
    assert (both["age"].tolist(), both["t"].tolist()) == ([1.0], [[1.0, 2.0]])
    shutil.rmtree(tmp_path / "both")
    (tmp_path / "z").mkdir()
    pq.write_table(pa.table({"age": [1.0]}), tmp_path / "z" / "z.parquet")
    with pytest.raises(ValueError, match="must have a column 'year'"):
        tables.parquet(tmp_path, ["year"])


CENTS = np.random.default_rng(0).integers(0, 2**33, 800)


def far(point, cents):
    return abs(cents.astype(float) / 2.0**33 - point[0])


@pytest.mark.daily("per_user")
@pytest.mark.parametrize("loss", [far, separable.per_user(far)], ids=["plain", "per_user"])
def test_arrays_of_wide_integers_are_noted(float32, loss):
    """The declared dtype alone decides, and only where JAX narrows it."""
    options = {"space": [(0, 1)], "mu": 1.0, "loss_range": (0, 1), "search": Search(method="in_order", steps=2)}

    def said(cents, **run):
        return [note.text for note in minimize(loss, cents, **options, **run).notes if note.id == "clipped-integers"]

    (text,) = said(CENTS)
    assert text.startswith("data holds integers of 64 bits, and the loss sees 32: a number beyond them counts as")
    assert said(CENTS % 100) == [text]
    assert said(CENTS.astype(np.uint64)) == [text]
    assert said(CENTS.astype(np.int32)) == said(CENTS / 1.0) == said(CENTS.astype(object)) == []
    assert (said(CENTS, traceable=False) == [text]) == (loss is not far)  # a loss in NumPy sees 64 bits
    with jax.enable_x64(True):
        assert said(CENTS) == []
    objective = PrivateObjective(loss, CENTS, users=800, evaluations=2, mu=1.0, loss_range=(0, 1))
    assert [note.text for note in objective.notes] == [text] * (loss is not far)


def test_the_note_names_the_arrays(float32):
    assert separability._wide_integers({"a": CENTS, "b": (CENTS, 1.0), "n": 2**40}) == ["data['a']", "data['b'][0]"]
    (note,) = notes.clipped_integers(["data['a']", "data['b']", "data['c']", "data['d']"])
    assert note.text.startswith("data['a'], data['b'], data['c'] and 1 more hold integers of 64 bits")

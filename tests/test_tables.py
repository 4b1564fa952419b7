"""Users in a table: the same release from any order of rows and any cut into files, and nothing counted twice."""

import os
import pickle
import re
import shutil
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from oracles import clipping as oracle

from jaxdpbo import (
    Recording,
    RunInterrupted,
    Search,
    by_person,
    dp_gibo,
    ledger,
    minimize,
    per_user,
    private_evaluations,
    random_search,
    run_loop,
    space,
    tables,
)
from jaxdpbo.drivers import compiled_steps, table_scan
from jaxdpbo.guarantee import assumptions
from jaxdpbo.noise import private_mean
from jaxdpbo.tables import identity, parquet_table
from jaxdpbo.tables import table as _table

USERS = 201
RNG = np.random.default_rng(0)
PLACES = np.stack([RNG.normal(1.0, 0.5, USERS), RNG.normal(-0.5, 0.5, USERS)], axis=1).astype(np.float32)
ORDER = np.random.default_rng(1).permutation(USERS)
BOX = {"low": [0, -2], "high": [2, 1]}
BUDGET = {"epsilon": 4.0, "delta": 1e-5}
SEARCHES = {
    "local": {"search": Search(method="local", steps=3, clip_norm="private")},
    "in_order": {"loss_range": (0, 4), "search": Search(method="in_order", steps=3)},
    "choice": {"loss_range": (0, 4), "search": Search(method="choice", steps=4, estimate_share=0.1)},
    "evaluations": {"loss_range": "private", "search": Search(method="evaluations", steps=3, batch=4)},
    "start_then_local": {"loss_range": (0, 4), "search": Search(method="start_then_local", steps=4)},
}


def loss(point, batch):
    return jnp.minimum(jnp.abs(jnp.stack([batch["x"], batch["y"]], axis=1) - point[None]).sum(axis=1), 4.0)


def loss_in_numpy(point, batch):
    return np.minimum(np.abs(np.stack([batch["x"], batch["y"]], axis=1) - point[None]).sum(axis=1), 4.0)


def columns(order=slice(None)):
    return {"x": PLACES[order, 0].astype(float), "y": PLACES[order, 1].astype(float)}


def seeded(**options):
    return {"key": jax.random.key(3), "insecure_key": True, **options}


def write(folder, files, order=slice(None)):
    """Files of unequal lengths, in one folder."""
    folder.mkdir()
    rows = pa.table(columns(order))
    cuts = sorted(np.random.default_rng(files).choice(np.arange(1, USERS), files - 1, replace=False).tolist())
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, USERS], strict=True)):
        pq.write_table(rows.slice(first, last - first), folder / f"{number}.parquet", row_group_size=50)
    return folder


@pytest.fixture
def small(monkeypatch):
    """Batches of 64: a few users fill several."""
    monkeypatch.setattr(_table, "BATCH", 64)


@pytest.mark.daily("local", "in_order")
@pytest.mark.parametrize("name", SEARCHES)
def test_the_release_is_the_same_from_arrays_and_files_in_any_order(name, small, tmp_path):
    given = [
        tables.arrays(columns()),
        tables.arrays(columns(ORDER)),
        *(tables.parquet(write(tmp_path / str(files), files, ORDER)) for files in (1, 3, 8)),
    ]
    runs = [minimize(loss, table, BOX, **BUDGET, **SEARCHES[name], **seeded()) for table in given]
    for run in runs[1:]:
        for first, other in zip(*(jax.tree.leaves(each.release) for each in (runs[0], run)), strict=True):
            np.testing.assert_array_equal(first, other)
    assert runs[0].guarantee.epsilon(delta=1e-5) <= 4


def test_no_row_is_rounded_by_its_place_in_a_batch_of_the_shipped_size():
    """As XLA compiles for users, where ``scripts/test`` runs this file."""
    rows = np.random.default_rng(2).normal(1.0, 0.5, (40_000, 2))
    totals = []
    for order in (slice(None), np.random.default_rng(3).permutation(40_000)):
        config = descent(memory="none", users=40_000)
        table = tables.arrays({"x": rows[order, 0], "y": rows[order, 1]})
        users = table_scan.TableUsers(dp_gibo.algorithm, loss, table, config, True, False)
        before = users.begin(jax.random.key(0))
        query = compiled_steps.ask(dp_gibo.algorithm, jax.random.key(1), config, before.state)
        totals.append(table_scan.flatten(users.evaluate(jax.random.key(2), before, query).whole))
    np.testing.assert_array_equal(*totals)
    assert np.any(totals[0])


@pytest.mark.daily("choice")  # test_tables_evaluations has evaluations
@pytest.mark.parametrize("name", ["in_order", "choice", "evaluations"])
def test_a_table_and_its_arrays_release_the_same(name, small):
    of_table, of_arrays = (
        minimize(loss, data, BOX, **BUDGET, **SEARCHES[name], **seeded())
        for data in (tables.arrays(columns()), columns())
    )
    assert of_table.guarantee == of_arrays.guarantee
    for first, other in zip(*(jax.tree.leaves(each.release) for each in (of_table, of_arrays)), strict=True):
        np.testing.assert_allclose(first, other, rtol=1e-6)


def descent(**options):
    return dp_gibo.config(
        **{"users": USERS, "steps": 3, "batch": 3, "mu": 1.0, "clip_norm": 1.0, "bounds": BOX} | options
    )


def test_descent_on_a_table_is_descent_without_memory(small):
    of_table, of_arrays = (
        run_loop(dp_gibo.algorithm, loss, data, descent(memory="none"), **seeded()).release.path
        for data in (tables.arrays(columns()), columns())
    )
    np.testing.assert_allclose(of_table, of_arrays, rtol=1e-5)


@pytest.mark.parametrize("traceable", [True, False])
def test_a_total_is_that_of_an_oracle(traceable, small):
    config = private_evaluations.config(
        random_search.algorithm, random_search.config(users=1, steps=2, batch=3, bounds=BOX), users=USERS, mu=1.0,
        loss_range=(0.5, 2.0),
    )  # fmt: skip
    algorithm = private_evaluations.make_algorithm(random_search.algorithm)
    function = loss if traceable else loss_in_numpy
    users = table_scan.TableUsers(algorithm, function, tables.arrays(columns()), config, traceable, False)
    before = users.begin(jax.random.key(0))
    query = compiled_steps.ask(algorithm, jax.random.key(1), config, before.state)
    whole = users.evaluate(jax.random.key(2), before, query).whole
    found = private_mean.mean_of_losses(
        config.noise, private_mean.skip_noise(config.noise, whole.means), config.low, config.high
    )
    expected = [np.mean(np.clip(loss_in_numpy(np.asarray(point), columns()), 0.5, 2.0)) for point in query.points]
    np.testing.assert_allclose(found, expected, atol=2e-3)  # the grid of a user's loss


def test_the_descents_total_is_that_of_an_oracle(small):
    config = descent(memory="none")
    users = table_scan.TableUsers(dp_gibo.algorithm, loss, tables.arrays(columns()), config, True, False)
    before = users.begin(jax.random.key(0))
    query = compiled_steps.ask(dp_gibo.algorithm, jax.random.key(1), config, before.state)
    whole = users.evaluate(jax.random.key(2), before, query).whole
    losses = np.stack([loss_in_numpy(np.asarray(point), columns()) for point in query.points])
    expected, _, _ = oracle.clipped_mean(np.asarray(query.broadcast.weights, float), losses.astype(float), 1.0)
    radius = int(config.noise.radius)
    found = table_scan.flatten(whole) / radius / USERS
    np.testing.assert_allclose(found, expected, atol=1.0 / radius)


@pytest.mark.parametrize("length", [1, 63, 64, 65, 200, 201])
def test_every_row_is_in_one_batch_and_every_batch_has_one_shape(length, small):
    rows = np.arange(length, dtype=np.float32)
    cuts = np.array_split(rows, 4)
    given = list(_table.batches({"a": part, "b": np.stack([part, part], 1)} for part in cuts if len(part)))
    assert {batch.columns["a"].shape for batch in given} == {(64,)}
    assert {batch.columns["b"].shape for batch in given} == {(64, 2)}
    kept = np.concatenate([batch.columns["a"][batch.present] for batch in given])
    np.testing.assert_array_equal(kept, rows)


def test_files_hold_the_numbers_of_arrays_and_missing_values_are_nan(tmp_path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2)
    lists = lists.take(pa.array([0, None, 2]))
    rows = pa.table({"whole": pa.array([1, None, 3], pa.int64()), "yes": [True, False, None], "list": lists})
    pq.write_table(rows.slice(1), tmp_path / "b.parquet")
    pq.write_table(rows.slice(0, 1), tmp_path / "a.parquet")
    table = tables.parquet(tmp_path)
    assert (table.users, table.columns) == (3, {"whole": (), "yes": (), "list": (2,)})
    (batch,) = _table.batches(table._parts(table._open()))
    read = {name: column[:3] for name, column in batch.columns.items()}
    np.testing.assert_array_equal(read["whole"], [1, np.nan, 3])
    np.testing.assert_array_equal(read["yes"], [1, 0, np.nan])
    np.testing.assert_array_equal(read["list"], [[1, 2], [np.nan, np.nan], [5, 6]])
    assert {column.dtype for column in read.values()} == {jnp.result_type(float)}
    assert tables.parquet(tmp_path, columns=["yes"]).columns == {"yes": ()}


@pytest.mark.parametrize("first", ["whole", "fraction", "narrow"])
def test_each_file_is_read_in_its_own_types(first, tmp_path):
    """A cast to the first file's type would fail, or round, for one user's value."""
    kinds = {"whole": pa.array([1, 2]), "fraction": pa.array([1.5, None]), "narrow": pa.array([3.25, 4], pa.float32())}
    for number, name in enumerate([first, *(other for other in kinds if other != first)]):
        pq.write_table(pa.table({"x": kinds[name]}), tmp_path / f"{number}.parquet")
    read = batches_of(tables.parquet(tmp_path))[0].columns["x"][:6]
    np.testing.assert_array_equal(np.sort(read), np.sort([1, 2, 1.5, np.nan, 3.25, 4]))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"x": ["Ann Smith"]}, "must hold numbers, got string"),
        ({"y": [1.0]}, "must have a column 'x'"),
        ({"x": pa.FixedSizeListArray.from_arrays(pa.array([7.25, 8.0]), 2)}, "must have the shape ()"),
    ],
)
def test_a_schema_that_drifts_between_files_is_refused_and_no_row_quoted(rows, says, tmp_path):
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table(rows), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet") as raised:
        tables.parquet(tmp_path)
    assert says in str(raised.value)
    assert "Smith" not in str(raised.value)
    assert "7.25" not in str(raised.value)


@pytest.mark.parametrize(
    ("kinds", "source", "says"),
    [
        ((pa.int32(), pa.date32()), None, "must hold numbers, as other files, not times, in seconds since 1970"),
        ((pa.timestamp("s"), pa.int64()), None, "must hold times, in seconds since 1970, as other files, not numbers"),
        ((pa.int32(), pa.time32("s")), None, "must hold numbers, as other files, not seconds"),
        ((pa.int64(), pa.float64()), pc.field("x") / 2, "must hold whole numbers, as other files, not numbers"),
    ],
)
def test_files_that_count_other_units_are_refused(kinds, source, says, tmp_path):
    """Before: ten days of one file and the number 10 of another were read as 864,000 and 10, in silence."""
    for name, kind in zip("ab", kinds, strict=True):
        pq.write_table(
            pa.table({"x": pa.array([10, 11], pa.int32() if "32" in str(kind) else pa.int64()).cast(kind)}),
            tmp_path / f"{name}.parquet",
        )
    with pytest.raises(ValueError, match=re.escape(says)):
        tables.parquet(tmp_path, None if source is None else {"x": source})


def test_a_field_by_number_is_refused(tmp_path):
    """A scan reads some of a file's fields: before, the second of these was another than the file's second."""
    pq.write_table(pa.table({"x": [1.0], "y": [10.0], "z": [100.0]}), tmp_path / "t.parquet")
    for source in (pc.field(1), pc.field("x") + pc.field(2)):
        with pytest.raises(ValueError, match=r"columns\['v'\] must name its fields, as pc.field\('age'\) does"):
            tables.parquet(tmp_path / "t.parquet", {"v": source, "x": space.real(0, 9), "z": space.real(0, 999)})


def batches_of(table):
    seen = []
    table.add(lambda batch: seen.append(batch) or np.zeros(1, np.int64))
    return seen


def test_arrays_are_read_in_the_precision_of_the_scan_and_long_integers_are_a_note():
    """Before: a table made without x64 could not be read with it, which was said after the charge."""
    times = np.array([1_700_000_001, 1_700_000_002])
    with jax.enable_x64(False):
        given = np.array([0.1, 0.2])
        table = tables.arrays({"t": times, "small": times.astype(np.int32), "x": given})
        given[:] = 7  # the table has rows of its own
        (note,) = table.notes
        assert not tables.arrays({"t": pandas.Series(times)}).notes  # one missing cell would have made another dtype
        assert note.id == "narrowed-columns"
        assert "'t' the arrays hold 64 bits" in note.text
    for x64 in (False, True):
        with jax.enable_x64(x64):
            (batch,) = batches_of(table)
            assert {column.dtype for column in batch.columns.values()} == {jnp.result_type(float)}
            assert not any(column.flags.writeable for column in batch.columns.values())
            np.testing.assert_array_equal(batch.columns["t"][:2], times.astype(jnp.result_type(float)))
            np.testing.assert_array_equal(batch.columns["x"][:2], np.array([0.1, 0.2], jnp.result_type(float)))
    with jax.enable_x64(True):
        assert not table.notes


def test_durations_and_times_of_a_day_are_wide_too(tmp_path, float32):
    kinds = {"span": pa.duration("us"), "hour": pa.time64("us"), "day": pa.date32()}
    rows = {name: pa.array([86_400_000], pa.int64()).cast(kind) for name, kind in kinds.items() if name != "day"}
    pq.write_table(pa.table(rows | {"day": pa.array([1], pa.int32()).cast(pa.date32())}), tmp_path / "t.parquet")
    (note,) = tables.parquet(tmp_path / "t.parquet").notes
    assert "of 'span', 'hour' the files hold 64 bits" in note.text


def test_what_is_no_table_is_refused(tmp_path):
    (tmp_path / "text.parquet").write_text("secret, 17")
    for source in (tmp_path / "none.parquet", tmp_path / "text.parquet"):
        with pytest.raises(ValueError, match=r"source must be Parquet files") as raised:
            tables.parquet(source)
        assert "secret" not in str(raised.value)
    pq.write_table(pa.table({"x": pa.array([], pa.float32())}), tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="one row or more"):
        tables.parquet(tmp_path / "empty.parquet")
    pq.write_table(pa.table({"x": [1.0]}), tmp_path / "one.parquet")
    with pytest.raises(ValueError, match="named twice"):
        tables.parquet([tmp_path / "one.parquet", tmp_path / "one.parquet"])
    for columns_ in ([], ["x", "x"]):
        with pytest.raises(ValueError, match="must name"):
            tables.parquet(tmp_path / "one.parquet", columns_)
    for given, error in (({}, ValueError), ({"x": [1.0], "y": [1.0, 2.0]}, ValueError), ({3: [1.0]}, TypeError)):
        with pytest.raises(error, match="columns must"):
            tables.arrays(given)


def test_an_empty_file_among_others_adds_nothing(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "b.parquet")
    table = tables.parquet(tmp_path)
    assert table.add(lambda batch: np.array([batch.present.sum()])) == tables.Sum(np.array([2]), 2)


ALIASES = {
    "a relative path": lambda path: os.path.relpath(path),
    "two slashes": lambda path: path.replace("/a.", "//a."),
    "a way back": lambda path: f"{os.path.dirname(path)}/../{os.path.basename(os.path.dirname(path))}/a.parquet",
    "a symbolic link": lambda path: os.symlink(path, path + ".s") or path + ".s",
    "a hard link": lambda path: os.link(path, path + ".h") or path + ".h",
    "a linked folder": lambda path: os.symlink(os.path.dirname(path), path + ".f") or path + ".f/a.parquet",
    "a scheme inside": lambda path: path.replace("/a.", "/s3://../a."),
    "a scheme inside a relative path": lambda path: "./s3://../a.parquet",
    "itself": str,
}


@pytest.mark.parametrize("name", ALIASES)
def test_a_file_under_two_names_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "a.parquet")
    (tmp_path / "s3:").mkdir()
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    alias = ALIASES[name](path)
    assert tables.parquet(alias).users == 2  # the owner may name a file as they like, once
    with pytest.raises(ValueError, match=r"one file|named twice") as raised:
        tables.parquet([path, alias])
    assert name == "itself" or (path in str(raised.value) and alias in str(raised.value))


@pytest.mark.parametrize(
    "spelling",
    [str, lambda path: f"file://{path}", os.path.relpath, lambda path: path.replace("/rows", "/s3:/../s3://../rows")],
)
@pytest.mark.parametrize("link", ["back", "out", "of a file", "hard"])
def test_a_folder_with_a_link_is_refused(link, spelling, tmp_path, monkeypatch):
    """A folder that holds a link to itself reads each of its files 41 times."""
    monkeypatch.chdir(tmp_path)
    folder, other = tmp_path / "rows", tmp_path / "others" / "a.parquet"
    (tmp_path / "s3:").mkdir()
    (folder / "more").mkdir(parents=True)
    other.parent.mkdir()
    for path in (folder / "a.parquet", folder / "more" / "b.parquet", other):
        pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    table = tables.parquet(spelling(str(folder)))
    assert table.users == 4
    if link == "hard":
        os.link(folder / "a.parquet", folder / "c.parquet")
    else:
        os.symlink({"back": folder, "out": other.parent, "of a file": other}[link], folder / "c.parquet")
    with pytest.raises(ValueError, match="are one file" if link == "hard" else "is a symbolic link") as raised:
        tables.parquet(spelling(str(folder)))
    assert "c.parquet" in str(raised.value)
    with pytest.raises(tables.TableError, match=r"c\.parquet"):
        table.add(lambda batch: np.zeros(1, np.int64))


def test_remote_addresses_are_compared_as_they_read():
    assert "are one file" in identity.find_repeated(["s3://b/c/a", "s3://b//c/./a"])
    assert "are one file" in identity.find_repeated(["s3://b/c/a://d", "s3://b//c/a:/d"])
    assert not identity.find_repeated(["s3://b/c/a", "gs://b/c/a", "s3://b/c/b", "s3://b/c://a", "s3://b/d://a"])


def test_a_path_that_reads_like_an_address_is_a_path(tmp_path):
    for path in (
        "/d/s3://x/a",
        "d/s3://x",
        "3s://x",
        "s3:/x",
        "://x",
        "//[x/a",
        "/a\tb",
        " file:///x",
        "/d?a#b",
        "a b://c",
    ):
        assert identity.local_path(path) == path
    for address, path in {"file:/a%20b": "/a b", "FILE:///a": "/a", "local://localhost/a": "/a"}.items():
        assert identity.local_path(address) == path
    for address in ("s3://b/a", "abfs+x://b/a", "GS://b/a"):
        assert identity.local_path(address) is None


@pytest.mark.parametrize(
    "change", ["a row more", "other numbers", "deleted", "a new file", "torn", "another file of the same size and time"]
)
def test_files_that_change_after_opening_stop_a_scan(change, small, tmp_path):
    folder = write(tmp_path / "rows", 3)
    table = tables.parquet(folder)
    path = folder / "1.parquet"
    if change == "a row more":
        pq.write_table(pa.concat_tables([pq.read_table(path), pq.read_table(path).slice(0, 1)]), path)
    elif change == "other numbers":
        held = pq.read_table(path)
        pq.write_table(held.set_column(0, "x", pa.array(np.zeros(len(held), np.float32))), path)
    elif change == "another file of the same size and time":
        status = path.stat()
        shutil.copy(path, folder / "new")
        os.replace(folder / "new", path)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "deleted":
        path.unlink()
    elif change == "a new file":
        pq.write_table(pq.read_table(path), folder / "9.parquet")
    else:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(RunInterrupted) as raised:
        run_loop(dp_gibo.algorithm, loss, table, descent(memory="none"), **seeded())
    assert isinstance(raised.value.__cause__, tables.TableError)


def test_a_file_that_changes_during_a_scan_stops_it(small, tmp_path):
    """Both files are read by then: only a comparison after the last row sees it."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.zeros(70)}), path)
    table = tables.parquet(path)

    def replace(batch):
        pq.write_table(pa.table({"x": np.ones(70)}), tmp_path / "b.parquet")
        os.replace(tmp_path / "b.parquet", path)
        return np.zeros(1, np.int64)

    with pytest.raises(tables.TableError, match="has changed since"):
        table.add(replace)


def quotes(error):
    """All that anybody may print or send of an error."""
    return "".join([str(error), repr(error), *traceback.format_exception(error), str(pickle.dumps(error)),
                    *(f"{inner!r}" for inner in (error.__context__, error.__cause__))])  # fmt: skip


@pytest.mark.parametrize("fault", ["to_columns", "to_people", "files", "_dataset"])
def test_an_error_of_parquet_quotes_no_row(fault, tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": [0, 1]}), path)
    people = {"person": "who", "users": 2, "max_rows": 1} if fault == "to_people" else {}
    table = tables.parquet(path, ["x"], **people)

    def fail(*_, **__):
        raise ValueError("Ann Smith, 17")

    if fault.startswith("to_"):
        monkeypatch.setattr(parquet_table.sources.Sources, fault, fail)
    elif fault == "files":
        monkeypatch.setattr(parquet_table.identity, "identify", fail)
    else:
        monkeypatch.setattr("pyarrow.dataset.dataset", fail)
    with pytest.raises(tables.TableError, match=r"\(ValueError\)") as raised:
        table.add(lambda batch: np.zeros(1, np.int64))
    assert "Smith" not in quotes(raised.value)
    if not fault.startswith("to_"):
        with pytest.raises(ValueError, match=r"\(ValueError\)") as raised:
            tables.parquet(path)
        assert "Smith" not in quotes(raised.value)


class Odd(_table.ArrayTable):
    """Scans that go wrong in a planted way, from a scan on."""

    def __init__(self, plant="", first=0, last=99):
        super().__init__(tables.arrays(columns())._columns)
        self.plant, self.first, self.last, self.scans = plant, first, last, 0

    def add(self, partial):
        given = list(_table.batches([self._columns]))
        if self.first <= self.scans < self.last:
            if self.plant == "fails":
                self.scans += 1
                raise tables.TableError("a disk is gone")
            if self.plant == "twice":
                given.append(given[1])
            elif self.plant == "missing":
                given.pop(2)
            elif self.plant == "whole numbers":  # as of an engine that reads a type from values
                given[0] = given[0]._replace(columns={n: c.astype(int) for n, c in given[0].columns.items()})
            elif self.plant == "ragged":
                given[0] = tables.Batch({n: c[:63] for n, c in given[0].columns.items()}, given[0].present[:63])
        self.scans += 1
        return _table.add_batches(partial, given)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        ("twice", "read 265 rows"),
        ("missing", "read 137 rows"),
        ("ragged", "must have 64 rows"),
        ("whole numbers", "default float"),
    ],
)
def test_a_batch_twice_missing_or_of_another_shape_stops_the_run(plant, says, small):
    run_loop(dp_gibo.algorithm, loss, Odd(), descent(memory="none"), **seeded())
    with pytest.raises(RunInterrupted) as raised:
        run_loop(dp_gibo.algorithm, loss, Odd(plant), descent(memory="none"), **seeded())
    assert says in str(raised.value.__cause__)


def test_an_interrupted_run_goes_on_where_it_was_for_one_charge(small, tmp_path):
    path = tmp_path / "book"
    ledger.create(path, mu=1.5)
    recording, table = Recording(path, "depot"), Odd("fails", 2, 3)
    with pytest.raises(RunInterrupted, match="same call"):
        run_loop(dp_gibo.algorithm, loss, table, descent(memory="none"), ledger=recording)
    run = run_loop(dp_gibo.algorithm, loss, table, descent(memory="none"), ledger=recording)
    assert table.scans == 4  # two, one that failed, and the third step alone
    again = run_loop(dp_gibo.algorithm, loss, table, descent(memory="none"), ledger=recording)
    assert table.scans == 4
    np.testing.assert_array_equal(run.release.path, again.release.path)
    assert [entry.run for entry in ledger.account(path).spends] == ["depot"]


@pytest.mark.parametrize("on_record", [True, False])
def test_a_second_scan_that_fails_ends_the_run_and_says_so(on_record, small, tmp_path):
    ledger.create(tmp_path / "book", mu=1.5)
    options = {"ledger": Recording(tmp_path / "book", "depot")} if on_record else {**seeded()}
    config = descent(memory="none", clip_norm="private")
    with pytest.raises(RunInterrupted, match="cannot resume") as raised:
        run_loop(dp_gibo.algorithm, loss, Odd("fails", 1, 2), config, **options)
    assert raised.value.snapshot is None
    if on_record:
        with pytest.raises(ledger.LedgerError, match="ended while step 0 was drawn"):
            run_loop(dp_gibo.algorithm, loss, Odd(), config, **options)


def test_a_loss_in_numpy_cannot_change_the_table(small):
    def greedy(point, batch):
        batch["x"] = batch["x"] - point[0]
        batch["y"] -= point[1]
        return np.abs(batch["x"])

    table = tables.arrays(columns())
    with pytest.raises(RunInterrupted) as raised:
        minimize(greedy, table, BOX, **BUDGET, **SEARCHES["in_order"], **seeded(traceable=False))
    assert "read-only" in str(raised.value.__cause__)
    np.testing.assert_array_equal(table._columns["y"], columns()["y"])


def test_a_list_is_a_column_of_numbers_for_any_elements():
    table = tables.arrays({"x": [1, [2.0, 3.0], "4", None, [5.0, 6.0]]})
    assert table.columns == {"x": ()}


def test_a_snapshot_resumes_with_the_same_noise(small):
    whole = run_loop(dp_gibo.algorithm, loss, Odd(), descent(memory="none"), **seeded())
    with pytest.raises(RunInterrupted) as raised:
        run_loop(dp_gibo.algorithm, loss, Odd("fails", 1), descent(memory="none"), **seeded())
    again = run_loop(dp_gibo.algorithm, loss, Odd(), descent(memory="none"), **seeded(resume=raised.value.snapshot))
    np.testing.assert_array_equal(whole.release.path, again.release.path)


def test_a_scan_is_made_only_where_something_is_released(small):
    table = Odd()
    minimize(loss, table, BOX, **BUDGET, **SEARCHES["in_order"], **seeded())
    assert table.scans == 1  # one choice, and none for the steps before
    table = Odd()
    minimize(loss, table, BOX, **BUDGET, **SEARCHES["local"], **seeded())
    assert table.scans == 4  # three steps, and the private clip norm


def test_a_loss_in_numpy_is_called_on_batches_and_finds_the_same(small):
    found = [
        minimize(function, tables.arrays(columns()), BOX, **BUDGET, **SEARCHES["in_order"], **seeded())
        for function in (loss, loss_in_numpy)
    ]
    np.testing.assert_array_equal(*(run.release.point for run in found))


def test_the_loss_of_one_person_needs_no_assumption_of_separability(small):
    def of_one(point, row):
        return jnp.minimum(jnp.abs(jnp.stack([row["x"], row["y"]]) - point).sum(), 4.0)

    both = [
        minimize(function, tables.arrays(columns()), BOX, **BUDGET, **SEARCHES["in_order"], **seeded())
        for function in (per_user(of_one), loss)
    ]
    np.testing.assert_array_equal(*(run.release.point for run in both))
    assert [assumptions.SEPARABLE_LOSSES in run.guarantee.assumptions for run in both] == [False, True]


def test_a_contribution_holds_no_key_and_travels_by_pickle(small):
    seen = []

    class Kept(_table.ArrayTable):
        def add(self, partial):
            seen.append(pickle.loads(pickle.dumps(partial)))  # without the bar of this process
            return super().add(partial)

    table = Kept(tables.arrays(columns())._columns)
    run_loop(dp_gibo.algorithm, loss, table, descent(memory="none"), **seeded())
    for contribution in seen:
        leaves = jax.tree.leaves((contribution.config, contribution.queries))
        assert not any(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves)
        assert not any(np.array_equal(leaf, jax.random.key_data(jax.random.key(3))) for leaf in leaves)
    (batch, *_) = _table.batches([columns()])
    copied = pickle.loads(pickle.dumps(seen[0]))
    np.testing.assert_array_equal(copied(batch), seen[0](batch))


def by_rows(point, data):
    return loss(point, data)


def descend(table, **options):
    return run_loop(dp_gibo.algorithm, loss, table, descent(**options))


def search(table, function=loss, **options):
    return minimize(function, table, BOX, **({"mu": 1.0} | options))


def search_at_random(table):
    return run_loop(
        random_search.algorithm, loss, table, random_search.config(users=USERS, steps=2, batch=1, bounds=BOX)
    )


REFUSED = {
    "memory='none'": descend,
    "noise='exact'": lambda table: descend(table, memory="none", noise="float"),
    "finite budget": lambda table: search(table, mu=np.inf),
    "cannot use diagnostics": lambda table: search(table, diagnostics=True),
    "cannot use checkpoint": lambda table: search(table, checkpoint="file"),
    "201 users of the table, got 200": lambda table: search(table, users=200),
    "fix the number of rows": lambda table: search(table, by_person(by_rows, np.arange(USERS))),
    "must be arrays, not a table": search_at_random,
    "user_axes must be 0": lambda table: search(table, per_user(loss, {"x": 0, "y": None})),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_a_table_cannot_do_is_refused_before_the_first_scan(says, small):
    table = Odd()
    with pytest.raises(ValueError, match=says):
        REFUSED[says](table)
    assert table.scans == 0


def test_the_first_message_is_the_losss_own(small):
    def wrong(point, batch):
        return batch["height"]

    with pytest.raises(KeyError, match="height"):
        minimize(wrong, tables.arrays(columns()), BOX, mu=1)
    with pytest.raises(ValueError, match="loss must return one loss for each row"):
        minimize(lambda point, batch: jnp.mean(loss(point, batch)), tables.arrays(columns()), BOX, mu=1)

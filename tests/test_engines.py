"""What all engines share, in one process, and Dask's own threads. Real workers: tests/systems/engines.py."""

import functools
import pickle
import subprocess
import sys
import traceback
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import dask.dataframe
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from jaxdpbo import Search, files, minimize, tables
from jaxdpbo.guarantee import assumptions
from jaxdpbo.tables import arrow, beam_table, dask_table, identity, ray_table, spark_table
from jaxdpbo.tables import engine as _engine
from jaxdpbo.tables import table as _table

ROWS = np.random.default_rng(0).normal(1.0, 0.5, 201)
FRAME = pd.DataFrame({"x": ROWS, "yes": ROWS > 1})


class Local(_engine.EngineTable):
    """An engine that sends tasks through pickles, and goes wrong in a planted way."""

    engine = "local"

    def __init__(self, plant=""):
        self.plant, self.parts = plant, np.array_split(ROWS, 5)
        super().__init__(None, ["x"])

    def _count(self):
        return len(ROWS)

    def _sums_of_people(self, split, task):
        raise NotImplementedError

    def _sums(self, task):
        copies = [pickle.loads(cloudpickle.dumps(task)) for _ in self.parts]
        sums = [copy(number, [{"x": part}]) for number, (copy, part) in enumerate(zip(copies, self.parts, strict=True))]
        if self.plant == "twice":
            sums.append(sums[2])
        elif self.plant == "missing":
            sums.pop(2)
        elif self.plant == "another order":
            sums.reverse()
        elif self.plant == "fails":
            raise ValueError("Ann Smith, 17")
        return sums


def ones(batch):
    return np.array([np.sum(batch.present), np.sum(batch.columns["x"][batch.present] > 1)])


@pytest.mark.parametrize("plant", ["", "another order"])
def test_a_sum_over_partitions_is_that_of_the_rows(plant):
    total, users = Local(plant).add(ones)
    np.testing.assert_array_equal(total, [201, np.sum(ROWS > 1)])
    assert users == 201


def test_a_partition_that_is_there_twice_stops_the_scan():
    with pytest.raises(tables.TableError, match="partition 2 was summed twice"):
        Local("twice").add(ones)


def test_a_missing_partition_shows_in_the_number_of_rows():
    assert Local("missing").add(ones).users == 161


@pytest.mark.parametrize("kind", [ValueError, tables.TableError, SystemExit])
def test_no_error_quotes_a_row(kind):
    def broken(batch):
        raise kind(f"Ann Smith, {batch.columns['x'][0]}")

    for function, table, says in (
        (ones, Local("fails"), r"local could not scan the table \(ValueError\)"),
        (
            broken,
            tables.dask(dask.dataframe.from_pandas(FRAME, npartitions=2)),
            f"partition 0 failed in a worker: {kind.__name__}",
        ),
    ):
        with pytest.raises(tables.TableError, match=says) as raised:
            table.add(function)
        assert "Smith" not in "".join(traceback.format_exception(raised.value))
        assert raised.value.__context__ is None
        assert b"Smith" not in pickle.dumps(raised.value)


def test_a_worker_of_another_version_is_refused(monkeypatch):
    task = _engine.Task(ones)
    monkeypatch.setattr(jax, "__version__", "0.1")
    summed = task(3, [{"x": ROWS}])
    assert summed[:3] == (3, 0, [])
    assert "and jax 0.1, the driver jaxdpbo" in summed.error


def test_a_task_computes_in_the_drivers_precision():
    def dtype(batch):
        seen.append(batch.columns["x"].dtype)
        return np.zeros(1, np.int64)

    seen = []
    for precise in (True, False):
        with jax.enable_x64(precise):
            task = _engine.Task(dtype)
        with jax.enable_x64(not precise):
            task(0, ({"x": ROWS.astype(jnp.result_type(float))} for _ in range(1)))
    assert seen == [np.float64, np.float32]


def test_a_process_loads_shared_objects_once():
    """Otherwise JAX would compile a loss anew in each task."""
    shared = _engine.PickledOnce((ones, {"a": 1}))
    first, second = (pickle.loads(pickle.dumps(shared)) for _ in range(2))
    assert first.objects is second.objects
    assert pickle.dumps(first) == pickle.dumps(shared)


def test_dask_adds_what_arrays_add_for_any_cut():
    expected = tables.arrays({"x": ROWS, "yes": FRAME["yes"].to_numpy()}).add(ones)
    for parts in (1, 3, 8):
        table = tables.dask(dask.dataframe.from_pandas(FRAME.sample(frac=1, random_state=parts), npartitions=parts))
        assert repr(table) == "dask(users=201, columns=['x', 'yes'])"
        np.testing.assert_array_equal(table.add(ones).total, expected.total)


def test_the_guarantee_of_a_run_names_what_an_engine_assumes():
    assumed = {assumptions.WIRE, assumptions.SAME_ROWS}
    options = {"epsilon": 1.0, "delta": 1e-5, "loss_range": (0, 4), "search": Search(method="in_order", steps=2)}
    for table, expected in (
        (tables.dask(dask.dataframe.from_pandas(FRAME, npartitions=2)), assumed),
        (tables.arrays({"x": ROWS}), set()),
    ):
        run = minimize(lambda point, batch: jnp.abs(batch["x"] - point[0]), table, [(0, 2)], **options)
        assert assumed & set(run.guarantee.assumptions) == expected


def test_no_value_of_a_frame_makes_a_scan_fail():
    """A partition may hold other types than Dask's metadata says."""
    parts = [FRAME[["x"]][:3], pd.DataFrame({"x": [1.5, "Ann Smith", None, 10**400]}, dtype=object)]
    frame = dask.dataframe.from_delayed(
        [dask.delayed(part) for part in parts], meta=FRAME[["x"]][:0], verify_meta=False
    )

    def count(batch):
        values = batch.columns["x"][batch.present]
        return np.array([np.sum(np.isnan(values)), np.sum(np.isinf(values)), np.sum(values == 1.5)])

    np.testing.assert_array_equal(tables.dask(frame, users=7).add(count).total, [2, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"frame": FRAME}, TypeError, "must be a dask.dataframe.DataFrame, got DataFrame"),
        ({"columns": "x"}, TypeError, "columns must be a list of names"),
        ({"columns": []}, ValueError, "must name one or more"),
        ({"columns": ["x", "x"]}, ValueError, "each once"),
        ({"columns": ["z"]}, ValueError, "there must be a column 'z', got x, yes"),
        ({"users": 0}, ValueError, "users must"),
        ({"users": 2.5}, TypeError, "users must"),
        ({"frame": dask.dataframe.from_pandas(FRAME[:0], npartitions=1)}, ValueError, "one row or more"),
    ],
)
def test_what_is_no_frame_of_numbers_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        tables.dask(**({"frame": dask.dataframe.from_pandas(FRAME, npartitions=2)} | arguments))


TEXT = FRAME.assign(person=np.arange(len(FRAME))).astype({"x": str})
PEOPLE = {"person": "person", "users": len(FRAME), "max_rows": 1}


@pytest.mark.parametrize("filesystem", ["fsspec", "arrow"])
def test_a_declared_column_without_numbers_is_refused(filesystem, tmp_path):
    TEXT.to_parquet(tmp_path / "rows.parquet")
    frame = dask.dataframe.read_parquet(str(tmp_path / "rows.parquet"), filesystem=filesystem)
    for of_files in (frame, frame.assign(z=1.0), frame[frame["yes"]], dask.dataframe.concat([frame, frame])):
        with pytest.raises(ValueError, match="column 'x' must hold numbers, got str"):
            tables.dask(of_files)
    with pytest.raises(ValueError, match="must name a column of integers"):
        tables.dask(frame, columns=["yes"], **PEOPLE | {"person": "x"})
    assert tables.dask(frame, columns=["yes"], **PEOPLE).users == len(FRAME)


DAYS = pd.Series(pd.date_range("2020-01-01", periods=len(FRAME)))
PAIRS = {  # a column as a reader makes it of plain cells, and of the same cells with another one first
    "integers": (TEXT["person"], TEXT["person"].astype(str).where(FRAME.index > 0, "1,234")),
    "missing": (TEXT["person"], TEXT["person"].where(FRAME.index > 0)),
    "nullable": (TEXT["person"].astype("Int64"), TEXT["person"].astype("Int64").where(FRAME.index > 0).astype(object)),
    "floats": (FRAME["x"], TEXT["x"].where(FRAME.index > 0, "12,5")),
    "booleans": (FRAME["yes"], FRAME["yes"].astype(str).where(FRAME.index > 0, "1,234")),
    "dates": (DAYS, DAYS.astype(str).where(FRAME.index > 0, "1,234")),
    "moments": (DAYS, DAYS.astype(object).where(FRAME.index > 0, "1,234")),
}


def said_and_read(column, search):
    """All that a search of this column says, its release, and the sum of each other row; also with it as people."""
    rows = pd.DataFrame({"x": column, "who": column, "row": np.arange(len(column))})
    frame = dask.dataframe.from_pandas(rows, npartitions=3)
    try:
        table, people = tables.dask(frame), tables.dask(frame, person="who", users=len(FRAME), max_rows=len(FRAME))
        run = search(table)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return repr(table), run.notes, run.release, *(each.add(other_rows).total for each in (table, people))


def other_rows(batch):
    """Something of each row but the first."""
    x, row = (batch.columns[name][batch.present].reshape(-1) for name in ("x", "row"))
    kept = row > 0
    numbers = np.where(np.isnan(x[kept]), -1.0, x[kept] * 1000)
    return np.array([np.sum(kept), np.sum(numbers.astype(np.int64) * (row[kept].astype(np.int64) % 7 + 1))])


def in_order(table):
    execution = {"key": jax.random.key(3), "insecure_key": True}
    options = {"epsilon": 1.0, "delta": 1e-5, "loss_range": (0, 4), "search": Search(method="in_order", steps=2)}
    return minimize(lambda point, batch: jnp.abs(batch["row"] - point[0]), table, [(0, 2)], **execution, **options)


@pytest.mark.daily("floats", "nullable", "dates", "moments", "booleans")
@pytest.mark.parametrize("kind", PAIRS)
def test_one_cell_decides_no_refusal_no_note_and_no_other_row(kind):
    """A reader makes the whole column text, or floats, for one cell."""
    plain, neighbour = (said_and_read(column, in_order) for column in PAIRS[kind])
    assert PAIRS[kind][0].dtype != PAIRS[kind][1].dtype
    assert plain[:2] == neighbour[:2]
    for one, other in zip(jax.tree.leaves(plain[2:]), jax.tree.leaves(neighbour[2:]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_planted_refusal_by_a_dtype_is_seen(monkeypatch):
    monkeypatch.setattr(dask_table, "_is_parquet", lambda expression: True)  # as of files, in all frames
    monkeypatch.setattr(dask_table, "_files", lambda expression: [])
    plain, neighbour = (said_and_read(column, in_order) for column in PAIRS["integers"])
    assert plain[:2] != neighbour[:2]
    assert "must hold numbers" in neighbour or "must name a column of integers" in neighbour


def test_an_expression_with_many_shared_parts_is_read_once():
    frame = dask.dataframe.from_pandas(FRAME[["x"]], npartitions=1)
    for number in range(40):
        frame = frame.assign(**{f"y{number}": frame["x"] * 2})
    assert len(tables.dask(frame).columns) == 41


def test_a_random_sample_is_refused():
    frame = dask.dataframe.from_pandas(FRAME, npartitions=2).sample(frac=0.5)
    with pytest.raises(ValueError, match="same rows whenever"):
        tables.dask(frame.assign(z=1.0))


@pytest.mark.parametrize("filesystem", ["fsspec", "arrow"])
def test_a_file_that_a_frame_reads_under_two_names_is_refused(filesystem, tmp_path, monkeypatch):
    """Parts of one file that a frame reads by themselves, such as by a filter, are no doubles."""
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "a.parquet")
    FRAME.to_parquet(path)
    (tmp_path / "link.parquet").symlink_to(path)
    (tmp_path / "hard.parquet").hardlink_to(path)
    FRAME.to_parquet(tmp_path / "b.parquet")
    read = functools.partial(dask.dataframe.read_parquet, filesystem=filesystem)
    folder = str(tmp_path)  # a list of files is no source of filesystem="arrow"
    others = ("a.parquet", f"{folder}/link.parquet", f"{folder}/hard.parquet")
    for source in [folder] if filesystem == "arrow" else [folder, *([path, other] for other in others)]:
        with pytest.raises(ValueError, match="frame must read each file once"):
            tables.dask(read(source)[["x"]].assign(z=1.0))
    low, high = (read(path, filters=[("x", sign, 1.0)]) for sign in ("<", ">="))
    assert tables.dask(dask.dataframe.concat([low, high])).users == len(FRAME)
    for name in ("hard", "link"):
        both = dask.dataframe.concat([low.assign(z=1.0), read(str(tmp_path / f"{name}.parquet")).assign(z=2.0)])
        with pytest.raises(ValueError, match=rf"must read each file once: .*{name}\.parquet.* are one file"):
            tables.dask(both)
    (tmp_path / "link.parquet").unlink()
    (tmp_path / "hard.parquet").unlink()
    assert tables.dask(read(folder)).users == 2 * len(FRAME)


@pytest.mark.parametrize("address", ["file://{}", "local://{}", "{}"])
def test_an_address_of_an_engine_names_a_local_file(address, tmp_path):
    (tmp_path / "a b").touch()
    (tmp_path / "c").hardlink_to(tmp_path / "a b")
    names = [address.format(str(tmp_path / name)) for name in ("a b", "c")]
    names[0] = names[0].replace(" ", "%20") if ":" in address else names[0]
    assert "are one file" in identity.find_repeated(names)


def test_arrow_columns_are_floats_and_missing_values_nan():
    part = pa.record_batch(
        {"a": pa.array([1, None, 3]), "b": pa.array([True, False, None]), "c": pa.array([2.5, 1, None])}
    )
    found = arrow.to_columns(part, ["a", "b", "c"])
    np.testing.assert_array_equal(found["a"], [1, np.nan, 3])
    np.testing.assert_array_equal(found["b"], [1, 0, np.nan])
    np.testing.assert_array_equal(found["c"], [2.5, 1, np.nan])
    assert {column.dtype for column in found.values()} == {jnp.result_type(float)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["1.5", "Ann Smith", None]), [1.5, np.nan, np.nan]),
        (pa.nulls(2), [np.nan] * 2),
        (pa.array([[1.0], None]), None),
        (pa.array(["true", "False", "x"]), [1, 0, np.nan]),
        (pa.array([b"1.5", b"\xff", None]).cast(pa.string(), safe=False), [1.5, np.nan, np.nan]),
        (pa.array(["2", "x"]).dictionary_encode(), [2, np.nan]),
        (pa.array([Decimal("1.5"), None]), [1.5, np.nan]),
        (pa.array([86400, None], pa.timestamp("ns")), [np.nan] * 2),
        (pa.array([1, None], pa.date32()), [np.nan] * 2),
        (pa.array([2000, None], pa.duration("ms")), [2, np.nan]),
    ],
)
def test_a_part_of_another_type_fails_no_scan(values, expected):
    """An engine may infer the type of a part from the values in it."""
    found = arrow.to_columns(pa.record_batch({"a": values}), ["a"])["a"]
    assert found.dtype == jnp.result_type(float)
    assert found.shape == (len(values),)
    if expected is not None:
        np.testing.assert_array_equal(found, expected)


def test_sums_of_beam_add_in_any_grouping():
    """Beam adds sums of sums."""
    sums = [(3, [1, 2], ""), (0, [], ""), (2, [10, 20], "")]
    together = beam_table._add_pairs(sums)
    assert together == (5, [11, 22], "")
    assert beam_table._add_pairs([beam_table._add_pairs(sums[:2]), beam_table._add_pairs(sums[2:])]) == together
    assert beam_table._add_pairs([*sums, (0, [], "ValueError")])[2] == "ValueError"
    assert beam_table._add_pairs([]) == (0, [], "")


def test_a_private_folder_goes_with_its_process_and_no_other(tmp_path):
    """Killed while it has the folder, and alive: the next folder removes the first alone."""
    script = (
        "import sys, time\nfrom jaxdpbo import files\nwith files.new_private_folder(sys.argv[1], 'sum-') as made:\n"
    )
    script += "    (made / 'a').touch()\n    print(made, flush=True)\n    time.sleep(600)"
    made = []
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        made.append((process, Path(process.stdout.readline().strip())))
    (killed, stale), (alive, held) = made
    killed.kill()
    killed.wait()
    (tmp_path / "sum-file").touch()
    try:
        with files.new_private_folder(tmp_path, "sum-") as own:
            assert own.stat().st_mode & 0o777 == 0o700
            assert {path.name for path in tmp_path.iterdir()} == {own.name, held.name, "sum-file"}
            assert not stale.exists()
        assert not own.exists()
    finally:
        alive.kill()
        alive.wait()


class Plan:
    """An operator of a Spark plan."""

    def __init__(self, name, *children, deterministic=True):
        self.name, self.inner, self.steady = name, children, deterministic

    def nodeName(self):
        return self.name

    def deterministic(self):
        return self.steady

    def children(self):
        return self

    def subqueriesAll(self):
        return Plan("none")  # the real engine is asked in tests/systems/engines.py

    def size(self):
        return len(self.inner)

    def apply(self, number):
        return self.inner[number]

    def collectLeaves(self):
        return Plan("leaves", self)

    def toString(self):
        return f"{self.name}[x#0] csv"


@pytest.mark.parametrize("unstable", [*sorted(spark_table.UNSTABLE), ""])
def test_an_operator_deep_in_a_plan_is_found(unstable):
    leaf = Plan("Relation")
    spark_table._expect_same_rows(Plan("Project", Plan("Union", leaf, leaf)))
    inner = Plan(unstable, leaf) if unstable else leaf
    with pytest.raises(ValueError, match=unstable or "a random function"):
        spark_table._expect_same_rows(Plan("Project", Plan("Union", leaf, inner), deterministic=bool(unstable)))


@pytest.mark.parametrize("engine", [ray_table, spark_table])
def test_a_file_under_two_names_of_ray_or_spark_is_refused(engine, tmp_path):
    """Both give the addresses of the files that they read."""
    (tmp_path / "a b.parquet").touch()
    (tmp_path / "link.parquet").symlink_to(tmp_path / "a b.parquet")
    names = [f"file://{tmp_path}/a%20b.parquet", f"file://{tmp_path}/link.parquet"]
    plan = SimpleNamespace(name="Read", input_dependencies=[])
    frame = SimpleNamespace(
        columns=["x"], dtypes=[("x", "double")], inputFiles=lambda: names, input_files=lambda: names,
        schema=lambda: SimpleNamespace(names=["x"], types=[pa.float64()]), _logical_plan=SimpleNamespace(dag=plan),
        _jdf=SimpleNamespace(queryExecution=lambda: SimpleNamespace(analyzed=lambda: Plan("Relation"))),
    )  # fmt: skip
    with pytest.raises(ValueError, match="must read each file once"):
        engine._open(frame, None, None, None)


def test_two_reads_of_ray_have_one_name_of_a_file(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a").touch()
    (tmp_path / "c").hardlink_to(tmp_path / "rows" / "a")

    def open_union(*names):
        reads = [
            SimpleNamespace(name="Read", input_dependencies=[], source_paths=[str(tmp_path / name)]) for name in names
        ]
        frame = SimpleNamespace(
            schema=lambda: SimpleNamespace(names=["x"], types=[pa.float64()]), input_files=list,
            select_columns=lambda _: SimpleNamespace(materialize=lambda: SimpleNamespace(to_arrow_refs=list)),
            _logical_plan=SimpleNamespace(dag=SimpleNamespace(name="Union", input_dependencies=reads)),
        )  # fmt: skip
        return ray_table._open(frame, None, 1, None).users

    assert open_union("rows/a", "rows") == 1
    with pytest.raises(ValueError, match="are one file"):
        open_union("rows", "c")


def test_a_batch_of_an_engine_has_the_shipped_size():
    assert Local().add(lambda batch: np.array([len(batch.present)])).total == 5 * _table.BATCH

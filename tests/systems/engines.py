"""Real engines, run by ``test_engines.py`` in an environment that holds them: the release of an array, bit for bit.

Losses are nested functions, which cloudpickle sends by value: workers cannot import this file.
"""

import doctest
import importlib.util
import logging
import os
import socket
import subprocess
import sys
import traceback
from pathlib import Path

import dask.dataframe
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jaxdpbo import Recording, RunInterrupted, Search, ledger, minimize, private_linear, run_loop, tables
from jaxdpbo.tables import beam_table, dask_table, ray_table, spark_table
from jaxdpbo.tables import engine as _engine

os.environ |= {
    "PYSPARK_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
ROOT = Path(__file__).parent.parent.parent
USERS = 40_000  # three batches, the last of them padded
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {"x": RNG.normal(1.0, 0.5, USERS), "y": RNG.normal(-0.5, 0.5, USERS), "vip": RNG.random(USERS) < 0.1}
)
FRAME.loc[7, "x"] = np.nan
SHUFFLED = FRAME.sample(frac=1, random_state=1)
NAMES = ["x", "y", "vip"]
BOX = {"low": [0, -2], "high": [2, 1]}
ENGINES = ["dask", "ray", "spark", "beam"]


def make_loss(before=lambda: None, traceable=True):
    numbers = jnp if traceable else np

    def loss(point, batch):
        before()
        return numbers.minimum(
            numbers.abs(batch["x"] - point[0]) * numbers.exp(point[0]) + numbers.abs(batch["y"] - point[1]), 4.0
        )

    return loss


def one_code(inner):
    """A loss of one code for all losses: a ledger reads no value in a list, so it takes them for one loss."""
    held = [inner]

    def loss(point, batch):
        return held[0](point, batch)

    return loss


def search(table, method="in_order", loss=None, **options):
    seeded = {} if "ledger" in options else {"key": jax.random.key(3), "insecure_key": True}
    execution = {"traceable": "auto" if loss is None else False, **seeded}
    return minimize(
        loss or make_loss(), table, BOX, epsilon=1.0, delta=1e-6, loss_range=(0, 4), **execution,
        search=Search(method=method, steps=3), **options,
    )  # fmt: skip


def expect_the_same(first, second):
    for one, other in zip(*(jax.tree.leaves(run.release) for run in (first, second)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def of_arrays():
    """Runs of an array table, by name."""
    table = tables.arrays({name: FRAME[name].to_numpy() for name in NAMES})
    return {method: search(table, method) for method in ("in_order", "local")}


@pytest.fixture(scope="module")
def engines():
    """Start each engine once, with two worker processes; Beam's direct runner works in this process."""
    import ray
    from distributed import Client, LocalCluster
    from pyspark.sql import SparkSession

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        yield {"spark": spark}
    spark.stop()
    ray.shutdown()


def write(folder, parts):
    """Files of unequal lengths, of shuffled rows."""
    folder.mkdir(exist_ok=True)
    cuts = [0, *np.sort(np.random.default_rng(parts).choice(np.arange(1, USERS), parts - 1, replace=False)), USERS]
    for number in range(parts):
        rows = pa.Table.from_pandas(SHUFFLED.iloc[cuts[number] : cuts[number + 1]], preserve_index=False)
        pq.write_table(rows, folder / f"{number}.parquet")
    return str(folder)


def open_table(engine, engines, folder, parts, **options):
    if engine == "dask":
        return tables.dask(
            dask.dataframe.from_pandas(SHUFFLED, npartitions=parts, sort=False), columns=NAMES, **options
        )
    if engine == "ray":
        import ray

        return tables.ray(ray.data.read_parquet(write(folder, parts), override_num_blocks=parts), **options)
    if engine == "spark":
        frame = engines["spark"].read.parquet(write(folder, parts)).repartition(parts, "y")
        return tables.spark(frame, columns=NAMES, **options)
    import apache_beam

    pattern = f"{write(folder, parts)}/*.parquet"
    return tables.beam(lambda pipeline: pipeline | apache_beam.io.ReadFromParquetBatched(pattern), NAMES, **options)


@pytest.mark.parametrize("parts", [1, 8])  # a descent has 3
@pytest.mark.parametrize("engine", ENGINES)
def test_a_release_is_that_of_arrays_bit_for_bit(engine, parts, engines, of_arrays, tmp_path):
    table = open_table(engine, engines, tmp_path / "rows", parts)
    assert (table.users, table.columns) == (USERS, {"x": (), "y": (), "vip": ()})
    expect_the_same(search(table), of_arrays["in_order"])


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_a_release_of_files_is_that_of_arrays_bit_for_bit(parts, of_arrays, tmp_path):
    expect_the_same(search(tables.parquet(write(tmp_path / "rows", parts))), of_arrays["in_order"])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_descent_is_that_of_arrays_bit_for_bit(engine, engines, of_arrays, tmp_path):
    expect_the_same(search(open_table(engine, engines, tmp_path / "rows", 3), "local"), of_arrays["local"])


def learn(table):
    """A linear model, released by the same key."""

    def features(point, batch):
        del point
        numbers = [jnp.clip(batch[name] / 4, -1, 1) / 2 for name in ("x", "y")]
        return jnp.stack([*numbers, jnp.full_like(numbers[0], 0.5), (batch["vip"] > 0.5).astype(numbers[0].dtype)])

    config = private_linear.config(users=USERS, features=3, mu=1.0, link="logistic", steps=4)
    return run_loop(private_linear.algorithm, features, table, config, key=jax.random.key(3), insecure_key=True)


def test_a_private_model_is_that_of_arrays_bit_for_bit(engines, tmp_path):
    alone = learn(tables.arrays({name: FRAME[name].to_numpy() for name in NAMES}))
    assert 0 < np.max(np.abs(alone.release.weights)) < np.inf
    expect_the_same(learn(open_table("spark", engines, tmp_path / "rows", 3)), alone)
    expect_the_same(learn(tables.parquet(write(tmp_path / "files", 3))), alone)


PEOPLE = 600_000  # three ranges of a worker; most people have no row
PLACED = SHUFFLED.assign(person=pd.array(RNG.integers(0, 20_000, USERS) * 30, "Int64"))
PLACED.iloc[:9_000, -1] = 400_020  # many rows of one person, in every partition
PLACED.iloc[::11, -1] = pd.NA
PLACED["id"] = PLACED["person"] * (7919 * 2**19)  # far beyond the number of people
HASHED = tables.hashed("id", key=bytes(range(16)))


def people_in_arrays(person):
    """The first two rows of each person, or of each slot of ids, by a plain sort."""
    rows = PLACED.dropna(subset="person").copy()
    places = rows["person"].to_numpy(int) if person == "person" else HASHED.slots(rows["id"].to_numpy(int), PEOPLE)
    rows = rows.assign(place=places).sort_values(["place", "x", "y"])
    slots = rows.groupby("place").cumcount()
    rows, slots = rows[slots < 2], slots[slots < 2]
    columns = {name: np.full((PEOPLE, 2), np.nan) for name in ("x", "y")}
    for name, column in columns.items():
        column[rows["place"], slots] = rows[name]
    return tables.arrays(columns)


@pytest.mark.parametrize("person", ["person", HASHED], ids=["numbers", "ids"])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_people_on_all_partitions_are_those_of_arrays_bit_for_bit(engine, person, engines, tmp_path):
    """With nulls, one person with most of the rows, and on Spark a join under adaptive execution."""

    def loss(point, batch):
        return jnp.minimum(jnp.nansum(jnp.abs(batch["x"] - point[0]) + jnp.abs(batch["y"] - point[1]), axis=1), 4.0)

    def read(folder):
        folder.mkdir()
        for number, part in enumerate(np.array_split(np.arange(USERS), 5)):
            rows = pa.Table.from_pandas(PLACED.iloc[part], preserve_index=False)
            pq.write_table(rows, folder / f"{number}.parquet")
        return str(folder)

    people = {"person": person, "users": PEOPLE, "max_rows": 2}
    if engine == "dask":
        frame = dask.dataframe.from_pandas(PLACED, npartitions=5, sort=False)
        table = tables.dask(frame, columns=["x", "y"], **people)
    elif engine == "ray":
        import ray

        dataset = ray.data.from_blocks([PLACED.iloc[part] for part in np.array_split(np.arange(USERS), 5)])
        table = tables.ray(dataset, columns=["x", "y"], **people)
    elif engine == "spark":
        rows = engines["spark"].read.parquet(read(tmp_path / "rows"))
        names = engines["spark"].createDataFrame(pd.DataFrame({"vip": [True, False], "name": [1, 2]}))
        table = tables.spark(rows.join(names, "vip"), columns=["x", "y"], **people)
    else:
        import apache_beam

        pattern = f"{read(tmp_path / 'rows')}/*.parquet"
        table = tables.beam(
            lambda pipeline: pipeline | apache_beam.io.ReadFromParquetBatched(pattern), ["x", "y"], **people
        )
    assert (table.users, table.columns) == (PEOPLE, {"x": (2,), "y": (2,)})
    expect_the_same(search(table, loss=loss), search(people_in_arrays(person), loss=loss))


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])  # Beam's direct runner has no process to kill
def test_a_killed_worker_changes_nothing(engine, engines, tmp_path):
    table, flag = open_table(engine, engines, tmp_path / "rows", 3), tmp_path / "killed"

    def kill_once():
        if not flag.exists():
            flag.touch()
            os._exit(1)

    killed = search(table, loss=make_loss(kill_once, traceable=False))
    assert flag.exists()
    expect_the_same(
        killed, search(tables.arrays({name: FRAME[name] for name in NAMES}), loss=make_loss(traceable=False))
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_partition_that_always_fails_is_charged_and_releases_nothing(engine, engines, tmp_path, capfd):
    table, book = open_table(engine, engines, tmp_path / "rows", 3), tmp_path / "book"
    ledger.create(book, epsilon=2, delta=1e-6)

    def loss(point, batch):
        raise ValueError(f"Ann Smith, {float(np.nanmax(batch['x']))}")

    with pytest.raises(RunInterrupted) as raised:
        search(table, loss=one_code(loss), ledger=Recording(book, "broken"))
    assert isinstance(raised.value.__cause__, tables.TableError)
    assert "failed in a worker: ValueError" in str(raised.value.__cause__)
    assert "Smith" not in "".join(capfd.readouterr())
    works = one_code(make_loss(traceable=False))
    search(table, loss=works, ledger=Recording(book, "broken"))  # resumes, for the same charge
    assert [entry.run for entry in ledger.account(book).spends] == ["broken"]


def test_a_file_that_ray_or_spark_reads_under_two_names_is_refused(engines, tmp_path):
    import ray

    folder = Path(write(tmp_path / "rows", 1))
    (folder / "1.parquet").hardlink_to(folder / "0.parquet")
    names = [str(folder / "0.parquet"), str(folder / "1.parquet")]
    read_spark = engines["spark"].read.parquet
    for open_rows in (
        lambda: tables.ray(ray.data.read_parquet(names)),
        lambda: tables.ray(ray.data.read_parquet(str(folder)).filter(lambda row: row["x"] > 0)),
        lambda: tables.spark(read_spark(*names)),
        lambda: tables.spark(read_spark(str(folder)).filter("x > 0")),
    ):
        with pytest.raises(ValueError, match="must read each file once"):
            open_rows()


@pytest.mark.parametrize("mode", ["in_memory", "multi_processing"])
@pytest.mark.parametrize("person", [None, "row"])
def test_beam_quotes_no_row_of_a_reader_that_fails(mode, person, tmp_path, capfd, caplog):
    """Beam prints, logs and sends the texts of errors in workers; only those of a scan are withheld."""
    import apache_beam
    from apache_beam.options.pipeline_options import PipelineOptions

    def parse(row):
        logging.getLogger("owner").error("Ann Smith logs %s", row)
        print("Ann Smith prints", row)
        raise LookupError(f"Ann Smith, {row}")

    def read(pipeline):
        return pipeline | apache_beam.Create([17.25]) | apache_beam.Reshuffle() | apache_beam.Map(parse)

    options = PipelineOptions(["--runner=DirectRunner", f"--direct_running_mode={mode}"])
    people = {} if person is None else {"person": person, "max_rows": 1}
    table = tables.beam(read, ["x"], users=1, folder=str(tmp_path / "sums"), options=options, **people)
    with pytest.raises(tables.TableError) as raised:
        table.add(lambda batch: np.zeros(1, np.int64))
    if mode == "in_memory":
        assert "(LookupError)" in str(raised.value)
    quoted = "".join([*capfd.readouterr(), caplog.text, *traceback.format_exception(raised.value)])
    assert "Smith" not in quoted
    assert "17.25" not in quoted
    assert raised.value.__context__ is None
    assert list((tmp_path / "sums").iterdir()) == []
    with pytest.raises(Exception, match="Smith"), apache_beam.Pipeline(options=options) as pipeline:
        read(pipeline)


def test_a_killed_scan_of_beam_leaves_a_sum_that_others_cannot_read_and_the_next_scan_deletes(tmp_path):
    script = """
import os, sys
import apache_beam, numpy as np, pyarrow as pa
from jaxdpbo import tables
from jaxdpbo.tables import beam_table

def read(pipeline):
    return pipeline | apache_beam.Create([pa.table({"x": [17.25, 18.0]})])

os.umask(0)
table = tables.beam(read, ["x"], users=2, folder=sys.argv[1])
if sys.argv[2] == "kill":
    beam_table._read_sum = lambda path: os.kill(os.getpid(), 9)
table.add(lambda batch: np.array([np.sum(batch.present)]))
"""
    (tmp_path / "scan.py").write_text(script)

    def scan(how):
        command = [sys.executable, str(tmp_path / "scan.py"), str(tmp_path / "sums"), how]
        return subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False).returncode

    assert scan("kill") == -9
    (folder,) = (tmp_path / "sums").iterdir()
    (file,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    assert scan("again") == 0
    assert list((tmp_path / "sums").iterdir()) == []


WITHOUT_THE_PACKAGE = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from jaxdpbo import tables
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.python.worker.reuse", "false").config("spark.python.use.daemon", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for hidden in ("jaxdpbo", "jax"):
    Path("hidden").write_text(hidden)
    try:
        tables.spark(spark.createDataFrame([(31.0,)], ["age"]), users=1)
    except ValueError as error:
        print(error)
"""


def test_workers_of_spark_without_the_package_are_told_at_opening(tmp_path):
    """By a job on an invented row; before, the first scan of a charged run failed."""
    hide = f"import sys\nsys.modules[open({str(tmp_path / 'hidden')!r}).read()] = None\n"
    (tmp_path / "sitecustomize.py").write_text(hide)
    worker = tmp_path / "python"
    worker.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    worker.chmod(0o755)
    environment = os.environ | {"PYSPARK_PYTHON": str(worker), "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_PACKAGE], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    for hidden in ("jaxdpbo", "jax"):
        said = f"a worker says: no {hidden}. Install the package on each worker, and set PYSPARK_PYTHON"
        assert said in done.stdout, done


def test_a_column_that_a_table_of_beam_lacks_is_named(engines, tmp_path):
    folder = write(tmp_path / "rows", 3)

    def read(pipeline):
        import apache_beam

        return pipeline | apache_beam.io.ReadFromParquetBatched(f"{folder}/*.parquet")

    says = "a table of the collection has no column 'age'"
    with pytest.raises(tables.TableError, match=says):
        tables.beam(read, ["x", "age"])
    for person in (None, "row"):
        options = {} if person is None else {"person": "age", "max_rows": 1}
        table = tables.beam(read, ["x"] if person else ["x", "age"], users=USERS, **options)
        with pytest.raises(tables.TableError, match=says):
            table.add(lambda batch: np.array([np.sum(batch.present)]))


GONE = """
import logging, subprocess, sys, time
import dask.dataframe, numpy as np, pandas as pd
from distributed import Client
from jaxdpbo import tables
from jaxdpbo.tables import dask_table

logging.getLogger("distributed").setLevel(logging.CRITICAL)
dask_table.LOOK, dask_table.PATIENCE = 1.0, 5.0
port, what = int(sys.argv[1]), sys.argv[2]
cli = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--no-dashboard"]
scheduler = subprocess.Popen([*cli, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
address = f"tcp://127.0.0.1:{port}"
cli = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny", "--no-dashboard"]
worker = subprocess.Popen(cli, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    client = Client(address, timeout=60)
    client.wait_for_workers(1, timeout=60)
    table = tables.dask(dask.dataframe.from_pandas(pd.DataFrame({"x": np.arange(9.0)}), npartitions=2))
    assert table.add(lambda batch: np.array([np.sum(batch.present)])).total.tolist() == [9]
    for process in (scheduler, worker) if what == "cluster" else (worker,):
        process.kill()
        process.wait()
    began = time.monotonic()
    try:
        table.add(lambda batch: np.array([np.sum(batch.present)]))
    except tables.TableError as error:
        print(f"{time.monotonic() - began:.0f} s: {error}")
finally:
    scheduler.kill(), worker.kill()
"""


@pytest.mark.parametrize("what", ["cluster", "workers"])
def test_a_cluster_of_dask_that_is_gone_is_told_in_time(what, tmp_path):
    """Before, a scan hung for minutes, or for ever without a worker."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = tmp_path / "gone.py"
    script.write_text(GONE)
    done = subprocess.run(
        [sys.executable, str(script), str(port), what], capture_output=True, text=True, timeout=180, cwd=tmp_path
    )
    seconds, _, said = done.stdout.partition(" s: ")
    assert said.startswith("dask could not scan the table (its cluster is closed, or had no worker for"), done
    assert int(seconds) < 60


@pytest.mark.parametrize("engine", ENGINES)
def test_a_number_of_rows_other_than_that_of_the_table_releases_nothing(engine, engines, tmp_path):
    with pytest.raises(RunInterrupted) as raised:
        search(open_table(engine, engines, tmp_path / "rows", 3, users=USERS - 1))
    assert f"read {USERS} rows of a table of {USERS - 1}" in str(raised.value.__cause__)


@pytest.mark.parametrize("engine", ["dask", "spark"])
def test_empty_and_uneven_partitions_add_what_they_hold(engine, engines, of_arrays):
    if engine == "dask":
        parts = [SHUFFLED[:0], SHUFFLED[:1], SHUFFLED[1:], SHUFFLED[:0]]
        table = tables.dask(dask.dataframe.from_delayed([dask.delayed(part) for part in parts], meta=FRAME[:0]))
    else:
        frame = engines["spark"].createDataFrame(FRAME)
        table = tables.spark(frame.repartition(7, "vip"))
    expect_the_same(search(table), of_arrays["in_order"])


def test_a_scan_of_float64_is_that_of_arrays(engines, tmp_path):
    """The driver's precision, whatever the workers' default is."""
    with jax.enable_x64(True):
        table = tables.arrays({name: FRAME[name].to_numpy() for name in NAMES})
        expected = search(table)
        for engine in ("dask", "beam"):  # workers in other processes, and in this one
            expect_the_same(search(open_table(engine, engines, tmp_path / engine, 3)), expected)


def test_plans_that_may_read_other_rows_again_are_refused(engines):
    functions = pytest.importorskip("pyspark.sql.functions")
    frame = engines["spark"].createDataFrame(FRAME)
    from pyspark.sql import Window

    random = functions.rand()
    ranks = functions.row_number().over(Window.orderBy("vip"))
    for unstable in (
        frame.sample(0.5), frame.sample(0.5).cache(), frame.limit(10), frame.repartition(4),
        frame.dropDuplicates(["x"]), frame.withColumn("z", ranks), frame.filter(random > 0.5),
        frame.withColumn("z", random),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="same rows whenever an executor"):
            tables.spark(unstable)
    for stable in (frame.filter("x > 0"), frame.repartition(4, "x"), frame.orderBy("x"), frame.union(frame)):
        assert tables.spark(stable, users=5).users == 5
    frame.createOrReplaceTempView("rows")
    inner = engines["spark"].sql("SELECT x, y FROM rows WHERE x < (SELECT max(x) FROM (SELECT x FROM rows LIMIT 5))")
    with pytest.raises(ValueError, match="GlobalLimit"):
        tables.spark(inner)
    frame = dask.dataframe.from_pandas(FRAME, npartitions=2)
    for unstable in (frame.sample(frac=0.5), frame.random_split([0.5, 0.5])[0]):
        with pytest.raises(ValueError, match="same rows whenever a worker"):
            tables.dask(unstable)
    import ray

    rows = ray.data.from_pandas(FRAME)
    for unstable in (rows.random_shuffle(), rows.random_sample(0.5)):
        with pytest.raises(ValueError, match="same rows whenever a worker"):
            tables.ray(unstable)


def opened(engine, engines, path, **options):
    """A table of a file of Parquet, which declares its types, or of CSV, where an engine infers them from the rows."""
    kind = Path(path).suffix[1:]
    if engine == "dask":
        if kind == "csv":  # Dask's own reader fails in a worker at such a cell
            return tables.dask(
                dask.dataframe.from_pandas(pd.read_csv(path, parse_dates=["day"]), npartitions=2), **options
            )
        return tables.dask(dask.dataframe.read_parquet(path), **options)
    if engine == "ray":
        import ray

        return tables.ray(getattr(ray.data, f"read_{kind}")(path), **options)
    if engine == "spark":
        read = engines["spark"].read.option("header", True).option("inferSchema", True)
        return tables.spark(getattr(read, kind)(path), **options)
    import apache_beam
    import pyarrow.csv

    read = pq.read_table if kind == "parquet" else pyarrow.csv.read_csv
    return tables.beam(lambda begin: begin | apache_beam.Create([path]) | apache_beam.Map(read), **options)


@pytest.mark.parametrize("engine", ["dask", "ray", "spark"])
def test_declared_columns_without_numbers_are_refused_and_no_row_quoted(engine, engines, tmp_path):
    path = str(tmp_path / "rows.parquet")
    rows = FRAME.head(20).assign(name="Ann Smith", moment=pd.Timestamp("2020-01-01"))
    rows.to_parquet(path, index=False)
    for column in ("name", "moment"):
        with pytest.raises(ValueError, match=f"column '{column}' .*must hold numbers") as raised:
            opened(engine, engines, path, columns=["x", column])
        assert "Smith" not in str(raised.value)
    with pytest.raises(ValueError, match="must name a column of integers"):
        opened(engine, engines, path, columns=["y"], person="x", users=20, max_rows=2)
    assert opened(engine, engines, path, columns=["x"]).users == 20


@pytest.mark.parametrize("engine", ENGINES)
def test_types_that_an_engine_inferred_decide_nothing_but_their_cell(engine, engines, tmp_path):
    """One cell, "1,234", makes a column of integers, Booleans or dates text."""
    names = ["count", "flag", "day"]
    cells = [f"{row},{(row % 3 == 0)!s},2020-01-{row % 28 + 1:02}\n" for row in range(50)]
    said, sums = [], []

    def others(batch):
        """Something of each row but the last, in any order."""
        shown = {name: batch.columns[name][batch.present] for name in names}
        known = shown["count"][~np.isnan(shown["count"]) & (shown["count"] < 49)]
        flags = shown["flag"][~np.isnan(shown["flag"])]
        return np.array(
            [np.sum(known), np.sum(known**2), len(flags), np.sum(flags), np.sum(~np.isnan(shown["day"]))], np.int64
        )

    for number, last in enumerate(("49,,2020-01-01", '"1,234",,x', '49,"1,234",2020-13-13')):
        path = str(tmp_path / f"{number}.csv")
        Path(path).write_text("".join(["count,flag,day\n", *cells, f"{last}\n"]))
        table = opened(engine, engines, path, columns=names)
        said.append((repr(table), table.notes))
        sums.append(table.add(others).total.tolist())
    assert said[0] == said[1] == said[2]
    numbers = np.arange(49)
    assert sums == [[np.sum(numbers), np.sum(numbers**2), 50, 17, 0]] * 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_that_an_engine_computes_has_its_full_width(engine, engines, tmp_path):
    """Times since 1970 are 128 seconds apart in 32 bits; decimals are numbers where an engine has them."""
    path, rows, names = str(tmp_path / "stays.parquet"), 1000, ["stay", "time", "paid"]
    ends = 1_700_000_000 + RNG.integers(0, 10**6, rows)
    stays = RNG.integers(1, 60, rows)
    table = pa.table({"start": ends - stays, "end": ends, "paid": pa.array(stays.tolist(), pa.decimal128(9, 2))})
    table = table.append_column("from", table["start"].cast(pa.timestamp("s")).cast(pa.timestamp("us")))
    table = table.append_column("to", table["end"].cast(pa.timestamp("s")).cast(pa.timestamp("us")))
    pq.write_table(table, path)
    if engine == "dask":
        frame = dask.dataframe.read_parquet(path)
        computed = frame.assign(
            stay=frame["end"] - frame["start"],
            time=(frame["to"] - frame["from"]).dt.total_seconds(),
            paid=frame["paid"].astype(float),
        )
        table = tables.dask(computed, columns=names)
    elif engine == "ray":
        import ray

        data = ray.data.read_parquet(path).add_column("stay", lambda rows: rows["end"] - rows["start"])
        data = data.add_column("time", lambda rows: rows["to"] - rows["from"])
        table = tables.ray(data, columns=names)
    elif engine == "spark":
        from pyspark.sql import functions

        frame = engines["spark"].read.parquet(path)
        seconds = functions.unix_timestamp(frame["to"]) - functions.unix_timestamp(frame["from"])
        frame = frame.withColumn("stay", frame["end"] - frame["start"]).withColumn("time", seconds)
        table = tables.spark(frame.withColumn("paid", frame["paid"].cast("double")), columns=names)
    else:
        import apache_beam
        import pyarrow.compute as pc

        def compute(rows):
            rows = rows.append_column("stay", pc.subtract(rows["end"], rows["start"]))
            return rows.append_column("time", pc.subtract(rows["to"], rows["from"]))

        table = tables.beam(
            lambda begin: begin | apache_beam.io.ReadFromParquetBatched(path) | apache_beam.Map(compute),
            names,
        )

    def squares(batch):
        return np.array(
            [np.sum(batch.columns[name][batch.present] ** 2) for name in ("stay", "time", "paid")], np.int64
        )

    assert table.add(squares).total.tolist() == [int(np.sum(stays**2))] * 3


def test_noise_in_a_task_is_seen(engines, tmp_path, monkeypatch):
    """A negative control: the comparisons above would be red."""

    def noisy(self, partition, parts):
        total = plain(self, partition, parts)
        return total._replace(total=[number + int(np.random.default_rng().integers(1, 9)) for number in total.total])

    plain = _engine.Task.__call__
    table = open_table("beam", engines, tmp_path / "rows", 3)  # in this process, where the plant is

    def count(batch):
        return np.array([np.sum(batch.present)])

    assert table.add(count).total == USERS
    monkeypatch.setattr(_engine.Task, "__call__", noisy)
    assert table.add(count).total != USERS


@pytest.mark.parametrize("module", [dask_table, ray_table, spark_table, beam_table], ids=lambda module: module.__name__)
def test_the_example_runs(module, engines, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)


def test_the_blocks_of_the_page_run(engines):
    """With those that ``docs/run_blocks.py`` leaves to this environment."""
    specification = importlib.util.spec_from_file_location("run_blocks", ROOT / "docs" / "run_blocks.py")
    run_blocks = importlib.util.module_from_spec(specification)
    sys.modules["run_blocks"] = run_blocks
    specification.loader.exec_module(run_blocks)
    page = ROOT / "docs" / "tutorials" / "engines.md"
    blocks = run_blocks.blocks(page)
    for block in blocks:
        run_blocks.run(page, block)
    assert len(blocks) == len(ENGINES)

"""Parquet files of an object store, by pyarrow's own file system, from a server of S3 on this machine."""

import contextlib
import pickle
import socket
import subprocess
import time

import environments
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from jaxdpbo import Search, minimize, tables

USERS = 3000
COLUMN = np.random.default_rng(0).normal(1.0, 0.5, USERS)
SECRET = "sesame"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The port of a server, which this process and nobody outside of the machine reaches."""
    try:
        python = environments.create(tmp_path_factory.mktemp("s3") / "venv", "moto[server]")
    except AssertionError:
        pytest.skip("needs moto[server], which could not be installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        env=environments.user_variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                break
            time.sleep(0.1)
        yield port
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def bucket(store, monkeypatch):
    """A bucket with two files, and the variables by which pyarrow finds the store."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{store}", "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    made = fs.S3FileSystem(endpoint_override=f"127.0.0.1:{store}", scheme="http", allow_bucket_creation=True)
    made.create_dir("bucket/visits")
    for number, part in enumerate(np.array_split(COLUMN, 2)):
        pq.write_table(pa.table({"x": part}), f"bucket/visits/{number}.parquet", filesystem=made)
    return made


def loss(point, batch):
    return jnp.minimum(jnp.abs(batch["x"] - point[0]), 4.0)


def search(table):
    import jax

    return minimize(
        loss, table, [(0, 4)], epsilon=1.0, delta=1e-6, loss_range=(0, 4), key=jax.random.key(0), insecure_key=True,
        search=Search(method="in_order", steps=2),
    )  # fmt: skip


FILES = ["s3://bucket/visits/0.parquet", "s3://bucket/visits/1.parquet"]


@pytest.mark.parametrize("source", ["s3://bucket/visits", FILES, FILES[::-1]], ids=["folder", "files", "reversed"])
def test_a_release_of_files_in_a_store_is_that_of_arrays(source, bucket):
    table = tables.parquet(source)
    expected = search(tables.arrays({"x": COLUMN})).release
    np.testing.assert_array_equal(search(table).release.point, expected.point)
    assert pickle.loads(pickle.dumps(table)).users == USERS
    assert SECRET not in repr(table) + str(pickle.dumps(table))


def test_files_of_a_store_are_named_once_and_may_not_change(bucket):
    with pytest.raises(ValueError, match="is named twice: name it once"):
        tables.parquet([FILES[0], FILES[0]])
    table = tables.parquet("s3://bucket/visits")
    pq.write_table(pa.table({"x": COLUMN}), "bucket/visits/1.parquet", filesystem=bucket)
    with pytest.raises(tables.TableError, match=r"bucket/visits/1\.parquet has changed since the table was opened"):
        table.add(lambda batch: np.array([np.sum(batch.present)]))


@pytest.mark.parametrize(
    "source",
    [f"s3://testing:{SECRET}@bucket/nothing", [f"s3://testing:{SECRET}@bucket/a", FILES[0]]],
    ids=["in a folder", "in a list"],
)
def test_a_key_in_an_address_is_not_quoted(source, bucket):
    with pytest.raises(ValueError, match=r"s3://bucket/\w+.* could not be opened \(\w+\)") as refused:
        tables.parquet(source)
    assert SECRET not in str(refused.value)

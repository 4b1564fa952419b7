"""Our side of ``scripts/bench engines``: the search of ``scripts/bench tables`` on an engine with two workers."""

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any

from benchmarks.speed import ours_tables
from benchmarks.speed.worker import serve
from jaxdpbo import tables

os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
opened: list[tables.Table] = []


def open_dask(folder: str, columns: list[str]) -> tables.Table:
    import dask.dataframe
    from distributed import Client

    Client(n_workers=2, threads_per_worker=1, dashboard_address=None)
    return tables.dask(dask.dataframe.read_parquet(folder), columns=columns)


def open_ray(folder: str, columns: list[str]) -> tables.Table:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    return tables.ray(ray.data.read_parquet(folder), columns=columns)


def open_spark(folder: str, columns: list[str]) -> tables.Table:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    atexit.register(session.stop)
    return tables.spark(session.read.parquet(folder), columns=columns)


def open_beam(folder: str, columns: list[str]) -> tables.Table:
    import apache_beam

    files = f"{folder}/*.parquet"
    return tables.beam(lambda pipeline: pipeline | apache_beam.io.ReadFromParquetBatched(files), columns)


OPENERS: dict[str, Callable[[str, list[str]], Any]] = {
    "parquet": tables.parquet, "dask": open_dask, "ray": open_ray, "spark": open_spark, "beam": open_beam,
}  # fmt: skip


def start(engine: str, folder: str) -> int:
    """Start an engine, open the files as a table, and return the number of users."""
    opened.append(OPENERS[engine](folder, ours_tables.NAMES))
    return opened[0].users


def search(steps: int) -> dict:
    """Seconds of a search of some steps on the open table."""
    return ours_tables.search_table(opened[0], steps)


if __name__ == "__main__":
    serve(start, search, ours_tables.numpy_sums)

"""Users in a table: rows that stay where they lie, and add up to whole numbers in batches of one shape.

A driver adds up the users' contributions in one scan of the table for each step, then draws noise once, on the total.
Whole numbers add up to the same total in any order, so the release is the same for any order of rows and any cut into
files.
"""

from jaxdpbo import namespace
from jaxdpbo.tables.beam_table import beam
from jaxdpbo.tables.dask_table import dask
from jaxdpbo.tables.hashed_ids import HashedIds, hashed
from jaxdpbo.tables.parquet_table import parquet
from jaxdpbo.tables.ray_table import ray
from jaxdpbo.tables.spark_table import spark
from jaxdpbo.tables.table import Batch, Sum, Table, TableError, UnreadError, arrays

__all__ = [
    "Batch",
    "HashedIds",
    "Sum",
    "Table",
    "TableError",
    "UnreadError",
    "arrays",
    "beam",
    "dask",
    "hashed",
    "parquet",
    "ray",
    "spark",
]
__dir__ = namespace.list_public(__name__)

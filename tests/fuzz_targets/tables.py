"""Rows of ``jaxdpbo.tables``."""

from pathlib import Path

import dask.dataframe
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz_targets.odd_values import odd_private
from fuzz_targets.target import Target
from fuzz_targets.valid_values import either, private_rows
from jaxdpbo import tables


def users_tables(folder: Path) -> dict[str, Target]:
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "text": ["a", "b"]}), path)

    frame = dask.dataframe.from_pandas(pd.DataFrame({"x": [1.0, 2.0], "y": [True, False]}), npartitions=1)

    def has_users(found, _):
        return found.users > 0 and len(found.columns) > 0

    return {
        "tables.arrays": Target(
            tables.arrays, {"columns": private_rows().map(lambda rows: {"x": rows, "y": rows[:, 0]})},
            private=("columns",), odd={"columns": odd_private().map(lambda odd: {"x": odd})}, check=has_users,
        ),
        "tables.parquet": Target(
            tables.parquet, {"source": either(path, [str(path)]), "columns": either(["x"], ("x",))}, check=has_users,
            words=("source", "column"),
        ),
        "tables.dask": Target(
            tables.dask, {"frame": either(frame), "columns": either(["x"], ["x", "y"]), "users": either(None, 2, 9)},
            check=has_users, words=("frame", "column"),
        ),
    }  # fmt: skip

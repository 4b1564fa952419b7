"""Rows of ``jaxdpbo.tables``."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fuzz_targets.odd_values import odd_private
from fuzz_targets.target import Target
from fuzz_targets.valid_values import either, private_rows
from jaxdpbo import tables


def users_tables(folder: Path) -> dict[str, Target]:
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "text": ["a", "b"]}), path)

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
    }  # fmt: skip

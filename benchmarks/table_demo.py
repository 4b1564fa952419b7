"""``scripts/demo --table ENGINE``: tune the demo's kernel machine on patients in a table of an engine with two workers.

The records are those of ``jaxdpbo demo``. A run with a key of its own shows that the engine and an array release the
same bits; the run to publish takes its noise from the operating system.
"""

import argparse
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.speed import ours_engines
from jaxdpbo import Search, minimize, problems, tables
from jaxdpbo.problems import _kernel_svr

TRAIN, FILES, MU = 142, 3, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/demo --table", description=__doc__.split("\n")[0])
    parser.add_argument("engine", choices=tuple(ours_engines.OPENERS), help="where the patients' rows lie")
    parser.add_argument("--steps", type=int, default=10, help="steps of DP-GIBO, a scan each (default %(default)s)")
    arguments = parser.parse_args()
    data = _kernel_svr.kernel_svr_split(problems.load_dataset("diabetes"), 0, train=TRAIN)
    users, features = data.validation.shape
    names = [f"x{number}" for number in range(features)]
    columns = dict(zip([*names, "target"], [*data.validation.T, data.validation_targets], strict=True))

    def loss(point, batch):
        """The squared error of each patient in a batch; the training patients are public."""
        rows = np.stack([batch[name] for name in names], axis=1)
        return problems.kernel_svr_loss(
            np.asarray(point), data._replace(validation=rows, validation_targets=batch["target"])
        )

    def search(table: tables.Table, steps: int, **seeded):
        execution = {"traceable": False, **seeded}
        bounds = problems.kernel_svr_bounds(features)
        return minimize(loss, table, bounds, mu=MU, search=Search(method="local", steps=steps), **execution)

    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(np.array_split(np.arange(users), FILES)):
            rows = pa.table({name: column[part] for name, column in columns.items()})
            pq.write_table(rows, Path(folder) / f"{number}.parquet")
        started = time.perf_counter()
        table = ours_engines.OPENERS[arguments.engine](folder, [*columns])
        print(f"{table}: opened in {time.perf_counter() - started:.0f} s")
        seeded = {"key": jax.random.key(0), "insecure_key": True}
        points = [search(source, 2, **seeded).release.point for source in (table, tables.arrays(columns))]
        print(
            f"two steps, beside an array of the same patients: {'the same bits' if are_equal(points) else 'OTHER BITS'}"
        )
        started = time.perf_counter()
        run = search(table, arguments.steps)
        seconds = time.perf_counter() - started
    middle = np.mean(np.asarray(problems.kernel_svr_bounds(features)), axis=0)
    untuned, tuned = (float(np.mean(problems.kernel_svr_loss(point, data))) for point in (middle, run.release.point))
    print(f"{arguments.steps} steps in {seconds:.0f} s; mean loss {tuned:.3f}, untuned {untuned:.3f} (public records)")
    print(run.guarantee)
    if not are_equal(points):
        raise SystemExit(1)


def are_equal(points: list[np.ndarray]) -> bool:
    return np.array_equal(*points)


if __name__ == "__main__":
    main()

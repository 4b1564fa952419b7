"""``scripts/bench tasks``: time and memory of the scripts in docs/tutorials/tasks, each in a new process, in minutes.

Each script runs in an empty folder, without programs that JAX compiled before.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks import report

FOLDER = report.ROOT / "docs" / "tutorials" / "tasks"
TASKS = (
    "frame_to_record", "study_with_workers", "sweep_an_algorithm", "opacus_model", "sign_off", "rows_50_million",
)  # fmt: skip
KIB_A_GIB = 2**20


def main(quick: bool) -> None:
    tasks = {name: run(name) for name in tqdm(TASKS[4:5] if quick else TASKS, unit="task")}
    report.print_table(
        ("task", "seconds", "peak GiB", "prints"),
        [(name, f"{task['seconds']:.0f}", f"{task['peak']:.1f}", task["prints"][-1]) for name, task in tasks.items()],
    )
    report.write_bench(
        "tasks",
        {"tasks": tasks},
        quick=quick,
        seeds="of the operating system",
        noise="exact",
        dtype="float32",
        chosen={"tasks": list(tasks)},
    )


def run(name: str) -> dict[str, Any]:
    """Run a script; its seconds, its largest process in GiB, and the lines that it prints.

    Raises:
      RuntimeError: the script failed.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment["PYTHONPATH"] = str(report.ROOT)
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "printed.txt"
        command = [sys.executable, "-W", "ignore", FOLDER / f"{name}.py"]
        begun = time.perf_counter()
        with printed.open("w") as file:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file)
            _, status, usage = os.wait4(process.pid, 0)  # in place of Popen.wait: the memory of this script alone
        seconds, lines = time.perf_counter() - begun, printed.read_text().splitlines()
    if status:
        raise RuntimeError(f"{name}.py ended with status {status}")
    return {"seconds": seconds, "peak": usage.ru_maxrss / KIB_A_GIB, "prints": lines}

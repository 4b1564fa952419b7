"""``scripts/demo --silos N``: tune the demo's kernel machine on patients of N silos, each a process of its own.

The server, this process, sees masked answers and their noised sum. The last silo is killed after the third step, and
the search goes on without it. The patients are those of ``jaxdpbo demo``; the training patients are public.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from jaxdpbo import dp_gibo, ledger, problems, silos
from jaxdpbo.problems import _kernel_svr

TRAIN, STEPS, MU, LOST = 142, 10, 1.0, 3
ROSTER, SILO = "roster.json", "silo"


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/demo --silos", description=__doc__.split("\n")[0])
    parser.add_argument("silos", type=int, help="the number of silos, from 3 to 20")
    parser.add_argument(f"--{SILO}", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.silo:
        hold(arguments.silos, arguments.silo[0], Path(arguments.silo[1]))
        return
    if not 3 <= arguments.silos <= 20:
        parser.error(f"silos must be from 3 to 20, got {arguments.silos}")
    with tempfile.TemporaryDirectory() as folder:
        search(arguments.silos, Path(folder))


def search(count: int, folder: Path) -> None:
    """Start the silos, run the search from the server's side, and write its record."""
    data, parts = patients(count)
    cards = [silos.create_identity(folder / name, name, users=len(part)) for name, part in parts.items()]
    silos.make_roster(cards, missing=1).save(folder / ROSTER)
    terms = agree(folder)
    command = [sys.executable, "-m", "benchmarks.silo_demo", str(count), f"--{SILO}"]
    running = {name: subprocess.Popen([*command, name, str(folder)], cwd=report.ROOT) for name in parts}
    try:
        started = time.perf_counter()
        credentials = {name: _credential(folder / name / "socket", running[name]) for name in parts}
        print(f"{count} silos with {', '.join(str(len(part)) for part in parts.values())} patients are there\n")
        *_, last = parts
        calls = []

        def send(requests: Mapping[str, bytes]) -> dict[str, bytes]:
            calls.append(requests)
            if len(calls) == LOST + 1:
                running[last].kill()
                running[last].wait()
            answers = {}
            for name, content in requests.items():
                try:
                    answers[name] = silos.parse_answer(silos.forward(folder / name / "socket", content))
                except OSError:
                    print(f"step {len(calls)}: {name} does not answer")
            return answers

        run = silos.run_silos(terms, credentials, send, record=folder / "sums.jsonl")
        seconds = time.perf_counter() - started
    finally:
        for process in running.values():
            process.kill()
    middle = np.mean(problems.kernel_svr_bounds(data.train.shape[1]), axis=0)
    untuned, tuned = (float(np.mean(problems.kernel_svr_loss(point, data))) for point in (middle, run.release.point))
    print(f"{STEPS} steps in {seconds:.0f} s, {run.attempts} sums; a request has {len(calls[0][last]):,} bytes")
    print(f"mean loss {tuned:.3f}, untuned {untuned:.3f} (public records)\n")
    for name, guarantee in run.guarantees._asdict().items():
        print(f"{name.replace('_', ' ')}: {guarantee.claim}")
    path = report.folder("demo") / "silos.html"
    run.report(path)
    print(f"\nwrote the record to sign: {path.relative_to(report.ROOT)}")


def hold(count: int, name: str, folder: Path) -> None:
    """The process of a silo: open its patients, and answer until it is killed."""
    data, parts = patients(count)
    rows = parts[name]
    columns = {"features": data.validation[rows], "target": data.validation_targets[rows]}

    def loss(point: Any, batch: Any) -> np.ndarray:
        """The squared error of each patient in a batch."""
        held = data._replace(validation=batch["features"], validation_targets=batch["target"])
        return problems.kernel_svr_loss(np.asarray(point), held)

    book = folder / name / "budget.jsonl"
    ledger.create(book, mu=2 * MU)
    silo = silos.Silo(agree(folder), loss, columns, name=name, folder=folder / name, ledger=book)
    silos.serve_silo(silo, folder / name / "socket")


def patients(count: int) -> tuple[Any, dict[str, np.ndarray]]:
    """All records, and the patients of each silo."""
    data = _kernel_svr.kernel_svr_split(problems.load_dataset("diabetes"), 0, train=TRAIN)
    names = [f"hospital-{number}" for number in range(1, count + 1)]
    return data, dict(zip(names, np.array_split(np.arange(len(data.validation)), count), strict=True))


def agree(folder: Path) -> silos.Agreement:
    """The terms, from the roster."""
    roster = silos.load_roster(folder / ROSTER)
    bounds = problems.kernel_svr_bounds(10)
    config = dp_gibo.config(
        users=roster.users, steps=STEPS, mu=MU, clip_norm=1.0, bounds={"low": bounds[0], "high": bounds[1]},
        memory="none",
    )  # fmt: skip
    return silos.agree("demo", dp_gibo.algorithm, config, roster, answers=STEPS + 1)


def _credential(socket: Path, process: subprocess.Popen) -> silos.Credential:
    """The key of a silo, once its process is there."""
    while not socket.exists():
        if process.poll() is not None:
            raise SystemExit(f"the process of {socket.parent.name} ended")
        time.sleep(0.1)
    return silos.parse_credential(silos.forward(socket, b"credential"))[1]


if __name__ == "__main__":
    main()

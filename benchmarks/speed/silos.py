"""``scripts/bench silos``: a round of DP-GIBO among 2, 10 and 50 silos in Flower's simulation, beside direct calls.

All silos share one process and two cores, so a round of 50 silos takes the time of 50 answers. The first round compiles
and is left out.
"""

import contextlib
import io
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.speed import rows
from benchmarks.speed import silos_problem as problem
from jaxdpbo import dp_gibo, ledger, silos
from jaxdpbo.integrations import flower

Timed = Callable[[Mapping[str, bytes]], dict[str, bytes]]


def main(quick: bool) -> None:
    results = []
    for count in problem.COUNTS[:1] if quick else problem.COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            direct = _direct_rounds(Path(folder) / "direct", count)
            flown = _simulated_rounds(Path(folder) / "flower", count)
        ours, peer = (statistics.median(run["seconds"][1:]) for run in (flown, direct))
        results.append(
            rows.row(
                f"a round of {count} silos in Flower's simulation",
                ours,
                peer,
                "the same round by direct calls",
                ratio=ours / peer,
                compile_s=direct["seconds"][0] - peer,
                dtype="float32",
                silos=count,
                users=count * problem.USERS,
                request_bytes=direct["request"],
                answer_bytes=direct["answer"],
                rounds=[round(value, 4) for value in flown["seconds"]],
                run_seconds=round(flown["run"], 1),
            )
        )
    rows.finish("silos", results, quick)


def _direct_rounds(folder: Path, count: int) -> dict[str, Any]:
    """The seconds of each round, and the bytes of a request and of an answer."""
    agreement, opened = _federation(folder, count)
    seconds, sizes = [], {}

    def send(requests: Mapping[str, bytes]) -> dict[str, bytes]:
        started = time.perf_counter()
        answers = {name: opened[name].answer(content) for name, content in requests.items()}
        seconds.append(time.perf_counter() - started)
        sizes.update(request=len(next(iter(requests.values()))), answer=len(next(iter(answers.values()))))
        return answers

    silos.run_silos(agreement, {name: silo.credential() for name, silo in opened.items()}, send)
    return {"seconds": seconds, **sizes}


def _simulated_rounds(folder: Path, count: int) -> dict[str, Any]:
    """The same, by Flower's simulation: nodes are workers of Ray, which relay to silos in this process."""
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    agreement, opened = _federation(folder, count)
    for number, silo in enumerate(opened.values()):
        threading.Thread(target=silos.serve_silo, args=(silo, folder / f"{number}.socket"), daemon=True).start()
    seconds, server, spans = [], ServerApp(), []

    class Timed:
        """A grid that keeps the seconds of each round."""

        def __init__(self, grid: Any) -> None:
            self.get_node_ids, self._grid = grid.get_node_ids, grid

        def send_and_receive(self, messages: Any, *, timeout: float) -> list[Any]:
            started = time.perf_counter()
            replies = list(self._grid.send_and_receive(messages, timeout=timeout))
            seconds.append(time.perf_counter() - started)
            return replies

    @server.main()
    def search(grid: Any, context: Any) -> None:
        started = time.perf_counter()
        flower.run_on_grid(agreement, Timed(grid), wait=300.0)
        spans.append(time.perf_counter() - started)

    client = flower.client_app(str(folder / "{partition-id}.socket"))
    with contextlib.redirect_stdout(io.StringIO()):
        run_simulation(server, client, count, backend_config={"client_resources": {"num_cpus": 1}})
    return {"seconds": seconds[-problem.STEPS :], "run": spans[0]}


def _federation(folder: Path, count: int) -> tuple[silos.Agreement, dict[str, silos.Silo]]:
    names = [f"silo{number}" for number in range(count)]
    cards = [silos.create_identity(folder / name, name, users=problem.USERS) for name in names]
    roster = silos.make_roster(cards)
    config = dp_gibo.config(
        users=roster.users, steps=problem.STEPS, mu=1.0, clip_norm=0.25 * problem.HIGH, memory="none",
        bounds=[(0.0, 1.0)] * problem.DIMENSION,
    )  # fmt: skip
    agreement = silos.agree("bench", dp_gibo.algorithm, config, roster)
    opened = {}
    for seed, name in enumerate(names):
        ledger.create(folder / name / "book", mu=100)
        x = np.random.default_rng(seed).normal(0.3, 1.0, (problem.USERS, problem.DIMENSION)).astype(np.float32)
        opened[name] = silos.Silo(
            agreement, _loss, {"x": x}, name=name, folder=folder / name, ledger=folder / name / "book"
        )
    return agreement, opened


def _loss(point: Any, batch: Any) -> Any:
    return jnp.minimum(jnp.sum(jnp.abs(batch["x"] - point), axis=1), problem.HIGH)

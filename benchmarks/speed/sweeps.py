"""A sweep of ours compared with the same loop of a peer: both see the same values, and the sides alternate."""

from contextlib import ExitStack
from typing import Any

from tqdm import tqdm

from benchmarks.speed import rows
from benchmarks.speed.worker import Worker

TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
THREADS = {
    f"{count} thread(s)": {"OPENBLAS_NUM_THREADS": str(count), "OMP_NUM_THREADS": str(count)} for count in (1, 2)
}


def compare(
    ours: str, peer: str, seen: str, unit: str, sizes: str, *,
    runs: int, rounds: int, warming: int, sweep: dict[str, Any], run: dict[str, Any], **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """The row of one run of a sweep, ours on two host devices, the peer with one BLAS thread and with two.

    Args:
      ours: the module with ``sweep``, which has all runs.
      peer: the module with ``run``, which has one; the faster number of threads counts.
      seen: the field of an answer by which runs are compared.
      unit: what a run is, in words.
      sizes: of the problem, in words.
      runs: how many, and seeds.
      rounds: of a sweep and a share of the peer's runs.
      warming: the first seed of the runs that compile.
      sweep: arguments of ``sweep``.
      run: arguments of ``run``.
      more: fields of the row.
    """
    with ExitStack() as stack:
        own = stack.enter_context(Worker(ours, **TWO))
        peers = {name: stack.enter_context(Worker(peer, **environment)) for name, environment in THREADS.items()}
        first = own("sweep", first=warming, **sweep)["seconds"]
        for worker in peers.values():
            worker("run", seed=warming, **run)
        swept, by_threads, share = [], {name: [] for name in peers}, runs // rounds
        for turn in tqdm(range(rounds), unit="round"):
            swept.append(own("sweep", first=0, **sweep))
            for seed in range(turn * share, (turn + 1) * share):
                for name, worker in peers.items():
                    by_threads[name].append(worker("run", seed=seed, **run))
        versions = own("version"), next(iter(peers.values()))("version")
    threads, peer_s = rows.faster(by_threads)
    seconds = rows.median(swept) / runs
    equal, close = rows.count_equal_runs(swept[0][seen], by_threads[threads], seen)
    return rows.row(
        f"one run of a sweep of {runs}{sizes}",
        seconds,
        peer_s,
        f"{versions[1]}, {threads}",
        compile_s=first - seconds * runs,
        ours=versions[0],
        same_picks=f"{equal} of {runs} {unit}, {close} of the others after a tie within {rows.CLOSE:g}",
        peer_seconds={name: rows.seconds(side_runs) for name, side_runs in by_threads.items()},
        ours_seconds=rows.seconds(swept),
        **more,
    )

"""Cells of a comparison, a problem, a search, a budget and a seed each: run in processes, kept a line each.

A line is written as soon as its run ends, so a command that is stopped goes on where it was. Lines of another revision
of the code do not count.
"""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks import report

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


class Cell(NamedTuple):
    """What is run once; ``budget`` is a number, or a label of ``budgets``."""

    problem: str
    search: str
    budget: Any
    seed: int


def run(name: str, cells: Sequence[Cell], evaluate: Callable[[Cell], dict[str, Any]]) -> dict[Cell, dict[str, Any]]:
    """What each cell found, and its seconds: from the lines where it is there, else run, a process a core.

    The processes share their compiled programs.

    Args:
      name: of the file of lines.
      cells: in the order in which they are run.
      evaluate: what a cell finds; of a module, since processes are told its name.
    """
    path, programs = report.folder("search") / f"{name}.jsonl", report.folder("search", "programs")
    results = {cell: result for cell, result in _stored_runs(path) if cell in set(cells)}
    missing = [cell for cell in cells if cell not in results]
    print(f"{len(results)} runs are there, {len(missing)} to go{_estimate(results, missing)}\n")
    if not missing:
        return results
    context, cores = multiprocessing.get_context("spawn"), sorted(os.sched_getaffinity(0))
    places = context.Queue()
    for core in cores:
        places.put(core)
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ |= dict.fromkeys(THREADS, "1")  # inherited
    try:
        with (
            ProcessPoolExecutor(len(cores), context, _start_process, (places, str(programs))) as pool,
            path.open("a") as lines,
            tqdm(total=len(missing), unit="run", mininterval=5.0) as bar,
        ):
            futures = {pool.submit(_timed, evaluate, cell): cell for cell in missing}
            try:
                for future in as_completed(futures):
                    cell, result = futures[future], future.result()
                    results[cell] = result
                    lines.write(json.dumps(cell._asdict() | result | {"revision": report.REVISION}) + "\n")
                    lines.flush()
                    bar.update()
            except BaseException:
                pool.shutdown(cancel_futures=True)  # one that fails ends the command, not first all the others
                raise
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    return results


def _timed(evaluate: Callable[[Cell], dict[str, Any]], cell: Cell) -> dict[str, Any]:
    started = time.perf_counter()
    return evaluate(cell) | {"seconds": round(time.perf_counter() - started, 2)}


def _stored_runs(path: Path) -> Iterator[tuple[Cell, dict[str, Any]]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
        except json.JSONDecodeError:  # the last line of a command that was killed
            continue
        if result.pop("revision") == report.REVISION:
            yield Cell(*(result.pop(name) for name in Cell._fields)), result


def _estimate(results: dict[Cell, dict[str, Any]], missing: Sequence[Cell]) -> str:
    """In hours, where a run of each kind has been timed."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for cell, result in results.items():
        seconds.setdefault((cell.problem, cell.search), []).append(result["seconds"])
    timings = [seconds[kind] for kind in ((cell.problem, cell.search) for cell in missing) if kind in seconds]
    if not timings:
        return ""
    hours = sum(sum(durations) / len(durations) for durations in timings) / 3600 / len(os.sched_getaffinity(0))
    return f": about {hours:.1f} hours" + f" for {len(timings)} of them" * (len(timings) < len(missing))


def _start_process(places: Any, programs: str) -> None:
    """Begin a process: a core of its own, before JAX counts them."""
    os.sched_setaffinity(0, {places.get()})
    import jax

    jax.config.update("jax_compilation_cache_dir", programs)

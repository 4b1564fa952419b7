"""What a measurement is written down as, and how it is shown."""

import importlib
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks import report
from benchmarks.speed import ABOUT

CLOSE = 1e-9


def row(
    name: str, ours_s: float, peer_s: float, peer: str, *,
    ratio: float | None = None, compile_s: float | None = None, dtype: str = "float64", **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """By default the ratio is the peer's time over ours."""
    ratio = peer_s / ours_s if ratio is None else ratio
    shown = {"name": name, "ours_s": ours_s, "peer_s": peer_s, "ratio": ratio, "peer": peer}
    return shown | {"compile_s": compile_s, "dtype": dtype, "more": more}


def seconds(runs: Iterable[dict[str, Any]]) -> list[float]:
    return [run["seconds"] for run in runs]


def median(runs: Iterable[dict[str, Any]]) -> float:
    return statistics.median(seconds(runs))


def faster(by_threads: dict[Any, list[dict[str, Any]]]) -> tuple[Any, float]:
    """The number of threads of least median seconds, and these."""
    medians = {threads: median(runs) for threads, runs in by_threads.items()}
    return min(medians.items(), key=lambda pair: pair[1])


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.5f}, standard deviation {statistics.stdev(values):.5f}, {len(values)} runs"


def count_equal_runs(ours: list[list[float]], peers: list[dict], seen: str) -> tuple[int, int]:
    """In how many runs all that was ``seen`` is the same, and in how many of the others rounding had to decide.

    Rounding decides where the peer's ``margins``, of its best score over the second, are at most 1e-9 up to the first
    difference.
    """
    equal = close = 0
    for mine, peer in zip(ours, peers, strict=True):
        differs = [abs(a - b) > 1e-12 for a, b in zip(mine, peer[seen], strict=True)]
        if not any(differs):
            equal += 1
        elif min(peer["margins"][1 : differs.index(True) + 1], default=0.0) <= CLOSE:
            close += 1
    return equal, close


def finish(name: str, rows: list[dict[str, Any]], quick: bool, *, seeds: str | None = None) -> None:
    """A table, and ``results/bench/NAME.json``; ``seeds`` where ``ABOUT`` has none."""
    print()
    report.print_table(
        ("what", "dtype", "ours", "peer or ceiling", "ratio", "compile"),
        [
            (line["name"], line["dtype"], _time(line["ours_s"]), f"{_time(line['peer_s'])} {line['peer']}")
            + (f"{line['ratio']:.3g}", "-" if line["compile_s"] is None else f"{line['compile_s']:.1f} s")
            for line in rows
        ],
    )
    for line in rows:
        for what, value in line["more"].items():
            print(f"{line['name']}: {what}: {value}")
    about = ABOUT[name]
    problem = vars(importlib.import_module(f"benchmarks.speed.{about.problem}"))
    chosen = {constant: value for constant, value in problem.items() if constant.isupper()}
    report.write_bench(
        name, {"rows": rows}, quick=quick, seeds=about.seeds or seeds, noise=about.noise, dtype=about.dtype,
        chosen=chosen,
    )  # fmt: skip


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"

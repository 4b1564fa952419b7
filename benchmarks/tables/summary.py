"""The main figures of speed; ``scripts/bench all`` ends with this table."""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.tables.markdown import table, time_of
from benchmarks.tables.speed import regret_difference

Result = dict[str, Any]
OVERHEAD = "avent_overhead"  # measured by ``scripts/reproduce``, unlike the others


class Figure(NamedTuple):
    """One line of the table.

    Attributes:
      work: the quantity, in words.
      source: name of the result.
      read: gives the quantity from the result.
      seconds: print a time with its unit.
    """

    work: str
    source: str
    read: Callable[[Result], float]
    seconds: bool = False


def _rows(result: Result, within: str) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if within in row["name"]]


def _field(within: str, field: str) -> Callable[[Result], float]:
    return lambda result: _rows(result, within)[0][field]


def _import_ratio(within: str) -> Callable[[Result], float]:
    return lambda result: _rows(result, within)[0]["more"]["over_import"]


def _share(dimension: int) -> Callable[[Result], float]:
    """Of the ceiling, in float32: the better of one device and of two."""
    return lambda result: max(
        row["ratio"] for row in _rows(result, f"d={dimension}, 275 points") if row["dtype"] == "float32"
    )


def _setting(result: Result) -> float:
    printed = result["settings"]["printed in the paper"]
    return statistics.median(result["accountant"]) / (printed["seeds"] + printed["proposals"])


def _worse_count(result: Result) -> float:
    return sum(regret_difference(row)["95%"][0] > 0 for row in _rows(result, "a suggestion, "))


def _ratio(peer: str) -> Callable[[Result], float]:
    return lambda result: min(row["ratio"] for row in _rows(result, "a suggestion, ") if row["peer"] == peer)


FIGURES = (
    Figure("DP-GIBO, one run of a sweep: BoTorch's time over ours", "bench_dp_gibo", _field("one run", "ratio")),
    Figure("per-user gradients, d = 10, float32: share of the ceiling", "bench_dp_gibo", _share(10)),
    Figure("per-user gradients, d = 33, float32: share of the ceiling", "bench_dp_gibo", _share(33)),
    Figure("DP-GIBO, d = 100, 45 steps: first answer", "bench_first_answer", _field("d=100", "ours_s"), seconds=True),
    Figure("import of jaxdpbo over import of JAX and optax", "bench_first_answer", _import_ratio("import jaxdpbo")),
    Figure("README's example over import of JAX and optax", "bench_first_answer", _import_ratio("README")),
    Figure(
        "README's example without tracing: first answer", "bench_first_answer", _field("traceable=False", "ours_s"),
        seconds=True,
    ),
    Figure("DP-GIBO, d = 20: first answer", "bench_first_answer", _field("d=20", "ours_s"), seconds=True),
    Figure("DPareto, 256 proposals", "bench_dpareto", _field("256 proposals", "ours_s"), seconds=True),
    Figure("DPareto, 256 proposals: compilation", "bench_dpareto", _field("256 proposals", "compile_s"), seconds=True),
    Figure("DP-SGD over a search's settings: examples a second, over padding's", "bench_dp_sgd",
           _field("64 settings", "ratio")),
    Figure("accountant of a DPareto search: time a setting", OVERHEAD, _setting, seconds=True),
    Figure("GP-UCB, a suggestion: Optuna's time over ours, least of 4", "bench_gp_ucb", _ratio("Optuna")),
    Figure("GP-UCB, a suggestion: BoTorch's time over ours, least of 4", "bench_gp_ucb", _ratio("BoTorch")),
    Figure("GP-UCB: comparisons, of 12, with a regret above the peer's (95 % interval)", "bench_gp_ucb", _worse_count),
)  # fmt: skip


def rows(read: Callable[[str], Result | None]) -> list[tuple[str, str]]:
    """Each quantity and its value; ``read`` gives a result by name, or None."""
    return [(figure.work, _value(figure, read(figure.source))) for figure in FIGURES]


def _value(figure: Figure, result: Result | None) -> str:
    if result is None:
        return "not measured"
    try:
        value = figure.read(result)
    except LookupError:  # a quick run has smaller sizes and lacks this row
        return "not measured at this size"
    return time_of(value, 2) if figure.seconds else f"{value:.3g}"


def bench_summary() -> str:
    return table(("", "measured"), rows(report.find_result))


BLOCKS = {"bench_summary": bench_summary}

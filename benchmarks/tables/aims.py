"""What was aimed at, fixed beforehand, beside what was measured: ``scripts/bench all`` ends with it."""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import report
from benchmarks.tables.markdown import table, time_of

Result = dict[str, Any]
OVERHEAD = "avent_overhead"  # the one that ``scripts/reproduce`` measures


class Aim(NamedTuple):
    """``found`` of the result ``source``, seconds where ``seconds``, is to be ``aimed`` at most, or ``at_least``."""

    work: str
    source: str
    found: Callable[[Result], float]
    aimed: float
    seconds: bool = False
    at_least: bool = False


def _rows(result: Result, within: str) -> list[dict[str, Any]]:
    return [row for row in result["rows"] if within in row["name"]]


def _first(within: str, field: str) -> Callable[[Result], float]:
    return lambda result: _rows(result, within)[0][field]


def _over_import(within: str) -> Callable[[Result], float]:
    return lambda result: _rows(result, within)[0]["more"]["over_import"]


def _share(dimension: int) -> Callable[[Result], float]:
    """Of the ceiling, in float32: the better of one device and of two."""
    return lambda result: max(
        row["ratio"] for row in _rows(result, f"d={dimension}, 275 points") if row["dtype"] == "float32"
    )


def _setting(result: Result) -> float:
    printed = result["settings"]["printed in the paper"]
    return statistics.median(result["accountant"]) / (printed["seeds"] + printed["proposals"])


def _worse(result: Result) -> float:
    return sum(row["more"]["paired"]["95%"][0] > 0 for row in _rows(result, "a suggestion, "))


def _ratio(peer: str) -> Callable[[Result], float]:
    return lambda result: min(row["ratio"] for row in _rows(result, "a suggestion, ") if row["peer"] == peer)


AIMS = (
    Aim("DP-GIBO, a run of a sweep, times BoTorch's", "bench_dp_gibo", _first("one run", "ratio"), 160, at_least=True),
    Aim("per-user gradients, d = 10, share of the ceiling", "bench_dp_gibo", _share(10), 0.5, at_least=True),
    Aim("per-user gradients, d = 33, share of the ceiling", "bench_dp_gibo", _share(33), 0.6, at_least=True),
    Aim("DP-GIBO, d = 100, 45 steps, first answer", "bench_first_answer", _first("d=100", "ours_s"), 10, seconds=True),
    Aim("import of jaxdpbo, times that of JAX and optax", "bench_first_answer", _over_import("import jaxdpbo"), 1.25),
    Aim("README's example, times that import", "bench_first_answer", _over_import("README"), 5),
    Aim("the same without tracing", "bench_first_answer", _first("traceable=False", "ours_s"), 3, seconds=True),
    Aim("d = 20, first answer", "bench_first_answer", _first("d=20", "ours_s"), 4, seconds=True),
    Aim("DPareto, 256 proposals", "bench_dpareto", _first("256 proposals", "ours_s"), 3, seconds=True),
    Aim("DPareto, its compilation", "bench_dpareto", _first("256 proposals", "compile_s"), 5, seconds=True),
    Aim("DP-SGD over a search, times padding", "bench_dp_sgd", _first("64 settings", "ratio"), 5, at_least=True),
    Aim("the accountant, a setting", OVERHEAD, _setting, 0.001, seconds=True),
    Aim("GP-UCB, a suggestion, times Optuna's, least of 4", "bench_gp_ucb", _ratio("Optuna"), 25, at_least=True),
    Aim("GP-UCB, a suggestion, times BoTorch's, least of 4", "bench_gp_ucb", _ratio("BoTorch"), 25, at_least=True),
    Aim("GP-UCB, comparisons of 12 whose regret is worse", "bench_gp_ucb", _worse, 0),
)


def rows(read: Callable[[str], Result | None]) -> list[tuple[str, str, str, str]]:
    """What, measured, aimed at, and whether that came out; ``read`` gives a result by name, or None."""
    lines = []
    for aim in AIMS:
        result = read(aim.source)
        if result is None:
            lines.append((aim.work, "not measured", _said(aim, aim.aimed), ""))
            continue
        try:
            found = aim.found(result)
        except LookupError:  # a quick run, of smaller sizes, has no such row
            lines.append((aim.work, "not measured at this size", _said(aim, aim.aimed), ""))
            continue
        met = found >= aim.aimed if aim.at_least else found <= aim.aimed
        lines.append((aim.work, _said(aim, found), _said(aim, aim.aimed), "met" if met else "missed"))
    return lines


def bench_aims() -> str:
    return table(("", "measured", "aimed at", ""), rows(report.stored))


def _said(aim: Aim, value: float) -> str:
    return time_of(value, 2) if aim.seconds else f"{value:.3g}"


BLOCKS = {"bench_aims": bench_aims}

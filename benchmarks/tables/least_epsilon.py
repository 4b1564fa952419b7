"""What selections cost: proved and attained, over levels, and in runs on data."""

import math

from benchmarks.tables.markdown import load_result, table

RESULT, PRICES = "bench_least_epsilon", "bench_selection_prices"
SHOWN = (20.0, 150.0)  # means
HEADS = "data (error asked for)", "way", "reached", "epsilon paid, median", "epsilon paid, mean", "test error"


def prices() -> str:
    """A row for each law of the number of runs."""
    result = load_result(PRICES)
    levels = result["settings"]["chosen here"]["epsilons"]
    rows = [
        (
            f"{law['eta']:g}",
            f"{law['mean']:g}",
            *(f"{price:.2f}" for price in law["price"]),
            f"{law['nothing']:.2f}",
            f"{law['reach']:.2f}",
        )
        for law in result["laws"]
    ]
    heads = (*(f"one run at {level:g}" for level in levels), "epsilon if nothing is reached", "reach")
    return table(("eta", "mean", *heads), rows)


def bounds() -> str:
    """Proved and attained epsilons of a selection for some laws."""
    result = load_result(PRICES)
    levels = result["settings"]["chosen here"]["epsilons"]
    rows = [
        (
            f"{law['eta']:g}",
            f"{law['mean']:g}",
            *(f"{high:.2f} ({low:.2f})" for high, low in zip(law["proved"], law["attained"], strict=True)),
        )
        for law in result["laws"]
        if law["mean"] in SHOWN
    ]
    return table(("eta", "mean", *(f"one run at {level:g}" for level in levels)), rows)


def comparison() -> str:
    """A row for each law and each way, by data set."""
    rows = []
    for name, problem in load_result(RESULT)["problems"].items():
        ways = [(f"eta {law['eta']:g}, mean {law['mean']:g}", law) for law in problem["laws"]]
        rows += [
            _row(name, problem, way, summary)
            for way, summary in [*ways, ("factor 2", problem["factor 2"]), *_ways(problem)]
        ]
    return table(HEADS, rows)


def _ways(problem: dict) -> list[tuple[str, dict]]:
    names = {"least_epsilon": "`least_epsilon`"}
    return [(names.get(way, way), summary) for way, summary in problem["summary"].items() if "reached" in summary]


def _row(name: str, problem: dict, way: str, summary: dict) -> tuple[str, ...]:
    error, name = summary["test error"], f"{name} ({problem['error asked for']:.4f})"
    paid = (f"{summary[kind]:.3g}" for kind in ("paid, median", "paid, mean"))
    return name, way, f"{summary['reached']:.0%}", *paid, "" if math.isnan(error) else f"{error:.4f}"


BLOCKS = {
    "bench_selection_prices": prices,
    "bench_selection_bounds": bounds,
    "bench_least_epsilon": comparison,
}

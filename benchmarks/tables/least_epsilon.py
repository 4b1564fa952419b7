"""What selections cost: proved and attained, over levels, and in runs on data."""

import math

from benchmarks.tables.markdown import stored, table

RESULT, PRICES = "bench_least_epsilon", "bench_selection_prices"
SHOWN = (20.0, 150.0)  # means
HEADS = "data (error asked for)", "way", "reached", "epsilon paid, median", "epsilon paid, mean", "test error"


def prices() -> str:
    """A row for each law of the number of runs."""
    result = stored(PRICES)
    levels = result["settings"]["chosen here"]["epsilons"]
    rows = [
        (
            f"{one['eta']:g}",
            f"{one['mean']:g}",
            *(f"{price:.2f}" for price in one["price"]),
            f"{one['nothing']:.2f}",
            f"{one['reach']:.2f}",
        )
        for one in result["laws"]
    ]
    heads = (*(f"one run at {level:g}" for level in levels), "epsilon if nothing is reached", "reach")
    return table(("eta", "mean", *heads), rows)


def bounds() -> str:
    """Proved and attained epsilons of a selection for some laws."""
    result = stored(PRICES)
    levels = result["settings"]["chosen here"]["epsilons"]
    rows = [
        (
            f"{one['eta']:g}",
            f"{one['mean']:g}",
            *(f"{high:.2f} ({low:.2f})" for high, low in zip(one["proved"], one["attained"], strict=True)),
        )
        for one in result["laws"]
        if one["mean"] in SHOWN
    ]
    return table(("eta", "mean", *(f"one run at {level:g}" for level in levels)), rows)


def compared() -> str:
    """A row for each law and each way, by data set."""
    rows = []
    for name, one in stored(RESULT)["problems"].items():
        ways = [(f"eta {law['eta']:g}, mean {law['mean']:g}", law) for law in one["laws"]]
        rows += [_row(name, one, way, said) for way, said in [*ways, ("factor 2", one["factor 2"]), *_ways(one)]]
    return table(HEADS, rows)


def runs() -> str:
    """The calls alone."""
    problems = stored(RESULT)["problems"]
    rows = [_row(name, one, way, said) for name, one in problems.items() for way, said in _ways(one)]
    return table(HEADS, rows)


def _ways(one: dict) -> list[tuple[str, dict]]:
    names = {"least_epsilon": "`least_epsilon`"}
    return [(names.get(way, way), said) for way, said in one["summary"].items() if "reached" in said]


def _row(name: str, one: dict, way: str, said: dict) -> tuple[str, ...]:
    error, name = said["test error"], f"{name} ({one['error asked for']:.4f})"
    paid = (f"{said[kind]:.3g}" for kind in ("paid, median", "paid, mean"))
    return name, way, f"{said['reached']:.0%}", *paid, "" if math.isnan(error) else f"{error:.4f}"


BLOCKS = {
    "bench_selection_prices": prices,
    "bench_selection_bounds": bounds,
    "bench_least_epsilon": compared,
    "bench_least_epsilon_runs": runs,
}

"""How cost grows with each size, and what fits: the tables of ``scripts/bench scaling``."""

from typing import Any

from benchmarks import report
from benchmarks.speed.scaling_problem import GIB, NAMES
from benchmarks.tables.markdown import figures, table, time_of

NOTHING = "Not measured yet: `scripts/bench scaling`."


def bench_scaling() -> str:
    found = report.stored("bench_scaling")
    if found is None:
        return NOTHING
    return table(
        ("algorithm", "variable", "others", "largest run", "exponent", "by the code", "operations of a run"),
        [
            (f"[{NAMES[name]}](results/bench_scaling_{name}.png)", _sizes(one), _others(one["fixed"]))
            + (time_of(one["seconds"][-1], 2), f"{one['exponent']:.2f}", _theory(one["theory"]), _cost(one))
            for name, series in found["growth"].items()
            for one in series
        ],
    )


def bench_scaling_largest() -> str:
    found = report.stored("bench_scaling")
    if found is None:
        return NOTHING
    return table(
        ("algorithm", "what", "largest", "memory", "bound by"),
        [
            (NAMES[one["algorithm"]], one["what"], _size(one), f"{one['bytes'] / GIB:.1f} GiB", one["bound"])
            for one in found["largest"]
        ],
    )


def _sizes(one: dict[str, Any]) -> str:
    return f"{one['variable']}, {one['sizes'][0]:,} to {one['sizes'][-1]:,}"


def _others(fixed: dict[str, Any]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in fixed.items())


def _theory(exponents: list[float]) -> str:
    low, high = exponents
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _cost(one: dict[str, Any]) -> str:
    return f"{one['cost']}; {one['where']}" if one["where"] else one["cost"]


def _size(one: dict[str, Any]) -> str:
    size = f"{one['size']:,}"
    return f"{size} ({figures(one['parameters'] / 1e6, 3)} million parameters)" if "parameters" in one else size


BLOCKS = {block.__name__: block for block in (bench_scaling, bench_scaling_largest)}

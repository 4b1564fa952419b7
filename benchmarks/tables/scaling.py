"""Growth of cost with each size, largest sizes, and very many users: ``scripts/bench scaling`` and ``users``."""

from typing import Any

from benchmarks import report
from benchmarks.speed.scaling_problem import GIB, NAMES
from benchmarks.tables.markdown import figures, stored, table, time_of

NOTHING = "Not measured yet: `scripts/bench scaling`."


def bench_scaling() -> str:
    found = report.stored("bench_scaling")
    if found is None:
        return NOTHING
    return table(
        (
            "algorithm",
            "variable",
            "fixed sizes",
            "largest run",
            "exponent",
            "exponent from the code",
            "operations of a run",
        ),
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
        ("algorithm", "size", "largest", "memory", "limit"),
        [
            (NAMES[one["algorithm"]], one["what"], _size(one), f"{one['bytes'] / GIB:.1f} GiB", one["bound"])
            for one in found["largest"]
        ],
    )


def bench_users() -> str:
    header = ("users", "steps", "losses in memory", "a step", "reading once", "ratio", "compile", "peak memory")
    rows = []
    for row in stored("bench_users")["rows"]:
        more = row["more"]
        ring = f", of {more['remembered']} points" if more["remembered"] else ""
        rows.append(
            (f"{more['users']:,}", more["steps"], f'`"{more["memory"]}"`{ring}', time_of(row["ours_s"], 2))
            + (time_of(row["peer_s"], 2), figures(row["ratio"], 2), time_of(row["compile_s"], 2))
            + (f"{more['peak_gib']:.1f} GiB",)
        )
    return table(header, rows)


def bench_streamed() -> str:
    header = ("users", "steps", "a step", "drawing the users", "ratio", "bits of a sum", "peak memory")
    (row,) = stored("bench_streamed")["rows"]
    more, steps = row["more"], row["name"].split(",")[0].removeprefix("a step of ")
    times = time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2)
    return table(header, [(f"{more['users']:,}", steps, *times, more["bits"], f"{more['peak_gib']:.1f} GiB")])


def bench_tables() -> str:
    header = (
        "users",
        "columns",
        "files",
        "a scan",
        "NumPy's sums",
        "ratio",
        "users a second",
        "compile",
        "peak memory",
    )
    (row,) = stored("bench_tables")["rows"]
    more, chosen = row["more"], stored("bench_tables")["settings"]["chosen here"]
    times = time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2)
    rate = f"{figures(more['users_a_second'] / 1e6, 2)} million"
    sizes = f"{more['users']:,}", chosen["COLUMNS"], f"{more['gib']:.1f} GiB"
    return table(header, [(*sizes, *times, rate, time_of(row["compile_s"], 2), f"{more['peak_gib']:.1f} GiB")])


def bench_engines() -> str:
    header = ("engine", "users", "a scan", "NumPy's sums", "ratio", "users a second", "first search")
    lines = []
    for row in stored("bench_engines")["rows"]:
        more, times = row["more"], (time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2))
        rate = f"{figures(more['users_a_second'] / 1e6, 2)} million"
        lines.append((more["engine"], f"{more['users']:,}", *times, rate, f"{time_of(row['compile_s'], 2)} more"))
    return table(header, lines)


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


BLOCKS = {
    block.__name__: block
    for block in (bench_engines, bench_scaling, bench_scaling_largest, bench_streamed, bench_tables, bench_users)
}

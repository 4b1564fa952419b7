"""Growth of cost with each size, largest sizes, and very many users: ``scripts/bench scaling`` and ``users``."""

from typing import Any

from benchmarks import report
from benchmarks.speed.scaling_problem import GIB, NAMES
from benchmarks.tables.markdown import figures, load_result, table, time_of

NOTHING = "Not measured yet: `scripts/bench scaling`."


def bench_scaling() -> str:
    result = report.find_result("bench_scaling")
    if result is None:
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
            (f"[{NAMES[name]}](results/bench_scaling_{name}.png)", _sizes(growth), _fixed_sizes(growth["fixed"]))
            + (time_of(growth["seconds"][-1], 2), f"{growth['exponent']:.2f}", _theory(growth["theory"]), _cost(growth))
            for name, series in result["growth"].items()
            for growth in series
        ],
    )


def bench_scaling_largest() -> str:
    result = report.find_result("bench_scaling")
    if result is None:
        return NOTHING
    return table(
        ("algorithm", "size", "largest", "memory", "limit"),
        [
            (
                NAMES[largest["algorithm"]],
                largest["what"],
                _size(largest),
                f"{largest['bytes'] / GIB:.1f} GiB",
                largest["bound"],
            )
            for largest in result["largest"]
        ],
    )


def bench_users() -> str:
    header = ("users", "steps", "losses in memory", "a step", "reading once", "ratio", "compile", "peak memory")
    rows = []
    for row in load_result("bench_users")["rows"]:
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
    (row,) = load_result("bench_streamed")["rows"]
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
    (row,) = load_result("bench_tables")["rows"]
    more, chosen = row["more"], load_result("bench_tables")["settings"]["chosen here"]
    times = time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2)
    rate = f"{figures(more['users_a_second'] / 1e6, 2)} million"
    sizes = f"{more['users']:,}", chosen["COLUMNS"], f"{more['gib']:.1f} GiB"
    return table(header, [(*sizes, *times, rate, time_of(row["compile_s"], 2), f"{more['peak_gib']:.1f} GiB")])


def bench_people() -> str:
    header = ("rows", "people", "files", "a scan", "pyarrow's group-by", "ratio", "first search")
    header += ("peak memory", "of the group-by")
    (row,) = load_result("bench_people")["rows"]
    more, times = row["more"], (time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2))
    sizes = f"{more['rows']:,}", f"{more['people']:,}", f"{more['gib']:.1f} GiB"
    peaks = f"{more['peak_gib']:.1f} GiB", f"{more['peer_peak_gib']:.1f} GiB"
    return table(header, [(*sizes, *times, time_of(more["first_s"], 2), *peaks)])


def bench_engines() -> str:
    header = ("engine", "users", "a scan", "NumPy's sums", "ratio", "users a second", "first search")
    lines = []
    for row in load_result("bench_engines")["rows"]:
        more, times = row["more"], (time_of(row["ours_s"], 2), time_of(row["peer_s"], 2), figures(row["ratio"], 2))
        rate = f"{figures(more['users_a_second'] / 1e6, 2)} million"
        lines.append((more["engine"], f"{more['users']:,}", *times, rate, f"{time_of(row['compile_s'], 2)} more"))
    return table(header, lines)


def _sizes(growth: dict[str, Any]) -> str:
    return f"{growth['variable']}, {growth['sizes'][0]:,} to {growth['sizes'][-1]:,}"


def _fixed_sizes(fixed: dict[str, Any]) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in fixed.items())


def _theory(exponents: list[float]) -> str:
    low, high = exponents
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _cost(growth: dict[str, Any]) -> str:
    return f"{growth['cost']}; {growth['where']}" if growth["where"] else growth["cost"]


def _size(largest: dict[str, Any]) -> str:
    size = f"{largest['size']:,}"
    return f"{size} ({figures(largest['parameters'] / 1e6, 3)} million parameters)" if "parameters" in largest else size


BLOCKS = {
    block.__name__: block
    for block in (
        bench_engines,
        bench_people,
        bench_scaling,
        bench_scaling_largest,
        bench_streamed,
        bench_tables,
        bench_users,
    )
}

"""How low the searches get."""

from typing import Any

from benchmarks.tables.markdown import stored, table

RESULT = "bench_search"
FREE, BEFORE, UNTUNED = "minimize - random search", "minimize - before", "minimize - default parameters"


def compared() -> str:
    """A row for each problem, at the budget that all were run with."""
    rows = []
    for row in stored(RESULT)["problems"].values():
        level = _level()
        sizes = f"{row['users']:,}, {row['dimensions']}, {row['evaluations']}"
        means = [row["mean"][name][row["budgets"].index(level)] for name in ("random search", "minimize")]
        pairs = [row["paired"].get(name, {}).get(level) for name in (FREE, BEFORE, UNTUNED)]
        method = row["method"][level].partition(":")[0]
        rows.append((row["title"], sizes, method, *(f"{mean:.4f}" for mean in means), *map(_said, pairs)))
    header = (
        "problem", "users, dimensions, evaluations", "method", "random search, not private", "`minimize`",
        "difference from random search", "from Algorithm 1's units", "from default parameters",
    )  # fmt: skip
    return table(header, rows)


def totals() -> str:
    """One line for each comparison."""
    lines = []
    for name, by_mu in stored(RESULT)["totals"].items():
        counts = by_mu[_level()]
        said = ", ".join(f"{verdict} on {count}" for verdict, count in counts.items())
        lines.append(f"- {name.replace('minimize', '`minimize`', 1)}: {said}.")
    return "\n".join(lines)


def _level() -> str:
    found = stored(RESULT)["settings"]["chosen here"]["mu"]
    return "1" if "1" in found else found[0]


def _said(pair: dict[str, Any] | None) -> str:
    if pair is None:
        return ""
    low, high = pair["95%"]
    mark = {"better": "**", "worse": "_"}.get(pair["verdict"], "")
    return f"{mark}{pair['mean difference']:+.4f}{mark} ({low:+.4f} to {high:+.4f})"


BLOCKS = {"bench_search": compared, "bench_search_totals": totals}

"""Figures of silos: what attacks find, how good choices are, and what a round costs."""

from typing import Any

from benchmarks.tables.markdown import figures, load_result, table, time_of

VERDICTS = {"holds": "holds", "broken, as it must be": "attack succeeds"}
SAID = {"gdp": "mu", "dp": "epsilon"}


def audit_silos() -> str:
    header = ("attack", "claimed", "at least, at 95 %", "verdict")
    lines = [
        (row["name"], _level(row, row["claimed"]), _level(row, row["measured"]), VERDICTS[row["verdict"]])
        for row in load_result("audit_silos")["rows"]
    ]
    return table(header, lines)


def bench_silo_choices() -> str:
    summary = load_result("bench_silo_choices")["summary"]
    names = list(next(iter(summary.values())))
    lines = []
    for budget, row in summary.items():
        cells = []
        for name in names:
            _, low, high = row[name]["sums less this"]
            against = "" if name == "sums" else f" ({low:+.4f} to {high:+.4f})"
            cells.append(f"{row[name]['mean']:.4f}{against}")
        lines.append((budget.removeprefix("epsilon "), *cells))
    units = {"sums": "of a user", "votes": "of a silo", "each silo alone": "of a user"}
    heads = [f"{name}, {units[name]}" if name in units else name for name in names]
    return table(("epsilon", *heads), lines)


def bench_silos() -> str:
    header = ("silos", "a round, direct calls", "a round in Flower's simulation", "a request", "an answer")
    lines = []
    for row in load_result("bench_silos")["rows"]:
        more = row["more"]
        sizes = f"{more['request_bytes']:,} bytes", f"{more['answer_bytes']:,} bytes"
        lines.append((more["silos"], time_of(row["peer_s"], 2), time_of(row["ours_s"], 2), *sizes))
    return table(header, lines)


def _level(row: dict[str, Any], level: float) -> str:
    return f"{SAID[row['statement']['notion']]} {figures(level, 3)}"


BLOCKS = {"audit_silos": audit_silos, "bench_silo_choices": bench_silo_choices, "bench_silos": bench_silos}

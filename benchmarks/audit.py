"""``scripts/audit [NAME] [--trials N]``: attack every guarantee and print the measured levels beside the guaranteed.

docs/results/audit.json has all rows with 100,000 trials, and the time they took.
"""

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from tqdm import tqdm

from benchmarks import audits, report
from jaxdpbo import audit as _auditing

matplotlib.use("Agg")
from matplotlib import pyplot

TRIALS = 20_000
COLUMNS = 6
SAID = {"dp": "eps", "gdp": "mu", "metric_dp": "eps"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and write both files; return 1 if a row is wrong."""
    parser = argparse.ArgumentParser(
        prog="scripts/audit", description="Attack every guarantee: lower bounds at 95 % beside the guaranteed level."
    )
    parser.add_argument("name", nargs="?", help="a family, or part of a row's name; all rows by default")
    parser.add_argument("--trials", type=int, default=TRIALS, help=f"trials under each neighbour, {TRIALS} by default")
    chosen = parser.parse_args(arguments)
    if chosen.trials < 100:
        parser.error(f"--trials must be at least 100, got {chosen.trials}")
    rows = select_rows(chosen.name)
    if not rows:
        parser.error(f"no row is named {chosen.name!r}; families are {', '.join(audits.FAMILIES)}")
    start, results = time.perf_counter(), []
    for row in (bar := tqdm(rows, unit="row")):
        bar.set_description(row.name[:30].ljust(30))
        results.append(audits.measure_row(row, chosen.trials))
    print(f"\n{chosen.trials} trials under each of two neighbours: half choose the attack, half judge it\n")
    header = ("claim and attack", "notion", "claimed", "at delta", "measured", "share", "verdict")
    report.print_table(header, [_cells(result) for result in results])
    print("\nA bound may exceed a claim that is attained in one audit of 20. An audit falsifies, it never certifies.")
    stem = "audit" if chosen.name is None else "audit_part"  # a part must not replace the whole
    if chosen.name in audits.FAMILIES:
        stem = f"audit_{chosen.name.replace(' ', '_')}"
    out = report.folder("audit")
    seconds = round(time.perf_counter() - start, 1)
    record = [_record(result) for result in results]
    report.write_result(
        out / f"{stem}.json",
        {"trials": chosen.trials, "rows": record},
        seeds={"first neighbour": 0, "second neighbour": 1},
        noise="both",
        dtype="float32",
        settings={"printed in the paper": {}, "chosen here": {"trials": chosen.trials, "name": chosen.name}},
        started=start,
    )
    if drawn := [result for result in results if len(result.curve.type_one)]:
        _plot(drawn, out / f"{stem}.png")
    wrong = [result.row.name for result in results if not result.is_right]
    print(f"{seconds:.0f} s; " + (f"WRONG: {'; '.join(wrong)}" if wrong else "all as it must be"))
    return int(bool(wrong))


def select_rows(name: str | None) -> list[audits.Row]:
    """All rows, the rows of a family, or the rows with ``name`` in their name."""
    if name in audits.FAMILIES:
        return audits.FAMILIES[name]()
    every = [row for rows in audits.FAMILIES.values() for row in rows()]
    return [row for row in every if name is None or name in row.name]


def _cells(result: audits.Found) -> tuple[Any, ...]:
    row = result.row
    notion = f"{row.statement.notion} {SAID[row.statement.notion]}"
    share = f"{result.measured_level / row.claimed_level:.2f}"
    delta = f"{row.statement.delta:g}" if row.statement.delta else ""
    return row.name, notion, f"{row.claimed_level:.4f}", delta, f"{result.measured_level:.4f}", share, result.verdict


def _record(result: audits.Found) -> dict[str, Any]:
    row, audit = result.row, result.audit
    return {
        "name": row.name,
        "must hold": row.holds,
        "statement": row.statement.to_dict(),
        "distance": row.distance,
        "claimed": row.claimed_level,
        "measured": result.measured_level,
        "audit": {name: _json_value(value) for name, value in audit._asdict().items()},
        "verdict": result.verdict,
    }


def _json_value(value: Any) -> Any:
    return value if math.isfinite(value) else str(value)


def _plot(results: list[audits.Found], path: Any) -> None:
    """A small panel a row: no attack may come under the line."""
    lines = -(-len(results) // COLUMNS)
    figure, axes = pyplot.subplots(lines, COLUMNS, figsize=(2.1 * COLUMNS, 2.35 * lines), sharex=True, sharey=True)
    panels = np.atleast_1d(axes).ravel()
    rates = np.linspace(0, 1, 401)
    for axis, result in zip(panels, results, strict=False):
        row = result.row
        allowed = audits.claim("gdp" if row.level_name == "mu" else "dp", row.claimed_level, delta=row.statement.delta)
        axis.plot(rates, _auditing.declared_trade_off(allowed, rates), color="black", linewidth=1, label="claimed")
        ends = (np.append(np.insert(rates, 0, end), 1 - end) for rates, end in zip(result.curve, (0, 1), strict=True))
        colour = "C0" if row.holds else "C3"
        axis.plot(*ends, ".-", color=colour, markersize=3, linewidth=0.7, label="measured")
        axis.set_title("\n".join(_title_lines(row.name)), fontsize=6.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=6)
    for axis in panels[len(results) :]:
        axis.set_visible(False)
    panels[0].legend(frameon=False, fontsize=6)
    figure.supxlabel('"second" said of the first neighbour', fontsize=8)
    figure.supylabel('"first" said of the second', fontsize=8)
    figure.tight_layout()
    report.save_figure(figure, path)
    pyplot.close(figure)


def _title_lines(name: str) -> list[str]:
    """In lines of a panel's width."""
    lines = [""]
    for word in name.split():
        if len(lines[-1]) + len(word) > 28:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


if __name__ == "__main__":
    raise SystemExit(main())

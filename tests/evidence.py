"""The counts of ``--full``: rows under results/, kept between runs, and docs/test_counts.md, a line for each test."""

import datetime
import json
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ROWS, PAGE = ROOT / "results" / "evidence.json", ROOT / "docs" / "test_counts.md"
HEAD = """# Counts of the tests

Read this page to see how often each statistical test repeated its trial. `scripts/test --full` writes the page: for
each test with a count, the number of cases, the least count of a case, and the date and commit of the run. Run
`scripts/test` to repeat the same tests with smaller counts, or `scripts/test --full` for these counts.

| test | cases | count | date | commit |
|---|---|---|---|---|
"""
LINE = re.compile(r"^\| (\S+::\w+) \| (\d+) \| ([\d,]+) \| ([\d-]+) \| (\w+) \|$", re.MULTILINE)
SECTION = re.compile(r"^## (.+?)\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
CONFORMANCE, MUTANTS = "What is drawn is what is charged", "Mutants"


def today() -> dict[str, str]:
    """The date and the commit of a run."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "commit": head}


def record(rows: list[dict[str, Any]], path: Path = ROWS, page: Path = PAGE) -> None:
    """Add rows, each with "test", "count", "date" and "commit"; they replace earlier rows of these tests."""
    kept = json.loads(path.read_text()) if path.exists() else []
    ran = {row["test"] for row in rows}
    rows = rows + [row for row in kept if row["test"] not in ran and is_defined(row["test"])]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(sorted(rows, key=lambda row: row["test"]), indent=1) + "\n")
    lines = {line[1]: line[0] for line in LINE.finditer(page.read_text())} if page.exists() else {}
    by_test: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_test.setdefault(row["test"].partition("[")[0], []).append(row)
    for test, cases in by_test.items():
        first = min(cases, key=lambda row: row["date"])
        least = min(row["count"] for row in cases)
        lines[test] = f"| {test} | {len(cases)} | {least:,} | {first['date']} | {first['commit'][:8]} |"
    write_page(page, lines, sections_of(page))


def record_mutants(
    packages: dict[str, dict[str, int]], command: str, date: str, commit: str, page: Path = PAGE
) -> None:
    """Write on the page how many mutants of each package a test saw."""
    kinds = "drawn", "killed", "time", "survived", "equivalent"
    rows = []
    for name, counts in [*packages.items(), ("all", {kind: sum(c[kind] for c in packages.values()) for kind in kinds})]:
        judged = counts["drawn"] - counts["equivalent"]
        share = f"{(counts['killed'] + counts['time']) / judged:.1%}" if judged else ""
        rows.append(f"| {name} | {' | '.join(str(counts[kind]) for kind in kinds)} | {share} |\n")
    text = (
        f"`{command}` changes the package in small ways, one at a time, and runs the tests that enter\n"
        f"the changed function ({date}, {commit[:8]}). An equivalent change alters nothing that a test could see; "
        "`tests/mutants/equivalents.json` gives the reasons. The share is of the other changes.\n\n"
        "| package | drawn | killed | killed by time | survived | equivalent | share killed |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    _record_section(MUTANTS, text + "".join(rows), page)


def record_conformance(rows: list[dict[str, Any]], date: str, commit: str, page: Path = PAGE) -> None:
    """Write on the page what each route drew, and what it states and charges; rows of one route add up."""
    routes: dict[str, dict[str, Any]] = {}
    for row in rows:
        routes.setdefault(row["route"], {}).update(row)
    names = "route", "draws", "neighbours", "composed", "stated", "charged"
    lines = [f"| {' | '.join(str(row.get(name, '')) for name in names)} |\n" for _, row in sorted(routes.items())]
    text = (
        f"`scripts/test --full` records every draw of a run with what the noise was added to, and plays the run on\n"
        f"neighbours ({date}, {commit[:8]}). Composed is what the worst neighbour's draws cost, by code that shares\n"
        "nothing with the package's accounting; stated is the guarantee; charged is what a ledger adds up.\n\n"
        "| route | draws | neighbours | composed | stated | charged |\n|---|---|---|---|---|---|\n"
    )
    _record_section(CONFORMANCE, text + "".join(lines), page)


def _record_section(title: str, text: str, page: Path) -> None:
    lines = {line[1]: line[0] for line in LINE.finditer(page.read_text())}
    write_page(page, lines, sections_of(page) | {title: f"## {title}\n\n{text}"})


def write_page(page: Path, lines: dict[str, str], sections: dict[str, str]) -> None:
    """Write the lines of all tests that still exist, and the sections by title."""
    rows = "".join(f"{line}\n" for test, line in sorted(lines.items()) if is_defined(test))
    page.write_text("\n".join([HEAD + rows, *(text.rstrip() + "\n" for _, text in sorted(sections.items()))]))


def sections_of(page: Path) -> dict[str, str]:
    """The sections below the table of counts, by title."""
    return {found[1]: found[0] for found in SECTION.finditer(page.read_text())} if page.exists() else {}


def is_left_out(path: Path) -> bool:
    """Whether a file is of the benchmarks, in an archive without them."""
    benchmarks = ROOT / "benchmarks"
    return path.resolve().is_relative_to(benchmarks) and not benchmarks.exists()


def is_defined(nodeid: str) -> bool:
    """Whether the file of a test id still defines its function, or imports it in a list of names."""
    file, _, name = nodeid.partition("::")
    path, function = ROOT / file, name.partition("[")[0]
    text = path.read_text() if path.is_file() else ""
    return f"\ndef {function}(" in text or f"\n    {function},\n" in text

"""The counts of ``--full``: rows under results/, kept between runs, and docs/evidence.md, a line for each test."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ROWS, PAGE = ROOT / "results" / "evidence.json", ROOT / "docs" / "evidence.md"
HEAD = """# Counts of the tests

Read this page to see how often each statistical test repeated its trial. `scripts/test --full` writes the page: for
each test with a count, the number of cases, the least count of a case, and the date and commit of the run. Run
`scripts/test` to repeat the same tests with smaller counts, or `scripts/test --full` for these counts.

| test | cases | count | date | commit |
|---|---|---|---|---|
"""
LINE = re.compile(r"^\| (\S+::\w+) \| (\d+) \| ([\d,]+) \| ([\d-]+) \| (\w+) \|$", re.MULTILINE)
MUTANTS = re.compile(r"^`scripts/test --mutants`: .*$", re.MULTILINE)


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
    write_page(page, lines, mutants_of(page))


def record_mutants(counts: dict[str, Any], date: str, commit: str, page: Path = PAGE) -> None:
    """Write on the page how many mutants of the package a test saw."""
    sentence = (
        f"`scripts/test --mutants`: {counts['count']} mutants, {counts['killed']} killed, {counts['time']} killed by "
        f"time, {counts['survived']} survived, {counts['equivalent']} equivalent; {counts['score']:.1%} killed "
        f"({date}, {commit[:8]})."
    )
    write_page(page, {line[1]: line[0] for line in LINE.finditer(page.read_text())}, sentence)


def write_page(page: Path, lines: dict[str, str], mutants: str) -> None:
    """Write the lines of all tests that still exist."""
    rows = "".join(f"{line}\n" for test, line in sorted(lines.items()) if is_defined(test))
    page.write_text(HEAD + rows + (f"\n{mutants}\n" if mutants else ""))


def mutants_of(page: Path) -> str:
    """The sentence on mutants, or nothing."""
    found = MUTANTS.search(page.read_text()) if page.exists() else None
    return found[0] if found else ""


def is_defined(nodeid: str) -> bool:
    """Whether the file of a test id still defines its function."""
    file, _, name = nodeid.partition("::")
    path, function = ROOT / file, name.partition("[")[0]
    return path.is_file() and f"\ndef {function}(" in path.read_text()

"""``scripts/numbers [--check | --confirm ITEM ...]``: what README and docs say in figures, out of docs/results.

A block stands between ``<!-- numbers: NAME -->`` and ``<!-- end -->``; ``--blocks`` prints the names. Without an option
every block is written anew. ``--check`` fails where a block differs from its JSON, or where the code of a figure has
changed since it was measured or last confirmed. ``--confirm``, where code changed and figures should not have: its
``--quick`` run is compared with docs/results/quick; where they are equal to rounding the result carries the hash
of the new code beside its own. A file of docs/results/quick is what the item gave before the change.
"""

import argparse
import datetime
import importlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

from benchmarks import fingerprint, report, reproductions
from benchmarks.bench import SEARCHES
from benchmarks.tables import BLOCKS

MARKED = re.compile(r"<!-- numbers: (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)
QUICK = report.STORED / "quick"
TOLERANCE = 1e-5  # of the largest number in a list
NOT_COMPARED = {  # provenance, prose and times
    *report.FIELDS, "commit_is", "confirmed", "figure", "data", "notes",
    "seconds", "seconds a run", "with compilation",
}  # fmt: skip
# Measured anew where their code changes: quick runs of more than two minutes, and figures that are times.
UNCONFIRMED = {
    "avent_overhead": "its figures are times: scripts/reproduce avent overhead",
}


def documents() -> list[Path]:
    docs = fingerprint.ROOT / "docs"
    return [fingerprint.ROOT / "README.md", *sorted(docs.glob("*.md")), *sorted(docs.glob("results/*.md"))]


def written(text: str) -> str:
    """The text with every block as the results have it.

    Raises:
      ValueError: a marker names no block, or is not closed.
    """
    if text.count("<!-- numbers: ") != len(MARKED.findall(text)):
        raise ValueError("every '<!-- numbers: NAME -->' needs its '<!-- end -->' and a name of letters")

    def block(found: re.Match[str]) -> str:
        if found[1] not in BLOCKS:
            raise ValueError(f"there is no block {found[1]!r}; there are {', '.join(BLOCKS)}")
        return f"<!-- numbers: {found[1]} -->\n{inside(found[1])}\n<!-- end -->"

    def inside(name: str) -> str:
        return BLOCKS[name]()

    return MARKED.sub(block, text)


def placed(path: Path) -> str:
    """A document as it should be: links are from its own folder."""
    text = written(path.read_text())
    if path.parent != fingerprint.ROOT:
        return text
    return MARKED.sub(lambda found: found[0].replace("](results/", "](docs/results/"), text)


def differing() -> list[Path]:
    """Documents in which a block is not what the results say."""
    return [path for path in documents() if placed(path) != path.read_text()]


def measured() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Each stored result by name, the module that measured it and the packages whose code its figures rest on."""
    for paper in reproductions.PAPERS:
        for item in reproductions.items(paper):
            if report.stored(f"{paper}_{item}"):
                yield f"{paper}_{item}", reproductions.module_of(paper, item), fingerprint.FIGURE
    for path in sorted(report.STORED.glob("bench_*.json")):
        name = path.stem.removeprefix("bench_")
        if name == "demo":
            from benchmarks.speed.demo import ENTRY

            yield path.stem, ENTRY, fingerprint.FIGURE
        elif name in SEARCHES:
            yield path.stem, SEARCHES[name], fingerprint.FIGURE
        else:
            yield path.stem, f"benchmarks.speed.{name}", fingerprint.DEFINITION
    yield "audit", "benchmarks.audit", fingerprint.DEFINITION


def changed() -> dict[str, str]:
    """Results whose code is neither what measured them nor what was last confirmed, with the code's hash today."""
    found = {}
    for name, entry, within in measured():
        result = report.stored(name) or {}
        now = fingerprint.digest(entry, within)
        if now not in (result["code"], result.get("confirmed", {}).get("code")):
            found[name] = now
    return found


def confirm(name: str) -> list[str]:
    """Run the item small, compare, and write the new hash into its result; what differs otherwise."""
    (entry, within) = next((entry, within) for found, entry, within in measured() if found == name)
    stored = QUICK / f"{name}.json"
    path = report.STORED / f"{name}.json"
    before = json.loads((stored if name != "bench_demo" else path).read_text())
    after = quick_result(name)
    wrong = list(differences(before, after))
    if not wrong:
        commit, modified = report.committed()
        result = json.loads(path.read_text())
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        code = fingerprint.digest(entry, within)
        result["confirmed"] = {"commit": commit, "modified": modified, "date": today, "code": code}
        report.write_json(path, result)
    return wrong


def quick_result(name: str) -> dict[str, Any]:
    """Of a run in an empty folder: nothing that an earlier run kept is used."""
    usual = report.RESULTS
    with tempfile.TemporaryDirectory() as folder:
        report.RESULTS = Path(folder)
        try:
            if name == "bench_demo":
                from benchmarks.speed import demo

                demo.main(True)
            elif name.removeprefix("bench_") in SEARCHES:
                importlib.import_module(SEARCHES[name.removeprefix("bench_")]).main(True)
            else:
                paper, _, item = name.partition("_")
                reproductions.items(paper)[item](None, True)
        finally:
            report.RESULTS = usual
        (quick,) = Path(folder).rglob("*_quick.json")
        return json.loads(quick.read_text())


def differences(before: Any, after: Any, where: str = "", scale: float = 0.0) -> Iterator[str]:
    """Where two results of an item differ by more than rounding; ``NOT_COMPARED`` does not count."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted((before.keys() | after.keys()) - NOT_COMPARED):
            if name not in before or name not in after:
                yield f"{where}.{name}: only {'after' if name in after else 'before'}"
            else:
                yield from differences(before[name], after[name], f"{where}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{where}: {len(before)} entries, {len(after)} now"
            return
        numbers = [abs(one) for one in before if isinstance(one, (int, float)) and math.isfinite(one)]
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{where}[{place}]", max(numbers, default=0.0))
    elif isinstance(before, (int, float)) and isinstance(after, (int, float)):
        if not math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE * scale + 1e-9):
            yield f"{where}: {before} before, {after} now"
    elif before != after:
        yield f"{where}: {before!r} before, {after!r} now"


def confirmable() -> list[str]:
    return [name for name, _, _ in measured() if name == "bench_demo" or (QUICK / f"{name}.json").exists()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/numbers", description="What the documents say, out of docs/results.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where something differs")
    parser.add_argument("--confirm", nargs="+", metavar="ITEM", help="such as sopa_fig1; 'changed': all that need it")
    parser.add_argument("--blocks", action="store_true", help="the names that a marker may have")
    arguments = parser.parse_args()
    if arguments.blocks:
        print("\n".join(BLOCKS))
        return 0
    if arguments.confirm:
        return confirmed(parser, arguments.confirm)
    if arguments.check:
        wrong = [f"{path.name} differs from docs/results: run scripts/numbers" for path in differing()]
        wrong += [f"{name}: its code has changed since: {advice(name)}" for name in changed()]
        print("\n".join(wrong) or "all as docs/results have it")
        return int(bool(wrong))
    for path in documents():
        text = placed(path)
        if text != path.read_text():
            path.write_text(text)
            print(f"wrote {path.relative_to(fingerprint.ROOT)}")
    return 0


def advice(name: str) -> str:
    if name in confirmable():
        return f"scripts/numbers --confirm {name}"
    return UNCONFIRMED.get(name, "measure it anew, and put the JSON into docs/results")


def confirmed(parser: argparse.ArgumentParser, names: list[str]) -> int:
    """Confirm each, say what differs; 1 where something does."""
    known = confirmable()
    names = [name for name in changed() if name in known] if names == ["changed"] else names
    if unknown := [name for name in names if name not in known]:
        parser.error(f"--confirm knows {', '.join(known)}; got {', '.join(unknown)}")
    wrong = {name: confirm(name) for name in names}
    for name, found in wrong.items():
        print(f"{name}: {'equal to rounding' if not found else 'DIFFERS'}")
        print("\n".join(f"  {one}" for one in found[:20]))
    return int(any(wrong.values()))


if __name__ == "__main__":
    raise SystemExit(main())

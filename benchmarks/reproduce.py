"""``scripts/reproduce [PAPER [ITEM]] [--quick | --full] [--seeds FIRST:LAST]``: run an item; without one, list them.

``scripts/reproduce all`` runs all items in hours and writes results/reproduction.md: the register of the papers' claims
beside the measurements. Stop it and start it again: it goes on. ``--quick`` runs small sizes in minutes and gives no
verdict.
``--seeds 100:200`` reports the seeds 100 to 199 into a file of their own.
"""

import argparse
import inspect
import json
import os
import subprocess
import sys
import time
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")  # before report imports jax

from tqdm import tqdm

from benchmarks import report, reproductions
from benchmarks.reproductions import common
from benchmarks.tables import verdicts

ALL = "all"
GROWING = ("fig3",)  # of Sopa et al.: written after every run


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="scripts/reproduce", description="Reproduce a figure or table of one of the papers."
    )
    parser.add_argument(
        "paper", nargs="?", choices=(*reproductions.PAPERS, ALL), help="a paper, or all; without it, list the papers"
    )
    parser.add_argument("item", nargs="?", help="an item, such as fig1; without it, list the paper's items")
    parser.add_argument(
        "--quick", action="store_true", help="use small sizes and few seeds; report no figure from such a run"
    )
    parser.add_argument(
        "--full", action="store_true", help="use as many runs as the paper, where the item has fewer; takes hours"
    )
    parser.add_argument(
        "--seeds",
        type=seeds_of,
        metavar="FIRST:LAST",
        help="report these seeds, without the last; from 0 by default. "
        "An item of Avent et al. with one search takes the first",
    )
    arguments = parser.parse_args()
    if arguments.paper == ALL:
        if arguments.item or arguments.seeds or arguments.full:
            parser.error("all takes --quick alone")
        raise SystemExit(run_all(arguments.quick))
    if arguments.item is None:
        print_items([arguments.paper] if arguments.paper else reproductions.PAPERS)
        return
    items = reproductions.items(arguments.paper)
    if arguments.item not in items:
        parser.error(f"{arguments.paper} has {', '.join(items)}; got {arguments.item!r}")
    taken = inspect.signature(items[arguments.item]).parameters
    if arguments.full and (arguments.quick or "full" not in taken):
        parser.error(f"--full is not for {arguments.item}" + " --quick" * arguments.quick)
    options = {"full": True} if arguments.full else {}
    items[arguments.item](seeds=arguments.seeds, quick=arguments.quick, **options)


def seeds_of(text: str) -> range:
    """``FIRST:LAST``, without the last. Step sizes are chosen on the seeds from ``common.TUNING_SEEDS`` on."""
    first, _, last = text.partition(":")
    if not (first.isdecimal() and last.isdecimal() and int(first) < int(last) <= common.TUNING_SEEDS):
        raise argparse.ArgumentTypeError(f"must be FIRST:LAST, as 100:200, up to {common.TUNING_SEEDS}, got {text}")
    return range(int(first), int(last))


def run_all(quick: bool) -> int:
    """Run each item in its own process, unless this commit has measured it; return 1 if an item failed."""
    paper_items = [(paper, item) for paper in reproductions.PAPERS for item in reproductions.items(paper)]
    rows, failed = [], 0
    for paper, item in tqdm(paper_items, unit="item"):
        log, started = report.folder("all") / f"{paper}_{item}.log", time.perf_counter()
        outcome = "measured before"
        if not _is_new(paper, item, quick):
            with log.open("w") as file:
                command = [sys.executable, "-m", "benchmarks.reproduce", paper, item, *["--quick"] * quick]
                status = subprocess.run(command, stdout=file, stderr=file, cwd=report.ROOT).returncode
            outcome = "done" if status == 0 else f"FAILED, see results/all/{log.name}"
            failed += status != 0
        rows.append((f"{paper} {item}", outcome, f"{time.perf_counter() - started:.0f} s"))
    report.print_table(("item", "status", "time"), rows, flush=(0, 1))
    if not quick:
        path = report.folder() / "reproduction.md"
        path.write_text(verdicts.page([lambda name: _read_result(*name.split("_", 1))]) + "\n")
        print(f"wrote results/{path.name}")
    return min(failed, 1)


def _read_result(paper: str, item: str, quick: bool = False) -> Any:
    path = report.RESULTS / paper / f"{item}{'_quick' * quick}.json"
    return json.loads(path.read_text()) if path.exists() else None


def _is_new(paper: str, item: str, quick: bool) -> bool:
    """Whether this commit's code wrote a whole result; a growing result has its figure only at the end."""
    result = _read_result(paper, item, quick)
    path = report.RESULTS / paper / f"{item}{'_quick' * quick}"
    whole = path.with_suffix(".png").exists() or item not in GROWING
    return result is not None and whole and not result["modified"] and result["commit"] == report.REVISION


def print_items(papers: list[str] | tuple[str, ...]) -> None:
    """A line for each item: its title, and its last time."""
    rows = []
    for paper in papers:
        for item, function in reproductions.items(paper).items():
            stored = report.find_result(f"{paper}_{item}")
            title = stored["figure"] if stored else (inspect.getdoc(function) or item).partition("\n")[0]
            rows.append((f"{paper} {item}", report.last_time(stored), title))
    report.print_table(("item", "last took", "title"), rows, flush=(0, 2))


if __name__ == "__main__":
    main()

"""``scripts/reproduce [PAPER [ITEM]] [--quick | --full] [--seeds N]``: without an item, what there is."""

import argparse
import inspect
import os

os.environ.setdefault("JAX_ENABLE_X64", "1")  # before report imports jax

from benchmarks import report, reproductions


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description="A figure or table of one of the papers.")
    parser.add_argument("paper", nargs="?", choices=reproductions.PAPERS, help="all are listed where not given")
    parser.add_argument("item", nargs="?", help="such as fig1; the paper's are listed where not given")
    parser.add_argument("--quick", action="store_true", help="small sizes and few seeds: for a look, not a figure")
    parser.add_argument(
        "--full", action="store_true", help="as many runs as the paper, where the item has fewer: hours"
    )
    parser.add_argument("--seeds", type=int, help="how many seeds to report; the paper's number where not given")
    arguments = parser.parse_args()
    if arguments.item is None:
        listed([arguments.paper] if arguments.paper else reproductions.PAPERS)
        return
    items = reproductions.items(arguments.paper)
    if arguments.item not in items:
        parser.error(f"{arguments.paper} has {', '.join(items)}; got {arguments.item!r}")
    if arguments.seeds is not None and arguments.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {arguments.seeds}")
    if arguments.full and (arguments.quick or "full" not in inspect.signature(items[arguments.item]).parameters):
        parser.error(f"--full is not for {arguments.item}" + " --quick" * arguments.quick)
    items[arguments.item](arguments.seeds, arguments.quick, **{"full": True} if arguments.full else {})


def listed(papers: list[str] | tuple[str, ...]) -> None:
    """A line for each item: what it is, and how long it last took."""
    rows = []
    for paper in papers:
        for item, function in reproductions.items(paper).items():
            stored = report.stored(f"{paper}_{item}")
            title = stored["figure"] if stored else (inspect.getdoc(function) or item).partition("\n")[0]
            rows.append((f"{paper} {item}", report.last_time(stored), title))
    report.print_table(("item", "last took", "what"), rows, flush=(0, 2))


if __name__ == "__main__":
    main()

"""``scripts/reproduce PAPER ITEM [--quick | --full] [--seeds N]``."""

import argparse
import importlib
import inspect

PAPERS = ("sopa", "kusner", "kharkovskii", "avent")


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/reproduce", description="A figure or table of one of the papers.")
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("item", help="such as fig1; 'list' prints what there is")
    parser.add_argument("--quick", action="store_true", help="small sizes and few seeds: for a look, not a figure")
    parser.add_argument(
        "--full", action="store_true", help="as many runs as the paper, where the item has fewer: hours"
    )
    parser.add_argument("--seeds", type=int, help="how many seeds to report; the paper's number where not given")
    arguments = parser.parse_args()
    items = importlib.import_module(f"benchmarks.reproductions.{arguments.paper}").ITEMS
    if arguments.item == "list":
        print("\n".join(items))
        return
    if arguments.item not in items:
        parser.error(f"{arguments.paper} has {', '.join(items)}; got {arguments.item!r}")
    if arguments.seeds is not None and arguments.seeds < 1:
        parser.error(f"--seeds must be at least 1, got {arguments.seeds}")
    if arguments.full and (arguments.quick or "full" not in inspect.signature(items[arguments.item]).parameters):
        parser.error(f"--full is not for {arguments.item}" + " --quick" * arguments.quick)
    items[arguments.item](arguments.seeds, arguments.quick, **{"full": True} if arguments.full else {})


if __name__ == "__main__":
    main()

"""``scripts/bench [NAME] [--quick] [options of one NAME]``: without a name, what there is."""

import argparse
import importlib
from pathlib import Path

from benchmarks import report
from benchmarks.speed import NAMES

SEARCHES = {  # of losses, not of speed
    "search": "benchmarks.search.bench",
    "sklearn": "benchmarks.search.held_out",
    "private_tuning": "benchmarks.search.private_tuning",
    "blocks": "benchmarks.search.blocks",
    "repetitions": "benchmarks.search.repetitions",
}
OPTIONS = {
    "first_answer": {"against"},
    "search": {"problems", "methods", "budgets", "seeds"},
    "sklearn": {"seeds"},
    "private_tuning": {"problems", "methods", "budgets", "seeds"},
    "blocks": {"seeds"},
}
MODULES = {name: f"benchmarks.speed.{name}" for name in NAMES} | SEARCHES


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Speed and memory beside a peer's, in one run.")
    parser.add_argument("name", nargs="?", choices=MODULES, help="all are listed where not given")
    parser.add_argument(
        "--quick", action="store_true", help="few repetitions and small sizes: for a look, not a figure"
    )
    parser.add_argument("--against", type=Path, help="of first_answer: another checkout, timed in the same run")
    parser.add_argument("--problems", nargs="+", help="of search and private_tuning: some problems, where not all")
    parser.add_argument("--methods", nargs="+", help="of search and private_tuning: what to compare")
    parser.add_argument(
        "--mu",
        nargs="+",
        type=float,
        dest="budgets",
        help="of search: budgets, inf among them; of private_tuning: epsilons",
    )
    parser.add_argument("--seeds", type=int, help="of the comparisons of losses: how many")
    arguments = parser.parse_args()
    if arguments.name is None:
        rows = [
            (name, report.last_time(report.stored(f"bench_{name}")), report.first_line(module))
            for name, module in MODULES.items()
        ]
        report.print_table(("name", "last took", "what"), rows, flush=(0, 2))
        return
    options = {name: value for name, value in vars(arguments).items() if value is not None}
    own = set(options) - {"name", "quick"}
    if foreign := own - OPTIONS.get(options["name"], set()):
        parser.error(f"{options['name']} takes no {', '.join(sorted(foreign))}")
    importlib.import_module(MODULES[options["name"]]).main(arguments.quick, **{name: options[name] for name in own})


if __name__ == "__main__":
    main()

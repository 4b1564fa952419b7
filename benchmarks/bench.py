"""``scripts/bench NAME [--quick] [--against CHECKOUT]``."""

import argparse
import importlib
from pathlib import Path

from benchmarks.speed import NAMES


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Speed and memory beside a peer's, in one run.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument(
        "--quick", action="store_true", help="few repetitions and small sizes: for a look, not a figure"
    )
    parser.add_argument("--against", type=Path, help="of first_answer: another checkout, timed in the same run")
    arguments = parser.parse_args()
    if arguments.against is not None and arguments.name != "first_answer":
        parser.error("--against is for first_answer alone")
    importlib.import_module(f"benchmarks.speed.{arguments.name}").main(
        arguments.quick, **({} if arguments.against is None else {"against": arguments.against})
    )


if __name__ == "__main__":
    main()

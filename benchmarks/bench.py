"""``scripts/bench NAME [--quick]``."""

import argparse
import importlib

from benchmarks.speed import NAMES


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Speed and memory beside a peer's, in one run.")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument(
        "--quick", action="store_true", help="few repetitions and small sizes: for a look, not a figure"
    )
    arguments = parser.parse_args()
    importlib.import_module(f"benchmarks.speed.{arguments.name}").main(arguments.quick)


if __name__ == "__main__":
    main()
